"""The command `tidemark`.

Imports that take long (Spark, numba) are made by the commands that need them, so that the others answer at
once.
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click
from click.shell_completion import CompletionItem

from actors.service import client
from actors.service.config_file import ENVIRONMENT, load
from pipeline.config.settings import Settings
from pipeline.errors import Definite, TidemarkError, Transient
from pipeline.schema.table_schema import TableId

if TYPE_CHECKING:
    from actors.service.change_text import ChangeText

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])

VERSION = "0.1.0"

EXIT_CODES = """\b
Exit codes:
  0  done, or stopped cleanly
  1  gave up after too many failures, or a failure while stopping; a signal was rejected; a check found errors;
     what was waited for hasn't come in time
  2  an error that a retry can't fix: a mistake in the configuration, a missing grant, a purged binlog;
     the message says what to do
  3  an invariant of Tidemark was broken: it ended at once; please report the log
  4  a part hung and couldn't be cancelled
"""

STDOUT = Path("-")
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)

WATCH_EVERY_S = 1.0

# How often it is asked for the result that somebody waits for.
RESULT_EVERY_S = 0.2


def _configuration(path: str) -> Settings:
    return load(Path(path))


def _duration(text: str) -> float:
    from actors.service.comparison import parse_duration

    return parse_duration(text)


class Tidemark(click.Group):
    """Turns our errors into one message and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except TidemarkError as error:
            _fail(str(error), 1 if isinstance(error, Transient) else 2)


