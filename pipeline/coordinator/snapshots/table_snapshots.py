"""How a table's snapshot begins, ends and begins again, and its mirror with it."""

from dataclasses import replace

from pipeline.coordinator.state import (
    InTransaction,
    State,
    begun_scn,
    drop_windows,
    forget_unknown_rows,
    with_checkpoint,
    with_mirror,
    with_table,
)
from pipeline.schema.table_schema import TableId
from pipeline.snapshot.checkpoint import Filling, Ready, awaits_snapshot, is_keyless, stays_incomplete
from pipeline.snapshot.reselect_keys import rereads_rows
from pipeline.snapshot.snapshot import (
    NOT_READ,
    Chunking,
    Completed,
    Snapshot,
    SnapshotFailed,
    SnapshotStopped,
    SnapshotWaiting,
    TableSnapshot,
    progress,
)
from pipeline.snapshot.turns import snapshot_of, unfinished_tables


def stop_table(state: State, table: TableId, reason: str) -> State:
    """Stops the table's capture: its snapshots fail, and an open transaction keeps nothing of it."""
    if isinstance(state.phase, InTransaction):
        state = replace(state, phase=replace(state.phase, stopped=state.phase.stopped | {table}))
    state = with_checkpoint(state, stopped={**state.checkpoint.stopped, table: reason})
    state = forget_unknown_rows(state, table)
    while snapshot_of(state.checkpoint, table):  # also those that wait for the first one
        state = fail_table(state, table, reason)
    for snapshot, other in list(unfinished_tables(state.checkpoint)):  # and those that are being repaired
        if other == table:
            ended = SnapshotFailed(reason, progress(snapshot.tables[table]))
            state = end_table(state, snapshot, table, ended)
    return state


def fail_table(state: State, table: TableId, reason: str) -> State:
    """Marks the table's running snapshot, if it has one, as failed for this reason."""
    snapshot = snapshot_of(state.checkpoint, table)
    if snapshot is None:
        return drop_windows(state, {table})
    was = snapshot.tables[table]
    schema = state.checkpoint.schemas.get(table)
    hidden = schema is not None and state.protection.hides_key(schema)
    unread = "" if hidden else _unread_ranges(was)
    return end_table(state, snapshot, table, SnapshotFailed(f"{reason}{unread}", progress(was)))


def _unread_ranges(state: TableSnapshot) -> str:
    """Returns the unread part of the table, as text for the reason of a failure."""
    if not isinstance(state, Chunking):
        return ""
    ranges = (
        f"after {each.done} through {each.end}" if each.done else f"through {each.end}"
        for each in state.ranges
    )
    return f"{NOT_READ}{', '.join(ranges)})"


def end_table(state: State, snapshot: Snapshot, table: TableId, ended: TableSnapshot) -> State:
    """Ends the table's snapshot. A mirror with all of its rows is ready for merges.

    A partly read mirror lacks rows. The next snapshot, whenever it comes, begins another generation. A complete mirror
    lacks rows too if they were to be read again by this snapshot. It isn't complete any more, and begins again here.
    """
    was, mirror = snapshot.tables[table], state.checkpoint.mirrors.get(table)
    state = with_table(drop_windows(state, {table}), snapshot, table, ended)
    fills = snapshot.fills(table) and not is_keyless(state.checkpoint, table)
    match mirror, ended:
        case Filling(since), Completed() if fills:
            return with_mirror(state, table, Ready(since))
        case Filling(), _ if _fills_mirror(was) and awaits_snapshot(state.checkpoint, table):
            # The next snapshot reads all rows into a mirror that has none of these.
            return with_mirror(state, table, Filling(begun_scn(state)))
        case Filling() | Ready(), SnapshotStopped() | SnapshotFailed() if rereads_rows(snapshot):
            return _without_unknown_rows(state, table)
        case _:
            return state


def _without_unknown_rows(state: State, table: TableId) -> State:
    """Returns the state in which the table's mirror begins again, unless the table has stopped. Another snapshot of it
    begins again, too, because its chunks so far are of the generation before."""
    if table in state.checkpoint.stopped:
        return state
    other = snapshot_of(state.checkpoint, table)
    if other is not None:
        state = with_table(state, other, table, SnapshotWaiting())
    return with_mirror(state, table, Filling(begun_scn(state)))


def _fills_mirror(was: TableSnapshot) -> bool:
    return isinstance(was, Chunking) and was.first


def restart_table(state: State, snapshot: Snapshot, table: TableId) -> State:
    """Begins the table's snapshot and its mirror again, because the meaning of its keys has changed."""
    if _fills_mirror(snapshot.tables[table]):
        state = with_mirror(state, table, Filling(begun_scn(state)))
    return with_table(drop_windows(state, {table}), snapshot, table, SnapshotWaiting())


def with_snapshot(state: State, snapshot: Snapshot) -> State:
    """Returns the state with one more snapshot.

    If it is the first snapshot of a table, the table has a mirror from here on. Earlier changes don't count for that
    mirror: another key may have told their rows apart. The same holds for a table whose mirror lacks rows, because the
    snapshot that filled it failed or was stopped.
    """
    mirrors = state.checkpoint.mirrors
    first = [
        table
        for table, waiting in snapshot.tables.items()
        if isinstance(waiting, SnapshotWaiting)
        and snapshot.fills(table)
        and not is_keyless(state.checkpoint, table)
        and (table not in mirrors or stays_incomplete(state.checkpoint, table))
    ]
    begun = {**mirrors, **dict.fromkeys(first, Filling(begun_scn(state)))}
    return with_checkpoint(state, snapshots=(*state.checkpoint.snapshots, snapshot), mirrors=begun)
