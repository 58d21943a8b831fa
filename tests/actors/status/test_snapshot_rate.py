"""Rates, and how long a snapshot still takes, from counts that are looked at now and then."""

from typing import Any

from actors.status.snapshot_rate import OVER_S, Rate, TableRates
from pipeline.schema.table_schema import TableId


def test_pace_is_none_until_there_is_something_to_compare() -> None:
    pace = Rate()
    assert pace.per_second() is None
    pace.look(1.0, 100)
    assert pace.per_second() is None
    pace.look(1.0, 100)
    assert pace.per_second() is None
    pace.look(3.0, 300)
    assert pace.per_second() == 100.0


def test_pace_is_that_of_the_last_while() -> None:
    pace = Rate()
    for second in range(100):
        pace.look(float(second), 0 if second < 50 else (second - 50) * 10)
    assert pace.per_second() == 10.0
    assert len(pace._seen) <= OVER_S + 2


def table(
    name: str,
    rows: int,
    given_up: int = 0,
    expected: int = 0,
    state: str = "chunking",
    condition: str | None = None,
) -> dict[str, Any]:
    request = None if condition is None else {"condition": condition, "keys": []}
    counts = {"rows": rows, "given_up": given_up, "expected": expected, "ranges": 4, "ranges_done": 1}
    return {"database": "shop", "table": name, "state": state, "request": request, **counts}


def capture(*tables: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"snapshots": [{"id": "s", "tables": list(tables)}], "windows": [], "paused": False, **more}


def test_a_table_and_its_snapshot() -> None:
    paces = TableRates()
    paces.look(10.0, capture(table("a.b", 0, 0, 1000), table("b", 0, 0, 500))["snapshots"])
    told = capture(
        table("a.b", 90, 10, 1000),
        table("b", 200, 0, 500),
        windows=[{"snapshot": "s", "table": str(TableId("shop", "a.b"))}] * 2,
    )
    paces.look(12.0, told["snapshots"])
    (snapshot,) = paces.with_rates(told)
    a, b = snapshot["tables"]
    assert (a["rows_per_second"], a["left_seconds"], a["windows"]) == (50.0, 18.0, 2)
    assert (b["rows_per_second"], b["left_seconds"], b["windows"]) == (100.0, 3.0, 0)
    assert (snapshot["rows_per_second"], snapshot["left_seconds"], snapshot["windows"]) == (150.0, 8.0, 2)
    assert (snapshot["rows"], snapshot["given_up"], snapshot["expected"]) == (290, 10, 1500)
    assert (snapshot["ranges"], snapshot["ranges_done"], snapshot["state"]) == (8, 2, "running")


def test_what_is_left_is_not_guessed_where_there_is_nothing_to_go_by() -> None:
    paces = TableRates()
    more_than_expected = table("a", 110, 0, 100)
    paces.look(10.0, capture(table("a", 0, 0, 100))["snapshots"])
    paces.look(11.0, capture(more_than_expected)["snapshots"])
    (snapshot,) = paces.with_rates(capture(more_than_expected))
    assert (snapshot["tables"][0]["rows_per_second"], snapshot["tables"][0]["left_seconds"]) == (110.0, None)
    under_way = table("a", 50, 0, 100)
    (snapshot,) = paces.with_rates(capture(under_way, table("b", 0, state="waiting")))
    assert snapshot["tables"][0]["left_seconds"] is not None
    assert snapshot["left_seconds"] is None  # the size of b isn't known
    (snapshot,) = TableRates().with_rates(capture(under_way))
    assert (snapshot["rows_per_second"], snapshot["left_seconds"]) == (None, None)


def test_what_is_left_is_not_guessed_of_a_filter_whose_rows_nothing_counts() -> None:
    paces = TableRates()
    paces.look(10.0, capture(table("a", 0, 0, 1000, condition="id > 5"))["snapshots"])
    under_way = capture(table("a", 10, 0, 1000, condition="id > 5"))
    paces.look(11.0, under_way["snapshots"])
    (snapshot,) = paces.with_rates(under_way)
    assert (snapshot["rows_per_second"], snapshot["left_seconds"]) == (10.0, None)
    assert snapshot["tables"][0]["left_seconds"] is None


def test_a_table_that_has_ended_has_no_pace() -> None:
    paces = TableRates()
    paces.look(10.0, capture(table("a", 0, 0, 100))["snapshots"])
    ended = table("a", 100, 0, 100, "completed")
    paces.look(11.0, capture(ended)["snapshots"])
    (snapshot,) = paces.with_rates(capture(ended))
    assert snapshot["tables"][0]["rows_per_second"] is None
    assert snapshot["state"] == "completed"


def test_the_state_of_a_snapshot_is_that_of_its_tables() -> None:
    def state(*states: str, paused: bool = False) -> object:
        tables = [table(str(number), 0, state=each) for number, each in enumerate(states)]
        return TableRates().with_rates(capture(*tables, paused=paused))[0]["state"]

    assert state("waiting", "waiting") == "waiting"
    assert state("completed", "chunking", "failed") == "running"
    assert state("completed", "waiting", paused=True) == "paused"
    assert state("completed", "failed", "stopped", paused=True) == "failed"
    assert state("completed", "stopped") == "stopped"
    assert state("completed", "completed") == "completed"


def test_nothing_is_told_before_the_coordinator_is_built() -> None:
    assert TableRates().with_rates({}) == []
