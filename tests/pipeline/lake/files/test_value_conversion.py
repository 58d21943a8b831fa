"""Values in the forms of the lake: what they become, what is refused, and that they come back unchanged."""

import uuid
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import Definite
from pipeline.lake.files.value_conversion import ValueRefused, form_constant, form_rows, usual_values
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.types.column_types import ColumnType, FixedBinary, Geometry, Integer, Time, arrow_type
from pipeline.types.lake_forms import LakeForm, lake_arrow_type

UNSIGNED = Integer(8, unsigned=True)
TINY = Integer(1, unsigned=False)
SOME = uuid.UUID("6ccd780c-baba-1026-9564-5b8c656024db")
# What MySQL's UUID_TO_BIN(text, 1) returns of it, by the manual's example.
SWAPPED = bytes.fromhex("1026baba6ccd780c95645b8c656024db")


def table(kind: ColumnType, form: LakeForm | None) -> TableSchema:
    id_ = Column("id", TINY, nullable=False)
    return TableSchema(TableId("shop", "orders"), (id_, Column("v", kind, nullable=True, form=form)), (0,))


def formed(kind: ColumnType, form: LakeForm, *values: Any) -> list[Any]:
    """What the lake has of these values, with rows before and after them that are cut off."""
    schema = table(kind, form)
    array = pa.array([None, *values, None], arrow_type(kind))
    rows = pa.RecordBatch.from_arrays([pa.nulls(len(array), pa.int8()), array], schema=schema.unformed.arrow)
    found = form_rows(rows.slice(1, len(values)), schema, 7)
    assert found.schema == schema.arrow
    assert found.validate(full=True) is None
    return list(found.column(1).to_pylist())


@pytest.mark.parametrize(
    ("kind", "form", "value", "wanted"),
    [
        (UNSIGNED, LakeForm.LONG, Decimal(0), 0),
        (UNSIGNED, LakeForm.LONG, Decimal(2**63 - 1), 2**63 - 1),
        (TINY, LakeForm.BOOLEAN, 0, False),
        (Integer(1, unsigned=True), LakeForm.BOOLEAN, 1, True),
        (FixedBinary(16), LakeForm.UUID, SOME.bytes, str(SOME)),
        (FixedBinary(16), LakeForm.SWAPPED_UUID, SWAPPED, str(SOME)),
        (FixedBinary(16), LakeForm.UUID, bytes(16), str(uuid.UUID(int=0))),
        (Time(0), LakeForm.TEXT, 0, "00:00:00"),
        (Time(0), LakeForm.TEXT, -(838 * 3600 + 59 * 60 + 59) * 1_000_000, "-838:59:59"),
        (Time(6), LakeForm.TEXT, (9 * 3600 + 5 * 60 + 7) * 1_000_000 + 20, "09:05:07.00002"),
        (Time(6), LakeForm.TEXT, -500_000, "-00:00:00.5"),
        (Geometry(), LakeForm.WKB, b"\xe6\x10\0\0\x01abc", {"srid": 4326, "wkb": b"\x01abc"}),
        (Geometry(), LakeForm.WKB, b"\xff\xff\xff\xff\x01", {"srid": 2**32 - 1, "wkb": b"\x01"}),
        (Geometry(), LakeForm.WKB, b"\0\0\0\0", {"srid": 0, "wkb": b""}),
        (Geometry(), LakeForm.WKB, b"", {"srid": None, "wkb": b""}),
    ],
)
def test_a_value_in_its_form(kind: ColumnType, form: LakeForm, value: Any, wanted: Any) -> None:
    assert formed(kind, form, value) == [wanted]
    assert formed(kind, form, None, value, None, value) == [None, wanted, None, wanted]
    assert formed(kind, form) == []
    assert formed(kind, form, None) == [None]


@pytest.mark.parametrize(
    ("kind", "form", "value", "why"),
    [
        (UNSIGNED, LakeForm.LONG, Decimal(2**63), "is greater than 9223372036854775807"),
        (UNSIGNED, LakeForm.LONG, Decimal(2**64 - 1), "is greater than 9223372036854775807"),
        (TINY, LakeForm.BOOLEAN, 2, "is neither 0 nor 1"),
        (TINY, LakeForm.BOOLEAN, -1, "is neither 0 nor 1"),
        (Integer(1, unsigned=True), LakeForm.BOOLEAN, 255, "is neither 0 nor 1"),
    ],
)
def test_a_value_that_a_form_lacks_is_refused_by_name(
    kind: ColumnType, form: LakeForm, value: Any, why: str
) -> None:
    with pytest.raises(ValueRefused, match=f"column 'v' of shop.orders {why}") as refused:
        formed(kind, form, None, 1, value, 1)
    assert refused.value.segment == 7
    assert f'type = "{form}"' in str(refused.value)
    assert str(value) not in str(refused.value).replace("9223372036854775807", "").replace("0 nor 1", "")


_KEYS = [
    (UNSIGNED, LakeForm.LONG, st.integers(0, 2**63 - 1).map(Decimal)),
    (UNSIGNED, None, st.integers(0, 2**64 - 1).map(Decimal)),
    (TINY, LakeForm.BOOLEAN, st.integers(0, 1)),
    (FixedBinary(16), LakeForm.UUID, st.binary(min_size=16, max_size=16)),
    (FixedBinary(16), LakeForm.SWAPPED_UUID, st.binary(min_size=16, max_size=16)),
    (Time(6), LakeForm.TEXT, st.integers(-3_020_399_999_999, 3_020_399_999_999)),
]


@given(st.sampled_from(_KEYS), st.data())
def test_keys_come_back_as_they_were(kind: Any, data: st.DataObject) -> None:
    type_, form, values = kind
    schema, given_values = table(type_, form), data.draw(st.lists(st.none() | values))
    array = pa.array(given_values, arrow_type(type_))
    rows = pa.RecordBatch.from_arrays([pa.nulls(len(array), pa.int8()), array], schema=schema.unformed.arrow)
    in_lake = form_rows(rows, schema, 1).column(1)
    assert in_lake.type == lake_arrow_type(type_, form)
    assert usual_values(in_lake, schema.columns[1]).equals(array)
    there = {value for value in given_values if value is not None}
    assert len(set(in_lake.drop_null().to_pylist())) == len(there)


def test_a_geometry_is_in_no_key() -> None:
    with pytest.raises(Definite, match="'v' can't be in a key"):
        usual_values(pa.array([]), table(Geometry(), LakeForm.WKB).columns[1])


@pytest.mark.parametrize(
    ("kind", "form", "text", "wanted"),
    [
        (UNSIGNED, None, "7", "7"),
        (UNSIGNED, LakeForm.LONG, "7", "7"),
        (TINY, LakeForm.BOOLEAN, "1", "true"),
        (TINY, LakeForm.BOOLEAN, "0", "false"),
        (Time(0), LakeForm.TEXT, "86399000000", "23:59:59"),
    ],
)
def test_a_constant_in_its_form(kind: ColumnType, form: LakeForm | None, text: str, wanted: str) -> None:
    schema = table(kind, form)
    assert form_constant(text, schema.columns[1], schema, 7) == wanted


def test_a_constant_that_a_form_lacks_is_refused() -> None:
    schema = table(TINY, LakeForm.BOOLEAN)
    with pytest.raises(ValueRefused, match="is neither 0 nor 1"):
        form_constant("5", schema.columns[1], schema, 7)
