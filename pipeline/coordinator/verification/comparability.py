"""Verifications: snapshots whose rows aren't for the lake's tables, but are compared with them.

A verification takes chunks, windows, ranges, pauses and checkpoints as they are. When one of its windows closes, the
rows that no change touched equal the source's rows at that SCN (`pipeline.coordinator.window`). They go into the
journal as files of their own kind, and no consumer takes them for changes.

What the lake has of a table is comparable with these rows only for a time. The mirror must have the generation and the
columns that it had when the verification was requested. If either has changed, the verification of the table ends with
that reason. No mirror begins at the SCN of a checkpoint that was sent, so a mirror of `since` or later is another one.
"""

from pipeline.coordinator.snapshots.table_snapshots import end_table
from pipeline.coordinator.state import State
from pipeline.schema.table_schema import TableId
from pipeline.snapshot.checkpoint import Checkpoint, Ready
from pipeline.snapshot.snapshot import VERIFIED_ALREADY, Snapshot, SnapshotFailed, progress
from pipeline.snapshot.turns import unfinished_tables

INCOMPLETE = "its mirror isn't complete: verify it once its snapshot is"
_MIRROR_BEGUN = "its mirror has begun again: verify it once that is complete"
_COLUMNS_CHANGED = "its columns have changed meanwhile: verify it again"


def refusal(checkpoint: Checkpoint, table: TableId) -> str | None:
    """Returns why a table can't be verified now; None if it can."""
    if not isinstance(checkpoint.mirrors.get(table), Ready):
        return INCOMPLETE
    under_way = (s.id for s, other in unfinished_tables(checkpoint) if other == table and s.verification)
    return next((f"{VERIFIED_ALREADY}, by {other}" for other in under_way), None)


def end_outdated(before: Checkpoint | None, state: State) -> State:
    """Ends the verifications whose rows can't be compared any more after a message, or, if `before` is None, after a
    start."""
    checkpoint = state.checkpoint
    if before and checkpoint.mirrors is before.mirrors and checkpoint.schemas is before.schemas:
        return state
    for snapshot, table in list(unfinished_tables(checkpoint)):
        if snapshot.verification is None:
            continue
        if reason := _outdated(before, checkpoint, snapshot.verification.since, table):
            current = _current(state, snapshot)
            ended = SnapshotFailed(reason, progress(current.tables[table]))
            state = end_table(state, current, table, ended)
    return state


def _outdated(before: Checkpoint | None, after: Checkpoint, since: int, table: TableId) -> str | None:
    mirror = after.mirrors.get(table)
    if mirror is None or mirror.since >= since:
        return _MIRROR_BEGUN
    was = before and before.schemas.get(table)
    return _COLUMNS_CHANGED if was and was != after.schemas.get(table) else None


def _current(state: State, snapshot: Snapshot) -> Snapshot:
    """Returns the snapshot as it is now: another of its tables may just have ended."""
    return next(each for each in state.checkpoint.snapshots if each.id == snapshot.id)
