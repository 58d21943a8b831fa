"""The compiled loops that make UTF-8 of text in other character sets.

All values lie end to end in `data`; value i is data[ends[i]:ends[i + 1]]. The texts are laid end to end in `out`,
text i before out_ends[i]. A code never reaches over the end of its value.

**No access outside the arrays.** A code is looked up by its bytes alone, so a table that isn't empty has an entry for
each that can come. An empty one is never asked, since no entry of the others says LEAD then. No code makes more than
`GROWTH` bytes of each of its own, and `out` has room for as many.
"""

from typing import Final

import numpy as np
from numba import boolean, int32, int64, uint8

from pipeline.types.buffers import Bytes, Ends, Int, Longs
from pipeline.types.jit import READ_BYTES, compiled, inlined
from pipeline.types.text.charset_tables import FOUR_BYTES, LEAD, NO_CODE, CodePoints

# The most bytes of UTF-8 for one byte of text in any other set: a character of one byte has three at most.
GROWTH: Final = 3

WHOLE_TEXT: Final = -1

# What comes from Arrow may not be written to.
_POINTS: Final = int32[::1]

# Where GB 18030's formula begins: the place of the code for U+10000, in the order of `Tables.four`.
_SUPPLEMENTARY: Final = 189000


@inlined
def _put_character(out: Bytes, at: Int, point: Int) -> Int:
    """Writes the character in UTF-8, and returns the index after it."""
    if point < 0x80:
        out[at] = point
        return at + 1
    if point < 0x800:
        out[at] = 0xC0 | point >> 6
        out[at + 1] = 0x80 | point & 0x3F
        return at + 2
    if point < 0x10000:
        out[at] = 0xE0 | point >> 12
        out[at + 1] = 0x80 | point >> 6 & 0x3F
        out[at + 2] = 0x80 | point & 0x3F
        return at + 3
    out[at] = 0xF0 | point >> 18
    out[at + 1] = 0x80 | point >> 12 & 0x3F
    out[at + 2] = 0x80 | point >> 6 & 0x3F
    out[at + 3] = 0x80 | point & 0x3F
    return at + 4


@inlined
def _four_bytes(data: Bytes, at: Int, four: CodePoints) -> Int:
    """The code point of GB 18030's code of four bytes, the first two of which are known to begin one."""
    third, fourth = np.int64(data[at + 2]) - 0x81, np.int64(data[at + 3]) - 0x30
    if not (0 <= third < 126 and 0 <= fourth < 10):
        return NO_CODE
    place = ((np.int64(data[at]) - 0x81) * 10 + np.int64(data[at + 1]) - 0x30) * 1260 + third * 10 + fourth
    if place < FOUR_BYTES:
        return np.int64(four[place])
    point = place - _SUPPLEMENTARY + 0x10000
    return point if 0x10000 <= point < 0x110000 else NO_CODE


@compiled(int64(READ_BYTES, int32[::1], _POINTS, _POINTS, _POINTS, _POINTS, uint8[::1], int64[::1]))
def decode_by_table(
    data: Bytes,
    ends: Ends,
    one: CodePoints,
    two: CodePoints,
    three: CodePoints,
    four: CodePoints,
    out: Bytes,
    out_ends: Longs,
) -> Int:
    """Text in one of the sets of `charset_tables`. Returns the place in `data` of a code without a character."""
    to: Int = np.int64(0)
    out_ends[0] = 0
    for i in range(len(ends) - 1):
        at, end = np.int64(ends[i]), np.int64(ends[i + 1])
        while at < end:
            point: Int = np.int64(one[data[at]])
            size = 1
            if point == LEAD and end - at >= 2:
                point = np.int64(two[np.int64(data[at]) << 8 | data[at + 1]])
                size = 2
                if point == LEAD and len(three) > 0 and end - at >= 3:
                    point = np.int64(three[np.int64(data[at + 1]) << 8 | data[at + 2]])
                    size = 3
                elif point == LEAD and len(four) > 0 and end - at >= 4:
                    point = _four_bytes(data, at, four)
                    size = 4
            if point < 0:
                return at
            to = _put_character(out, to, point)
            at += size
        out_ends[i + 1] = to
    return WHOLE_TEXT


@inlined
def _unit(data: Bytes, at: Int, width: Int, little: bool) -> Int:
    """The number in `width` bytes."""
    unit: Int = np.int64(0)
    for k in range(width):
        unit = unit << 8 | np.int64(data[at + (width - 1 - k if little else k)])
    return unit


@compiled(int64(READ_BYTES, int32[::1], int64, boolean, boolean, uint8[::1], int64[::1]))
def decode_by_unit(
    data: Bytes, ends: Ends, width: Int, little: bool, pairs: bool, out: Bytes, out_ends: Longs
) -> Int:
    """Converts text in units of 2 or 4 bytes; `pairs`: two units may make one character (UTF-16).

    Returns the index in `data` of what isn't a character.
    """
    to: Int = np.int64(0)
    out_ends[0] = 0
    for i in range(len(ends) - 1):
        at, end = np.int64(ends[i]), np.int64(ends[i + 1])
        while at < end:
            if end - at < width:
                return at
            point = _unit(data, at, width, little)
            size = width
            if pairs and 0xD800 <= point < 0xDC00 and end - at >= 2 * width:
                low = _unit(data, at + width, width, little)
                if 0xDC00 <= low < 0xE000:
                    point = 0x10000 + ((point & 0x3FF) << 10 | low & 0x3FF)
                    size = 2 * width
            if point > 0x10FFFF or 0xD800 <= point < 0xE000:
                return at
            to = _put_character(out, to, point)
            at += size
        out_ends[i + 1] = to
    return WHOLE_TEXT
