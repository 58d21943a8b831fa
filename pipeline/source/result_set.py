"""Result sets into Arrow: the raw packets of a SELECT's rows become columns in their canonical form.

Rows come in the binary protocol, in which numbers and dates aren't text. So a FLOAT is exact, and the server needs half
the time. Of the eleven columns that the benchmarks read, it sends 1.45 million rows a second instead of 0.8. The
packets lie end to end in one buffer (`RowPackets`), as they came from the socket. Each time that it's full, one
compiled pass finds where every value lies (`Rows.cells`), and one pass makes each column from its cells (`decode`). No
row and no value becomes a Python object, except the one key that a chunk ends with (`key`).

The connection's time zone has to be UTC, and character_set_results NULL: then text comes as its column's own bytes, as
it does in the log.

**A reader holds** one buffer of 4 MiB, or of less than twice the largest row.

Source: MySQL 9.7 source documentation, "Binary Protocol Resultset".
"""

import struct
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.errors import Definite, InvariantBroken, Transient
from pipeline.schema.row_keys import Key, KeyPart
from pipeline.schema.table_schema import TableSchema
from pipeline.source import result_set_kernels as kernels
from pipeline.source.result_columns import WIDTHS, ResultColumn, charset_of
from pipeline.types import arrow_arrays, value_kernels
from pipeline.types import column_types as t
from pipeline.types.arrow_arrays import fixed_width_array
from pipeline.types.buffers import NULL, SLACK, Bytes, Cells, CellTable, Flags, Longs
from pipeline.types.text.charsets import to_strings, to_text
from pipeline.types.text.collations import BINARY

# Cells are 32-bit places in the buffer, and Arrow's strings have 32-bit offsets.
LARGEST_ROW: Final = 2**31 - 1

_BUFFER: Final = 1 << 22  # bytes
_LEAST_ROOM: Final = 1 << 16  # bytes
_MICROSECOND_BITS: Final = 20
_FLOATS: Final = {4: "<f", 8: "<d"}

# Takes the buffer, the cells, and the array for the numbers; returns the row at fault.
_Parser = Callable[[Bytes, Cells, Longs], int]


class ResultRows(NamedTuple):
    """Whole rows as they came; `split`: there are some of several packets."""

    buffer: Bytes
    end: int
    number: int
    split: bool

    def located(self, columns: Sequence[ResultColumn]) -> "LocatedRows":
        """Where each value lies; to be called once. Raises InvariantBroken if a row isn't whole."""
        end = kernels.join(self.buffer, self.end) if self.split else self.end
        widths = np.array([WIDTHS.get(column.code, 0) for column in columns], np.int64)
        cells = np.empty((len(columns), self.number), np.int32)
        broken = kernels.locate_values(self.buffer, end, widths, cells)
        if broken != kernels.NONE:
            raise InvariantBroken(f"row {broken} of a result set doesn't have {len(columns)} whole values")
        return LocatedRows(self.buffer, end, columns, cells)


class RowPackets:
    """The row packets of one result set: fill the `room` with bytes from the socket, and take the rows if `full`.

    `sequence`: the number that the first row packet has to have. `ended`: all rows are here, and after them the `tail`,
    which is the EOF or the ERR packet.
    """

    def __init__(self, sequence: int) -> None:
        self.ended = False
        self._buffer: Bytes = np.empty(_BUFFER, np.uint8)
        self._used = 0
        self._state: Longs = np.zeros(6, np.int64)
        self._state[kernels.SEQUENCE] = sequence

    @property
    def full(self) -> bool:
        """Whether there's nothing to wait for any more before the rows are taken."""
        return self.ended or (bool(self._state[kernels.ROWS]) and self._used > _BUFFER - 2 * _LEAST_ROOM)

    def room(self) -> memoryview:
        """Where the next bytes go. Raises Definite for a row of more than 2 GiB."""
        if self._free < _LEAST_ROOM:
            if len(self._buffer) == LARGEST_ROW:
                raise Definite("the source gave a row of more than 2 GiB")
            self._move(0, min(2 * len(self._buffer), LARGEST_ROW))
        return self._buffer[self._used : -SLACK].data

    def filled(self, size: int) -> None:
        """So many bytes were written to the room. Raises Transient if they aren't what follows."""
        self._used += size
        found = kernels.frame(self._buffer, self._used, self._state)
        if found == kernels.LOST:
            raise Transient("the connection to the source delivered a packet out of sequence")
        self.ended = found != kernels.MORE

    def take(self) -> ResultRows | None:
        """The whole rows that are here, if there are any."""
        state = self._state
        end, number = int(state[kernels.RESULT_WHOLE]), int(state[kernels.ROWS])
        if not number:
            return None
        taken = ResultRows(self._buffer, end, number, split=bool(state[kernels.CONTINUED]))
        self._move(end, max(_BUFFER, self._used - end + 2 * _LEAST_ROOM))
        state[kernels.AT] -= end
        state[[kernels.RESULT_WHOLE, kernels.ROWS, kernels.CONTINUED]] = 0
        return taken

    @property
    def tail(self) -> bytes:
        """The packet after the last row."""
        return self._buffer[self._state[kernels.AT] + 4 : self._used].tobytes()

    @property
    def _free(self) -> int:
        return len(self._buffer) - SLACK - self._used

    def _move(self, begin: int, size: int) -> None:
        """Continues with the bytes from `begin` on, in a new buffer."""
        rest = self._buffer[begin : self._used]
        self._buffer = np.empty(size, np.uint8)
        self._buffer[: len(rest)] = rest
        self._used = len(rest)


