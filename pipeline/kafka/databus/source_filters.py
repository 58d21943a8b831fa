"""Databus' `filters`: which events of a source a client gets, by the number of their key. It is decided in columns.

A filter is of one source. It has spans of keys (RANGE), or spans of the remainders of keys (MOD). A span has its start
and not its end. An event comes if its key is in any of them. A source without a filter comes wholly.

The number of a key is that of the first column of the primary key. A text is the number that it spells, and otherwise
its hash code as Java has it. MOD divides the number without its sign. A statement that emptied the table always comes.

Source: Databus 2.0, `KeyFilterConfigJSONFactory` (the form), `DbusKeyFilter`, `KeyRangeFilter` and `KeyModFilter`.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numba import types
from numpy.typing import NDArray

from pipeline.journal.changes.checkpoint import is_long
from pipeline.journal.request_parameters import MalformedRequest
from pipeline.kafka.databus.sources import source_id
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.types import column_types
from pipeline.types.arrow_arrays import bytes_of
from pipeline.types.buffers import Bytes, Ends, Flags, Longs
from pipeline.types.jit import READ_ENDS, compiled

_LONG: Final = 1 << 63
_REMEDY: Final = (
    'give {"7": {"partitionType": "RANGE", "filters": [{"keyRange": {"start": 100, "end": 200}}]}}'
)


class PartitionType(StrEnum):
    """What the spans of a filter are of; with NONE all comes."""

    RANGE = "RANGE"
    MOD = "MOD"
    NONE = "NONE"


@dataclass(frozen=True, slots=True)
class KeySpan:
    """The numbers from `start` to before `end`: of keys, or of the remainders when they are divided by `divisor`."""

    start: int
    end: int
    divisor: int | None = None


# By the number of each source. A source that isn't in it comes wholly.
SourceFilters = Mapping[int, tuple[KeySpan, ...]]


def parse_source_filters(text: str) -> SourceFilters:
    """Returns the filters of the parameter. Raises MalformedRequest."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MalformedRequest(f"filters: it isn't JSON ({error}); {_REMEDY}") from error
    if not isinstance(document, dict):
        raise MalformedRequest(f"filters: it is no object; {_REMEDY}")
    parsed = ((_source(number), _spans(number, each)) for number, each in document.items())
    return {source: spans for source, spans in parsed if spans is not None}


def check_source_filters(
    filters: SourceFilters, known: Mapping[TableId, TableSchema], requested: Iterable[TableId]
) -> None:
    """Raises MalformedRequest for a filter of no source, or of two that are requested, or that its key doesn't fit."""
    by_number: dict[int, list[TableId]] = {}
    for table in sorted(known):
        by_number.setdefault(source_id(table), []).append(table)
    if unknown := sorted(filters.keys() - by_number.keys()):
        raise MalformedRequest(f"filters: {unknown[0]} is no source; GET /sources lists them")
    asked = frozenset(requested)
    for source in filters:
        tables = [table for table in by_number[source] if table in asked]
        if len(tables) > 1:
            named = " and ".join(map(str, tables))
            raise MalformedRequest(
                f"filters: {source} is the number of {named}; request each of them alone, by its name in sources"
            )
        for table in tables or by_number[source]:
            schema = known[table]
            wanted_events(pa.RecordBatch.from_pylist([], schema=schema.arrow), schema, filters)


def wanted_events(rows: pa.RecordBatch, schema: TableSchema, filters: SourceFilters) -> Flags:
    """Returns which rows of a table version the filters let through. Raises MalformedRequest if a key doesn't fit."""
    spans = filters.get(source_id(schema.table))
    if spans is None:
        return np.ones(rows.num_rows, np.bool_)
    column = _first_key_column(schema)
    keys = rows.column(column.name)
    _check_kind(keys.type, column, schema.table, spans)
    kept = np.asarray(keys.is_null())
    for span in spans:
        kept = kept | (_in_range(keys, span) if span.divisor is None else _in_remainders(keys, span))
    return kept


def _source(number: str) -> int:
    if not is_long(number):
        raise MalformedRequest(f"filters: {number!r} is no number of a source; {_REMEDY}")
    return int(number)


def _spans(source: str, document: object) -> tuple[KeySpan, ...] | None:
    """Returns the spans of one filter, None if all comes."""
    if not isinstance(document, dict) or document.get("partitionType") not in set(PartitionType):
        raise MalformedRequest(
            f"filters: partitionType of {source} is none of {', '.join(PartitionType)}; {_REMEDY}"
        )
    listed = document.get("filters")
    kind = PartitionType(document["partitionType"])
    if kind is PartitionType.NONE or listed is None:
        return None if kind is PartitionType.NONE else ()
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        raise MalformedRequest(f"filters: filters of {source} is no list of objects; {_REMEDY}")
    return tuple(_span(kind, source, each) for each in listed)


