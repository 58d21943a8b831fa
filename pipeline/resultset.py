"""Result sets into Arrow: the raw packets of a SELECT's rows become columns in their canonical form.

The packets are kept as they come, end to end in one buffer (`RowPackets`). When the last one is there, one compiled
walk finds where every value's text lies (`cells`), and each column is made from its cells in one go (`decode`). No row
and no value becomes a Python object, but for the one key that a chunk ends with (`key`).

The statement has to come from `pipeline.chunks`, on a connection with time zone UTC, character set utf8mb4 and an
empty sql_mode: then integers, decimals and dates are plain ASCII, all other text is UTF-8, and BIT, spatial and
VECTOR values are the bytes that the server stores.

Source: MySQL 9.7 source documentation, "Text Resultset".
"""

from collections.abc import Callable
from typing import Final, NamedTuple, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline import arrays
from pipeline import resultset_kernels as kernels
from pipeline.arrays import fixed
from pipeline.binlog import kernels as calendar
from pipeline.errors import Definite, InvariantBroken, Transient
from pipeline.keys import Key, KeyPart
from pipeline.schema import TableSchema
from pipeline.types import (
    DECIMAL128_DIGITS,
    Binary,
    Bit,
    ColumnType,
    Date,
    DateTime,
    Decimal,
    Double,
    Enum,
    FixedBinary,
    Float,
    Geometry,
    Integer,
    Json,
    Set,
    Text,
    Time,
    Timestamp,
    Vector,
    Year,
    arrow_type,
)

# Cells are 32-bit places in the buffer, and Arrow's strings have 32-bit offsets.
LARGEST_RESULT: Final = 2**31 - 1

_SMALLEST_BUFFER: Final = 1 << 16  # bytes
_MICROSECOND_BITS: Final = 20

# Takes the buffer, where the texts begin, their lengths, and the array for the numbers; returns the row at fault.
_Parser = Callable[[kernels.Bytes, kernels.Places, kernels.Places, kernels.Longs], int]


class RowPackets:
    """The row packets of one result set: `feed` what comes from the socket until `ended`.

    `sequence`: the number that the first row packet has to have. `rows`: how many are complete. When ended, `tail`
    holds what follows the last row: the EOF or the ERR packet, with its header.
    """

    def __init__(self, sequence: int) -> None:
        self.rows = 0
        self.ended = False
        self._sequence = sequence
        self._inside = 0
        self._continued = 0
        self._buffer = np.empty(_SMALLEST_BUFFER, np.uint8)
        self._used = 0
        self._framed = 0

    def feed(self, piece: bytes) -> None:
        """Take the next bytes. Raises Transient if they aren't what follows, Definite for more than 2 GiB."""
        used = self._used + len(piece)
        self._reserve(used)
        self._buffer[self._used : used] = np.frombuffer(piece, np.uint8)
        self._used = used
        found, self._framed, self._sequence, self._inside, rows, continued = kernels.frame(
            self._buffer, self._framed, used, self._sequence, self._inside
        )
        self.rows += rows
        self._continued += continued
        if found == kernels.LOST:
            raise Transient("the connection to the source delivered a packet out of sequence")
        self.ended = found != kernels.MORE

    @property
    def tail(self) -> bytes:
        """All bytes behind the last whole row."""
        return self._buffer[self._framed : self._used].tobytes()

    def cells(self, columns: int) -> "Cells":
        """Where each value of the rows lies; to be called once. Raises InvariantBroken if a row isn't whole."""
        assert self.ended
        end = int(kernels.join(self._buffer, self._framed)) if self._continued else self._framed
        starts = np.empty((columns, self.rows), np.int32)
        lengths = np.empty((columns, self.rows), np.int32)
        broken = kernels.locate(self._buffer, end, starts, lengths)
        if broken != kernels.NONE:
            raise InvariantBroken(f"row {broken} of a result set doesn't have {columns} whole values")
        return Cells(self._buffer, starts, lengths)

    def _reserve(self, used: int) -> None:
        if used > LARGEST_RESULT:
            raise Definite("one chunk has more than 2 GiB; set snapshot.chunk_rows lower")
        if used > len(self._buffer):
            larger = np.empty(max(used, 2 * len(self._buffer)), np.uint8)
            larger[: self._used] = self._buffer[: self._used]
            self._buffer = larger


class Cells(NamedTuple):
    """All values of a result set; `starts` and `lengths` are [columns, rows]."""

    buffer: kernels.Bytes
    starts: kernels.PlaceTable
    lengths: kernels.PlaceTable

    def text(self, column: int, row: int) -> bytes:
        """One value that isn't NULL."""
        start, length = int(self.starts[column, row]), int(self.lengths[column, row])
        assert length >= 0
        return self.buffer[start : start + length].tobytes()


def decode(schema: TableSchema, cells: Cells) -> pa.RecordBatch:
    """The rows in `schema.arrow`. The cells are those of all the table's columns, in the table's order.

    Raises InvariantBroken if a text isn't one that the server prints for its column's type.
    """
    columns = [
        _column(
            column.type,
            _Column(cells.buffer, cells.starts[i], cells.lengths[i], f"{schema.table}.{column.name}"),
        )
        for i, column in enumerate(schema.columns)
    ]
    return pa.record_batch(columns, schema=schema.arrow)


