"""The doubles in JSON text: their shortest digits by Arrow, for all documents at once, and compiled, the server's form.

The server prints the shortest digits that mean the same double, as Arrow does. It prints no exponent if the point lies
near them, and never a double like an integer.

Source: MySQL 9.7 source, sql-common/json_dom.cc (`wrapper_to_string`), strings/dtoa.cc (`my_gcvt`).
"""

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pipeline.binlog.rows.json.document_kernels import HOLE
from pipeline.binlog.rows.json.text_kernels import signed_integer
from pipeline.types.buffers import Bytes, Int, Longs
from pipeline.types.byte_kernels import copy_words, word
from pipeline.types.jit import compiled

_FEWEST_BEFORE_POINT: Final = -15  # not reached: digits after more zeros than this have an exponent
_MOST_BEFORE_POINT: Final = 15  # more have an exponent, unless there are digits after the point too

_MOST_DIGITS: Final = 32

_MINUS: Final = ord("-")
_DOT: Final = ord(".")
_ZERO: Final = ord("0")
_NINE: Final = ord("9")
_E: Final = ord("e")


def fill_doubles(out: Bytes, offsets: Longs, holes: Longs) -> None:
    """Puts the text of each double in place of its hole in `out`, and moves the bytes after it, and its `offsets`."""
    if len(holes) == 0:
        return
    bits = np.empty(len(holes), np.uint64)
    _words(out, holes, bits)
    shown = pc.cast(pa.array(bits.view(np.float64)), pa.string())
    ends = np.frombuffer(shown.buffers()[1], np.int32)[: len(shown) + 1].astype(np.int64)
    digits = np.frombuffer(bytearray(shown.buffers()[2]), np.uint8)
    _fill(out, offsets, holes, digits, ends, np.empty(_MOST_DIGITS, np.uint8))


@compiled("void(uint8[::1], int64[::1], uint64[::1])")
def _words(out: Bytes, places: Longs, words: NDArray[np.uint64]) -> None:
    for i in range(len(places)):
        words[i] = word(out, places[i])


@compiled("int64(uint8[::1], int64, int64, int64, uint8[::1], int64)")
def _digits(digits: Bytes, count: Int, first: Int, end: Int, out: Bytes, to: Int) -> Int:
    """Writes the digits from `first` to `end`; zeros surround the `count` present ones."""
    for k in range(first, end):
        out[to] = digits[k] if 0 <= k < count else _ZERO
        to += 1
    return to


@compiled("int64(uint8[::1], int64, int64, uint8[::1], int64, uint8[::1])")
def _double(shown: Bytes, at: Int, end: Int, out: Bytes, to: Int, digits: Bytes) -> Int:
    """Write a number that lies in decimal at shown[at:end] as the server does. `digits` is room for its own.

    Returns where it ends.
    """
    if shown[at] == _MINUS:
        out[to] = _MINUS
        at += 1
        to += 1
    # The number is 0.DIGITS * 10 ** point.
    count, point, exponent = np.int64(0), np.int64(0), np.int64(0)
    behind_point = False
    while at < end and shown[at] != _E:
        if shown[at] == _DOT:
            behind_point = True
        elif count > 0 or shown[at] != _ZERO:
            digits[count] = shown[at]
            count += 1
            point += not behind_point
        elif behind_point:
            point -= 1
        at += 1
    if at < end:  # e, a sign, and digits
        negative = shown[at + 1] == _MINUS
        for k in range(at + 1, end):
            if _ZERO <= shown[k] <= _NINE:
                exponent = exponent * 10 + np.int64(shown[k]) - _ZERO
        point += -exponent if negative else exponent
    while count > 1 and digits[count - 1] == _ZERO:
        count -= 1
    if count == 0:
        digits[0] = _ZERO
        count, point = np.int64(1), np.int64(1)
    near = point > _FEWEST_BEFORE_POINT and (point <= _MOST_BEFORE_POINT or point < count)
    if not near:
        to = _digits(digits, count, 0, 1, out, to)
        if count > 1:
            out[to] = _DOT
            to = _digits(digits, count, 1, count, out, to + 1)
        out[to] = _E
        return signed_integer(point - 1, out, to + 1)
    if point <= 0:
        out[to] = _ZERO
        out[to + 1] = _DOT
        return _digits(digits, count, point, count, out, to + 2)
    to = _digits(digits, count, 0, point, out, to)
    out[to] = _DOT
    return _digits(digits, count, point, max(count, point + 1), out, to + 1)


@compiled("void(uint8[::1], int64[::1], int64[::1], uint8[::1], int64[::1], uint8[::1])")
def _fill(out: Bytes, offsets: Longs, holes: Longs, shown: Bytes, ends: Longs, digits: Bytes) -> None:
    """`shown` has the numbers in decimal, the n-th at shown[ends[n]:ends[n + 1]]; `digits` is room for one's."""
    at, row = np.int64(0), np.int64(0)
    to: Int = np.int64(0)
    for hole in range(len(holes)):
        while offsets[row] <= holes[hole]:
            offsets[row] -= at - to
            row += 1
        copy_words(out, at, holes[hole] - at, out, to)
        to += holes[hole] - at
        to = _double(shown, ends[hole], ends[hole + 1], out, to, digits)
        at = holes[hole] + HOLE
    end = offsets[-1]
    while row < len(offsets):
        offsets[row] -= at - to
        row += 1
    copy_words(out, at, end - at, out, to)
