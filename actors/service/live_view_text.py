"""The live view as text, for those who read the lake with an engine of their own."""

import datetime as dt
import json
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from actors.lake.delta_log import LoggedVersion, last_report, read_version
from pipeline.errors import Definite
from pipeline.lake.live_view import MirrorPosition, Versions, check_complete, live_view_sql, sum_sql
from pipeline.lake.sql_dialects import Dialect, registration
from pipeline.lake.tables import Property, Tier, location
from pipeline.schema.table_schema import TableId

_QUOTED: Final = re.compile(r"`((?:[^`]|``)+)`\.`((?:[^`]|``)+)`", re.DOTALL)
NO_TEXTS: Final[Mapping[TableId, str]] = MappingProxyType({})


def live_view_text(
    root: str,
    name: str,
    dialect: Dialect,
    captured: Mapping[TableId, str] = NO_TEXTS,
    *,
    stale: bool = False,
    at: Versions | None = None,
) -> str:
    """Returns the query that reads a table, `database.table`, as of now, from the reports of its lake tables.

    If a name has a dot in it the table may have to be quoted: `` `a.b`.`c` ``.

    For a table without a primary key it's the sum of its changes. `captured`: the tables that were stopped in capture,
    and why. `at`: the versions of the two lake tables that the query reads, instead of the newest. Raises Definite if
    the lake has nothing of the table, or gets nothing more for it, unless `stale`; and OSError if the lake can't be
    read.
    """
    found = [
        table
        for table in _possible_tables(name)
        if read_version(location(root, table, Tier.CHANGELOG)) is not None
    ]
    if len(found) > 1:
        raise Definite(f"{name} may be {' or '.join(map(str, found))}: name one of them, with the quotes")
    for table in found:
        versions = (None, None) if at is None else (at.mirror, at.changelog)
        mirrored, changelog = (
            read_version(location(root, table, tier), version)
            for tier, version in zip((Tier.MIRROR, Tier.CHANGELOG), versions, strict=True)
        )
        if changelog is None or changelog.schema is None:
            continue
        stopped = changelog.properties.get(Property.STOPPED) or captured.get(table)
        if stopped and not stale:
            raise Definite(
                f"{table} was stopped, and its rows are those {_last_position(root, table, changelog)}: {stopped}. "
                "With --stale you get the query all the same"
            )
        if not changelog.schema.key:
            return (
                f"-- {_line(table)} has no primary key, and so no live view: this is the sum of its changes since "
                f"capture began\n{sum_sql(root, changelog.schema, dialect)}"
            )
        if mirrored is None or mirrored.schema is None:
            continue
        check_complete(mirrored, table)
        reached = MirrorPosition.from_reports(mirrored, changelog)
        text = live_view_sql(root, mirrored.schema, reached, at, dialect)
        told = registration(root, table) if dialect is Dialect.TRINO else _settings(text, dialect)
        return "\n".join([*(f"-- once: {statement};" for statement in told), text])
    raise Definite(
        f"{root} has no mirror of {name} (database.table): is it captured, and has its snapshot begun?"
    )


def _last_position(root: str, table: TableId, changelog: LoggedVersion) -> str:
    """Where a table is that gets nothing more."""
    said = json.loads(last_report(location(root, table, Tier.CHANGELOG)) or "{}")
    newest = said.get("newest_commit_time_us")
    at = (
        ""
        if newest is None
        else f", committed until {dt.datetime.fromtimestamp(newest / 1e6, dt.UTC):%Y-%m-%d %H:%M:%S} UTC"
    )
    return f"of segment {changelog.mark('changes')} (position {said.get('position', 'unknown')}{at})"


def _line(text: object) -> str:
    """A text in one line, as a comment has it."""
    return " ".join(str(text).splitlines())


def _settings(text: str, dialect: Dialect) -> tuple[str, ...]:
    """Returns the settings without which a Spark session may replace a name by another one."""
    substituted = dialect is Dialect.SPARK and "${" in text
    return ("SET spark.sql.variable.substitute = false",) if substituted else ()


def _possible_tables(name: str) -> Iterator[TableId]:
    """The tables that may be meant: both names may have dots in them, if they aren't quoted."""
    if quoted := _QUOTED.fullmatch(name):
        database, table = (part.replace("``", "`") for part in quoted.groups())
        yield TableId(database, table)
    for at, character in enumerate(name):
        if character == "." and 0 < at < len(name) - 1:
            yield TableId(name[:at], name[at + 1 :])
