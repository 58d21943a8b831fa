"""Compiled: MySQL's binary JSON into the text that the server prints for it, byte for byte, for a column of documents.

Every container begins with its number of elements and its size. Then it has an entry for each key (offset, length) and
for each value (type, and either the value itself or its offset). Then come keys and values. In small ones counts, sizes
and offsets have 2 bytes, in large ones 4. Offsets count from the container's beginning.

**It ends, with any bytes.** Offsets could make containers share their insides, and so describe exponentially much text.
But in what a server writes, the bytes of two values never overlap. So each visited value pays for its own bytes from a
budget, which at first is the document's size. A value that can't pay is refused.

**No read outside the document.** A value is read only if it ends before its container, which ends before its own, down
to the document. `locate_cells` has checked the document's length. Words of 8 bytes may reach into the slack.

**Doubles are holes.** Arrow writes their shortest decimal digits, for all documents at once (`doubles`).

Source: MySQL 9.7 source, sql-common/json_binary.h (format), json_dom.cc (`wrapper_to_string`).
"""

from typing import Final

import numpy as np

from pipeline.binlog.rows.json.opaque_values import NOT_WRITTEN, opaque
from pipeline.binlog.rows.json.text_kernels import PIECE, natural, quote_json, quoted_room, signed_integer
from pipeline.types.buffers import Bytes, Cells, Int, Longs
from pipeline.types.byte_kernels import put_word, unsigned, word
from pipeline.types.jit import compiled

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

# What `state` holds between two calls: the next row, where its text goes, the next hole; and within one document, what
# is left of the bytes that its values may have.
DOCUMENT_ROW: Final = 0
TO: Final = 1
HOLES: Final = 2
_BUDGET: Final = 3
DOCUMENT_STATE: Final = 4  # numbers

# Types of values (JSONB_TYPE_ of json_binary.cc); below the literals are containers, of which the odd ones are large.
ARRAY: Final = 2
LITERAL: Final = 4
_DOUBLE: Final = 11
STRING: Final = 12
OPAQUE: Final = 15

SCALAR_SIZES: Final = np.array([0, 0, 0, 0, 1, 2, 2, 4, 4, 8, 8, 8], np.int64)  # bytes, by the type
_LITERALS: Final = np.frombuffer(b"null true false", np.uint8)

_EXPONENT: Final = 0x7FF0000000000000  # of a double, all set for infinities and what isn't a number

# Of each container that is being written, in `stack` from `frame` on: where it begins, where it ends, bytes of its
# offsets, elements, the next one, and whether it's an array. (Views of rows of a table would be counted references.)
_AT, _END, _WORD, _COUNT, _NEXT, _IS_ARRAY, _FRAME = range(7)

DEEPEST_DOCUMENT: Final = 100  # JSON_DOCUMENT_MAX_DEPTH
STACK: Final = DEEPEST_DOCUMENT * _FRAME


@compiled("UniTuple(int64, 2)(uint8[::1], int64, int64)", inlined=True)
def varying_length(buffer: Bytes, at: Int, end: Int) -> tuple[Int, Int]:
    """Returns where a value begins after its length, and the length: 7 bits to a byte, the lowest first. Or an error
    code."""
    length = np.int64(0)
    for i in range(5):
        if at + i >= end:
            return np.int64(ENDS), length
        byte = np.int64(buffer[at + i])
        length |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return (at + i + 1, length) if at + i + 1 + length <= end else (np.int64(ENDS), length)
    return np.int64(TOO_LONG), length


@compiled("int64(int64, uint8[::1], int64)", inlined=True)
def _literal(code: Int, out: Bytes, to: Int) -> Int:
    """null, true or false."""
    if code < 0 or code > 2:
        return np.int64(NO_LITERAL)
    length = 5 if code == 2 else 4
    for k in range(length):
        out[to + k] = _LITERALS[5 * code + k]
    return to + length


@compiled("int64(uint64, int64, uint8[::1], int64)", inlined=True)
def _number(bits: np.uint64, kind: Int, out: Bytes, to: Int) -> Int:
    """An integer of this type in the lowest of these bits."""
    spare = np.uint64(64 - 8 * SCALAR_SIZES[kind])
    bits <<= spare
    if kind & 1:  # the odd ones are signed
        return signed_integer(np.int64(bits) >> np.int64(spare), out, to)
    return natural(bits >> spare, out, to)


