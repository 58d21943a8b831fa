"""Small changes of the state."""

from pipeline.coordinator.state import with_table
from pipeline.snapshot.snapshot import Completed, Progress, SnapshotStopped, SnapshotWaiting
from tests.pipeline.builders import ORDERS
from tests.pipeline.coordinator.held_snapshots import UNDER_WAY, holding


def test_one_snapshot_of_a_table_changes_and_the_others_stay() -> None:
    state = holding(Completed(Progress()), UNDER_WAY, SnapshotWaiting())
    second = state.checkpoint.snapshots[1]
    after = with_table(state, second, ORDERS.table, SnapshotStopped(Progress()))
    states = [snapshot.tables[ORDERS.table] for snapshot in after.checkpoint.snapshots]
    assert states == [Completed(Progress()), SnapshotStopped(Progress()), SnapshotWaiting()]
