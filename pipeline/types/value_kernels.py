"""The compiled loops between the cells of a column and Arrow's buffers.

All of them see `buffer`, the bodies of rows events, and `cells`. These say for each row image where its value begins in
the buffer, or have a negative number where there's none. The top of `cells` argues why nothing outside of the buffer is
read. Each of these kernels starts at a cell. It reads either 8 bytes, or the width that `locate_cells` checked, or the
length in the prefix that it checked.

Values that can't be come back as the index of the first one; `NONE_WRONG` says that there is none.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from pipeline.types.buffers import Bytes, Cells, Flags, Longs
from pipeline.types.byte_kernels import copy_words, unsigned, word
from pipeline.types.jit import compiled

NONE_WRONG: Final = -1

# Of month m of year y at [13 * y + m]: its first day, since 1970, and how many days it has: none if m is 0. It's the
# proleptic Gregorian calendar.
_MONTHS: Final = (
    np.arange("0000-01", "10001-01", dtype="datetime64[M]").astype("datetime64[D]").astype(np.int32)
)
_FIRST_DAYS: Final = np.zeros((10_000, 13), np.int32)
_FIRST_DAYS[:, 1:] = _MONTHS[: 12 * 10_000].reshape(-1, 12)
_LENGTHS: Final = np.zeros((10_000, 13), np.int8)
_LENGTHS[:, 1:] = np.diff(_MONTHS)[: 12 * 10_000].reshape(-1, 12)

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
        bits = word(buffer, at) << spare
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


def dates(packed: Longs, exists: Flags, out: Longs) -> int:
    """Days since 1970 of `year << 9 | month << 5 | day`; clears `exists` where the calendar has no such day."""
    return _dates(packed, _FIRST_DAYS.reshape(-1), _LENGTHS.reshape(-1), exists, out)


@compiled("int64(int64[::1], int32[::1], int8[::1], boolean[::1], int64[::1])")
def _dates(packed: Longs, first_days: Cells, lengths: NDArray[np.int8], exists: Flags, out: Longs) -> int:
    for i in range(len(packed)):
        out[i] = 0
        if exists[i]:
            year, month, day = packed[i] >> 9, (packed[i] >> 5) & 15, packed[i] & 31
            if year < 0 or year > 9999 or month > 12:
                return i
            exists[i] = 0 < day <= lengths[year * 13 + month]
            if exists[i]:
                out[i] = first_days[year * 13 + month] + day - 1
    return NONE_WRONG


def datetimes(packed: Longs, fraction_bits: int, scale: int, exists: Flags, out: Longs) -> int:
    """Microseconds since 1970 of DATETIME2's packed form; clears `exists` where the calendar has no such day.

    Packed, from the top: year * 13 + month (17 bits), day (5), hour (5), minute (6), second (6), and a fraction of
    `fraction_bits` that counts units of `scale` microseconds (WL#946).
    """
    return _datetimes(
        packed, fraction_bits, scale, _FIRST_DAYS.reshape(-1), _LENGTHS.reshape(-1), exists, out
    )


@compiled("int64(int64[::1], int64, int64, int32[::1], int8[::1], boolean[::1], int64[::1])")
def _datetimes(
    packed: Longs,
    fraction_bits: int,
    scale: int,
    first_days: Cells,
    lengths: NDArray[np.int8],
    exists: Flags,
    out: Longs,
) -> int:
    for i in range(len(packed)):
        out[i] = 0
        if exists[i]:
            fraction = (packed[i] & ((np.int64(1) << fraction_bits) - 1)) * scale
            whole = packed[i] >> fraction_bits
            month, day = whole >> 22, (whole >> 17) & 31
            hour, minute, second = (whole >> 12) & 31, (whole >> 6) & 63, whole & 63
            if (
                whole < 0
                or month >= len(lengths)
                or hour > 23
                or minute > 59
                or second > 59
                or fraction > 999_999
            ):
                return i
            exists[i] = 0 < day <= lengths[month]
            if exists[i]:
                days = np.int64(first_days[month]) + day - 1
                seconds = (hour * 60 + minute) * 60 + second
                out[i] = days * _MICROSECONDS_OF_DAY + seconds * 1_000_000 + fraction
    return NONE_WRONG


@compiled("int64(uint8[::1], int32[::1], int64[::1], int64[::1], boolean, uint64[:, ::1])")
def decimals(
    buffer: Bytes, cells: Cells, sizes: Longs, limits: Longs, short: bool, out: NDArray[np.uint64]
) -> int:
    """decimal128 words (low, high) of DECIMALs of up to 38 digits; zero for NULL. `short`: no more than 18 digits.

    A value is a row of big-endian groups of `sizes` bytes, each below its limit in `limits` (a power of ten). The first
    bit is set where it's not negative, and all other bits are inverted where it is (decimal2bin of strings/).
    """
    low_32, half = np.uint64(_LOW_32), np.uint64(32)
    for i in range(len(cells)):
        at = np.int64(cells[i])
        low, high = np.uint64(0), np.uint64(0)
        if at >= 0:
            negative = buffer[at] < 128
            flip = low_32 if negative else np.uint64(0)
            first = np.uint64(1 << 31)
            for group in range(len(sizes)):
                bits = np.uint64(0)
                for k in range(4):  # beyond a shorter group is the next one, or the slack
                    bits |= np.uint64(buffer[at + k]) << np.uint64(24 - 8 * k)
                part = (bits ^ flip ^ first) >> np.uint64(32 - 8 * sizes[group])
                first = np.uint64(0)
                at += sizes[group]
                limit = np.uint64(limits[group])
                if part >= limit:
                    return i
                if short:
                    low = low * limit + part
                    continue
                lower = (low & low_32) * limit + part
                upper = (low >> half) * limit + (lower >> half)
                high = high * limit + (upper >> half)
                low = (upper << half) | (lower & low_32)
            if negative:
                low = ~low + np.uint64(1)
                high = ~high + (np.uint64(1) if low == 0 else np.uint64(0))
        out[i, 0] = low
        out[i, 1] = high
    return NONE_WRONG


@compiled("int64(uint8[::1], int32[::1], int64, int64, int32[::1], uint8[::1])")
def join_values(buffer: Bytes, cells: Cells, prefix: int, width: int, offsets: Cells, out: Bytes) -> int:
    """Lays the values end to end in `out`, which has SLACK bytes after the last one.

    A value has a length of `prefix` bytes before it, or has `width` bytes if that is zero. With both, one that is
    shorter than `width` is padded with zero bytes. `offsets` has one entry more than `cells`: where each value begins
    in `out`. Returns the first value that is longer than `width`.
    """
    mask = (np.int64(1) << np.int64(8 * prefix)) - np.int64(1)
    to = np.int64(0)
    offsets[0] = 0
    for i in range(len(cells)):
        at = np.int64(cells[i])
        if at >= 0:
            length = unsigned(buffer, at, 4) & mask if prefix > 0 else np.int64(width)
            if 0 < width < length:
                return i
            copy_words(buffer, at + prefix, length, out, to)
            if width > 0:
                for k in range(to + length, to + width):
                    out[k] = 0
                length = np.int64(width)
            to += length
        offsets[i + 1] = np.int32(to)
    return NONE_WRONG
