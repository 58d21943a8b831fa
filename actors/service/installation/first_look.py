"""A look at a source that has no configuration yet, for `tidemark init`. Only queries, as in `tidemark check`."""

import os
import re
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from actors.runtime.secret_files import read_secret
from actors.service.start_checks import check_server_id
from actors.service.table_listing import PlannedTable, plan
from actors.source.connection import Source
from actors.source.errors import AccessDenied
from actors.source.preflight import NOTHING_MATCHES, inspect_source
from pipeline.config.settings import (
    ForeignKeys,
    JournalSettings,
    LakeSettings,
    Secret,
    Settings,
    SnapshotSettings,
    SourceSettings,
    TlsMode,
    TlsSettings,
)
from pipeline.config.starter_file import FoundTable, Starter, default_name, starter_text
from pipeline.errors import Definite, TidemarkError, Transient
from pipeline.gtid.gtid_set import NO_GTIDS
from pipeline.schema.table_filter import ALL_TABLES, TableFilter
from pipeline.source.finding import Finding, Severity


@dataclass(frozen=True, slots=True)
class FirstLook:
    """What a source is. Where `findings` has errors, `tables` has none.

    `cascades`: whether foreign keys change rows of captured tables below the log.
    """

    version: str
    findings: tuple[Finding, ...]
    tables: tuple[PlannedTable, ...]
    cascades: bool

    @property
    def errors(self) -> list[Finding]:
        """Returns what keeps it from being captured."""
        return [finding for finding in self.findings if finding.severity is Severity.ERROR]


@dataclass(frozen=True, slots=True)
class Answers:
    """What the user of `tidemark init` says. Its paths are relative to where the user is."""

    host: str
    port: int
    user: str
    password_file: Path | None
    tls: str
    tls_ca: Path | None
    databases: tuple[str, ...]
    server_id: int | None
    name: str | None
    journal: str
    lake: str


async def starter_configuration(answers: Answers, file: Path | None) -> tuple[FirstLook, str]:
    """Returns what the source is, and the text of the configuration `file`, None for standard output.

    The text is empty if the source can't be captured. Raises Definite, whose message says what to do.
    """
    name = answers.name or default_name(file or Path())
    _check_options(name, answers)
    source = _source(answers)
    look = await look_at(source, answers.databases)
    if look.errors:
        return look, ""
    starter = Starter(
        name=name,
        host=source.host,
        port=source.port,
        user=source.user,
        password_file=_path_in_file(answers.password_file, file),
        tls=source.tls.mode,
        ca=_path_in_file(answers.tls_ca, file),
        server_id=source.server_id,
        journal=answers.journal,
        lake=answers.lake,
        version=look.version,
        tables=[FoundTable(t.table, bool(t.key), t.rows, t.size, t.refused) for t in look.tables],
        cascades=look.cascades,
    )
    return look, starter_text(starter)


def _check_options(name: str, answers: Answers) -> None:
    """Raises Definite for options of which no configuration can be made."""
    of_name = Settings.__dataclass_fields__["name"].metadata
    if not re.fullmatch(of_name["pattern"], name):
        raise Definite(f"--name: {name!r} won't do; give {of_name['words']}")
    if answers.tls_ca is not None and answers.tls != TlsMode.VERIFY:
        raise Definite(f"--tls-ca: it has no use with --tls {answers.tls}; leave out one of them")


def _source(answers: Answers) -> SourceSettings:
    """Returns how the source is reached. Raises Definite if the password's file can't be read."""
    try:
        password = (
            read_secret(answers.password_file)
            if answers.password_file is not None
            else Secret(os.environ.get("TIDEMARK__SOURCE__PASSWORD", ""))
        )
    except OSError as error:
        raise Definite(
            f"--password-file: {answers.password_file} can't be read ({error.strerror}); write the password into it,"
            " and give it the mode 600"
        ) from error
    # People choose small numbers, so that a random one of the upper half is free.
    server_id = answers.server_id or 2**31 + secrets.randbelow(2**31)
    tls = TlsSettings(TlsMode(answers.tls), answers.tls_ca)
    return SourceSettings(answers.host, answers.user, answers.port, password, tls, server_id=server_id)


