"""The messages of an outbox: each row that is inserted into it is an event, as Debezium's EventRouter makes it.

Deletes, updates and rows of snapshots go nowhere. The log may also have the insert of a snapshot's row. Then its event
would come twice.

A payload is expanded once for each distinct text, and not in columns: its fields are known only then.

Source: Debezium 3.6, "Outbox Event Router".
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.config.message_handling import Handling
from pipeline.config.message_routes import rewritten
from pipeline.config.outbox import InvalidOperation, Missing, NullsInPayload, Outbox, Placement
from pipeline.kafka.debezium.changed_rows import CREATE, UPDATE, operations
from pipeline.kafka.debezium.connect_schema import Schema, column_schema, field, struct
from pipeline.kafka.debezium.json_format import JSON
from pipeline.kafka.debezium.json_values import json_text, json_values
from pipeline.kafka.debezium.message_format import MessageFormat
from pipeline.kafka.debezium.table_mapping import TableMapping
from pipeline.kafka.debezium.text_rows import TextPiece
from pipeline.kafka.errors import KafkaRefused
from pipeline.kafka.topics import fit_topic
from pipeline.schema.table_schema import Column
from pipeline.types.buffers import Longs
from pipeline.types.column_types import DateTime, Double, Integer, Json, Text, Timestamp

EVENT_ID: Final = "id"
_PAYLOAD: Final = "payload"
_NO_PARTITION: Final = 1 << 40
_NO_VERSION: Final = 1 << 40
_DOUBLE: Final = Column("", Double(), nullable=False)

# Debezium leaves a payload as it is that Jackson doesn't read: deeper than this, or with one of Python's constants.
_JACKSON_DEPTH: Final = 1000
_JSON_TEXT: Final = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_NO_BRACKETS: Final = re.compile(r"[^\[\]{}]+")


@dataclass(frozen=True, slots=True)
class Events:
    """The events of a batch, in their order: the topic, key and value of each (null: a tombstone).

    `headers`: values by names. `times`: ms since the epoch, and `partitions`: null, or None, if the row has none.
    `key_schema`: the Connect schema of all keys. `value_schemas`: those of the values. Each value has the one with its
    number in `value_schema_of`. `rows`: the number of the row that each event is from.
    """

    topics: pa.Array
    keys: pa.Array
    values: pa.Array
    headers: tuple[tuple[str, pa.Array], ...]
    times: pa.Array | None
    partitions: pa.Array | None
    key_schema: Schema
    value_schemas: tuple[Schema, ...]
    value_schema_of: Longs
    rows: Longs


@dataclass(frozen=True, slots=True)
class OutboxEvents:
    """How a table's rows become events.

    `name`: the beginning of the names of the table's schemas. `format` writes keys and values, and `headers` writes
    headers.
    """

    mapping: TableMapping
    outbox: Outbox
    handling: Handling
    name: str
    format: MessageFormat = JSON
    headers: MessageFormat = JSON

    def updates(self, changes: pa.RecordBatch) -> int:
        """Returns how many rows are updates, which no outbox should have. Raises KafkaRefused if they are fatal."""
        found = int(np.count_nonzero(operations(changes) == UPDATE))
        if found and self.outbox.table_op_invalid_behavior is InvalidOperation.FATAL:
            raise KafkaRefused(
                f"a row of the outbox {self._table} was updated; see to who updates it, or set "
                'table_op_invalid_behavior = "warn"'
            )
        return found

    def events(self, changes: pa.RecordBatch) -> Events:
        """Returns the events among these rows. Raises KafkaRefused if the table isn't as the outbox's settings say."""
        created = np.flatnonzero(operations(changes) == CREATE)
        rows = self.mapping.mapped(changes.take(pa.array(created)), self.handling)
        key = self._column(self.outbox.table_field_event_key, "table_field_event_key")
        id_ = self._column(self.outbox.table_field_event_id, "table_field_event_id")
        headers = [(EVENT_ID, self._texts(id_, rows))]
        partitions = None
        for placed in self.outbox.placed:
            column = self._additional(placed.column)
            if column is None:
                continue
            if placed.placement is Placement.HEADER:
                headers.append((placed.name, self._texts(column, rows)))
            elif placed.placement is Placement.PARTITION:
                partitions = self._partitions(column, rows)
        topics = self._topics(rows)
        values, schemas, which = self._values(rows)
        return Events(
            topics,
            self.format.single(key, rows.column(key.name), self.handling),
            values,
            tuple(headers),
            self._times(rows),
            partitions,
            column_schema(key, self.handling),
            schemas,
            which,
            created,
        )

    @property
    def _table(self) -> str:
        return str(self.mapping.schema.table)

    def _found(self, name: str) -> Column | None:
        """Returns a column as the rows have it in messages: what a rule cuts as a text is a text."""
        return next((column for column in self.mapping.written(self.handling) if column.name == name), None)

    def _column(self, name: str, key: str) -> Column:
        found = self._found(name)
        if found is None:
            raise KafkaRefused(f"the outbox {self._table} has no column {name}; see to kafka.outboxes.{key}")
        return found

    def _additional(self, name: str) -> Column | None:
        if self.outbox.table_field_additional_missing is Missing.ERROR:
            return self._column(name, "table_fields_additional_placement")
        return self._found(name)

    def _texts(self, column: Column, rows: pa.RecordBatch) -> pa.Array:
        """Returns the column's values as headers."""
        return self.headers.single(column, rows.column(column.name), self.handling)

    def _topics(self, rows: pa.RecordBatch) -> pa.Array:
        outbox = self.outbox
        column = self._column(outbox.route_by_field, "route_by_field")
        routed = rows.column(column.name)
        if routed.null_count:
            raise KafkaRefused(
                f"the outbox {self._table} has a row without {column.name}, which says where it goes; "
                "see to kafka.outboxes.route_by_field"
            )
        distinct = routed.cast(pa.string()).dictionary_encode()
        names = distinct.dictionary.to_pylist()
        topics = [rewritten(name, outbox.route_topic_regex, outbox.route_topic_replacement) for name in names]
        fit = [fit_topic(topic or name) for topic, name in zip(topics, names, strict=True)]
        return pa.array(fit, pa.string()).take(distinct.indices)

    def _values(self, rows: pa.RecordBatch) -> tuple[pa.Array, tuple[Schema, ...], Longs]:
        column = self._column(self.outbox.table_field_event_payload, "table_field_event_payload")
        payloads, write = rows.column(column.name), self.format
        schemas: tuple[Schema, ...]
        if len(fields := self._fields(column)) == 1:
            values, schemas = write.single(column, payloads, self.handling), (fields[_PAYLOAD][1],)
            which = np.zeros(len(rows), np.int64)
            if self._expands(column):
                values = write.message(self._expanded(column, payloads), schemas[0])
        else:
            pieces: dict[str, TextPiece] = {
                name: write.column(of, rows.column(of.name), self.handling)
                for name, (of, _) in fields.items()
            }
            if self._expands(column):
                pieces[_PAYLOAD] = self._expanded(column, payloads)
            records = write.record(pieces, len(rows))
            values, schemas, which = self._by_route(
                records, {name: of for name, (_, of) in fields.items()}, rows
            )
        if self.outbox.route_tombstone_on_empty_payload:
            values = pc.if_else(_empty(payloads), pa.scalar(None, values.type), values)
        return values, schemas, which

    def _fields(self, payload: Column) -> dict[str, tuple[Column, Schema]]:
        """Returns the fields of an event: the payload, and the columns that are placed beside it."""
        columns = {_PAYLOAD: payload}
        for placed in self.outbox.placed:
            added = self._additional(placed.column)
            if added is not None and placed.placement is Placement.ENVELOPE:
                columns[placed.name] = added
        return {name: (each, column_schema(each, self.handling)) for name, each in columns.items()}

    def _by_route(
        self, records: pa.Array, schemas: Mapping[str, Schema], rows: pa.RecordBatch
    ) -> tuple[pa.Array, tuple[Schema, ...], Longs]:
        """Returns the values, their schemas, and the number of each value's schema.

        A schema has the name of where an event goes, and the version that the row says.
        """
        routed = rows.column(self.outbox.route_by_field).cast(pa.string()).dictionary_encode()
        pairs = np.stack((np.asarray(routed.indices).astype(np.int64), self._versions(rows)), axis=1)
        kinds, which = np.unique(pairs, axis=0, return_inverse=True)
        which = which.reshape(-1).astype(np.int64)
        by_route = tuple(
            struct(
                (field(of, name) for name, of in schemas.items()),
                name=f"{self.name}.{routed.dictionary[route]}.Value",
                version=None if version == _NO_VERSION else version,
            )
            for route, version in kinds.tolist()
        )
        order = np.argsort(which, kind="stable")
        parts = [
            self.format.message(records.take(pa.array(np.flatnonzero(which == number))), schema)
            for number, schema in enumerate(by_route)
        ]
        values = pa.concat_arrays(parts) if parts else records
        return values.take(pa.array(np.argsort(order))), by_route, which

    def _versions(self, rows: pa.RecordBatch) -> Longs:
        """Returns the version of each row's schema."""
        if (name := self.outbox.table_field_event_schema_version) is None:
            return np.full(len(rows), _NO_VERSION)
        column = self._column(name, "table_field_event_schema_version")
        if column_schema(column, self.handling)["type"] != "int32":
            raise KafkaRefused(
                f"{name} of the outbox {self._table} is no version; see to kafka.outboxes."
                "table_field_event_schema_version"
            )
        return np.asarray(pc.fill_null(rows.column(name).cast(pa.int64()), _NO_VERSION))

    def _expands(self, payload: Column) -> bool:
        return self.outbox.table_expand_json_payload and isinstance(payload.type, Text | Json)

    def _expanded(self, column: Column, payloads: pa.Array) -> pa.Array:
        """Returns the payloads as JSON, with documents among them expanded."""
        distinct = payloads.dictionary_encode()
        nulls = self.outbox.table_json_payload_null_behavior is NullsInPayload.OPTIONAL_BYTES
        try:
            found = [_expanded(text, nulls=nulls) for text in distinct.dictionary.to_pylist()]
        except RecursionError as error:
            raise KafkaRefused(
                f"the outbox {self._table} has a payload that nests too deeply to be expanded; see to who inserts it, "
                "or set table_expand_json_payload = false"
            ) from error
        texts = json_values(column, payloads, self.handling)
        return pc.coalesce(pa.array(found, pa.string()).take(distinct.indices), texts)

    def _times(self, rows: pa.RecordBatch) -> pa.Array | None:
        if (name := self.outbox.table_field_event_timestamp) is None:
            return None
        column = self._column(name, "table_field_event_timestamp")
        if not isinstance(column.type, DateTime | Timestamp):
            raise KafkaRefused(
                f"{name} of the outbox {self._table} is no moment; see to kafka.outboxes.table_field_event_timestamp"
            )
        return pc.cast(rows.column(name).cast(pa.timestamp("ms"), safe=False), pa.int64())

    def _partitions(self, column: Column, rows: pa.RecordBatch) -> pa.Array:
        if not isinstance(column.type, Integer):
            raise KafkaRefused(
                f"{column.name} of the outbox {self._table} is no number of a partition; "
                "see to kafka.outboxes.table_fields_additional_placement"
            )
        # A number above all is no partition either, and the topic refuses it.
        numbers = rows.column(column.name)
        if pa.types.is_uint64(numbers.type):
            numbers = pc.min_element_wise(numbers, pa.scalar(_NO_PARTITION, pa.uint64()), skip_nulls=False)
        return numbers.cast(pa.int64())


