"""Messages of a table's rows as batches of Kafka's records, one or more for each partition.

Rows stay columns up to here. A compiled loop writes them as the bytes of records.
"""

from collections import deque
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from typing import Final

import numpy as np
import pyarrow as pa
import structlog

from actors.kafka.record_batch import RecordBatch
from actors.kafka.refusals import refused_as_messages, refused_as_rows
from pipeline.config.outbox import Outbox
from pipeline.config.settings import Compression, ConverterKind, HeaderConverterKind, KafkaSinkSettings
from pipeline.kafka.avro.avro_format import AVRO
from pipeline.kafka.debezium.changed_rows import without
from pipeline.kafka.debezium.envelope import Envelope, Messages
from pipeline.kafka.debezium.heartbeat import heartbeat
from pipeline.kafka.debezium.json_format import JsonFormat
from pipeline.kafka.debezium.message_format import MessageFormat, MessagePairs
from pipeline.kafka.debezium.notification import notification_messages
from pipeline.kafka.debezium.outbox import OutboxEvents
from pipeline.kafka.debezium.schema_change import schema_change_messages
from pipeline.kafka.debezium.source_block import SourceBlock
from pipeline.kafka.debezium.table_mapping import TableMapping, map_table
from pipeline.kafka.debezium.transactions import ChangedRows, MessageOrders, transaction_messages
from pipeline.kafka.errors import TableRefusal
from pipeline.kafka.messages.message_rows import MessageRows
from pipeline.kafka.messages.partitioned_records import PartitionedRecords, in_stream_order, partitioned
from pipeline.kafka.messages.records import record_runs
from pipeline.kafka.messages.simple_headers import SIMPLE
from pipeline.kafka.messages.topic_records import Records, RecordSchemas, StreamPlaces, by_topic
from pipeline.kafka.rows_in_step import TableRows
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
            return [records] if messages.topics is None else list(by_topic(records, messages.topics))

    def batches_of(
        self, parts: Sequence[Records], count: int, processed_ms: int, most: int | None = None
    ) -> Iterator[PartitionBatch]:
        """Returns the batches of these records of a topic with `count` partitions, one of each partition in turn.

        `most`: the bytes of a batch, if the topic takes no larger ones. A single message may have more.

        So a request to a broker has a batch for each of its partitions. Several parts are of several tables: their
        messages are in the order of the stream.
        """
        with refused_as_messages(parts[0].topic):
            found = [partitioned(each, count, processed_ms) for each in parts]
            records = found[0] if len(parts) == 1 else in_stream_order(found, [each.places for each in parts])
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
        self, records: PartitionedRecords, partition: int, rows: Longs, limit: int | None
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
        return list(by_topic(records, events.topics))


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
