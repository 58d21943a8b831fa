"""Which ended snapshots are remembered: the last ones, and those that still explain something."""

from pipeline.coordinator.snapshots.ended_snapshots import SNAPSHOTS_REMEMBERED
from pipeline.lake.verification.runs import runs_of
from pipeline.messages.chunks import PlanFailed
from pipeline.messages.signals import SignalReceived
from pipeline.schema.table_filter import TableFilter
from pipeline.signals.outcomes import Outcome, SignalState, outcomes_between
from pipeline.signals.signal import VerifyTables
from pipeline.snapshot.checkpoint import Checkpoint, Filling, Mirror, Ready
from pipeline.snapshot.snapshot import Completed, Progress, Snapshot, SnapshotFailed
from tests.pipeline.builders import (
    ITEMS,
    ORDERS,
    Capture,
    execute,
    gtids,
    insert,
    part,
    passed,
    planned,
    read,
    statement,
    stop,
    wrote,
)


def mirrored(orders: Mirror) -> Checkpoint:
    """Two tables with mirrors: that of the orders is this one, and the other is complete."""
    return Checkpoint(
        gtids("a:1-5"),
        scn=3,
        schemas={each.table: each for each in (ORDERS, ITEMS)},
        mirrors={ORDERS.table: orders, ITEMS.table: Ready(2)},
    )


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


def test_the_end_of_a_snapshot_that_is_older_than_all_remembered_ones_is_reported() -> None:
    capture = Capture(ORDERS, ITEMS)
    order = capture.begin(ORDERS, signal="long")
    for number in range(SNAPSHOTS_REMEMBERED):
        capture.give(execute(f"s{number}", ITEMS), planned(ITEMS, end=None))
    before = capture.checkpoint
    capture.give(read(order, 9, high=10))
    assert outcomes_between(before, capture.checkpoint) == (SignalState("long", Outcome.DONE, "shop.orders"),)
    for number in range(SNAPSHOTS_REMEMBERED - 1):
        capture.give(execute(f"t{number}", ITEMS), planned(ITEMS, end=None))
    assert capture.checkpoint.snapshots[0].id == "long", "others ended before it"
    capture.give(execute("last", ITEMS), planned(ITEMS, end=None))
    assert len(capture.checkpoint.snapshots) == SNAPSHOTS_REMEMBERED
    assert "long" not in [snapshot.id for snapshot in capture.checkpoint.snapshots]


def test_all_snapshots_that_one_signal_stops_are_reported_as_ended() -> None:
    capture = Capture(ORDERS, ITEMS)
    asked = [f"s{number}" for number in range(SNAPSHOTS_REMEMBERED + 3)]
    capture.give(*(execute(id_, ORDERS) for id_ in asked))
    before = capture.checkpoint
    capture.give(stop("x", ORDERS))
    told = outcomes_between(before, capture.checkpoint)
    assert {state.id: state.outcome for state in told} == dict.fromkeys(asked, Outcome.FAILED)
    capture.give(execute("later", ITEMS), planned(ITEMS, end=None))
    assert len(capture.checkpoint.snapshots) == SNAPSHOTS_REMEMBERED


def test_snapshots_that_end_within_a_transaction_are_remembered_until_its_end() -> None:
    capture = Capture(ORDERS, ITEMS)
    asked = [f"s{number}" for number in range(SNAPSHOTS_REMEMBERED + 1)]
    capture.give(*(execute(id_, ORDERS) for id_ in asked), part("a:6", insert(1, ITEMS)))
    capture.give(stop("x", ORDERS), stop("y", ORDERS), passed(20, wrote("a:6", insert(2, ITEMS))))
    assert [snapshot.id for snapshot in capture.checkpoint.snapshots] == asked
    assert [snapshot.end_number for snapshot in capture.checkpoint.snapshots] == [*range(1, len(asked) + 1)]


def test_snapshots_do_not_supersede_a_verification_whose_rows_the_lake_compares_later() -> None:
    capture = Capture(checkpoint=mirrored(Ready(2)))
    for number in range(SNAPSHOTS_REMEMBERED + 2):
        verify = VerifyTables(f"v{number}", TableFilter((r"shop\.orders",)))
        capture.give(SignalReceived(verify), planned(ORDERS, end=None))
    for number in range(SNAPSHOTS_REMEMBERED + 2):
        capture.give(execute(f"s{number}", ITEMS), planned(ITEMS, end=None))
    last = range(2, SNAPSHOTS_REMEMBERED + 2)
    assert [run.run for run in runs_of(capture.checkpoint)] == [f"v{number}" for number in last]
    assert [s.id for s in capture.checkpoint.snapshots if s.verification is None] == [f"s{n}" for n in last]


def test_ends_of_a_checkpoint_from_before_they_were_numbered_count_as_the_latest() -> None:
    ended = [
        Snapshot(f"s{number}", {ORDERS.table: Completed(Progress())})
        for number in range(SNAPSHOTS_REMEMBERED)
    ]
    capture = Capture(
        checkpoint=Checkpoint(gtids("a:1-5"), snapshots=(Snapshot("numbered", {}, end_number=7), *ended))
    )
    assert [snapshot.end_number for snapshot in capture.checkpoint.snapshots] == list(range(8, 18))


def test_a_failed_snapshot_is_remembered_as_long_as_its_mirror_lacks_rows() -> None:
    """However many snapshots and verifications came after it: else the alert of it would end."""
    capture = Capture(checkpoint=mirrored(Filling(2)))
    capture.give(execute("failed", ORDERS), PlanFailed(ORDERS.table, "SELECT command denied", gone=False))
    for number in range(SNAPSHOTS_REMEMBERED + 1):
        verify = VerifyTables(f"v{number}", TableFilter((r"shop\..*",)))
        capture.give(SignalReceived(verify), planned(ITEMS, end=None))
    for number in range(SNAPSHOTS_REMEMBERED + 1):
        capture.give(execute(f"s{number}", ITEMS), planned(ITEMS, end=None))
    assert isinstance(capture.table(ORDERS, "v1"), SnapshotFailed), "its mirror isn't complete"
    assert isinstance(capture.table(ORDERS, "failed"), SnapshotFailed)
    assert len(capture.checkpoint.snapshots) == 1 + 2 * SNAPSHOTS_REMEMBERED


def test_a_snapshot_that_failed_because_its_table_was_dropped_is_forgotten() -> None:
    capture = Capture(ORDERS, ITEMS)
    gone = PlanFailed(ORDERS.table, "it doesn't exist", gone=True)
    capture.give(statement("a:6", 20, ORDERS), execute("dropped", ORDERS), gone)
    for number in range(SNAPSHOTS_REMEMBERED):
        capture.give(execute(f"s{number}", ITEMS), planned(ITEMS, end=None))
    assert "dropped" not in [snapshot.id for snapshot in capture.checkpoint.snapshots]


def test_verifications_are_forgotten_that_refused_a_mirror_of_whose_snapshot_nothing_is_left() -> None:
    """As in a checkpoint from before failed snapshots were remembered."""
    capture = Capture(checkpoint=mirrored(Filling(2)))
    for number in range(SNAPSHOTS_REMEMBERED + 1):
        verify = VerifyTables(f"v{number}", TableFilter((r"shop\..*",)))
        capture.give(SignalReceived(verify), planned(ITEMS, end=None))
    assert "v0" not in [snapshot.id for snapshot in capture.checkpoint.snapshots]
