"""Rows of text out of columns of text: the pieces of each row one after the other, laid down by a compiled loop.

Arrow's own join looks at each piece of each row by itself. Here each column is copied in one loop, for some hundred
rows at once, so that what they become stays in the processor's cache.
"""

from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
from numba import types, uint8

from pipeline.types.arrow_arrays import bytes_of, varying_width_array
from pipeline.types.buffers import Bytes, Ends, Flags, Int, Longs
from pipeline.types.byte_copies import copy_bytes
from pipeline.types.jit import compiled

# How many bytes of rows are laid down at once, about: they and the columns they come from fit into a core's cache.
_AT_ONCE: Final = 1 << 18
_LEAST_ROWS: Final = 64
_TEXT: Final = pa.string()


@dataclass(frozen=True, slots=True)
class Chosen:
    """A text for each row: that of `texts` whose number the row has, and `none` where the number is negative."""

    texts: pa.Array
    rows: Longs
    none: bytes = b"null"


# What a row of text is made of; a scalar, a text and bytes are the same in all rows.
Piece: TypeAlias = pa.Array | pa.Scalar | str | bytes | Chosen


def or_null(texts: pa.Array) -> Chosen:
    """A text for each row, and `null` where it's null."""
    return Chosen(texts, np.where(np.asarray(texts.is_valid()), np.arange(len(texts)), -1))


def text_array(data: Bytes, ends: Ends, exists: Flags | None = None, kind: pa.DataType = _TEXT) -> pa.Array:
    """The texts that a kernel has written, text i before ends[i]; null where it doesn't exist.

    `kind`: pa.string(), or pa.binary() where they are bytes.
    """
    offsets = np.zeros(len(ends) + 1, np.int32)
    offsets[1:] = ends
    return varying_width_array(
        kind, offsets, data, np.ones(len(ends), np.bool_) if exists is None else exists
    )


def joined(*pieces: Piece, count: int, kind: pa.DataType = _TEXT) -> pa.Array:
    """The texts of these pieces one after the other, in each of `count` rows; null where a piece is null."""
    columns, after = _columns(pieces, count)
    ends = np.full(count, len(after), np.int64)
    for column in columns:
        ends += column.lengths()
    np.cumsum(ends, out=ends)
    size = int(ends[-1]) if count else 0
    if size >= 2**31:
        raise pa.ArrowInvalid(f"{size} bytes of text are too many for one batch")
    at = np.zeros(count, np.int64)
    at[1:] = ends[:-1]
    out = np.empty(size, np.uint8)
    step = max(_LEAST_ROWS, _AT_ONCE * count // max(1, size))
    for first in range(0, count, step):
        last = min(count, first + step)
        for column in columns:
            rows = column.rows[first:last]
            _lay(column.before, column.data, column.ends, rows, column.none, at[first:last], out)
        if len(after):
            _lay_same(after, at[first:last], out)
    nulls = [piece for piece in pieces if isinstance(piece, pa.Array) and piece.null_count]
    exists = np.logical_and.reduce([np.asarray(piece.is_valid()) for piece in nulls]) if nulls else None
    return text_array(out, ends.astype(np.int32), exists, kind)


@dataclass(frozen=True, slots=True)
class _Column:
    """Values, of which each row has one (-1: `none`), and what stands before each."""

    before: Bytes
    data: Bytes
    ends: Ends
    rows: Longs
    none: Bytes

    def lengths(self) -> Longs:
        sizes = np.append(np.diff(self.ends), np.int32(len(self.none)))  # the last one is what -1 has
        return sizes[self.rows].astype(np.int64) + len(self.before)


def _columns(pieces: tuple[Piece, ...], count: int) -> tuple[list[_Column], Bytes]:
    """The columns among the pieces, each with the constants before it, and the constants at the end."""
    constant, columns, each = b"", [], np.arange(count)
    for piece in pieces:
        if isinstance(piece, Chosen):
            texts, rows, none = piece.texts, piece.rows, piece.none
        elif isinstance(piece, pa.Array):
            texts, rows, none = piece, each, b""
        else:
            constant += piece if isinstance(piece, bytes) else str(piece).encode()
            continue
        data, ends = bytes_of(texts)
        columns.append(_Column(_bytes(constant), data, ends, rows, _bytes(none)))
        constant = b""
    return columns, _bytes(constant)


def _bytes(text: bytes) -> Bytes:
    return np.frombuffer(text, np.uint8)


_READ_ONLY: Final = types.Array(uint8, 1, "C", readonly=True)
_ENDS: Final = types.Array(types.int32, 1, "C", readonly=True)


@compiled(
    types.void(_READ_ONLY, _READ_ONLY, _ENDS, types.int64[::1], _READ_ONLY, types.int64[::1], uint8[::1])
)
def _lay(before: Bytes, data: Bytes, ends: Ends, rows: Longs, none: Bytes, at: Longs, out: Bytes) -> None:
    """Write `before` and a value at each place of `at`, and move the place after it."""
    for i in range(len(rows)):
        to: Int = at[i]
        copy_bytes(out, to, before, 0, len(before))
        to += len(before)
        row = rows[i]
        if row < 0:
            copy_bytes(out, to, none, 0, len(none))
            to += len(none)
        else:
            begin, size = np.int64(ends[row]), np.int64(ends[row + 1]) - np.int64(ends[row])
            copy_bytes(out, to, data, begin, size)
            to += size
        at[i] = to


@compiled(types.void(_READ_ONLY, types.int64[::1], uint8[::1]))
def _lay_same(text: Bytes, at: Longs, out: Bytes) -> None:
    """Write the same text at each place."""
    for i in range(len(at)):
        copy_bytes(out, at[i], text, 0, len(text))