class LocatedRows(NamedTuple):
    """All values of some rows, which have `size` bytes; `cells` is [columns, rows]."""

    buffer: Bytes
    size: int
    columns: Sequence[ResultColumn]
    cells: CellTable

    def first(self, number: int) -> "LocatedRows":
        """The same rows with only their first columns."""
        return self._replace(columns=self.columns[:number], cells=self.cells[:number])

    def lacks(self, row: int) -> bool:
        """Whether any value of the row is NULL."""
        return bool((self.cells[:, row] == NULL).any())

    def value(self, column: int, row: int) -> bytes:
        """The bytes of one value that isn't NULL."""
        at, width = int(self.cells[column, row]), WIDTHS.get(self.columns[column].code)
        assert at >= 0
        begin, length = (at, width) if width else kernels.length_encoded(self.buffer, at)
        return self.buffer[begin : begin + length].tobytes()


def decode_rows(schema: TableSchema, located: LocatedRows) -> pa.RecordBatch:
    """The rows in `schema.arrow`; the columns are all the table's, in the table's order.

    Raises TextError if there's text that isn't of its column's character set. Raises Definite if a value isn't one that
    the server sends for its column's type.
    """
    columns = [
        _array(column.type, _Column(f"{schema.table}.{column.name}", located.buffer, cells, told))
        for column, cells, told in zip(schema.columns, located.cells, located.columns, strict=True)
    ]
    return pa.record_batch(columns, schema=schema.arrow)


def impossible_dates(rows: pa.RecordBatch, located: LocatedRows) -> int:
    """How many dates of the decoded rows are null because no calendar has them."""
    told = int(np.count_nonzero(located.cells[: rows.num_columns] == NULL))
    return sum(int(column.null_count) for column in rows.columns) - told


def row_key(located: LocatedRows, row: int, places: Sequence[tuple[t.ColumnType, int]]) -> Key:
    """The row's key, as it's bound to the next statement; `places`: what type each part is of, and its column."""
    return tuple(_key_part(kind, located, column, row) for kind, column in places)


def _key_part(kind: t.ColumnType, located: LocatedRows, column: int, row: int) -> KeyPart:
    match kind:
        case t.Integer(_, unsigned):
            return int.from_bytes(located.value(column, row), "little", signed=not unsigned)
        case t.Year():
            return int.from_bytes(located.value(column, row), "little")
        case t.Bit():
            return int.from_bytes(located.value(column, row), "big")
        case t.Float() | t.Double():
            value = located.value(column, row)
            number: float = struct.unpack(_FLOATS[len(value)], value)[0]
            return number
        case t.Text(name):
            return to_text(located.value(column, row), name)
        case t.Date():
            return _date_text(located.value(column, row))
        case t.DateTime(digits) | t.Timestamp(digits):
            value = located.value(column, row)
            return f"{_date_text(value[:4])} {_time_text(value[4:], digits)}"
        case t.Time(digits):
            value = located.value(column, row)
            negative, days = value[:1] == b"\x01", int.from_bytes(value[1:5], "little")
            return f"{'-' if negative else ''}{_time_text(value[5:], digits, 24 * days)}"
        case t.Decimal():
            return located.value(column, row).decode("ascii")
        case _:
            return located.value(column, row)


def _date_text(value: bytes) -> str:
    year, month, day = struct.unpack("<HBB", value.ljust(4, b"\0"))
    return f"{year:04}-{month:02}-{day:02}"


def _time_text(value: bytes, digits: int, hours: int = 0) -> str:
    hour, minute, second, fraction = struct.unpack("<BBBI", value.ljust(7, b"\0"))
    whole = f"{hours + hour:02}:{minute:02}:{second:02}"
    return f"{whole}.{fraction:06}"[: len(whole) + 1 + digits] if digits else whole


