"""Two sides have the same sums if they have the same rows, each as often, and otherwise never."""

import struct
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.lake.verification.row_sums import RowHasher, RowSums
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.types import column_types as t
from pipeline.types.lake_forms import LakeForm

INT = t.Integer(8, unsigned=False)

# Few values of each type, so that rows meet. Each differs from the others by as little as it can.
VALUES: dict[t.ColumnType, Sequence[Any]] = {
    t.Integer(1, unsigned=False): [0, 1, -1],
    INT: [0, 1, -1, 1 << 62],
    t.Integer(8, unsigned=True): [Decimal(0), Decimal(1), Decimal(2**64 - 1), Decimal(2**63)],
    t.Decimal(38, 30): [Decimal(0), Decimal("1e-30"), Decimal("-1e-30")],
    t.Float(): [0.0, -0.0, 1.5],
    t.Double(): [0.0, -0.0, 0.1, 0.1 + 2**-56],
    t.Bit(1): [True, False],
    t.Date(): [date(1970, 1, 1), date(1970, 1, 2)],
    t.Timestamp(6): [datetime(1970, 1, 1, tzinfo=UTC), datetime(1970, 1, 1, 0, 0, 0, 1, UTC)],
    t.Text("utf8mb4"): ["", " ", "\0", "a", "A", "seven b", "7 bytes\0", "nine byte", "nine bytes"],
    t.Binary(): [b"", b"\0", b"\0\0", b"\0" * 8, b"\0" * 9, b"\0" * 16],
    t.Vector(): [[], [0.0], [-0.0], [0.0, 0.0], [1.0, 2.0], [2.0, 1.0]],
}
POINTS = [{"srid": srid, "wkb": wkb} for srid in (0, None) for wkb in (b"a", None)]


def table(*kinds: t.ColumnType, key: tuple[int, ...] = (0,)) -> TableSchema:
    columns = tuple(Column(f"c{place}", kind, True) for place, kind in enumerate(kinds))
    return TableSchema(TableId("shop", "some"), columns, key)


def arrays(schema: TableSchema, rows: Sequence[Sequence[Any]]) -> list[pa.Array]:
    return [pa.array([row[at] for row in rows], kind) for at, kind in enumerate(schema.arrow.types)]


def hasher(schema: TableSchema, changed: Sequence[Sequence[Any]] = ()) -> RowHasher:
    kinds = [schema.arrow.types[place] for place in schema.key]
    return RowHasher(schema, [pa.array([key[at] for key in changed], kind) for at, kind in enumerate(kinds)])


def sums(schema: TableSchema, rows: Sequence[Sequence[Any]]) -> RowSums:
    found, others = hasher(schema).sum(arrays(schema, rows), None)
    assert not len(others)
    return found


def bits(value: Any) -> object:
    """A value by which it differs from each that isn't the same: zero has a sign."""
    if isinstance(value, list):
        return tuple(map(bits, value))
    return struct.pack("d", value) if isinstance(value, float) else value


@st.composite
def two_sides(draw: st.DrawFn) -> tuple[TableSchema, list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    kinds = draw(st.lists(st.sampled_from([*VALUES]), min_size=1, max_size=5))
    row = st.tuples(*(st.sampled_from([None, *VALUES[kind]]) for kind in kinds))
    one = draw(st.lists(row, max_size=8))
    same = draw(st.permutations(one))
    return (
        table(*kinds),
        one,
        draw(st.sampled_from([same, same[1:], [*same[:-1], *draw(st.lists(row, max_size=2))]])),
    )


@given(two_sides(), st.integers(0, 8))
def test_sums_are_equal_if_and_only_if_the_rows_are(
    sides: tuple[TableSchema, list[tuple[Any, ...]], list[tuple[Any, ...]]], at: int
) -> None:
    schema, one, other = sides
    same = Counter(map(bits_of_row, one)) == Counter(map(bits_of_row, other))
    assert (sums(schema, one) == sums(schema, other)) is same
    assert sums(schema, one[:at]) + sums(schema, one[at:]) == sums(schema, one)


def bits_of_row(row: Sequence[Any]) -> tuple[object, ...]:
    return tuple(map(bits, row))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([(1, "a"), (2, "b")], [(1, "b"), (2, "a")]),
        ([(1, "a"), (1, "a"), (2, "b")], [(1, "a"), (2, "b"), (2, "b")]),
        ([(1, "a")] * 4, [(1, "a")] * 2),
        ([(1, "ab"), (2, "c")], [(1, "a"), (2, "bc")]),
        ([(0, None)], [(0, "")]),
        ([(None, "a")], [(0, "a")]),
        ([(None, "a")], [(-1, "a")]),
    ],
    ids=["exchanged", "another one twice", "four times", "a byte moved", "null", "null key", "null and ones"],
)
def test_rows_that_are_easily_confused_are_told_apart(one: list[Any], other: list[Any]) -> None:
    schema = table(INT, t.Text("utf8mb4"))
    assert sums(schema, one).one != sums(schema, other).one
    assert sums(schema, one).other != sums(schema, other).other