@compiled("int64(uint64, uint8[::1], int64, int64[::1], int64[::1])", inlined=True)
def _hole(bits: np.uint64, out: Bytes, to: Int, holes: Longs, state: Longs) -> Int:
    """Leave a hole for the double of these bits, which go into it for the time being."""
    if bits & np.uint64(_EXPONENT) == np.uint64(_EXPONENT):
        return np.int64(NO_NUMBER)
    hole = state[HOLES]
    if hole == len(holes):
        return np.int64(NOT_WRITTEN)
    holes[hole] = to
    state[HOLES] = hole + 1
    put_word(out, to, bits)
    return to + HOLE


@compiled("int64(int64, uint8[::1], int64, int64, uint8[::1], int64, int64[::1], int64[::1])", inlined=True)
def _scalar(
    kind: Int, buffer: Bytes, at: Int, end: Int, out: Bytes, to: Int, holes: Longs, state: Longs
) -> Int:
    """Write the value at buffer[at:], which is no container and ends before `end`. Returns where the next one goes."""
    if kind <= _DOUBLE:
        size = SCALAR_SIZES[kind]
        if at + size > end:
            return np.int64(ENDS)
        state[_BUDGET] -= size
        if kind == LITERAL:
            return _literal(np.int64(buffer[at]), out, to)
        bits = word(buffer, at)
        return _number(bits, kind, out, to) if kind != _DOUBLE else _hole(bits, out, to, holes, state)
    if kind not in (STRING, OPAQUE):
        return np.int64(NO_TYPE)
    prefix = np.int64(1) if kind == OPAQUE else np.int64(0)  # the type's byte
    if at + prefix > end:
        return np.int64(ENDS)
    start, length = varying_length(buffer, at + prefix, end)
    if start < 0:
        return start
    state[_BUDGET] -= start + length - at
    if kind == OPAQUE:
        return opaque(np.int64(buffer[at]), buffer, start, length, out, to)
    if to + 6 * length + PIECE > len(out) and to + quoted_room(buffer, start, length) + PIECE > len(out):
        return np.int64(NOT_WRITTEN)
    return quote_json(buffer, start, length, out, to)


@compiled("int64(uint8[::1], int64, int64, int64, int64[::1], int64, int64[::1])", inlined=True)
def _enter(buffer: Bytes, kind: Int, at: Int, end: Int, stack: Longs, frame: np.int64, state: Longs) -> Int:
    """Begins the container of this type at buffer[at:end], in `frame`. Returns 0, or an error code."""
    size_of_word = np.int64(4) if kind & 1 else np.int64(2)
    if at + 2 * size_of_word > end:
        return np.int64(ENDS)
    count, size = unsigned(buffer, at, size_of_word), unsigned(buffer, at + size_of_word, size_of_word)
    if size > end - at:
        return np.int64(REACHES_BEYOND)
    is_array = kind >= ARRAY
    entries = 2 * size_of_word + count * (size_of_word + 1 + (0 if is_array else size_of_word + 2))
    if entries > size:
        return np.int64(ENDS)
    state[_BUDGET] -= entries
    if state[_BUDGET] < 0:
        return np.int64(OVERLAPS)
    stack[frame + _AT], stack[frame + _END], stack[frame + _WORD] = at, at + size, size_of_word
    stack[frame + _COUNT], stack[frame + _NEXT], stack[frame + _IS_ARRAY] = count, 0, np.int64(is_array)
    return np.int64(0)


@compiled("int64(uint8[::1], int64[::1], int64, uint8[::1], int64, int64[::1])", inlined=True)
def _key(buffer: Bytes, stack: Longs, frame: np.int64, out: Bytes, to: Int, state: Longs) -> Int:
    """Writes the next value's key, and the separators."""
    size: Int = stack[frame + _WORD]
    entry: Int = stack[frame + _AT] + 2 * size + stack[frame + _NEXT] * (size + 2)
    start: Int = stack[frame + _AT] + unsigned(buffer, entry, size)
    length = unsigned(buffer, entry + size, 2)
    if start + length > stack[frame + _END]:
        return np.int64(ENDS)
    state[_BUDGET] -= length
    if to + 6 * length + PIECE > len(out):
        return np.int64(NOT_WRITTEN)
    to = quote_json(buffer, start, length, out, to)
    out[to] = 58  # :
    out[to + 1] = 32
    return to + 2


