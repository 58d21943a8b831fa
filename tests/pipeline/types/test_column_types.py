"""Types: each of MySQL's types has one Arrow form, and one that Spark reads."""

from typing import get_args

import pyarrow as pa
import pytest
from hypothesis import given

from pipeline.types import column_types as t
from pipeline.types import column_types as types
from tests.pipeline.declarations import declared, is_value
from tests.pipeline.strategies import column_types

ARROW: list[tuple[t.ColumnType, pa.DataType]] = [
    (t.Integer(1, unsigned=False), pa.int8()),
    (t.Integer(1, unsigned=True), pa.int16()),
    (t.Integer(2, unsigned=False), pa.int16()),
    (t.Integer(2, unsigned=True), pa.int32()),
    (t.Integer(3, unsigned=False), pa.int32()),
    (t.Integer(3, unsigned=True), pa.int32()),
    (t.Integer(4, unsigned=False), pa.int32()),
    (t.Integer(4, unsigned=True), pa.int64()),
    (t.Integer(8, unsigned=False), pa.int64()),
    (t.Integer(8, unsigned=True), pa.decimal128(20, 0)),
    (t.Decimal(38, 30), pa.decimal128(38, 30)),
    (t.Decimal(39, 0), pa.string()),
    (t.Float(), pa.float32()),
    (t.Double(), pa.float64()),
    (t.Bit(1), pa.bool_()),
    (t.Bit(2), pa.binary()),
    (t.Year(), pa.int16()),
    (t.Date(), pa.date32()),
    (t.Time(6), pa.int64()),
    (t.DateTime(0), pa.timestamp("us")),
    (t.Timestamp(0), pa.timestamp("us", tz="UTC")),
    (t.Text("latin1"), pa.string()),
    (t.FixedBinary(16), pa.binary()),
    (t.Binary(), pa.binary()),
    (t.Enum(("a", "b")), pa.string()),
    (t.Set(()), pa.string()),
    (t.Json(), pa.string()),
    (t.Geometry(), pa.binary()),
    (t.Vector(), pa.list_(pa.float32())),
]


@pytest.mark.parametrize(("column", "arrow"), ARROW, ids=str)
def test_the_arrow_form(column: t.ColumnType, arrow: pa.DataType) -> None:
    assert t.arrow_type(column) == arrow


def test_every_declared_type_is_in_a_union() -> None:
    assert set(declared(types)) == set(get_args(t.LogType))


def test_every_columns_type_is_in_the_table_above() -> None:
    assert set(get_args(t.ColumnType)) == {type(column) for column, _ in ARROW}


@pytest.mark.parametrize("kind", get_args(t.LogType))
def test_a_type_is_a_value(kind: type) -> None:
    assert is_value(kind)


@given(column_types)
def test_no_arrow_form_is_unsigned_since_spark_has_none(column: t.ColumnType) -> None:
    assert not pa.types.is_unsigned_integer(t.arrow_type(column))


@pytest.mark.parametrize(("size", "bits"), [(1, 8), (2, 16), (3, 24), (4, 32), (8, 64)])
def test_the_widest_integers_fit_their_arrow_form(size: int, bits: int) -> None:
    for unsigned, ends in ((False, (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)), (True, (0, 2**bits - 1))):
        arrow = t.arrow_type(t.Integer(size, unsigned))
        assert pa.array(ends, arrow).cast(pa.string()).to_pylist() == [str(end) for end in ends]
