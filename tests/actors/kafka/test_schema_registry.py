"""The client of a schema registry, at a real one."""

import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from actors.kafka import schema_registry as registries
from actors.kafka.broker_check import check_topics
from actors.kafka.schema_registry import SchemaRegistry
from deploy.toolchain.kafka_broker import KafkaBroker
from deploy.toolchain.schema_registry import SchemaRegistryServer
from pipeline.config.settings import ConverterKind, KafkaSinkSettings
from pipeline.errors import Backoff
from pipeline.kafka.avro.avro_schema import avro_text
from pipeline.kafka.debezium.connect_schema import CONNECT_STRING, LONG, field, struct
from pipeline.kafka.errors import KafkaRefused, KafkaUnavailable, TopicRefusal
from tests.servers.certificates import certificate
from tests.servers.schema_registry import LOGIN, Failure, asked, door

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


async def test_the_ids_that_were_used_last_are_kept(
    schema_registry: SchemaRegistryServer, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registries, "MOST_IDS", 2)
    registry = SchemaRegistry(settings(schema_registry.url))
    questions = []

    async def question(asking: Any) -> int:
        questions.append(asking.subject)
        return await answer(asking)

    answer = registry._asked
    monkeypatch.setattr(registry, "_asked", question)
    first = await registry.id_of(f"{topic}.1", "key", NUMBER)
    await registry.id_of(f"{topic}.2", "key", NUMBER)
    assert await registry.id_of(f"{topic}.1", "key", NUMBER) == first
    await registry.id_of(f"{topic}.3", "key", NUMBER)
    assert await registry.id_of(f"{topic}.1", "key", NUMBER) == first
    assert questions == [f"{topic}.{number}-key" for number in (1, 2, 3)]
    assert len(registry._ids) == 2


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
    async with door(schema_registry, tmp_path / "server.pem") as opened:
        trusting = settings(opened.url, schema_registry_ca=tmp_path / "ca.pem", **LOGIN)
        opened.statuses += [503, 429]
        assert await SchemaRegistry(trusting).id_of(topic, "key", NUMBER)
        assert len(opened.requests) == 3
        opened.statuses += [500] * 9
        with pytest.raises(KafkaUnavailable, match="not now"):
            await SchemaRegistry(trusting).id_of(topic, "key", NUMBER)
        with pytest.raises(KafkaRefused, match=r"kafka\.schema_registry_ca"):
            await SchemaRegistry(settings(opened.url, **LOGIN)).look()
        unknown = settings(opened.url, schema_registry_ca=tmp_path / "ca.pem")
        with pytest.raises(KafkaRefused, match="schema_registry_username"):
            await SchemaRegistry(unknown).look()
    with pytest.raises(KafkaUnavailable, match="doesn't answer"):
        await SchemaRegistry(trusting).look()


def let_in(url: str, folder: Path) -> SchemaRegistry:
    """With the login of the `door` at this address."""
    return SchemaRegistry(settings(url, schema_registry_ca=folder / "ca.pem", **LOGIN))


async def test_a_registry_that_fails_for_one_schema_is_that_topics_trouble(
    schema_registry: SchemaRegistryServer, tmp_path: Path, topic: str
) -> None:
    certificate(tmp_path, "127.0.0.1")
    async with door(schema_registry, tmp_path / "server.pem") as opened:
        registry = let_in(opened.url, tmp_path)
        opened.fails = f"{topic}-key"
        with pytest.raises(TopicRefusal, match=rf"subject {topic}-key .*500: no room for it") as refused:
            await registry.id_of(topic, "key", NUMBER)
        assert refused.value.topic == topic
        opened.requests.clear()
        with pytest.raises(TopicRefusal, match=rf"subject {topic}-key "):
            await registry.id_of(topic, "key", NUMBER)
        assert len(opened.requests) == 2, "for the schema, and whether it is there at all"
        assert await registry.id_of(topic, "value", WORD)
        opened.fails = "/subjects"
        with pytest.raises(KafkaUnavailable, match="no room for it"):
            await registry.id_of(f"{topic}.other", "key", NUMBER)
        opened.fails = ""
        assert await registry.id_of(topic, "key", NUMBER)


@pytest.mark.parametrize(
    ("failure", "says"),
    [
        pytest.param(None, "doesn't answer", id="cut"),
        pytest.param(Failure(200, b"<h1>Blocked</h1>"), "no schema registry", id="a page"),
        pytest.param(
            Failure(200, b'{"error_code": 1, "message": "a"}'), "gives no id .*error_code", id="error"
        ),
        pytest.param(Failure(200, b"[1]"), "gives no id", id="a list"),
        pytest.param(Failure(200, b'{"id": "7"}'), "gives no id", id="a text"),
        pytest.param(Failure(200, b'{"id": true}'), "gives no id", id="true"),
        pytest.param(Failure(200, b'{"id": 2147483648}'), "gives no id", id="large"),
        pytest.param(Failure(200, b"[" * 100_000), "no schema registry", id="deep"),
        pytest.param(Failure(200, b" " * 200_000), "more than 100000 bytes", id="endless"),
        pytest.param(Failure(200, b"\xff"), "no schema registry", id="no UTF-8"),
        pytest.param(Failure(500, b"pr\xe9paration"), "500", id="an error in Latin 1"),
        pytest.param(Failure(302, b"", {"Location": "/subjects"}), "302", id="led elsewhere"),
        pytest.param(Failure(404, b"nothing here"), "404", id="not found"),
        pytest.param(Failure(405, b""), "405", id="not allowed"),
    ],
)
async def test_whatever_it_answers_for_one_schema_is_that_topics_trouble(
    schema_registry: SchemaRegistryServer,
    tmp_path: Path,
    topic: str,
    monkeypatch: pytest.MonkeyPatch,
    failure: Failure | None,
    says: str,
) -> None:
    monkeypatch.setattr(registries, "_PAUSES", Backoff(0.0, 0.0))
    if failure is not None and failure.body.isspace():
        monkeypatch.setattr(registries, "_MOST_BYTES", 100_000)
    certificate(tmp_path, "127.0.0.1")
    async with door(schema_registry, tmp_path / "server.pem") as opened:
        registry = let_in(opened.url, tmp_path)
        opened.fails, opened.failure = f"{topic}-key", failure
        with pytest.raises(TopicRefusal, match=says) as refused:
            await registry.id_of(topic, "key", NUMBER)
        assert refused.value.topic == topic
        assert await registry.id_of(topic, "value", WORD)
        opened.fails = "/subjects"
        with pytest.raises(
            (KafkaUnavailable, KafkaRefused), match=says.replace("gives no id", "registry")
        ) as all_:
            await registry.id_of(f"{topic}.other", "key", NUMBER)
        assert isinstance(all_.value, TopicRefusal) == (failure is not None and failure.body == b"[1]")


async def test_check_asks_the_registry(kafka: KafkaBroker, schema_registry: SchemaRegistryServer) -> None:
    right = KafkaSinkSettings(
        (kafka.address,), "p", converter=ConverterKind.AVRO, schema_registry_url=schema_registry.url
    )
    assert await check_topics(right, f"c{uuid.uuid4().hex[:8]}") == []
    nowhere = settings(f"{schema_registry.url}/nowhere")
    found = [each for each in await check_topics(nowhere, "nowhere") if "registry" in each.wrong]
    assert len(found) == 1 and "/subjects" in found[0].remedy
