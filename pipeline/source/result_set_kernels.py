"""The compiled loops between the packets of a result set and Arrow's buffers.

`buffer` holds row packets as they came, one after the other. A *cell* says of one column in one row where its value
begins in the buffer. A value without a fixed width begins with its length. `NULL` is a cell too.

**No read outside the buffer.** Compiled code isn't checked, so the argument is this. `frame` reads headers of four
bytes, and one byte after them, only if they lie before the end. `locate_values` alone reads lengths that come from the
server. It takes a row only if each of its values, lengths included, lies before the row's end. Otherwise it ends with
the row at fault. So a reader of a cell may read the width or the length that `locate_values` has checked. Or it may
read eight bytes, since each buffer has so many after the rows (`SLACK`).

Source: MySQL 9.7 source documentation, "MySQL Packets", "Binary Protocol Resultset", "Protocol::LengthEncodedInteger".
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from pipeline.types.buffers import NULL, Bytes, Cells, CellTable, Int, Longs
from pipeline.types.byte_kernels import unsigned
from pipeline.types.jit import compiled

NONE: Final = -1

# What `frame` found.
MORE: Final = 0  # all whole packets were rows; there's more to come
ENDED: Final = 1  # the EOF packet
FAILED: Final = 2  # an ERR packet
LOST: Final = 3  # a packet without the next sequence number

# What `frame` keeps between two calls: where the next packet begins, where the last whole row ends, the next packet's
# number, whether that continues a row, how many rows are whole, and how many packets continued one.
AT: Final = 0
RESULT_WHOLE: Final = 1
SEQUENCE: Final = 2
INSIDE: Final = 3
ROWS: Final = 4
CONTINUED: Final = 5

LARGEST_PACKET: Final = 0xFFFFFF  # bytes; a packet of this size continues in the next one
_HEADER: Final = 4
_MICROSECONDS: Final = 1_000_000
_LONGEST_DAYS: Final = 34  # 838:59:59
_LOW_32: Final = 0xFFFFFFFF
_TEN_18: Final = 10**18


@compiled("int64(uint8[::1], int64, int64[::1])")
def frame(buffer: Bytes, end: int, state: Longs) -> int:
    """Advance over the whole packets in buffer[:end], and return what was found; not over EOF and ERR packets."""
    at, sequence, inside = state[AT], state[SEQUENCE], state[INSIDE]
    found = MORE
    while end - at > _HEADER:
        size = unsigned(buffer, at, 3)
        if at + _HEADER + size > end:
            break
        if buffer[at + 3] != sequence:
            found = LOST
            break
        if not inside:
            first = buffer[at + _HEADER]
            if first == 0xFE and size < 9:
                found = ENDED
                break
            if first == 0xFF:
                found = FAILED
                break
        at += _HEADER + size
        sequence = (sequence + 1) & 255
        state[CONTINUED] += inside
        inside = 1 if size == LARGEST_PACKET else 0
        if not inside:
            state[ROWS] += 1
            state[RESULT_WHOLE] = at
    state[AT], state[SEQUENCE], state[INSIDE] = at, sequence, inside
    return found


@compiled("int64(uint8[::1], int64)")
def join(buffer: Bytes, end: int) -> int:
    """Take the headers out from inside of rows of several packets, in place; returns the new end."""
    read, write = 0, 0
    inside = False
    while read < end:
        size = unsigned(buffer, read, 3)
        if inside:
            read += _HEADER
        else:
            size += _HEADER
        for i in range(size):  # The target is never after the source, so this order is safe.
            buffer[write + i] = buffer[read + i]
        read += size
        write += size
        inside = (size if inside else size - _HEADER) == LARGEST_PACKET
    return write


@compiled("UniTuple(int64, 2)(uint8[::1], int64)", inlined=True)
def length_encoded(buffer: Bytes, at: Int) -> tuple[Int, Int]:
    """Where the bytes of a value with its length before it begin, and how many there are."""
    length: Int = np.int64(buffer[at])
    if length < 251:
        return at + 1, length
    width = 2 if length == 252 else 3 if length == 253 else 8
    return at + 1 + width, unsigned(buffer, at + 1, width)


@compiled("int64(uint8[::1], int64, int64[::1], int32[:, ::1])")
def locate_values(buffer: Bytes, end: int, widths: Longs, cells: CellTable) -> int:
    """Finds all values of the rows in buffer[:end]; `cells` is [columns, rows].

    `widths`: the bytes of each column's values, 0 if they have their own length. Returns the first row that isn't
    complete.
    """
    columns, rows = cells.shape
    bitmap = (columns + 9) >> 3
    at: Int = np.int64(0)
    for row in range(rows):
        size = unsigned(buffer, at, 3) if at + _HEADER <= end else np.int64(0)
        at += _HEADER
        # No packet says where a row of several packets ends.
        stop = at + size if size != LARGEST_PACKET else np.int64(end)
        nulls = at + 1  # after a byte that is zero
        at = nulls + bitmap
        if stop > end or at > stop or buffer[nulls - 1] != 0:
            return row
        for column in range(columns):
            bit = column + 2
            if (buffer[nulls + (bit >> 3)] >> (bit & 7)) & 1:
                cells[column, row] = NULL
                continue
            cells[column, row] = at
            if widths[column] > 0:
                at += widths[column]
                continue
            if at >= stop:
                return row
            if buffer[at] in (251, 255):  # neither begins a length; one that isn't whole ends in the slack
                return row
            at, length = length_encoded(buffer, at)
            if length < 0 or length > stop - at:
                return row
            at += length
        if at > stop or (at != stop and size != LARGEST_PACKET):
            return row
    return NONE if at == end else rows - 1


@compiled("void(uint8[::1], int32[::1], int64[::1])")
def extents(buffer: Bytes, cells: Cells, offsets: Longs) -> None:
    """Where each value goes when all of them are laid end to end: `offsets` has one entry more than `cells`."""
    offsets[0] = 0
    for i in range(len(cells)):
        length: Int = np.int64(0)
        if cells[i] >= 0:
            _, length = length_encoded(buffer, cells[i])
        offsets[i + 1] = offsets[i] + length


@compiled("void(uint8[::1], int32[::1], int64[::1], uint8[::1])")
def copy_values(buffer: Bytes, cells: Cells, offsets: Longs, out: Bytes) -> None:
    """Lays the values end to end, at the places that `extents` found."""
    for i in range(len(cells)):
        if cells[i] >= 0:
            at, length = length_encoded(buffer, cells[i])
            here, there = np.uint64(at), np.uint64(offsets[i])
            for k in range(np.uint64(length)):  # unsigned, so that LLVM makes larger steps of them
                out[there + k] = buffer[here + k]


@compiled("int64(uint8[::1], int32[::1], int64, uint64[:, ::1])")
def parse_decimals(buffer: Bytes, cells: Cells, scale: int, out: NDArray[np.uint64]) -> int:
    """decimal128 words (low, high) of numbers with `scale` digits after the point; zero for NULL.

    Returns the first that isn't such a number; up to 38 digits are taken for granted.
    """
    low_32, half = np.uint64(_LOW_32), np.uint64(32)
    for i in range(len(cells)):
        out[i, 0], out[i, 1] = 0, 0
        if cells[i] < 0:
            continue
        at, length = length_encoded(buffer, cells[i])
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
                digit = np.int64(buffer[at]) - 48
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


@compiled("int64(int64, int64, int64)", inlined=True)
def _packed_date(year: Int, month: Int, day: Int) -> Int:
    """`year << 9 | month << 5 | day`; negative for one that can't be."""
    if year > 9999 or month > 12 or day > 31:
        return np.int64(-1)
    return year << 9 | month << 5 | day


