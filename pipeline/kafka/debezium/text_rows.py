"""Rows of text out of columns of text: the pieces of each row one after the other, laid down by a compiled loop.

Arrow's own join looks at each piece of each row by itself. Here each column is copied in one loop, for some hundred
rows at once, so that what they become stays in the processor's cache.
"""

from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
from numba import types, uint8

from pipeline.types.arrow_arrays import bytes_of, varying
from pipeline.types.buffers import Bytes, Ends, Flags, Int, Longs
from pipeline.types.byte_copies import copy_bytes
from pipeline.types.jit import compiled

# How many bytes of rows are laid down at once, about: they and the columns they come from fit into a core's cache.
_AT_ONCE: Final = 1 << 18
_NULL: Final = np.frombuffer(b"null", np.uint8)
_LEAST_ROWS: Final = 64


@dataclass(frozen=True, slots=True)
class Chosen:
    """A text for each row: that of `texts` whose number the row has, and `null` where the number is negative."""

    texts: pa.Array
    rows: Longs


# What a row of text is made of.
Piece: TypeAlias = pa.Array | pa.Scalar | str | Chosen


def or_null(texts: pa.Array) -> Chosen:
    """A text for each row, and `null` where it's null."""
    return Chosen(texts, np.where(np.asarray(texts.is_valid()), np.arange(len(texts)), -1))


def text_array(data: Bytes, ends: Ends, exists: Flags | None = None) -> pa.Array:
    """The texts that a kernel has written, text i before ends[i]; null where it doesn't exist."""
    offsets = np.zeros(len(ends) + 1, np.int32)
    offsets[1:] = ends
    return varying(pa.string(), offsets, data, np.ones(len(ends), np.bool_) if exists is None else exists)


def joined(*pieces: Piece, count: int) -> pa.Array:
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
            _lay(column.before, column.data, column.ends, column.rows[first:last], _NULL, at[first:last], out)
        if len(after):
            _lay_same(after, at[first:last], out)
    nulls = [piece for piece in pieces if isinstance(piece, pa.Array) and piece.null_count]
    exists = np.logical_and.reduce([np.asarray(piece.is_valid()) for piece in nulls]) if nulls else None
    return text_array(out, ends.astype(np.int32), exists)


@dataclass(frozen=True, slots=True)
class _Column:
    """Values, of which each row has one (-1: none), and what stands before each."""

    before: Bytes
    data: Bytes
    ends: Ends
    rows: Longs

    def lengths(self) -> Longs:
        sizes = np.append(np.diff(self.ends), np.int32(len(_NULL)))  # the last one is what -1 has
        return sizes[self.rows].astype(np.int64) + len(self.before)


def _columns(
    pieces: tuple[pa.Array | pa.Scalar | str | Chosen, ...], count: int
) -> tuple[list[_Column], Bytes]:
    """The columns among the pieces, each with the constants before it, and the constants at the end."""
    constant, columns, each = "", [], np.arange(count)
    for piece in pieces:
        if isinstance(piece, Chosen):
            texts, rows = piece.texts, piece.rows
        elif isinstance(piece, pa.Array):
            texts, rows = piece, each
        else:
            constant += str(piece)
            continue
        data, ends = bytes_of(texts)
        columns.append(_Column(_bytes(constant), data, ends, rows))
        constant = ""
    return columns, _bytes(constant)


def _bytes(text: str) -> Bytes:
    return np.frombuffer(text.encode(), np.uint8)


_READ_ONLY: Final = types.Array(uint8, 1, "C", readonly=True)
_ENDS: Final = types.Array(types.int32, 1, "C", readonly=True)


@compiled(
    types.void(_READ_ONLY, _READ_ONLY, _ENDS, types.int64[::1], _READ_ONLY, types.int64[::1], uint8[::1])
)
def _lay(before: Bytes, data: Bytes, ends: Ends, rows: Longs, null: Bytes, at: Longs, out: Bytes) -> None:
    """Write `before` and a value at each place of `at`, and move the place after it."""
    for i in range(len(rows)):
        to: Int = at[i]
        copy_bytes(out, to, before, 0, len(before))
        to += len(before)
        row = rows[i]
        if row < 0:
            copy_bytes(out, to, null, 0, len(null))
            to += len(null)
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