def impossible_dates(rows: pa.RecordBatch, cells: Cells) -> int:
    """How many dates of the decoded rows are null because no calendar has them."""
    told = int(np.count_nonzero(cells.lengths == kernels.NULL))
    return sum(int(column.null_count) for column in rows.columns) - told


def key(schema: TableSchema, cells: Cells, row: int, columns: tuple[int, ...]) -> Key:
    """The row's primary key, as it's bound to the next statement; `columns` are those of `cells` that hold it."""
    return tuple(
        _key_part(schema.columns[index].type, cells.text(column, row))
        for index, column in zip(schema.key, columns, strict=True)
    )


def _key_part(kind: ColumnType, text: bytes) -> KeyPart:
    match kind:
        case Integer() | Year():
            return int(text)
        case FixedBinary() | Binary():
            return text
        case _:
            return text.decode("utf-8")


class _Column(NamedTuple):
    """The cells of one column, and its name for messages."""

    buffer: kernels.Bytes
    starts: kernels.Places
    lengths: kernels.Places
    name: str

    def exists(self) -> kernels.Flags:
        """Which values aren't NULL."""
        out = np.empty(len(self.starts), np.bool_)
        kernels.exist(self.lengths, out)
        return out

    def parsed(self, parser: _Parser) -> kernels.Longs:
        """The parser's numbers; InvariantBroken where it finds another text than it's for."""
        out = np.empty(len(self.starts), np.int64)
        self.refuse(parser(self.buffer, self.starts, self.lengths, out))
        return out

    def refuse(self, row: int) -> None:
        """Raise InvariantBroken if there's a row with a value that can't be."""
        if row != kernels.NONE:
            start, length = int(self.starts[row]), int(self.lengths[row])
            value = self.buffer[start : start + min(length, 80)].tobytes()
            raise InvariantBroken(f"the source printed a value of {self.name} as {value!r}")


def _column(kind: ColumnType, column: _Column) -> pa.Array:
    match kind:
        case Integer(size, unsigned):
            return _decimals(column, 20, 0) if unsigned and size == 8 else _integers(kind, column)
        case Year():
            return _integers(kind, column)
        case Decimal(precision, scale):
            return (
                _decimals(column, precision, scale)
                if precision <= DECIMAL128_DIGITS
                else _texts(kind, column)
            )
        case Float() | Double():
            return pc.cast(pc.cast(_bytes(column, pa.string()), pa.float64()), arrow_type(kind), safe=False)
        case Bit(width):
            return _bools(column) if width == 1 else _texts(kind, column)
        case Date():
            return _dates(column)
        case Time():
            return fixed(pa.int64(), column.parsed(kernels.times), column.exists())
        case DateTime() | Timestamp():
            return _datetimes(kind, column)
        case Text() | Enum() | Set() | Json() | FixedBinary() | Binary() | Geometry():
            return _texts(kind, column)
        case Vector():
            return arrays.vectors(*_laid_out(column), column.exists())
        case _:
            assert_never(kind)


def _integers(kind: ColumnType, column: _Column) -> pa.Array:
    target = arrow_type(kind)
    values = column.parsed(kernels.integers).astype(target.to_pandas_dtype())
    return fixed(target, values, column.exists())


def _decimals(column: _Column, precision: int, scale: int) -> pa.Array:
    words = np.empty((len(column.starts), 2), np.uint64)
    column.refuse(kernels.decimals(column.buffer, column.starts, column.lengths, scale, words))
    return fixed(pa.decimal128(precision, scale), words, column.exists())


def _dates(column: _Column) -> pa.Array:
    packed, exists = column.parsed(kernels.packed_dates), column.exists()
    days = np.empty(len(packed), np.int64)
    column.refuse(calendar.dates(packed, exists, days))
    return fixed(pa.date32(), days.astype(np.int32), exists)


def _datetimes(kind: ColumnType, column: _Column) -> pa.Array:
    packed, exists = column.parsed(kernels.packed_datetimes), column.exists()
    microseconds = np.empty(len(packed), np.int64)
    column.refuse(calendar.datetimes(packed, _MICROSECOND_BITS, 1, exists, microseconds))
    return fixed(arrow_type(kind), microseconds, exists)


def _bools(column: _Column) -> pa.Array:
    texts = _bytes(column, pa.binary())
    return pc.equal(texts, pa.scalar(b"\x01", pa.binary()))


def _texts(kind: ColumnType, column: _Column) -> pa.Array:
    return _bytes(column, arrow_type(kind))


def _bytes(column: _Column, target: pa.DataType) -> pa.Array:
    """The values' own bytes as strings or binaries."""
    return arrays.varying(target, *_laid_out(column), column.exists())


def _laid_out(column: _Column) -> tuple[kernels.Longs, kernels.Bytes]:
    offsets = np.empty(len(column.starts) + 1, np.int64)
    kernels.extents(column.lengths, offsets)
    data = np.empty(int(offsets[-1]), np.uint8)
    kernels.copy(column.buffer, column.starts, column.lengths, offsets, data)
    return offsets, data
