"""The report on each table."""

from typing import Any

import pytest

from actors.status.range_progress import RangeMaps
from actors.status.table_status import table_statuses, with_results
from pipeline.schema.table_schema import TableId

COUNTS = {
    "rows": 10,
    "given_up": 1,
    "expected": 20,
    "ranges": 2,
    "ranges_done": 1,
    "windows": 0,
    "rows_per_second": None,
    "left_seconds": None,
}


def snapshot(id_: str, state: str, **more: Any) -> dict[str, Any]:
    return {"id": id_, "tables": [{"database": "shop", "table": "orders", "state": state, **COUNTS, **more}]}


def test_every_table_that_is_known_of_is_told_once_and_by_name() -> None:
    capture = {
        "captured": ["shop.log", "shop.items"],
        "stopped": {"shop.odd": "no key"},
        "keyless": ["shop.log"],
        "mirrors": {"shop.items": "ready"},
        "unread": {"shop.items": 3},
    }
    delivery = {
        "tables": {
            "shop.items": {"pending": 7, "stopped": None},
            "shop.log": {"pending": 0, "stopped": "too wide"},
        },
        "late": ["shop.items"],
    }
    told = {
        each["table"]: each
        for each in table_statuses(capture, delivery, [snapshot("s", "waiting")], RangeMaps())
    }
    assert list(told) == ["shop.items", "shop.log", "shop.odd", "shop.orders"]
    items = told["shop.items"]
    assert items["lake"] == {"mirror": "ready", "pending_rows": 7, "late": True, "stopped": None}
    assert (items["unread_rows"], items["snapshot"], items["keyless"]) == (3, None, False)
    assert told["shop.odd"]["stopped"] == "no key"
    assert told["shop.log"]["keyless"] is True
    assert told["shop.log"]["lake"]["stopped"] == "too wide"


def test_the_last_snapshot_of_a_table_is_the_one_that_counts() -> None:
    capture = {"windows": [{"snapshot": "new", "table": "shop.orders", "range": 1}]}
    of = [snapshot("old", "failed", reason="gone"), snapshot("new", "completed")]
    (table,) = table_statuses(capture, {}, of, RangeMaps())
    assert table["snapshot"]["id"] == "new"
    assert table["snapshot"]["reason"] is None
    assert table["snapshot"]["map"] == {"filled": [1.0, 1.0], "open": [1]}
    assert {key: table["snapshot"][key] for key in COUNTS} == COUNTS


EQUAL = {"verdict": "equal", "at": 5.0}


def verification(id_: str, state: str) -> dict[str, Any]:
    return {**snapshot(id_, state), "verification": {"since": 7, "narrowed": []}}


def test_a_verification_is_no_snapshot() -> None:
    told = with_results([snapshot("s", "completed"), verification("v", "chunking")], {})
    (table,) = table_statuses({}, {}, told, RangeMaps())
    assert (table["snapshot"]["id"], table["snapshot"]["state"]) == ("s", "completed")
    assert table["verification"] == {"id": "v", "state": "chunking", **COUNTS, "result": None}
    (table,) = table_statuses({}, {}, told[1:], RangeMaps())
    assert (table["snapshot"], table["verification"]["id"]) == (None, "v")
    (table,) = table_statuses({}, {}, told[:1], RangeMaps())
    assert table["verification"] is None


@pytest.mark.parametrize(
    ("results", "shown"),
    [
        ({"old": {"verdict": "unjudged", "at": 4.0}}, "new"),
        ({"old": EQUAL, "new": {"verdict": "unjudged", "at": 4.0}}, "old"),
        ({"new": EQUAL}, "old"),
        ({}, "new"),
    ],
    ids=[
        "the first is judged",
        "the refused one was judged first",
        "the first is under way",
        "none is judged",
    ],
)
def test_a_refused_verification_hides_no_other(results: dict[str, Any], shown: str) -> None:
    found = {id_: {"shop.orders": result} for id_, result in results.items()}
    told = with_results([verification("old", "completed"), verification("new", "failed")], found)
    (table,) = table_statuses({}, {}, told, RangeMaps())
    assert table["verification"]["id"] == shown
    assert table["verification"]["result"] == results.get(shown)


def test_the_snapshot_of_a_table_with_a_dot_in_its_name_is_its_own() -> None:
    odd = TableId("shop", "a.b")
    table = {"database": odd.database, "table": odd.name, "state": "completed", **COUNTS}
    capture = {"captured": [str(odd)], "windows": [{"snapshot": "s", "table": str(odd), "range": 0}]}
    (told,) = table_statuses(capture, {}, [{"id": "s", "tables": [table]}], RangeMaps())
    assert told["table"] == str(odd)
    assert told["snapshot"]["id"] == "s"
    assert told["snapshot"]["map"]["open"] == [0]


def test_no_key_is_told() -> None:
    under_way = snapshot("s", "chunking", to_go=[{"number": 1, "done": ["geheim"], "end": ["z"]}])
    assert "geheim" not in str(table_statuses({}, {}, [under_way], RangeMaps()))
