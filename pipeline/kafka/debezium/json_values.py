"""The values of a column as JSON texts, as Debezium's connector and Kafka Connect's JsonConverter write them.

Each function takes a column in its canonical Arrow form (`pipeline.types.column_types`) and gives an array of texts as
long as the column, without nulls: a NULL is `null`. A batch has less than 2 GiB of text.

**Differences from Debezium**, each with its reason:

- A comma in an ENUM's label has no backslash before it. Debezium puts one, as it keeps labels in a list of text.
- JSON keeps the server's own text. Debezium writes the document again, without spaces and with other doubles.
- A value that no calendar has (a zero date) in a column that is NOT NULL is the epoch, as with Debezium.

Source: Debezium 3.6, "Data type mappings"; each mode was compared with the messages of a real connector.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Final, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pipeline.config.message_handling import (
    BinaryHandling,
    DecimalHandling,
    Handling,
    TimePrecision,
    UnsignedBigintHandling,
)
from pipeline.kafka.debezium import json_kernels as kernels
from pipeline.kafka.debezium.connect_schema import Schema
from pipeline.kafka.debezium.text_rows import Piece, joined, text_array
from pipeline.schema.table_schema import Column
from pipeline.types import column_types as t
from pipeline.types.arrow_arrays import bytes_of
from pipeline.types.buffers import Bytes, Ends

_SUPPLEMENTARY: Final = re.compile("[\U00010000-\U0010ffff]")
_NULL: Final = pa.scalar("null")
_DAY_US: Final = 86_400_000_000
_MILLISECOND_US: Final = 1_000
_SRID_BYTES: Final = 4
_LONGEST: Final = 2**31 - 1
# `YYYY-MM-DDThh:mm:ss`
_SECONDS: Final = 19


def json_objects(
    columns: Sequence[Column],
    rows: pa.RecordBatch,
    handling: Handling,
    added: Mapping[str, Piece] | None = None,
) -> pa.Array:
    """Each row as a JSON object of these columns, which the batch has by their names, and of what is added to them."""
    pieces: list[Piece] = []
    for column in columns:
        name = json_text(column.name)
        pieces.append(pa.scalar(f"{',' if pieces else '{'}{name}:"))
        pieces.append(json_values(column, rows.column(column.name), handling))
    for told, texts in (added or {}).items():
        pieces += [pa.scalar(f"{',' if pieces else '{'}{json_text(told)}:"), texts]
    return joined(*pieces, "}" if pieces else "{}", count=rows.num_rows)


def object_of(fields: Mapping[str, Piece], count: int) -> pa.Array:
    """JSON objects of these fields."""
    pieces: list[Piece] = []
    for name, texts in fields.items():
        pieces += [f"{',' if pieces else '{'}{json_text(name)}:", texts]
    return joined(*pieces, "}", count=count)


def with_schema(payloads: pa.Array, schema: Schema) -> pa.Array:
    """The JSON of each payload with its Connect schema before it."""
    return joined(before_payload(schema), payloads, "}", count=len(payloads))


def before_payload(schema: Schema) -> str:
    """What stands before a payload that has this Connect schema."""
    text = json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
    # Jackson writes a character beyond U+FFFF as its two units of UTF-16.
    text = _SUPPLEMENTARY.sub(lambda found: json.dumps(found[0]).strip('"').upper().replace("U", "u"), text)
    return f'{{"schema":{text},"payload":'


def json_text(text: str) -> str:
    """A text as JSON, as Jackson writes it."""
    return str(escaped(pa.array([text]))[0])


def json_values(column: Column, values: pa.Array, handling: Handling) -> pa.Array:
    """The JSON text of each value of a column. Raises ArrowInvalid where a moment has no number of nanoseconds."""
    if isinstance(column.type, t.Date | t.DateTime | t.Timestamp) and not column.nullable:
        values = pc.fill_null(values, pa.scalar(0, values.type))
    texts = _texts(column, values, handling)
    if values.null_count:
        texts = pc.if_else(values.is_valid(), texts, _NULL)
    return pc.fill_null(texts, _NULL) if texts.null_count else texts


def _texts(column: Column, values: pa.Array, handling: Handling) -> pa.Array:
    """The texts of the values that aren't NULL; where one is, anything. A null is a value that can't be told."""
    match column.type:
        case t.Integer(8, unsigned=True):
            if handling.unsigned_bigint is UnsignedBigintHandling.LONG:
                return integers(_low_words(values))
            return _base64(*_unscaled(values))
        case t.Integer() | t.Year():
            return integers(values)
        case t.Decimal(precision, scale):
            return _decimals(values, precision, scale, handling.decimal)
        case t.Float() | t.Double():
            return _numbers(values)
        case t.Bit(1):
            return pc.if_else(values, "true", "false")
        case t.Bit():
            return _base64(*bytes_of(pc.binary_reverse(values)))
        case t.Date():
            return _dates(values, handling.time)
        case t.Time():
            return _times(values, handling.time)
        case t.DateTime(digits):
            return _moments(values, digits, handling.time)
        case t.Timestamp(digits):
            return _instants(values, digits)
        case t.Text() | t.Enum() | t.Set() | t.Json():
            return escaped(values)
        case t.FixedBinary() | t.Binary():
            return _binaries(values, handling.binary)
        case t.Geometry():
            return _geometries(values)
        case t.Vector():
            lists = pa.ListArray.from_arrays(values.offsets, _numbers(values.values))
            return joined("[", pc.binary_join(lists, ","), "]", count=len(values))
        case _:
            assert_never(column.type)


# Bytes and texts


def escaped(values: pa.Array) -> pa.Array:
    """Texts as JSON; where one is null, anything."""
    data, ends = bytes_of(values)
    size = kernels.size_of_escaped(data, kernels.SHORT_ESCAPES) + 2 * len(values)
    out, out_ends = np.empty(size, np.uint8), np.empty(len(values), np.int32)
    kernels.escape(data, ends, kernels.SHORT_ESCAPES, kernels.HEX_DIGITS, out, out_ends)
    return text_array(out, out_ends)


def _base64(data: Bytes, ends: Ends, alphabet: Bytes = kernels.BASE64) -> pa.Array:
    lengths = np.diff(ends.astype(np.int64))
    out = np.empty(int(((lengths + 2) // 3 * 4 + 2).sum()), np.uint8)
    out_ends = np.empty(len(lengths), np.int32)
    kernels.quoted_base64(data, ends, alphabet, out, out_ends)
    return text_array(out, out_ends)


def _binaries(values: pa.Array, handling: BinaryHandling) -> pa.Array:
    data, ends = bytes_of(values)
    match handling:
        case BinaryHandling.BYTES | BinaryHandling.BASE64:
            return _base64(data, ends)
        case BinaryHandling.BASE64_URL_SAFE:
            return _base64(data, ends, kernels.BASE64_URL_SAFE)
        case BinaryHandling.HEX:
            out, out_ends = np.empty(2 * (len(data) + len(values)), np.uint8), np.empty(len(values), np.int32)
            kernels.hexadecimal(data, ends, kernels.HEX, out, out_ends)
            return text_array(out, out_ends)
        case _:
            assert_never(handling)


def _geometries(values: pa.Array) -> pa.Array:
    whole = pc.fill_null(values, b"\0" * _SRID_BYTES)
    data, ends = bytes_of(whole)
    ids = data[ends[:-1, None] + np.arange(_SRID_BYTES)].view("<u4").reshape(-1)
    srids = pc.if_else(pa.array(ids != 0), integers(pa.array(ids)), _NULL)
    wkb = _base64(*bytes_of(pc.binary_slice(whole, _SRID_BYTES, _LONGEST)))
    return joined('{"wkb":', wkb, ',"srid":', srids, "}", count=len(values))


# Numbers


def integers(values: pa.Array) -> pa.Array:
    """Integers of any width as texts; a null stays one."""
    words = np.asarray(pc.fill_null(values, 0)).astype(np.int64, copy=False)
    out = np.empty(kernels.LONGEST_INTEGER * len(words), np.uint8)
    out_ends = np.empty(len(words), np.int32)
    kernels.whole_numbers(words, out, out_ends)
    return text_array(out, out_ends, np.asarray(values.is_valid()) if values.null_count else None)


def _numbers(values: pa.Array) -> pa.Array:
    shown, ends = bytes_of(pc.cast(values, pa.string()))
    out, out_ends = np.empty(kernels.LONGEST_DOUBLE * len(values), np.uint8), np.empty(len(values), np.int32)
    kernels.doubles(shown, ends, np.empty(kernels.DIGITS, np.uint8), out, out_ends)
    return text_array(out, out_ends)


def _words(values: pa.Array) -> NDArray[np.int64]:
    """The two words of each decimal128, the low one first."""
    return np.frombuffer(values.buffers()[1], np.int64)[2 * values.offset : 2 * (values.offset + len(values))]


def _low_words(values: pa.Array) -> pa.Array:
    return pa.array(_words(values)[::2])


def _unscaled(values: pa.Array) -> tuple[Bytes, Ends]:
    """The integers of decimals, in two's complement with the fewest bytes, the highest first."""
    exists = values.is_valid().to_numpy(zero_copy_only=False)
    out, ends = np.empty(16 * len(values), np.uint8), np.zeros(len(values) + 1, np.int32)
    kernels.unscaled(_words(values).view(np.uint8), exists, 16, out, ends[1:])
    return out[: ends[-1]], ends


