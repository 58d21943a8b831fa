"""Rows of text from columns: a compiled loop writes the pieces of each row one after the other.

One loop writes a complete row, constants and values, before the next one. So nothing is written twice, an integer never
becomes a separate text, and the processor's cache has all that a row is read from.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
from numba import types, uint8

from pipeline.types.arrow_arrays import bytes_of, varying_width_array
from pipeline.types.buffers import Bytes, Ends, Flags, Int, Longs
from pipeline.types.byte_copies import copy_bytes, copy_from, load_int32, load_int64
from pipeline.types.jit import READ_BYTES, READ_ENDS, READ_LONGS, compiled, inlined

_TEXT: Final = pa.string()
# The longest text of an integer of 8 bytes: a sign and 19 digits.
_LONGEST_INTEGER: Final = 20
# Constants are copied in so many bytes at once, also beyond their end.
_AT_ONCE: Final = 16


@dataclass(frozen=True, slots=True)
class Chosen:
    """A value for each row: the one of `values` whose number the row has, and `none` for a negative number.

    Without `rows` each row has its own. Values are texts or integers; `quoted`: texts get quotes, and no escapes.
    """

    values: pa.Array | Longs
    rows: Longs | None = None
    none: bytes = b"null"
    quoted: bool = False

    def taken(self, rows: Longs) -> "Chosen":
        """Returns the values of these rows."""
        return replace(self, rows=rows if self.rows is None else self.rows[rows])

    def where(self, exists: Flags) -> "Chosen":
        """Returns the same, with `none` for a row that doesn't exist."""
        if exists.all():
            return self
        return replace(
            self, rows=np.where(exists, np.arange(len(exists)) if self.rows is None else self.rows, -1)
        )


# What a row of text is made of; a scalar, a text and bytes are the same in all rows, a tuple is its pieces.
TextPiece: TypeAlias = "pa.Array | pa.Scalar | str | bytes | Chosen | tuple[TextPiece, ...]"

_Flat: TypeAlias = pa.Array | pa.Scalar | str | bytes | Chosen


def text_array(data: Bytes, ends: Ends, exists: Flags | None = None, kind: pa.DataType = _TEXT) -> pa.Array:
    """Returns the texts that a kernel has written, text i before ends[i]; null where none exists.

    `kind`: pa.string(), or pa.binary() for bytes.
    """
    offsets = np.zeros(len(ends) + 1, np.int32)
    offsets[1:] = ends
    return varying_width_array(
        kind, offsets, data, np.ones(len(ends), np.bool_) if exists is None else exists
    )


def joined(*pieces: TextPiece, count: int, kind: pa.DataType = _TEXT) -> pa.Array:
    """Returns the texts of these pieces one after the other, in each of `count` rows; null where a piece is null."""
    flat = tuple(_flat(pieces))
    columns, after = _columns(flat)
    plan = np.zeros((len(columns) + 1, _FIELDS), np.int64)
    constants, size = _DIGITS, count * len(after) + _AT_ONCE
    for at, column in enumerate(columns):
        plan[at] = column.fields(len(constants))
        constants += column.before + column.none
        size += column.most_bytes(count)
    plan[-1, :_KIND] = len(constants), len(after)
    if size >= 2**31:
        raise pa.ArrowInvalid(f"{size} bytes of text are too many for one batch")
    out, ends = np.empty(size, np.uint8), np.empty(count, np.int32)
    laid = np.frombuffer(constants + after + bytes(_AT_ONCE), np.uint8)
    written = _lay_rows(count, plan, laid, out, ends)
    nulls = [piece for piece in flat if isinstance(piece, pa.Array) and piece.null_count]
    exists = np.logical_and.reduce([np.asarray(piece.is_valid()) for piece in nulls]) if nulls else None
    return text_array(out[:written], ends, exists, kind)


def _flat(pieces: tuple[TextPiece, ...]) -> Iterator[_Flat]:
    for piece in pieces:
        if isinstance(piece, tuple):
            yield from _flat(piece)
        else:
            yield piece


# A column as the compiled loop knows it: where its constant is and how long, its kind, addresses, and how many bytes
# after its constant stand for no value.
_FIELDS: Final = 7
_CONSTANT, _LENGTH, _KIND, _DATA, _ENDS, _ROWS, _NONE = range(_FIELDS)
_NOTHING, _PLAIN, _QUOTED, _INTEGER = range(4)


@dataclass(frozen=True, slots=True)
class _Column:
    """The text before each value, the values (texts with their ends, or integers), and the text for none."""

    before: bytes
    kind: int
    data: Bytes | Longs
    ends: Ends | None
    rows: Longs | None
    none: bytes

    def fields(self, constant: int) -> tuple[int, ...]:
        """Returns the loop's fields, with the place of the constant."""
        arrays = (self.data, self.ends, self.rows)
        return constant, len(self.before), self.kind, *(_address(each) for each in arrays), len(self.none)

    def most_bytes(self, count: int) -> int:
        """Returns how many bytes the column takes in `count` rows at most."""
        each = len(self.before) + max(len(self.none), 2)  # or two quotes
        if self.ends is None:
            return count * (each + _LONGEST_INTEGER)
        own = len(self.data) if self.rows is None else int(_size_of(self.ends, self.rows))
        return own + count * each