def _complete_file(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Has the shell complete the name of a file, which it doesn't do for an argument of a type of our own."""
    return [CompletionItem(incomplete, type="file")]


config_argument = click.argument(
    "settings", metavar="CONFIG", type=_configuration, shell_complete=_complete_file
)


@click.group(cls=Tidemark, epilog=EXIT_CODES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, prog_name="tidemark")
def main() -> None:
    """Captures the changes of a MySQL server, only reading it, and lands them exactly once.

    Delta tables and topics of Kafka get them.

    CONFIG is a TOML file. The environment can set any of its keys as TIDEMARK__SECTION__KEY.

    \b
    tidemark setup                       fetch Delta's jars, once after pip install
    tidemark init -o shop.toml           look at a source, and write a configuration for it
    tidemark check shop.toml             check the configuration and the source
    tidemark run shop.toml               capture and deliver until SIGTERM
    tidemark signal shop.toml execute    snapshot the tables while changes stream
    tidemark status shop.toml --watch    show the progress
    tidemark tables shop.toml            list the captured tables
    tidemark sql shop.toml shop.orders   print the query that reads a table as of now
    tidemark views shop.toml             print the statements that make views of all tables
    tidemark verify shop.toml            compare the lake with the source
    tidemark wait shop.toml              wait until readers see what the source has by now
    tidemark tail shop.toml              follow the changes, like tail -f
    tidemark import-debezium connector.json > shop.toml
    """


@main.command(epilog=EXIT_CODES)
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

    Run it once after an installation by pip. It needs Java. A run finds the jars by itself, unless spark.jars names
    others.
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

    from actors.service.start_checks import java_findings, java_program

    for finding in java_findings():
        raise Definite(f"{finding.wrong}; {finding.remedy}")
    spark, java = find_spec("pyspark"), java_program()
    assert spark is not None and spark.origin is not None and java is not None
    return Path(java), Path(spark.origin).parent


def _free_path(context: click.Context, _: click.Parameter, path: Path) -> Path:
    """A file that isn't there yet. `-` is standard output."""
    if path != STDOUT and path.exists() and not context.resilient_parsing:  # which a shell completes with
        _fail(f"{path} is there already, and isn't overwritten; give another --output, or move it away", 2)
    return path


@main.command(epilog=EXIT_CODES)
@click.option("--host", prompt="MySQL server's host")
@click.option("--port", type=click.IntRange(1, 65535), default=3306, show_default=True, prompt=True)
@click.option("--user", default="tidemark", show_default=True, prompt=True)
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

    if answers["password_file"] is None and ENVIRONMENT + "SOURCE__PASSWORD" not in os.environ:
        answers["password_file"] = Path(click.prompt("File that holds the password"))
    file = None if output == STDOUT else output
    look, text = asyncio.run(starter_configuration(Answers(**answers), file))
    for finding in look.findings:
        click.echo(str(finding), err=True)
    if look.errors:
        _fail(f"{len(look.errors)} to fix at the source; no configuration was written", 1)
    if file is None:
        click.echo(text, nl=False)
        return
    try:
        with file.open("x", encoding="utf-8") as made:
            made.write(text)
    except OSError as error:
        _fail(f"{file} can't be written: {error.strerror}", 2)
    for line in listing(look.tables):
        click.echo(line)
    click.echo(f"{file} is written. Read it, then: tidemark check {file}")


@main.command(epilog=EXIT_CODES)
@config_argument
def run(settings: Settings) -> None:
    """Capture and deliver until SIGTERM or SIGINT.

    It continues where the last run ended, for any reason. A signal to stop ends the reading, seals and
    delivers what was read, and exits. A second one exits at once, and the next run delivers the rest.
    """
    from actors.runtime import malloc, process_limits
    from actors.service import no_pandas

    process_limits.raise_descriptor_limit()
    process_limits.restrict_new_files(settings.umask)
    malloc.use_one_arena()
    no_pandas.block_pandas()
    if settings.spark.by_connect:
        no_pandas.stand_in_for_pandas()
    import uvloop

    from actors.runtime import logs
    from actors.runtime.recent_events import RecentEvents
    from actors.service import warm_up as loading

    recent = RecentEvents()
    logs.configure(settings.name, recent=recent)
    loading.import_all()

    from actors.runtime.supervisor import ExitCode
    from actors.service import assembly

    runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
    outcome = runner.run(assembly.serve(settings, recent))
    if outcome.code is ExitCode.CLEAN:
        runner.close()
        return
    # No thread that may still be at work is waited for.
    click.echo(f"tidemark: {outcome.message}", err=True)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(outcome.code)


@main.command()
@config_argument
def check(settings: Settings) -> None:
    """List all that would keep a run from working, then the tables that it would capture.

    It looks at the source, the grants, the folders, the port, Java, Spark's jars and Kafka.

    First comes the configuration that holds, with what the environment and the defaults say, and stars for secrets.
    """
    from actors.service import warm_up as loading
    from pipeline.config.effective_settings import effective_toml
    from pipeline.source.finding import Severity

    click.echo(effective_toml(settings))
    with loading.log_compilation(partial(click.echo, err=True)):
        from actors.lake import spark_session
        from actors.service import start_checks, table_listing

    findings = asyncio.run(start_checks.find_mistakes(settings))
    for finding in findings:
        click.echo(str(finding))
    errors = sum(finding.severity is Severity.ERROR for finding in findings)
    with contextlib.suppress(TidemarkError):  # which is among the findings
        for line in table_listing.listing(asyncio.run(table_listing.planned_tables(settings))):
            click.echo(line)
    if errors:
        _fail(f"{errors} to fix before it can run", 1)
    well = "all is well" if not findings else "it can run"
    click.echo(f"{well}, with {spark_session.check_spark(settings.spark)}")


@main.command(name="signal")
@config_argument
@click.argument("action", type=click.Choice(["execute", "stop", "pause", "resume", "recapture"]))
@click.option(
    "--tables",
    "-t",
    multiple=True,
    metavar="REGEX",
    help="Tables, as database.table; more than one may be given.",
)
@click.option("--id", "id_", metavar="ID", help="The signal's id. A repeated id takes effect once.")
@click.option(
    "--blocking",
    is_flag=True,
    help="Execute while the log waits. That reads tables without a primary key too, each all at once.",
)
def send_signal(
    settings: Settings, action: str, tables: tuple[str, ...], id_: str | None, blocking: bool
) -> None:
    """Start, stop, pause or resume snapshots of the running service, and wait for its answer.

    `execute` and `stop` mean all captured tables unless you name some. `recapture` begins the named tables again,
    whatever has stopped them. A snapshot then fills each.
    """
    data: dict[str, Any] = {}
    if blocking and action != "execute":
        raise click.UsageError(f"{action} takes no --blocking: only execute does")
    if action in ("execute", "stop"):
        type_ = "blocking" if blocking else "incremental"
        data = {"type": type_, "data-collections": list(tables or settings.tables.patterns)}
    elif action == "recapture":
        if not tables:
            raise click.UsageError("recapture needs --tables: which tables shall begin again?")
        data = {"data-collections": list(tables)}
    elif tables:
        raise click.UsageError(f"{action} is for all snapshots and takes no --tables")
    kind = action if action == "recapture" else f"{action}-snapshot"
    signal = {"type": kind, "data": data} | ({"id": id_} if id_ else {})
    status, answer = client.post(settings, "/signals", signal)
    if status != 200:
        _fail(answer["error"], 1)
    click.echo(f"{answer['id']}: {answer['detail']}")


@main.command(
    epilog="""\b
Exit codes:
  0  each table is equal to the source at the named position, perhaps after a repair
  1  rows differ
  2  no row was found to differ, but not all tables could be judged"""
)
@config_argument
@click.option(
    "--tables", "-t", multiple=True, metavar="REGEX", help="Tables, as database.table; all by default."
)
@click.option("--where", metavar="CONDITION", help="Only these rows, in the grammar of signals.")
@click.option("--repair", is_flag=True, help="Read the rows that differ again, and compare them once more.")
@click.option(
    "--rows-per-s",
    type=click.IntRange(min=1),
    default=None,
    metavar="N",
    help="Read no more rows a second of the source; by default as fast as snapshots may.",
)
@click.option(
    "--every",
    "every_s",
    type=_duration,
    metavar="DURATION",
    help="Verify again so often (90s, 30m, 24h, 7d), until interrupted.",
)
def verify(
    settings: Settings,
    tables: tuple[str, ...],
    where: str | None,
    repair: bool,
    rows_per_s: int | None,
    every_s: float | None,
) -> None:
    """Compare the lake with the source, while both continue, and print a result for each table.

    docs/verify.md says what it proves. The verification continues if this command is interrupted. With --every the exit
    code is the worst of all verifications.
    """
    from actors.service.comparison import repeat_comparison

    _lake(settings)
    data: dict[str, Any] = {"data-collections": list(tables or settings.tables.patterns), "repair": repair}
    if rows_per_s is not None:
        data["rows-per-s"] = rows_per_s
    if where is not None:
        named = data["data-collections"]
        data["additional-conditions"] = [{"data-collection": each, "filter": where} for each in named]
    if every_s is not None:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(repeat_comparison(partial(_verify_once, settings, data), click.echo, every_s))


@main.command()
@config_argument
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="All of it, as the service's /status gives it, or with --lake as the lake says.",
)
@click.option("--watch", is_flag=True, help="Again each second, until interrupted.")
@click.option(
    "--lake",
    is_flag=True,
    help="How far the lake's tables are, read from the lake alone.",
)
def status(settings: Settings, as_json: bool, watch: bool, lake: bool) -> None:
    """Show how far the running service is."""
    from actors.service.terminal_status import open_console, show

    if lake:
        from actors.service.lake.lake_status import lake_report, lake_status

        try:
            report = lake_report(_lake(settings))
            if as_json:
                click.echo(json.dumps(report, indent=2))
            else:
                open_console().print(lake_status(report))
        except OSError as error:
            _fail(f"the lake can't be read: {error}", 1)
    elif as_json:
        click.echo(json.dumps(client.get(settings, "/status"), indent=2))
    elif watch:
        show(_each_second(settings))
    else:
        show(iter([client.get(settings, "/status")]))


