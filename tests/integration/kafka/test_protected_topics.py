"""Protected columns and topics: neither messages, nor the broker's files, nor the registry have a planted value."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from aiokafka import ConsumerRecord

from actors.service.assembly import Assembly
from deploy.toolchain.kafka_broker import KafkaBroker
from deploy.toolchain.mysql_server import MysqlServer
from deploy.toolchain.parts import Parts
from deploy.toolchain.schema_registry import SchemaRegistryServer
from pipeline.config.settings import ConverterKind, SnapshotMode
from tests.integration.kafka.test_kafka_sink import written
from tests.integration.service.test_protection import (
    PLANTED,
    ROWS,
    changed,
    created,
    hashed,
    leaks,
    rules,
    value,
)
from tests.servers.kafka_messages import committed_messages, topics
from tests.servers.kafka_pipeline import sent, to_topics
from tests.servers.schema_registry import AvroReader, asked
from tests.servers.service import running


@dataclass(frozen=True)
class Sent:
    """The messages of both tables' topics, the broker's files, and what else has a planted value."""

    prefix: str
    logins: Sequence[ConsumerRecord]
    people: Sequence[ConsumerRecord]
    kept: Sequence[bytes]
    found: Sequence[str]


async def captured(mysql: MysqlServer, database: str, parts: Parts, folder: Path, **kafka: Any) -> Sent:
    """Two tables with protected columns, by a first snapshot, changes and a second snapshot."""
    assert parts.kafka is not None
    created(mysql, database)
    # Not compressed: a search of the broker's bytes finds what is there.
    with KafkaBroker(parts.kafka, folder / "kafka") as broker:
        settings = to_topics(broker, mysql, folder, database, **kafka)
        settings = replace(
            settings,
            protection=rules(database),
            snapshot=replace(settings.snapshot, mode=SnapshotMode.INITIAL),
        )
        async with running(settings, Assembly) as service:
            await service.completed("initial-0")
            changed(mysql, database)
            await service.execute("s")
            await service.completed("s")
            await service.caught_up(mysql)
            await sent(service)
            await service.stop()
        there = await topics(broker, f"{settings.name}.")
        assert there == [f"{settings.name}.{database}.{table}" for table in ("logins", "people")]
        logins, people = [await committed_messages(broker, topic) for topic in there]
        # While the broker runs, since its data go with it.
        return Sent(settings.name, logins, people, written(broker.data), list(leaks(folder)))


def judge(sent: Sent, key: Callable[[bytes], Any], row: Callable[[bytes], Any]) -> None:
    """No planted value is anywhere; hashed ones are keys and values. `key`, `row`: how these are read."""
    for record in (*sent.logins, *sent.people):
        assert PLANTED not in repr(record)
    keys = {key(record.key)["login"] for record in sent.logins}
    wanted = {hashed(value(each, "login")) for each in (*range(1, ROWS + 1), 1001, 2001)}
    assert keys == wanted
    rows = [row(record.value) for record in sent.people if record.value is not None]
    emails = {each["email"] for each in rows if each is not None}
    assert not any("ssn" in each for each in rows if each is not None), "an excluded column has no name"
    assert {hashed(value(1, "email")), hashed(value(2001, "email")), None} <= emails
    assert any(hashed(value(1, "login")).encode() in content for content in sent.kept), "the search sees rows"
    assert not any(PLANTED.encode() in content for content in sent.kept)
    assert sent.found == []


async def test_no_planted_value_reaches_the_broker(
    mysql: MysqlServer, database: str, parts: Parts, tmp_path: Path
) -> None:
    sent = await captured(mysql, database, parts, tmp_path, schemas_enable=True)
    assert not any(b'"ssn"' in (record.value or b"") for record in sent.people)
    judge(sent, lambda text: json.loads(text)["payload"], lambda text: json.loads(text)["payload"]["after"])


@pytest.mark.full
async def test_no_planted_value_reaches_the_broker_or_the_registry_in_avro(
    mysql: MysqlServer,
    database: str,
    parts: Parts,
    tmp_path: Path,
    schema_registry: SchemaRegistryServer,
) -> None:
    avro = {"converter": ConverterKind.AVRO, "schema_registry_url": schema_registry.url}
    sent = await captured(mysql, database, parts, tmp_path, **avro)
    reader = AvroReader(schema_registry)
    judge(sent, reader.read, lambda message: reader.read(message)["after"])
    subjects = [each for each in await asked(f"{schema_registry.url}/subjects") if sent.prefix in each]
    assert len(subjects) == 4, "a key's and a value's of each table"
    for subject in subjects:
        schema = json.dumps(await asked(f"{schema_registry.url}/subjects/{subject}/versions/latest"))
        assert PLANTED not in schema and "ssn" not in schema
