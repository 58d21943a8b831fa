"""A table's rows and keys in Avro's binary encoding, and the schemas of both, from MySQL's columns.

Any field may be null: a delete has what the log has of the row, and a zero date has no other form. Decimals are Avro's
decimals, bytes are bytes, and dates and moments are texts in ISO 8601. A TIME has the lake's text, so that no two are
equal. A key has one field for each of its columns.

A name in Avro has letters of ASCII, digits and `_`. Another character becomes `_`. Where that would give two columns,
or two tables, one name, a number tells them apart: readers take a struct or a field for the one that they know by that
name.
"""

import hashlib
import itertools
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

import pyarrow as pa

from pipeline.config.message_handling import DecimalHandling, Handling, TimePrecision, UnsignedBigintHandling
from pipeline.kafka.avro.avro_format import AVRO
from pipeline.kafka.avro.avro_schema import avro_text, fit_field_name
from pipeline.kafka.databus.sources import source_id
from pipeline.kafka.debezium.connect_schema import Schema, rows_schema
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.types.column_types import Text, Time
from pipeline.types.lake_forms import time_texts

_HANDLING: Final = Handling(DecimalHandling.PRECISE, TimePrecision.ISOSTRING, UnsignedBigintHandling.PRECISE)
_TIME_TEXT: Final = Text("utf8mb4")

# The record of an event in a container file.
EVENT_RECORD: Final = "tidemark.DatabusEvent"


def row_schema(schema: TableSchema) -> Schema:
    """Returns the Connect schema of the table's rows."""
    return _connect(schema, schema.columns, _record_name(schema.table))


def row_schema_text(schema: TableSchema) -> str:
    """Returns the Avro schema of the table's rows."""
    return avro_text(row_schema(schema))


def key_schema_text(schema: TableSchema) -> str | None:
    """Returns the Avro schema of the table's keys, None without a primary key."""
    if not schema.key:
        return None
    return avro_text(_connect(schema, schema.key_columns, f"{_record_name(schema.table)}.Key"))


def row_schema_digest(schema: TableSchema) -> bytes:
    """Returns what names a schema in an event: the MD5 of its text."""
    return hashlib.md5(row_schema_text(schema).encode(), usedforsecurity=False).digest()


def row_records(rows: pa.RecordBatch, schema: TableSchema) -> pa.Array:
    """Returns each row in Avro."""
    return _records(schema.columns, rows)


def key_records(rows: pa.RecordBatch, schema: TableSchema) -> pa.Array:
    """Returns the key of each row in Avro."""
    return _records(schema.key_columns, rows)


def _connect(schema: TableSchema, columns: Iterable[Column], name: str) -> Schema:
    names = _field_names(schema)
    fields = (replace(_field(each), name=names[each.name]) for each in columns)
    return rows_schema(fields, _HANDLING, name, {}, optional=False)


def _record_name(table: TableId) -> str:
    """Returns the name of the table's rows in Avro."""
    name = f"{fit_field_name(table.database)}.{fit_field_name(table.name)}"
    return name if name == table.dotted and name != EVENT_RECORD else f"{name}_{source_id(table)}"


def _field_names(schema: TableSchema) -> Mapping[str, str]:
    """Returns the name of each column in Avro. One that has it already keeps it."""
    wanted = {each.name: fit_field_name(each.name) for each in schema.columns}
    found = {name: fit for name, fit in wanted.items() if name == fit}
    taken = set(found)
    for name, fit in wanted.items():
        if name not in found:
            numbered = (f"{fit}_{number}" for number in itertools.count(2))
            found[name] = next(each for each in itertools.chain((fit,), numbered) if each not in taken)
            taken.add(found[name])
    return found


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
