"""Other forms than the usual ones in which the lake can have a column's values, by rule (`pipeline.config.lake_types`).

Each form is lossless: two values of the source are never one value in the lake. The journal doesn't have them, so Kafka
and other readers of the journal see the usual form of `pipeline.types.column_types`. Where such a reader needs the text
of a TIME, it is the same one.

A form's value is its name in stored schemas and never changes.

Source: MySQL 9.7 Reference Manual, "Miscellaneous Functions" (UUID_TO_BIN), "Spatial Data Formats" (the internal
format); RFC 9562 for the text of a UUID.
"""

from enum import StrEnum
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.types.column_types import ColumnType, FixedBinary, Geometry, Integer, Time, arrow_type


class LakeForm(StrEnum):
    """How the lake has a column, if not in the usual way."""

    LONG = "long"  # of BIGINT UNSIGNED: 64 bits with a sign; a greater value is refused
    BOOLEAN = "boolean"  # of TINYINT: 0 and 1; any other value is refused
    TEXT = "text"  # of TIME: [-]HH:MM:SS, and a fraction if there is one
    UUID = "uuid"  # of BINARY(16): 36 characters
    SWAPPED_UUID = "uuid-swapped"  # the same, of what UUID_TO_BIN(text, 1) returns
    WKB = "wkb"  # of spatial types: the SRID and the WKB


_UUID_BYTES: Final = 16

_ARROW: Final[dict[LakeForm, pa.DataType]] = {
    LakeForm.LONG: pa.int64(),
    LakeForm.BOOLEAN: pa.bool_(),
    LakeForm.TEXT: pa.string(),
    LakeForm.UUID: pa.string(),
    LakeForm.SWAPPED_UUID: pa.string(),
    LakeForm.WKB: pa.struct([("srid", pa.int64()), ("wkb", pa.binary())]),
}


def form_fits(form: LakeForm, kind: ColumnType) -> bool:
    """Returns whether columns of this type can have the form."""
    match form, kind:
        case LakeForm.LONG, Integer(8, unsigned=True):
            return True
        case LakeForm.BOOLEAN, Integer(1):
            return True
        case LakeForm.TEXT, Time():
            return True
        case LakeForm.UUID | LakeForm.SWAPPED_UUID, FixedBinary(width):
            return width == _UUID_BYTES
        case LakeForm.WKB, Geometry():
            return True
        case _:
            return False


def lake_arrow_type(kind: ColumnType, form: LakeForm | None) -> pa.DataType:
    """Returns the Arrow type of a column of this type in this form, None for the usual one."""
    return arrow_type(kind) if form is None else _ARROW[form]


def time_texts(values: pa.Array) -> pa.Array:
    """Returns the texts of TIMEs (µs), which differ if the times do; null for a null.

    A fraction has no zeros at its end. So more digits in the column's type change no text.
    """
    size = pc.abs(values)
    seconds = pc.divide(size, 1_000_000)
    fraction = pc.subtract(size, pc.multiply(seconds, 1_000_000))
    minutes = pc.divide(seconds, 60)
    hours = pc.divide(minutes, 60)
    parts = (
        hours,
        pc.subtract(minutes, pc.multiply(hours, 60)),
        pc.subtract(seconds, pc.multiply(minutes, 60)),
    )
    texts = pc.binary_join_element_wise(
        *(pc.utf8_lpad(part.cast(pa.string()), 2, "0") for part in parts), ":"
    )
    digits = pc.utf8_rtrim(pc.utf8_lpad(fraction.cast(pa.string()), 6, "0"), "0")
    sign = pc.if_else(pc.less(values, 0), "-", "")
    point = pc.if_else(pc.equal(fraction, 0), "", ".")
    return pc.binary_join_element_wise(sign, texts, point, digits, "")
