"""The service with topics in Avro: a real source, broker and schema registry, and a reader that isn't ours."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiokafka import ConsumerRecord

from actors.kafka import sink_calls
from actors.service.assembly import Assembly
from deploy.toolchain.kafka_broker import KafkaBroker
from deploy.toolchain.mysql_server import MysqlServer
from deploy.toolchain.schema_registry import SchemaRegistryServer
from pipeline.config.settings import ConverterKind, Settings
from pipeline.kafka import step
from pipeline.messages.topology import ActorName as Name
from tests.servers.certificates import certificate
from tests.servers.kafka_messages import committed_messages, topics
from tests.servers.kafka_pipeline import sent, to_topics
from tests.servers.schema_registry import LOGIN, AvroReader, Door, asked, door
from tests.servers.service import running
from tests.servers.shop import writing


def rows_of(reader: AvroReader, records: list[ConsumerRecord]) -> dict[tuple[Any, ...], Any]:
    """The last row of each key; each message has to begin with what the one before has left."""
    rows: dict[tuple[Any, ...], Any] = {}
    for record in records:
        key = tuple(reader.read(record.key).values())
        if record.value is None:
            assert key not in rows
            continue
        value = reader.read(record.value)
        if value["op"] != "r" and value["before"] is not None:
            assert value["before"].items() >= rows[key].items() or key not in rows
        rows[key] = value["after"]
        if value["after"] is None:
            del rows[key]
    return rows


@asynccontextmanager
async def behind_door(
    registry: SchemaRegistryServer, broker: KafkaBroker, server: MysqlServer, folder: Path
) -> AsyncIterator[tuple[Door, Settings]]:
    """A door in front of a registry, and a pipeline into topics that goes through it."""
    certificate(folder, "127.0.0.1")
    async with door(registry, folder / "server.pem") as opened:
        yield (
            opened,
            to_topics(
                broker,
                server,
                folder,
                converter=ConverterKind.AVRO,
                schema_registry_url=opened.url,
                schema_registry_ca=folder / "ca.pem",
                **LOGIN,
            ),
        )


async def test_a_consumer_reads_the_tables_with_the_registrys_schemas(
    open_shop: MysqlServer, kafka: KafkaBroker, schema_registry: SchemaRegistryServer, tmp_path: Path
) -> None:
    settings = to_topics(
        kafka,
        open_shop,
        tmp_path,
        partitions=2,
        converter=ConverterKind.AVRO,
        schema_registry_url=schema_registry.url,
        provide_transaction_metadata=True,
        heartbeat_interval_ms=100,
    )
    assert settings.kafka is not None
    prefix = settings.kafka.topic_prefix
    async with running(settings, Assembly) as service:
        await service.begun()
        await service.execute("s1")
        await service.completed("s1")
        open_shop.sql("CREATE TABLE shop.grown (id INT PRIMARY KEY, v VARCHAR(9))")
        with writing(open_shop):
            open_shop.sql("INSERT INTO shop.grown VALUES (1, 'ü'), (2, NULL)")
            open_shop.sql("ALTER TABLE shop.grown ADD COLUMN more BIGINT")
            open_shop.sql("UPDATE shop.grown SET more = id * 1000000007 WHERE id = 2")
        await service.caught_up(open_shop)
        await sent(service)
        beats = f"__debezium-heartbeat.{prefix}"
        while beats not in await topics(kafka, beats) or not await committed_messages(kafka, beats):
            pass
        await service.stop()
    reader = AvroReader(schema_registry)
    customers = rows_of(reader, await committed_messages(kafka, f"{prefix}.shop.customers"))
    expected = {row[0]: row[1] for row in open_shop.sql("SELECT name, email FROM shop.customers")}
    assert {key[0]: row["email"] for key, row in customers.items()} == expected
    grown = rows_of(reader, await committed_messages(kafka, f"{prefix}.shop.grown"))
    assert grown == {(1,): {"id": 1, "v": "ü"}, (2,): {"id": 2, "v": None, "more": 2_000_000_014}}
    assert await asked(f"{schema_registry.url}/subjects/{prefix}.shop.grown-value/versions") == [1, 2]
    ends = [reader.read(record.value) for record in await committed_messages(kafka, f"{prefix}.transaction")]
    assert {each["status"] for each in ends} == {"BEGIN", "END"}
    [first, *_] = await committed_messages(kafka, beats)
    assert reader.read(first.key) == {"serverName": prefix}


async def test_a_topic_whose_schema_the_registry_refuses_is_set_aside_until_it_takes_it(
    open_shop: MysqlServer,
    kafka: KafkaBroker,
    schema_registry: SchemaRegistryServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(step, "AGAIN_AFTER_S", 0.5)
    settings = to_topics(
        kafka,
        open_shop,
        tmp_path,
        converter=ConverterKind.AVRO,
        schema_registry_url=schema_registry.url,
    )
    assert settings.kafka is not None
    topic = f"{settings.kafka.topic_prefix}.shop.grown"
    open_shop.sql("CREATE TABLE shop.grown (id INT PRIMARY KEY, v INT)")
    async with running(settings, Assembly) as service:
        await service.begun()
        open_shop.sql("INSERT INTO shop.grown VALUES (1, 7)")
        await service.caught_up(open_shop)
        await sent(service)
        level = f"{schema_registry.url}/config/{topic}-value"
        await asked(level, "PUT", {"compatibility": "FORWARD"})
        open_shop.sql("ALTER TABLE shop.grown MODIFY v VARCHAR(20)", "INSERT INTO shop.grown VALUES (2, 'x')")
        asides = await service.until(
            lambda: service.status(Name.KAFKA_SINK).get("set_aside"), "the topic is set aside"
        )
        assert asides is not None and [*asides] == [topic] and "isn't compatible" in str(asides[topic])
        open_shop.sql("UPDATE shop.customers SET email = 'x'")
        await service.caught_up(open_shop)
        await sent(service)
        await asked(level, "PUT", {"compatibility": "NONE"})
        await service.until(
            lambda: not service.status(Name.KAFKA_SINK).get("set_aside"), "the topic has caught up"
        )
        await service.stop()
    reader = AvroReader(schema_registry)
    values = [reader.read(each.value) for each in await committed_messages(kafka, topic)]
    assert [each["after"]["v"] for each in values if each["op"] == "c"] == [7, "x"]
    assert await committed_messages(kafka, f"{settings.kafka.topic_prefix}.shop.customers")


async def test_a_topic_for_whose_schema_the_registry_fails_holds_up_no_other(
    open_shop: MysqlServer,
    kafka: KafkaBroker,
    schema_registry: SchemaRegistryServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(step, "AGAIN_AFTER_S", 0.5)
    open_shop.sql("CREATE TABLE shop.fails (id INT PRIMARY KEY)")
    async with behind_door(schema_registry, kafka, open_shop, tmp_path) as (opened, settings):
        assert settings.kafka is not None
        prefix = settings.kafka.topic_prefix
        opened.fails = f"{prefix}.shop.fails-value"
        async with running(settings, Assembly) as service:
            await service.begun()
            open_shop.sql("INSERT INTO shop.fails VALUES (1)", "UPDATE shop.customers SET email = 'x'")
            await service.caught_up(open_shop)
            await sent(service)
            asides = service.status(Name.KAFKA_SINK)["set_aside"]
            assert [*asides] == [f"{prefix}.shop.fails"] and "500" in asides[f"{prefix}.shop.fails"]
            assert await committed_messages(kafka, f"{prefix}.shop.customers")
            opened.fails = ""
            await service.until(
                lambda: not service.status(Name.KAFKA_SINK).get("set_aside"), "the topic has caught up"
            )
            await service.stop()
    assert len(await committed_messages(kafka, f"{prefix}.shop.fails")) == 1


async def test_the_status_names_a_registry_that_is_silent(
    open_shop: MysqlServer,
    kafka: KafkaBroker,
    schema_registry: SchemaRegistryServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sink_calls, "BROKER_PATIENCE_S", 0.1)
    async with behind_door(schema_registry, kafka, open_shop, tmp_path) as (opened, settings):
        opened.answers.clear()
        async with running(settings, Assembly) as service:
            await service.begun()
            open_shop.sql("UPDATE shop.customers SET email = 'x'")
            # On a busy machine the sink waits for Kafka before.
            silent = "the schema registry doesn't answer"
            await service.until(
                lambda: service.status(Name.KAFKA_SINK).get("waits") == silent,
                "the sink waits for the registry",
            )
            opened.answers.set()
            await service.caught_up(open_shop)
            await sent(service)
            assert service.status(Name.KAFKA_SINK)["waits"] is None
            await service.stop()