@main.command()
@config_argument
@click.option("--json", "as_json", is_flag=True, help="All of it, as the service's /tables gives it.")
def tables(settings: Settings, as_json: bool) -> None:
    """List the tables that the running service captures, each with its snapshot and what keeps it back.

    `check` lists those that a run would capture.
    """
    from actors.service.table_listing import captured_listing

    told = client.get(settings, "/tables")["tables"]
    if as_json:
        click.echo(json.dumps(told, indent=2))
        return
    for line in captured_listing(told):
        click.echo(line)


@main.command(epilog=EXIT_CODES)
@config_argument
@click.option(
    "--gtid",
    "gtid_set",
    metavar="SET",
    help="The transactions, as a GTID set. By default all that the source has executed by now.",
)
@click.option(
    "--through",
    type=click.Choice(["lake", "journal", "kafka"]),
    default="lake",
    show_default=True,
    help="How far they have to come.",
)
@click.option(
    "--tables", "-t", metavar="NAMES", help="The tables that will be read, as database.table, with commas."
)
@click.option("--timeout", "timeout_s", type=float, default=30.0, show_default=True, help="In seconds.")
def wait(
    settings: Settings, gtid_set: str | None, through: str, tables: str | None, timeout_s: float
) -> None:
    """Wait until a reader sees these transactions; print where, as JSON.

    It exits with 1 if they haven't come in time, and with 2 if they can't come.
    """
    if gtid_set is None:
        gtid_set = asyncio.run(_executed(settings))
    asked = {"gtid_set": gtid_set, "through": through} | ({"tables": tables} if tables else {})
    click.echo(json.dumps(_applied(settings, asked, timeout_s)))


