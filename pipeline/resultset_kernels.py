"""The compiled loops between the packets of a result set and Arrow's buffers.

`buffer` holds row packets as they came, one after the other. `starts` and `lengths` hold for one column and each row
where its value's text begins in the buffer and how many bytes it has; a length of `NULL` says NULL.

**No read outside the buffer.** `frame` reads headers of four bytes that it has seen to lie before the end. `locate`
alone looks at lengths that come from the server; it writes a cell only when the whole value lies before the end, and
ends with the row at fault otherwise. Every other kernel reads just what such a cell spans.

Source: MySQL 9.7 source documentation, "MySQL Packets", "Text Resultset", "Protocol::LengthEncodedInteger".
"""

from typing import Final

import numpy as np
from numba import njit
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Places = NDArray[np.int32]  # of one column
PlaceTable = NDArray[np.int32]  # [columns, rows]
Longs = NDArray[np.int64]
Flags = NDArray[np.bool_]

NULL: Final = -1
NONE: Final = -1

# What `frame` found.
MORE: Final = 0  # all whole packets were rows; there's more to come
ENDED: Final = 1  # the EOF packet
FAILED: Final = 2  # an ERR packet
LOST: Final = 3  # a packet without the next sequence number

LARGEST_PACKET: Final = 0xFFFFFF  # bytes; a packet of this size goes on in the next one
_HEADER: Final = 4
_MICROSECONDS: Final = 1_000_000
_LOW_32: Final = 0xFFFFFFFF
_TEN_18: Final = 10**18


@njit("int64(uint8[::1], int64, int64)", cache=True, nogil=True)
def _unsigned(buffer: Bytes, at: int, width: int) -> int:
    value = 0
    for i in range(width):
        value |= int(buffer[at + i]) << (8 * i)
    return value


@njit("UniTuple(int64, 6)(uint8[::1], int64, int64, int64, int64)", cache=True, nogil=True)
def frame(
    buffer: Bytes, at: int, end: int, sequence: int, inside: int
) -> tuple[int, int, int, int, int, int]:
    """Walk over the whole packets in buffer[at:end]; `inside` is 1 if the first one continues a row.

    Returns what was found, the place after the last row packet, the next sequence number, `inside` for what follows,
    how many rows were completed, and how many packets continued one. EOF and ERR packets aren't walked over.
    """
    rows, continued = 0, 0
    while end - at > _HEADER:
        size = _unsigned(buffer, at, 3)
        if at + _HEADER + size > end:
            break
        if buffer[at + 3] != sequence:
            return LOST, at, sequence, inside, rows, continued
        if not inside:
            first = buffer[at + _HEADER]
            if first == 0xFE and size < 9:
                return ENDED, at, sequence, inside, rows, continued
            if first == 0xFF:
                return FAILED, at, sequence, inside, rows, continued
        continued += inside
        inside = 1 if size == LARGEST_PACKET else 0
        rows += 1 - inside
        at += _HEADER + size
        sequence = (sequence + 1) & 255
    return MORE, at, sequence, inside, rows, continued


@njit("int64(uint8[::1], int64)", cache=True, nogil=True)
def join(buffer: Bytes, end: int) -> int:
    """Take the headers out from inside of rows of several packets, in place; returns the new end."""
    read, write = 0, 0
    inside = False
    while read < end:
        size = _unsigned(buffer, read, 3)
        if inside:
            read += _HEADER
        else:
            size += _HEADER
        for i in range(size):  # The target is never behind the source, so this order is safe.
            buffer[write + i] = buffer[read + i]
        read += size
        write += size
        inside = (size if inside else size - _HEADER) == LARGEST_PACKET
    return write


@njit("int64(uint8[::1], int64, int32[:, ::1], int32[:, ::1])", cache=True, nogil=True)
def locate(buffer: Bytes, end: int, starts: PlaceTable, lengths: PlaceTable) -> int:
    """Find all values of the rows in buffer[:end]: `starts` and `lengths` are [columns, rows].

    Returns the first row that isn't whole, or NONE.
    """
    columns, rows = starts.shape
    at = 0
    for row in range(rows):
        size = _unsigned(buffer, at, 3) if at + _HEADER <= end else -1
        at += _HEADER
        begin = at
        for column in range(columns):
            if at >= end:
                return row
            length = int(buffer[at])
            at += 1
            if length == 251:
                starts[column, row] = at
                lengths[column, row] = NULL
                continue
            if length > 251:
                width = 2 if length == 252 else 3 if length == 253 else 8
                if at + width > end:
                    return row
                length = _unsigned(buffer, at, width)
                at += width
            if length < 0 or length > end - at:
                return row
            starts[column, row] = at
            lengths[column, row] = length
            at += length
        if size != LARGEST_PACKET and at - begin != size:
            return row
    return NONE if at == end else rows - 1


