"""The ends of partitions, as a consumer of all or of committed messages sees them.

aiokafka asks for them through a consumer. This asks through any client that knows the leaders of the partitions.

Source: Apache Kafka, "Protocol: ListOffsets".
"""

import asyncio
from collections import defaultdict
from collections.abc import Collection, Iterable
from enum import IntEnum
from typing import Any, Final

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError, LeaderNotAvailableError, UnknownTopicOrPartitionError, for_code
from aiokafka.protocol.offset import OffsetRequest

from actors.kafka.missing_partitions import missing_partitions, unknown_partitions
from pipeline.kafka.transaction_endings import TopicPart

# In place of a time: the end of the partition.
_LATEST: Final = -1
# In place of a broker's number: a client asks.
_CLIENT: Final = -1

_AGAIN_AFTER_S: Final = 0.02


class Isolation(IntEnum):
    """Kafka's number of a consumer's isolation level."""

    UNCOMMITTED = 0
    COMMITTED = 1


async def end_offsets(
    client: Any, parts: Collection[TopicPart], isolation: Isolation
) -> dict[TopicPart, int]:
    """Returns the offset after the last message of each of these partitions; none of a partition that is gone.

    It waits for a leader, also for one that has just been chosen and does not know it yet. Raises KafkaError.
    """
    while True:
        try:
            return await _end_offsets(client, parts, isolation)
        except KafkaError as error:
            if not error.retriable:
                raise
        await asyncio.sleep(_AGAIN_AFTER_S)


async def _end_offsets(
    client: Any, parts: Collection[TopicPart], isolation: Isolation
) -> dict[TopicPart, int]:
    """Asks once."""
    await asyncio.gather(*(client.add_topic(topic) for topic, _ in parts))
    missing = unknown_partitions(client, parts) and await missing_partitions(client, parts)
    by_leader: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for topic, partition in parts:
        leader = client.cluster.leader_for_partition(TopicPartition(topic, partition))
        if (topic, partition) in missing:
            continue
        if leader is None or leader == -1:
            client.force_metadata_update()
            raise LeaderNotAvailableError(topic)
        by_leader[leader][topic].append(partition)
    answers = await asyncio.gather(
        *(_asked(client, leader, of, isolation) for leader, of in by_leader.items())
    )
    return {part: offset for answer in answers for part, offset in answer}


async def _asked(
    client: Any, leader: int, topics: dict[str, list[int]], isolation: Isolation
) -> Iterable[tuple[TopicPart, int]]:
    """Asks one broker for the partitions that it leads."""
    latest = [(topic, [(each, _LATEST) for each in partitions]) for topic, partitions in topics.items()]
    answer = await client.send(leader, OffsetRequest(_CLIENT, isolation, latest))
    found = []
    for topic, partitions in answer.topics:
        for partition, code, _, offset, *_ in partitions:
            error = for_code(code)
            if error is UnknownTopicOrPartitionError:
                continue
            if code:
                client.force_metadata_update()
                raise error(topic)
            found.append(((topic, partition), offset))
    return found
