"""Repairs what a verification found: the rows that differ in the lake are read again through the stream.

The sink reports their keys in batches (`DifferencesReported`), one at a time. Each batch takes two windows, one after
the other:

1. The rows come as separate changes (`op` = r). Of a key without a row comes a change that removes it (`op` = d). So
   the merge mends the lake as it does after any change, and nothing else writes there.
2. The same keys are read once more. These rows, and the keys without one, go into the verification's files, and the
   lake compares them with what it has then.

**Durable.** The checkpoint has the number of batches that have passed (`Repairing`), and no keys. The sink repeats its
report with each of its batches until the checkpoint has it. A batch that a restart interrupts is repaired once more,
which changes nothing.

**Bounded.** One batch is under way, and one order of rows by their keys (`State.reselecting`).

A key that a change touches within the window of 1 has its row from that change. A row whose log has only a part of it
may still differ then, and the comparison says so.
"""

from dataclasses import replace

from pipeline.coordinator.reselect import is_schema_settled
from pipeline.coordinator.snapshots.table_snapshots import end_table
from pipeline.coordinator.state import ReaderRunning, Repair, State, with_table
from pipeline.coordinator.window import Reading
from pipeline.messages.chunks import RepairRows
from pipeline.messages.journal import DifferencesReported
from pipeline.schema.row_keys import key_tokens
from pipeline.schema.table_schema import TableId
from pipeline.snapshot.snapshot import (
    ChunkId,
    Completed,
    Repairing,
    Snapshot,
    SnapshotFailed,
    TableSnapshot,
)

_NOT_READ = "rows to repair can't be read: {reason}"
_NOT_REPORTED = "what it found can't be read in the lake: {reason}; verify the table again"


def differences_reported(state: State, found: DifferencesReported) -> State:
    """Begins a batch, or completes the table if there is nothing to repair. Repeated and outdated reports change
    nothing."""
    repaired = _repairing(state, found.run, found.table)
    if repaired is None or repaired[1].batches != found.batch - 1:
        return state
    snapshot, was = repaired
    if found.reason:
        current = _current(state)
        if current is not None and (current.run, current.table) == (found.run, found.table):
            return state  # an earlier report had them
        ended = SnapshotFailed(_NOT_REPORTED.format(reason=found.reason), was.progress)
        return end_table(state, snapshot, found.table, ended)
    if not found.keys:
        return end_table(state, snapshot, found.table, _after_batch(was, 0, 0, last=True))
    if _current(state) is not None:
        return state
    return replace(state, repair=Repair(found.run, found.table, found.batch, found.keys, found.last))


def order_repair(state: State) -> tuple[State, tuple[RepairRows, ...]]:
    """Orders the rows of the batch, if that is possible now."""
    repair = _current(state)
    if repair is None or not _can_read(state, repair.table):
        return state, ()
    schema = state.checkpoint.schemas[repair.table]
    order = RepairRows(
        ChunkId(repair.run, repair.table, state.chunks + 1),
        schema,
        repair.keys,
        key_tokens(repair.keys, range(len(schema.key))),
        repair.checks,
        state.checkpoint.position,
    )
    return replace(
        state,
        reselecting=order.chunk,
        windows=(*state.windows, Reading(order)),
        chunks=state.chunks + 1,
    ), (order,)


def batch_emitted(state: State, compared: int) -> State:
    """Returns the state after the rows of a window have entered the stream, so many of them."""
    repair = _current(state)
    assert repair is not None  # otherwise its table has ended, and the window was dropped
    if not repair.checks:
        return replace(state, repair=replace(repair, checks=True))
    repaired = _repairing(state, repair.run, repair.table)
    assert repaired is not None
    snapshot, was = repaired
    after = _after_batch(was, 1, compared, last=repair.last)
    advance = with_table if isinstance(after, Repairing) else end_table
    return replace(advance(state, snapshot, repair.table, after), repair=None)


def repair_failed(state: State, reason: str) -> State:
    """Ends the verification of the table whose rows can't be read."""
    repair = _current(state)
    assert repair is not None
    repaired = _repairing(state, repair.run, repair.table)
    assert repaired is not None
    snapshot, was = repaired
    ended = SnapshotFailed(_NOT_READ.format(reason=reason), was.progress)
    return replace(end_table(state, snapshot, repair.table, ended), repair=None)


def _after_batch(was: Repairing, batches: int, compared: int, *, last: bool) -> TableSnapshot:
    counts = was.progress, was.batches + batches, was.reread + compared
    return Completed(*counts) if last else Repairing(*counts)


def _current(state: State) -> Repair | None:
    """Returns the batch that is under way, unless its table has ended since."""
    repair = state.repair
    if repair is None:
        return None
    repaired = _repairing(state, repair.run, repair.table)
    return repair if repaired is not None and repaired[1].batches == repair.batch - 1 else None


def _repairing(state: State, run: str, table: TableId) -> tuple[Snapshot, Repairing] | None:
    for snapshot in state.checkpoint.snapshots:
        if snapshot.id == run and isinstance(was := snapshot.tables.get(table), Repairing):
            return snapshot, was
    return None


def _can_read(state: State, table: TableId) -> bool:
    if state.reselecting is not None or not isinstance(state.reader, ReaderRunning):
        return False
    if state.checkpoint.paused or state.overloaded is not None:
        return False
    if any(isinstance(window.order, RepairRows) for window in state.windows):
        return False
    return is_schema_settled(state, table)
