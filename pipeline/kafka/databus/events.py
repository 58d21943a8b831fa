"""Databus' events of rows, in columns: lines of JSON in its form of version 1, or records of a container file of Avro.

A row that is there afterwards is UPSERT, and one that isn't is DELETE. TRUNCATE, which Databus doesn't have, is a
statement that emptied the table. What an update found is no event. After each window comes an event that ends it.

In JSON a value is the row in Avro, in base64, and `schemaId` the MD5 of its schema. A key of one whole number is a
number, and any other key is in Avro, in base64. `absent` names columns whose value the log doesn't have.

A container file has one schema. It has the rows of all tables in a union, so each table has one version in it.

Source: Databus 2.0, `DbusEventSerializable.writeJSON_V1`, `DbusEvent` (reserved source ids); Apache Avro 1.11,
"Specification", Object Container Files.
"""

import base64
import hashlib
import json
from typing import Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.kafka.avro.avro_schema import avro_schema
from pipeline.kafka.avro.avro_values import BYTES, REQUIRED, avro_lists, avro_values
from pipeline.kafka.databus.row_records import (
    EVENT_RECORD,
    key_records,
    row_records,
    row_schema,
    row_schema_digest,
)
from pipeline.kafka.databus.sources import source_id
from pipeline.kafka.debezium.connect_values import base64_texts
from pipeline.kafka.debezium.json_values import json_lists, json_told
from pipeline.kafka.debezium.text_rows import Chosen, TextPiece, joined
from pipeline.schema.table_schema import TableId, TableSchema
from pipeline.types.arrow_arrays import bytes_of
from pipeline.types.buffers import Longs
from pipeline.types.column_types import Integer

# The source of an event that ends a window.
END_OF_WINDOW: Final = -2

_OPCODES: Final = pa.array(["UPSERT", "DELETE", "TRUNCATE"])
_OPCODE_OF: Final = {"c": 0, "u": 0, "r": 0, "d": 1, "t": 2}
_NO_SCHEMA: Final = base64.b64encode(bytes(16)).decode()


class EventForm(Protocol):
    """The form of events."""

    content_type: str

    def takes(self, schema: TableSchema) -> bool:
        """Returns whether rows of this table version can be beside those before."""

    def rows(self, rows: pa.RecordBatch, schema: TableSchema) -> pa.Array:
        """Returns the event of each row, null for one without."""

    def ends(self, scn: Longs) -> pa.Array:
        """Returns the events that end these windows."""

    def whole(self, events: pa.Array) -> bytes:
        """Returns the answer with these events."""


class JsonEvents:
    """Lines of JSON. `begin`: the SCN of the window before all others (`pipeline.kafka.databus.window_scn`)."""

    content_type = "application/json"

    def __init__(self, begin: int = 0) -> None:
        self._begin = begin

    def takes(self, _: TableSchema) -> bool:
        """Any: an event names its schema."""
        return True

    def rows(self, rows: pa.RecordBatch, schema: TableSchema) -> pa.Array:
        """Returns a line for each row."""
        values = base64_texts(*bytes_of(row_records(rows, schema)))
        schema_id = base64.b64encode(row_schema_digest(schema)).decode()
        lines = joined(
            '{"opcode":', json_told(_opcodes(rows)), ",", _json_key(rows, schema),
            ',"sequence":', json_told(pc.add(rows.column("__scn"), self._begin)),
            ',"logicalPartitionId":0,"physicalPartitionId":0,"timestampInNanos":', json_told(_nanoseconds(rows)),
            f',"srcId":{source_id(schema.table)},"schemaId":"{schema_id}","valueEnc":"JSON","isReplicated":false',
            _json_absent(rows), ',"value":', values, "}\n",
            count=rows.num_rows,
        )  # fmt: skip
        return _where_event(rows, lines.cast(BYTES))

    def ends(self, scn: Longs) -> pa.Array:
        """Returns a line for each window."""
        return joined(
            '{"key":0,"sequence":', json_told(pa.array(scn + self._begin)),
            ',"logicalPartitionId":0,"physicalPartitionId":0,"timestampInNanos":0',
            f',"srcId":{END_OF_WINDOW},"schemaId":"{_NO_SCHEMA}","valueEnc":"JSON","isReplicated":false',
            ',"endOfPeriod":true,"value":""}\n',
            count=len(scn),
        ).cast(BYTES)  # fmt: skip

    def whole(self, events: pa.Array) -> bytes:
        """Returns the lines."""
        return bytes_of(events)[0].tobytes()


