"""Kafka transactions on a real broker: fencing, and errors with a name and a remedy."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from aiokafka.client import AIOKafkaClient
from aiokafka.producer.sender import SendProduceReqHandler

from actors.kafka import client as kafka_client
from actors.kafka import producer as kafka_producer
from actors.kafka.batches import PartitionBatch
from actors.kafka.client import client_options
from actors.kafka.end_offsets import Isolation
from actors.kafka.position import _last_committed, last_position, position_batch
from actors.kafka.producer import KafkaProducer
from actors.kafka.record_batch import RecordBatch
from actors.kafka.topics import KafkaTopics
from deploy.toolchain.kafka_broker import KafkaBroker
from deploy.toolchain.parts import Parts
from deploy.toolchain.ports import take_port
from pipeline.config.settings import Compression, KafkaSecurity, KafkaSinkSettings, SaslMechanism, Secret
from pipeline.errors import Definite, Transient
from pipeline.kafka.errors import KafkaRefused, KafkaUnavailable, TopicRefusal
from pipeline.kafka.messages.records import record_runs
from pipeline.kafka.position import KafkaPosition, SetAside, SinkPosition
from pipeline.kafka.transaction_endings import Ending
from tests.servers.awaiting import WITHIN_S
from tests.servers.kafka import remake_topic, remove_topic
from tests.servers.kafka_messages import committed_messages


def settings(broker: KafkaBroker, **more: Any) -> KafkaSinkSettings:
    return KafkaSinkSettings((broker.address,), f"p{uuid.uuid4().hex[:8]}", **more)


@asynccontextmanager
async def producing(of: KafkaSinkSettings) -> AsyncIterator[KafkaProducer]:
    producer = KafkaProducer(of, of.topic_prefix)
    try:
        await producer.start()
        yield producer
    finally:
        await producer.close()


def batch(topic: str, *values: bytes, compression: Compression = Compression.NONE) -> PartitionBatch:
    keys = pa.array([b"k"] * len(values))
    (records,) = record_runs(
        keys, pa.array(values), None, np.ones(len(values), np.int64), np.arange(len(values)), 1 << 30
    )
    return PartitionBatch(topic, 0, RecordBatch(records, compression))


async def found_at(of: KafkaSinkSettings, positions: str) -> KafkaPosition:
    """What a start finds."""
    async with producing(of) as producer:
        found = await last_position(of, of.topic_prefix, positions, producer)
    assert found is not None and found.journal == "j"
    return found.at.position


async def topic_of(of: KafkaSinkSettings, name: str = "t") -> str:
    topic = f"{of.topic_prefix}.{name}"
    assert await KafkaTopics(of, of.topic_prefix).partitions(topic) == of.partitions
    return topic


async def test_a_position_of_ten_thousand_topics_has_room(kafka: KafkaBroker) -> None:
    """A topic takes 1 MiB. The position names topics that are set aside, and those of its Kafka transaction."""
    of = settings(kafka)
    positions = await KafkaTopics(of, of.topic_prefix).position_topic()
    reason = "the account may not write to a topic (TopicAuthorizationFailedError); allow it to Write, Describe and"
    aside = {f"{of.topic_prefix}.shop.t{n:06}": SetAside(KafkaPosition(n), reason) for n in range(10_000)}
    at, ends = SinkPosition(KafkaPosition(10_000), aside), {(topic, 0): 7 for topic in aside}
    async with producing(of) as producer:
        await producer.begin()
        await producer.send(position_batch(positions, "j", at, 1, ends))
        await producer.commit()
    found = await _last_committed(of, of.topic_prefix, positions)
    assert found is not None and (found.at, found.ends) == (at, ends)


async def smaller_topic(kafka: KafkaBroker, of: KafkaSinkSettings, producer: KafkaProducer) -> str:
    """A topic that the producer knows by its former partitions: somebody made it again with only one."""
    topic = await topic_of(of)
    await producer.opened(topic, of.partitions)
    await remake_topic(kafka, topic)
    return topic


async def test_the_brokers_time_runs_from_the_first_batch_on(kafka: KafkaBroker) -> None:
    """So the sink may read as long as it likes before that."""
    of = settings(kafka)
    topic = await topic_of(of)
    async with producing(of) as producer:
        await producer.begin()
        producer._deadline = 0.0  # all of it has passed
        await producer.send(batch(topic, b"v"))
        await producer.commit()
    assert [record.value for record in await committed_messages(kafka, topic)] == [b"v"]


GONE = r"\.t: a topic was removed.*\(UnknownTopicOrPartitionError\)"


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
async def test_a_partition_that_is_gone_is_noticed_whichever_batch_waits(
    kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch, order: tuple[int, ...]
) -> None:
    """The broker refuses the partitions of all these batches as long as one is gone. So does it at the abort."""
    monkeypatch.setattr(kafka_producer, "ENDS_WITHIN_S", 1e6)
    of = settings(kafka, partitions=2, transaction_timeout_s=WITHIN_S)
    other = await topic_of(of, "other")
    async with asyncio.timeout(2 * WITHIN_S), producing(of) as producer:
        await producer.opened(other, 1)
        topic = await smaller_topic(kafka, of, producer)
        await producer.begin()
        # Nothing is asked of the broker between these, so one request has all three.
        await producer.send(batch(other, b"other"))
        for partition in order:
            await producer.send(replace(batch(topic, b"v"), partition=partition))
        with pytest.raises(KafkaUnavailable, match=GONE):
            await producer.acknowledged()
    async with producing(of) as producer:
        await producer.begin()
        for each in (other, topic):
            await producer.send(batch(each, b"again"))
        await producer.commit()
    for each in (other, topic):
        assert [record.value for record in await committed_messages(kafka, each)] == [b"again"]


@asynccontextmanager
async def waiting_for_smaller_topic(
    kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[KafkaSinkSettings, KafkaProducer, str]]:
    """A producer that waits long for answers, and a topic that it knows by its former two partitions."""
    monkeypatch.setattr(kafka_client, "BROKER_ANSWERS_WITHIN_S", 1e3)
    of = settings(kafka, partitions=2, transaction_timeout_s=WITHIN_S)
    async with producing(of) as producer:
        yield of, producer, await smaller_topic(kafka, of, producer)


async def test_a_partition_that_is_gone_is_noticed_before_a_batch_is_queued(
    kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with waiting_for_smaller_topic(kafka, monkeypatch) as (of, producer, topic):
        await producer.opened(
            await topic_of(of, "other"), 1
        )  # for which the client learns of all topics again
        await producer.begin()
        with pytest.raises(KafkaUnavailable, match=GONE):
            await producer.send(replace(batch(topic, b"v"), partition=1))
        await remove_topic(kafka, topic)
        await producer.opened(await topic_of(of, "third"), 1)
        with pytest.raises(KafkaUnavailable, match=GONE):
            await producer.send(batch(topic, b"v"))


async def test_a_partition_that_is_gone_is_noticed_while_a_batch_waits_for_its_place(
    kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client has room for one batch of a partition that waits, here of one that exists."""
    async with waiting_for_smaller_topic(kafka, monkeypatch) as (_, producer, topic):
        await producer.begin()
        for partition in (0, 1):
            await producer.send(replace(batch(topic, b"v"), partition=partition))
        with pytest.raises(KafkaUnavailable, match=GONE):
            await producer.send(batch(topic, b"v"))