async def look_at(source: SourceSettings, databases: tuple[str, ...]) -> FirstLook:
    """Returns what these databases of a source are, all of them by default.

    Raises Definite, whose message says what to do, if the source can't be reached.
    """
    chosen = TableFilter(tuple(re.escape(name) + r"\..*" for name in databases)) if databases else ALL_TABLES
    reread = SnapshotSettings(foreign_keys=ForeignKeys.REREAD)
    lake = LakeSettings("lake")
    settings = Settings("init", chosen, source, JournalSettings("journal"), lake=lake, snapshot=reread)
    try:
        connection = await Source.connect(source)
    except TidemarkError as error:
        raise Definite(f"{error}; {_way_in(error, source, databases)}") from error
    try:
        found = await inspect_source(connection, settings, NO_GTIDS)
        tables = tuple(plan(found.known, settings, await connection.sizes()))
        version = connection.version_text
    finally:
        connection.close()
    doubled = [finding async for finding in check_server_id(settings)]
    findings = (*_with_remedies(found.findings, source, databases), *doubled, *_nothing_to_capture(tables))
    return FirstLook(version, findings, tables, bool(found.foreign_keys))


def _path_in_file(path: Path | None, file: Path | None) -> str | None:
    """Returns a path as a configuration file says it: relative to the file's folder, if it's in there."""
    if path is None:
        return None
    absolute = path.expanduser().resolve()
    folder = None if file is None else file.resolve().parent
    within = folder is not None and absolute.is_relative_to(folder)
    return str(absolute.relative_to(folder) if folder is not None and within else absolute)


def _way_in(error: TidemarkError, source: SourceSettings, databases: tuple[str, ...]) -> str:
    """Returns what to do so that a connection comes about."""
    if isinstance(error, AccessDenied):
        return f"correct --user and the password, or let an administrator run: {_account(source, databases)}"
    if isinstance(error, Transient):
        return "correct --host and --port, and see that the server is up and lets this machine in"
    return "give --tls-ca FILE with the authority of the server's certificate, or another --tls"


def _account(source: SourceSettings, databases: tuple[str, ...]) -> str:
    """Returns the statements that make the account with all that capture needs."""
    of_capture = (
        f"CREATE USER '{source.user}'@'%' IDENTIFIED BY '…' REQUIRE SSL",
        f"GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO '{source.user}'@'%'",
    )
    return "; ".join([*of_capture, *_reads(source, databases)])


def _reads(source: SourceSettings, databases: tuple[str, ...]) -> Iterator[str]:
    for name in databases or ("…",):
        pattern = name.replace("_", r"\_")  # in a GRANT an underscore is a wildcard
        yield f"GRANT SELECT ON `{pattern}`.* TO '{source.user}'@'%'"


def _with_remedies(
    findings: Iterable[Finding], source: SourceSettings, databases: tuple[str, ...]
) -> Iterator[Finding]:
    """Yields the findings. That there's no table is an error here, with the right that may be missing."""
    for finding in findings:
        if finding.remedy == NOTHING_MATCHES:
            remedy = f"correct --database, or {'; '.join(_reads(source, databases))}"
            yield replace(finding, severity=Severity.ERROR, remedy=remedy)
        else:
            yield finding


def _nothing_to_capture(tables: tuple[PlannedTable, ...]) -> Iterator[Finding]:
    if tables and all(planned.refused is not None for planned in tables):
        reasons = "; ".join(f"{planned.table}: {planned.refused}" for planned in tables)
        yield Finding(Severity.ERROR, f"no table can be captured ({reasons})", "change one, or name others")
