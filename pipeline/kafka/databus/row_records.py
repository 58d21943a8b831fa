"""A table's rows and keys in Avro's binary encoding, and the schemas of both, from MySQL's columns.

Any field may be null: a delete has what the log has of the row, and a zero date has no other form. Decimals are Avro's
decimals, bytes are bytes, and dates and moments are texts in ISO 8601. A TIME has the lake's text, so that no two are
equal. A key has one field for each of its columns.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

import pyarrow as pa

from pipeline.config.message_handling import DecimalHandling, Handling, TimePrecision, UnsignedBigintHandling
from pipeline.kafka.avro.avro_format import AVRO
from pipeline.kafka.avro.avro_schema import avro_text
from pipeline.kafka.debezium.connect_schema import Schema, rows_schema
from pipeline.schema.table_schema import Column, TableSchema
from pipeline.types.column_types import Text, Time
from pipeline.types.lake_forms import time_texts

_HANDLING: Final = Handling(DecimalHandling.PRECISE, TimePrecision.ISOSTRING, UnsignedBigintHandling.PRECISE)
_TIME_TEXT: Final = Text("utf8mb4")


def row_schema(schema: TableSchema) -> Schema:
    """Returns the Connect schema of the table's rows."""
    return _connect(schema.columns, schema.table.dotted)


def row_schema_text(schema: TableSchema) -> str:
    """Returns the Avro schema of the table's rows."""
    return avro_text(row_schema(schema))


def key_schema_text(schema: TableSchema) -> str | None:
    """Returns the Avro schema of the table's keys, None without a primary key."""
    return avro_text(_connect(_key(schema), f"{schema.table.dotted}.Key")) if schema.key else None


def row_schema_digest(schema: TableSchema) -> bytes:
    """Returns what names a schema in an event: the MD5 of its text."""
    return hashlib.md5(row_schema_text(schema).encode(), usedforsecurity=False).digest()


def row_records(rows: pa.RecordBatch, schema: TableSchema) -> pa.Array:
    """Returns each row in Avro."""
    return _records(schema.columns, rows)


def key_records(rows: pa.RecordBatch, schema: TableSchema) -> pa.Array:
    """Returns the key of each row in Avro."""
    return _records(_key(schema), rows)


def _key(schema: TableSchema) -> tuple[Column, ...]:
    return tuple(schema.columns[at] for at in schema.key)


def _connect(columns: Iterable[Column], name: str) -> Schema:
    return rows_schema(map(_field, columns), _HANDLING, name, {}, optional=False)


def _records(columns: Iterable[Column], rows: pa.RecordBatch) -> pa.Array:
    pieces = {
        each.name: AVRO.column(_field(each), _values(each, rows.column(each.name)), _HANDLING)
        for each in columns
    }
    return AVRO.record(pieces, rows.num_rows)


def _field(column: Column) -> Column:
    return replace(column, type=_TIME_TEXT if isinstance(column.type, Time) else column.type, nullable=True)


def _values(column: Column, values: pa.Array) -> pa.Array:
    return time_texts(values) if isinstance(column.type, Time) else values
