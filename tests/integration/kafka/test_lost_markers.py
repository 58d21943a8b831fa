"""A broker that died after it answered a commit, and came back without the markers of the Kafka transaction.

Kafka 4.3.1 does so by itself now and then (`docs/kafka.md`). Here its files are cut while it is down, so that each
choice of markers is missing once: in the partitions of messages, in that of the position, in all of them.
"""

import asyncio
import itertools
import os
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from aiokafka import AIOKafkaProducer

from actors.kafka import producer as kafka_producer
from actors.kafka.batches import PartitionBatch
from actors.kafka.position import last_position, position_batch
from actors.kafka.producer import KafkaProducer
from actors.kafka.record_batch import RecordBatch
from actors.kafka.topics import KafkaTopics
from actors.service.assembly import Assembly
from deploy.toolchain.kafka_broker import KafkaBroker
from deploy.toolchain.mysql_server import MysqlServer
from deploy.toolchain.parts import Parts
from pipeline.config.settings import Compression, KafkaSinkSettings, Settings
from pipeline.kafka.errors import KafkaUnavailable
from pipeline.kafka.messages.records import record_runs
from pipeline.kafka.position import KafkaPosition, SinkPosition
from pipeline.kafka.transaction_endings import Ending, TopicPart
from tests.actors.kafka.test_producer import producing, settings, topic_of
from tests.servers.kafka import create_topic
from tests.servers.kafka_messages import committed_messages
from tests.servers.kafka_pipeline import sent, to_topics
from tests.servers.service import running

_HEAD = struct.Struct(">qi")  # a batch's first offset, and how many bytes follow
_CONTROL = 0x20


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def batch(topic: str, value: bytes) -> PartitionBatch:
    """A message of now: with an old one the broker would begin another file."""
    (records,) = record_runs(
        pa.array([b"k"]), pa.array([value]), None, np.array([now_ms()]), np.zeros(1, np.int64), 1 << 30
    )
    return PartitionBatch(topic, 0, RecordBatch(records, Compression.NONE))


def batches(log: bytes) -> Iterator[tuple[int, bool]]:
    """Where each batch of a partition's file begins, and whether it is a marker."""
    at = 0
    while at < len(log):
        (attributes,) = struct.unpack_from(">h", log, at + 21)
        yield at, bool(attributes & _CONTROL)
        at += _HEAD.size + _HEAD.unpack_from(log, at)[1]


def cut_marker(broker: KafkaBroker, topic: str) -> None:
    """Take the last marker from the end of a partition, while the broker is down."""
    path: Path = broker.data / f"{topic}-0" / f"{0:020}.log"
    *_, (at, marker) = batches(path.read_bytes())
    assert marker, topic
    os.truncate(path, at)


@dataclass
class Pipeline:
    """Sends a Kafka transaction after the other to two topics, as the sink does."""

    settings: KafkaSinkSettings
    topics: tuple[str, str]
    positions: str

    @property
    def parts(self) -> dict[str, str]:
        return {"a": self.topics[0], "b": self.topics[1], "position": self.positions}

    async def fill(self, producer: KafkaProducer, number: int) -> None:
        await producer.begin()
        for topic in self.topics:
            await producer.send(batch(topic, b"%d" % number))
        ends, at = await producer.acknowledged(), SinkPosition(KafkaPosition(number))
        await producer.send(position_batch(self.positions, "j", at, now_ms(), ends))
        await producer.acknowledged()

    async def send(self, producer: KafkaProducer, number: int) -> None:
        await self.fill(producer, number)
        await producer.commit()

    async def position(self, producer: KafkaProducer) -> int:
        found = await last_position(self.settings, self.settings.topic_prefix, self.positions, producer)
        return -1 if found is None else found.at.position.segment


async def pipeline(broker: KafkaBroker) -> Pipeline:
    of = settings(broker)
    positions = await KafkaTopics(of, of.topic_prefix).position_topic()
    return Pipeline(of, (await topic_of(of, "a"), await topic_of(of, "b")), positions)


# Which markers are missing after a death, and whether the first Kafka transaction is the one that lacks them.
MISSING = [
    (missing, before)
    for missing in ((), ("a",), ("position",), ("a", "b"), ("a", "position"), ("a", "b", "position"))
    for before in (0, 2)
]


