"""A filter of keys lets the rows through that plain Python would, and each key to one of those that share a table."""

import zlib
from datetime import UTC, date, datetime
from decimal import Decimal as Exact
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.journal.changes.key_filter import (
    KeyFilter,
    WrongKeyFilter,
    check_key_filter,
    matching_keys,
    parse_key_filter,
)
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.types.column_types import (
    Binary,
    Bit,
    ColumnType,
    Date,
    DateTime,
    Decimal,
    Double,
    Integer,
    Text,
    Time,
    Timestamp,
)

LONG, UNSIGNED, TEXT = Integer(8, unsigned=False), Integer(8, unsigned=True), Text("utf8mb4")


def table(kind: ColumnType) -> TableSchema:
    """Its key is (part, id), in another order than the columns."""
    columns = (Column("id", LONG, False), Column("part", kind, False))
    return TableSchema(TableId("shop", "parts"), columns, (1, 0))


def let_through(kind: ColumnType, values: list[Any], **asked: str) -> list[Any]:
    schema = table(kind)
    rows = pa.RecordBatch.from_pydict({"id": [0] * len(values), "part": values}, schema=schema.arrow)
    keys = parse_key_filter(asked.get("key_range"), asked.get("key_modulo"))
    assert keys is not None
    check_key_filter(keys, schema)
    return [v for v, kept in zip(values, matching_keys(rows, schema, keys).tolist(), strict=True) if kept]


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1)), st.integers(1, 9))
def test_readers_that_share_a_table_have_each_key_once(values: list[int], parts: int) -> None:
    shares = [let_through(LONG, values, key_modulo=f"{parts}:{part}") for part in range(parts)]
    assert shares == [[value for value in values if value % parts == part] for part in range(parts)]


@given(st.lists(st.integers(0, (1 << 64) - 1)))
def test_the_largest_numbers_have_their_remainders(values: list[int]) -> None:
    exact = [Exact(value) for value in values]
    assert let_through(UNSIGNED, exact, key_modulo="7:0,6") == [v for v in values if v % 7 in (0, 6)]


@given(st.lists(st.text(alphabet="aé€😀")))
def test_texts_and_bytes_are_divided_by_their_checksum(values: list[str]) -> None:
    expected = [value for value in values if zlib.crc32(value.encode()) % 3 == 1]
    assert let_through(TEXT, values, key_modulo="3:1") == expected
    held = [value.encode() for value in values]
    assert let_through(Binary(), held, key_modulo="3:1") == [value.encode() for value in expected]


HOUR = 3_600_000_000
MOMENTS = [datetime(2026, 5, day, 12, tzinfo=UTC).replace(tzinfo=None) for day in (1, 2, 3)]


@pytest.mark.parametrize(
    ("kind", "values", "key_range", "expected"),
    [
        (LONG, [1, 2, 3, 4], "2..3", [2, 3]),
        (LONG, [-5, 0, 5], "..-1", [-5]),
        (UNSIGNED, [Exact(1), Exact((1 << 64) - 1)], f"{(1 << 64) - 1}..", [Exact((1 << 64) - 1)]),
        (Decimal(10, 2), [Exact("1.49"), Exact("1.50"), Exact("1.51")], "1.50..1.50", [Exact("1.50")]),
        (Double(), [0.5, 1.5], "1..", [1.5]),
        (TEXT, ["Z", "a", "é"], "a..é", ["a", "é"]),
        (TEXT, ["a", "b..", "c"], "a..b..", ["a", "b.."]),
        (Date(), [date(2026, 1, 1), date(2026, 1, 2)], "2026-01-02..", [date(2026, 1, 2)]),
        (DateTime(6), MOMENTS, "2026-05-02..2026-05-02 12:00:00", MOMENTS[1:2]),
        (Timestamp(6), [m.replace(tzinfo=UTC) for m in MOMENTS], "2026-05-03T12:00:00Z..",
         [MOMENTS[2].replace(tzinfo=UTC)]),
        (Time(6), [-HOUR, HOUR - 1, HOUR, 838 * HOUR], "-01:00:00..00:59:59.999999", [-HOUR, HOUR - 1]),
        (Time(6), [HOUR, 838 * HOUR], "838:00:00..", [838 * HOUR]),
        (Time(6), [-HOUR, HOUR], f"{HOUR}..", [HOUR]),
    ],
)  # fmt: skip
def test_a_range_has_both_ends(
    kind: ColumnType, values: list[Any], key_range: str, expected: list[Any]
) -> None:
    assert let_through(kind, values, key_range=key_range) == expected


def test_both_filters_hold_at_once_and_an_emptied_table_concerns_all() -> None:
    assert let_through(LONG, [1, 2, 3, None], key_range="2..", key_modulo="2:1") == [3, None]
    assert let_through(TEXT, ["a", None], key_range="b..", key_modulo="2:1") == [None]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (("7", None), "key_range: '7' is no range; give 100..200"),
        (("..", None), "key_range: '..' is no range"),
        ((None, "4"), "key_modulo: '4' is no modulo; give 4:1,3"),
        ((None, "4:"), "key_modulo: '4:' is no modulo"),
        ((None, "4:-1"), "key_modulo: '4:-1' is no modulo"),
        ((None, "0:0"), "key_modulo: the divisor 0 isn't from 1"),
        ((None, "4:1,4"), "key_modulo: 4 is no remainder of 4"),
    ],
)
def test_a_wrong_filter_is_named(asked: tuple[str | None, str | None], said: str) -> None:
    with pytest.raises(WrongKeyFilter, match=said):
        parse_key_filter(*asked)


@pytest.mark.parametrize(
    ("kind", "keys", "said"),
    [
        (LONG, KeyFilter(low="x"), "key_range: 'x' is no value of shop.parts.part"),
        (Time(6), KeyFilter(high="839:00:00"), "key_range: '839:00:00' is no value of shop.parts.part"),
        (Date(), KeyFilter(high="2026-13-01"), "key_range: '2026-13-01' is no value of shop.parts.part"),
        (Binary(), KeyFilter(low="x"), "shop.parts.part has bytes, which have no range"),
        (Bit(1), KeyFilter(low="1"), "shop.parts.part has bytes"),
        (Date(), KeyFilter(divisor=4), "shop.parts.part has neither whole numbers nor texts nor bytes"),
        (Decimal(20, 0), KeyFilter(divisor=4), "shop.parts.part has neither whole numbers nor texts"),
        (Decimal(65, 0), KeyFilter(divisor=4), "shop.parts.part has neither whole numbers nor texts"),
        (Decimal(65, 0), KeyFilter(low="9"), "shop.parts.part has decimals of more than 38 digits"),
    ],
)
def test_a_filter_that_does_not_fit_the_key_names_the_column(
    kind: ColumnType, keys: KeyFilter, said: str
) -> None:
    with pytest.raises(WrongKeyFilter, match=said):
        check_key_filter(keys, table(kind))


def test_a_table_without_a_key_is_named() -> None:
    schema = TableSchema(TableId("shop", "log"), (Column("id", LONG, False),), ())
    with pytest.raises(WrongKeyFilter, match=r"shop.log has no primary key; leave it out of tables"):
        check_key_filter(KeyFilter(low="1"), schema)
