"""The live view as text, for those who read the lake with an engine of their own."""

import datetime as dt
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from actors.lake.transaction_log.delta_log import LoggedVersion, last_report, read_version
from actors.service.lake.lake_listing import find_lake, read_own
from pipeline.errors import Definite
from pipeline.lake.live_view import (
    LACKS_CHANGES,
    STOPPED_EMPTY,
    MirrorPosition,
    Versions,
    belong_together,
    check_complete,
    live_view_sql,
    sum_sql,
)
from pipeline.lake.reading.sql_dialects import Dialect, registered_tables, registration, view_sql
from pipeline.lake.tables.paths import location
from pipeline.lake.tables.tier import Tier
from pipeline.schema.table_schema import TableId, TableSchema

_QUOTED: Final = re.compile(r"`((?:[^`]|``)+)`\.`((?:[^`]|``)+)`", re.DOTALL)
_WIDENED: Final = (
    "-- a column got a wider type (Delta's typeWidening), and delta-rs refuses that: use another engine"
)
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
    and why. `at`: the versions of the two lake tables that the query reads, instead of the newest. While the mirror
    lacks columns that the changelog has, the query reads the last versions that belong together. Raises Definite if the
    lake has nothing of the table, or gets nothing more for it, unless `stale`. So it does if the versions `at` which to
    read have changes that the query couldn't return. Raises OSError if the lake can't be read.
    """
    query = _find_query(_Request(root, dialect, captured, stale, at), name)
    return "\n".join((*query.comments, query.text))


@dataclass(frozen=True, slots=True)
class _Request:
    """Which lake is to be read, in which dialect, and how (`live_view_text`)."""

    root: str
    dialect: Dialect
    captured: Mapping[TableId, str]
    stale: bool
    at: Versions | None = None


@dataclass(frozen=True, slots=True)
class LiveQuery:
    """The query that reads a table, and what its reader has to know or do, as comments of SQL.

    `bound`: whether it reads two versions because the table's columns are changing.
    """

    table: TableId
    text: str
    comments: tuple[str, ...]
    bound: bool = False


def script(
    root: str,
    names: Sequence[str],
    dialect: Dialect,
    captured: Mapping[TableId, str] = NO_TEXTS,
    *,
    stale: bool = False,
    views: bool = False,
) -> Iterator[str]:
    """Returns the statements that read these tables, or all that the lake has, or that make them `views`.

    Of all tables, those without a query are named in comments, with the reason. Raises as `live_view_text` does, and
    Definite if the path isn't a lake's.
    """
    listing, shown = find_lake(root), dict[str, TableId]()
    request = _Request(root, dialect, captured, stale)
    for name in names or [each.table.quoted for each in listing.tables]:
        try:
            query = _find_query(request, name)
            if views:
                _check_follows(query)
            if views and dialect is not Dialect.TRINO:
                _check_case(query.table, shown)
            yield "\n".join(
                (f"-- {_line(query.table)}", *query.comments, *_statements(query, dialect, views))
            )
        except Definite as error:
            if names:
                raise
            yield f"-- {_line(name)} is left out: {_line(error)}"
    if not names:
        yield from (f"-- left out: {_line(reason)}" for reason in listing.refused)


def _check_follows(query: LiveQuery) -> None:
    """Raises Definite if a view of this query would stay at two versions."""
    if query.bound:
        raise Definite(f"{_changing(query.table)}: try again soon, and see tidemark status if that lasts")


def _changing(table: TableId) -> str:
    return f"the columns of {table} are changing, and its mirror doesn't have the new ones yet"


def _check_case(table: TableId, shown: dict[str, TableId]) -> None:
    """Raises Definite if an earlier view has the table's name, except for its case."""
    if (other := shown.setdefault(str(table).casefold(), table)) != table:
        raise Definite(f"{other} has a view of that name, since the engine ignores the case of names")


def _statements(query: LiveQuery, dialect: Dialect, views: bool) -> Iterator[str]:
    parts = view_sql(query.table, query.text, dialect) if views else (query.text,)
    return (f"{part};" for part in parts)


def _find_query(request: _Request, name: str) -> LiveQuery:
    root = request.root
    found = [
        table
        for table in _possible_tables(name)
        if read_own(location(root, table, Tier.CHANGELOG)) is not None
    ]
    if len(found) > 1:
        raise Definite(f"{name} may be {' or '.join(map(str, found))}: name one of them, with the quotes")
    for table in found:
        if (query := _query_of(request, table)) is not None:
            return query
    for table in _possible_tables(name):
        read_own(location(root, table, Tier.MIRROR).rpartition("/")[0])  # perhaps another program's
    raise Definite(
        f"{root} has no mirror of {name} (database.table): is it captured, and has its snapshot begun?"
    )


