"""Notifications: what two checkpoints report, and the true end of a snapshot."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.signals.notifications import Notification, NotificationType, find_notifications, to_json
from pipeline.snapshot.checkpoint import Checkpoint, Moving
from pipeline.snapshot.snapshot import (
    Chunking,
    Completed,
    Progress,
    Range,
    Repairing,
    Snapshot,
    SnapshotFailed,
    SnapshotStopped,
    SnapshotWaiting,
    TableSnapshot,
    Verification,
)
from tests.pipeline.builders import ITEMS, ORDERS, gtids
from tests.pipeline.strategies import snapshots

BEFORE = Checkpoint(gtids("a:1-5"))


def of(*states: TableSnapshot, paused: bool = False) -> Checkpoint:
    """A checkpoint with a snapshot of orders and items in these states."""
    tables = dict(zip((ORDERS.table, ITEMS.table), states, strict=False))
    return replace(BEFORE, snapshots=(Snapshot("s1", tables),), paused=paused)


def chunking(done: int | None, *ends: int) -> Chunking:
    ranges = tuple(
        Range(number, None if done is None else (done,), (end,)) for number, end in enumerate(ends, 1)
    )
    return Chunking(
        ranges,
        "walk",
        first=False,
        progress=Progress(chunks=1, rows=5, superseded=2, ranges=3, ranges_done=1),
    )


def told(before: Checkpoint | None, after: Checkpoint) -> list[tuple[str, str | None]]:
    """The types of the notifications, and the tables that they're about."""
    return [(n.type.value, table_of(n)) for n in find_notifications(before, after)]


def table_of(notification: Notification) -> str | None:
    """The name of the table that a notification is about."""
    data = notification.data
    table = data.get("current_collection_in_progress") or data.get("scanned_collection")
    return table and table.rpartition(".")[2]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (BEFORE, of(SnapshotWaiting()), [("STARTED", None)]),
        (of(SnapshotWaiting()), of(SnapshotWaiting()), []),
        (of(SnapshotWaiting()), of(chunking(3, 9)), [("IN_PROGRESS", "orders")]),
        (of(chunking(3, 9)), of(chunking(3, 9)), []),
        (of(chunking(3, 9)), of(chunking(4, 9)), [("IN_PROGRESS", "orders")]),
        (of(SnapshotWaiting()), of(SnapshotWaiting(), paused=True), [("PAUSED", None)]),
        (of(SnapshotWaiting(), paused=True), of(SnapshotWaiting()), [("RESUMED", None)]),
        (
            replace(BEFORE, paused=True),
            of(SnapshotWaiting(), paused=True),
            [("STARTED", None), ("PAUSED", None)],
        ),
        (replace(BEFORE, paused=True), of(SnapshotWaiting()), [("STARTED", None)]),
        (BEFORE, replace(BEFORE, paused=True), []),
        (
            of(chunking(3, 9), SnapshotWaiting()),
            of(Completed(Progress()), SnapshotWaiting()),
            [("TABLE_SCAN_COMPLETED", "orders")],
        ),
        (
            of(chunking(3, 9), Completed(Progress())),
            of(Completed(Progress()), Completed(Progress())),
            [("TABLE_SCAN_COMPLETED", "orders"), ("COMPLETED", None)],
        ),
        (
            of(Completed(Progress()), SnapshotWaiting()),
            of(Completed(Progress()), SnapshotStopped(Progress())),
            [("TABLE_SCAN_COMPLETED", "items"), ("ABORTED", None)],
        ),
        (
            of(SnapshotFailed("no key", Progress()), chunking(3, 9)),
            of(SnapshotFailed("no key", Progress()), Completed(Progress())),
            [("TABLE_SCAN_COMPLETED", "items"), ("ABORTED", None)],
        ),
        (
            BEFORE,
            of(Completed(Progress())),
            [("STARTED", None), ("TABLE_SCAN_COMPLETED", "orders"), ("COMPLETED", None)],
        ),
        (
            None,
            of(chunking(3, 9), SnapshotFailed("no key", Progress())),
            [("STARTED", None), ("IN_PROGRESS", "orders"), ("TABLE_SCAN_COMPLETED", "items")],
        ),
    ],
)
def test_what_happened_is_told(
    before: Checkpoint | None, after: Checkpoint, expected: list[tuple[str, str | None]]
) -> None:
    assert told(before, after) == expected


