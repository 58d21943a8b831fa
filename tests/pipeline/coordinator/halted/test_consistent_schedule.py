"""Consistent snapshots: the stream goes to where the transactions were opened, stops there, and continues."""

from dataclasses import replace

from pipeline.config.settings import SnapshotMode
from pipeline.coordinator import resume
from pipeline.coordinator import step as coordinator
from pipeline.coordinator.consistent_state import ApproachingPosition
from pipeline.coordinator.state import Overlapping
from pipeline.messages.chunks import (
    OpenTransactions,
    TransactionsOpened,
)
from pipeline.snapshot.checkpoint import Checkpoint, Filling
from pipeline.snapshot.snapshot import (
    Chunking,
    Completed,
    Progress,
    Snapshot,
    SnapshotFailed,
    SnapshotWaiting,
)
from tests.pipeline.builders import (
    ITEMS,
    LIMITS,
    ORDERS,
    gtids,
    place,
)

EMPTY = Checkpoint(gtids("a:1-5"), scn=7, schemas={each.table: each for each in (ORDERS, ITEMS)})
MODE = Overlapping(4)
OPENED = TransactionsOpened(1, place(30), gtids("a:1-6"))


class Stream:
    """A coordinator whose new tables are to be read consistently; the stream is at place 10."""

    def __init__(self, checkpoint: Checkpoint = EMPTY) -> None:
        self.state, self.orders = coordinator.start(checkpoint, LIMITS, MODE, SnapshotMode.CONSISTENT)

    @property
    def kinds(self) -> list[type]:
        """The orders of the start, by their types."""
        return [type(order) for order in self.orders]


def test_what_has_ended_is_left_as_it_is() -> None:
    over = Snapshot("consistent-7", {ORDERS.table: Completed(Progress())}, consistent=True)
    failed = Snapshot(
        "other",
        {ORDERS.table: SnapshotFailed("so", Progress()), ITEMS.table: SnapshotWaiting()},
        consistent=True,
    )
    checkpoint = replace(EMPTY, snapshots=(over, failed))
    assert resume.restart_consistent_snapshots(checkpoint) is checkpoint


def test_it_waits_for_a_table_that_another_snapshot_has_begun() -> None:
    chunking = Chunking((), "v", True, Progress())
    other = Snapshot("s", {ORDERS.table: chunking})
    asked = Snapshot(
        "consistent-7",
        {ORDERS.table: SnapshotWaiting(), ITEMS.table: SnapshotWaiting()},
        consistent=True,
        priority=1001,
    )
    stream = Stream(
        replace(EMPTY, snapshots=(other, asked), mirrors=dict.fromkeys(EMPTY.schemas, Filling(0)))
    )
    assert OpenTransactions not in stream.kinds


def test_it_holds_only_there_and_with_all_of_it_executed() -> None:
    there = ApproachingPosition(OpenTransactions(1, 0), OPENED)
    state = Stream().state
    at = replace(state, stream=place(30), checkpoint=replace(EMPTY, position=gtids("a:1-6")))
    assert there.holds(at.passed)
    assert there.holds(replace(at, checkpoint=EMPTY).passed)
    assert not there.holds(replace(at, stream=place(29)).passed)
    assert not there.holds(replace(at, stream=place(31)).passed)
    assert not there.holds(replace(at, stream=None).passed)
    assert not there.holds(replace(at, checkpoint=replace(EMPTY, position=gtids("a:1-6,b:1"))).passed)