@njit("void(int32[::1], boolean[::1])", cache=True, nogil=True)
def exist(lengths: Places, out: Flags) -> None:
    """Which values aren't NULL."""
    for i in range(len(lengths)):
        out[i] = lengths[i] >= 0


@njit("void(int32[::1], int64[::1])", cache=True, nogil=True)
def extents(lengths: Places, offsets: Longs) -> None:
    """Where each value goes when all of them are laid end to end: `offsets` has one entry more than `lengths`."""
    offsets[0] = 0
    for i in range(len(lengths)):
        offsets[i + 1] = offsets[i] + max(int(lengths[i]), 0)


@njit("void(uint8[::1], int32[::1], int32[::1], int64[::1], uint8[::1])", cache=True, nogil=True)
def copy(buffer: Bytes, starts: Places, lengths: Places, offsets: Longs, out: Bytes) -> None:
    """Lay the values end to end where `extents` said."""
    for i in range(len(starts)):
        at, to = int(starts[i]), offsets[i]
        for k in range(int(lengths[i])):
            out[to + k] = buffer[at + k]


@njit("int64(uint8[::1], int32[::1], int32[::1], int64[::1])", cache=True, nogil=True)
def integers(buffer: Bytes, starts: Places, lengths: Places, out: Longs) -> int:
    """Decimal integers that fit into 64 bits with their sign; zero for NULL. Returns the first that isn't one."""
    for i in range(len(starts)):
        at, length = int(starts[i]), int(lengths[i])
        out[i] = 0
        if length < 0:
            continue
        negative = length > 0 and buffer[at] == 45
        first = 1 if negative else 0
        if length == first:
            return i
        value = 0
        for k in range(first, length):
            digit = int(buffer[at + k]) - 48
            if digit < 0 or digit > 9:
                return i
            value = value * 10 - digit  # Negative numbers reach one further than positive ones.
        out[i] = value if negative else -value
    return NONE


@njit("int64(uint8[::1], int32[::1], int32[::1], int64, uint64[:, ::1])", cache=True, nogil=True)
def decimals(buffer: Bytes, starts: Places, lengths: Places, scale: int, out: NDArray[np.uint64]) -> int:
    """decimal128 words (low, high) of numbers with `scale` digits after the point; zero for NULL.

    Returns the first that isn't such a number; up to 38 digits are taken for granted.
    """
    low_32, half = np.uint64(_LOW_32), np.uint64(32)
    for i in range(len(starts)):
        at, length = int(starts[i]), int(lengths[i])
        out[i, 0], out[i, 1] = 0, 0
        if length < 0:
            continue
        end = at + length
        negative = length > 0 and buffer[at] == 45
        if negative:
            at += 1
        point = end - scale - 1 if scale > 0 else end
        if at >= point:
            return i
        low, high = np.uint64(0), np.uint64(0)
        part, limit = np.uint64(0), np.uint64(1)
        while at < end:
            if at == point:
                if buffer[at] != 46:
                    return i
            else:
                digit = int(buffer[at]) - 48
                if digit < 0 or digit > 9:
                    return i
                part = part * np.uint64(10) + np.uint64(digit)
                limit *= np.uint64(10)
            at += 1
            if at == end or limit == np.uint64(_TEN_18):
                # (high, low) * limit + part, by halves of 32 bits: products of whole words wouldn't fit.
                limit_low, limit_high = limit & low_32, limit >> half
                a, b = low & low_32, low >> half
                p00, p01, p10, p11 = a * limit_low, a * limit_high, b * limit_low, b * limit_high
                mid = (p00 >> half) + (p01 & low_32) + (p10 & low_32)
                high = high * limit + p11 + (p01 >> half) + (p10 >> half) + (mid >> half)
                low = (mid << half) | (p00 & low_32)
                low += part
                if low < part:
                    high += np.uint64(1)
                part, limit = np.uint64(0), np.uint64(1)
        if negative:
            low = ~low + np.uint64(1)
            high = ~high + (np.uint64(1) if low == 0 else np.uint64(0))
        out[i, 0], out[i, 1] = low, high
    return NONE


