"""The position in the journal, in the position topic: one message for each Kafka transaction.

It is in a topic, and not among a consumer group's offsets. The broker forgets the offsets of a group without members
after seven days (`offsets.retention.minutes`), and then the sink wouldn't know what it sent. The topic is compacted:
the last message of a key stays forever. Its key is the journal's id.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError, UnknownTopicOrPartitionError

from actors.kafka.batches import PartitionBatch, single_batch
from actors.kafka.client import client_options
from actors.kafka.end_offsets import Isolation
from actors.kafka.producer import KafkaProducer, failure
from pipeline.config.settings import KafkaSinkSettings
from pipeline.kafka import position as positions
from pipeline.kafka.position import SinkPosition
from pipeline.kafka.transaction_endings import Ending, RecordEnds, TopicPart, ending_of, open_parts

_WITHIN_S: Final = 60.0
# How many offsets before the end are looked at first; a Kafka transaction takes two.
_LAST: Final = 64


@dataclass(frozen=True, slots=True)
class FoundPosition:
    """A position in the topic: the id of its journal, and where the records of its Kafka transaction end."""

    journal: str
    at: SinkPosition
    ends: RecordEnds


def position_batch(
    topic: str, journal: str, at: SinkPosition, at_ms: int, ends: RecordEnds | None = None
) -> PartitionBatch:
    """Returns a batch of only the position; `ends`: where the records of its Kafka transaction end."""
    return single_batch(topic, journal.encode(), positions.to_json(at, ends), at_ms)


async def last_position(
    settings: KafkaSinkSettings, pipeline: str, topic: str, producer: KafkaProducer
) -> FoundPosition | None:
    """Returns the last committed position, None for an empty topic.

    Before that it ends what a broker left open of the last Kafka transaction
    (`pipeline.kafka.transaction_endings`). The producer has fenced its predecessor.
    Raises KafkaUnavailable and KafkaRefused.
    """
    positions = (topic, 0)
    stable = await _end(producer, positions, Isolation.COMMITTED)
    end = await _end(producer, positions, Isolation.UNCOMMITTED)
    if stable < end:
        ends = await _hidden(settings, pipeline, topic, stable, end)
        there = await producer.offsets(ends, Isolation.COMMITTED)
        opened = open_parts(ends, there)
        closed = (ends.keys() - opened) & there.keys()
        shown = [await _shows(settings, pipeline, part, ends[part] - 1) for part in sorted(closed)]
        await producer.end(opened | {positions}, ending_of(shown))
    found = await _last_committed(settings, pipeline, topic)
    if found is not None:
        opened = open_parts(found.ends, await producer.offsets(found.ends, Isolation.COMMITTED))
        if opened:
            await producer.end(opened, Ending.COMMIT)
    return found


async def _end(producer: KafkaProducer, part: TopicPart, isolation: Isolation) -> int:
    """Returns the end of a partition, as such a consumer sees it. Raises KafkaUnavailable if there is none."""
    if (end := (await producer.offsets([part], isolation)).get(part)) is None:
        raise failure(UnknownTopicOrPartitionError(), part[0])
    return end


async def _last_committed(settings: KafkaSinkSettings, pipeline: str, topic: str) -> FoundPosition | None:
    """Returns the last position that a consumer of committed messages sees."""
    async with _reading(settings, pipeline, (topic, 0), Isolation.COMMITTED) as (consumer, partition):
        begin = (await consumer.beginning_offsets([partition]))[partition]
        end = (await consumer.end_offsets([partition]))[partition]
        back = _LAST
        while True:
            start = max(begin, end - back)
            found = await _positions(consumer, partition, start, end)
            if found or start == begin:
                return found[-1] if found else None
            back *= 16


async def _hidden(
    settings: KafkaSinkSettings, pipeline: str, topic: str, start: int, end: int
) -> dict[TopicPart, int]:
    """Returns where the records of the Kafka transaction end whose position is open, from one offset up to another."""
    async with _reading(settings, pipeline, (topic, 0), Isolation.UNCOMMITTED) as (consumer, partition):
        found = await _positions(consumer, partition, start, end)
    return {part: each for position in found for part, each in position.ends.items()}


async def _shows(settings: KafkaSinkSettings, pipeline: str, part: TopicPart, offset: int) -> bool:
    """Returns whether a consumer of committed messages sees the message at this offset."""
    async with _reading(settings, pipeline, part, Isolation.COMMITTED) as (consumer, partition):
        begin = (await consumer.beginning_offsets([partition]))[partition]
        if offset < begin:
            return False
        consumer.seek(partition, offset)
        while await consumer.position(partition) <= offset:
            for record in (await consumer.getmany(partition, timeout_ms=200, max_records=1)).get(
                partition, ()
            ):
                return bool(record.offset == offset)
        return False


@asynccontextmanager
async def _reading(
    settings: KafkaSinkSettings, pipeline: str, part: TopicPart, isolation: Isolation
) -> AsyncIterator[tuple[AIOKafkaConsumer, TopicPartition]]:
    """A consumer of one partition. Raises KafkaUnavailable and KafkaRefused."""
    consumer = AIOKafkaConsumer(
        **client_options(settings, pipeline),
        isolation_level=f"read_{isolation.name.lower()}",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    partition = TopicPartition(*part)
    try:
        async with asyncio.timeout(_WITHIN_S):
            await consumer.start()
            consumer.assign([partition])
            yield consumer, partition
    except (KafkaError, OSError, TimeoutError) as error:
        raise failure(error, part[0]) from error
    finally:
        await consumer.stop()


async def _positions(
    consumer: AIOKafkaConsumer, partition: TopicPartition, start: int, end: int
) -> list[FoundPosition]:
    """Returns the positions from one offset up to another."""
    found = []
    consumer.seek(partition, start)
    while await consumer.position(partition) < end:
        for record in (await consumer.getmany(partition, timeout_ms=200)).get(partition, ()):
            key, value = record.key or b"", record.value or b""
            found.append(
                FoundPosition(key.decode(), positions.from_json(value), positions.ends_from_json(value))
            )
    return found