async def test_what_a_broker_left_open_is_there_once(parts: Parts, tmp_path: Path) -> None:
    assert parts.kafka is not None
    with KafkaBroker(parts.kafka, tmp_path / "kafka") as broker:
        lacking = [(await pipeline(broker), missing, before) for missing, before in MISSING]
        for of, _, before in lacking:
            async with producing(of.settings) as producer:
                for number in range(before + 1):
                    await of.send(producer, number)
        dropped = await pipeline(broker)
        async with producing(dropped.settings) as producer:
            await dropped.send(producer, 0)
            await producer.begin()
            await producer.send(batch(dropped.topics[0], b"dropped"))
            await producer.acknowledged()
        async with producing(dropped.settings):
            pass  # its start waits for the end of that Kafka transaction
        broker.kill()
        for of, missing, _ in lacking:
            for name in missing:
                cut_marker(broker, of.parts[name])
        cut_marker(broker, dropped.topics[0])
        broker.start()

        for of, missing, before in lacking:
            async with producing(of.settings) as producer:
                # If nobody has seen any of it, the sink sends it again.
                found = await of.position(producer)
                assert found == (before - 1 if set(missing) == set(of.parts) else before), missing
                for number in range(found + 1, before + 2):
                    await of.send(producer, number)
            # Whatever comes next drops what was not ended: here an abort.
            async with producing(of.settings) as producer:
                assert await of.position(producer) == before + 1
                await producer.begin()
                for topic in of.topics:
                    await producer.send(batch(topic, b"aborted"))
            for topic in of.topics:
                values = [record.value for record in await committed_messages(broker, topic)]
                assert values == [b"%d" % number for number in range(before + 2)], (missing, before)

        async with producing(dropped.settings) as producer:
            assert await dropped.position(producer) == 0
            opened = await producer.opened(dropped.topics[0], 1)
            assert opened == {(dropped.topics[0], 0)}
            await producer.end(opened, Ending.ABORT)
            assert await producer.opened(dropped.topics[0], 1) == frozenset()
            await dropped.send(producer, 1)
        assert [each.value for each in await committed_messages(broker, dropped.topics[0])] == [b"0", b"1"]


@dataclass
class Shared:
    """Two topics that another program writes to as well, and a pipeline that begins meanwhile."""

    broker: KafkaBroker
    server: MysqlServer
    settings: Settings
    topics: tuple[str, str]

    async def brought(self) -> None:
        """Begins the pipeline, changes a row for each topic, and waits until the topics have them."""
        async with running(self.settings, Assembly) as service:
            await service.begun()
            self.server.sql(
                "UPDATE shop.orders SET total = 17 WHERE id = 1",
                "UPDATE shop.customers SET email = 'x' ORDER BY email LIMIT 1",
            )
            await service.caught_up(self.server)
            await sent(service)
            await service.stop()

    async def own(self, topic: str) -> int:
        """How many of the topic's messages are the pipeline's."""
        return sum(record.value != b"other" for record in await committed_messages(self.broker, topic))


@pytest.fixture
async def shared(open_shop: MysqlServer, kafka: KafkaBroker, tmp_path: Path) -> Shared:
    settings_ = to_topics(kafka, open_shop, tmp_path)
    assert settings_.kafka is not None
    prefix = settings_.kafka.topic_prefix
    topics = f"{prefix}.shop.orders", f"{prefix}.shop.customers"
    for topic in topics:
        await create_topic(kafka, topic)
    return Shared(kafka, open_shop, settings_, topics)


