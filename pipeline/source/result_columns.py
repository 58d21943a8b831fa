"""The columns that a result set declares, compared with the schema from which its statement was made.

A statement can alter a table between the plan of its chunks and their SELECT. The stream has that statement, so the
coordinator will drop such a chunk. Until then this check prevents that its values are read as another type.

Source: MySQL 9.7 source documentation, "Protocol::ColumnDefinition41", enum_field_types, "Column Definition Flags",
"Binary Protocol Value".
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, assert_never

from pipeline.schema.table_schema import Column, TableSchema
from pipeline.types import column_types as t
from pipeline.types.field_types import BLOBS, INTEGERS, FieldType
from pipeline.types.text.collations import CHARSETS

_BINARY_CHARSET: Final = 63
_NOT_NULL: Final = 1
UNSIGNED: Final = 32
_ENUM: Final = 256
_SET: Final = 2048
_STRINGS: Final = BLOBS | {FieldType.STRING, FieldType.VAR_STRING, FieldType.VARCHAR}


@dataclass(frozen=True, slots=True)
class ResultColumn:
    """A column of a result: its type's code, flags, collation's number, length in bytes, and decimals."""

    code: int
    flags: int
    collation: int
    length: int
    decimals: int


# The bytes of a value in the binary protocol. A value of any other type has its own length.
WIDTHS: Final[Mapping[int, int]] = {
    FieldType.TINY: 1,
    FieldType.SHORT: 2,
    FieldType.YEAR: 2,
    FieldType.INT24: 4,
    FieldType.LONG: 4,
    FieldType.LONGLONG: 8,
    FieldType.FLOAT: 4,
    FieldType.DOUBLE: 8,
}


def charset_of(column: ResultColumn) -> str:
    """The character set that the column's text comes in."""
    return CHARSETS.get(column.collation, f"of collation {column.collation}")


def mismatch(schema: TableSchema, columns: Sequence[ResultColumn]) -> str | None:
    """Why a result with these columns isn't one of all columns of the schema's table; None if it is."""
    if len(columns) != len(schema.columns):
        return f"{schema.table} gave {len(columns)} columns where its schema has {len(schema.columns)}"
    return _mismatch(schema, zip(schema.columns, columns, strict=True))


def key_mismatch(schema: TableSchema, key: Sequence[int], columns: Sequence[ResultColumn]) -> str | None:
    """Returns why a result isn't one of these columns of the schema's table; None if it is.

    ENUM and SET come as numbers, even if they have become another type.
    """
    told = zip((schema.columns[index] for index in key), columns, strict=True)
    return _mismatch(schema, ((each, of) for each, of in told if not isinstance(each.type, t.Enum | t.Set)))


def _mismatch(schema: TableSchema, told: Iterable[tuple[Column, ResultColumn]]) -> str | None:
    for column, of in told:
        if not _fits(column.type, of) or not (column.nullable or of.flags & _NOT_NULL):
            return f"column {column.name} of {schema.table} isn't of the type that its schema says any more"
    return None


def _fits(kind: t.ColumnType, told: ResultColumn) -> bool:
    match kind:
        case t.Integer(size, unsigned):
            return told.code == INTEGERS[size] and bool(told.flags & UNSIGNED) == unsigned
        case t.Decimal(precision, scale):
            signs = (0 if told.flags & UNSIGNED else 1) + (1 if scale else 0)
            return (told.code, told.decimals, told.length - signs) == (
                FieldType.NEWDECIMAL,
                scale,
                precision,
            )
        case t.Float():
            return told.code == FieldType.FLOAT
        case t.Double():
            return told.code == FieldType.DOUBLE
        case t.Bit(width):
            return (told.code, told.length) == (FieldType.BIT, width)
        case t.Year():
            return told.code == FieldType.YEAR
        case t.Date():
            return told.code == FieldType.DATE
        case t.Time(digits):
            return (told.code, told.decimals) == (FieldType.TIME, digits)
        case t.DateTime(digits):
            return (told.code, told.decimals) == (FieldType.DATETIME, digits)
        case t.Timestamp(digits):
            return (told.code, told.decimals) == (FieldType.TIMESTAMP, digits)
        case t.Text(charset):
            return _string(told) and charset_of(told) == charset
        case t.FixedBinary(width):
            return (told.code, told.length) == (FieldType.STRING, width) and _binary(told)
        case t.Binary():
            return _string(told) and _binary(told)
        case t.Enum():
            return bool(told.flags & _ENUM)
        case t.Set():
            return bool(told.flags & _SET)
        case t.Json():
            return told.code == FieldType.JSON
        case t.Geometry():
            return told.code == FieldType.GEOMETRY
        case t.Vector():
            return told.code == FieldType.VECTOR
        case _:
            assert_never(kind)


def _string(told: ResultColumn) -> bool:
    return told.code in _STRINGS and not told.flags & (_ENUM | _SET)


def _binary(told: ResultColumn) -> bool:
    return told.collation == _BINARY_CHARSET