def _query_of(request: _Request, table: TableId) -> LiveQuery | None:
    """Returns the query of a table, None if the lake has nothing yet of it that it could read."""
    root, at = request.root, request.at
    versions = (None, None) if at is None else (at.mirror, at.changelog)
    mirrored, changelog = (
        read_own(location(root, table, tier), version)
        for tier, version in zip((Tier.MIRROR, Tier.CHANGELOG), versions, strict=True)
    )
    if changelog is None:
        return None
    stopped = changelog.stopped or request.captured.get(table)
    if changelog.schema is None:
        if stopped:
            raise Definite(STOPPED_EMPTY.format(what=table, reason=stopped))
        return None
    if stopped and not request.stale:
        raise Definite(
            f"{table} was stopped, and its rows are those {_last_position(root, table, changelog)}: {stopped}. "
            "With --stale you get the query all the same"
        )
    if not changelog.schema.key:
        return _sum_of(request, table, changelog, changelog.schema)
    if mirrored is None or mirrored.schema is None:
        return None
    return _over_mirror(request, table, mirrored, mirrored.schema, changelog)


def _sum_of(request: _Request, table: TableId, changelog: LoggedVersion, schema: TableSchema) -> LiveQuery:
    """Returns the query of a table without a primary key."""
    note = (
        f"-- {_line(table)} has no primary key, and so no live view; this is the sum of its changes since "
        "its last snapshot, or else since capture began"
    )
    text = sum_sql(request.root, schema, request.dialect)
    return LiveQuery(table, text, (note, *_to_do(request, table, text, {Tier.CHANGELOG: changelog})))


def _over_mirror(
    request: _Request, table: TableId, mirrored: LoggedVersion, schema: TableSchema, changelog: LoggedVersion
) -> LiveQuery:
    """Returns the query of a live view. `schema`: the mirror's."""
    check_complete(mirrored, table)
    reached = MirrorPosition.from_reports(mirrored, changelog)
    changing = mirrored.altering or not belong_together(mirrored, changelog)
    bound = changing and request.at is None
    if changing:
        at = _last_together(request.root, table, mirrored, changelog, whole=request.at is not None)
        request = replace(request, at=at)
    text = live_view_sql(request.root, schema, reached, request.at, request.dialect)
    reports = {Tier.CHANGELOG: changelog, Tier.MIRROR: mirrored}
    comments = _to_do(request, table, text, reports)
    if bound:
        note = (
            f"-- {_line(_changing(table))}; this reads the versions before, so print it again for later rows"
        )
        comments = (note, *comments)
    return LiveQuery(table, text, comments, bound)


def _last_together(
    root: str, table: TableId, mirrored: LoggedVersion, changelog: LoggedVersion, *, whole: bool
) -> Versions:
    """Returns the last versions up to these that a query may read together.

    Raises Definite if they are gone. If they have to have the `whole` of these, so it does if they lack changes.
    """
    changes = changelog.mark("changes")
    while mirrored.altering:
        mirrored = _version_before(root, table, Tier.MIRROR, mirrored)
    while not belong_together(mirrored, changelog):
        changelog = _version_before(root, table, Tier.CHANGELOG, changelog)
    if whole and changelog.mark("changes") < changes:
        raise Definite(LACKS_CHANGES.format(table=table))
    return Versions(mirrored.version, changelog.version)


def _version_before(root: str, table: TableId, tier: Tier, version: LoggedVersion) -> LoggedVersion:
    found = read_version(location(root, table, tier), version.version - 1)
    if found is None or found.schema is None:
        raise Definite(f"{_changing(table)}; earlier versions are gone, so try again when it has them")
    return found


def _to_do(
    request: _Request, table: TableId, text: str, reports: Mapping[Tier, LoggedVersion]
) -> tuple[str, ...]:
    """Returns what a program does before it runs the query, as comments."""
    tiers, root, at = tuple(reports), request.root, request.at
    match request.dialect:
        case Dialect.TRINO:
            return tuple(f"-- once: {statement};" for statement in registration(root, table, tiers))
        case Dialect.DELTA_RS:
            versions = {} if at is None else {Tier.MIRROR: at.mirror, Tier.CHANGELOG: at.changelog}
            first = tiers[::-1]  # the mirror, so that it isn't ahead of the changelog
            calls = registered_tables(root, table, first, versions)
            refused = (_WIDENED,) if any(report.widened for report in reports.values()) else ()
            return (*refused, *(f"-- before each query: {call}" for call in calls))
        case Dialect.SPARK if "${" in text:  # a session may replace such a name by another one
            return ("-- once: SET spark.sql.variable.substitute = false;",)
        case _:
            return ()


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


def _possible_tables(name: str) -> Iterator[TableId]:
    """The tables that may be meant: both names may have dots in them, if they aren't quoted."""
    if quoted := _QUOTED.fullmatch(name):
        database, table = (part.replace("``", "`") for part in quoted.groups())
        yield TableId(database, table)
    for at, character in enumerate(name):
        if character == "." and 0 < at < len(name) - 1:
            yield TableId(name[:at], name[at + 1 :])
