"""The client of a schema registry, at a real one."""

import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from actors.kafka.broker_check import check_topics
from actors.kafka.schema_registry import SchemaRegistry
from deploy.toolchain.kafka_broker import KafkaBroker
from deploy.toolchain.schema_registry import SchemaRegistryServer
from pipeline.config.settings import ConverterKind, KafkaSinkSettings, Secret
from pipeline.kafka.avro.avro_schema import avro_text
from pipeline.kafka.debezium.connect_schema import CONNECT_STRING, LONG, field, struct
from pipeline.kafka.errors import KafkaRefused, KafkaUnavailable, TopicRefusal
from tests.servers.certificates import certificate
from tests.servers.schema_registry import asked, door

NUMBER = struct([field(LONG, "id")], name="p.t.Key")
WORD = struct([field(CONNECT_STRING, "id")], name="p.t.Key")


def settings(url: str, **more: Any) -> KafkaSinkSettings:
    return KafkaSinkSettings(("kafka:1",), "p", converter=ConverterKind.AVRO, schema_registry_url=url, **more)


@pytest.fixture
def topic() -> str:
    return f"p.{uuid.uuid4().hex[:8]}"


async def test_a_schema_is_registered_once_and_keeps_its_id(
    schema_registry: SchemaRegistryServer, topic: str
) -> None:
    registry = SchemaRegistry(settings(schema_registry.url))
    number = await registry.id_of(topic, "key", NUMBER)
    assert await registry.id_of(topic, "key", NUMBER) == number
    assert await SchemaRegistry(settings(schema_registry.url + "/")).id_of(topic, "key", NUMBER) == number
    assert await registry.id_of(topic, "value", WORD) != number
    told = await asked(f"{schema_registry.url}/schemas/ids/{number}")
    assert json.loads(told["schema"]) == json.loads(avro_text(NUMBER))
    assert await asked(f"{schema_registry.url}/subjects/{topic}-key/versions") == [1]


async def test_a_schema_is_looked_for_where_it_may_not_be_registered(
    schema_registry: SchemaRegistryServer, topic: str
) -> None:
    looking = SchemaRegistry(settings(schema_registry.url, auto_register_schemas=False))
    with pytest.raises(TopicRefusal, match="doesn't have the schema"):
        await looking.id_of(topic, "key", NUMBER)
    registered = await SchemaRegistry(settings(schema_registry.url)).id_of(topic, "key", NUMBER)
    assert await looking.id_of(topic, "key", NUMBER) == registered
    with pytest.raises(TopicRefusal, match="auto_register_schemas"):
        await looking.id_of(topic, "key", WORD)


async def test_a_schema_that_is_not_compatible_is_refused(
    schema_registry: SchemaRegistryServer, topic: str
) -> None:
    registry = SchemaRegistry(settings(schema_registry.url))
    await registry.id_of(topic, "key", NUMBER)
    level = f"{schema_registry.url}/config/{topic}-key"
    await asked(level, "PUT", {"compatibility": "BACKWARD"})
    with pytest.raises(TopicRefusal, match="isn't compatible") as refused:
        await registry.id_of(topic, "key", WORD)
    assert refused.value.topic == topic
    await asked(level, "PUT", {"compatibility": "NONE"})
    assert await registry.id_of(topic, "key", WORD)


async def test_tls_a_password_and_a_registry_that_fails_for_a_while(
    schema_registry: SchemaRegistryServer, tmp_path: Path, topic: str
) -> None:
    certificate(tmp_path, "127.0.0.1")
    login: dict[str, Any] = {
        "schema_registry_username": "tidemark",
        "schema_registry_password": Secret("sesame"),
    }
    async with door(schema_registry, tmp_path / "server.pem", "tidemark", "sesame") as opened:
        trusting = settings(opened.url, schema_registry_ca=tmp_path / "ca.pem", **login)
        opened.statuses += [503, 429]
        assert await SchemaRegistry(trusting).id_of(topic, "key", NUMBER)
        assert len(opened.requests) == 3
        opened.statuses += [500] * 9
        with pytest.raises(KafkaUnavailable, match="not now"):
            await SchemaRegistry(trusting).id_of(topic, "key", NUMBER)
        with pytest.raises(KafkaRefused, match=r"kafka\.schema_registry_ca"):
            await SchemaRegistry(settings(opened.url, **login)).look()
        unknown = settings(opened.url, schema_registry_ca=tmp_path / "ca.pem")
        with pytest.raises(KafkaRefused, match="schema_registry_username"):
            await SchemaRegistry(unknown).look()
    with pytest.raises(KafkaUnavailable, match="doesn't answer"):
        await SchemaRegistry(trusting).look()


async def test_check_asks_the_registry(kafka: KafkaBroker, schema_registry: SchemaRegistryServer) -> None:
    right = KafkaSinkSettings(
        (kafka.address,), "p", converter=ConverterKind.AVRO, schema_registry_url=schema_registry.url
    )
    assert await check_topics(right, f"c{uuid.uuid4().hex[:8]}") == []
    nowhere = settings(f"{schema_registry.url}/nowhere")
    found = [each for each in await check_topics(nowhere, "nowhere") if "registry" in each.wrong]
    assert len(found) == 1 and "/subjects" in found[0].remedy
