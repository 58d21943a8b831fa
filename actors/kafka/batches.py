"""Messages of a table's rows as batches of Kafka's records, one or more for each partition.

Rows stay columns up to here. A compiled loop writes them as the bytes of records.
"""

from collections import deque
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import structlog

from actors.kafka.message_rows import MessageRows
from actors.kafka.record_batch import RecordBatch
from actors.kafka.refusals import refused_as_messages, refused_as_rows
from actors.kafka.segment_rows import TableRows
from pipeline.config.outbox import Outbox
from pipeline.config.settings import Compression, ConverterKind, HeaderConverterKind, KafkaSinkSettings
from pipeline.kafka.avro.avro_format import AVRO
from pipeline.kafka.avro.wire_format import framed
from pipeline.kafka.debezium.changed_rows import without
from pipeline.kafka.debezium.connect_schema import Schema
from pipeline.kafka.debezium.envelope import Envelope, Messages, Numbers
from pipeline.kafka.debezium.heartbeat import heartbeat
from pipeline.kafka.debezium.json_format import JsonFormat
from pipeline.kafka.debezium.message_format import MessageFormat, MessagePairs
from pipeline.kafka.debezium.notification import notification_messages
from pipeline.kafka.debezium.outbox import OutboxEvents
from pipeline.kafka.debezium.schema_change import schema_change_messages
from pipeline.kafka.debezium.source_block import SourceBlock
from pipeline.kafka.debezium.table_mapping import TableMapping, map_table
from pipeline.kafka.debezium.transactions import ChangedRows, MessageOrders, transaction_messages
from pipeline.kafka.errors import TableRefusal, TopicRefusal
from pipeline.kafka.messages.partitioner import partitions
from pipeline.kafka.messages.records import encoded_headers, record_runs
from pipeline.kafka.messages.simple_headers import SIMPLE
from pipeline.kafka.state import Topics, includes
from pipeline.kafka.topics import Destination, destination_of, topic_of_heartbeats
from pipeline.messages.journal import StatementPart
from pipeline.schema.ddl.schema_statements import SchemaStatement
from pipeline.schema.table_schema import TableId, TableSchema
from pipeline.signals.notifications import Notification
from pipeline.types.buffers import Longs

log = structlog.get_logger()

# A message of more bytes that is a batch of its own is compressed. A topic takes 1 MiB, unless it is set otherwise.
_LARGE_BYTES: Final = 64 << 10


def software_version() -> str:
    """Returns the value of `source.version`."""
    try:
        return version("tidemark")
    except PackageNotFoundError:
        return "0"


@dataclass(frozen=True, slots=True)
class PartitionBatch:
    """Records of one partition, in their order."""

    topic: str
    partition: int
    records: RecordBatch


@dataclass(frozen=True, slots=True)
class RecordSchemas:
    """The Connect schemas of keys and values. Each value has the schema with its number in `of`, or the first one."""

    key: Schema
    values: tuple[Schema, ...]
    of: Longs | None = None


@dataclass(frozen=True, slots=True)
class StreamPlaces:
    """The places in the stream of changes, by the journal's SCN and ordinal."""

    scn: Longs
    ordinal: Longs

    @staticmethod
    def of(changes: pa.RecordBatch, rows: Numbers) -> "StreamPlaces":
        """Returns the places of these rows."""
        scn, ordinal = (np.asarray(changes.column(name), np.int64) for name in ("__scn", "__ordinal"))
        return StreamPlaces(scn[rows], ordinal[rows])

    def taken(self, rows: Longs) -> "StreamPlaces":
        """Returns the places of these rows."""
        return StreamPlaces(self.scn[rows], self.ordinal[rows])


