"""A broker that dies under load and comes back, and a topic that is removed: each change is once, and none is lost."""

import asyncio
import base64
import json
import shutil
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiokafka.producer.sender import AddPartitionsToTxnHandler
from structlog.testing import capture_logs

from actors.journal.store import JournalReader
from actors.kafka.broker_check import check_topics, topic_setting
from actors.kafka.topics import partitions_of
from actors.service.assembly import Assembly
from deploy.toolchain.kafka_broker import PROPERTIES, KafkaBroker
from deploy.toolchain.mysql_server import MysqlServer
from deploy.toolchain.parts import Parts
from deploy.toolchain.schema_registry import SchemaRegistryServer
from pipeline.config.settings import ConverterKind, Settings
from pipeline.journal.consumer_names import KAFKA_CONSUMER
from pipeline.messages.topology import ActorName as Name
from tests.servers.awaiting import until
from tests.servers.kafka import administrating, remake_topic
from tests.servers.kafka_messages import committed_messages
from tests.servers.kafka_pipeline import sent, to_topics
from tests.servers.schema_registry import AvroReader
from tests.servers.service import Running, running
from tests.servers.shop import TABLES, writing
from tests.servers.shop_topics import GrownTable, ShopTopics

# After all kills: what has piled up while the broker was down is sent.
OF_ALL_WITHIN_S = 600.0


def segment(service: Running) -> int:
    """Through which segment the topics have everything."""
    found: int = service.status(Name.KAFKA_SINK).get("segment", -1)
    return found


def place(service: Running) -> tuple[int, int]:
    """Through which segment the topics have everything, and through which SCN of the next one."""
    within = service.status(Name.KAFKA_SINK).get("within") or {"scn": 0}
    return segment(service), within["scn"]


def orders_topic(settings: Settings) -> str:
    """The topic of shop.orders."""
    assert settings.kafka is not None
    return f"{settings.kafka.topic_prefix}.shop.orders"


async def first_change_sent(service: Running, server: MysqlServer, statement: str) -> None:
    """Change something once the service has begun, and wait until the topics have it."""
    await service.begun()
    server.sql(statement)
    await service.caught_up(server)
    await sent(service)


async def next_change_sent(service: Running, server: MysqlServer, statement: str) -> None:
    """Change something, and wait until the topics have it, though one was removed."""
    before = segment(service)
    server.sql(statement)
    await service.until(lambda: segment(service) > before, "the topic takes its messages")


async def remove(broker: KafkaBroker, topic: str) -> None:
    """Remove a topic."""
    async with administrating(broker.address) as admin:
        await admin.delete_topics([topic])


async def killed_and_judged(
    parts: Parts,
    server: MysqlServer,
    folder: Path,
    kills: int,
    read: Callable[[bytes], Any] = json.loads,
    **kafka: Any,
) -> None:
    """Kill the broker so often while the sink sends to it, and judge the topics."""
    assert parts.kafka is not None
    with KafkaBroker(parts.kafka, folder / "kafka") as broker:
        name = f"k{uuid.uuid4().hex[:8]}"
        settings = to_topics(
            broker, server, folder, topic_prefix=name, partitions=2, transaction_rows=2_000,
            provide_transaction_metadata=True, include_schema_changes=True,
            notification_sink_topic_name=f"{name}-notifications", **kafka,
        )  # fmt: skip
        grown = GrownTable(server)
        async with running(settings, Assembly) as service:
            await service.begun()
            with writing(server):
                await service.execute("s", *(str(table) for table in TABLES), chunk_rows=50)
                for _ in range(kills):
                    before = place(service)
                    await asyncio.to_thread(grown.grow)
                    await service.until(lambda: place(service) > before, "the topics advance")  # noqa: B023
                    await asyncio.to_thread(broker.kill)
                    await asyncio.to_thread(broker.start)
            await service.completed("s")
            await service.caught_up(server)
            await sent(service, OF_ALL_WITHIN_S)
            await service.stop()
        assert await ShopTopics(broker, name, read).faults(grown, ["s"]) == []


@pytest.mark.full
async def test_two_kills_of_the_broker(parts: Parts, open_shop: MysqlServer, tmp_path: Path) -> None:
    await killed_and_judged(parts, open_shop, tmp_path, 2)


