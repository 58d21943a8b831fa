"""The map of a table's ranges."""

from typing import Any

import pytest

from actors.status.range_progress import MOST_CELLS, RangeMaps


def table(*to_go: tuple[int, Any, Any], ranges: int = 4, **more: Any) -> dict[str, Any]:
    left = [{"number": number, "done": done, "end": end} for number, done, end in to_go]
    told = {
        "database": "shop",
        "table": "orders",
        "state": "chunking",
        "to_go": left,
        "ranges": ranges,
        "ranges_done": ranges - len(left),
        "rows": 0,
        "given_up": 0,
        "expected": 400,
    }
    return {**told, **more}


def looked(maps: RangeMaps, told: dict[str, Any], *open_ranges: int) -> dict[str, Any]:
    maps.look([{"id": "s", "tables": [told]}])
    return maps.range_map("s", told, open_ranges)


BEGUN = table((0, None, [100]), (1, [100], [200]), (2, [200], [300]), (3, [300], [400]))


def test_ranges_fill_by_their_keys() -> None:
    maps = RangeMaps()
    assert looked(maps, BEGUN) == {"filled": [0.0, 0.0, 0.0, 0.0], "open": []}
    later = table((1, [150], [200]), (2, [200], [300]), (3, [399], [400]), rows=249)
    assert looked(maps, later, 1, 3) == {"filled": [1.0, 0.5, 0.0, 0.99], "open": [1, 3]}


def test_where_a_range_begins_is_remembered_when_the_one_before_it_is_done() -> None:
    maps = RangeMaps()
    looked(maps, BEGUN)
    looked(maps, table((1, [125], [200]), (3, [300], [400]), rows=125))
    assert looked(maps, table((1, [175], [200]), rows=275))["filled"] == [1.0, 0.75, 1.0, 1.0]


@pytest.mark.parametrize("key", [["a"], [{"hex": "00"}], ["2026-01-01", 7]])
def test_what_no_numbers_tell_is_told_by_the_rows(key: Any) -> None:
    maps = RangeMaps()
    begun = table((0, None, key), (1, key, [*key, 1]), ranges=2, expected=100)
    assert looked(maps, begun)["filled"] == [0.0, 0.0]
    # 50 of 100 rows: one range is whole, so that the other hasn't much.
    assert looked(maps, {**begun, "to_go": [{**begun["to_go"][0], "done": ["0"]}], "rows": 75})["filled"] == [
        0.5,
        1.0,
    ]


def test_a_part_is_never_less_than_nothing_nor_all_of_it() -> None:
    maps = RangeMaps()
    one = table((0, ["k"], ["z"]), ranges=1, expected=10, rows=500)
    assert looked(maps, one)["filled"] == [0.99]
    assert looked(maps, {**one, "rows": 0})["filled"] == [0.02]


def test_composite_keys_go_by_the_first_part_that_differs() -> None:
    maps = RangeMaps()
    looked(maps, table((0, None, [7, 0]), (1, [7, 0], [7, 10]), ranges=2))
    later = table((1, [7, 5], [7, 10]), ranges=2)
    assert looked(maps, later)["filled"] == [1.0, 0.5]


@pytest.mark.parametrize(
    ("state", "done", "filled"),
    [("completed", 2, [1.0, 1.0]), ("failed", 1, [1.0, 0.0]), ("waiting", 0, [0.0, 0.0])],
)
def test_a_snapshot_that_is_not_under_way(state: str, done: int, filled: list[float]) -> None:
    told = table(ranges=2, state=state, ranges_done=done)
    del told["to_go"]
    assert looked(RangeMaps(), told)["filled"] == filled


def test_a_table_that_was_begun_anew_begins_anew_here() -> None:
    maps = RangeMaps()
    looked(maps, BEGUN)
    anew = table((0, None, [1000]), (1, [1000], [2000]), (2, [2000], [3000]), (3, [3000], [4000]))
    assert looked(maps, anew)["filled"] == [0.0] * 4


def test_many_ranges_share_cells() -> None:
    maps = RangeMaps()
    count = 1000
    begun = table(*((n, [10 * n], [10 * n + 10]) for n in range(count)), ranges=count)
    looked(maps, begun)
    half = {**begun, "to_go": begun["to_go"][count // 2 :]}
    told = looked(maps, half, 0, 999, -3)
    assert len(told["filled"]) == MOST_CELLS
    assert told["filled"] == [1.0] * (MOST_CELLS // 2) + [0.0] * (MOST_CELLS // 2)
    assert told["open"] == [0, MOST_CELLS - 1]


def test_a_table_without_ranges_has_no_map() -> None:
    assert looked(RangeMaps(), table(ranges=0)) == {"filled": [], "open": []}
