"""The compiled loops between row images and Arrow's buffers.

All of them see the same two things: `buffer`, the bodies of row events one after the other, followed by at least
`SLACK` bytes that belong to nobody; and `cells`, which holds for one column and each row image where its value
begins in the buffer, or `NULL`.

**No read outside the buffer.** Compiled code isn't checked, so the argument is this. `walk` alone looks at lengths
that come from the log. It counts a row only when each of its values, length prefixes included, lies before the end
of its event; what isn't whole ends the walk with a status, after a read of no more than a length's 4 bytes. Every
other kernel starts at a cell of a counted row and reads either 8 bytes (for a value of up to 8 bytes; the slack makes
that safe for the last one), or the width that the walk checked, or the length in the prefix that the walk checked.
None of them trusts anything else.

Values that can't be come back as the index of the first one; `NONE` says that there is none.
"""

from typing import Any, Final

import numpy as np
from numba import njit
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Cells = NDArray[np.int32]  # of one column
CellTable = NDArray[np.int32]  # [columns, room]
Longs = NDArray[np.int64]
Flags = NDArray[np.bool_]
Int = int | np.integer[Any]  # compiled code knows but the latter

SLACK: Final = 8
NULL: Final = -1
NONE: Final = -1

# How a walk ends.
WHOLE: Final = 0
FULL: Final = 1  # there are more row images than room for them
TRUNCATED: Final = 2  # the event ends inside of an image
OTHER_COLUMNS: Final = 3  # the event has another number of columns than its table map
PARTIAL: Final = 4  # an image leaves columns out

_HEADER: Final = 8  # table id (6 bytes) and flags (2 bytes)
_DAYS_0000_03_01_TO_1970: Final = 719468
_MICROSECONDS_OF_DAY: Final = 86_400_000_000
_LOW_32: Final = 0xFFFFFFFF


@njit("int64(uint8[::1], int64, int64)", cache=True, nogil=True)
def _unsigned(buffer: Bytes, at: Int, width: Int) -> Int:
    """The little-endian integer of `width` (up to 4) bytes."""
    value: Int = np.int64(0)
    for i in range(width):
        value |= np.int64(buffer[at + i]) << (8 * i)
    return value


@njit("boolean(uint8[::1], int64, int64)", cache=True, nogil=True)
def _all_present(buffer: Bytes, at: Int, columns: Int) -> bool:
    """Whether the first `columns` bits of the bitmap are all set."""
    present = True
    for column in range(columns):
        present &= bool((buffer[at + (column >> 3)] >> (column & 7)) & 1)
    return present


@njit("UniTuple(int64, 2)(uint8[::1], int64, int64, boolean, int64, int32[::1])", cache=True, nogil=True)
def _rows_start(
    buffer: Bytes, start: int, end: int, extended: bool, bitmaps: int, widths: Cells
) -> tuple[int, Int]:
    """The status of the event's header, and where its first row image begins."""
    at: Int = start + _HEADER
    if extended:
        if at + 2 > end:
            return TRUNCATED, at
        at += _unsigned(buffer, at, 2)  # it counts its own two bytes
    if at >= end:
        return TRUNCATED, at
    columns: Int = np.int64(buffer[at])
    at += 1
    if columns == 252:  # a length-encoded integer; a table has no more than 4096 columns
        if at + 2 > end:
            return TRUNCATED, at
        columns = _unsigned(buffer, at, 2)
        at += 2
    elif columns > 250:
        return OTHER_COLUMNS, at
    if columns != len(widths):
        return OTHER_COLUMNS, at
    size = (columns + 7) // 8
    if at + bitmaps * size > end:
        return TRUNCATED, at
    for _ in range(bitmaps):
        if not _all_present(buffer, at, columns):
            return PARTIAL, at
        at += size
    return WHOLE, at