# With JSON and with Avro they are twenty.
@pytest.mark.full
async def test_ten_kills_of_the_broker(parts: Parts, open_shop: MysqlServer, tmp_path: Path) -> None:
    await killed_and_judged(parts, open_shop, tmp_path, 10)


@pytest.mark.full
async def test_ten_kills_of_the_broker_with_avro(
    parts: Parts, open_shop: MysqlServer, schema_registry: SchemaRegistryServer, tmp_path: Path
) -> None:
    read, url = AvroReader(schema_registry).read, schema_registry.url
    avro = {"converter": ConverterKind.AVRO, "schema_registry_url": url}
    await killed_and_judged(parts, open_shop, tmp_path, 10, read, **avro)


async def test_a_topic_that_was_removed_is_created_again(
    open_shop: MysqlServer, kafka: KafkaBroker, tmp_path: Path
) -> None:
    settings = to_topics(kafka, open_shop, tmp_path)
    topic = orders_topic(settings)
    async with running(settings, Assembly) as service:
        await first_change_sent(service, open_shop, "UPDATE shop.orders SET total = 17 WHERE id = 1")
        assert len(await committed_messages(kafka, topic)) == 1
        await remove(kafka, topic)
        await next_change_sent(service, open_shop, "UPDATE shop.orders SET total = 18 WHERE id = 1")
        await service.stop()
    [message] = await committed_messages(kafka, topic)
    assert json.loads(message.value)["before"] != json.loads(message.value)["after"]


BY_ITSELF = PROPERTIES.replace("auto.create.topics.enable=false", "auto.create.topics.enable=true")


async def made(broker: KafkaBroker, topic: str, setting: str) -> tuple[int | None, str | None]:
    """A topic's partitions, and one of its settings."""
    async with administrating(broker.address) as admin:
        return await partitions_of(admin, topic), await topic_setting(admin, topic, setting)


async def test_topics_are_as_the_settings_say_where_a_broker_makes_some_by_itself(
    parts: Parts, open_shop: MysqlServer, tmp_path: Path
) -> None:
    """That's a broker's default: any client that asks for a topic makes it, with the broker's settings."""
    assert parts.kafka is not None
    assert BY_ITSELF != PROPERTIES
    with KafkaBroker(parts.kafka, tmp_path / "kafka", BY_ITSELF) as broker:
        settings = to_topics(
            broker, open_shop, tmp_path, partitions=3, topic_config={"retention.ms": "86400000"}
        )
        assert settings.kafka is not None
        position, topic = f"tidemark-position-{settings.name}", orders_topic(settings)
        as_set = (3, "86400000")
        assert await check_topics(settings.kafka, settings.name) == []
        async with running(settings, Assembly) as service:
            await first_change_sent(service, open_shop, "UPDATE shop.orders SET total = 17")
            assert await made(broker, position, "cleanup.policy") == (1, "compact")
            assert await made(broker, topic, "retention.ms") == as_set
            await remove(broker, topic)
            await next_change_sent(service, open_shop, "UPDATE shop.orders SET total = 18")
            assert await made(broker, topic, "retention.ms") == as_set
            await service.stop()


def added_at_once(count: int) -> Callable[[Any, int], Awaitable[bool]]:
    """In place of a handler's `do`: the first request waits until so many partitions are to be in it."""
    do, waits = AddPartitionsToTxnHandler.do, [count]

    async def held(handler: Any, node: int) -> bool:
        if waits:
            waits.clear()
            await until(lambda: len(handler._tps) >= count, "all partitions have a batch")
        added: bool = await do(handler, node)
        return added

    return held


