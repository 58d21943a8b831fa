"""A broker that died after it answered a commit, and came back without the markers of the Kafka transaction.

Kafka 4.3.1 does so by itself now and then (`docs/kafka.md`). Here its files are cut while it is down, so that each
choice of markers is missing once: in the partitions of messages, in that of the position, in all of them.
"""

import os
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from actors.kafka.batches import PartitionBatch
from actors.kafka.position import last_position, position_batch
from actors.kafka.producer import KafkaProducer
from actors.kafka.record_batch import RecordBatch
from actors.kafka.topics import KafkaTopics
from actors.service.assembly import Assembly
from deploy.toolchain.kafka_broker import KafkaBroker
from deploy.toolchain.mysql_server import MysqlServer
from deploy.toolchain.parts import Parts
from pipeline.config.settings import Compression, KafkaSinkSettings
from pipeline.kafka.errors import KafkaUnavailable
from pipeline.kafka.records import record_runs
from pipeline.kafka.state import KafkaPosition, SinkPosition
from pipeline.kafka.transaction_endings import Ending
from tests.actors.kafka.test_producer import producing, settings, topic_of
from tests.integration.kafka.test_kafka_sink import sent, to_topics
from tests.servers.kafka import create_topic
from tests.servers.kafka_messages import committed_messages
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


async def test_somebody_elses_open_records_hold_up_nothing(
    open_shop: MysqlServer, kafka: KafkaBroker, tmp_path: Path
) -> None:
    """The sink takes them for its own at first."""
    settings_ = to_topics(kafka, open_shop, tmp_path)
    assert settings_.kafka is not None
    topic = f"{settings_.kafka.topic_prefix}.shop.orders"
    await create_topic(kafka, topic)
    async with producing(settings(kafka)) as other:
        await other.begin()
        await other.send(batch(topic, b"other"))
        await other.acknowledged()
        async with running(settings_, Assembly) as service:
            await service.begun()
            open_shop.sql("UPDATE shop.orders SET total = 17 WHERE id = 1")
            await service.caught_up(open_shop)
            await sent(service)
            await service.stop()
        await other.commit()
    assert len(await committed_messages(kafka, topic)) == 2


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
