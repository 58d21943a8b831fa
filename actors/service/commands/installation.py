"""The commands that come before a first run: they fetch jars, and write configurations."""

import asyncio
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from actors.runtime.logs import escape_in_lines
from actors.service.commands.conventions import EXIT_CODES, fail
from actors.service.config_file import ENVIRONMENT
from pipeline.errors import Definite, TidemarkError

STDOUT: Final = Path("-")
_PORT: Final = click.IntRange(1, 65535)
_USER: Final = "tidemark"
_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command(epilog=EXIT_CODES)
@click.option(
    "--repository",
    metavar="URL",
    help="The Maven repository to fetch from, such as your company's mirror. By default the central one.",
)
@click.option("--ca", type=_FILE, help="Certificates (PEM) to trust there. By default Java's own.")
@click.option(
    "--jars",
    "source",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Take the jars from this folder, and fetch nothing. For a machine without a network.",
)
@click.option("--into", type=click.Path(path_type=Path), help="Another folder; name it in spark.jars.")
@click.option(
    "--s3", is_flag=True, help="The jars for a lake in S3 too. It needs Java, whatever else is given."
)
@click.option("--list", "listing", is_flag=True, help="Only print the jars with their SHA-256.")
def setup(
    repository: str | None,
    ca: Path | None,
    source: Path | None,
    into: Path | None,
    *,
    s3: bool,
    listing: bool,
) -> None:
    """Fetch the jars that PySpark lacks to write Delta, and check each by its SHA-256.

    Run it once after an installation by pip, and after another Java has been installed. It needs Java. A run finds the
    jars by itself, unless spark.jars names others. Then it makes an archive of Spark's classes (190 MB), with which
    each start of Spark takes some 4 s less; with --into it makes none.
    """
    from actors.service.installation import pinned_jars, s3_jars

    locks = [pinned_jars.DELTA_LOCK, *([s3_jars.S3_LOCK] if s3 else [])]
    if listing:
        click.echo("".join(lock.read_text(encoding="utf-8") for lock in locks), nl=False)
        return
    if source is not None and (repository or ca):
        raise click.UsageError("--jars fetches nothing, so that --repository and --ca have no use with it")
    folder = pinned_jars.installed_folder() if into is None else into.resolve()
    for lock in locks:
        if source is None:
            bring = partial(_fetch_jars, lock, repository, ca)
        else:
            bring = partial(pinned_jars.copy_jars, lock, source)
        installed = pinned_jars.install_jars(lock, folder, bring)
        what = "S3's jars" if lock is s3_jars.S3_LOCK else "Delta's jars"
        click.echo(f"{folder} {'has' if installed else 'had'} {what}, with the checksums that are pinned")
    if s3:
        s3_jars.compile_log_store(folder, folder, *_java_and_pyspark())
    if into is None:
        _archive_classes(folder)


def _archive_classes(jars: Path) -> None:
    """Makes the archive of Spark's classes. A run does without it, so that a failure is only told."""
    from actors.service.installation.spark_classes import archive_spark_classes

    click.echo("Spark starts once, so that its later starts take less time …")
    try:
        _check_java()
        click.echo(f"{archive_spark_classes([jars])} has Spark's classes as a start needs them")
    except TidemarkError as error:
        click.echo(f"each start of Spark will take some 4 s more: {error}", err=True)


def _fetch_jars(lock: Path, repository: str | None, ca: Path | None, into: Path) -> None:
    """Puts the jars of a lock into a folder. Raises Definite or Transient."""
    from actors.service.installation import pinned_jars
    from actors.service.installation.java_truststore import write_truststore

    trust = None
    if ca is not None:
        trust = into / "trust"
        write_truststore(ca, trust)
    pinned_jars.retrieve_jars(lock, into, *_java_and_pyspark(), repository, trust)


def _java_and_pyspark() -> tuple[Path, Path]:
    """Returns Java, and the folder of the package that has Ivy and a compiler. Raises Definite without Java."""
    from importlib.util import find_spec

    from actors.lake.spark.java import java_program

    _check_java()
    spark, java = find_spec("pyspark"), java_program()
    assert spark is not None and spark.origin is not None and java is not None
    return Path(java), Path(spark.origin).parent


def _check_java() -> None:
    """Raises Definite if Spark can't run on the Java of this machine."""
    from actors.service.start_checks import java_findings

    for finding in java_findings():
        raise Definite(f"{finding.wrong}; {finding.remedy}")


def _free_path(context: click.Context, _: click.Parameter, path: Path | None) -> Path | None:
    """A file that isn't there yet. `-` is standard output."""
    if path is None or path == STDOUT or context.resilient_parsing:  # with which a shell completes
        return path
    if path.exists():
        fail(f"{path} is there already, and isn't overwritten; give another --output, or move it away", 2)
    return path