def _address(array: Bytes | Longs | Ends | None) -> int:
    return 0 if array is None else array.ctypes.data


def _columns(pieces: tuple[_Flat, ...]) -> tuple[list[_Column], bytes]:
    """Returns the columns among the pieces, each with the constants before it, and the constants at the end."""
    constant, columns = b"", []
    for piece in pieces:
        if not isinstance(piece, pa.Array | Chosen):
            constant += piece if isinstance(piece, bytes) else str(piece).encode()
            continue
        chosen = piece if isinstance(piece, Chosen) else Chosen(piece)
        rows = None if chosen.rows is None else np.ascontiguousarray(chosen.rows, np.int64)
        if isinstance(chosen.values, pa.Array):
            kind, (data, ends) = _QUOTED if chosen.quoted else _PLAIN, bytes_of(chosen.values)
            columns.append(_Column(constant, kind, data, np.ascontiguousarray(ends), rows, chosen.none))
        else:
            integers = np.ascontiguousarray(chosen.values, np.int64)
            columns.append(_Column(constant, _INTEGER, integers, None, rows, chosen.none))
        constant = b""
    return columns, constant


# The two digits of each number below 100, which begin the constants.
_DIGITS: Final = b"".join(b"%02d" % number for number in range(100))
_ZERO: Final = ord("0")
_MINUS: Final = ord("-")
_QUOTE: Final = ord('"')


@compiled(types.int64(READ_ENDS, READ_LONGS))
def _size_of(ends: Ends, rows: Longs) -> Int:
    """Returns how many bytes the texts of these rows take."""
    size = np.int64(0)
    for i in range(len(rows)):
        if rows[i] >= 0:
            size += np.int64(ends[rows[i] + 1]) - ends[rows[i]]
    return size


@inlined
def _digits_of(left: np.uint64) -> Int:
    """Returns how many digits a number has."""
    count = np.int64(1)
    while left >= np.uint64(10_000):
        left //= np.uint64(10_000)
        count += 4
    if left >= np.uint64(100):
        count += 3 if left >= np.uint64(1_000) else 2
    elif left >= np.uint64(10):
        count += 1
    return count


@inlined
def _put_integer(out: Bytes, to: Int, value: Int, pairs: Bytes) -> Int:
    """Writes an integer. Returns the place after it; `pairs` begins with _DIGITS."""
    left = np.uint64(value)
    if value < 0:
        out[to] = _MINUS
        to += 1
        left = np.uint64(0) - left
    end = to + _digits_of(left)
    at = end
    while left >= np.uint64(100):
        rest = left // np.uint64(100)
        pair = np.int64(left - rest * np.uint64(100))
        at -= 2
        out[at] = pairs[2 * pair]
        out[at + 1] = pairs[2 * pair + 1]
        left = rest
    if left >= np.uint64(10):
        out[at - 2] = pairs[2 * np.int64(left)]
        out[at - 1] = pairs[2 * np.int64(left) + 1]
    else:
        out[at - 1] = np.uint64(_ZERO) + left
    return end


@inlined
def _put_constant(out: Bytes, to: Int, constants: Bytes, at: Int, size: Int) -> Int:
    """Writes this many bytes of the constants, and what follows them. Returns the place after them."""
    for done in range(0, size, _AT_ONCE):
        copy_bytes(out, to + done, constants, at + done, _AT_ONCE)
    return to + size


@inlined
def _put_text(out: Bytes, to: Int, data: Int, ends: Int, row: Int) -> Int:
    """Writes one of the texts at these addresses. Returns the place after it."""
    begin = load_int32(ends, row)
    size: Int = load_int32(ends, row + 1) - begin
    copy_from(out, to, data + begin, size)
    return to + size


@compiled(types.int64(types.int64, types.int64[:, ::1], READ_BYTES, uint8[::1], types.int32[::1]))
def _lay_rows(count: Int, plan: Longs, constants: Bytes, out: Bytes, ends: Ends) -> Int:
    """Writes this many rows, and where each of them ends. Returns the place after them."""
    to: Int = np.int64(0)
    for i in range(count):
        for k in range(len(plan)):
            at, size, kind = plan[k, _CONSTANT], plan[k, _LENGTH], plan[k, _KIND]
            to = _put_constant(out, to, constants, at, size)
            if kind == _NOTHING:
                continue
            rows = plan[k, _ROWS]
            row = load_int64(rows, i) if rows != 0 else np.int64(i)
            if row < 0:
                to = _put_constant(out, to, constants, at + size, plan[k, _NONE])
            elif kind == _INTEGER:
                to = _put_integer(out, to, load_int64(plan[k, _DATA], row), constants)
            elif kind == _PLAIN:
                to = _put_text(out, to, plan[k, _DATA], plan[k, _ENDS], row)
            else:
                out[to] = _QUOTE
                to = _put_text(out, to + 1, plan[k, _DATA], plan[k, _ENDS], row)
                out[to] = _QUOTE
                to += 1
        ends[i] = to
    return to
