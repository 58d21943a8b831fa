"""Tidemark's way from a log to topics: capture into a journal, then the KafkaSink, each in a process of its own."""

import asyncio
import json
import subprocess
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

import uvloop
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from actors.journal.store import JournalReader
from actors.kafka_sink import KafkaSink
from actors.runtime.actor import Actor
from actors.runtime.mailbox import Mailbox
from actors.runtime.metrics import Metrics
from actors.service import warm_up
from actors.service.assembly import Assembly
from bench._logs import DATABASE, Log
from bench._report import Peer
from bench._service import source
from bench._snapshots import TABLE
from deploy.toolchain.parts import Parts
from pipeline.config.settings import (
    JournalSettings,
    KafkaSinkSettings,
    Settings,
    SnapshotMode,
    SnapshotSettings,
    SourceSettings,
)
from pipeline.gtid.gtid_set import GtidSet
from pipeline.journal.consumer_names import KAFKA_CONSUMER
from pipeline.messages.inboxes import ToKafkaSink
from pipeline.messages.topology import ActorName, inbox
from pipeline.schema.table_filter import TableFilter
from tests.servers.service import running

PARTITIONS: Final = 4
_PRODUCER: Final = Path(__file__).with_name("Produce.java")
_LOOK_EVERY_S: Final = 0.02
_US: Final = 1e6
# What isn't counted, in which the service and the consumer come up.
SETTLING_S: Final = 5.0


def settings(source: SourceSettings, table: str, folder: Path, kafka: KafkaSinkSettings) -> Settings:
    """A pipeline of one table into topics alone; only what the log has is captured."""
    return Settings(
        "bench",
        TableFilter((rf"{DATABASE}\.{table}",)),
        source,
        JournalSettings(str(folder / "journal")),
        None,
        SnapshotSettings(mode=SnapshotMode.NO_DATA),
        kafka=kafka,
    )


def topics(address: str, prefix: str) -> KafkaSinkSettings:
    """As they are by default, but for the number of partitions."""
    position = f"position-{prefix}"
    return KafkaSinkSettings((address,), prefix, partitions=PARTITIONS, position_topic=position)


def capture(log: Log, through: str, folder: Path, *, for_topics: bool = True) -> None:
    """Bring a log into a journal, up to a GTID set, without a reader; with what updates found if it's for topics."""
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        process.submit(_capture, log, through, folder, for_topics).result()


def _capture(log: Log, through: str, folder: Path, for_topics: bool) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_captured(log, GtidSet.parse(through), folder, for_topics))


class _CaptureAlone(Assembly):
    """The service without the readers of its journal."""

    async def _delivery(self) -> tuple[Actor[Any], ...]:
        return ()

    async def _kafka(self) -> tuple[Actor[Any], ...]:
        return ()


async def _captured(log: Log, through: GtidSet, folder: Path, for_topics: bool) -> None:
    pipeline = settings(
        replace(log.source, begin_after=log.gtids), log.table, folder, topics("127.0.0.1:1", "bench")
    )
    if not for_topics:
        pipeline = replace(pipeline, kafka=None)
    async with running(pipeline, _CaptureAlone) as service:
        await service.until(
            lambda: through <= GtidSet.parse(service.status().get("position", "")), "all was captured"
        )
        await service.stop()


@dataclass(frozen=True, slots=True)
class Delivered:
    """How many seconds a journal took into topics, and how many of the processor's the service took for it."""

    seconds: float
    processor_s: float


def deliver(journal: Path, address: str, prefix: str, rows: int) -> Delivered:
    """Bring a whole journal into the topics of a prefix that has none; they have so many messages then."""
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        return process.submit(_deliver, journal, address, prefix, rows).result()


def _deliver(journal: Path, address: str, prefix: str, rows: int) -> Delivered:
    warm_up.import_all()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_delivered(JournalReader(journal), topics(address, prefix), rows))


