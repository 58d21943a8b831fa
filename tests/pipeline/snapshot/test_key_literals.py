"""Keys of signals: each part is a value of its column, in the form that it's bound in, or it's refused by name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.schema.row_keys import KeyPart
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.snapshot.key_literals import bound_key
from pipeline.source.statement import encoded
from pipeline.types import column_types
from pipeline.types.column_types import ColumnType


def keyed(*kinds: ColumnType) -> TableSchema:
    """A table whose key is all of its columns, in the opposite order."""
    columns = tuple(Column(f"c{i}", kind, nullable=False) for i, kind in enumerate(kinds))
    return TableSchema(TableId("db", "t"), columns, tuple(reversed(range(len(kinds)))))


@pytest.mark.parametrize(
    ("kind", "asked", "part"),
    [
        (column_types.Integer(8, unsigned=True), 2**64 - 1, 2**64 - 1),
        (column_types.Year(), 2026, 2026),
        (column_types.Bit(4), 5, 5),
        (column_types.Decimal(8, 2), "12.50", "12.50"),
        (column_types.Decimal(8, 2), 12, "12"),
        (column_types.Decimal(8, 2), "-1e2", "-100"),
        (column_types.Double(), 1.5, 1.5),
        (column_types.Float(), 1, 1.0),
        (column_types.Text("utf8mb4"), "ä", "ä"),
        (column_types.FixedBinary(2), "a", b"a"),
        (column_types.Binary(), b"\0\xff", b"\0\xff"),
        (column_types.Date(), "2026-01-31", "2026-01-31"),
        (column_types.DateTime(3), "2026-01-31T10:30:00.5", "2026-01-31 10:30:00.500000"),
        (column_types.Timestamp(0), "2026-01-31 10:30:00", "2026-01-31 10:30:00"),
        (column_types.Time(0), "-838:59:59", "-838:59:59"),
        (column_types.Enum(("a", "b")), "b", 2),
        (column_types.Set(("a", "b", "c")), "c,a", 5),
        (column_types.Set(("a", "b")), "", 0),
        (column_types.Set(("a", "", "b")), "a,b", 5),
        (column_types.Set(("a", "", "b")), "a,,b", 7),
        (column_types.Set(("a", "", "b")), "a,", 3),
    ],
)
def test_a_value_of_its_column_is_bound(kind: ColumnType, asked: KeyPart, part: KeyPart) -> None:
    (found,) = bound_key(keyed(kind), (asked,))
    assert (type(found), found) == (type(part), part)


@pytest.mark.parametrize(
    ("kind", "asked"),
    [
        (column_types.Integer(4, unsigned=False), "1"),
        (column_types.Integer(4, unsigned=False), 1.0),
        (column_types.Decimal(8, 2), 12.5),
        (column_types.Decimal(8, 2), "12,5"),
        (column_types.Decimal(8, 2), "NaN"),
        (column_types.Double(), "1"),
        (column_types.Text("utf8mb4"), 1),
        (column_types.Text("utf8mb4"), b"a"),
        (column_types.Binary(), 1),
        (column_types.Date(), "2026-02-30"),
        (column_types.Date(), 20260131),
        (column_types.Time(0), "10:30"),
        (column_types.Enum(("a", "b")), "c"),
        (column_types.Enum(("a", "b")), 1),
        (column_types.Set(("a", "b")), "a,c"),
        (column_types.Set(("a", "b")), "a,"),
        (column_types.Set(("a", "b")), "a,,b"),
        (column_types.Set(("a", "b")), 0),
        (column_types.Json(), "{}"),
        (column_types.Integer(8, unsigned=True), 2**64),
        (column_types.Integer(8, unsigned=False), -(2**63) - 1),
        (column_types.Bit(64), 10**400),
        (column_types.Year(), 2**64),
        (column_types.Double(), 10**400),
        (column_types.Decimal(8, 2), "1e1000000000"),
        (column_types.Decimal(8, 2), "-0e-1000000000"),
        (column_types.Text("utf8mb4"), "\ud800"),
    ],
)
def test_what_is_none_is_refused_by_name(kind: ColumnType, asked: KeyPart) -> None:
    with pytest.raises(ValueError, match=r"is no value of the key's column c0, which is [A-Z]+$"):
        bound_key(keyed(kind), (asked,))


ANY_PART: st.SearchStrategy[KeyPart] = st.one_of(
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.binary(),
    st.text(st.characters(exclude_categories=())),
    st.sampled_from(("1e99", "0e-9999", "9" * 70, 10**400)),
)


@given(
    st.sampled_from(
        (
            column_types.Integer(8, unsigned=True),
            column_types.Year(),
            column_types.Bit(3),
            column_types.Decimal(65, 30),
            column_types.Double(),
            column_types.Text("latin1"),
            column_types.Binary(),
            column_types.Date(),
            column_types.Time(6),
            column_types.Enum(("a", "b")),
            column_types.Set(("a", "b")),
        )
    ),
    ANY_PART,
)
def test_any_part_is_refused_or_can_be_sent(kind: ColumnType, asked: KeyPart) -> None:
    try:
        key = bound_key(keyed(kind), (asked,))
    except ValueError:
        return
    assert encoded(key)


def test_a_key_of_several_columns_is_in_the_key_s_order() -> None:
    schema = keyed(column_types.Text("utf8mb4"), column_types.Integer(4, unsigned=False))
    assert bound_key(schema, (7, "a")) == (7, "a")
    with pytest.raises(ValueError, match="c1, which is INTEGER"):
        bound_key(schema, ("a", 7))
    with pytest.raises(ValueError, match=r"\[7\] has 1 parts, and the primary key of db.t is c1, c0"):
        bound_key(schema, (7,))