@dataclass(frozen=True, slots=True)
class Records:
    """Messages of one topic in their order. `headers`: texts by the header's name, null if a message lacks it.

    `times` (ms since the epoch) and `partitions` are null, or None, if the message has none of its own. `schemas`:
    those whose ids the messages still lack (`identified`). `places`: those of the rows that the messages are of, None
    if they are of none.
    """

    topic: str
    keys: pa.Array
    values: pa.Array
    headers: tuple[tuple[str, pa.Array], ...] = ()
    times: pa.Array | None = None
    partitions: pa.Array | None = None
    schemas: RecordSchemas | None = None
    places: StreamPlaces | None = None

    @property
    def nameless(self) -> tuple[tuple[str, Schema], ...]:
        """Returns the schemas that need ids, of the `key` and of the `value`s."""
        if self.schemas is None:
            return ()
        keyed = self.keys.null_count < len(self.keys)
        valued = self.values.null_count < len(self.values)
        keys = (("key", self.schemas.key),) if keyed else ()
        return (*keys, *(("value", each) for each in self.schemas.values if valued))

    def identified(self, ids: Sequence[int]) -> "Records":
        """Returns the messages with heads that name their schemas; `ids` are those of `nameless`."""
        assert self.schemas is not None
        none = np.zeros(len(self.keys), np.int64)
        of = none if self.schemas.of is None else self.schemas.of
        keys, values, keyed = self.keys, self.values, self.keys.null_count < len(self.keys)
        if keyed:
            keys = framed(keys, ids[:1], none)
        if len(ids) > keyed:
            values = framed(values, ids[keyed:], of)
        return replace(self, keys=keys, values=values, schemas=None)


@dataclass(frozen=True, slots=True)
class _Encoded:
    """Messages of one topic with their headers as bytes, None if none has any, and each one's time and partition."""

    topic: str
    keys: pa.Array
    values: pa.Array
    headers: pa.Array | None
    times: Longs
    partitions: Any


def single_batch(topic: str, key: bytes, value: bytes, at_ms: int) -> PartitionBatch:
    """Returns a batch of one message, for the topic's first partition. A large one is compressed."""
    times, first = np.array([at_ms]), np.zeros(1, np.int64)
    (run,) = record_runs(pa.array([key]), pa.array([value]), None, times, first, 1)
    large = len(value) > _LARGE_BYTES
    return PartitionBatch(topic, 0, RecordBatch(run, Compression.GZIP if large else Compression.NONE))