@main.command(epilog=EXIT_CODES)
@config_argument
@click.option(
    "--tables", "-t", metavar="NAMES", help="The tables, as database.table, with commas; all by default."
)
@click.option(
    "--since",
    metavar="PLACE",
    default="now",
    show_default=True,
    help="Begin after this place: now, earliest, a checkpoint, an SCN or a GTID set.",
)
@click.option("--through", metavar="PLACE", help="End with this place: now, an SCN or a GTID set.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "arrow"]),
    default="text",
    show_default=True,
    help="Lines for people, lines of JSON, or Arrow's IPC streams.",
)
@click.option("--key-range", metavar="LOW..HIGH", help="Only keys in this range; either end may be left out.")
@click.option(
    "--key-modulo", metavar="N:R,…", help="Only keys with these remainders when they are divided by N."
)
@click.option(
    "--filter",
    "filters",
    metavar="COLUMN=VALUE",
    multiple=True,
    help="Only rows with this value; not for Arrow. More than one may be given.",
)
def tail(
    settings: Settings,
    tables: str | None,
    since: str,
    through: str | None,
    form: str,
    key_range: str | None,
    key_modulo: str | None,
    filters: tuple[str, ...],
) -> None:
    """Print the changes in the journal of the running service, and follow them.

    Interrupt it to end it. It then says with which checkpoint to continue. docs/relay.md describes the formats.
    """
    from actors.service.change_text import ChangeText

    pairs = [tuple(each.split("=", 1)) for each in filters]
    if any(len(pair) < 2 for pair in pairs):
        raise click.UsageError("--filter takes COLUMN=VALUE")
    if form == "arrow" and filters:
        raise click.UsageError(
            "--filter isn't for Arrow: use --key-range or --key-modulo, or filter the batches"
        )
    asked = {"since": since, "format": "arrow" if form == "arrow" else "json"}
    asked |= {"tables": tables} if tables else {}
    more = {"through": through, "key_range": key_range, "key_modulo": key_modulo}
    asked |= {name: value for name, value in more.items() if value}
    text = ChangeText((column, value) for column, value in pairs)
    try:
        asyncio.run(_print_changes(settings, asked, text, form))
    except KeyboardInterrupt:
        pass
    finally:
        if text.checkpoint is not None and through is None:
            click.echo(f"tidemark: continue with --since {text.checkpoint}", err=True)


_tables_argument = click.argument("named", nargs=-1, metavar="[CONFIG] [TABLE]…")
_lake_option = click.option(
    "--lake",
    metavar="PATH",
    help="The lake's path, instead of CONFIG: for readers who have the lake alone.",
)
_stale_option = click.option(
    "--stale", is_flag=True, help="Print the query of a stopped table too, which gets no more changes."
)


def _dialect_option(*dialects: str) -> Callable[[FunctionT], FunctionT]:
    choice = click.Choice(dialects)
    return click.option("--dialect", type=choice, default="spark", show_default=True, help="The SQL dialect.")