@pytest.mark.parametrize("kind", VALUES, ids=str)
def test_no_two_values_are_the_same(kind: t.ColumnType) -> None:
    values = [None, *VALUES[kind]]
    assert len({sums(table(INT, kind), [(1, value)]) for value in values}) == len(values)


def test_a_value_belongs_to_its_column() -> None:
    schema = table(INT, t.Text("utf8mb4"), t.Text("utf8mb4"), INT, INT)
    rows: list[tuple[Any, ...]] = [
        (1, "ab", "c", 5, 6),
        (1, "a", "bc", 5, 6),
        (1, "c", "ab", 5, 6),
        (1, "ab", "c", 6, 5),
    ]
    rows += [(1, None, "c", 5, 6), (1, "c", None, 5, 6), (1, "ab", "c", 5, None), (1, "ab", "c", None, 6)]
    assert len({sums(schema, [row]) for row in rows}) == len(rows)


def test_a_struct_is_its_parts_and_whether_it_is_there() -> None:
    columns = (Column("id", INT, False), Column("place", t.Geometry(), True, LakeForm.WKB))
    schema = TableSchema(TableId("shop", "some"), columns, (0,))
    assert len({sums(schema, [(1, point)]) for point in [*POINTS, None]}) == 5
    parts = [pa.array([7]), pa.array([b"x"])]
    hidden = pa.StructArray.from_arrays(parts, fields=list(schema.arrow.types[1]), mask=pa.array([True]))
    assert hasher(schema).sum([pa.array([1]), hidden], None)[0] == sums(schema, [(1, None)])


def test_what_lies_beneath_a_null_and_where_an_array_begins_is_all_the_same() -> None:
    schema = table(*VALUES)
    rows = [tuple(values[at % len(values)] for values in VALUES.values()) for at in range(20)]
    rows[3] = (None,) * len(rows[3])
    whole = arrays(schema, rows)
    cut = [column.slice(3, 11) for column in whole]
    assert hasher(schema).sum(cut, None)[0] == sums(schema, rows[3:14])
    under = [pa.array([7], pa.int64()), pa.Array.from_buffers(pa.string(), 1, pa.array(["abc"]).buffers())]
    of_both = table(INT, t.Text("utf8mb4"))
    nulls = [
        pa.Array.from_buffers(each.type, 1, [pa.py_buffer(b"\0"), *each.buffers()[1:]]) for each in under
    ]
    assert hasher(of_both).sum(nulls, None)[0] == sums(of_both, [(None, None)])


@given(two_sides(), st.data())
def test_rows_of_changed_keys_are_left_to_the_caller(
    sides: tuple[TableSchema, list[tuple[Any, ...]], list[tuple[Any, ...]]], data: st.DataObject
) -> None:
    schema, rows, _ = sides
    changed = [row[:1] for row in rows if data.draw(st.booleans())]
    shown = np.array([data.draw(st.booleans()) for _ in rows], np.bool_)
    found, places = hasher(schema, changed).sum(arrays(schema, rows), shown)
    keys = {key[0] if not isinstance(key[0], list) else tuple(key[0]) for key in changed}
    among = [row[0] if not isinstance(row[0], list) else tuple(row[0]) for row in rows]
    expected = [at for at, key in enumerate(among) if key in keys and shown[at]]
    if not isinstance(schema.columns[0].type, t.Vector):  # no key has one
        assert places.tolist() == expected, "0.0 == -0.0 here"
        left = [row for at, row in enumerate(rows) if shown[at] and at not in expected]
        assert found == sums(schema, left)


def test_a_zero_in_a_key_has_a_sign_in_its_row_alone() -> None:
    schema = table(t.Double(), INT)
    assert sums(schema, [(0.0, 1)]) != sums(schema, [(-0.0, 1)])
    assert hasher(schema, [(0.0,)]).sum(arrays(schema, [(-0.0, 1), (1.0, 1)]), None)[1].tolist() == [0]


def test_many_changed_keys_are_found_and_hardly_any_other() -> None:
    schema = table(INT, INT, key=(1, 0))
    rng = np.random.default_rng(7)
    keys = rng.integers(-(1 << 40), 1 << 40, (2, 50_000))
    # The key's parts come in the key's order, and a row's columns in the table's.
    of = RowHasher(schema, [pa.array(keys[1]), pa.array(keys[0])])
    assert len(of.sum([pa.array(keys[0]), pa.array(keys[1])], None)[1]) == 50_000
    assert not len(of.sum([pa.array(keys[0]), pa.array(keys[1] + 1)], None)[1])
    assert not len(of.sum([pa.array(keys[1]), pa.array(keys[0])], None)[1])


def test_the_bits_of_hashes_are_of_both_kinds_alike() -> None:
    """Of rows that differ in few bits, each bit of both parts is set in about half, and no two parts are the same."""
    schema = table(INT, t.Text("utf8mb4"))
    found = [sums(schema, [(number, str(number % 7))]) for number in range(4000)]
    for parts in ([each.one for each in found], [each.other for each in found]):
        assert len(set(parts)) == len(parts)
        for bit in range(64):
            assert 1800 < sum(part >> bit & 1 for part in parts) < 2200, bit
    assert len({each.one ^ each.other for each in found}) == len(found)