def _ask(what: str, option: str, default: Any = None, type_: click.ParamType[Any] | None = None) -> Any:
    """Returns the answer to a question on standard error, or the default where nothing answers, as in a container."""
    try:
        return click.prompt(what, default=default, type=type_, err=True)
    except click.Abort:
        if sys.stdin.isatty():
            raise
        if default is None:
            raise click.UsageError(f"there's no terminal to ask at: give {option}") from None
        click.echo(err=True)
        return default


@click.command(epilog=EXIT_CODES)
@click.option("--host")
@click.option("--port", type=_PORT, show_default="3306")
@click.option("--user", show_default=_USER)
@click.option(
    "--password-file",
    type=click.Path(path_type=Path),
    default=None,
    help="The file that holds the password. Without it TIDEMARK__SOURCE__PASSWORD has the password.",
)
@click.option(
    "--tls", type=click.Choice(["verify", "required", "disabled"]), default="verify", show_default=True
)
@click.option("--tls-ca", type=click.Path(path_type=Path), help="Certificates (PEM) to trust.")
@click.option(
    "--database",
    "-d",
    "databases",
    multiple=True,
    metavar="NAME",
    help="Only this one; several may be given.",
)
@click.option("--server-id", type=click.IntRange(1, 2**32 - 1), help="By default a random one.")
@click.option("--name", help="The pipeline's name; by default the file's.")
@click.option("--journal", default="journal", show_default=True, metavar="PATH")
@click.option("--lake", default="lake", show_default=True, metavar="PATH", help="A folder or a URI.")
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path),
    default=Path("shop.toml"),
    show_default=True,
    is_eager=True,
    callback=_free_path,
    help="The file to write, or - for standard output.",
)
def init(output: Path, **answers: Any) -> None:
    """Look at a source by queries alone, and write a configuration for it with comments.

    It asks for what the options don't say. Where something keeps the source from being captured it writes nothing,
    and says what to do. It runs none of these statements itself.
    """
    from actors.service.installation.first_look import Answers, starter_configuration
    from actors.service.table_listing import listing

    if answers["host"] is None:
        answers["host"] = _ask("MySQL server's host", "--host")
    if answers["port"] is None:
        answers["port"] = _ask("Port", "--port", 3306, _PORT)
    if answers["user"] is None:
        answers["user"] = _ask("User", "--user", _USER)
    if answers["password_file"] is None and ENVIRONMENT + "SOURCE__PASSWORD" not in os.environ:
        answers["password_file"] = Path(_ask("File that holds the password", "--password-file"))
    file = None if output == STDOUT else output
    look, text = asyncio.run(starter_configuration(Answers(**answers), file))
    for finding in look.findings:
        click.echo(escape_in_lines(str(finding)), err=True)
    if look.errors:
        fail(f"{len(look.errors)} to fix at the source; no configuration was written", 1)
    if file is None:
        click.echo(text, nl=False)
        return
    try:
        with file.open("x", encoding="utf-8") as made:
            made.write(text)
    except OSError as error:
        fail(f"{file} can't be written: {error.strerror}", 2)
    for line in listing(look.tables):
        click.echo(line)
    click.echo(f"{file} is written. Read it, then: tidemark check {file}")


@click.command(name="import-debezium")
@click.argument("connector", type=click.Path(path_type=Path))
@click.option(
    "--offsets",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Connect's offsets: its topic as the console consumer prints it with keys, its offset file, or what "
    "GET /connectors/NAME/offsets answers. Capture then begins where the connector stopped, without a snapshot.",
)
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path),
    callback=_free_path,
    help="The file to write, once the connector is converted. Without it the configuration is printed.",
)
@click.option(
    "--protect",
    is_flag=True,
    help="Columns that the connector masks, hashes, cuts or leaves out are protected in the journal and the lake too.",
)
def import_debezium(connector: Path, offsets: Path | None, output: Path | None, *, protect: bool) -> None:
    """Print the configuration for a Debezium MySQL connector's JSON.

    CONNECTOR is the file that defined the connector, Kafka Connect's answer to a query for it, or the
    application.properties of Debezium Server. Standard error
    says, by property, what can't be converted and what's left to do. A connector that masks columns gets no
    lake, which would show them, unless --protect keeps their values out of it. One that withholds data in a way that
    isn't known here (a filter, …) is refused.
    """
    from actors.service.debezium_file import properties
    from pipeline.config.debezium.connector import take_over
    from pipeline.config.debezium.offsets import stopped_at

    given = properties(connector)
    stopped = None
    if offsets is not None:
        stopped = stopped_at(offsets.read_bytes(), given.get("topic.prefix", ""))
    taken = take_over(given, stopped, protect=protect)
    if output is None or output == STDOUT:
        click.echo(taken.text, nl=False)
    else:
        try:
            output.write_text(taken.text, encoding="utf-8")
        except OSError as error:
            fail(f"{output} can't be written: {error.strerror}", 2)
    click.echo(taken.report(), err=True)
