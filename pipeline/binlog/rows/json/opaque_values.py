"""Compiled: the values in JSON documents that JSON has no type for, but SQL has.

Source: MySQL 9.7 source, sql-common/json_dom.cc (`wrapper_to_string`, `convert_from_binary`), mysys/my_time.cc (packed
dates), strings/decimal.cc (`decimal2bin`).
"""

from typing import Final

import numpy as np

from pipeline.binlog.rows.json.text_kernels import PIECE, QUOTE, base64, base64_room, natural, padded
from pipeline.types.buffers import Bytes, Int
from pipeline.types.field_types import FieldType
from pipeline.types.jit import compiled

# What a piece comes back as that isn't written.
NOT_WRITTEN: Final = -1
NO_DECIMAL: Final = -2
NO_DATE: Final = -3

_NEWDECIMAL: Final = int(FieldType.NEWDECIMAL)
_DATE: Final = int(FieldType.DATE)
_TIME: Final = int(FieldType.TIME)
_DATETIME: Final = int(FieldType.DATETIME)
_TIMESTAMP: Final = int(FieldType.TIMESTAMP)

_MINUS: Final = ord("-")
_DOT: Final = ord(".")
_COLON: Final = ord(":")
_SPACE: Final = ord(" ")
_ZERO: Final = ord("0")
_PREFIX: Final = np.frombuffer(b'"base64:type', np.uint8)
# A DECIMAL has 65 digits, but the precision may count whole groups of nine (DECIMAL_BUFF_LENGTH).
_MOST_DIGITS: Final = 81
_DECIMAL_BYTES: Final = np.array([0, 1, 1, 2, 2, 3, 3, 4, 4, 4], np.int64)  # of a group, by its digits
_POWERS: Final = 10 ** np.arange(10, dtype=np.int64)


@compiled("int64(uint64, uint8[::1], int64)")
def _day(packed: np.uint64, out: Bytes, to: Int) -> Int:
    """A date as it's packed (year * 13 + month, and 5 bits of day); -1 if it's none, zero and partial ones aside."""
    months, day = packed >> np.uint64(5), packed & np.uint64(31)
    year, month = months // np.uint64(13), months % np.uint64(13)
    if year > np.uint64(9999):
        return np.int64(-1)
    to = padded(year, 4, out, to)
    out[to] = _MINUS
    to = padded(month, 2, out, to + 1)
    out[to] = _MINUS
    return padded(day, 2, out, to + 1)


@compiled("int64(uint64, uint64, uint8[::1], int64)")
def _clock(packed: np.uint64, most_hours: np.uint64, out: Bytes, to: Int) -> Int:
    """Hours, minutes, seconds (6 bits each of the last two) and 24 bits of microseconds; -1 if they're none."""
    low_6 = np.uint64(63)
    fraction, whole = packed & np.uint64(0xFFFFFF), packed >> np.uint64(24)
    hour, minute, second = whole >> np.uint64(12), (whole >> np.uint64(6)) & low_6, whole & low_6
    sixty = np.uint64(60)
    if hour > most_hours or minute >= sixty or second >= sixty or fraction > np.uint64(999_999):
        return np.int64(-1)
    to = padded(hour, 3 if hour > np.uint64(99) else 2, out, to)
    out[to] = _COLON
    to = padded(minute, 2, out, to + 1)
    out[to] = _COLON
    to = padded(second, 2, out, to + 1)
    out[to] = _DOT
    return padded(fraction, 6, out, to + 1)