async def test_somebody_elses_open_records_hold_up_nothing(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sink takes them for its own at first, in one topic after the other."""
    monkeypatch.setattr(kafka_producer, "_MARKED_WITHIN_S", 0.5)
    async with producing(settings(shared.broker)) as other:
        await other.begin()
        for topic in shared.topics:
            await other.send(batch(topic, b"other"))
        await other.acknowledged()
        await shared.brought()
        await other.commit()
    assert [await shared.own(topic) for topic in shared.topics] == [1, 1]


@asynccontextmanager
async def repeated(write: Callable[[], Awaitable[object]]) -> AsyncIterator[None]:
    """Another program writes without a pause, and has begun to."""
    begun = asyncio.Event()

    async def writes() -> None:
        while True:
            await write()
            begun.set()

    task = asyncio.create_task(writes())
    try:
        await asyncio.wait({task, waits := asyncio.create_task(begun.wait())}, return_when="FIRST_COMPLETED")
        waits.cancel()
        yield
        assert not task.done(), task.result()
    finally:
        task.cancel()


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[frozenset[TopicPart]]:
    """What the looks find that the sink takes before its first batch to a topic."""
    found, look = list[frozenset[TopicPart]](), KafkaProducer.opened

    async def opened(producer: KafkaProducer, topic: str, partitions: int) -> frozenset[TopicPart]:
        found.append(await look(producer, topic, partitions))
        return found[-1]

    monkeypatch.setattr(KafkaProducer, "opened", opened)
    return found


async def test_short_transactions_of_somebody_else_hold_up_nothing(
    shared: Shared, looks: list[frozenset[TopicPart]]
) -> None:
    """One is open at nearly any moment, and each ends by itself. So no marker of ours is needed."""
    async with producing(settings(shared.broker)) as other:

        async def write() -> None:
            await other.begin()
            for topic in shared.topics:
                await other.send(batch(topic, b"other"))
            await other.acknowledged()
            # So long its work takes: a look nearly always meets an open one.
            await asyncio.sleep(0.03)
            await other.commit()

        async with repeated(write):
            await shared.brought()
    assert looks == [frozenset()] * 2
    assert [await shared.own(topic) for topic in shared.topics] == [1, 1]


async def test_a_busy_writer_without_transactions_holds_up_nothing(
    shared: Shared, looks: list[frozenset[TopicPart]]
) -> None:
    other = AIOKafkaProducer(bootstrap_servers=shared.broker.address, linger_ms=0)
    await other.start()
    try:
        turns = itertools.cycle(shared.topics)
        async with AsyncExitStack() as writers:
            for _ in range(8):
                await writers.enter_async_context(
                    repeated(lambda: other.send_and_wait(next(turns), b"other", key=b"k"))
                )
            await shared.brought()
    finally:
        await other.stop()
    assert looks == [frozenset()] * 2
    assert [await shared.own(topic) for topic in shared.topics] == [1, 1]


async def test_what_has_our_marker_is_not_looked_at_again(
    kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the marker nor the look keeps a commit from being checked."""
    monkeypatch.setattr(kafka_producer, "_MARKED_WITHIN_S", 1.0)
    of = await pipeline(kafka)
    topic = of.topics[0]
    async with producing(of.settings) as producer, producing(settings(kafka)) as other:

        async def opens() -> None:
            await other.begin()
            await other.send(batch(topic, b"other"))
            await other.acknowledged()

        await opens()
        opened = await producer.opened(topic, 1)
        assert opened == {(topic, 0)}
        await asyncio.gather(producer.end(opened, Ending.ABORT), other.commit())
        await opens()
        assert await producer.opened(topic, 1) == frozenset()
        with pytest.raises(KafkaUnavailable, match="left 1 partitions without its marker"):
            await of.send(producer, 0)
        await other.commit()


async def test_a_commit_without_markers_is_none(parts: Parts, tmp_path: Path) -> None:
    """Somebody else's open records hold the stable offset back, as missing markers do."""
    assert parts.kafka is not None
    with KafkaBroker(parts.kafka, tmp_path / "kafka") as broker:
        of = await pipeline(broker)
        async with producing(of.settings) as producer, producing(settings(broker)) as other:
            await other.begin()
            await other.send(batch(of.topics[0], b"other"))
            await other.acknowledged()
            with pytest.raises(KafkaUnavailable, match="left 1 partitions without its marker"):
                await of.send(producer, 0)
            # The next start can't tell that it is not ours. It ends what is ours, and waits no longer.
            async with producing(of.settings) as again:
                assert await of.position(again) == 0
                await of.send(again, 1)
            await other.commit()
        values = [record.value for record in await committed_messages(broker, of.topics[0])]
        assert values == [b"other", b"0", b"1"]


@pytest.mark.full
async def test_killed_right_after_the_answer_to_a_commit(parts: Parts, tmp_path: Path) -> None:
    """The broker itself decides what is missing: nothing in most cases, all markers in some."""
    assert parts.kafka is not None
    with KafkaBroker(parts.kafka, tmp_path / "kafka") as broker:
        for _ in range(24):
            of = await pipeline(broker)
            async with producing(of.settings) as producer:
                await of.fill(producer, 0)
                # Without the wait for the markers.
                await producer._producer.commit_transaction()
                broker.kill()
            broker.start()
            async with producing(of.settings) as producer:
                for number in range(await of.position(producer) + 1, 2):
                    await of.send(producer, number)
            for topic in of.topics:
                assert [each.value for each in await committed_messages(broker, topic)] == [b"0", b"1"]