@njit("int64(uint8[::1], int64, int64)", cache=True, nogil=True)
def _digits(buffer: Bytes, at: int, count: int) -> int:
    """The number in `count` digits, negative if there's anything else among them."""
    value = 0
    for i in range(count):
        digit = int(buffer[at + i]) - 48
        if digit < 0 or digit > 9:
            return -1
        value = value * 10 + digit
    return value


@njit("int64(uint8[::1], int64, int64)", cache=True, nogil=True)
def _fraction(buffer: Bytes, at: int, end: int) -> int:
    """The microseconds in `.ffffff` with up to six digits, or in nothing; negative if it's neither."""
    if at == end:
        return 0
    if buffer[at] != 46 or not 2 <= end - at <= 7:
        return -1
    value = _digits(buffer, at + 1, end - at - 1)
    for _ in range(7 - (end - at)):
        value *= 10
    return value


@njit("int64(uint8[::1], int64)", cache=True, nogil=True)
def _packed_date(buffer: Bytes, at: int) -> int:
    """`year << 9 | month << 5 | day` of the ten bytes YYYY-MM-DD; negative if they're something else."""
    if buffer[at + 4] != 45 or buffer[at + 7] != 45:
        return -1
    year, month, day = _digits(buffer, at, 4), _digits(buffer, at + 5, 2), _digits(buffer, at + 8, 2)
    if min(year, month, day) < 0 or month > 12 or day > 31:
        return -1
    return year << 9 | month << 5 | day


@njit("int64(uint8[::1], int32[::1], int32[::1], int64[::1])", cache=True, nogil=True)
def packed_dates(buffer: Bytes, starts: Places, lengths: Places, out: Longs) -> int:
    """`year << 9 | month << 5 | day` of YYYY-MM-DD; zero for NULL. Returns the first that isn't such a text."""
    for i in range(len(starts)):
        at, length = int(starts[i]), int(lengths[i])
        out[i] = 0
        if length < 0:
            continue
        packed = _packed_date(buffer, at) if length == 10 else -1
        if packed < 0:
            return i
        out[i] = packed
    return NONE


@njit("int64(uint8[::1], int32[::1], int32[::1], int64[::1])", cache=True, nogil=True)
def packed_datetimes(buffer: Bytes, starts: Places, lengths: Places, out: Longs) -> int:
    """YYYY-MM-DD hh:mm:ss[.f] in the log's packed form (WL#946) with 20 bits of microseconds; zero for NULL.

    Returns the first that isn't such a text.
    """
    for i in range(len(starts)):
        at, length = int(starts[i]), int(lengths[i])
        out[i] = 0
        if length < 0:
            continue
        if length < 19 or buffer[at + 10] != 32 or buffer[at + 13] != 58 or buffer[at + 16] != 58:
            return i
        date = _packed_date(buffer, at)
        hour, minute = _digits(buffer, at + 11, 2), _digits(buffer, at + 14, 2)
        second, fraction = _digits(buffer, at + 17, 2), _fraction(buffer, at + 19, at + length)
        if min(date, hour, minute, second, fraction) < 0 or hour > 23 or minute > 59 or second > 59:
            return i
        months, day = (date >> 9) * 13 + (date >> 5 & 15), date & 31
        whole = months << 22 | day << 17 | hour << 12 | minute << 6 | second
        out[i] = whole << 20 | fraction
    return NONE


@njit("int64(uint8[::1], int32[::1], int32[::1], int64[::1])", cache=True, nogil=True)
def times(buffer: Bytes, starts: Places, lengths: Places, out: Longs) -> int:
    """Signed microseconds of [-]hh:mm:ss[.f] with two or three digits of hours; zero for NULL.

    Returns the first that isn't such a text.
    """
    for i in range(len(starts)):
        at, length = int(starts[i]), int(lengths[i])
        out[i] = 0
        if length < 0:
            continue
        end = at + length
        negative = length > 0 and buffer[at] == 45
        if negative:
            at += 1
        if end - at < 8:
            return i
        wide = 2 if buffer[at + 2] == 58 else 3
        if end - at < wide + 6 or buffer[at + wide] != 58 or buffer[at + wide + 3] != 58:
            return i
        hour, minute = _digits(buffer, at, wide), _digits(buffer, at + wide + 1, 2)
        second, fraction = _digits(buffer, at + wide + 4, 2), _fraction(buffer, at + wide + 6, end)
        if min(hour, minute, second, fraction) < 0 or minute > 59 or second > 59:
            return i
        value = ((hour * 60 + minute) * 60 + second) * _MICROSECONDS + fraction
        out[i] = -value if negative else value
    return NONE
