"""The ends of partitions on a real broker, with records that are open."""

import asyncio
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.client import AIOKafkaClient

from actors.kafka.end_offsets import Isolation, end_offsets
from deploy.toolchain.kafka_broker import KafkaBroker
from tests.actors.kafka.test_producer import settings, topic_of


async def test_a_partition_ends_before_the_first_open_record_for_those_who_read_committed(
    kafka: KafkaBroker,
) -> None:
    of = settings(kafka, partitions=2)
    topic = await topic_of(of)
    parts = [(topic, 0), (topic, 1), (topic, 7), (f"{topic}.gone", 0)]
    async with AIOKafkaProducer(bootstrap_servers=kafka.address, transactional_id=topic) as producer:
        async with producer.transaction():
            await producer.send_and_wait(topic, b"1", partition=0)
        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"2", partition=0)
        client = AIOKafkaClient(bootstrap_servers=kafka.address)
        await client.bootstrap()
        try:
            every = await end_offsets(client, parts, Isolation.UNCOMMITTED)
            committed = await end_offsets(client, parts, Isolation.COMMITTED)
        finally:
            await client.close()
        await producer.abort_transaction()
    # The marker of the first transaction is at 1.
    assert committed == {(topic, 0): 2, (topic, 1): 0}
    assert every == {(topic, 0): 3, (topic, 1): 0}


async def test_a_topic_for_which_the_last_request_did_not_ask_is_not_taken_for_gone(
    kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    of, requested, update = settings(kafka), asyncio.Event(), AIOKafkaClient._metadata_update

    async def updated(client: Any, *args: Any) -> Any:
        answered = asyncio.ensure_future(update(client, *args))
        await asyncio.sleep(0)  # for the request, which is made before it waits
        requested.set()
        return await answered

    known, new = await topic_of(of, "known"), await topic_of(of, "new")
    client = AIOKafkaClient(bootstrap_servers=kafka.address)
    await client.bootstrap()
    try:
        await client.add_topic(known)
        monkeypatch.setattr(AIOKafkaClient, "_metadata_update", updated)
        answer = client.force_metadata_update()
        await requested.wait()
        assert await end_offsets(client, [(new, 0)], Isolation.COMMITTED) == {(new, 0): 0}
        await answer
    finally:
        await client.close()
