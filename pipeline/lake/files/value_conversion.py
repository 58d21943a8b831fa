"""Values in the forms that rules give them in the lake (`pipeline.types.lake_forms`), and back.

Values stay Arrow columns. NULL stays NULL in each form. A value that a form can't have is refused: it isn't rounded,
cut or made null.
"""

import re
from typing import Final, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.errors import Definite
from pipeline.schema.table_schema import Column, TableSchema
from pipeline.types.column_types import Geometry, arrow_type
from pipeline.types.lake_forms import LakeForm, lake_arrow_type, time_texts


class ValueRefused(Definite):
    """A value that came with a segment can't be in the lake in the form that a rule gives its column."""

    def __init__(self, segment: int, reason: str) -> None:
        super().__init__(reason)
        self.segment = segment


_REFUSED: Final = {
    LakeForm.LONG: "is greater than 9223372036854775807",
    LakeForm.BOOLEAN: "is neither 0 nor 1",
}
_REASON: Final = (
    'a value of column {column!r} of {table} {why}, and lake.types has type = "{form}" for it; give it another rule, '
    "and the table begins again at the next start; or correct the value at the source, and recapture the table"
)

# How the two halves of a UUID's first 8 bytes are exchanged: where each byte of the text comes from.
_SWAPPED: Final = [4, 5, 6, 7, 2, 3, 0, 1, *range(8, 16)]
_DIGITS: Final = np.frombuffer(b"0123456789abcdef", np.uint8)
_DASHES: Final = (8, 13, 18, 23)
_TEXT_BYTES: Final = 36
_SRID_BYTES: Final = 4
_TIME: Final = re.compile(r"(-?)(\d+):(\d\d):(\d\d)(?:\.(\d{1,6}))?")


def form_rows(rows: pa.RecordBatch, schema: TableSchema, segment: int) -> pa.RecordBatch:
    """Returns rows of the journal with the forms that a schema's columns have in the lake. Raises ValueRefused."""
    for column in schema.columns:
        if column.form is not None:
            place = rows.schema.get_field_index(column.name)
            values = _formed(rows.column(place), column, schema, segment)
            rows = rows.set_column(place, pa.field(column.name, values.type), values)
    return rows


def form_constant(value: str, column: Column, schema: TableSchema, segment: int) -> str:
    """Returns the text of a constant, whose cast is the constant in the column's form. Raises ValueRefused."""
    if column.form is None:
        return value
    values = pa.array([value]).cast(arrow_type(column.type))
    return str(_formed(values, column, schema, segment).cast(pa.string())[0])


def usual_values(values: pa.Array, column: Column) -> pa.Array:
    """Returns few values of a key's column of the lake as the journal has them."""
    kind = arrow_type(column.type)
    match column.form:
        case None | LakeForm.LONG | LakeForm.BOOLEAN:
            return values.cast(kind)
        case LakeForm.TEXT:
            return pa.array(map(_microseconds, values.to_pylist()), kind)
        case LakeForm.UUID:
            return pa.array(_uuid_bytes(values), kind)
        case LakeForm.SWAPPED_UUID:
            order = np.argsort(_SWAPPED).tolist()
            return pa.array([v and bytes(v[i] for i in order) for v in _uuid_bytes(values)], kind)
        case LakeForm.WKB:
            raise Definite(f"the spatial column {column.name!r} can't be in a key")
        case _:
            assert_never(column.form)


def _formed(values: pa.Array, column: Column, schema: TableSchema, segment: int) -> pa.Array:
    form = column.form
    assert form is not None
    if not _can_have(values, form):
        why = _REFUSED[form]
        reason = _REASON.format(column=column.name, table=schema.table, why=why, form=form)
        raise ValueRefused(segment, reason)
    match form:
        case LakeForm.LONG | LakeForm.BOOLEAN:
            return values.cast(lake_arrow_type(column.type, form))
        case LakeForm.TEXT:
            return time_texts(values)
        case LakeForm.UUID:
            return _uuid_texts(values, list(range(16)))
        case LakeForm.SWAPPED_UUID:
            return _uuid_texts(values, _SWAPPED)
        case LakeForm.WKB:
            return _split_geometry(values)
        case _:
            assert_never(form)


def _can_have(values: pa.Array, form: LakeForm) -> bool:
    match form:
        case LakeForm.LONG:
            greatest = pc.max(values)
            return not greatest.is_valid or int(greatest.as_py()) < 1 << 63
        case LakeForm.BOOLEAN:
            bounds = pc.min_max(values).as_py()
            return bounds["min"] is None or (bounds["min"] >= 0 and bounds["max"] <= 1)
        case _:
            return True


def _uuid_texts(values: pa.Array, order: list[int]) -> pa.Array:
    """Returns the texts of UUIDs, the bytes of which come in this order."""
    there = values.drop_null().cast(pa.binary(16))
    count = len(there)
    found = np.frombuffer(there.buffers()[1] or b"", np.uint8)[16 * there.offset :][: 16 * count]
    found = found.reshape(count, 16)[:, order]
    text = np.full((count, _TEXT_BYTES), ord("-"), np.uint8)
    digits = [place for place in range(_TEXT_BYTES) if place not in _DASHES]
    text[:, digits[::2]] = _DIGITS[found >> 4]
    text[:, digits[1::2]] = _DIGITS[found & 15]
    buffer = pa.py_buffer(text.tobytes())
    texts = (
        pa.Array.from_buffers(pa.binary(_TEXT_BYTES), count, [None, buffer])
        .cast(pa.binary())
        .cast(pa.string())
    )
    if not values.null_count:
        return texts
    exists = np.asarray(values.is_valid())
    return texts.take(pa.array(np.cumsum(exists) - 1, mask=~exists))


def _split_geometry(values: pa.Array) -> pa.Array:
    """MySQL has the SRID before the WKB, in four bytes whose first is the least significant one.

    A geometry of zero bytes has neither. Its SRID is NULL.
    """
    has_srid = pc.greater_equal(pc.binary_length(values), _SRID_BYTES).fill_null(False)
    none = b"\0" * _SRID_BYTES
    head = pc.if_else(has_srid, pc.binary_slice(values, 0, _SRID_BYTES), none).cast(pa.binary(_SRID_BYTES))
    srid = np.frombuffer(head.buffers()[1] or b"", "<u4")[head.offset :][: len(head)].astype(np.int64)
    wkb = pc.if_else(has_srid, pc.binary_slice(values, _SRID_BYTES, 2**31 - 1), values)
    type_ = lake_arrow_type(Geometry(), LakeForm.WKB)
    return pa.StructArray.from_arrays(
        [pa.array(srid, mask=~np.asarray(has_srid)), wkb], fields=list(type_), mask=values.is_null()
    )


def _uuid_bytes(values: pa.Array) -> list[bytes | None]:
    return [text and bytes.fromhex(text.replace("-", "")) for text in values.to_pylist()]


def _microseconds(text: str | None) -> int | None:
    if text is None:
        return None
    parts = _TIME.fullmatch(text)
    assert parts is not None
    sign, hours, minutes, seconds, fraction = parts.groups()
    whole = (int(hours) * 60 + int(minutes)) * 60 + int(seconds)
    size = whole * 1_000_000 + int((fraction or "").ljust(6, "0"))
    return -size if sign else size
