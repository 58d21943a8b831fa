"""The values of a column in Connect's form, as Debezium's connector makes them, in columns.

Each function takes a column in its canonical Arrow form (`pipeline.types.column_types`). A text of Connect's is one of
two things here. It is a text as it is, or a text that a kernel writes, which is in quotes and needs no escapes.

Source: Debezium 3.6, "Data type mappings"; each mode was compared with the messages of a real connector.
"""

from typing import Final, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.config.message_handling import (
    BinaryHandling,
    DecimalHandling,
    Handling,
    TimePrecision,
    UnsignedBigintHandling,
)
from pipeline.kafka.debezium import json_kernels as kernels
from pipeline.kafka.debezium.text_rows import joined, text_array
from pipeline.schema.table_schema import Column
from pipeline.types import column_types as t
from pipeline.types.arrow_arrays import bytes_of, varying_width_array
from pipeline.types.buffers import Bytes, Ends, Flags, Longs

_DAY_US: Final = 86_400_000_000
_MILLISECOND_US: Final = 1_000
_SRID_BYTES: Final = 4
_LONGEST: Final = 2**31 - 1
# `YYYY-MM-DDThh:mm:ss`
_SECONDS: Final = 19


def with_epochs(column: Column, values: pa.Array) -> pa.Array:
    """Returns the values, with the epoch for a NOT NULL moment that no calendar has, as with Debezium."""
    if isinstance(column.type, t.Date | t.DateTime | t.Timestamp) and not column.nullable:
        return pc.fill_null(values, pa.scalar(0, values.type))
    return values


def quoted_texts(column: Column, values: pa.Array, handling: Handling) -> pa.Array | None:
    """Returns the texts of the values in quotes, unless a value is null; None if `connect_values` has the values."""
    match column.type:
        case t.Decimal(precision, scale) if handling.decimal is DecimalHandling.STRING:
            return _plain_decimals(values, precision, scale)
        case t.Date() if handling.time is TimePrecision.ISOSTRING:
            return joined('"', pc.cast(values, pa.string()), 'Z"', count=len(values))
        case t.Time() if handling.time is TimePrecision.ISOSTRING:
            times = _of_a_day(values)
            midnight = pc.if_else(pc.equal(times, _DAY_US), 0, times)  # of the next day, as Debezium has it
            return _iso(pc.cast(midnight, pa.time64("us")), "")
        case t.DateTime() if handling.time is TimePrecision.ISOSTRING:
            return _iso(values, "T")
        case t.Timestamp(digits):
            return _instants(values, digits)
        case t.FixedBinary() | t.Binary():
            return _binaries(values, handling.binary)
        case _:
            return None


def is_cut(column: Column, handling: Handling, most: int) -> bool:
    """Returns whether `cut_texts` cuts a column: a text in Connect, of a type that isn't one of the source's texts.

    Debezium cuts only what may be longer than `most` by the length in the column's definition. That is a number's
    digits, a moment's digits of a second, or a count of bytes.
    """
    match column.type:
        case t.Json():
            return True
        case t.Binary():
            return handling.binary is not BinaryHandling.BYTES
        case t.FixedBinary(width):
            return handling.binary is not BinaryHandling.BYTES and width > most
        case t.Decimal(precision):
            return handling.decimal is DecimalHandling.STRING and precision > most
        case t.Date():
            return handling.time is TimePrecision.ISOSTRING
        case t.Time(digits) | t.DateTime(digits):
            return handling.time is TimePrecision.ISOSTRING and not 0 < digits <= most
        case t.Timestamp(digits):
            return not 0 < digits <= most
        case _:
            return False


def cut_texts(column: Column, values: pa.Array, handling: Handling, most: int) -> pa.Array:
    """Returns the first `most` characters of the texts that the values of such a column are; nulls as they are."""
    values = with_epochs(column, values)
    texts = quoted_texts(column, values, handling)
    if texts is None:
        return pc.utf8_slice_codeunits(values, 0, most)
    exists = pc.and_(values.is_valid(), texts.is_valid())
    cut = pc.utf8_slice_codeunits(pc.utf8_slice_codeunits(texts, 1, -1), 0, most)
    return pc.if_else(exists, cut, pa.scalar(None, pa.string()))


