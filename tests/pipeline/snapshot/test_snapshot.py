"""Snapshots: their states through JSON and back, and when they have ended."""

import json
from dataclasses import replace

import pytest
from hypothesis import given

from pipeline.schema.table_schema import TableId
from pipeline.snapshot import snapshot as snapshots
from pipeline.snapshot.snapshot import (
    Chunking,
    Completed,
    Progress,
    Range,
    Request,
    Snapshot,
    SnapshotFailed,
    SnapshotStopped,
    SnapshotWaiting,
    TableSnapshot,
    Verification,
    progress,
)
from tests.pipeline.declarations import declared, is_value
from tests.pipeline.strategies import snapshots as any_snapshot
from tests.pipeline.strategies import table_states

COUNTS = Progress(chunks=3, rows=20, superseded=2, expected=100, ranges=3, ranges_done=1)
RANGES = (Range(0, None, ("a", b"\x00")), Range(2, ("b", b"\x01"), ("c", b"")))
CHUNKING = Chunking(RANGES, "0123456789abcdef", first=True, progress=COUNTS)
SOME = Request("id > 3", keys=((1, b"\x00"),), surrogate="u", chunk_rows=10)


@given(any_snapshot())
def test_a_snapshot_comes_back_from_json(snapshot: Snapshot) -> None:
    back = snapshots.from_json(json.loads(json.dumps(snapshots.to_json(snapshot))))
    assert back == snapshot
    assert list(back.tables) == list(snapshot.tables)


def test_the_form_in_json() -> None:
    orders, items = TableId("shop", "orders"), TableId("shop", "items")
    snapshot = Snapshot(
        "s1", {orders: CHUNKING, items: SnapshotWaiting()}, {orders: SOME}, blocking=True, priority=-1
    )
    waiting = snapshots.to_json(snapshot)["tables"].pop()
    assert (waiting["table"], waiting["state"], waiting["request"]) == ("items", "waiting", None)
    snapshot = replace(snapshot, tables={orders: CHUNKING})
    assert snapshots.to_json(snapshot) == {
        "id": "s1",
        "blocking": True,
        "consistent": False,
        "priority": -1,
        "verification": None,
        "tables": [
            {
                "database": "shop",
                "table": "orders",
                "state": "chunking",
                "chunks": 3,
                "rows": 20,
                "given_up": 2,
                "expected": 100,
                "ranges": 3,
                "ranges_done": 1,
                "to_go": [
                    {"number": 0, "done": None, "end": ["a", {"hex": "00"}]},
                    {"number": 2, "done": ["b", {"hex": "01"}], "end": ["c", {"hex": ""}]},
                ],
                "walk_version": "0123456789abcdef",
                "first": True,
                "request": {
                    "condition": "id > 3",
                    "keys": [[1, {"hex": "00"}]],
                    "surrogate": "u",
                    "chunk_rows": 10,
                },
            }
        ],
    }


def test_a_verification_is_told_and_a_checkpoint_from_before_has_none() -> None:
    orders, items = TableId("shop", "orders"), TableId("shop", "items")
    verified = Snapshot(
        "v1",
        {orders: SnapshotWaiting(), items: SnapshotWaiting()},
        {orders: SOME},
        verification=Verification(7, frozenset({orders})),
    )
    told = snapshots.to_json(verified)
    assert told["verification"] == {"since": 7, "narrowed": [["shop", "orders"]]}
    del told["verification"]
    assert snapshots.from_json(told) == replace(verified, verification=None)
    assert not verified.fills(items)
    assert replace(verified, verification=None).fills(items)


def test_a_rate_is_told_only_if_there_is_one() -> None:
    orders = TableId("shop", "orders")
    paced = Snapshot("s1", {orders: SnapshotWaiting()}, {orders: replace(SOME, rows_per_s=9)})
    told = snapshots.to_json(paced)
    assert told["tables"][0]["request"].pop("rows_per_s") == 9
    assert snapshots.from_json(told).request(orders) == SOME
    assert snapshots.from_json(snapshots.to_json(paced)) == paced


def test_the_number_of_an_end_is_told_only_if_there_is_one() -> None:
    ended = Snapshot("s1", {}, end_number=3)
    told = snapshots.to_json(ended)
    assert told.pop("end_number") == 3
    assert snapshots.from_json(told) == replace(ended, end_number=0)


@pytest.mark.parametrize(
    ("request_", "whole"),
    [
        (Request(), True),
        (Request(surrogate="u", chunk_rows=5, rows_per_s=9), True),
        (Request(condition="id > 3"), False),
        (Request(keys=((1,),)), False),
    ],
)
def test_a_request_is_whole_unless_it_leaves_rows_out(request_: Request, whole: bool) -> None:
    assert request_.whole == whole


def test_a_table_that_nothing_was_said_of_is_taken_as_a_whole() -> None:
    orders = TableId("shop", "orders")
    assert Snapshot("s1", {orders: SnapshotWaiting()}).request(orders) == Request()
    assert Snapshot("s1", {orders: SnapshotWaiting()}, {orders: SOME}).request(orders) == SOME


def test_a_state_that_does_not_exist_is_refused() -> None:
    value = snapshots.to_json(Snapshot("s1", {TableId("shop", "orders"): SnapshotWaiting()}))
    value["tables"][0]["state"] = "resting"
    with pytest.raises(ValueError, match="'resting'"):
        snapshots.from_json(value)


@pytest.mark.parametrize("state", [Completed(COUNTS), SnapshotStopped(COUNTS), SnapshotFailed("so", COUNTS)])
def test_a_snapshot_has_ended_when_no_table_has_anything_left_to_do(state: TableSnapshot) -> None:
    one, other = TableId("shop", "orders"), TableId("shop", "items")
    assert Snapshot("s1", {one: state, other: Completed(COUNTS)}).ended
    assert not Snapshot("s1", {one: state, other: SnapshotWaiting()}).ended
    assert not Snapshot("s1", {one: CHUNKING, other: state}).ended


@given(table_states)
def test_the_counts_are_kept_whatever_the_state(state: TableSnapshot) -> None:
    assert progress(state) == (Progress() if isinstance(state, SnapshotWaiting) else state.progress)


@pytest.mark.parametrize("declaration", declared(snapshots))
def test_states_are_values(declaration: type) -> None:
    assert is_value(declaration)