@main.command()
@_tables_argument
@_lake_option
@_dialect_option("spark", "duckdb", "trino", "delta-rs")
@_stale_option
@click.option(
    "--gtid",
    "gtid_set",
    metavar="SET",
    help="Wait until the table has these transactions, and read the versions that have them.",
)
def sql(named: tuple[str, ...], lake: str | None, dialect: str, stale: bool, gtid_set: str | None) -> None:
    """Print the query that reads TABLE, as database.table or `database`.`table`, as of the last delivered segment.

    Of more tables, or of all if none is named, each query ends with a semicolon.

    Print it again when the table's columns change, or its mirror begins again. docs/lake.md says more.
    """
    from actors.service.live_view_text import live_view_text
    from pipeline.journal.applied.query import WAIT_S
    from pipeline.lake.live_view import Versions
    from pipeline.lake.reading.sql_dialects import Dialect

    of = _lake_and_tables(named, lake)
    if len(of.tables) != 1:
        if gtid_set is not None:
            raise click.UsageError("--gtid is for one table: name it")
        _print_script(of, dialect, stale=stale, views=False)
        return
    at, (table,) = None, of.tables
    if gtid_set is not None:
        if of.settings is None:
            raise click.UsageError("--gtid asks the service: give CONFIG instead of --lake")
        told = _applied(of.settings, {"gtid_set": gtid_set, "tables": table}, WAIT_S)
        (versions,) = told["tables"].values()
        at = None if versions is None else Versions(**versions)
    with _reading_lake(of):
        click.echo(live_view_text(of.path, table, Dialect(dialect), of.stopped, stale=stale, at=at))


@main.command()
@_tables_argument
@_lake_option
@_dialect_option("spark", "duckdb", "trino")
@_stale_option
def views(named: tuple[str, ...], lake: str | None, dialect: str, stale: bool) -> None:
    """Print the statements that make a view of each TABLE, or of all tables of the lake: database.table as of now.

    \b
    tidemark views --lake /var/lib/tidemark/lake --dialect duckdb | duckdb shop.db

    Run them again when a view fails: its table has other columns, or its mirror began again.
    """
    _print_script(_lake_and_tables(named, lake), dialect, stale=stale, views=True)


def _print_script(of: "NamedLake", dialect: str, *, stale: bool, views: bool) -> None:
    from actors.service.live_view_text import script
    from pipeline.lake.reading.sql_dialects import Dialect

    with _reading_lake(of):
        statements = script(of.path, of.tables, Dialect(dialect), of.stopped, stale=stale, views=views)
        click.echo("\n\n".join(statements))


@dataclass(frozen=True, slots=True)
class NamedLake:
    """The lake that a reader has named, by a configuration or by its path alone, and tables in it."""

    path: str
    tables: tuple[str, ...]
    settings: Settings | None = None

    @property
    def stopped(self) -> Mapping[TableId, str]:
        """Returns the tables that can't be captured any more, and why, as far as it can be known."""
        return {} if self.settings is None else _stopped_in_capture(self.settings)


def _lake_and_tables(named: tuple[str, ...], lake: str | None) -> NamedLake:
    if lake is not None:
        return NamedLake(lake if "://" in lake else str(Path(lake).absolute()), named)
    if not named:
        raise click.UsageError("give CONFIG, or the lake's path with --lake")
    settings = _configuration(named[0])
    return NamedLake(_lake(settings), named[1:], settings)


@contextlib.contextmanager
def _reading_lake(of: NamedLake) -> Iterator[None]:
    """Says what is wrong with a path that isn't a lake's, before what it lacks."""
    from actors.service.lake.lake_listing import find_lake

    try:
        try:
            yield
        except Definite:
            if of.settings is None:
                find_lake(of.path)
            raise
    except OSError as error:
        _fail(f"the lake can't be read: {error}", 1)


async def _print_changes(settings: Settings, asked: Mapping[str, str], text: "ChangeText", form: str) -> None:
    """Prints changes as they come."""
    from actors.service.change_text import split_lines

    rest = b""
    async for data in client.follow_changes(settings, asked):
        if form == "arrow":
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
            continue
        lines, rest = split_lines(rest, data)
        for line in text.lines(lines, as_json=form == "json"):
            click.echo(line)