def connect_values(column: Column, values: pa.Array, handling: Handling) -> pa.Array:
    """Returns the values, null if a value is null or has no form in Connect.

    Whole numbers, floats, booleans, texts or bytes; lists of floats of a vector; `wkb` and `srid` of a geometry. Raises
    ArrowInvalid if a moment has no number of nanoseconds.
    """
    match column.type:
        case t.Integer(8, unsigned=True):
            precise = handling.unsigned_bigint is UnsignedBigintHandling.PRECISE
            return _unscaled(values) if precise else _low_words(values)
        case t.Decimal(precision):
            return _decimals(values, precision, handling.decimal)
        case t.Bit(width) if width > 1:
            return pc.binary_reverse(values)
        case t.Date():
            return values.view(pa.int32())
        case t.Time():
            return _times(values, handling.time)
        case t.DateTime(digits):
            return _moments(values, digits, handling.time)
        case t.Geometry():
            return _geometries(values)
        case _:
            return values


# Numbers


def _words(values: pa.Array) -> Longs:
    """Returns the two words of each decimal128, the low one first."""
    return np.frombuffer(values.buffers()[1], np.int64)[2 * values.offset : 2 * (values.offset + len(values))]


def _low_words(values: pa.Array) -> pa.Array:
    return pa.array(_words(values)[::2], mask=_nulls(values))


def _nulls(values: pa.Array) -> Flags | None:
    return np.asarray(values.is_null()) if values.null_count else None


def _unscaled(values: pa.Array) -> pa.Array:
    """Returns the integers of decimals, in two's complement with the fewest bytes, the highest first."""
    exists = values.is_valid().to_numpy(zero_copy_only=False)
    out, ends = np.empty(16 * len(values), np.uint8), np.zeros(len(values) + 1, np.int32)
    kernels.unscaled(_words(values).view(np.uint8), exists, 16, out, ends[1:])
    return varying_width_array(pa.binary(), ends, out, exists)


def _decimals(values: pa.Array, precision: int, handling: DecimalHandling) -> pa.Array:
    if handling is DecimalHandling.DOUBLE:
        # By way of text, since only from there Arrow rounds to the nearest double.
        return pc.cast(pc.cast(values, pa.string()), pa.float64())
    if precision <= t.DECIMAL128_DIGITS:
        return _unscaled(values)
    data, ends = bytes_of(values)  # they're texts
    out, out_ends = np.empty(kernels.WIDEST_DECIMAL * len(values), np.uint8), np.zeros(len(ends), np.int32)
    kernels.unscaled_of_text(data, ends, np.empty(kernels.WIDEST_DECIMAL, np.uint8), out, out_ends[1:])
    return varying_width_array(pa.binary(), out_ends, out, values.is_valid().to_numpy(zero_copy_only=False))


def _plain_decimals(values: pa.Array, precision: int, scale: int) -> pa.Array:
    if precision > t.DECIMAL128_DIGITS:
        return joined('"', values, '"', count=len(values))
    # Arrow shows a decimal with an exponent, unless it has no digits after the point.
    whole = pa.Array.from_buffers(
        pa.decimal128(t.DECIMAL128_DIGITS, 0), len(values), values.buffers(), offset=values.offset
    )
    shown, ends = bytes_of(pc.cast(whole, pa.string()))
    room = len(shown) + len(values) * (scale + 5)
    out, out_ends = np.empty(room, np.uint8), np.empty(len(values), np.int32)
    kernels.plain_decimals(shown, ends, scale, out, out_ends)
    return text_array(out, out_ends)


# Bytes