@compiled("UniTuple(int64, 2)(uint8[::1], int64[::1], int64, uint8[::1], int64, int64[::1])", inlined=True)
def _next_value(
    buffer: Bytes, stack: Longs, frame: np.int64, out: Bytes, to: Int, state: Longs
) -> tuple[Int, Int]:
    """Writes the separator before a container's next value. Returns where it goes, and where its entry is."""
    index, size = stack[frame + _NEXT], stack[frame + _WORD]
    if index > 0:
        out[to] = 44  # ,
        out[to + 1] = 32
        to += 2
    entry: Int = stack[frame + _AT] + 2 * size + index * (size + 1)
    if not stack[frame + _IS_ARRAY]:
        to = _key(buffer, stack, frame, out, to, state)
        entry += stack[frame + _COUNT] * (size + 2)
    stack[frame + _NEXT] = index + 1
    return to, entry


@compiled("int64(uint8[::1], int64, int64, int64[::1], uint8[::1], int64, int64[::1], int64[::1])")
def _document(
    buffer: Bytes, at: Int, length: Int, stack: Longs, out: Bytes, to: Int, holes: Longs, state: Longs
) -> Int:
    """Writes the document at buffer[at:at + length]. Returns where the next one goes, or an error code."""
    if length == 0:
        return _literal(np.int64(0), out, to)  # as the server does
    end = at + length
    kind = np.int64(buffer[at])
    at += 1
    state[_BUDGET] = length - 1
    frame = np.int64(-_FRAME)
    while True:
        if to + 2 * PIECE > len(out):
            return np.int64(NOT_WRITTEN)
        if kind >= LITERAL:
            to = _scalar(kind, buffer, at, end, out, to, holes, state)
        else:
            if frame + _FRAME == len(stack):
                return np.int64(TOO_DEEP)
            wrong = _enter(buffer, kind, at, end, stack, frame + _FRAME, state)
            if wrong:
                return wrong
            frame += _FRAME
            out[to] = 91 if kind >= ARRAY else 123  # [ {
            to += 1
        if to < 0:
            return to
        while frame >= 0 and stack[frame + _NEXT] == stack[frame + _COUNT]:
            out[to] = 93 if stack[frame + _IS_ARRAY] else 125  # ] }
            to += 1
            frame -= _FRAME
        if state[_BUDGET] < 0:
            return np.int64(OVERLAPS)
        if frame < 0:
            return to
        to, entry = _next_value(buffer, stack, frame, out, to, state)
        if to < 0:
            return to
        end = stack[frame + _END]
        kind = np.int64(buffer[entry])
        if LITERAL <= kind < _DOUBLE and SCALAR_SIZES[kind] <= stack[frame + _WORD]:
            at = entry + 1
            state[_BUDGET] += SCALAR_SIZES[kind]  # which have been paid for with the entry
        else:
            at = stack[frame + _AT] + unsigned(buffer, entry + 1, stack[frame + _WORD])


@compiled("int64(uint8[::1], int32[::1], int64, int64[::1], int64[::1], uint8[::1], int64[::1], int64[::1])")
def texts(
    buffer: Bytes,
    cells: Cells,
    prefix: Int,
    stack: Longs,
    offsets: Longs,
    out: Bytes,
    holes: Longs,
    state: Longs,
) -> Int:
    """Writes the documents at `cells`, each after its length of `prefix` bytes, end to end from the position in
    `state`.

    `stack` is memory for `STACK` numbers. `offsets` (one entry more than `cells`) takes where each begins in `out`. A
    double leaves a hole of `HOLE` bytes, and the first 8 are its own; `holes` takes their places.

    Returns 0, or the error code of the document of the row in `state`. Returns NO_ROOM if it has to be called again
    with more room in `out` and `holes`.
    """
    offsets[0] = 0
    while state[DOCUMENT_ROW] < len(cells):
        row, to, first_hole = state[DOCUMENT_ROW], state[TO], state[HOLES]
        at = np.int64(cells[row])
        if at >= 0:
            if to + 2 * PIECE > len(out):
                return np.int64(NOT_WRITTEN)
            length = unsigned(buffer, at, prefix)
            to = _document(buffer, at + prefix, length, stack, out, to, holes, state)
            if to < 0:
                state[HOLES] = first_hole
                return to
        offsets[row + 1] = to
        state[TO] = to
        state[DOCUMENT_ROW] = row + 1
    return np.int64(0)