@pytest.mark.parametrize("ending", Ending)
async def test_a_partition_that_goes_while_its_records_are_ended_is_noticed(
    kafka: KafkaBroker, ending: Ending
) -> None:
    of = settings(kafka, partitions=2, transaction_timeout_s=WITHIN_S)
    async with producing(of) as producer:
        topic = await smaller_topic(kafka, of, producer)
        with pytest.raises(KafkaUnavailable, match=GONE):
            await producer.end({(topic, 0), (topic, 1)}, ending)


async def test_messages_and_position_are_there_together_or_not_at_all(kafka: KafkaBroker) -> None:
    of = settings(kafka)
    topic = await topic_of(of)
    positions = await KafkaTopics(of, of.topic_prefix).position_topic()
    async with producing(of) as producer:
        assert await last_position(of, of.topic_prefix, positions, producer) is None
        for number in range(3):
            await producer.begin()
            await producer.send(batch(topic, b"%d" % number))
            await producer.send(position_batch(positions, "j", SinkPosition(KafkaPosition(number)), 1))
            await producer.commit()
        await producer.begin()
        await producer.send(batch(topic, b"lost"))
        await producer.send(position_batch(positions, "j", SinkPosition(KafkaPosition(9)), 1))
    assert [record.value for record in await committed_messages(kafka, topic)] == [b"0", b"1", b"2"]
    assert await found_at(of, positions) == KafkaPosition(2)


