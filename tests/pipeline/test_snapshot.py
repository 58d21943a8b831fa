"""Snapshots: their states through JSON and back, and when they have ended."""

import json

import pytest
from hypothesis import given

from pipeline import snapshot as snapshots
from pipeline.schema import TableId
from pipeline.snapshot import (
    Chunking,
    Completed,
    Failed,
    Progress,
    Snapshot,
    Stopped,
    TableState,
    Waiting,
    progress,
)
from tests.pipeline.declarations import declared, is_value
from tests.pipeline.strategies import snapshots as any_snapshot
from tests.pipeline.strategies import table_states

COUNTS = Progress(chunks=3, rows=20, given_up=2, expected=100)
CHUNKING = Chunking(("a", b"\x00"), (7, "z"), "0123456789abcdef", first=True, progress=COUNTS)


@given(any_snapshot)
def test_a_snapshot_comes_back_from_json(snapshot: Snapshot) -> None:
    back = snapshots.from_json(json.loads(json.dumps(snapshots.to_json(snapshot))))
    assert back == snapshot
    assert list(back.tables) == list(snapshot.tables)


def test_the_form_in_json() -> None:
    assert snapshots.to_json(Snapshot("s1", {TableId("shop", "orders"): CHUNKING})) == {
        "id": "s1",
        "tables": [
            {
                "database": "shop",
                "table": "orders",
                "state": "chunking",
                "chunks": 3,
                "rows": 20,
                "given_up": 2,
                "expected": 100,
                "done": ["a", {"hex": "00"}],
                "end": [7, "z"],
                "key_version": "0123456789abcdef",
                "first": True,
            }
        ],
    }


def test_a_state_that_does_not_exist_is_refused() -> None:
    value = snapshots.to_json(Snapshot("s1", {TableId("shop", "orders"): Waiting()}))
    value["tables"][0]["state"] = "resting"
    with pytest.raises(ValueError, match="'resting'"):
        snapshots.from_json(value)


@pytest.mark.parametrize("state", [Completed(COUNTS), Stopped(COUNTS), Failed("so", COUNTS)])
def test_a_snapshot_has_ended_when_no_table_has_anything_left_to_do(state: TableState) -> None:
    one, other = TableId("shop", "orders"), TableId("shop", "items")
    assert Snapshot("s1", {one: state, other: Completed(COUNTS)}).ended
    assert not Snapshot("s1", {one: state, other: Waiting()}).ended
    assert not Snapshot("s1", {one: CHUNKING, other: state}).ended


@given(table_states)
def test_the_counts_are_kept_whatever_the_state(state: TableState) -> None:
    assert progress(state) == (Progress() if isinstance(state, Waiting) else state.progress)


@pytest.mark.parametrize("declaration", declared(snapshots))
def test_states_are_values(declaration: type) -> None:
    assert is_value(declaration)