@njit(
    "UniTuple(int64, 3)(uint8[::1], int64, int64, boolean, boolean, int32[::1], int32[:, ::1], int64)",
    cache=True,
    nogil=True,
)
def walk(
    buffer: Bytes,
    start: int,
    end: int,
    extended: bool,
    update: bool,
    widths: Cells,
    cells: Cells,
    row: int,
) -> tuple[int, int, int]:
    """Find the cells of the row event whose body is buffer[start:end], from `row` on.

    `extended`: the header has the extra data of version 2. `update`: images come in pairs, with a bitmap for each.
    `widths` of the columns: n bytes, or -n for values behind a length of n bytes. `cells` is [columns, room].

    Returns the status, the row after the last one, and the column at fault where the event is truncated (-1 where
    it's no column's).
    """
    status, at = _rows_start(buffer, start, end, extended, 2 if update else 1, widths)
    if status != WHOLE:
        return status, row, -1
    columns = len(widths)
    size = (columns + 7) // 8
    first = row
    while at < end:
        if row == cells.shape[1]:
            return FULL, row, -1
        nulls = at
        at += size
        if at > end:
            return TRUNCATED, row, -1
        for column in range(columns):
            if (buffer[nulls + (column >> 3)] >> (column & 7)) & 1:
                cells[column, row] = NULL
                continue
            cells[column, row] = at
            width: Int = np.int64(widths[column])
            if width < 0:  # a length that isn't whole ends in the slack, and makes the value end behind it
                width = -width + _unsigned(buffer, at, -width)
            at += width
            if at > end:
                return TRUNCATED, row, column
        row += 1
    if update and (row - first) % 2 != 0:
        return TRUNCATED, row, -1
    return WHOLE, row, -1


@njit("void(uint8[::1], int32[::1], int64, boolean, int64[::1])", cache=True, nogil=True)
def little_endian(buffer: Bytes, cells: Cells, width: int, signed: bool, out: Longs) -> None:
    """Integers of up to 8 bytes, least significant first; zero for NULL. Unsigned ones of 8 bytes wrap."""
    spare = np.uint64(64 - 8 * width)
    for i in range(len(cells)):
        at = np.int64(cells[i])
        if at < 0:
            out[i] = 0
            continue
        bits = np.uint64(0)
        for k in range(8):
            bits |= np.uint64(buffer[at + k]) << np.uint64(8 * k)
        bits <<= spare
        out[i] = np.int64(bits) >> np.int64(spare) if signed else np.int64(bits >> spare)


@njit("void(uint8[::1], int32[::1], int64, int64[::1])", cache=True, nogil=True)
def big_endian(buffer: Bytes, cells: Cells, width: int, out: Longs) -> None:
    """Unsigned integers of up to 8 bytes, most significant first; zero for NULL. Those of 8 bytes wrap."""
    spare = np.uint64(64 - 8 * width)
    for i in range(len(cells)):
        at = np.int64(cells[i])
        if at < 0:
            out[i] = 0
            continue
        bits = np.uint64(0)
        for k in range(8):
            bits |= np.uint64(buffer[at + k]) << np.uint64(56 - 8 * k)
        out[i] = np.int64(bits >> spare)


@njit("int64(int64, int64)", cache=True, nogil=True)
def _days_in_month(year: Int, month: Int) -> int:
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month in (4, 6, 9, 11) else 31


@njit("int64(int64, int64, int64)", cache=True, nogil=True)
def _days_since_1970(year: Int, month: Int, day: Int) -> Int:
    """Days in the proleptic Gregorian calendar (H. Hinnant, "chrono-Compatible Low-Level Date Algorithms")."""
    if month <= 2:
        year -= 1
        month += 12
    era = year // 400
    year_of_era = year - era * 400
    day_of_year = (153 * (month - 3) + 2) // 5 + day - 1
    day_of_era = year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year
    return era * 146097 + day_of_era - _DAYS_0000_03_01_TO_1970


@njit("int64(int64[::1], boolean[::1], int64[::1])", cache=True, nogil=True)
def dates(packed: Longs, exists: Flags, out: Longs) -> int:
    """Days since 1970 of `year << 9 | month << 5 | day`; clears `exists` where the calendar has no such day."""
    for i in range(len(packed)):
        if not exists[i]:
            out[i] = 0
            continue
        year, month, day = packed[i] >> 9, (packed[i] >> 5) & 15, packed[i] & 31
        if month > 12 or year > 9999:
            return i
        if month == 0 or day == 0 or day > _days_in_month(year, month):
            exists[i] = False
            out[i] = 0
        else:
            out[i] = _days_since_1970(year, month, day)
    return NONE


