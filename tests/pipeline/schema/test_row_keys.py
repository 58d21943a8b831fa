"""Keys: a token for each key and one key for each token, and keys through JSON."""

import json
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.schema import row_keys as keys_module
from pipeline.schema.row_keys import Key, ambiguous_keys, key_from_json, key_to_json
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.types.column_types import Date, Enum, Set, Text
from tests.pipeline.strategies import keys

# Arrow's type of a key column, and values of it, few and near each other, so that equal ones come up.
COLUMNS: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int8(): st.integers(-2, 2),
    pa.int64(): st.integers(-12, 12) | st.integers(2**63 - 2, 2**63 - 1) | st.just(-(2**63)),
    pa.decimal128(20, 0): st.integers(0, 12).map(Decimal) | st.integers(2**64 - 2, 2**64 - 1).map(Decimal),
    pa.decimal128(10, 3): st.integers(-1200, 1200).map(lambda n: Decimal(n).scaleb(-3)),
    pa.string(): st.text("01:-é", max_size=4),
    pa.binary(): st.text("01:", max_size=4).map(str.encode) | st.binary(max_size=2),
    pa.bool_(): st.booleans(),
    pa.date32(): st.sampled_from(
        [date(1970, 1, 1), date(1970, 1, 2), date(1969, 12, 31), date(9999, 12, 31)]
    ),
    pa.timestamp("us"): st.integers(-2, 12).map(lambda n: datetime(1970, 1, 1) + timedelta(microseconds=n)),  # noqa: DTZ001
    pa.timestamp("us", tz="UTC"): st.integers(-2, 12),
}


@st.composite
def batches(draw: st.DrawFn) -> pa.RecordBatch:
    """Rows of one to three key columns, few enough values that keys repeat."""
    kinds = draw(st.lists(st.sampled_from(list(COLUMNS)), min_size=1, max_size=3))
    rows = draw(st.lists(st.tuples(*(COLUMNS[kind] for kind in kinds)), min_size=2, max_size=8))
    columns = [pa.array(values, kind) for values, kind in zip(zip(*rows, strict=True), kinds, strict=True)]
    return pa.RecordBatch.from_arrays(columns, names=[f"c{i}" for i in range(len(kinds))])


def batch(*rows: Sequence[object]) -> pa.RecordBatch:
    """Rows of the types that Arrow takes for these values."""
    columns = [pa.array(values) for values in zip(*rows, strict=True)]
    return pa.RecordBatch.from_arrays(columns, names=[f"c{i}" for i in range(len(columns))])


def key_tokens(rows: pa.RecordBatch) -> list[bytes]:
    """The tokens of the rows, all columns being the key."""
    found: list[bytes] = keys_module.key_tokens(rows, range(rows.num_columns)).to_pylist()
    return found


@given(batches())
def test_tokens_are_equal_if_and_only_if_keys_are(rows: pa.RecordBatch) -> None:
    found = list(zip(key_tokens(rows), zip(*rows.to_pydict().values(), strict=True), strict=True))
    for token, key in found:
        assert [other == token for other, _ in found] == [other == key for _, other in found]


def test_no_text_can_pretend_to_be_two_parts() -> None:
    pretenders = [("1:1", "1"), ("1", "1:1"), (":", ""), ("", ":"), ("1:1:1", ""), ("", "1:1:1")]
    assert len(set(key_tokens(batch(*pretenders)))) == len(pretenders)


def test_tokens_of_a_key_are_the_same_in_any_batch() -> None:
    assert key_tokens(batch((1, "a"), (2, "b")))[1:] == key_tokens(batch((2, "b")))


def test_a_key_is_taken_in_its_own_order_of_columns() -> None:
    rows = batch((1, "x", 2), (2, "y", 1))
    swapped = keys_module.key_tokens(rows, [2, 0]).to_pylist()
    assert swapped == key_tokens(batch((2, 1), (1, 2)))


def test_a_token_is_made_of_arrows_own_bytes() -> None:
    assert key_tokens(batch((12, "é:1"))) == [b"\x0c" + bytes(7) + b"\xc3\xa9:1"]


def test_a_part_of_varying_length_has_its_length_before_it_unless_it_is_the_last() -> None:
    assert key_tokens(batch(("é:1", True, "x"))) == [b"\x04\0\0\0\xc3\xa9:1\x01x"]


def test_tokens_of_a_slice_are_those_of_its_rows() -> None:
    days = pa.array([1, None, 3, None, 5], pa.date32())
    rows = pa.RecordBatch.from_arrays(
        [days, pa.array([True, False, True, True, False])], names=["day", "odd"]
    )
    for key in ([0], [1], [0, 1]):
        whole = keys_module.key_tokens(rows, key).to_pylist()
        assert keys_module.key_tokens(rows.slice(2, 2), key).to_pylist() == whole[2:4]


