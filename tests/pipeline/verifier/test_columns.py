"""Images get names by the state of their table, and what the log leaves open from its schema, or stop it by name."""

from dataclasses import replace
from decimal import Decimal as Number

import pyarrow as pa
import pytest

from pipeline.errors import InvariantBroken
from pipeline.gtid.gtid_set import GtidSet
from pipeline.messages.changes import TableStopped
from pipeline.messages.row_images import TableUnreadable
from pipeline.schema.table_map import FullMetadata, NoMetadata, TableMap
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.types import column_types as t
from pipeline.types.enum_labels import NoLabel
from pipeline.types.field_types import Storage
from pipeline.types.text.charsets import TextError
from pipeline.verifier.columns import (
    TooLong,
    complete_columns,
    images_table,
    misfit,
    name_columns,
    self_described,
)
from pipeline.verifier.table_state import (
    Capturable,
    SchemaFetched,
    SchemaKnown,
    SchemaPending,
    Unproven,
    Verified,
)
from tests.pipeline.verifier.small_log import FULL, MINIMAL, ORDERS, SCHEMA, end, images


@pytest.mark.parametrize(
    "state", [Unproven(), SchemaPending(SCHEMA), SchemaFetched(SCHEMA, GtidSet(), end(1))]
)
def test_a_full_map_needs_no_state_and_another_one_a_proven_schema(state: Capturable) -> None:
    verified = name_columns(state, images(FULL))
    assert not isinstance(verified, TableStopped)
    assert verified[0] == Verified(SCHEMA, FULL)
    stopped = name_columns(state, images(MINIMAL))
    assert isinstance(stopped, TableStopped)
    assert "no schema is proven to hold here" in stopped.reason


def test_a_proven_schema_names_the_columns_if_the_map_fits_it() -> None:
    verified = name_columns(SchemaKnown(SCHEMA), images(MINIMAL))
    assert not isinstance(verified, TableStopped)
    assert verified[0] == Verified(SCHEMA, MINIMAL)
    assert verified[1].rows.to_pylist() == [{"id": 7, "state": "paid", "tags": "x,y"}]
    assert name_columns(verified[0], images(MINIMAL)) == verified
    misfit = name_columns(verified[0], images(replace(MINIMAL, nullable=(True, True, True))))
    assert isinstance(misfit, TableStopped)
    assert "nullable=True" in misfit.reason


def test_rows_that_cannot_be_decoded_stop_their_table() -> None:
    unreadable = TableUnreadable(ORDERS, "a time of 25 hours")
    assert name_columns(SchemaKnown(SCHEMA), unreadable) == TableStopped(ORDERS, "a time of 25 hours")
    assert images_table(unreadable) == images_table(images(FULL)) == ORDERS


T = TableId("shop", "t")


def schema(*types: t.ColumnType) -> TableSchema:
    return TableSchema(T, tuple(Column(f"c{i}", kind, True) for i, kind in enumerate(types)), (0,))


def a_map(*types: t.LogType) -> TableMap:
    return TableMap(T, types, tuple(Storage(0, 0) for _ in types), (True,) * len(types), NoMetadata())


def one(kind: t.ColumnType, logged: t.LogType, values: pa.Array) -> pa.Array:
    """A column of these values, completed."""
    rows = pa.record_batch([values], names=["0"])
    completed, added = complete_columns(schema(kind), a_map(logged), rows)
    [array] = completed.columns
    array.validate(full=True)
    assert added == array.nbytes - values.nbytes
    return array


@pytest.mark.parametrize(
    ("size", "stored"), [(1, pa.int8()), (2, pa.int16()), (3, pa.int32()), (4, pa.int32()), (8, pa.int64())]
)
def test_an_integer_has_the_sign_that_the_schema_gives_it(size: int, stored: pa.DataType) -> None:
    top = 1 << (8 * size - 1)
    values = [0, 1, top - 1, -top, -1, None]
    as_signed = one(t.Integer(size, unsigned=False), t.RawInteger(size), pa.array(values, stored))
    assert as_signed.to_pylist() == values
    # In the middle of an array as well, with NULLs before it.
    for first in range(len(values)):
        array = pa.array([None, *values], stored).slice(1 + first)
        as_unsigned = one(t.Integer(size, unsigned=True), t.RawInteger(size), array)
        wanted = [None if v is None else v % (2 * top) for v in values[first:]]
        assert as_unsigned.to_pylist() == (
            [None if v is None else Number(v) for v in wanted] if size == 8 else wanted
        )


