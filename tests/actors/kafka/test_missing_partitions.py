"""Partitions that do not exist, as a real broker says."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiokafka.client import AIOKafkaClient
from aiokafka.errors import KafkaConnectionError

from actors.kafka.missing_partitions import missing_partitions, unknown_partitions
from deploy.toolchain.kafka_broker import KafkaBroker
from deploy.toolchain.parts import Parts
from tests.actors.kafka.test_producer import settings, topic_of
from tests.servers.kafka import remake_topic, remove_topic


@asynccontextmanager
async def client_of(broker: KafkaBroker) -> AsyncIterator[AIOKafkaClient]:
    client = AIOKafkaClient(bootstrap_servers=broker.address)
    try:
        await client.bootstrap()
        yield client
    finally:
        await client.close()


async def test_a_broker_is_asked_though_the_client_knows_the_topic(kafka: KafkaBroker) -> None:
    topic = await topic_of(settings(kafka, partitions=2))
    both = {(topic, 0), (topic, 1)}
    async with client_of(kafka) as client:
        assert await missing_partitions(client, both) == frozenset()
        await remake_topic(kafka, topic)
        assert unknown_partitions(client, both) == frozenset()
        assert await missing_partitions(client, both) == {(topic, 1)} == unknown_partitions(client, both)
        await remove_topic(kafka, topic)
        assert await missing_partitions(client, both) == both


async def test_an_answer_to_a_request_from_before_does_not_count(
    kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It lacks a topic for which it did not ask."""
    requested, update = asyncio.Event(), AIOKafkaClient._metadata_update

    async def updated(client: Any, *args: Any) -> Any:
        answered = asyncio.ensure_future(update(client, *args))
        await asyncio.sleep(0)  # for the request, which is made before it waits
        requested.set()
        return await answered

    of = settings(kafka)
    known, new = await topic_of(of, "known"), await topic_of(of, "new")
    async with client_of(kafka) as client:
        await client.add_topic(known)
        monkeypatch.setattr(AIOKafkaClient, "_metadata_update", updated)
        answer = client.force_metadata_update()
        await requested.wait()
        assert await missing_partitions(client, {(new, 0)}) == frozenset()
        await answer


async def test_without_an_answer_nothing_is_missing(parts: Parts, tmp_path: Path) -> None:
    assert parts.kafka is not None
    with KafkaBroker(parts.kafka, tmp_path / "kafka") as broker:
        async with client_of(broker) as client:
            await asyncio.to_thread(broker.kill)
            with pytest.raises(KafkaConnectionError, match="no broker says which partitions"):
                await missing_partitions(client, {("t", 0)})
