"""XA transactions that are prepared and have no second phase yet, as a checkpoint stores them.

The log has the rows with the first phase and only the name with the second one, which may come years later. So the
checkpoint keeps the name with the tables of the rows:

- With rows of captured tables, the first phase is left out of the position, so that a start receives it again, and has
  the rows. If the server has purged that log since, Tidemark doesn't need it: the second phase then begins these tables
  again.
- Without such rows it passes at once, and so does its second phase.
- With more rows than may be held back it passes too, and its second phase begins the tables again.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pipeline.gtid.gtid_set import NO_GTIDS, GtidSet
from pipeline.schema.table_schema import TableId


@dataclass(frozen=True, slots=True)
class XaPrepared:
    """One of them: its XA identifier, when it was prepared (µs since the epoch), and the tables that it changes.

    Those are all of them, since others may be captured when the second phase comes. `left_out`: what the position
    lacks for it. `databases`: where it changed rows by statements, which don't say which tables' rows these are; None
    if that may be anywhere.
    """

    xid: str
    since: int
    tables: tuple[TableId, ...]
    left_out: GtidSet = NO_GTIDS
    databases: frozenset[str] | None = frozenset()


def left_out(prepared: Iterable[XaPrepared]) -> GtidSet:
    """All that a position lacks for these."""
    found = NO_GTIDS
    for each in prepared:
        found |= each.left_out
    return found


def to_json(prepared: XaPrepared) -> list[Any]:
    """One as plain JSON values."""
    tables = [[table.database, table.name] for table in prepared.tables]
    written: list[Any] = [prepared.xid, prepared.since, tables, str(prepared.left_out)]
    if prepared.databases == frozenset():
        return written
    return [*written, None if prepared.databases is None else sorted(prepared.databases)]


def from_json(value: list[Any]) -> XaPrepared:
    """What `to_json` wrote."""
    xid, since, tables, gtids, *more = value
    databases = frozenset() if not more else None if more[0] is None else frozenset(more[0])
    return XaPrepared(xid, since, tuple(TableId(*table) for table in tables), GtidSet.parse(gtids), databases)
