"""Which rows a reader gets, by the first column of their table's primary key. It is decided in columns.

A range has both of its ends. It is in the order of the values: numbers, moments, and texts by their bytes, not by their
collation. The end of a range of TIME is MySQL's text of it, or its microseconds. A modulo divides a table among
readers. Of a whole number it is the remainder, which isn't negative. Of texts and bytes it is that of their CRC32, as
MySQL's CRC32() has it.

An update that changed the key is a delete of the old key and a row of the new one. So each reader's rows are complete
by themselves. A statement that emptied the table concerns all of them.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numba import types

from pipeline.errors import Definite
from pipeline.schema.table_schema import Column, TableSchema
from pipeline.snapshot import row_filter
from pipeline.snapshot.key_literals import time_microseconds
from pipeline.types.arrow_arrays import bytes_of
from pipeline.types.buffers import Bytes, Ends, Flags, Longs
from pipeline.types.column_types import Decimal, Time
from pipeline.types.crc32 import crc32
from pipeline.types.jit import READ_ENDS, compiled

_MOST_PARTS: Final = 1 << 16
_BETWEEN: Final = ".."


class WrongKeyFilter(Definite):
    """A filter isn't one, or doesn't fit the key of a table; the text names it."""


@dataclass(frozen=True, slots=True)
class KeyFilter:
    """The keys from `low` through `high`, as texts, with one of the `remainders` when they are divided by `divisor`.

    None excludes nothing.
    """

    low: str | None = None
    high: str | None = None
    divisor: int | None = None
    remainders: frozenset[int] = frozenset()


def parse_key_filter(key_range: str | None, key_modulo: str | None) -> KeyFilter | None:
    """Returns the filter of the two parameters, None without any. Raises WrongKeyFilter."""
    if key_range is None and key_modulo is None:
        return None
    low, high = (None, None) if key_range is None else _ends(key_range)
    divisor, remainders = (None, frozenset[int]()) if key_modulo is None else _modulo(key_modulo)
    return KeyFilter(low, high, divisor, remainders)


def check_key_filter(keys: KeyFilter, schema: TableSchema) -> None:
    """Raises WrongKeyFilter if the table has no key that it fits."""
    matching_keys(pa.RecordBatch.from_pylist([], schema=schema.arrow), schema, keys)


def matching_keys(rows: pa.RecordBatch, schema: TableSchema, keys: KeyFilter) -> Flags:
    """Returns which rows of a table version the filter lets through. Raises WrongKeyFilter if the key doesn't fit."""
    column = _first_key_column(schema)
    values = rows.column(column.name)
    kept = np.ones(len(values), np.bool_)
    for text, compare in ((keys.low, pc.greater_equal), (keys.high, pc.less_equal)):
        if text is not None:
            within = compare(values, _value(text, column, values.type, schema))
            kept &= within.fill_null(True).to_numpy(zero_copy_only=False)
    if keys.divisor is not None:
        remainders = _remainders(values, keys.divisor, column, schema)
        kept &= np.isin(remainders, list(keys.remainders)) | np.asarray(values.is_null())
    return kept


def _ends(text: str) -> tuple[str | None, str | None]:
    low, between, high = text.partition(_BETWEEN)
    if not between or not (low or high):
        raise WrongKeyFilter(f"key_range: {text!r} is no range; give 100..200, 100.. or ..200")
    return low or None, high or None


def _modulo(text: str) -> tuple[int, frozenset[int]]:
    divisor, _, listed = text.partition(":")
    parts = [divisor, *listed.split(",")]
    if not all(part.isascii() and part.isdecimal() and len(part) < 6 for part in parts):
        raise WrongKeyFilter(f"key_modulo: {text!r} is no modulo; give 4:1,3 for the remainders 1 and 3 of 4")
    count, *remainders = map(int, parts)
    if not 0 < count <= _MOST_PARTS:
        raise WrongKeyFilter(f"key_modulo: the divisor {count} isn't from 1 to {_MOST_PARTS}")
    if max(remainders) >= count:
        raise WrongKeyFilter(f"key_modulo: {max(remainders)} is no remainder of {count}")
    return count, frozenset(remainders)


def _first_key_column(schema: TableSchema) -> Column:
    if not schema.key:
        raise WrongKeyFilter(
            f"key_range, key_modulo: {schema.table} has no primary key; leave it out of tables"
        )
    return schema.columns[schema.key[0]]


def _value(text: str, column: Column, kind: pa.DataType, schema: TableSchema) -> pa.Scalar:
    """Returns an end of a range as a value of the column."""
    if pa.types.is_binary(kind) or pa.types.is_boolean(kind):
        raise WrongKeyFilter(f"key_range: {schema.table}.{column.name} has bytes, which have no range")
    if isinstance(column.type, Decimal) and pa.types.is_string(kind):
        raise WrongKeyFilter(
            f"key_range: {schema.table}.{column.name} has decimals of more than 38 digits, which the journal has as "
            "texts, so they have no range"
        )
    if isinstance(column.type, Time) and row_filter.TIME.fullmatch(text):
        return pa.scalar(time_microseconds(text), kind)
    try:
        if pa.types.is_timestamp(kind) and kind.tz is not None:
            return pa.scalar(text.removesuffix("Z")).cast(pa.timestamp(kind.unit)).cast(kind)
        return pa.scalar(text).cast(kind)
    except pa.ArrowInvalid as error:
        raise WrongKeyFilter(f"key_range: {text!r} is no value of {schema.table}.{column.name}") from error


def _remainders(values: pa.Array, divisor: int, column: Column, schema: TableSchema) -> Longs:
    """Returns the remainder of each value; nulls have any."""
    # A decimal may have the Arrow type of BIGINT UNSIGNED, or of a text.
    kind = pa.null() if isinstance(column.type, Decimal) else values.type
    if pa.types.is_integer(kind):
        found: Longs = np.asarray(values.cast(pa.int64()).fill_null(0)) % divisor
        return found
    if pa.types.is_decimal(kind) and kind.scale == 0 and kind.precision == 20:  # BIGINT UNSIGNED
        numbers = np.asarray(pc.fill_null(values, 0).cast(pa.uint64())) % np.uint64(divisor)
        return numbers.astype(np.int64)
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        data, ends = bytes_of(values)
        out = np.empty(len(values), np.int64)
        _checksums(data.copy(), ends, out)
        return out % divisor
    raise WrongKeyFilter(
        f"key_modulo: {schema.table}.{column.name} has neither whole numbers nor texts nor bytes; use key_range"
    )


@compiled(types.void(types.uint8[::1], READ_ENDS, types.int64[::1]))
def _checksums(data: Bytes, ends: Ends, out: Longs) -> None:
    for i in range(len(out)):
        out[i] = crc32(data, np.int64(ends[i]), np.int64(ends[i + 1]))