def _decimals(values: pa.Array, precision: int, scale: int, handling: DecimalHandling) -> pa.Array:
    wide = precision > t.DECIMAL128_DIGITS  # then they're texts
    match handling:
        case DecimalHandling.PRECISE if wide:
            data, ends = bytes_of(values)
            out, out_ends = (
                np.empty(kernels.WIDEST_DECIMAL * len(values), np.uint8),
                np.zeros(len(ends), np.int32),
            )
            kernels.unscaled_of_text(
                data, ends, np.empty(kernels.WIDEST_DECIMAL, np.uint8), out, out_ends[1:]
            )
            return _base64(out[: out_ends[-1]], out_ends)
        case DecimalHandling.PRECISE:
            return _base64(*_unscaled(values))
        case DecimalHandling.DOUBLE:
            # By way of text, since only from there Arrow rounds to the nearest double.
            return _numbers(pc.cast(pc.cast(values, pa.string()), pa.float64()))
        case DecimalHandling.STRING if wide:
            return joined('"', values, '"', count=len(values))
        case DecimalHandling.STRING:
            # Arrow shows a decimal with an exponent, unless it has no digits after the point.
            whole = pa.Array.from_buffers(
                pa.decimal128(t.DECIMAL128_DIGITS, 0), len(values), values.buffers(), offset=values.offset
            )
            shown, ends = bytes_of(pc.cast(whole, pa.string()))
            room = len(shown) + len(values) * (scale + 5)
            out, out_ends = np.empty(room, np.uint8), np.empty(len(values), np.int32)
            kernels.plain_decimals(shown, ends, scale, out, out_ends)
            return text_array(out, out_ends)
        case _:
            assert_never(handling)


