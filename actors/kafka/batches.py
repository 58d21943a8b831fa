"""Messages of a table's rows as batches of Kafka's records, one or more for each partition.

Rows stay columns up to here, where a compiled loop makes them the bytes of records.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from actors.kafka.record_batch import RecordBatch
from actors.kafka.segment_rows import TableRows
from pipeline.config.settings import Compression, KafkaSinkSettings
from pipeline.kafka.envelope import Envelope, Messages, SourceBlock
from pipeline.kafka.errors import TopicRefusal
from pipeline.kafka.operations import without
from pipeline.kafka.partitioner import partitions
from pipeline.kafka.records import encoded_headers, record_runs
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
    records: RecordBatch


@dataclass(frozen=True, slots=True)
class Records:
    """Messages of one topic in their order. `headers`: texts by the header's name, null where it isn't there."""

    topic: str
    keys: pa.Array
    values: pa.Array
    headers: tuple[tuple[str, pa.Array], ...] = ()


def single_batch(topic: str, key: bytes, value: bytes, at_ms: int) -> PartitionBatch:
    """A batch of one message, for the topic's first partition."""
    (run,) = record_runs(pa.array([key]), pa.array([value]), None, np.zeros(1, np.int64), 1)
    return PartitionBatch(topic, 0, RecordBatch(run, at_ms, Compression.NONE))


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
    ) -> Iterator[PartitionBatch]:
        """The batches of these of the messages in which transactions begin and end."""
        made = transaction_messages(changed, schemas=self._settings.schemas_enable)
        records = Records(self.transaction_topic, made.keys[which], made.values[which])
        return self.batches_of(records, count, processed_us // 1000)

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
        self, part: TableRows, count: int, processed_us: int, orders: MessageOrders | None = None
    ) -> Iterator[PartitionBatch]:
        """The batches for a topic of `count` partitions."""
        messages = self.messages(part, processed_us, orders)
        named = ((NEW_KEY, messages.new_keys), (OLD_KEY, messages.old_keys))
        return self.batches_of(
            Records(self.topic(part), messages.keys, messages.values, named), count, processed_us // 1000
        )

    def batches_of(self, records: Records, count: int, processed_ms: int) -> Iterator[PartitionBatch]:
        """The batches of these records for a topic of `count` partitions."""
        settings, headers = self._settings, _headers(records)
        places = _partitions(records.keys, count)
        for partition in np.unique(places).tolist():
            rows = np.flatnonzero(places == partition)
            for run in record_runs(records.keys, records.values, headers, rows, settings.batch_bytes):
                batch = RecordBatch(run, processed_ms, settings.compression_type)
                yield PartitionBatch(records.topic, partition, batch)


def _partitions(keys: pa.Array, count: int) -> Any:
    """The partition of each key; without one it's the first, which keeps the order of the table's changes."""
    if count == 1 or keys.null_count == len(keys):
        return np.zeros(len(keys), np.int32)
    found = partitions(pc.fill_null(keys, ""), count)
    return np.where(np.asarray(keys.is_valid()), found, 0)


def _headers(records: Records) -> pa.Array | None:
    """The headers of each record, null where it has none; None where no record has any."""
    count = len(records.keys)
    there = [(name, texts) for name, texts in records.headers if texts.null_count < count]
    if not there:
        return None
    found: list[bytes | None] = [None] * count
    some = np.logical_or.reduce([np.asarray(texts.is_valid()) for _, texts in there])
    for row in np.flatnonzero(some).tolist():
        named = [(name, texts[row]) for name, texts in there]
        found[row] = encoded_headers(
            [(name, text.cast(pa.binary()).as_py()) for name, text in named if text.is_valid]
        )
    return pa.array(found, pa.binary())
