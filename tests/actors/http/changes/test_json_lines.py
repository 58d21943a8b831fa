"""A line of JSON has a row's values as they are, and says what is known of the row and what isn't."""

from decimal import Decimal
from pathlib import Path

from pipeline.snapshot.checkpoint import Ready
from tests.actors.http.changes.journals import TYPED, WIDER, tapped


async def test_a_line_has_the_values_and_where_they_come_from(tmp_path: Path) -> None:
    async with tapped(tmp_path) as tap:
        tap.history.restart(tap.orders, WIDER, Ready)
        tap.history.restart(tap.items, TYPED, Ready)
        tap.history.transaction(
            (tap.orders, "c", (1, 'a "quoted"\nline', Decimal("12.50"))),
            (tap.items, "u", (2, Decimal(2**64 - 1), '{"a": [1, "é"]}')),
            (tap.orders, "d", (3, None, None)),
        )
        tap.orders.absent[1, 2] = ["note", "price"]
        tap.seal()
        one, two, three, checkpoint, end = await tap.lines()
        source = "3e11fa47-71ca-11e1-9e33-c80aa9429562:1"
        known = {"scn": 1, "gtid": source, "time": "2023-11-14T22:13:20.000001Z"}
        assert one == {
            "table": "shop.orders", "op": "c", "ordinal": 0, **known,
            "row": {"id": 1, "note": 'a "quoted"\nline', "price": "12.50"},
        }  # fmt: skip
        assert two == {
            "table": "shop.items", "op": "u", "ordinal": 1, **known,
            "row": {"id": 2, "big": 2**64 - 1, "document": {"a": [1, "é"]}},
        }  # fmt: skip
        assert three == {
            "table": "shop.orders", "op": "d", "ordinal": 2, **known, "absent": ["note", "price"],
            "row": {"id": 3, "note": None, "price": None},
        }  # fmt: skip
        assert checkpoint == {"checkpoint": f"{tap.history.store.identity.id}.2.0", "scn": 1}
        assert end == {**checkpoint, "complete": True}


async def test_only_the_tables_that_are_named_come(tmp_path: Path) -> None:
    async with tapped(tmp_path) as tap:
        tap.commit(3, rows=2)
        tap.seal()
        lines = await tap.lines(tables="shop.items")
        assert [line["table"] for line in lines[:-2]] == ["shop.items"] * 3
