"""Compiled: MySQL's binary JSON into the text that the server prints for it, byte for byte, for a whole column.

Every container begins with its number of elements and its size, then has an entry for each key (offset, length) and
for each value (type, and either the value itself or its offset), then keys and values. In small ones counts, sizes
and offsets have 2 bytes, in large ones 4. Offsets count from the container's beginning.

**It ends, whatever the bytes.** Offsets could make containers share their insides, and so describe exponentially much
text. But the bytes of two values never overlap in what a server writes. So each value that is visited pays for its own
bytes out of a budget, which at first is the whole document's size; whoever can't pay is refused.

**No read outside the document.** A value is read only where it was found to end before its container, which ends before
its own, down to the document, whose length the walk has checked (`cells`). Words of 8 bytes may reach into the slack.

**Doubles are holes.** Their shortest decimal digits are left to Arrow, for all documents at once (`json_doubles`).

Source: MySQL 9.7 source, sql-common/json_binary.h (format), json_dom.cc (`wrapper_to_string`).
"""

from typing import Final

import numpy as np
from numba import njit
from numpy.typing import NDArray

from pipeline.binlog.cells import Bytes, Cells, Int, Longs, unsigned
from pipeline.binlog.json_opaque import NO_ROOM, opaque
from pipeline.binlog.json_writing import PIECE, integer, natural, quoted, quoted_room

HOLE: Final = 40  # bytes that a double's text fits in: it has up to 34

# What is wrong with a document. `opaque` has some more.
ENDS: Final = -4
OVERLAPS: Final = -5
TOO_DEEP: Final = -6
REACHES_BEYOND: Final = -7
NO_TYPE: Final = -8
NO_LITERAL: Final = -9
NO_NUMBER: Final = -10
TOO_LONG: Final = -11

# What `state` holds between two calls: the next row, where its text goes, the next hole.
ROW: Final = 0
TO: Final = 1
HOLES: Final = 2

# Types of values (JSONB_TYPE_ of json_binary.cc); below the literals are containers, of which the odd ones are large.
_ARRAY: Final = 2
_LITERAL: Final = 4
_INT16: Final = 5
_UINT64: Final = 10
_DOUBLE: Final = 11
_STRING: Final = 12
_OPAQUE: Final = 15

# Of the integers, by their types: bytes and sign.
_SIZES: Final = np.array([0, 0, 0, 0, 0, 2, 2, 4, 4, 8, 8], np.int64)
_LITERALS: Final = np.frombuffer(b"null true false", np.uint8)

_DEEPEST: Final = 100  # JSON_DOCUMENT_MAX_DEPTH
_EXPONENT: Final = 0x7FF0000000000000  # of a double, all set for infinities and what isn't a number

# Of each container that is being written: where it begins, where it ends, bytes of its offsets, elements, the next one,
# and whether it's an array.
_AT, _END, _WORD, _COUNT, _NEXT, _IS_ARRAY = range(6)


@njit("UniTuple(int64, 2)(uint8[::1], int64, int64)", cache=True, nogil=True)
def _length(buffer: Bytes, at: Int, end: Int) -> tuple[Int, Int]:
    """Where a value begins behind its length, and the length: 7 bits to a byte, the lowest first. Or what's wrong."""
    length = np.int64(0)
    for i in range(5):
        if at + i >= end:
            return np.int64(ENDS), length
        byte = np.int64(buffer[at + i])
        length |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return (at + i + 1, length) if at + i + 1 + length <= end else (np.int64(ENDS), length)
    return np.int64(TOO_LONG), length


@njit("int64(int64, uint8[::1], int64)", cache=True, nogil=True)
def _literal(code: Int, out: Bytes, to: Int) -> Int:
    """null, true or false."""
    if code < 0 or code > 2:
        return np.int64(NO_LITERAL)
    length = 5 if code == 2 else 4
    for k in range(length):
        out[to + k] = _LITERALS[5 * code + k]
    return to + length


@njit("int64(uint64, int64, uint8[::1], int64)", cache=True, nogil=True)
def _number(bits: np.uint64, kind: Int, out: Bytes, to: Int) -> Int:
    """An integer of this type in the lowest of these bits."""
    spare = np.uint64(64 - 8 * _SIZES[kind])
    bits <<= spare
    if kind & 1:  # the odd ones are signed
        return integer(np.int64(bits) >> np.int64(spare), out, to)
    return natural(bits >> spare, out, to)


