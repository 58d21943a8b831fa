"""Requests: what each signal changes, how it's answered, and that it's taken once."""

from pipeline import requests
from pipeline.checkpoint import Checkpoint
from pipeline.coordinator_state import Overlapping, State
from pipeline.messages import (
    Append,
    LogAdvanced,
    SignalAccepted,
    SignalAnswer,
    SignalReceived,
    SignalRejected,
    TableStopped,
)
from pipeline.requests import SIGNALS_REMEMBERED
from pipeline.signals import ExecuteSnapshot, PauseSnapshot, ResumeSnapshot, Tables
from pipeline.snapshot import Failed, Progress, Stopped, Waiting
from tests.pipeline import mutations
from tests.pipeline.builders import (
    ITEMS,
    ORDERS,
    USERS,
    Capture,
    execute,
    gtids,
    of,
    place,
    planned,
    read,
    stop,
    table,
)
from tests.pipeline.mutations import broken_by

WITHOUT_KEY = table("logs", "line", key=())

PAUSE, RESUME = SignalReceived(PauseSnapshot("p1")), SignalReceived(ResumeSnapshot("r1"))


def matching(id_: str, *patterns: str) -> SignalReceived:
    """Asks for a snapshot of the tables that these regular expressions match."""
    return SignalReceived(ExecuteSnapshot(id_, Tables(patterns)))


def answer(capture: Capture, signal: SignalReceived) -> SignalAnswer:
    """The one answer to the signal."""
    (append,) = of(Append, capture.give(signal))
    (given,) = append.answers
    return given


# Taking a snapshot


def test_a_snapshot_is_accepted_by_the_names_of_its_tables() -> None:
    capture = Capture(ORDERS, ITEMS, USERS)
    assert answer(capture, matching("s1", "shop.orders", r"shop\.i.*")) == SignalAccepted(
        "s1", "snapshot of shop.items, shop.orders"
    )
    (snapshot,) = capture.checkpoint.snapshots
    assert snapshot.tables == {ITEMS.table: Waiting(), ORDERS.table: Waiting()}


def test_tables_that_are_not_captured_are_rejected_with_those_that_are() -> None:
    capture = Capture(ORDERS, ITEMS)
    assert answer(capture, matching("s1", "shop.order", "crm.*")) == SignalRejected(
        "s1", "no captured table matches shop.order or crm.*; captured are: shop.items, shop.orders"
    )
    assert capture.checkpoint.snapshots == ()


def test_where_nothing_is_captured_a_rejection_says_so() -> None:
    assert answer(Capture(), matching("s1", ".*")) == SignalRejected(
        "s1", "no captured table matches .*; captured are: none"
    )


@broken_by(mutations.nothing_is_refused)
def test_a_table_without_a_key_is_refused() -> None:
    refused = answer(Capture(WITHOUT_KEY), execute("s1", WITHOUT_KEY))
    assert isinstance(refused, SignalRejected)
    assert refused.reason.startswith("shop.logs: it has no primary key")


@broken_by(mutations.nothing_is_refused)
def test_a_table_without_a_key_fails_by_name_and_the_others_are_taken() -> None:
    capture = Capture(WITHOUT_KEY, ORDERS)
    accepted = answer(capture, matching("s1", ".*"))
    assert isinstance(accepted, SignalAccepted)
    assert accepted.detail.startswith("snapshot of shop.orders (refused: shop.logs: it has no primary key")
    failed = capture.table(WITHOUT_KEY)
    assert isinstance(failed, Failed) and failed.reason.startswith("it has no primary key")
    assert Capture.plans(capture.orders) == [ORDERS.table]


@broken_by(mutations.nothing_is_refused)
def test_a_table_whose_capture_has_stopped_is_refused_with_the_reason() -> None:
    capture = Capture(ORDERS)
    capture.give(TableStopped(ORDERS.table, "its row images are partial"))
    assert answer(capture, execute("s1", ORDERS)) == SignalRejected(
        "s1", "shop.orders: its capture has stopped: its row images are partial"
    )


# Stopping, pausing, resuming


def test_a_stop_ends_the_snapshots_of_its_tables_and_the_others_go_on() -> None:
    capture = Capture(ORDERS, ITEMS, USERS)
    capture.give(execute("s1", ITEMS, ORDERS, USERS), planned(ORDERS))
    assert answer(capture, stop("s2", ORDERS, USERS)) == SignalAccepted(
        "s2", "stopped the snapshot of shop.orders, shop.users"
    )
    assert capture.table(ORDERS) == Stopped(Progress(expected=7))
    assert capture.table(USERS) == Stopped(Progress())
    assert capture.table(ITEMS) == Waiting()
    assert capture.open == []


