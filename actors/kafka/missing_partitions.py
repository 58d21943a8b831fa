"""Which partitions do not exist, as a broker says now: what a client of aiokafka's knows may be old.

A client learns of a removed topic by chance only. And a request for metadata that is under way may not ask for a topic
that was added meanwhile. Its answer then lacks the topic, though it exists.
"""

from collections.abc import Collection, Iterable
from typing import Any

from aiokafka.errors import KafkaConnectionError

from pipeline.kafka.transaction_endings import TopicPart


def unknown_partitions(client: Any, parts: Iterable[TopicPart]) -> frozenset[TopicPart]:
    """Returns which of these partitions the client does not know."""
    known = client.cluster.partitions_for_topic
    return frozenset((topic, each) for topic, each in parts if each not in (known(topic) or ()))


async def missing_partitions(client: Any, parts: Collection[TopicPart]) -> frozenset[TopicPart]:
    """Asks a broker which of these partitions do not exist. Raises KafkaConnectionError if none answers."""
    for topic, _ in parts:
        client.add_topic(topic)
    missing = frozenset(parts)
    # The first answer may be to a request from before. The second one is not.
    for _ in range(2):
        if missing:
            if not await client.force_metadata_update():
                raise KafkaConnectionError("no broker says which partitions there are")
            missing = unknown_partitions(client, parts)
    return missing