class _Column(NamedTuple):
    """The cells of one column, what the result says of it, and its name for messages."""

    name: str
    buffer: Bytes
    cells: Cells
    told: ResultColumn

    def exists(self) -> Flags:
        """Which values aren't NULL."""
        return np.greater_equal(self.cells, 0)

    def numbers(self, *, signed: bool = False) -> Longs:
        """The values of a column of fixed width as integers; zero for NULL."""
        out = np.empty(len(self.cells), np.int64)
        value_kernels.little_endian(self.buffer, self.cells, WIDTHS[self.told.code], signed, out)
        return out

    def parsed(self, parser: _Parser) -> Longs:
        """Returns the parser's numbers. Raises Definite for text of another form."""
        out = np.empty(len(self.cells), np.int64)
        self.refuse(parser(self.buffer, self.cells, out))
        return out

    def laid_out(self) -> tuple[Longs, Bytes]:
        """The values' own bytes end to end: where each begins (one entry more than there are values), and all."""
        offsets = np.empty(len(self.cells) + 1, np.int64)
        kernels.extents(self.buffer, self.cells, offsets)
        data = np.empty(int(offsets[-1]), np.uint8)
        kernels.copy_values(self.buffer, self.cells, offsets, data)
        return offsets, data

    def binary(self) -> pa.Array:
        """The values' own bytes."""
        return arrow_arrays.varying_width_array(pa.binary(), *self.laid_out(), self.exists())

    def text(self, charset: str) -> pa.Array:
        """The values as strings. Raises TextError if they aren't of the character set."""
        return to_strings(self.binary(), charset, self.name)

    def refuse(self, row: int) -> None:
        """Raises Definite if a row has an impossible value. The message doesn't have its bytes, which are a row's."""
        if row != kernels.NONE:
            raise Definite(
                f"the source gave a value of {self.name} that isn't of the column's type; correct the row"
            )


def _array(kind: t.ColumnType, column: _Column) -> pa.Array:
    match kind:
        case t.Integer(size, unsigned):
            return _wide(column) if unsigned and size == 8 else _integers(kind, column, signed=not unsigned)
        case t.Year():
            return _integers(kind, column, signed=False)
        case t.Decimal(precision, scale):
            if precision > t.DECIMAL128_DIGITS:
                return pc.replace_substring_regex(column.text("ascii"), "^0+([0-9])", r"\1")  # ZEROFILL's
            words = np.empty((len(column.cells), 2), np.uint64)
            column.refuse(kernels.parse_decimals(column.buffer, column.cells, scale, words))
            return fixed_width_array(pa.decimal128(precision, scale), words, column.exists())
        case t.Float():
            return fixed_width_array(
                pa.float32(), column.numbers().astype(np.uint32).view(np.float32), column.exists()
            )
        case t.Double():
            return fixed_width_array(pa.float64(), column.numbers().view(np.float64), column.exists())
        case t.Bit(1):
            return pc.equal(column.binary(), pa.scalar(b"\x01", pa.binary()))
        case t.Date():
            return _dates(column)
        case t.Time():
            return fixed_width_array(pa.int64(), column.parsed(kernels.times), column.exists())
        case t.DateTime() | t.Timestamp():
            return _datetimes(kind, column)
        case t.Text(charset):
            return column.text(charset)
        case t.Enum() | t.Set():
            charset = charset_of(column.told)
            return column.text("utf8mb4" if charset == BINARY else charset)  # see pipeline.types.enum_labels
        case t.Json():
            return column.text("utf8mb4")
        case t.Bit() | t.FixedBinary() | t.Binary() | t.Geometry():
            return column.binary()
        case t.Vector():
            return arrow_arrays.vector_array(*column.laid_out(), column.exists())
        case _:
            assert_never(kind)


def _integers(kind: t.ColumnType, column: _Column, *, signed: bool) -> pa.Array:
    target = t.arrow_type(kind)
    return fixed_width_array(
        target, column.numbers(signed=signed).astype(target.to_pandas_dtype()), column.exists()
    )


def _wide(column: _Column) -> pa.Array:
    """BIGINT UNSIGNED as decimal128."""
    words = np.zeros((len(column.cells), 2), np.int64)
    words[:, 0] = column.numbers()
    return fixed_width_array(pa.decimal128(20, 0), words, column.exists())


def _dates(column: _Column) -> pa.Array:
    packed, exists = column.parsed(kernels.packed_dates), column.exists()
    days = np.empty(len(packed), np.int64)
    column.refuse(value_kernels.dates(packed, exists, days))
    return fixed_width_array(pa.date32(), days.astype(np.int32), exists)


def _datetimes(kind: t.ColumnType, column: _Column) -> pa.Array:
    packed, exists = column.parsed(kernels.packed_datetimes), column.exists()
    microseconds = np.empty(len(packed), np.int64)
    column.refuse(value_kernels.datetimes(packed, _MICROSECOND_BITS, 1, exists, microseconds))
    return fixed_width_array(t.arrow_type(kind), microseconds, exists)