@compiled("int64(int64, uint8[::1], int64, int64, uint8[::1], int64)")
def _temporal(kind: Int, buffer: Bytes, at: Int, length: Int, out: Bytes, to: Int) -> Int:
    """A packed date, time, or both, in quotes: 8 bytes, little-endian, negative for a negative time."""
    if length != 8:
        return np.int64(NO_DATE)
    packed = np.uint64(0)
    for k in range(8):
        packed |= np.uint64(buffer[at + k]) << np.uint64(8 * k)
    negative = (packed >> np.uint64(63)) != 0
    if negative:
        packed = ~packed + np.uint64(1)
    if negative and kind != _TIME:
        return np.int64(NO_DATE)
    out[to] = QUOTE
    to += 1
    if kind == _TIME:
        if negative:
            out[to] = _MINUS
            to += 1
        to = _clock(packed, np.uint64(838), out, to)
    else:
        to = _day(packed >> np.uint64(41), out, to)
        if kind != _DATE and to >= 0:
            out[to] = _SPACE
            to = _clock(packed & np.uint64((1 << 41) - 1), np.uint64(23), out, to + 1)
    if to < 0:
        return np.int64(NO_DATE)
    out[to] = QUOTE
    return to + 1


@compiled("int64(uint8[::1], int64, int64, uint8[::1], int64)")
def _decimal(buffer: Bytes, at: Int, length: Int, out: Bytes, to: Int) -> Int:
    """Precision and scale, a byte each, and a DECIMAL as it's stored in a row: see pipeline.types.packed_decimal."""
    if length < 3:
        return np.int64(NO_DECIMAL)
    precision, scale = np.int64(buffer[at]), np.int64(buffer[at + 1])
    at += 2
    whole = precision - scale
    if precision > _MOST_DIGITS or whole < 0:
        return np.int64(NO_DECIMAL)
    size = whole // 9 * 4 + _DECIMAL_BYTES[whole % 9] + scale // 9 * 4 + _DECIMAL_BYTES[scale % 9]
    if length - 2 != size or size == 0:
        return np.int64(NO_DECIMAL)
    negative = buffer[at] < 128
    flip = np.int64(255) if negative else np.int64(0)
    first = np.int64(128)
    if negative:
        out[to] = _MINUS
        to += 1
    begin = to
    for part in range(2):  # before the point, and after it
        left = whole if part == 0 else scale
        if part == 1 and to == begin:
            out[to] = _ZERO
            to += 1
        if part == 1 and scale > 0:
            out[to] = _DOT
            to += 1
        while left > 0:
            # Odd digits are first before the point, and last after it.
            odd = left % 9 if part == 0 else min(left, np.int64(9))
            digits = odd if odd > 0 else np.int64(9)
            group = np.int64(0)
            for _ in range(_DECIMAL_BYTES[digits]):
                group = (group << 8) | (np.int64(buffer[at]) ^ flip ^ first)
                first = np.int64(0)
                at += 1
            if group >= _POWERS[digits]:
                return np.int64(NO_DECIMAL)
            for k in range(digits):
                digit = group // _POWERS[digits - 1 - k] % 10
                if part == 1 or digit > 0 or to > begin:
                    out[to] = np.uint8(_ZERO + digit)
                    to += 1
            left -= digits
    return to


@compiled("int64(int64, uint8[::1], int64, int64, uint8[::1], int64)")
def opaque(kind: Int, buffer: Bytes, at: Int, length: Int, out: Bytes, to: Int) -> Int:
    """Write the value of a field type that lies in `length` bytes at buffer[at:]. Returns where the next piece goes, or
    NOT_WRITTEN (`out` needs more than PIECE bytes), NO_DECIMAL or NO_DATE."""
    if kind == _NEWDECIMAL:
        return _decimal(buffer, at, length, out, to)
    if kind in (_DATE, _TIME, _DATETIME, _TIMESTAMP):
        return _temporal(kind, buffer, at, length, out, to)
    if to + PIECE + base64_room(length) > len(out):
        return np.int64(NOT_WRITTEN)
    for k in range(len(_PREFIX)):
        out[to + k] = _PREFIX[k]
    to = natural(np.uint64(kind), out, to + len(_PREFIX))
    out[to] = _COLON
    to = base64(buffer, at, length, out, to + 1)
    out[to] = QUOTE
    return to + 1