def _empty(payloads: pa.Array) -> pa.Array:
    if not (pa.types.is_string(payloads.type) or pa.types.is_large_string(payloads.type)):
        return payloads.is_null()
    return pc.fill_null(pc.equal(pc.utf8_length(pc.utf8_trim_whitespace(payloads)), 0), True)


def _expanded(text: str | None, *, nulls: bool) -> str | None:
    """Returns the JSON document as JsonConverter writes it, None if it isn't one or Debezium leaves it as it is."""
    if text is None or not text.startswith(("{", "[")):
        return None
    try:
        # Jackson reads one document, whatever follows it.
        return _written(_STRICT.raw_decode(text)[0], nulls=nulls)
    except ValueError:
        return None
    except RecursionError:
        if _depth(text) > _JACKSON_DEPTH:
            return None
        raise


def _depth(text: str) -> int:
    """Returns how deeply the brackets of a JSON document nest."""
    brackets = "".join(_NO_BRACKETS.split(_JSON_TEXT.sub("", text)))
    return max(accumulate(1 if each in "{[" else -1 for each in brackets), default=0)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} isn't JSON")


def _written(value: Any, *, nulls: bool) -> str:
    """Returns a value as JsonConverter writes it. A level of a document takes one call, for Python bounds them."""
    parts = []
    match value:
        case dict():
            for name, of in _shown(value, nulls=nulls).items():
                parts.append(f"{json_text(name)}:{_written(of, nulls=nulls)}")
            return "{" + ",".join(parts) + "}"
        case list():
            for each in value:
                parts.append(_written(each, nulls=nulls))  # noqa: PERF401 - a comprehension is a call more
            return "[" + ",".join(parts) + "]"
        case str():
            return json_text(value)
        case float() if math.isinf(value):  # a number beyond all doubles
            return '"Infinity"' if value > 0 else '"-Infinity"'
        case float():
            return str(json_values(_DOUBLE, pa.array([value]), Handling())[0])
        case _:
            return json.dumps(value)


_STRICT: Final = json.JSONDecoder(parse_constant=_refuse_constant)


def _shown(fields: Mapping[str, Any], *, nulls: bool) -> Mapping[str, Any]:
    """Returns the fields without empty lists, whose items have no schema in Connect, and perhaps without nulls."""
    return {name: value for name, value in fields.items() if value != [] and (nulls or value is not None)}