async def _delivered(journal: JournalReader, to: KafkaSinkSettings, rows: int) -> Delivered:
    mailbox: Mailbox[ToKafkaSink] = Mailbox(inbox(ActorName.KAFKA_SINK))
    journal.consumers.record_progress(KAFKA_CONSUMER, 0)  # as if it had been there from the beginning on
    sink = KafkaSink(mailbox, Metrics(), to, "bench", journal, lambda _: None)
    last = journal.last_segment()
    begun, processor = time.perf_counter(), time.process_time()
    work = asyncio.create_task(sink.run())
    while sink.status()["segment"] < last:
        if work.done():
            await work
        await asyncio.sleep(_LOOK_EVERY_S)
    seconds, processor = time.perf_counter() - begun, time.process_time() - processor
    mailbox.close()
    await work
    sent = await _visible(to)
    assert rows <= sent < 1.01 * rows + 1000, f"{sent} messages of {rows}"
    return Delivered(seconds, processor)


async def _visible(to: KafkaSinkSettings) -> int:
    """How many messages the topic has, and besides them a marker of each Kafka transaction in each partition."""
    async with AIOKafkaConsumer(bootstrap_servers=list(to.bootstrap_servers)) as consumer:
        (topic,) = [name for name in await consumer.topics() if name.startswith(f"{to.topic_prefix}.")]
        await consumer._client._wait_on_metadata(topic)
        partitions = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic) or ()]
        return sum((await consumer.end_offsets(partitions)).values())


def produce(parts: Parts, address: str, messages: str, topic: str, count: int) -> Peer:
    """Kafka's own producer sends the messages of a topic, as ready bytes, to another topic, `count` of them."""
    assert parts.kafka is not None
    create_topic(address, topic)
    java = [str(parts.kafka.java_home / "bin" / "java"), "-Xmx512m", "-cp", f"{parts.kafka.jars}/*"]
    numbers = [str(count), str(count // 5), str(KafkaSinkSettings((), "").transaction_rows)]
    command = [*java, str(_PRODUCER), address, messages, topic, *numbers]
    told = subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout
    return Peer("Kafka's own producer, ready messages", float(told.split()[-1]))


def create_topic(address: str, topic: str) -> None:
    """With as many partitions as ours have."""
    asyncio.run(_create_topic(address, topic))


async def _create_topic(address: str, topic: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=address)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(topic, PARTITIONS, 1)])  # where it's there, nothing happens
    finally:
        await admin.close()


def ages(port: int, address: str, folder: Path, watch_s: float) -> list[float]:
    """How old (s) each message was that came within a time, beside the whole service, for a consumer of the topic."""
    prefix = "fresh"
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        ended = folder / "ended"
        service = process.submit(_serve, port, address, prefix, folder, ended)
        try:
            return watch(address, prefix, watch_s)
        finally:
            ended.touch()
            service.result()


def watch(address: str, prefix: str, watch_s: float) -> list[float]:
    """How old (s) each message was that came within a time, for a consumer of the topic in a process of its own."""
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        return process.submit(_watch, address, prefix, watch_s).result()


def _serve(port: int, address: str, prefix: str, folder: Path, ended: Path) -> None:
    warm_up.import_all()
    pipeline = settings(source(port), TABLE, folder, topics(address, prefix))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_served(pipeline, ended))


async def _served(pipeline: Settings, ended: Path) -> None:
    async with running(pipeline, Assembly) as service:
        while not ended.exists():  # noqa: ASYNC240 - another process makes it
            assert not service.outcome.done(), f"the service ended: {service.outcome.result()}"
            await asyncio.sleep(0.1)
        await service.stop()


def _watch(address: str, prefix: str, watch_s: float) -> list[float]:
    return asyncio.run(_watched(address, f"{prefix}.{DATABASE}.{TABLE}", watch_s))


async def _watched(address: str, topic: str, watch_s: float) -> list[float]:
    found: list[float] = []
    async with AIOKafkaConsumer(bootstrap_servers=address, isolation_level="read_committed") as consumer:
        while topic not in await consumer.topics():  # noqa: ASYNC110 - a state
            await asyncio.sleep(0.1)
        consumer.assign([TopicPartition(topic, number) for number in range(PARTITIONS)])
        begin = time.time() + SETTLING_S
        while (now := time.time()) < begin + watch_s:
            for records in (await consumer.getmany(timeout_ms=100)).values():
                came = time.time()
                if now >= begin:
                    found += [came - json.loads(record.value)["source"]["ts_us"] / _US for record in records]
    return found