def test_a_stop_ends_every_snapshot_of_a_table() -> None:
    capture = Capture(ORDERS)
    capture.begin(ORDERS)
    capture.give(execute("s2", ORDERS), stop("s3", ORDERS))
    assert all(snapshot.ended for snapshot in capture.checkpoint.snapshots)


def test_what_was_emitted_before_a_stop_stays_counted() -> None:
    capture = Capture(ORDERS)
    second = Capture.chunk(capture.give(read(capture.begin(ORDERS), 1, 2, high=10)))
    capture.give(stop("s2", ORDERS), read(second, 3, high=10), LogAdvanced(place(20)))
    assert capture.table(ORDERS) == Stopped(Progress(chunks=1, rows=2, expected=7))
    assert capture.stream == ["orders rows 1 2"]


def test_a_stop_where_nothing_is_under_way_is_rejected() -> None:
    capture = Capture(ORDERS, ITEMS)
    capture.begin(ITEMS)
    refused = answer(capture, stop("s2", ORDERS))
    assert isinstance(refused, SignalRejected)
    assert refused.reason.endswith("is under way")


def test_a_stopped_table_can_be_asked_for_again_though_its_plan_was_under_way() -> None:
    capture = Capture(ORDERS)
    capture.give(execute("s1", ORDERS), stop("s2", ORDERS), execute("s3", ORDERS))
    assert Capture.plans(capture.give(planned(ORDERS))) == [ORDERS.table]
    assert Capture.chunk(capture.give(planned(ORDERS))).chunk.snapshot == "s3"


def test_pause_and_resume_are_durable_and_answered() -> None:
    capture = Capture(ORDERS)
    assert answer(capture, PAUSE) == SignalAccepted("p1", "snapshots are paused")
    assert capture.checkpoint.paused
    assert answer(capture, RESUME) == SignalAccepted("r1", "snapshots go on")
    assert not capture.checkpoint.paused


# Once


@broken_by(mutations.every_signal_is_a_new_one)
def test_the_same_signal_twice_is_taken_once_and_answered_twice() -> None:
    capture = Capture(ORDERS)
    capture.give(execute("s1", ORDERS), planned(ORDERS, end=None))
    before = capture.checkpoint
    again = answer(capture, execute("s1", ORDERS))
    assert isinstance(again, SignalAccepted) and "nothing was done again" in again.detail
    assert capture.checkpoint is before


@broken_by(mutations.signals_are_forgotten, mutations.every_signal_is_a_new_one)
def test_a_signal_that_was_taken_is_known_after_a_restart() -> None:
    before = Capture(ORDERS)
    before.give(PAUSE, RESUME)
    after = Capture(checkpoint=before.checkpoint)
    after.give(PAUSE)
    assert not after.checkpoint.paused


def test_a_rejected_signal_is_not_remembered_so_that_it_may_be_given_again() -> None:
    capture = Capture(ITEMS)
    capture.give(stop("s1", ITEMS))
    assert capture.checkpoint.signals == ()
    capture.give(execute("s2", ITEMS))
    assert isinstance(answer(capture, stop("s1", ITEMS)), SignalAccepted)


def test_an_answer_goes_out_with_the_checkpoint_that_holds_its_effect() -> None:
    capture = Capture(ORDERS)
    (append,) = of(Append, capture.give(execute("s1", ORDERS)))
    assert append.checkpoint.signals == ("s1",)
    assert [snapshot.id for snapshot in append.checkpoint.snapshots] == ["s1"]
    assert [given.id for given in append.answers] == ["s1"]


def after_many_signals(checkpoint: Checkpoint) -> State:
    """The state after as many further signals as are remembered."""
    state = State(2, Overlapping(4), checkpoint)
    for number in range(SIGNALS_REMEMBERED):
        state, _ = requests.signalled(state, ResumeSnapshot(f"r{number}"))
    return state


@broken_by(mutations.signals_are_remembered_for_ever)
def test_the_last_signals_are_remembered_and_no_more() -> None:
    signals = after_many_signals(Checkpoint(gtids(""), signals=("old",))).checkpoint.signals
    assert len(signals) == SIGNALS_REMEMBERED
    assert (signals[0], signals[-1]) == ("r0", f"r{SIGNALS_REMEMBERED - 1}")


def test_a_snapshot_that_is_still_remembered_is_not_begun_a_second_time_however_old_its_signal() -> None:
    capture = Capture(ORDERS)
    order = capture.begin(ORDERS)
    state = after_many_signals(capture.checkpoint)
    asked_again = ExecuteSnapshot(order.chunk.snapshot, Tables(("shop.orders",)))
    again, given = requests.signalled(state, asked_again)
    assert isinstance(given, SignalAccepted) and "nothing was done again" in given.detail
    assert again is state