def test_no_rows_have_no_tokens() -> None:
    rows = pa.RecordBatch.from_arrays([pa.array([], pa.int64())], names=["id"])
    assert key_tokens(rows) == []


def test_a_key_with_a_part_that_has_no_value_has_no_token() -> None:
    days = pa.array([1, None], pa.date32())
    rows = pa.RecordBatch.from_arrays([days, pa.array([7, 7])], names=["day", "id"])
    assert key_tokens(rows) == [b"\1\0\0\0\7" + bytes(7), None]


@given(keys)
def test_a_key_comes_back_from_json(key: Key) -> None:
    assert key_from_json(json.loads(json.dumps(key_to_json(key)))) == key


def test_bytes_and_text_that_look_alike_stay_apart_in_json() -> None:
    key: Key = ("00ff", b"\x00\xff", 255, "255")
    back = key_from_json(json.loads(json.dumps(key_to_json(key))))
    assert back == key
    assert [type(part) for part in back or ()] == [str, bytes, int, str]


def test_a_character_with_two_codes_makes_a_key_ambiguous() -> None:
    schema = TableSchema(
        TableId("d", "t"),
        tuple(
            Column(name, Text(charset), nullable=False)
            for name, charset in [("a", "sjis"), ("b", "gbk"), ("c", "sjis")]
        ),
        (0, 1),
    )
    rows = pa.RecordBatch.from_pydict({"a": ["x", "y"], "b": ["\\", "x"], "c": ["\\", "x"]})
    assert ambiguous_keys(schema, rows) is None
    told = ambiguous_keys(schema, rows.set_column(0, "a", pa.array(["x", "y\\"])))
    assert told is not None and told.startswith("a of its primary key has a character with two codes")


@pytest.mark.parametrize("kind", [Enum, Set])
def test_an_empty_label_makes_a_key_ambiguous(kind: type[Enum] | type[Set]) -> None:
    with_it, without = (
        TableSchema(TableId("d", "t"), (Column("a", kind(labels), nullable=False),), (0,))
        for labels in (("x", ""), ("x", "y"))
    )
    empty, told = (pa.RecordBatch.from_pydict({"a": ["x", value]}) for value in ("", "x"))
    assert "has an empty text" in str(ambiguous_keys(with_it, empty))
    assert [ambiguous_keys(with_it, told), ambiguous_keys(without, empty)] == [None, None]


@pytest.mark.parametrize(
    ("labels", "hidden", "shown"),
    [(("", "x", "y"), ["", "x", "y", "x,y"], []), (("x", "", "y"), ["", "y"], ["x", "x,", "x,y", "x,,y"])],
)
def test_an_empty_label_makes_each_key_ambiguous_that_may_hide_it(
    labels: tuple[str, ...], hidden: list[str], shown: list[str]
) -> None:
    schema = TableSchema(TableId("d", "t"), (Column("a", Set(labels), nullable=False),), (0,))
    for value in (*hidden, *shown, None):
        rows = pa.record_batch([pa.array([] if value is None else [value], pa.string())], ["a"])
        assert ("empty label" in str(ambiguous_keys(schema, rows))) == (value in hidden)


@pytest.mark.parametrize(("kind", "other"), [(Enum, "y"), (Set, "y,z"), (Set, "")])
def test_a_label_that_is_there_twice_makes_a_key_ambiguous(kind: type[Enum] | type[Set], other: str) -> None:
    twice, once = (
        TableSchema(TableId("d", "t"), (Column("a", kind(labels), nullable=False),), (0,))
        for labels in (("x", "y", "z", "x"), ("x", "y", "z"))
    )
    held, without = (pa.RecordBatch.from_pydict({"a": [other, value]}) for value in ("x", other))
    assert "a label that is two of its labels" in str(ambiguous_keys(twice, held))
    assert [ambiguous_keys(twice, without), ambiguous_keys(once, held)] == [None, None]


@pytest.mark.parametrize("value", ["x,y", "y,x", "z,x,y"])
def test_a_repeated_label_among_others_makes_a_key_ambiguous(value: str) -> None:
    schema = TableSchema(TableId("d", "t"), (Column("a", Set(("x", "y", "z", "x")), nullable=False),), (0,))
    assert ambiguous_keys(schema, pa.RecordBatch.from_pydict({"a": [value]}))


def test_a_key_without_a_value_is_none() -> None:
    columns = (Column("a", Date(), nullable=False), Column("b", Date(), nullable=True))
    schema = TableSchema(TableId("d", "t"), columns, (0,))
    dates = pa.array([date(2020, 1, 1), None])
    whole, zero = (
        pa.RecordBatch.from_arrays([key, dates], ["a", "b"])
        for key in (dates.fill_null(date(2020, 1, 1)), dates)
    )
    assert ambiguous_keys(schema, whole) is None
    told = ambiguous_keys(schema, zero)
    assert told is not None and told.startswith("a of its primary key has a zero or partial date")
