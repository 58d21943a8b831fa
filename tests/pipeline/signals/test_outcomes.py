"""The states of signals: each answer and notification gives one or none, and the last ones are remembered."""

from dataclasses import replace

import pytest

from pipeline.signals.outcomes import STATES_REMEMBERED, Outcome, SignalHistory, SignalState, outcomes_between
from pipeline.snapshot import snapshot as snapshots
from pipeline.snapshot.checkpoint import Checkpoint, Moving
from tests.pipeline.builders import ORDERS, gtids


def test_what_was_not_done_has_a_reason() -> None:
    accepted = SignalState("s1", Outcome.ACCEPTED, "snapshot of a.b")
    rejected = SignalState("s2", Outcome.REJECTED, "no such table")
    assert accepted.to_json() == {"id": "s1", "outcome": "accepted", "detail": "snapshot of a.b"}
    assert rejected.to_json() == {"id": "s2", "outcome": "rejected", "reason": "no such table"}


BEFORE = Checkpoint(gtids("a:1-5"))


def of(state: snapshots.TableSnapshot) -> Checkpoint:
    """A checkpoint with a snapshot whose one table is in this state."""
    return replace(BEFORE, snapshots=(snapshots.Snapshot("s1", {ORDERS.table: state}),))


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (BEFORE, of(snapshots.SnapshotWaiting()), [SignalState("s1", Outcome.RUNNING, "shop.orders")]),
        (
            of(snapshots.SnapshotWaiting()),
            of(snapshots.Completed(snapshots.Progress())),
            [SignalState("s1", Outcome.DONE, "shop.orders")],
        ),
        (
            of(snapshots.SnapshotWaiting()),
            of(snapshots.SnapshotStopped(snapshots.Progress())),
            [SignalState("s1", Outcome.FAILED, "shop.orders: stopped")],
        ),
        (of(snapshots.SnapshotWaiting()), replace(of(snapshots.SnapshotWaiting()), paused=True), []),
        (
            replace(BEFORE, moving=Moving("m1", gtids("a:1-9"))),
            replace(BEFORE, position=gtids("a:1-9")),
            [SignalState("m1", Outcome.DONE, str(gtids("a:1-9")))],
        ),
        (
            None,
            of(snapshots.Completed(snapshots.Progress())),
            [
                SignalState("s1", Outcome.RUNNING, "shop.orders"),
                SignalState("s1", Outcome.DONE, "shop.orders"),
            ],
        ),
    ],
)
def test_signals_come_further_with_the_checkpoint(
    before: Checkpoint | None, after: Checkpoint, expected: list[SignalState]
) -> None:
    assert list(outcomes_between(before, after)) == expected


def test_the_last_state_of_a_signal_is_found() -> None:
    history = SignalHistory()
    history.remember(SignalState("s1", Outcome.ACCEPTED, ""))
    history.remember(SignalState("s2", Outcome.REJECTED, "no"))
    history.remember(SignalState("s1", Outcome.RUNNING, "a.b"))
    assert history.find("s1") == SignalState("s1", Outcome.RUNNING, "a.b")
    assert [state.id for state in history.last()] == ["s2", "s1"]
    assert history.find("s3") is None


def test_of_signals_from_before_it_is_known_that_they_were_taken() -> None:
    history = SignalHistory()
    history.sealed(replace(BEFORE, signals=("old",)), ())
    assert history.find("old") == SignalState("old", Outcome.ACCEPTED, "")


def test_rows_are_told_once() -> None:
    history, row = SignalHistory(), SignalState("r1", Outcome.ACCEPTED, "snapshots are paused")
    history.sealed(BEFORE, (row,))
    history.remember(SignalState("s1", Outcome.ACCEPTED, ""))
    history.sealed(BEFORE, (row,))
    assert [state.id for state in history.last()] == ["r1", "s1"]


def test_no_more_are_remembered_than_the_last() -> None:
    history = SignalHistory()
    for number in range(STATES_REMEMBERED + 1):
        history.remember(SignalState(str(number), Outcome.REJECTED, ""))
    assert history.find("0") is None and history.find("1") is not None
    assert len(history.last()) == STATES_REMEMBERED
