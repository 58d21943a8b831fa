"""What a reader has to know of its tables, besides their rows: which have stopped, and which have begun again.

A table begins again without a statement that emptied it when the stream lacks changes of it. That is so after a
recapture, a gap in the log, or an ALTER that changed what its keys mean. Its rows are read again, into the lake. So
what a reader has of it isn't right any more, and only the lake has all of its rows (`GET /bootstrap`). That holds
too if the read finds no rows, or if changes supersede all that it finds: what the reader has may have gone. A
statement that emptied the table is a row of the changes, and needs no notice.

A notice comes with the checkpoint that ends the segment. A reader that stores the checkpoint has the notice.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pipeline.journal.entry import Entry, resumed_tables
from pipeline.schema.table_schema import TableId


@dataclass(frozen=True, slots=True)
class TableNotices:
    """The tables that have begun again, and those that have stopped with the reason of each."""

    restarted: tuple[TableId, ...] = ()
    stopped: Mapping[TableId, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.restarted or self.stopped)

    def to_json(self) -> dict[str, Any]:
        """Returns `restarted` and `stopped` as plain JSON values, without what is empty."""
        restarted = list(map(str, self.restarted))
        stopped = {str(table): reason for table, reason in self.stopped.items()}
        return {name: each for name, each in (("restarted", restarted), ("stopped", stopped)) if each}


NO_NOTICES: Final = TableNotices()


def notices_of(
    before: Entry | None, entry: Entry, tables: Collection[TableId], known: Mapping[TableId, str]
) -> TableNotices:
    """Returns the notices of a segment. `tables`: only of these; of all without any.

    `before`: the segment before, None if the journal doesn't have it. `known`: the stops that the reader knows.
    """
    restarted = sorted(_begun(before, entry) | _started(before, entry))
    stopped = {
        table: reason
        for table, reason in entry.checkpoint.stopped.items()
        if _wanted(table, tables) and known.get(table) != reason
    }
    return TableNotices(tuple(table for table in restarted if _wanted(table, tables)), stopped)


def _wanted(table: TableId, tables: Collection[TableId]) -> bool:
    return not tables or table in tables


def _begun(before: Entry | None, entry: Entry) -> set[TableId]:
    """Returns the tables whose mirror has begun again, and not because a statement emptied the table."""
    emptied = entry.emptied
    return {
        table
        for table, mirror in entry.checkpoint.mirrors.items()
        if emptied.get(table) != mirror.since and _is_another(before, entry, table, mirror.since)
    }


def _is_another(before: Entry | None, entry: Entry, table: TableId, since: int) -> bool:
    if before is None:
        # A mirror of the journal's first segment is the table's first one.
        return entry.segment > 1 and since >= entry.first_scn - 1
    was = before.checkpoint.mirrors.get(table)
    return was is not None and was.since != since


def _started(before: Entry | None, entry: Entry) -> set[TableId]:
    """Returns the tables whose stop has ended: changes between are lacking, whether they have a mirror or not.

    An entry of an earlier version doesn't say it.
    """
    found = set(entry.resumed)
    return found if before is None else found | resumed_tables(before.checkpoint, entry.checkpoint)