@njit(
    "int64(int64, uint8[::1], int64, int64, int64[::1], uint8[::1], int64, float64[::1], int64[::1], int64[::1])",
    cache=True,
    nogil=True,
)
def _scalar(
    kind: Int,
    buffer: Bytes,
    at: Int,
    end: Int,
    budget: Longs,
    out: Bytes,
    to: Int,
    doubles: NDArray[np.float64],
    holes: Longs,
    state: Longs,
) -> Int:
    """Write the value at buffer[at:], which is no container and ends before `end`."""
    if kind == _LITERAL:
        if at + 1 > end:
            return np.int64(ENDS)
        budget[0] -= 1
        return _literal(np.int64(buffer[at]), out, to)
    if _INT16 <= kind <= _DOUBLE:
        size = np.int64(8) if kind == _DOUBLE else _SIZES[kind]
        if at + size > end:
            return np.int64(ENDS)
        budget[0] -= size
        bits = np.uint64(0)
        for k in range(8):  # beyond a shorter one is the slack, at most
            bits |= np.uint64(buffer[at + k]) << np.uint64(8 * k)
        if kind != _DOUBLE:
            return _number(bits, kind, out, to)
        if bits & np.uint64(_EXPONENT) == np.uint64(_EXPONENT):
            return np.int64(NO_NUMBER)
        hole = state[HOLES]
        if hole == len(holes):
            return np.int64(NO_ROOM)
        doubles.view(np.uint64)[hole] = bits
        holes[hole] = to
        state[HOLES] = hole + 1
        return to + HOLE
    if kind not in (_STRING, _OPAQUE):
        return np.int64(NO_TYPE)
    prefix = np.int64(1) if kind == _OPAQUE else np.int64(0)  # the type's byte
    if at + prefix > end:
        return np.int64(ENDS)
    start, length = _length(buffer, at + prefix, end)
    if start < 0:
        return start
    budget[0] -= start + length - at
    if kind == _OPAQUE:
        return opaque(np.int64(buffer[at]), buffer, start, length, out, to)
    if to + 6 * length + PIECE > len(out) and to + quoted_room(buffer, start, length) + PIECE > len(out):
        return np.int64(NO_ROOM)
    return quoted(buffer, start, length, out, to)


@njit("int64(uint8[::1], int64, int64, int64, int64, int64[:, ::1], int64[::1])", cache=True, nogil=True)
def _enter(buffer: Bytes, kind: Int, at: Int, end: Int, depth: Int, stack: Longs, budget: Longs) -> Int:
    """Put the container of this type at buffer[at:end] on the stack, as the `depth`th. Returns 0, or what's wrong."""
    if depth > _DEEPEST:
        return TOO_DEEP
    word = np.int64(4) if kind & 1 else np.int64(2)
    if at + 2 * word > end:
        return ENDS
    count, size = unsigned(buffer, at, word), unsigned(buffer, at + word, word)
    if size > end - at:
        return REACHES_BEYOND
    is_array = kind >= _ARRAY
    entries = 2 * word + count * (word + 1 + (0 if is_array else word + 2))
    if entries > size:
        return ENDS
    budget[0] -= entries
    if budget[0] < 0:
        return OVERLAPS
    frame = stack[depth]
    frame[_AT], frame[_END], frame[_WORD] = at, at + size, word
    frame[_COUNT], frame[_NEXT], frame[_IS_ARRAY] = count, 0, np.int64(is_array)
    return 0


@njit("int64(uint8[::1], int64[::1], int64, int64[::1], uint8[::1], int64)", cache=True, nogil=True)
def _key(buffer: Bytes, frame: Longs, index: Int, budget: Longs, out: Bytes, to: Int) -> Int:
    """Write the key of this index, and what stands between it and its value."""
    word = frame[_WORD]
    entry = frame[_AT] + 2 * word + index * (word + 2)
    start, length = frame[_AT] + unsigned(buffer, entry, word), unsigned(buffer, entry + word, 2)
    if start + length > frame[_END]:
        return np.int64(ENDS)
    budget[0] -= length
    if to + 6 * length + PIECE > len(out):
        return np.int64(NO_ROOM)
    to = quoted(buffer, start, length, out, to)
    out[to] = 58  # :
    out[to + 1] = 32
    return to + 2


