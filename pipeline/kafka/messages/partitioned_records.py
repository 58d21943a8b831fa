"""Messages of a topic with all that a record needs: its partition, its time and its headers as bytes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.kafka.errors import TopicRefusal
from pipeline.kafka.messages.partitioner import partitions
from pipeline.kafka.messages.records import encoded_headers
from pipeline.kafka.messages.topic_records import Records, StreamPlaces
from pipeline.types.buffers import Longs


@dataclass(frozen=True, slots=True)
class PartitionedRecords:
    """Messages of one topic with their headers as bytes, None if none has any, and each one's time and partition."""

    topic: str
    keys: pa.Array
    values: pa.Array
    headers: pa.Array | None
    times: Longs
    partitions: Any


def partitioned(records: Records, count: int, processed_ms: int) -> PartitionedRecords:
    """Returns the messages for a topic of `count` partitions; `processed_ms`: the time of those without their own.

    Raises TopicRefusal if a message names a partition that the topic doesn't have.
    """
    times = np.full(len(records.keys), processed_ms, np.int64)
    if records.times is not None:
        times = np.asarray(pc.fill_null(records.times, processed_ms))
    return PartitionedRecords(
        records.topic,
        records.keys,
        records.values,
        _headers(records),
        times,
        _partitions_of_messages(records, count),
    )


def in_stream_order(
    parts: Sequence[PartitionedRecords], places: Sequence[StreamPlaces | None]
) -> PartitionedRecords:
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

    return PartitionedRecords(
        parts[0].topic,
        joined("keys", pa.string()),
        joined("values", pa.string()),
        joined("headers", pa.binary()),
        np.concatenate([part.times for part in parts])[order],
        np.concatenate([part.partitions for part in parts])[order],
    )


def _partitions_of_messages(records: Records, count: int) -> Any:
    """Returns the partition of each message: its own, or that of its key."""
    places = _partitions_by_key(records.keys, count)
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


def _partitions_by_key(keys: pa.Array, count: int) -> Any:
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
