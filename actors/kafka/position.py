"""The position in the journal, in the position topic: one message for each Kafka transaction.

It is in a topic, and not among a consumer group's offsets. The broker forgets the offsets of a group without members
after seven days (`offsets.retention.minutes`), and then the sink wouldn't know what it sent. The topic is compacted:
the last message of a key stays forever. Its key is the journal's id.
"""

import asyncio
from typing import Final

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from actors.kafka.batches import PartitionBatch, single_batch
from actors.kafka.client import client_options
from actors.kafka.producer import failure
from pipeline.config.settings import KafkaSinkSettings
from pipeline.kafka.state import SinkPosition, position_from_json, position_to_json

_WITHIN_S: Final = 60.0
# How many offsets before the end are looked at first; a Kafka transaction takes two.
_LAST: Final = 64


def position_batch(topic: str, journal: str, at: SinkPosition, at_ms: int) -> PartitionBatch:
    """Returns a batch of only the position."""
    return single_batch(topic, journal.encode(), position_to_json(at), at_ms)


async def last_position(
    settings: KafkaSinkSettings, pipeline: str, topic: str
) -> tuple[str, SinkPosition] | None:
    """Returns the last committed position and the id of its journal, None for an empty topic.

    Call it once a predecessor is fenced. Raises KafkaUnavailable and KafkaRefused.
    """
    consumer = AIOKafkaConsumer(
        **client_options(settings, pipeline),
        isolation_level="read_committed",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    partition = TopicPartition(topic, 0)
    try:
        async with asyncio.timeout(_WITHIN_S):
            await consumer.start()
            consumer.assign([partition])
            begin = (await consumer.beginning_offsets([partition]))[partition]
            end = (await consumer.end_offsets([partition]))[partition]
            back = _LAST
            while True:
                start = max(begin, end - back)
                found = await _last(consumer, partition, start, end)
                if found is not None or start == begin:
                    return found
                back *= 16
    except (KafkaError, OSError, TimeoutError) as error:
        raise failure(error, topic) from error
    finally:
        await consumer.stop()


async def _last(
    consumer: AIOKafkaConsumer, partition: TopicPartition, start: int, end: int
) -> tuple[str, SinkPosition] | None:
    """Returns the last position from one offset up to another."""
    found = None
    consumer.seek(partition, start)
    while await consumer.position(partition) < end:
        for record in (await consumer.getmany(partition, timeout_ms=200)).get(partition, ()):
            found = ((record.key or b"").decode(), position_from_json(record.value or b""))
    return found
