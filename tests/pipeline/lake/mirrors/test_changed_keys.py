"""Whatever the keys are, those rows are found that a comparison of each with each finds."""

from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from typing import Any

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
def keyed(draw: st.DrawFn) -> tuple[list[pa.DataType], list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """The types of a key, changed keys and a file's rows."""
    types = draw(st.lists(st.sampled_from([*TYPES]), min_size=1, max_size=4))
    key = st.tuples(*(TYPES[type_] for type_ in types))
    return types, draw(st.lists(key, max_size=12)), draw(st.lists(key, max_size=30))


def columns(types: Sequence[pa.DataType], rows: Sequence[tuple[object, ...]]) -> list[pa.Array]:
    return [pa.array([row[at] for row in rows], type_) for at, type_ in enumerate(types)]


def places(keys: ChangedKeys, columns: Sequence[pa.Array], **statistics: Any) -> list[int]:
    ranges = keys.ranges(statistics)
    return [] if ranges is None else keys.rows(columns, ranges).tolist()


def changed(types: Sequence[pa.DataType], rows: Sequence[tuple[object, ...]]) -> ChangedKeys:
    there = {f"k{at}": pa.chunked_array([column]) for at, column in enumerate(columns(types, rows))}
    numbers = {name for name, column in there.items() if pa.types.is_integer(column.type)}
    return ChangedKeys(there, numbers)


@given(keyed())
def test_the_rows_are_found_that_a_comparison_of_each_with_each_finds(
    case: tuple[list[pa.DataType], list[tuple[Any, ...]], list[tuple[Any, ...]]],
) -> None:
    types, keys, rows = case
    # 0.0 == -0.0 and None == None, as `same_key` has them.
    there, expected = changed(types, keys), [at for at, row in enumerate(rows) if row in keys]
    assert places(there, columns(types, rows)) == expected
    # With the bounds of the file's numbers, fewer values are looked up.
    numbers = {
        f"k{at}": [row[at] for row in rows] for at, type_ in enumerate(types) if pa.types.is_integer(type_)
    }
    least = {name: min(each) for name, each in numbers.items() if each}
    most = {name: max(each) for name, each in numbers.items() if each}
    assert places(there, columns(types, rows), minValues=least, maxValues=most) == expected


def test_a_key_whose_parts_are_all_changed_but_not_together_is_not_found() -> None:
    keys = changed([pa.int64(), pa.string()], [(1, "a"), (2, "b")])
    rows: list[tuple[object, ...]] = [(1, "b"), (2, "a"), (2, "b"), (1, "a")]
    assert places(keys, columns([pa.int64(), pa.string()], rows)) == [2, 3]


def test_a_file_may_have_a_narrower_type_than_the_changes() -> None:
    keys = changed([pa.int64()], [(7,), (1 << 40,)])
    assert places(keys, [pa.array([6, 7, 8], pa.int16())]) == [1]
    texts = changed([pa.string()], [("x",)])
    assert places(texts, [pa.array(["y", "x"]).dictionary_encode()]) == [1]


def test_many_keys_of_many_parts_stay_apart() -> None:
    """The products of the numbers of values, 4096 to the sixth power, wouldn't fit into 64 bits."""
    some = np.random.default_rng(3)
    values = some.integers(0, 1 << 62, (6, 4096))
    there = {f"k{at}": pa.chunked_array([pa.array(column)]) for at, column in enumerate(values)}
    rows = values.copy()
    rows[5, ::2] = np.roll(rows[5, ::2], 1)
    assert places(ChangedKeys(there, ()), [*map(pa.array, rows)]) == [*range(1, 4096, 2)]


@pytest.mark.parametrize(
    ("least", "most", "may"),
    [(0, 9, False), (0, 10, True), (10, 10, True), (11, 19, False), (20, 90, True), (21, 90, False)],
)
def test_a_file_without_a_changed_key_between_its_bounds_is_left_out(
    least: int, most: int, may: bool
) -> None:
    keys = changed([pa.int64()], [(20,), (10,)])
    assert (keys.ranges({"minValues": {"k0": least}, "maxValues": {"k0": most}}) is not None) is may


def test_a_file_is_read_if_its_bounds_tell_nothing() -> None:
    keys = changed([pa.int64(), pa.string()], [(20, "a")])
    for told in ({}, {"minValues": {"k0": 30}}, {"minValues": {"k1": "b"}, "maxValues": {"k1": "c"}}):
        assert keys.ranges(told) == [slice(0, 1), slice(0, 1)]


def test_a_number_that_was_unsigned_may_be_negative() -> None:
    """The lake's column stays a decimal, and a file's bounds stay wide."""
    there = pa.chunked_array([pa.array([Decimal(-1), Decimal(7)], pa.decimal128(20, 0))])
    keys = ChangedKeys({"id": there}, {"id"})
    assert keys.ranges({"minValues": {"id": -1}, "maxValues": {"id": -1}}) is not None
    assert keys.ranges({"minValues": {"id": -9}, "maxValues": {"id": -2}}) is None


def test_bounds_of_the_greatest_numbers_are_compared_exactly() -> None:
    most = 2**64 - 1
    there = pa.chunked_array([pa.array([Decimal(most - 1)], pa.decimal128(20, 0))])
    keys = ChangedKeys({"id": there}, {"id"})
    assert keys.ranges({"minValues": {"id": most - 1}, "maxValues": {"id": most}}) is not None
    assert keys.ranges({"minValues": {"id": most}, "maxValues": {"id": most}}) is None
