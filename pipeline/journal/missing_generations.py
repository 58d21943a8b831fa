"""A consumer that comes late: the journal no longer has some of the segments that it lacks.

It was added later, or somebody removed what it had written, or it was forgotten and came back. The journal can't give
what it removed, but the source still has the tables. So each table's mirror begins again: a *generation*
(`pipeline.snapshot.checkpoint.Mirror`) begins empty after its SCN, and every later row belongs to it. The consumer can
take a table as soon as the SCN of its generation isn't before the last SCN that was removed. Then the journal has the
complete generation. Until the segment with such a generation, the consumer leaves the table out and requests one. The
coordinator begins a generation again only if it is still the one that the request names. So a request that is repeated
or was lost does no harm. The journal shows what came of it, so nothing has to be remembered.

A table without a mirror has only changes, and is taken from the journal's beginning. If it has no key, and a scan has
read it, its changes don't add up to its rows in such a consumer. Only another scan makes them do so. The journal's
segments don't show that, so the consumer has to remember it. The same holds if somebody has removed the table from what
the consumer had written: a scan is never without a row there, because its first one says that it begins.
"""

from collections.abc import Collection, Mapping

from pipeline.journal.entry import Entry
from pipeline.schema.table_schema import TableId
from pipeline.snapshot.checkpoint import Checkpoint
from pipeline.snapshot.snapshot import Completed

# Tables of which a consumer lacks a scan or changes after it, each with its complete snapshots that came before.
LostScans = Mapping[TableId, frozenset[str]]


def incomplete_generations(
    tables: Collection[TableId], checkpoint: Checkpoint, beginning: int
) -> dict[TableId, int]:
    """Those of the tables whose generation at this checkpoint lacks rows, with its `since`.

    `beginning`: the last SCN that has gone from the journal.
    """
    return {
        table: mirror.since
        for table, mirror in checkpoint.mirrors.items()
        if table in tables
        and table in checkpoint.schemas
        and table not in checkpoint.stopped
        and mirror.since < beginning
    }


def scans_before(tables: Collection[TableId], first: Entry) -> dict[TableId, frozenset[str]]:
    """Returns those of the tables that were scanned before this segment, with which the journal begins."""
    within = {sealed.chunk.table for sealed in first.chunks}
    return scans_through([table for table in tables if table not in within], first.checkpoint)


def scans_through(tables: Collection[TableId], checkpoint: Checkpoint) -> dict[TableId, frozenset[str]]:
    """Returns those of the tables that were scanned before the end of a segment, with this checkpoint."""
    return {table: _complete_snapshots(table, checkpoint) for table in tables if table in checkpoint.scanned}


def lost_by(lost: LostScans, checkpoint: Checkpoint) -> dict[TableId, frozenset[str]]:
    """Returns those tables that haven't been scanned again at a checkpoint."""
    return {
        table: known
        for table, known in lost.items()
        if table in checkpoint.scanned and _complete_snapshots(table, checkpoint) <= known
    }


def _complete_snapshots(table: TableId, checkpoint: Checkpoint) -> frozenset[str]:
    return frozenset(
        snapshot.id
        for snapshot in checkpoint.snapshots
        if isinstance(snapshot.tables.get(table), Completed) and snapshot.fills(table)
    )