def base64_texts(data: Bytes, ends: Ends, alphabet: Bytes = kernels.BASE64) -> pa.Array:
    """Returns bytes in base64, in quotes."""
    lengths = np.diff(ends.astype(np.int64))
    out = np.empty(int(((lengths + 2) // 3 * 4 + 2).sum()), np.uint8)
    out_ends = np.empty(len(lengths), np.int32)
    kernels.quoted_base64(data, ends, alphabet, out, out_ends)
    return text_array(out, out_ends)


def _binaries(values: pa.Array, handling: BinaryHandling) -> pa.Array | None:
    match handling:
        case BinaryHandling.BYTES:
            return None
        case BinaryHandling.BASE64:
            return base64_texts(*bytes_of(values))
        case BinaryHandling.BASE64_URL_SAFE:
            return base64_texts(*bytes_of(values), kernels.BASE64_URL_SAFE)
        case BinaryHandling.HEX:
            data, ends = bytes_of(values)
            out, out_ends = np.empty(2 * (len(data) + len(values)), np.uint8), np.empty(len(values), np.int32)
            kernels.hexadecimal(data, ends, kernels.HEX, out, out_ends)
            return text_array(out, out_ends)
        case _:
            assert_never(handling)


def _geometries(values: pa.Array) -> pa.Array:
    has_srid = pc.greater_equal(pc.binary_length(values), _SRID_BYTES).fill_null(False)
    whole = pc.if_else(has_srid, values, b"\0" * _SRID_BYTES)  # NULL, and a geometry of zero bytes
    data, ends = bytes_of(whole)
    ids = data[ends[:-1, None] + np.arange(_SRID_BYTES)].view("<u4").reshape(-1)
    srids = pa.array(ids.astype(np.int64), mask=ids == 0)
    wkb = pc.binary_slice(whole, _SRID_BYTES, _LONGEST)
    return pa.StructArray.from_arrays([wkb, srids], ["wkb", "srid"], mask=values.is_null())


# Dates and times


def _times(values: pa.Array, precision: TimePrecision) -> pa.Array:
    match precision:
        case TimePrecision.NANOSECONDS:
            return pc.multiply_checked(values, 1_000)
        case TimePrecision.CONNECT:
            return _milliseconds(_of_a_day(values))
        case _:
            return values


def _of_a_day(values: pa.Array) -> pa.Array:
    """Returns the times from 00:00 through 24:00; null for any other."""
    shown = pc.and_(pc.greater_equal(values, 0), pc.less_equal(values, _DAY_US))
    return pc.if_else(shown, values, pa.scalar(None, pa.int64()))


def _moments(values: pa.Array, digits: int, precision: TimePrecision) -> pa.Array:
    microseconds = values.view(pa.int64())
    match precision:
        case TimePrecision.ADAPTIVE_TIME_MICROSECONDS if digits > 3:
            return microseconds
        case TimePrecision.ADAPTIVE_TIME_MICROSECONDS | TimePrecision.CONNECT:
            return _milliseconds(microseconds)
        case TimePrecision.NANOSECONDS:
            return pc.multiply_checked(microseconds, 1_000)
        case _:
            return microseconds


def _milliseconds(microseconds: pa.Array) -> pa.Array:
    """Returns milliseconds, rounded down, also below zero."""
    return pa.array(np.asarray(pc.fill_null(microseconds, 0)) // _MILLISECOND_US, mask=_nulls(microseconds))


def _iso(values: pa.Array, between: str) -> pa.Array:
    """Returns times or moments in ISO 8601, with no zeros at the fraction's end, and as if of UTC."""
    shown = pc.utf8_rtrim(pc.utf8_rtrim(pc.cast(values, pa.string()), "0"), ".")
    if between:
        shown = pc.replace_substring(shown, " ", between)
    return joined('"', shown, 'Z"', count=len(values))


def _instants(values: pa.Array, digits: int) -> pa.Array:
    """Returns instants in ISO 8601 with as many digits of a second as the column has."""
    moments = np.asarray(pc.fill_null(values, pa.scalar(0, values.type)).view(pa.int64()))
    size = _SECONDS + (1 + digits if digits else 0) + 3
    out = np.empty(size * len(moments), np.uint8)
    kernels.instants(moments, digits, out)
    return text_array(out, np.arange(1, len(moments) + 1, dtype=np.int32) * np.int32(size))
