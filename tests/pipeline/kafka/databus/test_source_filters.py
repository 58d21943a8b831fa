"""A filter lets the events through that Databus would, and what is wrong with one is named."""

import json
from dataclasses import replace
from decimal import Decimal as Exact
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.journal.request_parameters import MalformedRequest
from pipeline.kafka.databus import sources
from pipeline.kafka.databus.source_filters import (
    KeySpan,
    check_source_filters,
    parse_source_filters,
    wanted_events,
)
from pipeline.kafka.databus.sources import source_id
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.types.column_types import Binary, ColumnType, Decimal, Double, Integer, Text

LONG, UNSIGNED, TEXT = Integer(8, unsigned=False), Integer(8, unsigned=True), Text("utf8mb4")
LONGS = st.integers(-(1 << 63), (1 << 63) - 1)


def table(kind: ColumnType) -> TableSchema:
    """Its key is (part, id), in another order than the columns."""
    columns = (Column("id", LONG, False), Column("part", kind, False))
    return TableSchema(TableId("shop", "parts"), columns, (1, 0))


SOURCE = str(source_id(table(LONG).table))


def ranges(*ends: tuple[int, int]) -> dict[str, Any]:
    return {
        "partitionType": "RANGE",
        "filters": [{"keyRange": {"start": start, "end": end}} for start, end in ends],
    }


def buckets(count: int, *ends: tuple[int, int]) -> dict[str, Any]:
    spans = [{"numBuckets": count, "bktRange": {"start": start, "end": end}} for start, end in ends]
    return {"partitionType": "MOD", "filters": spans}


def let_through(kind: ColumnType, values: list[Any], told: dict[str, Any]) -> list[Any]:
    schema = table(kind)
    rows = pa.RecordBatch.from_pydict(
        {"id": [0] * len(values), "part": values},
        schema=pa.schema([schema.arrow.field(0), schema.arrow.field(1).with_nullable(True)]),
    )
    filters = parse_source_filters(json.dumps({SOURCE: told}))
    check_source_filters(filters, {schema.table: schema}, [schema.table])
    return [v for v, kept in zip(values, wanted_events(rows, schema, filters).tolist(), strict=True) if kept]


@given(st.lists(LONGS), LONGS, LONGS)
def test_a_range_has_its_start_and_not_its_end(values: list[int], start: int, end: int) -> None:
    values = [*values, start, end]
    assert let_through(LONG, values, ranges((start, end), (5, 6))) == [
        value for value in values if start <= value < end or value == 5
    ]


@given(st.lists(LONGS), st.integers(1, 9))
def test_clients_that_share_the_buckets_have_each_key_once(values: list[int], count: int) -> None:
    shares = [let_through(LONG, values, buckets(count, (n, n + 1))) for n in range(count)]
    assert shares == [[value for value in values if abs(value) % count == n] for n in range(count)]


@given(st.lists(st.integers(0, (1 << 64) - 1)))
def test_the_largest_numbers_have_their_place(values: list[int]) -> None:
    exact = [Exact(value) for value in values]
    assert let_through(UNSIGNED, exact, buckets(7, (0, 1), (6, 9))) == [v for v in values if v % 7 in (0, 6)]
    assert let_through(UNSIGNED, exact, ranges((-1, 1 << 40))) == [v for v in values if v < 1 << 40]


def java_number(text: str) -> int:
    """What Long.parseLong() reads, or else String.hashCode()."""
    digits = text[1:] if text[:1] in "+-" else text
    if digits.isascii() and digits.isdecimal() and -(1 << 63) <= int(text) < 1 << 63:
        return int(text)
    code = 0
    for unit in np.frombuffer(text.encode("utf-16-le"), np.uint16).tolist():
        code = (31 * code + unit) % (1 << 32)
    return code - (1 << 32) if code >= 1 << 31 else code


@given(
    st.lists(
        st.text(alphabet="-+12aé€😀", max_size=12) | LONGS.map(str) | st.integers(1 << 62, 1 << 65).map(str)
    )
)
def test_a_text_is_the_number_that_it_spells_or_its_hash(values: list[str]) -> None:
    values = [
        *values,
        "",
        "-",
        "+7",
        "00012",
        "-9223372036854775808",
        "9223372036854775808",
        "polygenelubricants",
    ]
    shares = [let_through(TEXT, values, buckets(5, (n, n + 1))) for n in range(5)]
    assert shares == [[text for text in values if abs(java_number(text)) % 5 == n] for n in range(5)]


