"""A real Kafka broker, and topics of a test's own on it."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from deploy.toolchain.kafka_broker import KafkaBroker
from deploy.toolchain.parts import Parts
from tests.servers.awaiting import WITHIN_S

__all__ = ["kafka"]

_LOOK_EVERY_S: Final = 0.05


@pytest.fixture(scope="session")
def kafka(parts: Parts, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """One broker for the whole session. Leave it running."""
    assert parts.kafka is not None, "run `make setup-tests`"
    with KafkaBroker(parts.kafka, tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@asynccontextmanager
async def administrating(address: str | list[str]) -> AsyncIterator[AIOKafkaAdminClient]:
    """A client for the broker's topics and rights."""
    admin = AIOKafkaAdminClient(bootstrap_servers=address)
    await admin.start()
    try:
        yield admin
    finally:
        await admin.close()


async def create_topic(
    broker: KafkaBroker, name: str, partitions: int = 1, config: dict[str, str] | None = None
) -> None:
    """Create a topic."""
    async with administrating(broker.address) as admin:
        await admin.create_topics([NewTopic(name, partitions, 1, topic_configs=config or {})])


async def remove_topic(broker: KafkaBroker, name: str) -> None:
    """Remove a topic; returns once the broker says that it is gone."""
    async with administrating(broker.address) as admin:
        await admin.delete_topics([name])
        await _listed(admin, lambda topics: name not in topics)


async def remake_topic(broker: KafkaBroker, name: str) -> None:
    """Remove a topic and create it with one partition; returns once the broker says that it is there."""
    await remove_topic(broker, name)
    await create_topic(broker, name)
    await appeared(broker, name)


async def appeared(broker: KafkaBroker, name: str) -> None:
    """Until the broker says that there is a topic."""
    async with administrating(broker.address) as admin:
        await _listed(admin, lambda topics: name in topics)


async def _listed(admin: AIOKafkaAdminClient, are_right: Callable[[list[str]], bool]) -> None:
    """Until the topics are right. A broker tells of no change, and each question takes two processes' time."""
    async with asyncio.timeout(WITHIN_S):
        while True:
            if are_right(await admin.list_topics()):
                return
            await asyncio.sleep(_LOOK_EVERY_S)


async def send(broker: KafkaBroker, topic: str, *records: tuple[str | None, str | None]) -> None:
    """Append records of a key and a value."""
    async with AIOKafkaProducer(bootstrap_servers=broker.address) as producer:
        for key, value in records:
            await producer.send_and_wait(topic, value and value.encode(), key=key and key.encode())


async def committed(broker: KafkaBroker, topic: str, group: str) -> int | None:
    """The offset that the group has committed in the topic's first partition."""
    async with AIOKafkaConsumer(
        bootstrap_servers=broker.address, group_id=group, enable_auto_commit=False
    ) as consumer:
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        offset: int | None = await consumer.committed(partition)
        return offset


class Told:
    """What is appended to a topic, from its beginning, as it comes."""

    def __init__(self, broker: KafkaBroker, topic: str) -> None:
        self._consumer = AIOKafkaConsumer(bootstrap_servers=broker.address, auto_offset_reset="earliest")
        self._topic = topic

    async def __aenter__(self) -> "Told":
        await self._consumer.start()
        self._consumer.assign([TopicPartition(self._topic, 0)])
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._consumer.stop()

    async def next(self) -> dict[str, Any]:
        """The next record's value."""
        value: dict[str, Any] = json.loads((await self._consumer.getone()).value)
        return value
