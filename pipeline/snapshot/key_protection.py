"""Snapshots without the keys at which their ranges begin and end, if keys of the table are protected.

A running snapshot needs them, and has them in memory. The journal and the status have this form. A start from it has
ranges of no walk. So the table's plan finds another walk and begins the table's snapshot again
(`pipeline.coordinator.handle_chunks`), as after a change of the index that it follows.
"""

from dataclasses import replace

from pipeline.config.column_protection import Protection
from pipeline.schema.table_schema import TableId, TableSchema
from pipeline.snapshot.checkpoint import Checkpoint
from pipeline.snapshot.snapshot import Chunking, Range, Snapshot, TableSnapshot


def conceal_keys(checkpoint: Checkpoint, protection: Protection) -> Checkpoint:
    """Returns the checkpoint without protected keys of the source."""
    if not protection.rules:
        return checkpoint
    return replace(
        checkpoint, snapshots=tuple(_concealed(s, checkpoint, protection) for s in checkpoint.snapshots)
    )


def _concealed(snapshot: Snapshot, checkpoint: Checkpoint, protection: Protection) -> Snapshot:
    tables = {
        table: _without_keys(state) if _hides(checkpoint.schemas.get(table), protection) else state
        for table, state in snapshot.tables.items()
    }
    return replace(snapshot, tables=tables)


def _hides(schema: TableSchema | None, protection: Protection) -> bool:
    return schema is not None and protection.hides_key(schema)


def _without_keys(state: TableSnapshot) -> TableSnapshot:
    if not isinstance(state, Chunking):
        return state
    return replace(
        state, ranges=tuple(Range(each.number, None, ()) for each in state.ranges), walk_version=""
    )


def restarts_at_start(checkpoint: Checkpoint, protection: Protection) -> frozenset[TableId]:
    """Returns the tables that a start can't continue: rows of them wait to be read by keys that the journal lacks."""
    return frozenset(t for t in checkpoint.unread if _hides(checkpoint.schemas.get(t), protection))
