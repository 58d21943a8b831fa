"""The type codes of the protocol and the log, and how wide a stored value is.

Source: enum_field_types in include/field_types.h and `calc_field_size` in libbinlogevents of MySQL 9.7.
"""

from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from typing import Final

from pipeline.errors import UndecodableError
from pipeline.types import packed_decimal


@dataclass(frozen=True, slots=True)
class Storage:
    """How a column's values are stored in a row image, which its type alone doesn't say.

    `code`: the column's type byte in the event (enum_field_types), 254 (STRING) where it is CHAR, BINARY, ENUM or SET.
    `meta`: the type's metadata as `Field::do_save_field_metadata` writes it. It is zero for a type that has none, and
    one byte for a type that has one. Otherwise it is two: the first byte in the low half, the second in the high half.
    """

    code: int
    meta: int


class FieldType(IntEnum):
    """enum_field_types; the first ones, and those without a 2, are how columns made before MySQL 5.6 are kept."""

    TINY = 1
    SHORT = 2
    LONG = 3
    FLOAT = 4
    DOUBLE = 5
    TIMESTAMP = 7
    LONGLONG = 8
    INT24 = 9
    DATE = 10
    TIME = 11
    DATETIME = 12
    YEAR = 13
    VARCHAR = 15
    BIT = 16
    TIMESTAMP2 = 17
    DATETIME2 = 18
    TIME2 = 19
    VECTOR = 242
    JSON = 245
    NEWDECIMAL = 246
    ENUM = 247
    SET = 248
    TINY_BLOB = 249
    MEDIUM_BLOB = 250
    LONG_BLOB = 251
    BLOB = 252
    VAR_STRING = 253
    STRING = 254
    GEOMETRY = 255


# The integers, by their bytes.
INTEGERS: Final = {
    1: FieldType.TINY,
    2: FieldType.SHORT,
    3: FieldType.INT24,
    4: FieldType.LONG,
    8: FieldType.LONGLONG,
}

BLOBS: Final = frozenset({FieldType.TINY_BLOB, FieldType.BLOB, FieldType.MEDIUM_BLOB, FieldType.LONG_BLOB})

_WIDTHS: Final = {
    **{code: size for size, code in INTEGERS.items()},
    FieldType.FLOAT: 4,
    FieldType.DOUBLE: 8,
    FieldType.YEAR: 1,
    FieldType.DATE: 3,
    FieldType.TIME: 3,
    FieldType.DATETIME: 8,
    FieldType.TIMESTAMP: 4,
}

# Without their fractions.
_TEMPORAL_WIDTHS: Final = {FieldType.TIME2: 3, FieldType.TIMESTAMP2: 4, FieldType.DATETIME2: 5}

# An ENUM and a SET in as many bytes as their labels need.
_LABELLED_WIDTHS: Final = frozenset(
    {*((FieldType.ENUM, size) for size in (1, 2)), *((FieldType.SET, size) for size in (1, 2, 3, 4, 8))}
)

_MOST_BITS: Final = 64
_MOST_DIGITS: Final = 65
_LARGEST_SCALE: Final = 30

# Their metadata is the number of bytes that a value's length has.
_STORED_AS_BLOBS: Final = BLOBS | {FieldType.JSON, FieldType.GEOMETRY, FieldType.VECTOR}


def low_byte(storage: Storage) -> int:
    """The first byte of the metadata: the precision of a decimal, the bits beyond whole bytes of a BIT."""
    return storage.meta & 0xFF


def high_byte(storage: Storage) -> int:
    """The second byte of the metadata: the scale of a decimal, the whole bytes of a BIT."""
    return storage.meta >> 8


def string_type(storage: Storage) -> tuple[int, int]:
    """Returns the real type (ENUM, SET or STRING) of the code STRING, and its length in bytes.

    Lengths over 255 put their two upper bits, inverted, into the type's byte (Field_string::do_save_field_metadata).
    """
    real, length = low_byte(storage), high_byte(storage)
    if real & 0x30 != 0x30:
        return real | 0x30, length | ((real & 0x30) ^ 0x30) << 4
    return real, length


def real_type(storage: Storage) -> int:
    """Returns the type's code, with ENUM and SET separated from the STRING that the log has for them."""
    return string_type(storage)[0] if storage.code == FieldType.STRING else storage.code


@cache
def stored_width(storage: Storage) -> int:
    """Returns how many bytes a value takes in a row image; -n if it has its length in n bytes before it."""
    match storage.code:
        case FieldType.NEWDECIMAL if _is_decimal(low_byte(storage), high_byte(storage)):
            return sum(size for size, _ in packed_decimal.groups(low_byte(storage), high_byte(storage)))
        case FieldType.BIT if 1 <= _bits(storage) <= _MOST_BITS and low_byte(storage) < 8:
            return high_byte(storage) + (low_byte(storage) > 0)
        case FieldType.VARCHAR | FieldType.VAR_STRING:
            return -1 if storage.meta <= 255 else -2
        case FieldType.STRING if string_type(storage) in _LABELLED_WIDTHS:
            return string_type(storage)[1]
        case FieldType.STRING if string_type(storage)[0] not in (FieldType.ENUM, FieldType.SET):
            return -1 if string_type(storage)[1] <= 255 else -2
        case code if code in _STORED_AS_BLOBS and 1 <= storage.meta <= 4:
            return -storage.meta
        case code if code in _TEMPORAL_WIDTHS and storage.meta <= 6:
            return _TEMPORAL_WIDTHS[FieldType(code)] + (storage.meta + 1) // 2
        case code if code in _WIDTHS:
            return _WIDTHS[FieldType(code)]
        case _:
            raise UndecodableError(
                f"type code {storage.code} with metadata {storage.meta} isn't one that Tidemark can read;"
                " leave the table out of the capture"
            )


def _is_decimal(precision: int, scale: int) -> bool:
    return 1 <= precision <= _MOST_DIGITS and scale <= min(precision, _LARGEST_SCALE)


def _bits(storage: Storage) -> int:
    return 8 * high_byte(storage) + low_byte(storage)
