"""One column's stored values into one Arrow array, of the canonical type that `rows_type` says.

What can't be a value of the column's type is an UndecodableError.

Source: MySQL 9.7 source, sql/field.cc (how each field is packed).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Final, assert_never

import numpy as np
import pyarrow as pa

from pipeline.binlog.rows import temporal
from pipeline.binlog.rows.json import document as json
from pipeline.binlog.rows.stored_values import (
    StoredColumn,
    decode_little_endian,
    decode_varying,
    join_stored_values,
)
from pipeline.errors import InvariantBroken, UndecodableError
from pipeline.types import arrow_arrays, packed_decimal, value_kernels
from pipeline.types import column_types as t
from pipeline.types.arrow_arrays import fixed_width_array
from pipeline.types.field_types import (
    BLOBS,
    INTEGERS,
    FieldType,
    Storage,
    high_byte,
    low_byte,
    real_type,
    stored_width,
    string_type,
)
from pipeline.types.text.charsets import to_strings


def rows_type(column: t.LogType) -> pa.DataType:
    """The Arrow type of a column in `TableImages.rows`: canonical, but an ENUM's index, a SET's bits, and raw types."""
    match column:
        case t.RawInteger(size):
            return t.arrow_type(t.Integer(size, unsigned=False))
        case t.RawChar() | t.RawString():
            return pa.binary()
        case t.Enum():
            return pa.int32()
        case t.Set():
            return pa.int64()
        case _:
            return t.arrow_type(column)


@dataclass(frozen=True, slots=True, eq=False)
class ColumnKind:
    """A type and a way to store it, of which there is one object: columns of one kind can be decoded together."""

    type: t.LogType
    storage: Storage


@cache
def column_kind(column: t.LogType, storage: Storage) -> ColumnKind:
    """Returns the kind.

    Raises UndecodableError for a way to store that Tidemark doesn't know, InvariantBroken if it's not the type's.
    """
    width = stored_width(storage)
    fits = real_type(storage) in _codes(column)
    match column:
        case t.Integer(size, _) | t.RawInteger(size):
            fits = fits and width == size
        case t.Decimal(precision, scale):
            fits = fits and storage.meta == precision | scale << 8
        case t.Bit(bits):
            fits = fits and high_byte(storage) * 8 + low_byte(storage) == bits
        case t.FixedBinary(size) | t.RawChar(size):
            fits = fits and string_type(storage)[1] == size
        case t.Time(digits) | t.DateTime(digits) | t.Timestamp(digits):
            fits = fits and storage.meta == digits
        case _:
            pass
    if not fits:
        raise InvariantBroken(f"a column of type {column} can't be stored as {storage}")
    return ColumnKind(column, storage)


_LONG_DIGITS: Final = 18  # of a DECIMAL that 64 bits hold

_STRINGS: Final = frozenset({FieldType.STRING, FieldType.VARCHAR, FieldType.VAR_STRING})


def _codes(column: t.LogType) -> frozenset[FieldType]:
    match column:
        case t.Integer() | t.RawInteger():
            return frozenset(INTEGERS.values())
        case t.Decimal():
            return frozenset({FieldType.NEWDECIMAL})
        case t.Float():
            return frozenset({FieldType.FLOAT})
        case t.Double():
            return frozenset({FieldType.DOUBLE})
        case t.Bit():
            return frozenset({FieldType.BIT})
        case t.Year():
            return frozenset({FieldType.YEAR})
        case t.Date():
            return frozenset({FieldType.DATE})
        case t.Time():
            return frozenset({FieldType.TIME, FieldType.TIME2})
        case t.DateTime():
            return frozenset({FieldType.DATETIME, FieldType.DATETIME2})
        case t.Timestamp():
            return frozenset({FieldType.TIMESTAMP, FieldType.TIMESTAMP2})
        case t.Text():
            return _STRINGS | BLOBS
        case t.FixedBinary() | t.RawChar():
            return frozenset({FieldType.STRING})
        case t.Binary() | t.RawString():
            return _STRINGS - {FieldType.STRING} | BLOBS
        case t.Enum():
            return frozenset({FieldType.ENUM})
        case t.Set():
            return frozenset({FieldType.SET})
        case t.Json():
            return frozenset({FieldType.JSON})
        case t.Geometry():
            return frozenset({FieldType.GEOMETRY})
        case t.Vector():
            return frozenset({FieldType.VECTOR})
        case _:
            assert_never(column)


def decode_column(kind: ColumnKind, stored: StoredColumn) -> pa.Array:
    """The values as an array of `rows_type(kind.type)`."""
    column, storage = kind.type, kind.storage
    match column:
        case t.Integer(size, unsigned):
            return _integers(size, unsigned, stored)
        case t.RawInteger(size):
            return _integers(size, unsigned=False, stored=stored)
        case t.Decimal(precision, scale):
            return _decimals(precision, scale, storage, stored)
        case t.Float():
            values = decode_little_endian(4, stored).astype(np.uint32).view(np.float32)
            return fixed_width_array(pa.float32(), values, stored.exists)
        case t.Double():
            return fixed_width_array(
                pa.float64(), decode_little_endian(8, stored).view(np.float64), stored.exists
            )
        case t.Bit(width):
            return _bits(width, storage, stored)
        case t.Year():
            years = decode_little_endian(1, stored)
            return fixed_width_array(
                pa.int16(), np.where(years > 0, years + 1900, 0).astype(np.int16), stored.exists
            )
        case t.Date():
            return temporal.decode_dates(stored)
        case t.Time():
            return temporal.decode_times(storage, stored)
        case t.DateTime():
            return temporal.decode_datetimes(storage, stored)
        case t.Timestamp():
            return temporal.timestamps(storage, stored)
        case t.Text(charset):
            return to_strings(decode_varying(storage, stored), charset, stored.name)
        case t.FixedBinary(width):
            return decode_varying(storage, stored, width)
        case t.Binary() | t.Geometry() | t.RawChar() | t.RawString():
            return decode_varying(storage, stored)
        case t.Enum():
            indices = decode_little_endian(stored_width(storage), stored).astype(np.int32)
            return fixed_width_array(pa.int32(), indices, stored.exists)
        case t.Set():
            return fixed_width_array(
                pa.int64(), decode_little_endian(stored_width(storage), stored), stored.exists
            )
        case t.Json():
            return json.decode_documents(-stored_width(storage), stored)
        case t.Vector():
            return _vectors(storage, stored)
        case _:
            assert_never(column)


def _integers(size: int, unsigned: bool, stored: StoredColumn) -> pa.Array:
    values = decode_little_endian(size, stored, signed=not unsigned)
    kind = t.arrow_type(t.Integer(size, unsigned))
    if pa.types.is_decimal(kind):
        words = np.zeros((len(stored), 2), np.int64)
        words[:, 0] = values
        return fixed_width_array(kind, words, stored.exists)
    return fixed_width_array(kind, values.astype(kind.to_pandas_dtype()), stored.exists)


def _decimals(precision: int, scale: int, storage: Storage, stored: StoredColumn) -> pa.Array:
    if precision > t.DECIMAL128_DIGITS:
        return _texts(
            lambda value: packed_decimal.decimal_text(value, precision, scale),
            decode_varying(storage, stored),
            stored,
        )
    groups = packed_decimal.groups(precision, scale)
    sizes = np.array([size for size, _ in groups], np.int64)
    limits = np.array([10**digits for _, digits in groups], np.int64)
    words = np.empty((len(stored), 2), np.uint64)
    wrong = value_kernels.decimals(
        stored.buffer, stored.cells, sizes, limits, precision <= _LONG_DIGITS, words
    )
    if wrong != value_kernels.NONE_WRONG:
        stored.refuse(f"DECIMAL({precision}, {scale})")
    return fixed_width_array(pa.decimal128(precision, scale), words, stored.exists)


def _bits(width: int, storage: Storage, stored: StoredColumn) -> pa.Array:
    first = decode_little_endian(1, stored)  # byte, with the odd bits
    if (first >> (width % 8 or 8)).any():
        stored.refuse(f"BIT({width})")
    if width > 1:
        return decode_varying(storage, stored)
    flags = np.packbits(first == 1, bitorder="little")
    return fixed_width_array(pa.bool_(), flags, stored.exists)


def _vectors(storage: Storage, stored: StoredColumn) -> pa.Array:
    offsets, data = join_stored_values(storage, stored)
    if (offsets % 4).any():
        stored.refuse("VECTOR")
    return arrow_arrays.vector_array(offsets, data, stored.exists)


def _texts(text: Callable[[bytes], str], packed: pa.Array, stored: StoredColumn) -> pa.Array:
    """Text made value by value, for types that Arrow has no form of."""
    values: list[str | None] = []
    for value in packed.to_pylist():
        try:
            values.append(None if value is None else text(value))
        except UndecodableError as error:
            raise UndecodableError(f"{stored.name}: {error}") from error
    return pa.array(values, pa.string())
