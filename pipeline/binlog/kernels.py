"""The compiled loops between the cells of a column and Arrow's buffers.

All of them see `buffer`, the bodies of rows events, and `cells`, which say for each row image where its value begins
in the buffer, or a negative number where there's none (`cells`, whose top argues why nothing outside of the buffer is
read: each of these kernels starts at a cell and reads either 8 bytes, or the width that the walk checked, or the length
in the prefix that it checked).

Values that can't be come back as the index of the first one; `NONE` says that there is none.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from pipeline.binlog.cells import Bytes, Cells, Flags, Int, Longs, unsigned
from pipeline.binlog.words import copy_words
from pipeline.compiled import compiled

NONE: Final = -1

_DAYS_0000_03_01_TO_1970: Final = 719468
_MICROSECONDS_OF_DAY: Final = 86_400_000_000
_LOW_32: Final = 0xFFFFFFFF


@compiled("void(uint8[::1], int32[::1], int64, boolean, int64[::1])")
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


@compiled("void(uint8[::1], int32[::1], int64, int64[::1])")
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


@compiled("int64(int64, int64)")
def _days_in_month(year: Int, month: Int) -> int:
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month in (4, 6, 9, 11) else 31


@compiled("int64(int64, int64, int64)")
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


@compiled("int64(int64[::1], boolean[::1], int64[::1])")
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


@compiled("int64(int64[::1], int64, int64, boolean[::1], int64[::1])")
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


@compiled("int64(uint8[::1], int32[::1], int64[::1], int64[::1], uint64[:, ::1])")
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


@compiled("int64(uint8[::1], int32[::1], int64, int64, int32[::1], uint8[::1])")
def lay_out(buffer: Bytes, cells: Cells, prefix: int, width: int, offsets: Cells, out: Bytes) -> int:
    """Lay the values end to end in `out`, which has SLACK bytes behind the last one.

    A value lies behind a length of `prefix` bytes, or has `width` bytes where that is zero. With both, one that is
    shorter than `width` is filled up with zero bytes. `offsets` has one entry more than `cells`: where each value
    begins in `out`. Returns the first value that is longer than `width`.
    """
    mask = (np.int64(1) << np.int64(8 * prefix)) - np.int64(1)
    to = np.int64(0)
    offsets[0] = 0
    for i in range(len(cells)):
        at = np.int64(cells[i])
        if at >= 0:
            length = unsigned(buffer, at, 4) & mask if prefix > 0 else np.int64(width)
            copy_words(buffer, at + prefix, length, out, to)
            if 0 < width != length:
                if length > width:
                    return i
                for k in range(to + length, to + width):
                    out[k] = 0
                length = np.int64(width)
            to += length
        offsets[i + 1] = np.int32(to)
    return NONE
