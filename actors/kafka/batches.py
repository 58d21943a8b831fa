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
from pipeline.kafka.errors import KafkaRefused
from pipeline.kafka.operations import without
from pipeline.kafka.partitioner import partitions
from pipeline.kafka.topics import topic_of

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


class MessageBatches:
    """Makes the batches by the settings."""

    def __init__(self, settings: KafkaSinkSettings) -> None:
        self._settings = settings
        self._version = software_version()

    def topic(self, rows: TableRows) -> str:
        """Where messages of these rows go."""
        return topic_of(rows.schema.table, self._settings.topic_prefix, self._settings.topic_delimiter)

    def messages(self, part: TableRows, processed_us: int) -> Messages:
        """The messages of these rows, made at `processed_us` (µs since the epoch).

        Raises KafkaRefused where rows lack columns.
        """
        settings = self._settings
        if part.rows.column("__absent").null_count < part.rows.num_rows:
            raise KafkaRefused(
                f"{part.schema.table} has rows without all of their columns, and null would be a lie; set "
                "binlog_row_image = FULL at the source, or leave the table out with kafka.tables"
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
        return envelope.messages(rows, SourceBlock.of(rows, processed_us), processed_us)

    def batches(
        self, part: TableRows, count: int, processed_us: int, new: Callable[[], BatchBuilder]
    ) -> Iterator[PartitionBatch]:
        """The batches for a topic of `count` partitions; `new` makes an empty one."""
        messages = self.messages(part, processed_us)
        return _batches(messages, self.topic(part), count, processed_us // 1000, new)


def _batches(
    messages: Messages, topic: str, partitions_: int, processed_ms: int, new: Callable[[], BatchBuilder]
) -> Iterator[PartitionBatch]:
    places = _partitions(messages.keys, partitions_)
    keys = pc.cast(messages.keys, pa.binary()).to_pylist()
    values = pc.cast(messages.values, pa.binary()).to_pylist()
    headers = _headers(messages)
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


def _headers(messages: Messages) -> list[list[tuple[str, bytes]]] | None:
    """The headers of each message, None where no message has any."""
    count = len(messages.keys)
    if messages.new_keys.null_count == count and messages.old_keys.null_count == count:
        return None
    named = ((NEW_KEY, messages.new_keys.to_pylist()), (OLD_KEY, messages.old_keys.to_pylist()))
    return [[(name, keys[i].encode()) for name, keys in named if keys[i] is not None] for i in range(count)]
