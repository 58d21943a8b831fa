"""Compiled: the legs of a path into a JSON document, one after the other, as the server writes paths into diffs.

`$.name` and `$."any \"text\""` are members, `$[3]` and `$[last-2]` elements. A name without quotes is what the server
takes for an identifier of ECMAScript. It may have characters beyond ASCII, so that it ends only at a character of
`_ENDS`.

Source: MySQL 9.7 source, sql-common/json_path.cc (`parse_member_leg`, `parse_array_leg`), json_dom.cc (`double_quote`).
"""

from typing import Final

import numpy as np

from pipeline.types.buffers import Bytes, Int, Longs
from pipeline.types.jit import compiled

NO_PATH: Final = -20  # what `next_leg` returns where the bytes are no path

# A leg, in `leg`: its kind; of a member the place of its name in `names`, and how long it is; of an element its number,
# counted from the array's beginning or from its end.
LEG_KIND: Final = 0
LEG_NAME: Final = 1
LEG_LENGTH: Final = 2
LEG_NUMBER: Final = 3
LEG_SIZE: Final = 4  # numbers

MEMBER_LEG: Final = 0
_FROM_BEGINNING_LEG: Final = 1
FROM_END_LEG: Final = 2

_ENDS: Final = np.zeros(256, np.bool_)
_ENDS[list(b'.[*" \t\n\v\f\r')] = True
_BEYOND: Final = 2**32  # elements, which no array has
_LAST: Final = np.frombuffer(b"last", np.uint8)
_LONGEST_NAME: Final = 2**16 - 1  # bytes

# What stands behind a backslash, and what it stands for.
_UNESCAPED: Final = np.zeros(256, np.uint8)
for _letter, _meant in zip(b'"\\/bfnrt', b'"\\/\b\f\n\r\t', strict=True):
    _UNESCAPED[_letter] = _meant


@compiled("int64(int64)", inlined=True)
def _hex_digit(digit: Int) -> Int:
    """The value of a hexadecimal digit, or -1."""
    if 48 <= digit <= 57:
        return digit - 48
    lower = digit | 32
    return lower - 87 if 97 <= lower <= 102 else np.int64(-1)


@compiled("int64(uint8[::1], int64, int64)", inlined=True)
def _code_unit(buffer: Bytes, at: Int, end: Int) -> Int:
    """The number in the four hexadecimal digits of `\\uXXXX`, or -1. The server writes it of control characters."""
    if at + 4 > end:
        return np.int64(-1)
    unit = np.int64(0)
    for k in range(4):
        digit = _hex_digit(np.int64(buffer[at + k]))
        if digit < 0:
            return np.int64(-1)
        unit = unit * 16 + digit
    return unit if unit < 0x80 else np.int64(-1)


@compiled("UniTuple(int64, 2)(uint8[::1], int64, int64, uint8[::1], int64)")
def _quoted(buffer: Bytes, at: Int, end: Int, names: Bytes, to: Int) -> tuple[Int, Int]:
    """Copies the name in quotes whose text begins at buffer[at:]. Returns the places behind both, or NO_PATH."""
    wrong = (np.int64(NO_PATH), to)
    while at < end:
        letter = buffer[at]
        at += 1
        if letter == 34:  # "
            return at, to
        if letter < 32:
            return wrong
        if letter == 92:  # \
            if at == end:
                return wrong
            if buffer[at] == 117:  # u
                unit = _code_unit(buffer, at + 1, end)
                if unit < 0:
                    return wrong
                letter = np.uint8(unit)
                at += 5
            else:
                letter = _UNESCAPED[buffer[at]]
                if letter == 0:
                    return wrong
                at += 1
        names[to] = letter
        to += 1
    return wrong


@compiled("int64(uint8[::1], int64, int64, uint8[::1], int64, int64[::1])", inlined=True)
def _member(buffer: Bytes, at: Int, end: Int, names: Bytes, to: Int, leg: Longs) -> Int:
    """The name at buffer[at:], behind its dot."""
    leg[LEG_KIND], leg[LEG_NAME] = MEMBER_LEG, to
    if at < end and buffer[at] == 34:  # "
        at, to = _quoted(buffer, at + 1, end, names, to)
    else:
        first = at
        while at < end and not _ENDS[buffer[at]]:
            names[to] = buffer[at]
            at += 1
            to += 1
        if at == first:
            return np.int64(NO_PATH)
    leg[LEG_LENGTH] = to - leg[LEG_NAME]
    return at if leg[LEG_LENGTH] <= _LONGEST_NAME else np.int64(NO_PATH)


@compiled("UniTuple(int64, 2)(uint8[::1], int64, int64)", inlined=True)
def _digits(buffer: Bytes, at: Int, end: Int) -> tuple[Int, Int]:
    """Returns the place behind a natural number, and the number; or NO_PATH."""
    first, number = at, np.int64(0)
    while at < end and 48 <= buffer[at] <= 57:
        number = min(number * 10 + np.int64(buffer[at]) - 48, np.int64(_BEYOND))
        at += 1
    return (at, number) if at > first else (np.int64(NO_PATH), number)


@compiled("int64(uint8[::1], int64, int64, int64[::1])", inlined=True)
def _element(buffer: Bytes, at: Int, end: Int, leg: Longs) -> Int:
    """The number at buffer[at:], behind its bracket."""
    leg[LEG_KIND], leg[LEG_NUMBER] = _FROM_BEGINNING_LEG, 0
    if at + 4 <= end and buffer[at] == _LAST[0]:
        for k in range(4):
            if buffer[at + k] != _LAST[k]:
                return np.int64(NO_PATH)
        at += 4
        leg[LEG_KIND] = FROM_END_LEG
    if leg[LEG_KIND] == _FROM_BEGINNING_LEG or (at < end and buffer[at] == 45):  # -
        at, leg[LEG_NUMBER] = _digits(buffer, at + (leg[LEG_KIND] == FROM_END_LEG), end)
    if at < 0 or at >= end or buffer[at] != 93:  # ]
        return np.int64(NO_PATH)
    return at + 1


@compiled("int64(uint8[::1], int64, int64, uint8[::1], int64, int64[::1])")
def next_leg(buffer: Bytes, at: Int, end: Int, names: Bytes, to: Int, leg: Longs) -> Int:
    """Reads the leg at buffer[at:end] into `leg`; a name goes to names[to:], which has as much room as the leg has
    bytes.

    Returns the place behind it, or NO_PATH.
    """
    if at < end and buffer[at] == 46:  # .
        return _member(buffer, at + 1, end, names, to, leg)
    if at < end and buffer[at] == 91:  # [
        return _element(buffer, at + 1, end, leg)
    return np.int64(NO_PATH)