class AvroEvents:
    """A container file of records, with the row as `value`. `begin`: as of `JsonEvents`."""

    content_type = "application/avro"

    def __init__(self, begin: int = 0) -> None:
        self._begin = begin
        self._tables: dict[TableId, TableSchema] = {}

    def takes(self, schema: TableSchema) -> bool:
        """Returns whether the table has no rows of another version in this file."""
        return self._tables.get(schema.table, schema) == schema

    def rows(self, rows: pa.RecordBatch, schema: TableSchema) -> pa.Array:
        """Returns a record for each row."""
        self._tables.setdefault(schema.table, schema)
        branch = avro_values(pa.array([1 + list(self._tables).index(schema.table)]), REQUIRED)[0].as_py()
        emptied = pc.equal(rows.column("__op"), "t").to_numpy(zero_copy_only=False)
        value = joined(branch, row_records(rows, schema), count=rows.num_rows, kind=BYTES)
        records = joined(
            b"\x02", avro_values(_opcodes(rows).cast(pa.string()), REQUIRED),
            avro_values(pc.add(rows.column("__scn"), self._begin), REQUIRED),
            avro_values(_nanoseconds(rows), REQUIRED),
            _int(source_id(schema.table)),
            _avro_absent(rows),
            b"\x00", Chosen(value, none=b"\x00").where(~emptied),
            count=rows.num_rows, kind=BYTES,
        )  # fmt: skip
        return _where_event(rows, records)

    def ends(self, scn: Longs) -> pa.Array:
        """Returns a record for each window."""
        numbers = avro_values(pa.array(scn + self._begin), REQUIRED)
        return joined(
            b"\x00", numbers, b"\x00", _int(END_OF_WINDOW), b"\x00\x01\x00", count=len(scn), kind=BYTES
        )

    def whole(self, events: pa.Array) -> bytes:
        """Returns the file, with all events in one block."""
        schema = self._schema().encode()
        sync = hashlib.md5(schema, usedforsecurity=False).digest()
        metadata = {b"avro.schema": schema, b"avro.codec": b"null"}
        head = b"Obj\x01" + _int(len(metadata))
        head += b"".join(_bytes(each) for pair in metadata.items() for each in pair) + b"\x00" + sync
        if not len(events):
            return head
        return head + _int(len(events)) + _bytes(bytes_of(events)[0].tobytes()) + sync

    def _schema(self) -> str:
        known = set[str]()
        values = [avro_schema(row_schema(schema), known) for schema in self._tables.values()]
        fields = [
            {"name": "opcode", "type": ["null", "string"], "default": None},
            {"name": "sequence", "type": "long"},
            {"name": "timestampInNanos", "type": "long"},
            {"name": "srcId", "type": "int"},
            {"name": "absent", "type": {"type": "array", "items": "string"}},
            {"name": "endOfPeriod", "type": "boolean"},
            {"name": "value", "type": ["null", *values], "default": None},
        ]
        namespace, _, name = EVENT_RECORD.rpartition(".")
        return json.dumps({"type": "record", "name": name, "namespace": namespace, "fields": fields})


def have_events(rows: pa.RecordBatch) -> pa.BooleanArray:
    """Returns which of the rows have an event."""
    return pc.not_equal(rows.column("__op"), "b")


def _where_event(rows: pa.RecordBatch, events: pa.Array) -> pa.Array:
    """Returns the events, null for rows that an update found."""
    return pc.if_else(have_events(rows), events, pa.scalar(None, BYTES))


def _opcodes(rows: pa.RecordBatch) -> pa.DictionaryArray:
    letters = rows.column("__op").dictionary_encode()
    numbers = np.array([_OPCODE_OF.get(letter, 0) for letter in letters.dictionary.to_pylist()], np.int32)
    return pa.DictionaryArray.from_arrays(pa.array(numbers[np.asarray(letters.indices)]), _OPCODES)


def _nanoseconds(rows: pa.RecordBatch) -> pa.Array:
    """Returns when the transaction committed; 0 for a row that a snapshot has read."""
    return pc.multiply(pc.fill_null(rows.column("__commit_time").cast(pa.int64()), 0), 1000)


def _json_key(rows: pa.RecordBatch, schema: TableSchema) -> TextPiece:
    if not schema.key:
        return '"keyBytes":""'
    first = schema.columns[schema.key[0]]
    if len(schema.key) == 1 and isinstance(first.type, Integer):
        values = pc.cast(rows.column(first.name), pa.string())
        return ('"key":', Chosen(values, none=b"0").where(np.asarray(values.is_valid())))
    return ('"keyBytes":', base64_texts(*bytes_of(key_records(rows, schema))))


def _json_absent(rows: pa.RecordBatch) -> TextPiece:
    absent = rows.column("__absent")
    exists = np.asarray(absent.is_valid())
    if not exists.any():
        return ""
    return Chosen(joined(',"absent":', json_lists(absent), count=len(absent)), none=b"").where(exists)


def _avro_absent(rows: pa.RecordBatch) -> TextPiece:
    absent = rows.column("__absent")
    if absent.null_count == len(absent):
        return b"\x00"
    names = avro_values(absent.flatten(), REQUIRED)
    counts = pc.fill_null(pc.list_value_length(absent), 0).to_numpy(zero_copy_only=False)
    return avro_lists(names, np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))


def _int(number: int) -> bytes:
    encoded: bytes = avro_values(pa.array([number]), REQUIRED)[0].as_py()
    return encoded


def _bytes(value: bytes) -> bytes:
    return _int(len(value)) + value
