"""What ends and what is dropped: by statements, by failures, by stops."""

from dataclasses import replace

import pyarrow as pa
import pytest

from pipeline.coordinator.snapshots.table_snapshots import end_table, fail_table
from pipeline.snapshot.checkpoint import Filling, Ready
from pipeline.snapshot.snapshot import (
    Completed,
    Progress,
    Snapshot,
    SnapshotFailed,
    SnapshotStopped,
    SnapshotWaiting,
    TableSnapshot,
)
from tests.pipeline.builders import ITEMS, ORDERS, Capture, execute, insert, passed, planned, read, wrote
from tests.pipeline.coordinator.held_snapshots import UNDER_WAY, holding


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


@pytest.mark.parametrize(
    "ended", [Completed(Progress()), SnapshotStopped(Progress()), SnapshotFailed("so", Progress())]
)
def test_a_mirror_that_was_being_filled_is_ready_only_if_all_was_read(ended: TableSnapshot) -> None:
    state = holding(UNDER_WAY, mirrors={ORDERS: Filling(3)})
    (snapshot,) = state.checkpoint.snapshots
    after = end_table(state, snapshot, ORDERS.table, ended).checkpoint
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
    assert end_table(state, snapshot, ORDERS.table, ended).checkpoint.mirrors == {}


def test_a_failure_of_a_table_without_a_snapshot_changes_nothing_durable() -> None:
    before = holding(Completed(Progress()))
    assert fail_table(before, ORDERS.table, "so") == before
