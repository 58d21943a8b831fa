"""Messages of a table's rows as batches of Kafka's records, one or more for each partition.

Rows are columns until here, where each message's key and value become the bytes of a record.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from aiokafka.producer.message_accumulator import BatchBuilder

from actors.kafka.segment_rows import TableRows
from pipeline.config.settings import KafkaSinkSettings
from pipeline.kafka.envelope import Envelope, Messages, SourceBlock
from pipeline.kafka.errors import TopicRefusal
from pipeline.kafka.operations import without
from pipeline.kafka.partitioner import partitions
from pipeline.kafka.topics import topic_of
from pipeline.kafka.transactions import ChangedRows, MessageOrders, transaction_messages
from pipeline.schema.table_schema import TableId

NEW_KEY: Final = "__debezium.newkey"
OLD_KEY: Final = "__debezium.oldkey"


def software_version() -> str:
    """What `source.version` says."""
    try:
        return version("tidemark")
    except PackageNotFoundError:
        return "0"


@dataclass(frozen=True, slots=True)
class PartitionBatch:
    """Records of one partition, in their order."""

    topic: str
    partition: int
    records: BatchBuilder
    count: int
    bytes: int


def single_batch(records: BatchBuilder, topic: str, key: bytes, value: bytes, at_ms: int) -> PartitionBatch:
    """A batch of one message, for the topic's first partition; `records` is empty."""
    added = records.append(timestamp=at_ms, key=key, value=value)
    return PartitionBatch(topic, 0, records, 1, added.size)


class MessageBatches:
    """Makes the batches by the settings."""

    def __init__(self, settings: KafkaSinkSettings) -> None:
        self._settings = settings
        self._version = software_version()

    def topic(self, rows: TableRows) -> str:
        """Where messages of these rows go."""
        return topic_of(rows.schema.table, self._settings.topic_prefix, self._settings.topic_delimiter)

    @property
    def transaction_topic(self) -> str:
        """Where the messages go in which transactions begin and end."""
        return self._settings.topic_delimiter.join(
            (self._settings.topic_prefix, self._settings.topic_transaction)
        )

    def marks(
        self,
        changed: ChangedRows,
        which: slice,
        count: int,
        processed_us: int,
        new: Callable[[], BatchBuilder],
    ) -> Iterator[PartitionBatch]:
        """The batches of these of the messages in which transactions begin and end."""
        made = transaction_messages(changed, schemas=self._settings.schemas_enable)
        records = Records(self.transaction_topic, made.keys[which], made.values[which])
        return batches_of(records, count, processed_us // 1000, new)

    def wanted(self, table: TableId) -> bool:
        """Whether the table has a topic."""
        tables = self._settings.tables
        return tables is None or tables.match(table)

    def narrowed(self, table: TableId, changes: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a table's changes file that become messages."""
        return (
            without(changes, self._settings.skipped_operations) if self.wanted(table) else changes.slice(0, 0)
        )

    def messages(self, part: TableRows, processed_us: int, orders: MessageOrders | None = None) -> Messages:
        """The messages of these rows, made at `processed_us` (µs since the epoch).

        `orders`: of the run's transactions, where blocks are wanted. Raises TopicRefusal where rows lack columns.
        """
        settings = self._settings
        if part.rows.column("__absent").null_count < part.rows.num_rows:
            raise TopicRefusal(
                self.topic(part),
                f"{part.schema.table} has rows without all of their columns, and null would be a lie; set "
                "binlog_row_image = FULL at the source, or leave the table out with kafka.tables",
            )
        envelope = Envelope(
            part.schema,
            settings.topic_prefix,
            self._version,
            settings.handling,
            settings.schemas_enable,
            settings.tombstones_on_delete,
        )
        rows = without(part.rows, settings.skipped_operations)
        blocks = None if orders is None else orders.blocks(part.schema.table, rows)
        return envelope.messages(rows, SourceBlock.of(rows, processed_us), processed_us, blocks)

    def batches(
        self,
        part: TableRows,
        count: int,
        processed_us: int,
        new: Callable[[], BatchBuilder],
        orders: MessageOrders | None = None,
    ) -> Iterator[PartitionBatch]:
        """The batches for a topic of `count` partitions; `new` makes an empty one."""
        messages = self.messages(part, processed_us, orders)
        named = ((NEW_KEY, messages.new_keys), (OLD_KEY, messages.old_keys))
        records = Records(self.topic(part), messages.keys, messages.values, named)
        return batches_of(records, count, processed_us // 1000, new)


@dataclass(frozen=True, slots=True)
class Records:
    """Messages of one topic in their order. `headers`: texts by the header's name, null where it isn't there."""

    topic: str
    keys: pa.Array
    values: pa.Array
    headers: tuple[tuple[str, pa.Array], ...] = ()


def batches_of(
    records: Records, partitions_: int, processed_ms: int, new: Callable[[], BatchBuilder]
) -> Iterator[PartitionBatch]:
    """The batches of these records for a topic of so many partitions; `new` makes an empty one."""
    topic = records.topic
    places = _partitions(records.keys, partitions_)
    keys = pc.cast(records.keys, pa.binary()).to_pylist()
    values = pc.cast(records.values, pa.binary()).to_pylist()
    headers = _headers(records)
    for partition in np.unique(places).tolist():
        batch, size = new(), 0
        for at in np.flatnonzero(places == partition).tolist():
            record = {"key": keys[at], "value": values[at], "headers": headers[at] if headers else []}
            added = batch.append(timestamp=processed_ms, **record)
            if added is None:
                yield PartitionBatch(topic, partition, batch, batch.record_count(), size)
                batch, size = new(), 0
                added = batch.append(timestamp=processed_ms, **record)
            size += added.size
        yield PartitionBatch(topic, partition, batch, batch.record_count(), size)


def _partitions(keys: pa.Array, count: int) -> Any:
    """The partition of each key; without one it's the first, which keeps the order of the table's changes."""
    if count == 1 or keys.null_count == len(keys):
        return np.zeros(len(keys), np.int32)
    found = partitions(pc.fill_null(keys, ""), count)
    return np.where(np.asarray(keys.is_valid()), found, 0)


def _headers(records: Records) -> list[list[tuple[str, bytes]]] | None:
    """The headers of each message, None where no message has any."""
    count = len(records.keys)
    there = [(name, texts) for name, texts in records.headers if texts.null_count < count]
    if not there:
        return None
    named = [(name, pc.cast(texts, pa.binary()).to_pylist()) for name, texts in there]
    return [[(name, texts[i]) for name, texts in named if texts[i] is not None] for i in range(count)]
