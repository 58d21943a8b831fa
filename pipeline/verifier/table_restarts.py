"""Which tables' mirrors begin again because the log doesn't have a change of rows, and which tables stop."""

from collections.abc import Collection, Iterable, Mapping

from pipeline.gtid.gtid_set import Gtid
from pipeline.messages.binlog import RowsUnread
from pipeline.messages.changes import MirrorInvalidated, TableStopped
from pipeline.schema.ddl.effects import Unlogged
from pipeline.schema.ddl.unlogged_changes import LOGGED_ENGINES, WITHOUT_ROWS
from pipeline.schema.foreign_key import ForeignKey
from pipeline.schema.table_schema import TableId, TableSchema
from pipeline.schema.table_traits import MERGEABLE, Traits
from pipeline.verifier.cascades import CASCADED, changed_along

LEFT_OUT_VALUE = (
    "the configuration doesn't capture it any more, so that its changes are missing from here on; to have it again, "
    "let the configuration capture it"
)
_ELSEWHERE = (
    "its engine is {engine}, so that the log doesn't have its rows; give it an engine whose rows are in the "
    "log (InnoDB, say)"
)
_MERGED = (
    "the MERGE table {merge} has it in its UNION: the log has rows that change through that one under the name of that "
    "one alone; give it another engine (InnoDB, say), or drop {merge}"
)
_MERGED_ONCE = (
    "a MERGE table may have had it in its UNION for a while; the log has rows that changed through that one under "
    "the name of that one alone"
)
_UNLOGGED = "{what} ({gtid}) changed its rows, and the log doesn't say which"
_KEYLESS = "{reason}; it has no primary key, so that it can't be read again: give it one, and recapture it"


def restarts_after_statement(
    unlogged: Mapping[TableId, Unlogged], gtid: Gtid, ended: Collection[TableId]
) -> tuple[MirrorInvalidated, ...]:
    """Returns the tables that a statement restarts; `ended`: those that have stopped already."""
    return tuple(
        MirrorInvalidated(table, effect in WITHOUT_ROWS, _UNLOGGED.format(what=what, gtid=gtid))
        for table in sorted(unlogged.keys() - set(ended))
        for what, effect in [(unlogged[table].what, unlogged[table].effect)]
    )


def restarts_after_gaps(
    unnamed: Mapping[TableId, str], keys: Collection[ForeignKey], ended: Collection[TableId]
) -> tuple[MirrorInvalidated, ...]:
    """Returns the restarts of the tables with omitted changes, whose columns have no known names.

    It includes the tables that foreign keys may have changed along with them.
    """
    cascade = CASCADED.format(parents=", ".join(map(str, sorted(unnamed))))
    return tuple(
        MirrorInvalidated(table, False, unnamed.get(table, cascade), gap=table in unnamed)
        for table in sorted(changed_along(keys, unnamed) - set(ended))
    )


def stops_for_engines(
    traits: Mapping[TableId, Traits], tables: Collection[TableId], ended: Collection[TableId]
) -> tuple[TableStopped, ...]:
    """Returns the tables among these that stop, because the log need not have their rows by their names."""
    reasons = ((table, _not_logged(traits[table])) for table in sorted(set(tables) - set(ended)))
    return tuple(TableStopped(table, reason) for table, reason in reasons if reason is not None)


def restarts_after_merges(
    traits: Mapping[TableId, Traits], tables: Collection[TableId]
) -> tuple[MirrorInvalidated, ...]:
    """Returns the restarts of those of these tables that no MERGE table has in its UNION any more."""
    return tuple(
        MirrorInvalidated(table, False, _MERGED_ONCE)
        for table in sorted(tables)
        if traits[table].engine == MERGEABLE and traits[table].merged_by is None
    )


def _not_logged(traits: Traits) -> str | None:
    """Returns why the log need not have a table's rows: they are stored elsewhere, or nowhere, or change through it."""
    if traits.engine not in LOGGED_ENGINES:
        return _ELSEWHERE.format(engine=traits.engine.upper() or "unknown")
    return None if traits.merged_by is None else _MERGED.format(merge=traits.merged_by)


def effects_of_unread_rows(
    unread: Iterable[RowsUnread],
    keys: Collection[ForeignKey],
    told: Mapping[TableId, TableSchema],
    there: Collection[TableId],
) -> tuple[tuple[TableStopped, ...], tuple[MirrorInvalidated, ...]]:
    """Returns the tables, of those that are `there`, to read again, and those without a key for that.

    If any table may be meant, a table without a key continues, because most likely it isn't. It stops if the log has
    lost changes (like a gap without a mirror), or if a scan has read it (`Checkpoint.scanned`).
    """
    stops: dict[TableId, TableStopped] = {}
    restarts: dict[TableId, MirrorInvalidated] = {}
    for each in unread:
        meant = changed_along(keys, [table for table in there if _meant(each, table)]) & frozenset(there)
        for table in sorted(meant):
            keyed = table not in told or bool(told[table].key)
            if each.lost or keyed or each.databases is None:
                restarts[table] = MirrorInvalidated(table, False, each.reason, gap=each.lost)
            else:
                stops[table] = TableStopped(table, _KEYLESS.format(reason=each.reason))
    return tuple(stops.values()), tuple(restarts.values())


def _meant(unread: RowsUnread, table: TableId) -> bool:
    """The case of databases is ignored, as by some servers, which is the safe side."""
    if unread.databases is None or table in unread.tables:
        return True
    return table.database.casefold() in {name.casefold() for name in unread.databases}