class MessageBatches:
    """Makes the batches that the settings define."""

    def __init__(self, settings: KafkaSinkSettings) -> None:
        self._settings = settings
        self._version = software_version()
        self._avro = settings.converter is ConverterKind.AVRO
        json = JsonFormat(settings.schemas_enable)
        simple = settings.header_converter is HeaderConverterKind.SIMPLE
        self._headers: MessageFormat = SIMPLE if simple else json
        self._format: MessageFormat = AVRO if self._avro else json

    def topic(self, table: TableId) -> str:
        """Returns where messages of a table go."""
        return self._destination(table).topic

    def sharing(self, table: TableId) -> str:
        """Returns what is the same of two tables whose messages may go to the same topic.

        Rows say where the events of an outbox go, and where all messages go with `route_by_field`.
        """
        unwrap = self._settings.unwrap
        by_rows = self._outbox(table) is not None or (
            unwrap is not None and unwrap.route_by_field is not None
        )
        return "" if by_rows else self.topic(table)

    def _outbox(self, table: TableId) -> Outbox | None:
        return next((each for each in self._settings.outboxes if each.tables.match(table)), None)

    def _destination(self, table: TableId) -> Destination:
        settings = self._settings
        return destination_of(table, settings.topic_prefix, settings.topic_delimiter, settings.topic_routes)

    def _mapping(self, schema: TableSchema) -> TableMapping:
        return map_table(schema, self._settings.message_columns, self._settings.unavailable_value_placeholder)

    def needed(self, schema: TableSchema) -> tuple[str, ...]:
        """Returns the columns of a table that `narrowed` needs."""
        return self._mapping(schema).needed

    @property
    def transaction_topic(self) -> str:
        """Returns the topic for the begin and end of transactions."""
        return self._settings.topic_delimiter.join(
            (self._settings.topic_prefix, self._settings.topic_transaction)
        )

    def marks(self, changed: ChangedRows) -> Records:
        """Returns the messages for the begin and end of transactions."""
        topic = self.transaction_topic
        with refused_as_messages(topic):
            return self._plain(topic, transaction_messages(changed, self._format))

    @property
    def heartbeat_topic(self) -> str:
        """Returns the topic of heartbeats."""
        return topic_of_heartbeats(self._settings.topic_heartbeat_prefix, self._settings.topic_prefix)

    def heartbeat(self, now_us: int) -> Records:
        """Returns a heartbeat of this moment."""
        made = heartbeat(self._settings.topic_prefix, now_us, self._format)
        return replace(self._plain(self.heartbeat_topic, made), partitions=pa.array([0], pa.int32()))

    def notifications(self, found: Sequence[Notification], at_us: int) -> Records:
        """Returns the messages of these notifications at this time (µs since the epoch)."""
        settings = self._settings
        assert settings.notification_sink_topic_name is not None
        with refused_as_messages(settings.notification_sink_topic_name):
            made = notification_messages(found, settings.topic_prefix, at_us // 1000, self._format)
            return self._plain(settings.notification_sink_topic_name, made)

    @property
    def schema_change_topic(self) -> str:
        """Returns the topic for statements on the schema."""
        return self._settings.topic_prefix

    def schema_changes(self, parts: Sequence[StatementPart], now_us: int) -> Records:
        """Returns the messages of these statements, made now."""
        prefix = self._settings.topic_prefix
        with refused_as_messages(self.schema_change_topic):
            made = schema_change_messages(parts, prefix, self._version, now_us, self._format)
            first = pa.array(np.zeros(len(parts), np.int32))
            return replace(self._plain(self.schema_change_topic, made), partitions=first)

    @property
    def named_topics(self) -> list[str]:
        """Returns the topics that the settings request, without those of tables."""
        settings = self._settings
        named = {
            self.transaction_topic: settings.provide_transaction_metadata,
            self.heartbeat_topic: settings.heartbeat_interval_ms > 0,
            self.schema_change_topic: settings.include_schema_changes,
            settings.notification_sink_topic_name: True,
        }
        return [topic for topic, wanted in named.items() if wanted and topic is not None]

    def wants(self, statement: SchemaStatement) -> bool:
        """Returns whether a statement concerns a table that has a topic, or the database of one."""
        tables = self._settings.tables
        if tables is None:
            return True
        return any(map(tables.match, statement.tables)) or (
            not statement.tables and tables.may_match_in(statement.database)
        )

    def _plain(self, topic: str, pairs: MessagePairs) -> Records:
        schemas = RecordSchemas(pairs.key_schema, (pairs.value_schema,)) if self._avro else None
        return Records(topic, pairs.keys, pairs.values, schemas=schemas)

    def wanted(self, table: TableId) -> bool:
        """Returns whether the table has a topic."""
        tables = self._settings.tables
        return tables is None or tables.match(table)

    def narrowed(self, schema: TableSchema, changes: pa.RecordBatch) -> pa.RecordBatch:
        """Returns the rows of a table's changes file that become messages, their updates by the messages' key.

        Raises TableRefusal if a row can't become a message.
        """
        if not self.wanted(schema.table):
            return changes.slice(0, 0)
        with self._refused_as_rows(schema.table):
            return without(self._mapping(schema).with_keys(changes), self._settings.skipped_operations)

    def counted_for(self, topics: Topics) -> "CountedRows":
        """Returns which rows count as messages of a transaction, while these topics take messages."""
        return CountedRows(self, topics, self._settings.skipped_operations)

    def rows(self, part: TableRows, orders: MessageOrders | None = None) -> MessageRows:
        """Returns the rows that become messages; `orders`: of the run's transactions, if the settings want blocks.

        Raises TableRefusal if a row can't become a message.
        """
        rows = self.narrowed(part.schema, part.rows)
        with self._refused_as_rows(part.schema.table):
            blocks = None if orders is None else orders.blocks(part.schema.table, rows)
            return MessageRows(part.schema, rows, blocks)

    def _refused_as_rows(self, table: TableId) -> AbstractContextManager[None]:
        return refused_as_rows(self.topic(table), table)

    def messages(self, of: MessageRows, processed_us: int) -> Messages:
        """Returns the messages of these rows, made at `processed_us` (µs since the epoch).

        Raises KafkaRefused if rows lack columns.
        """
        source = SourceBlock.of(of.rows, processed_us)
        return self._envelope(of.schema).messages(of.rows, source, processed_us, of.blocks)

    def _envelope(self, schema: TableSchema) -> Envelope:
        settings = self._settings
        return Envelope(
            self._mapping(schema),
            self._destination(schema.table),
            settings.topic_prefix,
            self._version,
            settings.handling,
            self._format,
            self._headers,
            settings.tombstones_on_delete,
            settings.unwrap,
        )

    def records(self, of: MessageRows, processed_us: int) -> list[Records]:
        """Returns the messages of these rows by their topics. Raises TableRefusal if a row can't become one."""
        table = of.schema.table
        with self._refused_as_rows(table):
            if (outbox := self._outbox(table)) is not None:
                return self._events(outbox, of)
            envelope = self._envelope(of.schema)
            if left_out := envelope.left_out(of.rows):
                log.warning("a repair's deletes make no messages", table=str(table), rows=left_out)
            messages = self.messages(of, processed_us)
            schemas = None
            if self._avro:
                schemas = RecordSchemas(envelope.key_schema(envelope.destination), (envelope.message_schema,))
            records = Records(
                self.topic(table),
                messages.keys,
                messages.values,
                messages.headers,
                schemas=schemas,
                places=StreamPlaces.of(of.rows, messages.rows),
            )
            return [records] if messages.topics is None else list(_by_topic(records, messages.topics))

    def batches_of(
        self, parts: Sequence[Records], count: int, processed_ms: int, most: int | None = None
    ) -> Iterator[PartitionBatch]:
        """Returns the batches of these records of a topic with `count` partitions, one of each partition in turn.

        `most`: the bytes of a batch, if the topic takes no larger ones. A single message may have more.

        So a request to a broker has a batch for each of its partitions. Several parts are of several tables: their
        messages are in the order of the stream.
        """
        with refused_as_messages(parts[0].topic):
            encoded = [_encoded(each, count, processed_ms) for each in parts]
            records = (
                encoded[0] if len(parts) == 1 else _in_stream_order(encoded, [each.places for each in parts])
            )
            waiting = deque(
                self._of_partition(records, partition, np.flatnonzero(records.partitions == partition), most)
                for partition in np.unique(records.partitions).tolist()
            )
            while waiting:
                if (batch := next(waiting[0], None)) is None:
                    waiting.popleft()
                else:
                    yield batch
                    waiting.rotate(-1)

    def _of_partition(
        self, records: _Encoded, partition: int, rows: Longs, limit: int | None
    ) -> Iterator[PartitionBatch]:
        """Returns the batches of these rows, which go to one partition."""
        settings = self._settings
        columns = (records.keys, records.values, records.headers, records.times)
        most = min(settings.batch_bytes, settings.max_request_bytes // 2, limit or settings.batch_bytes)
        for run in record_runs(*columns, rows, most):
            yield PartitionBatch(records.topic, partition, RecordBatch(run, settings.compression_type))

    def _events(self, outbox: Outbox, of: MessageRows) -> list[Records]:
        settings, table = self._settings, of.schema.table
        mapping, name = self._mapping(of.schema), f"{settings.topic_prefix}.{table.dotted}"
        making = OutboxEvents(mapping, outbox, settings.handling, name, self._format, self._headers)
        if updates := making.updates(of.rows):
            log.warning("an outbox was updated", table=str(table), rows=updates)
        events = making.events(of.rows)
        schemas = None
        if self._avro:
            schemas = RecordSchemas(events.key_schema, events.value_schemas, events.value_schema_of)
        records = Records(
            self.topic(table),
            events.keys,
            events.values,
            events.headers,
            events.times,
            events.partitions,
            schemas,
            StreamPlaces.of(of.rows, events.rows),
        )
        return list(_by_topic(records, events.topics))


@dataclass(frozen=True, slots=True)
class CountedRows:
    """The rows that count as messages of a transaction, in the blocks and ENDs that `topics` receive.

    A table whose rows make no messages doesn't stop other topics. Once its topic is set aside, its updates count as if
    they kept the messages' key.
    """

    making: MessageBatches
    topics: Topics
    skipped: Collection[str]

    def needed(self, schema: TableSchema) -> tuple[str, ...]:
        """Returns the columns of a table that `narrowed` needs."""
        return self.making.needed(schema)

    def narrowed(self, schema: TableSchema, changes: pa.RecordBatch) -> pa.RecordBatch:
        """Returns the rows. Raises TableRefusal if a row can't become a message, and its topic is one of `topics`."""
        try:
            return self.making.narrowed(schema, changes)
        except TableRefusal as refusal:
            if includes(self.topics, refusal.topic):
                raise
            return without(changes, self.skipped)


def _by_topic(records: Records, topics: pa.Array) -> Iterator[Records]:
    """Returns the messages of each topic, in their order; `topics` has the topic of each."""
    for topic in topics.unique().to_pylist():
        rows = np.flatnonzero(np.asarray(pc.equal(topics, topic)))
        at = pa.array(rows)
        headers = tuple((name, texts.take(at)) for name, texts in records.headers)
        times, partitions_ = (
            None if each is None else each.take(at) for each in (records.times, records.partitions)
        )
        schemas, places = records.schemas, records.places
        if schemas is not None and schemas.of is not None:
            schemas = replace(schemas, of=schemas.of[rows])
        yield Records(
            topic,
            records.keys.take(at),
            records.values.take(at),
            headers,
            times,
            partitions_,
            schemas,
            None if places is None else places.taken(rows),
        )


def _encoded(records: Records, count: int, processed_ms: int) -> _Encoded:
    times = np.full(len(records.keys), processed_ms, np.int64)
    if records.times is not None:
        times = np.asarray(pc.fill_null(records.times, processed_ms))
    return _Encoded(
        records.topic,
        records.keys,
        records.values,
        _headers(records),
        times,
        _places(records, count),
    )


def _in_stream_order(parts: Sequence[_Encoded], places: Sequence[StreamPlaces | None]) -> _Encoded:
    """Returns the messages of all parts. Those of one row stay in their order."""
    there = [each for each in places if each is not None]
    assert len(there) == len(parts)
    scn, ordinal = (np.concatenate([getattr(each, name) for each in there]) for name in ("scn", "ordinal"))
    order = np.lexsort((ordinal, scn))
    at = pa.array(order)

    def joined(name: str, none: pa.DataType) -> pa.Array | None:
        """None if no part has it."""
        columns = [getattr(part, name) for part in parts]
        if all(column is None for column in columns):
            return None
        filled = [
            pa.nulls(len(part.keys), none) if column is None else column
            for part, column in zip(parts, columns, strict=True)
        ]
        if len({column.type for column in filled}) > 1:
            filled = [column.cast(pa.large_binary()) for column in filled]
        return pa.concat_arrays(filled).take(at)

    return _Encoded(
        parts[0].topic,
        joined("keys", pa.string()),
        joined("values", pa.string()),
        joined("headers", pa.binary()),
        np.concatenate([part.times for part in parts])[order],
        np.concatenate([part.partitions for part in parts])[order],
    )


def _places(records: Records, count: int) -> Any:
    """Returns the partition of each message: its own, or that of its key."""
    places = _partitions(records.keys, count)
    if records.partitions is None:
        return places
    said = np.asarray(pc.fill_null(records.partitions.cast(pa.int64()), pa.array(places, pa.int64())))
    if np.any((said < 0) | (said >= count)):
        raise TopicRefusal(
            records.topic,
            f"it has {count} partitions, and a message names another one; create it with more, or see to "
            "kafka.outboxes.table_fields_additional_placement",
        )
    return said


def _partitions(keys: pa.Array, count: int) -> Any:
    """Returns the partition of each key. Without one it is the first, which keeps the order of the table's changes."""
    if count == 1 or keys.null_count == len(keys):
        return np.zeros(len(keys), np.int32)
    found = partitions(pc.fill_null(keys, pa.scalar(b"").cast(keys.type)), count)
    return np.where(np.asarray(keys.is_valid()), found, 0)


def _headers(records: Records) -> pa.Array | None:
    """Returns the headers of each record, null if it has none; None if no record has any."""
    count = len(records.keys)
    there = [
        (name, texts.cast(pa.binary()).to_pylist())
        for name, texts in records.headers
        if texts.null_count < count
    ]
    if not there:
        return None
    found: list[bytes | None] = [None] * count
    some = np.logical_or.reduce([np.asarray(texts.is_valid()) for _, texts in records.headers])
    for row in np.flatnonzero(some).tolist():
        found[row] = encoded_headers([(name, texts[row]) for name, texts in there if texts[row] is not None])
    return pa.array(found, pa.binary())
