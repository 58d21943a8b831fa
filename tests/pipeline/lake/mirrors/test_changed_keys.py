"""Whatever the keys are, those rows are found that a comparison of each with each finds."""

from collections.abc import Sequence
from datetime import date
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.lake.mirrors.changed_keys import ChangedKeys

# Few values of each type, so that keys meet.
TYPES = {
    pa.int64(): st.integers(-2, 3),
    pa.int8(): st.integers(-1, 2),
    pa.string(): st.sampled_from(["", "a", "A", "a ", "ä", "\U0001f600"]),
    pa.binary(): st.sampled_from([b"", b"\x00", b"\x00\x00", b"\xff"]),
    pa.date32(): st.sampled_from([None, date(1970, 1, 1), date(2024, 2, 29)]),
    pa.decimal128(20, 0): st.sampled_from([Decimal(0), Decimal(1), Decimal(2**64 - 1)]),
    pa.float64(): st.sampled_from([0.0, -0.0, 1.5]),
    pa.bool_(): st.booleans(),
}


@st.composite
def keyed(draw: st.DrawFn) -> tuple[list[pa.DataType], list[tuple[object, ...]], list[tuple[object, ...]]]:
    """The types of a key, changed keys and a file's rows."""
    types = draw(st.lists(st.sampled_from([*TYPES]), min_size=1, max_size=4))
    key = st.tuples(*(TYPES[type_] for type_ in types))
    return types, draw(st.lists(key, max_size=12)), draw(st.lists(key, max_size=30))


def columns(types: Sequence[pa.DataType], rows: Sequence[tuple[object, ...]]) -> list[pa.Array]:
    return [pa.array([row[at] for row in rows], type_) for at, type_ in enumerate(types)]


def changed(types: Sequence[pa.DataType], rows: Sequence[tuple[object, ...]]) -> ChangedKeys:
    there = {f"k{at}": pa.chunked_array([column]) for at, column in enumerate(columns(types, rows))}
    numbers = {name for name, column in there.items() if pa.types.is_integer(column.type)}
    return ChangedKeys(there, numbers)


@given(keyed())
def test_the_rows_are_found_that_a_comparison_of_each_with_each_finds(
    case: tuple[list[pa.DataType], list[tuple[object, ...]], list[tuple[object, ...]]],
) -> None:
    types, keys, rows = case
    found = changed(types, keys).rows(columns(types, rows))
    # 0.0 == -0.0 and None == None, as `same_key` has them.
    assert found.tolist() == [at for at, row in enumerate(rows) if row in keys]


def test_a_key_whose_parts_are_all_changed_but_not_together_is_not_found() -> None:
    keys = changed([pa.int64(), pa.string()], [(1, "a"), (2, "b")])
    rows: list[tuple[object, ...]] = [(1, "b"), (2, "a"), (2, "b"), (1, "a")]
    assert keys.rows(columns([pa.int64(), pa.string()], rows)).tolist() == [2, 3]


def test_a_file_may_have_a_narrower_type_than_the_changes() -> None:
    keys = changed([pa.int64()], [(7,), (1 << 40,)])
    assert keys.rows([pa.array([6, 7, 8], pa.int16())]).tolist() == [1]
    texts = changed([pa.string()], [("x",)])
    assert texts.rows([pa.array(["y", "x"]).dictionary_encode()]).tolist() == [1]


def test_many_keys_of_many_parts_stay_apart() -> None:
    """The products of the numbers of values, 4096 to the sixth power, wouldn't fit into 64 bits."""
    some = np.random.default_rng(3)
    values = some.integers(0, 1 << 62, (6, 4096))
    there = {f"k{at}": pa.chunked_array([pa.array(column)]) for at, column in enumerate(values)}
    rows = values.copy()
    rows[5, ::2] = np.roll(rows[5, ::2], 1)
    assert ChangedKeys(there, ()).rows([*map(pa.array, rows)]).tolist() == [*range(1, 4096, 2)]


@pytest.mark.parametrize(
    ("least", "most", "may"),
    [(0, 9, False), (0, 10, True), (10, 10, True), (11, 19, False), (20, 90, True), (21, 90, False)],
)
def test_a_file_without_a_changed_key_between_its_bounds_is_left_out(
    least: int, most: int, may: bool
) -> None:
    keys = changed([pa.int64()], [(20,), (10,)])
    assert keys.may_be_in({"minValues": {"k0": least}, "maxValues": {"k0": most}}) is may


def test_a_file_is_read_if_its_bounds_tell_nothing() -> None:
    keys = changed([pa.int64(), pa.string()], [(20, "a")])
    for told in ({}, {"minValues": {"k0": 30}}, {"minValues": {"k1": "b"}, "maxValues": {"k1": "c"}}):
        assert keys.may_be_in(told)


def test_a_number_that_was_unsigned_may_be_negative() -> None:
    """The lake's column stays a decimal, and a file's bounds stay wide."""
    there = pa.chunked_array([pa.array([Decimal(-1), Decimal(7)], pa.decimal128(20, 0))])
    keys = ChangedKeys({"id": there}, {"id"})
    assert keys.may_be_in({"minValues": {"id": -1}, "maxValues": {"id": -1}})
    assert not keys.may_be_in({"minValues": {"id": -9}, "maxValues": {"id": -2}})


def test_bounds_of_the_greatest_numbers_are_compared_exactly() -> None:
    most = 2**64 - 1
    there = pa.chunked_array([pa.array([Decimal(most - 1)], pa.decimal128(20, 0))])
    keys = ChangedKeys({"id": there}, {"id"})
    assert keys.may_be_in({"minValues": {"id": most - 1}, "maxValues": {"id": most}})
    assert not keys.may_be_in({"minValues": {"id": most}, "maxValues": {"id": most}})