def test_binary_is_padded_with_zeros_and_varbinary_is_not() -> None:
    values = [b"", b"a", b"\xff\xfe\x00\xfd", None]
    array = pa.array([b"before", *values], pa.binary()).slice(1)
    padded = [b"\0\0\0\0", b"a\0\0\0", b"\xff\xfe\x00\xfd", None]
    assert one(t.FixedBinary(4), t.RawChar(4), array).to_pylist() == padded
    assert one(t.Binary(), t.RawString(), array).to_pylist() == values
    assert one(t.FixedBinary(4), t.RawChar(4), pa.array([None], pa.binary())).to_pylist() == [None]
    with pytest.raises(TooLong, match=r"shop\.t\.c0: a value has 4 bytes, and the column 3"):
        one(t.FixedBinary(3), t.RawChar(3), array)


@pytest.mark.parametrize("logged", [t.RawChar(9), t.RawString()])
def test_text_is_decoded_by_the_columns_character_set(logged: t.LogType) -> None:
    values = pa.array([b"na\xefve", b"", None], pa.binary())
    assert one(t.Text("latin1"), logged, values).to_pylist() == ["naïve", "", None]
    with pytest.raises(TextError, match=r"shop\.t\.c0"):
        one(t.Text("utf8mb4"), logged, values)


def test_labels_are_found_and_everything_else_stays() -> None:
    assert one(t.Enum(("a", "b")), t.Enum(()), pa.array([2, None, 0], pa.int32())).to_pylist() == [
        "b",
        None,
        "",
    ]
    assert one(t.Set(("a", "b")), t.Set(()), pa.array([3, None, 0], pa.int64())).to_pylist() == [
        "a,b",
        None,
        "",
    ]
    assert one(t.Date(), t.Date(), pa.array([5], pa.date32())).cast(pa.int32()).to_pylist() == [5]
    with pytest.raises(NoLabel):
        one(t.Enum(("a",)), t.Enum(()), pa.array([2], pa.int32()))


FITTING: list[tuple[t.ColumnType, t.LogType]] = [
    (t.Integer(4, unsigned=True), t.RawInteger(4)),
    (t.Integer(4, unsigned=False), t.RawInteger(4)),
    (t.Integer(4, unsigned=True), t.Integer(4, unsigned=True)),
    (t.Text("latin1"), t.RawChar(7)),
    (t.Text("latin1"), t.RawString()),
    (t.FixedBinary(7), t.RawChar(7)),
    (t.Binary(), t.RawString()),
    (t.Enum(("a",)), t.Enum(())),
    (t.Set(("a",)), t.Set(())),
]
DIFFERENT: list[tuple[t.ColumnType, t.LogType]] = [
    (t.Integer(8, unsigned=True), t.RawInteger(4)),
    (t.Integer(4, unsigned=True), t.Integer(4, unsigned=False)),
    (t.Text("latin1"), t.RawInteger(4)),
    (t.Text("latin1"), t.Text("utf8mb4")),
    (t.FixedBinary(7), t.RawChar(8)),
    (t.FixedBinary(7), t.RawString()),
    (t.Binary(), t.RawChar(7)),
    (t.Enum(("a",)), t.Set(())),
    (t.Date(), t.RawString()),
    (t.Set(("a",)), t.RawChar(1)),
]


def test_a_schema_fits_a_log_that_says_nothing_else() -> None:
    for kind, logged in FITTING:
        assert misfit(schema(kind), a_map(logged)) is None
    for kind, logged in DIFFERENT:
        assert "where the server's schema has" in str(misfit(schema(kind), a_map(logged)))
    assert "2 columns" in str(misfit(schema(t.Date()), a_map(t.Date(), t.Date())))
    assert misfit(schema(t.Date()), replace(a_map(t.Date()), nullable=(False,))) is not None


def test_a_log_with_names_leaves_nothing_open() -> None:
    named = replace(a_map(t.Date(), t.Text("latin1")), metadata=FullMetadata(("c0", "c1"), (0,)))
    assert isinstance(named.metadata, FullMetadata)
    assert self_described(named, named.metadata) == schema(t.Date(), t.Text("latin1"))
    with pytest.raises(InvariantBroken, match="names the column c0"):
        self_described(replace(named, types=(t.RawString(), t.Date())), named.metadata)