def _span(kind: PartitionType, source: str, document: dict[str, Any]) -> KeySpan:
    name = "keyRange" if kind is PartitionType.RANGE else "bktRange"
    ends = document.get(name)
    if not isinstance(ends, dict):
        raise MalformedRequest(f"filters: a filter of {source} has no {name}; {_REMEDY}")
    start, end = (_number(source, ends, part) for part in ("start", "end"))
    if kind is PartitionType.RANGE:
        return KeySpan(start, end)
    divisor = _number(source, document, "numBuckets")
    if divisor < 1:
        raise MalformedRequest(f"filters: numBuckets of {source} is {divisor}, and has to be 1 or more")
    return KeySpan(start, end, divisor)


def _number(source: str, document: dict[str, Any], name: str) -> int:
    value = document.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not -_LONG <= value < _LONG:
        raise MalformedRequest(
            f"filters: {name} of {source} is {json.dumps(value)}, and no number; {_REMEDY}"
        )
    return value


def _first_key_column(schema: TableSchema) -> Column:
    if not schema.key:
        raise MalformedRequest(f"filters: {schema.table} has no primary key; leave it out of filters")
    return schema.columns[schema.key[0]]


def _check_kind(kind: pa.DataType, column: Column, table: TableId, spans: tuple[KeySpan, ...]) -> None:
    # The journal has some decimals as it has texts, and some as it has BIGINT UNSIGNED.
    is_decimal = isinstance(column.type, column_types.Decimal)
    if not is_decimal and (pa.types.is_integer(kind) or _is_unsigned_long(kind)):
        return
    if is_decimal or not pa.types.is_string(kind):
        raise MalformedRequest(f"filters: {table}.{column.name} has neither whole numbers nor texts")
    if any(span.divisor is None for span in spans):
        raise MalformedRequest(f"filters: {table}.{column.name} has texts, which have no RANGE; use MOD")


def _is_unsigned_long(kind: pa.DataType) -> bool:
    """Returns whether it's BIGINT UNSIGNED."""
    return bool(pa.types.is_decimal(kind) and kind.precision == 20 and kind.scale == 0)


def _in_range(keys: pa.Array, span: KeySpan) -> Flags:
    if _is_unsigned_long(keys.type):
        start, end = (pa.scalar(Decimal(each), keys.type) for each in (span.start, span.end))
    else:
        keys, start, end = keys.cast(pa.int64()), pa.scalar(span.start), pa.scalar(span.end)
    within = pc.and_(pc.greater_equal(keys, start), pc.less(keys, end))
    found: Flags = within.fill_null(False).to_numpy(zero_copy_only=False)
    return found


def _in_remainders(keys: pa.Array, span: KeySpan) -> Flags:
    remainders = (_magnitudes(keys) % np.uint64(span.divisor or 1)).astype(np.int64)
    return np.asarray((remainders >= span.start) & (remainders < span.end))


def _magnitudes(keys: pa.Array) -> NDArray[np.uint64]:
    """Returns the number of each key without its sign; of nulls any."""
    if _is_unsigned_long(keys.type):
        return np.asarray(pc.fill_null(keys, 0).cast(pa.uint64()))
    if pa.types.is_string(keys.type):
        data, ends = bytes_of(keys)
        numbers = np.empty(len(keys), np.int64)
        _text_numbers(data.copy(), ends, numbers)
    else:
        numbers = np.asarray(keys.cast(pa.int64()).fill_null(0))
    return np.abs(numbers).view(np.uint64)  # the least long has no positive one, and its bits are right


@compiled(types.void(types.uint8[::1], READ_ENDS, types.int64[::1]))
def _text_numbers(data: Bytes, ends: Ends, out: Longs) -> None:
    """The number that each text spells, as Long.parseLong() reads it, or else what String.hashCode() gives."""
    for i in range(len(out)):
        start, end = np.int64(ends[i]), np.int64(ends[i + 1])
        number, spelled = np.uint64(0), False
        negative = start < end and data[start] == 45
        at = start + 1 if start < end and (data[start] == 43 or data[start] == 45) else start
        most = np.uint64(1 << 63) if negative else np.uint64((1 << 63) - 1)
        while at < end and 48 <= data[at] <= 57:
            digit = np.uint64(data[at] - 48)
            if number > (most - digit) // np.uint64(10):
                break
            number = number * np.uint64(10) + digit
            spelled = True
            at += 1
        if spelled and at == end:
            out[i] = -np.int64(number) if negative else np.int64(number)
            continue
        code, at = np.int64(0), start
        while at < end:
            lead = np.int64(data[at])
            size = 1 if lead < 0x80 else 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
            point = lead if size == 1 else lead & (0x7F >> size)
            for k in range(1, size):
                point = point << 6 | np.int64(data[at + k]) & 0x3F
            if point > 0xFFFF:
                code = (code * 31 + (0xD7C0 + (point >> 10))) & 0xFFFFFFFF
                point = 0xDC00 + (point & 0x3FF)
            code = (code * 31 + point) & 0xFFFFFFFF
            at += size
        out[i] = code - (1 << 32) if code >= 1 << 31 else code
