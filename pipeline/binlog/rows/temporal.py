"""DATE, TIME, DATETIME and TIMESTAMP into Arrow, in their present forms and those of columns made before MySQL 5.6.

A date that the calendar doesn't have becomes null, since neither Arrow nor Spark can hold it. That is a zero or partial
one, or February 30 with ALLOW_INVALID_DATES. The year 0 is a year like any other.

Source: MySQL 9.7 source, mysys/my_time.cc (`my_datetime_packed_from_binary` and its like); WL#946.
"""

from typing import Final

import numpy as np
import pyarrow as pa

from pipeline.binlog.rows.stored_values import StoredColumn, decode_big_endian, decode_little_endian
from pipeline.types import value_kernels
from pipeline.types.arrow_arrays import fixed_width_array
from pipeline.types.buffers import Longs
from pipeline.types.field_types import FieldType, Storage, stored_width

_SECOND: Final = 1_000_000  # microseconds


def decode_dates(stored: StoredColumn) -> pa.Array:
    """DATE as date32."""
    exists = stored.exists.copy()
    days = np.empty(len(stored), np.int64)
    if value_kernels.dates(decode_little_endian(3, stored), exists, days) != value_kernels.NONE_WRONG:
        stored.refuse("DATE")
    return fixed_width_array(pa.date32(), days.astype(np.int32), exists)


def decode_datetimes(storage: Storage, stored: StoredColumn) -> pa.Array:
    """DATETIME as timestamp[us]."""
    exists = stored.exists.copy()
    out = np.empty(len(stored), np.int64)
    if storage.code == FieldType.DATETIME2:
        bits, scale = _fraction(storage)
        packed = decode_big_endian(stored_width(storage), stored) - (np.int64(1) << (39 + bits))
    else:
        bits, scale = 0, 0
        packed = _packed_datetimes(stored)
    if value_kernels.datetimes(packed, bits, scale, exists, out) != value_kernels.NONE_WRONG:
        stored.refuse("DATETIME")
    return fixed_width_array(pa.timestamp("us"), out, exists)


def timestamps(storage: Storage, stored: StoredColumn) -> pa.Array:
    """TIMESTAMP as timestamp[us, UTC]; zero seconds are the zero date."""
    if storage.code == FieldType.TIMESTAMP2:
        bits, scale = _fraction(storage)
        packed = decode_big_endian(stored_width(storage), stored)
        seconds, fraction = packed >> bits, (packed & ((1 << bits) - 1)) * scale
        if (fraction >= _SECOND).any():
            stored.refuse("TIMESTAMP")
    else:
        seconds, fraction = decode_little_endian(4, stored), np.zeros(len(stored), np.int64)
    return fixed_width_array(
        pa.timestamp("us", tz="UTC"), seconds * _SECOND + fraction, stored.exists & (seconds != 0)
    )


def decode_times(storage: Storage, stored: StoredColumn) -> pa.Array:
    """TIME as signed microseconds (int64)."""
    if storage.code == FieldType.TIME2:
        bits, scale = _fraction(storage)
        # The sign bit is inverted, and a negative value is the complement of all the rest, its fraction included.
        packed = decode_big_endian(stored_width(storage), stored) - (np.int64(1) << (23 + bits))
        packed[~stored.exists] = 0
        size = np.abs(packed)
        whole, fraction = size >> bits, (size & ((1 << bits) - 1)) * scale
        hours, minutes, seconds = whole >> 12, (whole >> 6) & 63, whole & 63
    else:
        packed = decode_little_endian(3, stored, signed=True)
        size = np.abs(packed)
        hours, minutes, seconds = size // 10000, size // 100 % 100, size % 100
        fraction = np.zeros(len(stored), np.int64)
    wrong = (hours > 838) | (minutes > 59) | (seconds > 59) | (fraction >= _SECOND)
    if wrong.any():
        stored.refuse("TIME")
    microseconds = ((hours * 60 + minutes) * 60 + seconds) * _SECOND + fraction
    return fixed_width_array(pa.int64(), np.where(packed < 0, -microseconds, microseconds), stored.exists)


def _fraction(storage: Storage) -> tuple[int, int]:
    """Bits of the stored fraction, and the microseconds of its unit: two digits to a byte."""
    size = (storage.meta + 1) // 2
    return 8 * size, 10 ** (6 - 2 * size)


def _packed_datetimes(stored: StoredColumn) -> Longs:
    """The old DATETIME, decimal digits YYYYMMDDhhmmss, in DATETIME2's packed form without a fraction."""
    digits = decode_little_endian(8, stored, signed=True)
    date, time = digits // 1_000_000, digits % 1_000_000
    year, month, day = date // 10000, date // 100 % 100, date % 100
    hour, minute, second = time // 10000, time // 100 % 100, time % 100
    wrong = (digits < 0) | (year > 9999) | (month > 12) | (day > 31)
    wrong |= (hour > 23) | (minute > 59) | (second > 59)
    if wrong.any():
        stored.refuse("DATETIME")
    return (year * 13 + month) << 22 | day << 17 | hour << 12 | minute << 6 | second
