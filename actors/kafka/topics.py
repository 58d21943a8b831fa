"""The topics for messages: their partitions, and the creation of missing topics."""

import asyncio
from typing import Final

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError, TopicAlreadyExistsError, UnknownTopicOrPartitionError, for_code

from actors.kafka.client import administrating
from actors.kafka.producer import failure
from pipeline.config.settings import KafkaSinkSettings
from pipeline.kafka.errors import KafkaRefused, TopicRefusal

_WITHIN_S: Final = 30.0
_LOOK_EVERY_S: Final = 0.05
# Kafka's own topics (org.apache.kafka.common.internals.Topic). Its brokers make each of them at its first use, with as
# many partitions as they are set to. They let a client make one, too, and then look for partitions that it lacks: no
# consumer group of the cluster would find its coordinator.
_OF_BROKERS: Final = frozenset(
    {"__cluster_metadata", "__consumer_offsets", "__share_group_state", "__transaction_state"}
)
POSITION_CONFIG: Final = {"cleanup.policy": "compact", "segment.bytes": "16777216"}


class KafkaTopics:
    """Knows how many partitions each topic has that was asked about. Raises KafkaUnavailable and KafkaRefused."""

    def __init__(self, settings: KafkaSinkSettings, pipeline: str) -> None:
        self._settings = settings
        self._pipeline = pipeline
        self._known: dict[str, int] = {}

    async def partitions(self, topic: str) -> int:
        """Returns how many partitions a topic of messages has. Creates a missing topic."""
        if topic not in self._known:
            settings = self._settings
            self._known[topic] = await self._found(topic, settings.partitions, settings.topic_config)
        return self._known[topic]

    async def position_topic(self) -> str:
        """Returns the topic of our position. Creates it if it is missing."""
        topic = position_topic_of(self._settings, self._pipeline)
        if await self._found(topic, 1, POSITION_CONFIG) != 1:
            raise KafkaRefused(f"{topic} has several partitions; name one with a single partition")
        return topic

    async def _found(self, topic: str, partitions: int, config: dict[str, str]) -> int:
        try:
            async with (
                asyncio.timeout(_WITHIN_S),
                administrating(self._settings, self._pipeline) as admin,
            ):
                if (there := await partitions_of(admin, topic)) is not None:
                    return there
                if not self._settings.create_topics:
                    raise TopicRefusal(
                        topic, "there's no such topic; create it, or set kafka.create_topics = true"
                    )
                await create_topic(admin, self._settings, topic, partitions, config)
                # The broker that's asked may not have heard of it yet.
                while (there := await partitions_of(admin, topic)) is None:  # noqa: ASYNC110 - Kafka has no event
                    await asyncio.sleep(_LOOK_EVERY_S)
                return there
        except (KafkaError, OSError, TimeoutError) as error:
            raise failure(error, topic) from error


def position_topic_of(settings: KafkaSinkSettings, pipeline: str) -> str:
    """Returns the name of the topic of a pipeline's position."""
    return settings.position_topic or f"tidemark-position-{pipeline}"


async def create_topic(
    admin: AIOKafkaAdminClient,
    settings: KafkaSinkSettings,
    topic: str,
    partitions: int,
    config: dict[str, str],
    *,
    dry: bool = False,
) -> None:
    """Creates a topic, unless it exists; `dry`: only asks whether the brokers would. Raises KafkaError."""
    new = NewTopic(topic, partitions, 1, topic_configs=config)
    new.replication_factor = settings.replication or -1  # which the constructor doesn't take
    answer = await admin.create_topics([new], validate_only=dry)
    for _, code, *words in answer.topic_errors:
        error = for_code(code)
        if code and error is not TopicAlreadyExistsError:
            raise error(*filter(None, words))


async def partitions_of(admin: AIOKafkaAdminClient, topic: str) -> int | None:
    """Returns how many partitions the topic has, None if it doesn't exist. Refuses the brokers' own, there or not."""
    own = TopicRefusal(topic, "the broker keeps its own state in it; let rows name another topic")
    if topic in _OF_BROKERS:
        raise own
    (told,) = await admin.describe_topics([topic])
    error = for_code(told["error_code"])
    if error is UnknownTopicOrPartitionError:
        return None
    if told["error_code"]:
        raise error(topic)
    if told["is_internal"]:
        raise own
    return len(told["partitions"]) or None