def test_a_verification_is_not_taken_for_a_snapshot() -> None:
    def verified(state: TableSnapshot) -> Checkpoint:
        verification = Verification(5, repairs=True)
        return replace(BEFORE, snapshots=(Snapshot("v1", {ORDERS.table: state}, verification=verification),))

    repairing, counts = verified(Repairing(Progress(rows=5))), Progress(rows=5)
    begun = find_notifications(BEFORE, verified(chunking(3, 9)))
    assert [(n.type.value, n.about) for n in begun] == [
        ("STARTED", "Verification"),
        ("IN_PROGRESS", "Verification"),
    ]
    assert to_json(begun[0], "shop", 1)["aggregate_type"] == "Verification"
    assert find_notifications(verified(chunking(3, 9)), repairing) == (), (
        "it hasn't ended, and nothing failed"
    )
    scanned, end = find_notifications(repairing, verified(Completed(counts, batches=1)))
    assert (scanned.data["status"], end.type.value) == ("SUCCEEDED", "COMPLETED")


def test_progress_is_told_up_to_the_key_through_which_all_is_emitted() -> None:
    (notification,) = find_notifications(of(SnapshotWaiting()), of(chunking(3, 50, 100)))
    assert notification.data == {
        "data_collections": "shop.orders",
        "current_collection_in_progress": "shop.orders",
        "maximum_key": "100",
        "last_processed_key": "3",
        "total_rows_scanned": "7",
        "ranges": "3",
        "ranges_done": "1",
    }


@pytest.mark.parametrize(
    ("state", "status"),
    [
        (Completed(Progress(rows=5)), "SUCCEEDED"),
        (Completed(Progress(superseded=5)), "SUCCEEDED"),
        (Completed(Progress()), "EMPTY"),
        (SnapshotStopped(Progress(rows=5)), "STOPPED"),
        (SnapshotFailed("it has no primary key", Progress()), "FAILED"),
    ],
)
def test_the_end_of_a_table_has_a_status_of_its_own(state: TableSnapshot, status: str) -> None:
    scanned, _ = find_notifications(of(SnapshotWaiting()), of(state))
    assert (scanned.data["scanned_collection"], scanned.data["status"]) == ("shop.orders", status)
    assert scanned.data.get("reason") == (state.reason if isinstance(state, SnapshotFailed) else None)


def test_an_end_that_is_not_complete_says_why() -> None:
    *_, end = find_notifications(
        of(SnapshotWaiting(), SnapshotWaiting()),
        of(SnapshotFailed("no key", Progress()), SnapshotStopped(Progress(rows=5))),
    )
    assert end.data["reason"] == "shop.orders: no key; shop.items: stopped"


def test_a_move_that_could_not_be_made_is_told_and_one_that_was() -> None:
    asked = replace(BEFORE, moving=Moving("m1", gtids("a:1-9")))
    assert find_notifications(BEFORE, asked) == ()
    (failed,) = find_notifications(asked, BEFORE)
    assert (failed.id, failed.type) == ("m1", NotificationType.ABORTED)
    assert failed.data["reason"].startswith(f"the source hasn't executed {gtids('a:6-9')}")
    (moved,) = find_notifications(asked, replace(BEFORE, position=gtids("a:1-9")))
    assert moved.type is NotificationType.COMPLETED
    anew = replace(
        BEFORE, position=gtids("a:1-9"), snapshots=(Snapshot("m1", {ORDERS.table: SnapshotWaiting()}),)
    )
    assert told(asked, anew) == [("STARTED", None)]


def test_debezium_s_form() -> None:
    notification = Notification("s1", NotificationType.STARTED, data={"data_collections": "a.b,a.c"})
    assert to_json(notification, "shop", 1_695_817_046_353) == {
        "id": "s1",
        "aggregate_type": "Incremental Snapshot",
        "type": "STARTED",
        "additional_data": {"connector_name": "shop", "data_collections": "a.b,a.c"},
        "timestamp": 1_695_817_046_353,
    }


@given(st.lists(snapshots(), max_size=3), st.lists(snapshots(), max_size=3))
def test_each_end_is_told_once_and_as_it_is(earlier: list[Snapshot], later: list[Snapshot]) -> None:
    before, after = (
        replace(BEFORE, snapshots=tuple({snapshot.id: snapshot for snapshot in some}.values()))
        for some in (earlier, later)
    )
    assert find_notifications(after, after) == ()
    was = {snapshot.id: snapshot for snapshot in before.snapshots}
    ends = {
        n.id: n.type
        for n in find_notifications(before, after)
        if n.type in (NotificationType.COMPLETED, NotificationType.ABORTED)
    }
    for snapshot in after.snapshots:
        ended_now = snapshot.ended and (snapshot.id not in was or not was[snapshot.id].ended)
        assert (snapshot.id in ends) == ended_now
        if ended_now:
            complete = all(isinstance(state, Completed) for state in snapshot.tables.values())
            assert ends[snapshot.id] is (NotificationType.COMPLETED if complete else NotificationType.ABORTED)