@njit("UniTuple(int64, 2)(uint8[::1], int64[::1], int64[::1], uint8[::1], int64)", cache=True, nogil=True)
def _before_value(buffer: Bytes, frame: Longs, budget: Longs, out: Bytes, to: Int) -> tuple[Int, Int]:
    """Go on to the next value, and write what stands before it. Returns where it goes, and where its entry is."""
    index, word = frame[_NEXT], frame[_WORD]
    frame[_NEXT] = index + 1
    if index > 0:
        out[to] = 44  # ,
        out[to + 1] = 32
        to += 2
    entry = frame[_AT] + 2 * word + index * (word + 1)
    if not frame[_IS_ARRAY]:
        to = _key(buffer, frame, index, budget, out, to)
        entry += frame[_COUNT] * (word + 2)
    return to, entry


@njit(
    "int64(uint8[::1], int64, int64, int64[:, ::1], uint8[::1], int64, float64[::1], int64[::1], int64[::1])",
    cache=True,
    nogil=True,
)
def _document(
    buffer: Bytes,
    at: Int,
    length: Int,
    stack: Longs,
    out: Bytes,
    to: Int,
    doubles: NDArray[np.float64],
    holes: Longs,
    state: Longs,
) -> Int:
    """Write the document at buffer[at:at + length]. Returns where the next one goes, or what's wrong."""
    if length == 0:
        return _literal(np.int64(0), out, to)  # as the server does
    budget = np.array([length])
    end = at + length
    kind = np.int64(buffer[at])
    if kind >= _LITERAL:
        return _scalar(kind, buffer, at + 1, end, budget, out, to, doubles, holes, state)
    depth = np.int64(1)
    wrong = _enter(buffer, kind, at + 1, end, depth, stack, budget)
    if wrong:
        return wrong
    out[to] = 91 if kind >= _ARRAY else 123  # [ {
    to += 1
    while depth > 0:
        if to + 2 * PIECE > len(out):
            return np.int64(NO_ROOM)
        if budget[0] < 0:
            return np.int64(OVERLAPS)
        frame = stack[depth]
        if frame[_NEXT] == frame[_COUNT]:
            out[to] = 93 if frame[_IS_ARRAY] else 125  # ] }
            to += 1
            depth -= 1
            continue
        to, entry = _before_value(buffer, frame, budget, out, to)
        if to < 0:
            return to
        word = frame[_WORD]
        kind = np.int64(buffer[entry])
        inlined = unsigned(buffer, entry + 1, word)
        if kind == _LITERAL:
            to = _literal(inlined, out, to)
        elif kind >= _INT16 and kind <= _UINT64 and _SIZES[kind] <= word:
            to = _number(np.uint64(inlined), kind, out, to)
        elif kind > _LITERAL:
            to = _scalar(
                kind, buffer, frame[_AT] + inlined, frame[_END], budget, out, to, doubles, holes, state
            )
        else:
            depth += 1
            wrong = _enter(buffer, kind, frame[_AT] + inlined, frame[_END], depth, stack, budget)
            if wrong:
                return wrong
            out[to] = 91 if kind >= _ARRAY else 123
            to += 1
        if to < 0:
            return to
    return to if budget[0] >= 0 else np.int64(OVERLAPS)


@njit(
    "int64(uint8[::1], int32[::1], int64, int64[::1], uint8[::1], float64[::1], int64[::1], int64[::1])",
    cache=True,
    nogil=True,
)
def texts(
    buffer: Bytes,
    cells: Cells,
    prefix: Int,
    offsets: Longs,
    out: Bytes,
    doubles: NDArray[np.float64],
    holes: Longs,
    state: Longs,
) -> Int:
    """Write the documents at `cells`, behind lengths of `prefix` bytes, end to end from where `state` stands.

    `offsets` (one entry more than `cells`) takes where each begins in `out`. A double leaves `HOLE` bytes, whose places
    are put into `holes` and the numbers into `doubles`, as long.

    Returns 0, or NO_ROOM, where it's to be called again with more room in `out` and `holes`, or what's wrong with the
    document of the row at which `state` stands.
    """
    stack = np.empty((_DEEPEST + 1, 6), np.int64)
    offsets[0] = 0
    while state[ROW] < len(cells):
        row, to, first_hole = state[ROW], state[TO], state[HOLES]
        at = np.int64(cells[row])
        if at >= 0:
            if to + 2 * PIECE > len(out):
                return NO_ROOM
            length = unsigned(buffer, at, prefix)
            to = _document(buffer, at + prefix, length, stack, out, to, doubles, holes, state)
            if to < 0:
                state[HOLES] = first_hole
                return to
        offsets[row + 1] = to
        state[TO] = to
        state[ROW] = row + 1
    return 0