@pytest.mark.parametrize("at_once", [False, True])
async def test_a_topic_that_somebody_made_again_with_fewer_partitions_takes_its_messages(
    open_shop: MysqlServer,
    kafka: KafkaBroker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    at_once: bool,
) -> None:
    """A broker refuses all partitions of a request if one is gone, also those that exist."""
    settings = to_topics(kafka, open_shop, tmp_path, partitions=4)
    topic = orders_topic(settings)
    async with running(settings, Assembly) as service:
        await first_change_sent(service, open_shop, "UPDATE shop.orders SET total = 17")
        await remake_topic(kafka, topic)
        if at_once:
            monkeypatch.setattr(AddPartitionsToTxnHandler, "do", added_at_once(4))
        await next_change_sent(service, open_shop, "UPDATE shop.orders SET total = 18")
        await service.stop()
    ((rows,),) = open_shop.sql("SELECT COUNT(*) FROM shop.orders")
    totals = [
        json.loads(message.value)["after"]["total"] for message in await committed_messages(kafka, topic)
    ]
    assert len(totals) == rows and len(set(totals)) == 1


async def test_where_the_position_was_removed_nothing_is_guessed(
    open_shop: MysqlServer, kafka: KafkaBroker, tmp_path: Path
) -> None:
    settings = to_topics(kafka, open_shop, tmp_path)
    topic = orders_topic(settings)
    async with running(settings, Assembly) as service:
        await first_change_sent(service, open_shop, "UPDATE shop.orders SET total = 17 WHERE id = 1")
        await remove(kafka, f"tidemark-position-{settings.name}")
        with capture_logs() as logs:
            open_shop.sql("UPDATE shop.orders SET total = 18 WHERE id = 1")
            await service.until(
                lambda: any("the position topic is empty" in str(each) for each in logs), "it is named"
            )
        open_shop.sql("UPDATE shop.orders SET total = 19 WHERE id = 1")
        await service.caught_up(open_shop)
        await service.drop()
    assert len(await committed_messages(kafka, topic)) == 1


async def test_an_earlier_position_topic_sends_nothing_twice(
    open_shop: MysqlServer, kafka: KafkaBroker, tmp_path: Path
) -> None:
    earlier = to_topics(kafka, open_shop, tmp_path)
    assert earlier.kafka is not None
    later = replace(earlier, kafka=replace(earlier.kafka, position_topic=f"later-{earlier.name}"))
    topic = orders_topic(earlier)

    async def send(settings: Settings, total: int) -> None:
        async with running(settings, Assembly) as service:
            await first_change_sent(
                service, open_shop, f"UPDATE shop.orders SET total = {total} WHERE id = 1"
            )
            await service.stop()

    await send(earlier, 17)
    JournalReader(earlier.journal.path).forget_consumer(KAFKA_CONSUMER)
    await send(later, 18)
    async with running(earlier, Assembly) as service:
        with capture_logs() as logs:
            await service.until(
                lambda: any(f"kafka.position_topic = 'later-{earlier.name}'" in str(each) for each in logs),
                "it is named",
            )
        await service.drop()
    assert len(await committed_messages(kafka, topic)) == 2
    await send(later, 19)
    values = [json.loads(each.value)["after"]["total"] for each in await committed_messages(kafka, topic)]
    assert [int.from_bytes(base64.b64decode(value)) for value in values] == [1700, 1800, 1900]


async def test_a_journal_that_was_restored_from_an_older_copy_is_named(
    open_shop: MysqlServer, kafka: KafkaBroker, tmp_path: Path
) -> None:
    settings = to_topics(kafka, open_shop, tmp_path)
    journal, copy = Path(settings.journal.path), tmp_path / "copy"
    async with running(settings, Assembly) as service:
        await first_change_sent(service, open_shop, "UPDATE shop.orders SET total = 17 WHERE id = 1")
        await service.stop()
    shutil.copytree(journal, copy)
    async with running(settings, Assembly) as service:
        for total in (18, 19):
            await first_change_sent(
                service, open_shop, f"UPDATE shop.orders SET total = {total} WHERE id = 1"
            )
        await service.stop()
    shutil.rmtree(journal)
    copy.rename(journal)
    for total in range(20, 30, 5):  # the second time the journal has as many segments as the topics had
        async with running(settings, Assembly) as service:
            for each in range(total, total + 5):
                open_shop.sql(f"UPDATE shop.orders SET total = {each} WHERE id = 1")
                await service.caught_up(open_shop)
            with capture_logs() as logs:
                await service.until(
                    lambda: any("it was restored from a copy" in str(each) for each in logs),
                    "it is named",
                )
            await service.drop()
    assert len(await committed_messages(kafka, orders_topic(settings))) == 3