def test_hashes_are_javas() -> None:
    assert (java_number("hello"), java_number("polygenelubricants")) == (99162322, -2147483648)


def test_what_has_no_key_and_what_has_no_filter_comes() -> None:
    assert let_through(LONG, [None, 1], ranges((2, 3))) == [None]
    assert let_through(LONG, [None, 1], {"partitionType": "NONE", "filters": []}) == [None, 1]
    assert let_through(LONG, [None, 1], {"partitionType": "MOD"}) == [None]
    assert parse_source_filters("{}") == {}


def test_all_that_can_be_said() -> None:
    text = json.dumps({"7": buckets(4, (1, 3)), "8": ranges((100, 200)), "9": {"partitionType": "NONE"}})
    assert parse_source_filters(text) == {7: (KeySpan(1, 3, 4),), 8: (KeySpan(100, 200),)}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "filters: it isn't JSON"),
        ("[" * 4000, "filters: it isn't JSON"),
        (json.dumps({"9" * 5000: {}}), "filters: .* is no number of a source"),
        ("[]", "filters: it is no object; give"),
        ('{"shop.parts": {}}', "filters: 'shop.parts' is no number of a source"),
        ('{"7": {}}', "filters: partitionType of 7 is none of RANGE, MOD, NONE"),
        ('{"7": {"partitionType": "HASH"}}', "filters: partitionType of 7 is none of"),
        ('{"7": {"partitionType": "MOD", "filters": {}}}', "filters: filters of 7 is no list of objects"),
        ('{"7": {"partitionType": "MOD", "filters": [{"numBuckets": 3}]}}', "a filter of 7 has no bktRange"),
        (json.dumps({"7": buckets(0, (0, 1))}), "filters: numBuckets of 7 is 0, and has to be 1 or more"),
        (json.dumps({"7": ranges((1, 1 << 63))}), "filters: end of 7 is 9223372036854775808, and no number"),
        (
            '{"7": {"partitionType": "RANGE", "filters": [{"keyRange": {"start": true}}]}}',
            "start of 7 is true",
        ),
    ],
)
def test_a_malformed_filter_is_named(text: str, said: str) -> None:
    with pytest.raises(MalformedRequest, match=said):
        parse_source_filters(text)


@pytest.mark.parametrize(
    ("kind", "told", "said"),
    [
        (Binary(), buckets(2, (0, 1)), r"shop\.parts\.part has neither whole numbers nor texts"),
        (Decimal(20, 0), buckets(2, (0, 1)), r"shop\.parts\.part has neither whole numbers nor texts"),
        (Decimal(65, 0), buckets(2, (0, 1)), r"shop\.parts\.part has neither whole numbers nor texts"),
        (Double(), ranges((0, 1)), r"shop\.parts\.part has neither whole numbers nor texts"),
        (TEXT, ranges((0, 1)), r"shop\.parts\.part has texts, which have no RANGE; use MOD"),
    ],
)
def test_a_filter_that_does_not_fit_the_key_is_refused(
    kind: ColumnType, told: dict[str, Any], said: str
) -> None:
    with pytest.raises(MalformedRequest, match=said):
        let_through(kind, [], told)


def test_a_filter_without_a_source_or_of_one_without_a_key_is_refused() -> None:
    keyless = TableSchema(table(LONG).table, table(LONG).columns, ())
    known = {keyless.table: keyless}
    with pytest.raises(MalformedRequest, match=r"shop\.parts has no primary key"):
        check_source_filters(parse_source_filters(json.dumps({SOURCE: ranges((0, 1))})), known, known)
    with pytest.raises(MalformedRequest, match="filters: 7 is no source; GET /sources lists them"):
        check_source_filters(parse_source_filters(json.dumps({"7": ranges((0, 1))})), known, known)


def test_of_two_sources_with_one_number_a_filter_is_of_the_one_that_is_requested(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With both it would be of either, and leave events of one out."""
    monkeypatch.setattr(sources, "_ID", 1)
    one, other = (replace(table(LONG), table=TableId("shop", name)) for name in ("parts", "rest"))
    known = {schema.table: schema for schema in (one, other)}
    filters = parse_source_filters(json.dumps({"1": ranges((0, 1))}))
    for each in known:
        check_source_filters(filters, known, [each])
    with pytest.raises(
        MalformedRequest, match=r"1 is the number of shop\.parts and shop\.rest; request each"
    ):
        check_source_filters(filters, known, known)
    check_source_filters(parse_source_filters('{"1": {"partitionType": "NONE"}}'), known, known)
