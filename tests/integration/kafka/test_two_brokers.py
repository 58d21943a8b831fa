"""Two brokers, of which one stops or dies: partitions get other leaders, and each change is once."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from actors.kafka import producer as kafka_producer
from actors.kafka.end_offsets import Isolation
from actors.service.assembly import Assembly
from deploy.toolchain.kafka_broker import KafkaBroker
from deploy.toolchain.mysql_server import MysqlServer
from deploy.toolchain.parts import Parts
from pipeline.config.settings import Settings
from pipeline.kafka.errors import KafkaUnavailable
from pipeline.messages.topology import ActorName as Name
from pipeline.schema.table_filter import TableFilter
from tests.actors.kafka.test_producer import producing
from tests.actors.kafka.test_producer import settings as producer_settings
from tests.integration.kafka.test_broker_kills import OF_ALL_WITHIN_S, place
from tests.servers.kafka import remove_topic
from tests.servers.kafka_cluster import KafkaCluster, two_brokers
from tests.servers.kafka_pipeline import judged, sent, to_topics
from tests.servers.service import Running, running
from tests.servers.shop import writing


async def in_sync(service: Running, cluster: KafkaCluster, prefix: str) -> None:
    """Until both brokers have all, so that either of them may die."""
    while not await cluster.in_sync(prefix) or not await cluster.in_sync("tidemark-position"):
        assert not service.outcome.done()
        await asyncio.sleep(0.1)


@pytest.mark.full
async def test_leaders_change_and_a_broker_of_two_dies(
    parts: Parts, open_shop: MysqlServer, tmp_path: Path
) -> None:
    assert parts.kafka is not None
    with two_brokers(parts.kafka, tmp_path / "kafka") as cluster:
        one, other = cluster.brokers
        settings = to_topics(one, open_shop, tmp_path, partitions=4, replication=2, transaction_rows=2_000)
        assert settings.kafka is not None
        settings = replace(settings, kafka=replace(settings.kafka, bootstrap_servers=cluster.addresses))
        prefix = f"{settings.name}."
        ends: list[tuple[KafkaBroker, Callable[[], None]]] = [
            (one, one.stop), (other, other.kill), (one, one.kill), (other, other.stop), (other, other.kill),
        ]  # fmt: skip
        async with running(settings, Assembly) as service:
            await service.begun()
            with writing(open_shop):
                await service.execute("s", chunk_rows=50)
                for broker, end in ends:
                    before = place(service)
                    await service.until(lambda: place(service) > before, "the topics advance")  # noqa: B023
                    await in_sync(service, cluster, prefix)
                    await asyncio.to_thread(end)
                    before = place(service)
                    await service.until(lambda: place(service) > before, "they advance with one")  # noqa: B023
                    left = {2} if broker is one else {1}
                    assert set(await cluster.leaders(f"{prefix}shop.orders")) == left
                    await asyncio.to_thread(broker.start)
            await service.completed("s")
            await service.caught_up(open_shop)
            await sent(service, OF_ALL_WITHIN_S)
            await service.stop()
        judges = await judged(one, settings, open_shop)
        assert all(judge.read and judge.changes for judge in judges.values())


@pytest.mark.full
async def test_without_enough_replicas_the_topics_wait_and_lose_nothing(
    parts: Parts, open_shop: MysqlServer, tmp_path: Path
) -> None:
    assert parts.kafka is not None
    with two_brokers(parts.kafka, tmp_path / "kafka") as cluster:
        one, other = cluster.brokers
        both = {"min.insync.replicas": "2"}
        settings = to_topics(
            one, open_shop, tmp_path, replication=2, topic_config=both, transaction_timeout_s=5.0
        )
        async with running(settings, Assembly) as service:
            await service.begun()
            await service.execute("s")
            await service.completed("s")
            await sent(service)
            await in_sync(service, cluster, f"{settings.name}.")
            await asyncio.to_thread(other.kill)
            before = place(service)
            open_shop.sql("UPDATE shop.orders SET total = total + 1 WHERE id < 50")
            await service.caught_up(open_shop)
            await service.until(
                lambda: not service.status(Name.KAFKA_SINK).get("connected", True), "the sink begins again"
            )
            assert place(service) <= before
            await asyncio.to_thread(other.start)
            await sent(service, OF_ALL_WITHIN_S)
            await service.stop()
        await judged(one, settings, open_shop)


@pytest.mark.full
async def test_a_start_waits_for_the_leader_of_each_partition_of_the_last_kafka_transaction(
    parts: Parts, open_shop: MysqlServer, tmp_path: Path
) -> None:
    """Whether its table is left out or not. It waits for no other one, and for none of a topic that was removed."""
    assert parts.kafka is not None
    orders = "UPDATE shop.orders SET total = total + 1 WHERE id < 50"
    customers = "UPDATE shop.customers SET version = version + 1"
    with two_brokers(parts.kafka, tmp_path / "kafka") as cluster:
        one, other = cluster.brokers
        everything = to_topics(one, open_shop, tmp_path, replication=2)
        assert everything.kafka is not None
        without = replace(everything.kafka, tables=TableFilter((r"shop\.customers",)))
        topic = f"{everything.name}.shop.orders"
        await cluster.create_topic_on(other, topic)

        async def send(settings: Settings, *statements: str) -> None:
            async with running(settings, Assembly) as service:
                await service.begun()
                for statement in statements:
                    open_shop.sql(statement)
                    await service.caught_up(open_shop)
                    await sent(service, OF_ALL_WITHIN_S)
                await service.stop()

        await send(everything, orders, customers)
        await asyncio.to_thread(other.kill)
        await send(replace(everything, kafka=without), customers)
        await asyncio.to_thread(other.start)
        await send(everything, customers, orders)
        await asyncio.to_thread(other.kill)
        async with running(replace(everything, kafka=without), Assembly) as service:
            await service.begun()
            await service.until(
                lambda: topic in service.supervisor.failures.get(Name.KAFKA_SINK, ""), "it waits"
            )
            assert service.status(Name.KAFKA_SINK)["segment"] == 0
            await remove_topic(one, topic)
            open_shop.sql(customers)
            await service.caught_up(open_shop)
            await sent(service, OF_ALL_WITHIN_S)
            await service.stop()


@pytest.mark.full
async def test_of_several_topics_those_without_a_leader_are_named(
    parts: Parts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_producer, "ANSWERS_WITHIN_S", 0.5)
    assert parts.kafka is not None
    with two_brokers(parts.kafka, tmp_path / "kafka") as cluster:
        one, other = cluster.brokers
        of = replace(producer_settings(one), bootstrap_servers=cluster.addresses, replication=1)
        led, lost = f"{of.topic_prefix}.led", f"{of.topic_prefix}.lost"
        await cluster.create_topic_on(one, led)
        await cluster.create_topic_on(other, lost)
        async with producing(of) as producer:
            await asyncio.to_thread(other.stop)
            producer._deadline = 0.0  # its start has left one
            with pytest.raises(KafkaUnavailable, match=rf"^{lost}: the brokers took too long"):
                await producer.offsets([(led, 0), (lost, 0)], Isolation.COMMITTED)
