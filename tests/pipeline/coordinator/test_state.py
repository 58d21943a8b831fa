"""What ends and what is dropped: by statements, by failures, by stops; and what is remembered of it."""

from dataclasses import replace

import pyarrow as pa
import pytest

from pipeline.coordinator import state as coordinator_state
from pipeline.coordinator.state import SNAPSHOTS_REMEMBERED, Overlapping, State
from pipeline.schema.table_schema import TableSchema
from pipeline.snapshot.checkpoint import Checkpoint, Filling, Mirror, Ready
from pipeline.snapshot.snapshot import (
    Chunking,
    Completed,
    Progress,
    Range,
    Snapshot,
    SnapshotFailed,
    SnapshotStopped,
    SnapshotWaiting,
    TableSnapshot,
)
from tests.pipeline.builders import (
    ITEMS,
    LIMITS,
    ORDERS,
    Capture,
    execute,
    gtids,
    insert,
    passed,
    planned,
    read,
    wrote,
)

# Failures


def test_a_chunk_whose_keys_have_no_value_stops_its_table_since_its_rows_cannot_be_told_apart() -> None:
    capture = Capture(ORDERS, ITEMS)
    order = capture.begin(ORDERS)
    capture.begin(ITEMS, signal="s2")
    chunk = read(order, 1, 2, high=10)
    without_values = chunk.rows.set_column(0, "id", pa.array([1, None], pa.int64()))
    capture.give(replace(chunk, rows=without_values))
    failed = capture.table(ORDERS)
    assert isinstance(failed, SnapshotFailed) and failed.reason.startswith(
        "id of its primary key has a zero or partial date"
    )
    [why] = capture.checkpoint.stopped.values()
    assert failed.reason.startswith(why)
    assert capture.windows == ["items reading"]
    assert capture.stream == []


# Remembering


def test_the_last_snapshots_that_ended_are_remembered_and_no_more() -> None:
    capture = Capture(ORDERS)
    for number in range(SNAPSHOTS_REMEMBERED + 3):
        capture.give(execute(f"s{number}", ORDERS), planned(ORDERS, end=None))
    remembered = [snapshot.id for snapshot in capture.checkpoint.snapshots]
    assert remembered == [f"s{number}" for number in range(3, SNAPSHOTS_REMEMBERED + 3)]


def test_a_snapshot_that_has_not_ended_is_remembered_however_many_ended_after_it() -> None:
    capture = Capture(ORDERS, ITEMS)
    capture.begin(ORDERS, signal="long")
    for number in range(SNAPSHOTS_REMEMBERED + 3):
        capture.give(execute(f"s{number}", ITEMS), planned(ITEMS, end=None))
    assert capture.checkpoint.snapshots[0].id == "long"
    assert len(capture.checkpoint.snapshots) == SNAPSHOTS_REMEMBERED + 1


# The small changes by themselves

UNDER_WAY = Chunking((Range(0, (2,), (9,)),), "walk", first=True, progress=Progress(chunks=1, rows=2))


def holding(*states: TableSnapshot, mirrors: dict[TableSchema, Mirror] | None = None) -> State:
    """A state with a snapshot s1, s2, … for each of these states of ORDERS."""
    snapshots = tuple(Snapshot(f"s{i}", {ORDERS.table: state}) for i, state in enumerate(states, start=1))
    known = {schema.table: mirror for schema, mirror in (mirrors or {}).items()}
    return State(LIMITS, Overlapping(4), Checkpoint(gtids(""), mirrors=known, snapshots=snapshots))


@pytest.mark.parametrize(
    "ended", [Completed(Progress()), SnapshotStopped(Progress()), SnapshotFailed("so", Progress())]
)
def test_a_mirror_that_was_being_filled_is_ready_only_if_all_was_read(ended: TableSnapshot) -> None:
    state = holding(UNDER_WAY, mirrors={ORDERS: Filling(3)})
    (snapshot,) = state.checkpoint.snapshots
    after = coordinator_state.end_table(state, snapshot, ORDERS.table, ended).checkpoint
    completed = isinstance(ended, Completed)
    assert after.mirrors == {ORDERS.table: Ready(3) if completed else Filling(3)}
    assert after.snapshots == (Snapshot("s1", {ORDERS.table: ended}),)


def test_a_mirror_that_a_snapshot_along_another_index_completes_stays_the_same_generation() -> None:
    """Its rows come as changes: none of those before another generation would count."""
    capture = Capture(ORDERS)
    capture.give(execute("s1", ORDERS, surrogate="value"), planned(ORDERS))
    begun = capture.checkpoint.mirrors[ORDERS.table]
    capture.give(passed(20, wrote("a:6", insert(1))))
    capture.give(execute("s2", ORDERS))
    assert capture.checkpoint.mirrors[ORDERS.table] == begun


@pytest.mark.parametrize("ended", [SnapshotStopped(Progress()), SnapshotFailed("so", Progress())])
def test_a_table_whose_snapshot_never_began_has_no_mirror(ended: TableSnapshot) -> None:
    state = holding(SnapshotWaiting())
    (snapshot,) = state.checkpoint.snapshots
    assert coordinator_state.end_table(state, snapshot, ORDERS.table, ended).checkpoint.mirrors == {}


def test_a_failure_of_a_table_without_a_snapshot_changes_nothing_durable() -> None:
    before = holding(Completed(Progress()))
    assert coordinator_state.fail_table(before, ORDERS.table, "so") == before


def test_the_snapshot_of_a_table_is_the_first_in_which_it_has_not_ended() -> None:
    checkpoint = holding(Completed(Progress()), UNDER_WAY, SnapshotWaiting()).checkpoint
    found = coordinator_state.snapshot_of(checkpoint, ORDERS.table)
    assert found is not None and found.id == "s2"
    assert coordinator_state.snapshot_of(checkpoint, ITEMS.table) is None
    assert [snapshot.id for snapshot, _ in coordinator_state.unfinished_tables(checkpoint)] == ["s2", "s3"]


def test_one_snapshot_of_a_table_changes_and_the_others_stay() -> None:
    state = holding(Completed(Progress()), UNDER_WAY, SnapshotWaiting())
    second = state.checkpoint.snapshots[1]
    after = coordinator_state.with_table(state, second, ORDERS.table, SnapshotStopped(Progress()))
    states = [snapshot.tables[ORDERS.table] for snapshot in after.checkpoint.snapshots]
    assert states == [Completed(Progress()), SnapshotStopped(Progress()), SnapshotWaiting()]