async def test_a_predecessor_is_fenced(kafka: KafkaBroker) -> None:
    of = settings(kafka)
    topic = await topic_of(of)
    async with producing(of) as before:
        await before.begin()
        await before.send(batch(topic, b"before"))
        async with producing(of) as now:
            with pytest.raises(KafkaRefused, match="another process sends with our transactional id"):
                await before.commit()
            await now.begin()
            await now.send(batch(topic, b"now"))
            await now.commit()
    assert [record.value for record in await committed_messages(kafka, topic)] == [b"now"]


async def test_a_message_that_is_too_large_is_named_with_its_topic(kafka: KafkaBroker) -> None:
    of = settings(kafka, topic_config={"max.message.bytes": "2000"})
    topic = await topic_of(of)
    async with producing(of) as producer:
        await producer.begin()
        await producer.send(batch(topic, b"x" * 3000))
        with pytest.raises(KafkaRefused, match=rf"{topic}: a message is larger .*raise max\.message\.bytes"):
            await producer.commit()
    assert await committed_messages(kafka, topic) == []


async def refused(producer: KafkaProducer, sent: PartitionBatch) -> str:
    """Why a topic refuses a batch."""

    async def send() -> None:
        await producer.send(sent)
        await producer.acknowledged()

    await producer.begin()
    with pytest.raises(TopicRefusal) as refusal:
        await send()
    assert refusal.value.topic == sent.topic
    return refusal.value.reason


async def test_a_compacted_topic_refuses_a_message_without_a_key(kafka: KafkaBroker) -> None:
    of = settings(kafka, topic_config={"cleanup.policy": "compact"})
    topic = await topic_of(of)
    keys, values, ones = pa.array([None], pa.binary()), pa.array([b"v"]), np.ones(1, np.int64)
    (records,) = record_runs(keys, values, None, ones, np.arange(1), 1)
    async with producing(of) as producer:
        sent = PartitionBatch(topic, 0, RecordBatch(records, Compression.NONE))
        assert "none without a key (InvalidRecordError); give the table a key" in await refused(
            producer, sent
        )


async def test_a_topic_refuses_a_message_from_the_future(kafka: KafkaBroker) -> None:
    of = settings(kafka)
    topic, keys = await topic_of(of), pa.array([b"k"])
    (records,) = record_runs(keys, keys, None, np.full(1, 1 << 46), np.arange(1), 1)
    async with producing(of) as producer:
        sent = PartitionBatch(topic, 0, RecordBatch(records, Compression.NONE))
        assert "raise message.timestamp.after.max.ms" in await refused(producer, sent)


async def test_a_message_that_no_request_has_room_for_is_refused_and_never_sent(kafka: KafkaBroker) -> None:
    of = settings(kafka, max_request_bytes=1_000_000)
    async with producing(of) as producer:
        reason = await refused(producer, batch("t", bytes(1_000_000)))
        assert "larger than kafka.max_request_bytes; raise it" in reason


