"""A line of JSON has a row's values as they are, and says what is known of the row and what isn't."""

from dataclasses import replace
from decimal import Decimal
from pathlib import Path

from pipeline.schema.table_schema import Column
from pipeline.snapshot.checkpoint import Ready
from pipeline.types.column_types import Time
from tests.actors.http.changes.journals import TYPED, WIDER, tapped
from tests.pipeline.lake.stream.entries import ITEMS


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


async def test_a_time_of_no_day_is_neither_lost_nor_another_one(tmp_path: Path) -> None:
    """Debezium's text has no TIME below 00:00:00, and none from 24:00:00 on."""
    timed = replace(ITEMS, columns=(*ITEMS.columns, Column("lasts", Time(6), nullable=True)))
    texts = {
        -3_600_000_000: "-01:00:00", 0: "00:00:00", 86_399_000_000: "23:59:59", 86_400_000_000: "24:00:00",
        360_000_000_000: "100:00:00", -3_020_399_000_000: "-838:59:59", 500_000: "00:00:00.5", None: None,
    }  # fmt: skip
    async with tapped(tmp_path) as tap:
        tap.history.restart(tap.items, timed, Ready)
        tap.history.transaction(*((tap.items, "c", (n, time)) for n, time in enumerate(texts)))
        tap.seal()
        lines = await tap.lines()
        assert [line["row"]["lasts"] for line in lines[:-2]] == list(texts.values())


async def test_only_the_tables_that_are_named_come(tmp_path: Path) -> None:
    async with tapped(tmp_path) as tap:
        tap.commit(3, rows=2)
        tap.seal()
        lines = await tap.lines(tables="shop.items")
        assert [line["table"] for line in lines[:-2]] == ["shop.items"] * 3
