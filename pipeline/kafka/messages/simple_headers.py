"""Headers as Kafka Connect's SimpleHeaderConverter writes them: texts without quotes, and no schemas.

A struct looks like JSON. A decimal is its number, and bytes are base64. A moment of Connect's own types is in ISO 8601,
or only its time of the day if it is before 1970-01-02. A null is a header without a value (`NO_VALUE`).

Source: Kafka 4.3, `SimpleHeaderConverter` and `Values.convertToString`.
"""

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.config.message_handling import Handling
from pipeline.kafka.debezium.connect_schema import Schema, column_schema
from pipeline.kafka.debezium.connect_values import connect_values, with_epochs
from pipeline.kafka.debezium.json_format import JSON
from pipeline.kafka.debezium.json_values import json_values
from pipeline.kafka.debezium.message_format import FieldValue
from pipeline.kafka.debezium.text_rows import TextPiece, joined
from pipeline.kafka.messages.records import NO_VALUE
from pipeline.schema.table_schema import Column
from pipeline.types.buffers import Longs

_DAY_MS: Final = 86_400_000
_DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
# Connect's own types of moments, and the milliseconds of their unit.
_MOMENTS: Final = {
    "org.apache.kafka.connect.data.Date": _DAY_MS,
    "org.apache.kafka.connect.data.Time": 1,
    "org.apache.kafka.connect.data.Timestamp": 1,
}


class SimpleHeaders:
    """A format of headers alone."""

    def column(self, column: Column, values: pa.Array, handling: Handling) -> TextPiece:
        """Returns the values of a column in each row, as fields of a struct."""
        texts, schema = _texts(column, values, handling), column_schema(column, handling)
        if schema["type"] in ("string", "bytes") and schema.get("name") != _DECIMAL:
            escaped = pc.replace_substring(pc.replace_substring(texts, "\\", "\\\\"), '"', '\\"')
            texts = joined('"', escaped, '"', count=len(texts))
        return pc.fill_null(texts, "null")

    def single(self, column: Column, values: pa.Array, handling: Handling) -> pa.Array:
        """Returns headers that are only a column's values."""
        return _valued(_texts(column, values, handling))

    def told(self, told: FieldValue, schema: Schema, count: int) -> TextPiece:
        """Returns a value in each row, in JSON until it is complete."""
        return JSON.told(told, schema, count)

    def record(self, fields: Mapping[str, TextPiece], count: int) -> pa.Array:
        """Returns structs of these fields."""
        return JSON.record(fields, count)

    def optional(self, records: pa.Array, rows: Longs) -> TextPiece:
        """Returns the struct that each row has by its number, and `null` for a negative number."""
        return JSON.optional(records, rows)

    def message(self, payloads: pa.Array, schema: Schema) -> pa.Array:
        """Returns complete headers of these payloads in JSON."""
        return _valued(_without_quotes(payloads) if schema["type"] == "string" else _with_nulls(payloads))


SIMPLE: Final = SimpleHeaders()


def _valued(texts: pa.Array) -> pa.Array:
    return pc.fill_null(texts.cast(pa.binary()), NO_VALUE)


def _with_nulls(payloads: pa.Array) -> pa.Array:
    return pc.if_else(pc.equal(payloads, "null"), pa.scalar(None, pa.string()), payloads)


def _without_quotes(payloads: pa.Array) -> pa.Array:
    """Returns the texts that JSON texts mean."""
    if pc.any(pc.match_substring(payloads, "\\")).as_py():
        return pa.array(
            [None if each is None else json.loads(each) for each in payloads.to_pylist()], pa.string()
        )
    return pc.utf8_slice_codeunits(_with_nulls(payloads), 1, -1)


def _texts(column: Column, values: pa.Array, handling: Handling) -> pa.Array:
    """Returns the values of a column as texts, null for a null."""
    values, schema = with_epochs(column, values), column_schema(column, handling)
    name = schema.get("name")
    if name == _DECIMAL:
        return pa.array(
            [None if each is None else str(Decimal(each)) for each in values.to_pylist()], pa.string()
        )
    if name in _MOMENTS:
        numbers = connect_values(column, values, handling).to_pylist()
        unit = _MOMENTS[name]
        return pa.array([None if each is None else _moment(each * unit) for each in numbers], pa.string())
    payloads = json_values(column, values, handling)
    return _without_quotes(payloads) if schema["type"] in ("string", "bytes") else _with_nulls(payloads)


def _moment(at_ms: int) -> str:
    """Returns a moment (ms since the epoch) as `Values.dateFormatFor` has it, in UTC."""
    day, time = str(np.datetime64(at_ms, "ms")).split("T")
    if at_ms < _DAY_MS:
        return f"{time}Z"
    return day if at_ms % _DAY_MS == 0 else f"{day}T{time}Z"