async def test_no_request_is_larger_than_the_settings_say(
    kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = settings(kafka, max_request_bytes=1_000_000, partitions=8)
    topic, sizes, make = await topic_of(of), [0], SendProduceReqHandler.create_request

    def measured(handler: Any) -> Any:
        sizes.append(sum(len(each.get_data_buffer()) for each in handler._batches.values()))
        return make(handler)

    monkeypatch.setattr(SendProduceReqHandler, "create_request", measured)
    async with producing(of) as producer:
        await producer.begin()
        for number in range(24):
            await producer.send(replace(batch(topic, bytes(400_000)), partition=number % 8))
        await producer.commit()
    assert 400_000 < max(sizes) < 1_000_000
    assert len(await committed_messages(kafka, topic)) == 24


async def test_a_topic_that_is_not_there(kafka: KafkaBroker) -> None:
    of = settings(kafka, create_topics=False)
    with pytest.raises(KafkaRefused, match=r"\.t: there's no such topic; create it"):
        await topic_of(of)
    made = settings(kafka, partitions=2)
    topics = KafkaTopics(replace(made, position_topic=await topic_of(made)), "x")
    with pytest.raises(KafkaRefused, match="several partitions"):
        await topics.position_topic()


async def test_a_broker_that_refuses_a_setting(kafka: KafkaBroker) -> None:
    with pytest.raises(Definite, match=r"see to kafka\.topic_config"):
        await topic_of(settings(kafka, topic_config={"cleanup.policy": "never"}))
    with pytest.raises(Definite, match=r"see to kafka\.partitions and kafka\.replication"):
        await topic_of(settings(kafka, replication=7))
    with pytest.raises(KafkaRefused, match=r"lower kafka\.transaction_timeout_s"):
        async with producing(settings(kafka, transaction_timeout_s=100_000.0)):
            pass


async def test_a_broker_that_is_not_there() -> None:
    of = KafkaSinkSettings(("127.0.0.1:1",), "p")
    with pytest.raises(Transient):
        async with producing(of):
            pass
    with pytest.raises(Transient):
        await KafkaTopics(of, "p").partitions("t")
    with pytest.raises(KafkaUnavailable):
        await _last_committed(of, "p", "t")


async def test_a_position_topic_that_was_removed_meanwhile_is_looked_for_again(kafka: KafkaBroker) -> None:
    of = settings(kafka)
    async with producing(of) as producer:
        with pytest.raises(KafkaUnavailable, match=r"no-positions: a topic was removed"):
            await last_position(of, of.topic_prefix, "no-positions", producer)


async def test_a_topic_whose_partitions_have_no_leader_that_answers_is_named(
    parts: Parts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_producer, "ANSWERS_WITHIN_S", 0.5)
    assert parts.kafka is not None
    with KafkaBroker(parts.kafka, tmp_path / "kafka") as broker:
        of = settings(broker)
        topic = await topic_of(of)
        async with producing(of) as producer:
            await asyncio.to_thread(broker.kill)
            producer._deadline = 0.0  # its start has left one
            with pytest.raises(KafkaUnavailable, match=rf"^{topic}: the brokers took too long"):
                await producer.opened(topic, 1)
            other = f"{topic}.other"
            with pytest.raises(KafkaUnavailable, match=rf"^{topic}, {other}: the brokers took too long"):
                await producer.offsets([(other, 0), (topic, 0)], Isolation.COMMITTED)


async def test_a_position_far_before_the_end_is_found(kafka: KafkaBroker) -> None:
    of = settings(kafka)
    positions = await KafkaTopics(of, of.topic_prefix).position_topic()
    async with producing(of) as producer:
        await producer.begin()
        await producer.send(position_batch(positions, "j", SinkPosition(KafkaPosition(7)), 1))
        await producer.commit()
        await producer.begin()
        for number in range(100):
            await producer.send(position_batch(positions, "j", SinkPosition(KafkaPosition(10 + number)), 1))
    assert await found_at(of, positions) == KafkaPosition(7)


def test_what_clients_are_told() -> None:
    of = KafkaSinkSettings(
        ("kafka:9092",),
        "p",
        security_protocol=KafkaSecurity.SASL_PLAINTEXT,
        sasl_mechanism=SaslMechanism.PLAIN,
        sasl_username="me",
        sasl_password=Secret("right"),
    )
    options = client_options(of, "shop")
    assert options["client_id"] == "tidemark-shop" and options["sasl_plain_password"] == "right"
    assert "ssl_context" not in options


async def test_a_client_finds_the_brokers_that_have_come_since_it_asked(parts: Parts, tmp_path: Path) -> None:
    assert parts.kafka is not None
    with KafkaBroker(parts.kafka, tmp_path / "kafka") as broker:
        before, port = broker.address, take_port()
        after = f"{broker.host}:{port}"
        of = replace(settings(broker), bootstrap_servers=(before, after))
        client = AIOKafkaClient(**client_options(of, "shop"))
        await client.bootstrap()
        try:
            await asyncio.to_thread(broker.stop)
            assert not await client.force_metadata_update()
            properties = broker.folder / "server.properties"
            properties.write_text(properties.read_text().replace(before, after))
            broker.port = port
            await asyncio.to_thread(broker.start)
            assert await client.force_metadata_update()
            assert [each.port for each in client.cluster.brokers()] == [port]
        finally:
            await client.close()