# Dates and times


def _dates(values: pa.Array, precision: TimePrecision) -> pa.Array:
    if precision is TimePrecision.ISOSTRING:
        return joined('"', pc.cast(values, pa.string()), 'Z"', count=len(values))
    return integers(values.view(pa.int32()))


def _times(values: pa.Array, precision: TimePrecision) -> pa.Array:
    match precision:
        case TimePrecision.ADAPTIVE_TIME_MICROSECONDS | TimePrecision.MICROSECONDS:
            return integers(values)
        case TimePrecision.NANOSECONDS:
            return integers(pc.multiply_checked(values, 1_000))
        case TimePrecision.CONNECT:
            return integers(_floored(_of_a_day(values), _MILLISECOND_US))
        case TimePrecision.ISOSTRING:
            return _iso(pc.cast(_of_a_day(values), pa.time64("us")), "")
        case _:
            assert_never(precision)


def _of_a_day(values: pa.Array) -> pa.Array:
    """The times that a clock shows; null for any other."""
    shown = pc.and_(pc.greater_equal(values, 0), pc.less(values, _DAY_US))
    return pc.if_else(shown, values, pa.scalar(None, pa.int64()))


def _moments(values: pa.Array, digits: int, precision: TimePrecision) -> pa.Array:
    microseconds = values.view(pa.int64())
    match precision:
        case TimePrecision.ADAPTIVE_TIME_MICROSECONDS if digits > 3:
            return integers(microseconds)
        case TimePrecision.ADAPTIVE_TIME_MICROSECONDS | TimePrecision.CONNECT:
            return integers(_floored(microseconds, _MILLISECOND_US))
        case TimePrecision.MICROSECONDS:
            return integers(microseconds)
        case TimePrecision.NANOSECONDS:
            return integers(pc.multiply_checked(microseconds, 1_000))
        case TimePrecision.ISOSTRING:
            return _iso(values, "T")
        case _:
            assert_never(precision)


def _floored(values: pa.Array, by: int) -> pa.Array:
    """Integers divided and rounded down, also below zero."""
    quotient = pc.divide(values, by)
    short = pc.and_(pc.less(values, 0), pc.not_equal(pc.multiply(quotient, by), values))
    return pc.subtract(quotient, pc.cast(short, pa.int64()))


def _iso(values: pa.Array, between: str) -> pa.Array:
    """Times or moments in ISO 8601, with no zeros at the fraction's end, and as if of UTC."""
    shown = pc.utf8_rtrim(pc.utf8_rtrim(pc.cast(values, pa.string()), "0"), ".")
    if between:
        shown = pc.replace_substring(shown, " ", between)
    return joined('"', shown, 'Z"', count=len(values))


def _instants(values: pa.Array, digits: int) -> pa.Array:
    """Instants in ISO 8601 with as many digits of a second as the column has."""
    moments = np.asarray(pc.fill_null(values, pa.scalar(0, values.type)).view(pa.int64()))
    size = _SECONDS + (1 + digits if digits else 0) + 3
    out = np.empty(size * len(moments), np.uint8)
    kernels.instants(moments, digits, out)
    return text_array(out, np.arange(1, len(moments) + 1, dtype=np.int32) * np.int32(size))