async def _executed(settings: Settings) -> str:
    """Returns the GTID set that the source has executed; ends the program if it has no GTIDs."""
    from actors.source.connection import Source

    source = await Source.connect(settings.source)
    try:
        executed = await source.executed()
    finally:
        source.close()
    if not executed:
        _fail(f"{settings.source.host} has executed nothing that has a GTID; give --gtid", 2)
    return str(executed)


def _applied(settings: Settings, asked: Mapping[str, str], timeout_s: float) -> dict[str, Any]:
    """Where these transactions can be read, once they can; ends the program where they can't, or not in time."""
    status, answer = client.wait_applied(settings, asked, timeout_s)
    if status != HTTPStatus.OK:
        missing = f" (missing: {answer['missing']})" if answer.get("missing") else ""
        never = status in (HTTPStatus.BAD_REQUEST, HTTPStatus.CONFLICT)
        _fail(f"{answer['error']}{missing}", 2 if never else 1)
    return answer


def _lake(settings: Settings) -> str:
    """Where the lake is; ends the program where there's none."""
    if settings.lake is None:
        _fail("the configuration has no [lake]", 2)
    return settings.lake.path


def _stopped_in_capture(settings: Settings) -> Mapping[TableId, str]:
    """The tables that can't be captured any more, and why, as far as the journal can be read here."""
    from actors.journal.store import JournalReader

    try:
        journal = JournalReader(settings.journal.path)
        last = journal.last_segment()
        return journal.entry(last).checkpoint.stopped if last else {}
    except (Definite, Transient):
        return {}


@main.command(name="forget-consumer")
@config_argument
@click.argument("name")
def forget_consumer(settings: Settings, name: str) -> None:
    """Stop keeping segments in the journal for the consumer NAME, which `status` names.

    If it returns and the journal has removed segments that it lacks, its tables begin again.
    """
    from actors.journal.store import JournalReader

    JournalReader(settings.journal.path).consumers.forget(name)
    click.echo(f"{name} is forgotten")


@main.command(name="import-debezium")
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
    type=click.Path(dir_okay=False, path_type=Path),
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
    if output is None:
        click.echo(taken.text, nl=False)
    else:
        try:
            output.write_text(taken.text, encoding="utf-8")
        except OSError as error:
            _fail(f"{output} can't be written: {error.strerror}", 2)
    click.echo(taken.report(), err=True)


def _verify_once(settings: Settings, data: Mapping[str, Any]) -> tuple[int, list[str]]:
    """Returns the exit code of a verification, and a line for each result."""
    from actors.service.comparison import DIFFERENT, EQUAL, UNJUDGED
    from actors.service.terminal_status import verification_line

    try:
        status, answer = client.post(settings, "/signals", {"type": "verify", "data": data})
        if status != HTTPStatus.OK:
            raise Definite(answer["error"])
        found = _verified(settings, answer["id"])
    except TidemarkError as error:
        click.echo(f"tidemark: {error}", err=True)
        return UNJUDGED, []
    lines = [verification_line(table, result) for table, result in found.items()]
    verdicts = {(result["repaired"] or result)["verdict"] for result in found.values()}
    code = DIFFERENT if "different" in verdicts else UNJUDGED if "unjudged" in verdicts else EQUAL
    return code, lines


def _verified(settings: Settings, id_: str) -> dict[str, dict[str, Any]]:
    """Waits for a verification. Returns the result for each of its tables."""
    while True:
        of_sink = client.get(settings, "/status")["actors"]["SparkSink"]
        found: dict[str, Any] | None = of_sink.get("verifications", {}).get(id_)
        if found is not None and None not in found.values():
            return found
        time.sleep(RESULT_EVERY_S)


def _each_second(settings: Settings) -> Iterator[dict[str, Any]]:
    while True:
        yield client.get(settings, "/status")
        time.sleep(WATCH_EVERY_S)


def _fail(message: str, code: int) -> NoReturn:
    click.echo(f"tidemark: {message}", err=True)
    sys.exit(code)