@compiled("int64(uint8[::1], int64, boolean)", inlined=True)
def _packed_time(buffer: Bytes, at: Int, fraction: bool) -> Int:
    """Hour, minute, second and, if there's a `fraction`, microseconds in 5, 6, 6 and 20 bits; -1 if they can't be."""
    hour, minute, second = np.int64(buffer[at]), np.int64(buffer[at + 1]), np.int64(buffer[at + 2])
    micros: Int = unsigned(buffer, at + 3, 4) if fraction else np.int64(0)
    if hour > 23 or minute > 59 or second > 59 or micros >= _MICROSECONDS:
        return np.int64(-1)
    return hour << 32 | minute << 26 | second << 20 | micros


@compiled("int64(uint8[::1], int32[::1], int64[::1])")
def packed_dates(buffer: Bytes, cells: Cells, out: Longs) -> int:
    """`year << 9 | month << 5 | day` of dates; zero for NULL. Returns the first that isn't one."""
    for i in range(len(cells)):
        at = np.int64(cells[i])
        out[i] = 0
        if at < 0 or buffer[at] == 0:  # What is left out at the end is zero, and here that's all.
            continue
        if buffer[at] != 4:
            return i
        packed = _packed_date(unsigned(buffer, at + 1, 2), np.int64(buffer[at + 3]), np.int64(buffer[at + 4]))
        if packed < 0:
            return i
        out[i] = packed
    return NONE


@compiled("int64(uint8[::1], int32[::1], int64[::1])")
def packed_datetimes(buffer: Bytes, cells: Cells, out: Longs) -> int:
    """Dates with their times in the log's packed form (WL#946) with 20 bits of microseconds; zero for NULL.

    Returns the first that isn't one.
    """
    for i in range(len(cells)):
        at = np.int64(cells[i])
        out[i] = 0
        if at < 0 or buffer[at] == 0:
            continue
        size = np.int64(buffer[at])
        if size not in (4, 7, 11):
            return i
        date = _packed_date(unsigned(buffer, at + 1, 2), np.int64(buffer[at + 3]), np.int64(buffer[at + 4]))
        time: Int = np.int64(0) if size == 4 else _packed_time(buffer, at + 5, size == 11)
        if date < 0 or time < 0:
            return i
        out[i] = ((date >> 9) * 13 + (date >> 5 & 15)) << 42 | (date & 31) << 37 | time
    return NONE


@compiled("int64(uint8[::1], int32[::1], int64[::1])")
def times(buffer: Bytes, cells: Cells, out: Longs) -> int:
    """Times in signed microseconds; zero for NULL. Returns the first that isn't one."""
    for i in range(len(cells)):
        at = np.int64(cells[i])
        out[i] = 0
        if at < 0 or buffer[at] == 0:
            continue
        size = np.int64(buffer[at])
        if size not in (8, 12) or buffer[at + 1] > 1:
            return i
        days, time = unsigned(buffer, at + 2, 4), _packed_time(buffer, at + 6, size == 12)
        if time < 0 or days > _LONGEST_DAYS:
            return i
        hours, minutes = days * 24 + (time >> 32), time >> 26 & 63
        value = ((hours * 60 + minutes) * 60 + (time >> 20 & 63)) * _MICROSECONDS + (time & 0xFFFFF)
        out[i] = -value if buffer[at + 1] else value
    return NONE