@njit("int64(int64[::1], int64, int64, boolean[::1], int64[::1])", cache=True, nogil=True)
def datetimes(packed: Longs, fraction_bits: int, scale: int, exists: Flags, out: Longs) -> int:
    """Microseconds since 1970 of DATETIME2's packed form; clears `exists` where the calendar has no such day.

    Packed, from the top: year * 13 + month (17 bits), day (5), hour (5), minute (6), second (6), and a fraction of
    `fraction_bits` that counts units of `scale` microseconds (WL#946).
    """
    for i in range(len(packed)):
        if not exists[i]:
            out[i] = 0
            continue
        fraction = (packed[i] & ((np.int64(1) << fraction_bits) - 1)) * scale
        whole = packed[i] >> fraction_bits
        year, month, day = (whole >> 22) // 13, (whole >> 22) % 13, (whole >> 17) & 31
        hour, minute, second = (whole >> 12) & 31, (whole >> 6) & 63, whole & 63
        if whole < 0 or year > 9999 or hour > 23 or minute > 59 or second > 59 or fraction > 999_999:
            return i
        if month == 0 or day == 0 or day > _days_in_month(year, month):
            exists[i] = False
            out[i] = 0
        else:
            seconds = (hour * 60 + minute) * 60 + second
            days = _days_since_1970(year, month, day)
            out[i] = days * _MICROSECONDS_OF_DAY + seconds * 1_000_000 + fraction
    return NONE


@njit("int64(uint8[::1], int32[::1], int64[::1], int64[::1], uint64[:, ::1])", cache=True, nogil=True)
def decimals(buffer: Bytes, cells: Cells, sizes: Longs, limits: Longs, out: NDArray[np.uint64]) -> int:
    """decimal128 words (low, high) of DECIMALs of up to 38 digits; zero for NULL.

    A value is a row of big-endian groups of `sizes` bytes, each below its limit in `limits` (a power of ten); the
    first bit is set where it's not negative, and all other bits are inverted where it is (decimal2bin of strings/).
    """
    low_32 = np.uint64(_LOW_32)
    half = np.uint64(32)
    for i in range(len(cells)):
        at = np.int64(cells[i])
        low, high = np.uint64(0), np.uint64(0)
        if at >= 0:
            negative = buffer[at] < 128
            flip = np.uint64(255) if negative else np.uint64(0)
            first = np.uint64(128)
            for group in range(len(sizes)):
                part = np.uint64(0)
                for _ in range(sizes[group]):
                    part = (part << np.uint64(8)) | (np.uint64(buffer[at]) ^ flip ^ first)
                    first = np.uint64(0)
                    at += 1
                limit = np.uint64(limits[group])
                if part >= limit:
                    return i
                lower = (low & low_32) * limit + part
                upper = (low >> half) * limit + (lower >> half)
                high = high * limit + (upper >> half)
                low = (upper << half) | (lower & low_32)
            if negative:
                low = ~low + np.uint64(1)
                high = ~high + (np.uint64(1) if low == 0 else np.uint64(0))
        out[i, 0] = low
        out[i, 1] = high
    return NONE


@njit("int64(uint8[::1], int32[::1], int64, int64, int64[::1])", cache=True, nogil=True)
def extents(buffer: Bytes, cells: Cells, prefix: int, width: int, offsets: Longs) -> int:
    """Where each value goes when all of them are laid end to end: `offsets` has one entry more than `cells`.

    A value takes `width` bytes, if that isn't zero, and else as many as the length of `prefix` bytes before it says.
    Returns the first value that is longer than `width`.
    """
    offsets[0] = 0
    for i in range(len(cells)):
        at = np.int64(cells[i])
        taken: Int = np.int64(0)
        if at >= 0:
            taken = _unsigned(buffer, at, prefix)
            if width > 0:
                if taken > width:
                    return i
                taken = width
        offsets[i + 1] = offsets[i] + taken
    return NONE


@njit("void(uint8[::1], int32[::1], int64, int64, int64[::1], uint8[::1])", cache=True, nogil=True)
def copy(buffer: Bytes, cells: Cells, prefix: int, width: int, offsets: Longs, out: Bytes) -> None:
    """Lay the values end to end where `extents` said; a shorter one is followed by what `out` has there already.

    Values without a length before them (`prefix` is zero) have `width` bytes.
    """
    for i in range(len(cells)):
        at = np.int64(cells[i])
        if at >= 0:
            length = _unsigned(buffer, at, prefix) if prefix > 0 else width
            at += prefix
            to = offsets[i]
            for k in range(length):
                out[to + k] = buffer[at + k]
