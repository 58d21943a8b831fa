"""MySQL's column types, and the one Arrow form that each value takes, whichever way it came.

The same canonical form is produced from the binlog's row images and from result sets. So a chunk's row and a change of
it are comparable byte for byte. Some forms may surprise. BIGINT UNSIGNED is decimal128(20, 0), because no signed 64-bit
integer holds it and Spark has no unsigned ones. TIME is signed microseconds because it spans ±838:59:59. Zero and
partial dates become null (and are counted).

`wire` is a type's name in stored schemas and in their digests. It never changes, and neither do the names of fields.

Source: MySQL 9.7 Reference Manual, chapter "Data Types"; for sizes, WL#2687 (row-based replication).
"""

from dataclasses import dataclass
from typing import ClassVar, assert_never

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Integer:
    """TINYINT (1 byte) to BIGINT (8 bytes)."""

    wire: ClassVar[str] = "Integer"

    bytes: int
    unsigned: bool


@dataclass(frozen=True, slots=True)
class Decimal:
    """DECIMAL(precision, scale); precision up to 65, scale up to 30."""

    wire: ClassVar[str] = "Decimal"

    precision: int
    scale: int


@dataclass(frozen=True, slots=True)
class Float:
    """FLOAT, 4 bytes."""

    wire: ClassVar[str] = "Float"


@dataclass(frozen=True, slots=True)
class Double:
    """DOUBLE, 8 bytes."""

    wire: ClassVar[str] = "Double"


@dataclass(frozen=True, slots=True)
class Bit:
    """BIT(width), 1 to 64 bits."""

    wire: ClassVar[str] = "Bit"

    width: int


@dataclass(frozen=True, slots=True)
class Year:
    """YEAR: 1901 to 2155, and 0."""

    wire: ClassVar[str] = "Year"


@dataclass(frozen=True, slots=True)
class Date:
    """DATE."""

    wire: ClassVar[str] = "Date"


@dataclass(frozen=True, slots=True)
class Time:
    """TIME(digits) with 0 to 6 fractional digits."""

    wire: ClassVar[str] = "Time"

    digits: int


@dataclass(frozen=True, slots=True)
class DateTime:
    """DATETIME(digits): a local date and time, without a zone."""

    wire: ClassVar[str] = "DateTime"

    digits: int


@dataclass(frozen=True, slots=True)
class Timestamp:
    """TIMESTAMP(digits): an instant, kept in UTC."""

    wire: ClassVar[str] = "Timestamp"

    digits: int


@dataclass(frozen=True, slots=True)
class Text:
    """CHAR, VARCHAR and the TEXTs, by the character set of the *column* (MySQL's name of it, as `utf8mb4`)."""

    wire: ClassVar[str] = "Text"

    charset: str


@dataclass(frozen=True, slots=True)
class FixedBinary:
    """BINARY(width): padded with zero bytes to its width, which the binlog strips and the server gives back."""

    wire: ClassVar[str] = "FixedBinary"

    width: int


@dataclass(frozen=True, slots=True)
class Binary:
    """VARBINARY and the BLOBs."""

    wire: ClassVar[str] = "Binary"


@dataclass(frozen=True, slots=True)
class Enum:
    """ENUM; labels is empty where the log doesn't give them (binlog_row_metadata=MINIMAL)."""

    wire: ClassVar[str] = "Enum"

    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Set:
    """SET; labels is empty where the log doesn't give them."""

    wire: ClassVar[str] = "Set"

    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Json:
    """JSON, as the text that the server prints."""

    wire: ClassVar[str] = "Json"


@dataclass(frozen=True, slots=True)
class Geometry:
    """Any spatial type: SRID (4 bytes, little-endian) followed by WKB, as MySQL stores it."""

    wire: ClassVar[str] = "Geometry"


@dataclass(frozen=True, slots=True)
class Vector:
    """VECTOR: 4-byte floats."""

    wire: ClassVar[str] = "Vector"


@dataclass(frozen=True, slots=True)
class RawInteger:
    """An integer of which it isn't known whether it's unsigned."""

    bytes: int


@dataclass(frozen=True, slots=True)
class RawChar:
    """CHAR or BINARY, of up to `width` bytes."""

    width: int


@dataclass(frozen=True, slots=True)
class RawString:
    """VARCHAR, VARBINARY, a TEXT or a BLOB."""


ColumnType = (
    Integer
    | Decimal
    | Float
    | Double
    | Bit
    | Year
    | Date
    | Time
    | DateTime
    | Timestamp
    | Text
    | FixedBinary
    | Binary
    | Enum
    | Set
    | Json
    | Geometry
    | Vector
)

# What a log without optional metadata (before MySQL 8.0.1) leaves open: signs, and which strings are text in which
# character set.
RawType = RawInteger | RawChar | RawString

# What a log says of a column's type; the type itself comes from the server's schema where it's raw.
LogType = ColumnType | RawType

# The widest decimal that Arrow's decimal128 and Spark's DecimalType hold.
DECIMAL128_DIGITS = 38

_SIGNED = {1: pa.int8(), 2: pa.int16(), 3: pa.int32(), 4: pa.int32(), 8: pa.int64()}
_UNSIGNED = {1: pa.int16(), 2: pa.int32(), 3: pa.int32(), 4: pa.int64(), 8: pa.decimal128(20, 0)}


def arrow_type(column: ColumnType) -> pa.DataType:
    """The canonical Arrow type of a column (the table of docs/types.md)."""
    match column:
        case Integer(size, unsigned):
            return (_UNSIGNED if unsigned else _SIGNED)[size]
        case Decimal(precision, scale):
            return pa.decimal128(precision, scale) if precision <= DECIMAL128_DIGITS else pa.string()
        case Float():
            return pa.float32()
        case Double():
            return pa.float64()
        case Bit(width):
            return pa.bool_() if width == 1 else pa.binary()
        case Year():
            return pa.int16()
        case Date():
            return pa.date32()
        case Time():
            return pa.int64()
        case DateTime():
            return pa.timestamp("us")
        case Timestamp():
            return pa.timestamp("us", tz="UTC")
        case Text() | Enum() | Set() | Json():
            return pa.string()
        case FixedBinary() | Binary() | Geometry():
            return pa.binary()
        case Vector():
            return pa.list_(pa.float32())
        case _:
            assert_never(column)
