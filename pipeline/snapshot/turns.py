"""Whose turn it is: in which order snapshots read their tables."""

from collections.abc import Iterator

from pipeline.schema.table_schema import TableId
from pipeline.snapshot.checkpoint import Checkpoint
from pipeline.snapshot.snapshot import Chunking, Snapshot, SnapshotWaiting, Unfinished


def snapshot_of(checkpoint: Checkpoint, table: TableId) -> Snapshot | None:
    """Returns the snapshot that reads this table next or now.

    A table that is under way stays with its snapshot, even if another one would come before it.
    """
    wanting = [
        s for s in _by_priority(checkpoint) if isinstance(s.tables.get(table), SnapshotWaiting | Chunking)
    ]
    under_way = (snapshot for snapshot in wanting if isinstance(snapshot.tables[table], Chunking))
    return next(under_way, wanting[0] if wanting else None)


def table_turns(checkpoint: Checkpoint) -> dict[TableId, Snapshot]:
    """Returns each table that a snapshot will read, with its `snapshot_of`, in the order of their turns."""
    turns: dict[TableId, Snapshot] = {}
    for snapshot, table in unfinished_tables(checkpoint):
        state = snapshot.tables[table]
        if isinstance(state, Chunking) or (isinstance(state, SnapshotWaiting) and table not in turns):
            turns[table] = snapshot
    return turns


def unfinished_tables(checkpoint: Checkpoint) -> Iterator[tuple[Snapshot, TableId]]:
    """Returns the tables of all waiting and running snapshots, in the snapshots' order."""
    for snapshot in _by_priority(checkpoint):
        for table, state in snapshot.tables.items():
            if isinstance(state, Unfinished):
                yield snapshot, table


def _by_priority(checkpoint: Checkpoint) -> list[Snapshot]:
    """Returns the snapshots, higher priorities first, then older ones."""
    return sorted(checkpoint.snapshots, key=lambda snapshot: -snapshot.priority)
