"""`tidemark check` finds at a real broker what the sink would meet there, and creates nothing."""

import uuid
from pathlib import Path
from typing import Any

from actors.kafka.broker_check import check_topics
from deploy.toolchain.kafka_broker import KafkaBroker
from deploy.toolchain.parts import Parts
from pipeline.config.settings import KafkaSecurity, KafkaSinkSettings, Secret
from pipeline.source.finding import Severity
from tests.servers.kafka import appeared, create_topic
from tests.servers.kafka_messages import topics
from tests.servers.secured_kafka import Named, Resource, Right, SecuredBroker


def settings(broker: KafkaBroker, **more: Any) -> KafkaSinkSettings:
    return KafkaSinkSettings((broker.address,), f"p{uuid.uuid4().hex[:8]}", **more)


async def created(broker: KafkaBroker, topic: str, partitions: int, **config: str) -> None:
    await create_topic(broker, topic, partitions, config)
    await appeared(broker, topic)


async def wrongs(of: KafkaSinkSettings) -> list[str]:
    return [
        f"{each.severity}: {each.wrong}; {each.remedy}" for each in await check_topics(of, of.topic_prefix)
    ]


async def test_a_broker_that_has_nothing_yet_is_fine_and_stays_so(kafka: KafkaBroker) -> None:
    of = settings(kafka, partitions=3)
    assert await wrongs(of) == []
    assert await topics(kafka, of.topic_prefix) == []
    assert await topics(kafka, f"tidemark-position-{of.topic_prefix}") == []


async def test_the_topics_that_are_there(kafka: KafkaBroker) -> None:
    of = settings(kafka)
    position = f"tidemark-position-{of.topic_prefix}"
    await created(kafka, position, 1, **{"cleanup.policy": "delete"})
    [plain] = await check_topics(of, of.topic_prefix)
    assert (
        plain.wrong == f"the position topic {position} isn't compacted: the broker will remove the position"
    )
    other = settings(kafka)
    await created(kafka, f"tidemark-position-{other.topic_prefix}", 2)
    await created(kafka, f"{other.topic_prefix}.shop.orders", 5)
    several, differing = await check_topics(other, other.topic_prefix)
    assert several.severity is Severity.ERROR and "has 2 partitions" in several.wrong
    assert differing.severity is Severity.WARNING and "shop.orders has 5 partitions" in differing.wrong


async def test_a_topic_that_the_broker_would_not_create(kafka: KafkaBroker) -> None:
    position, of_tables = await wrongs(settings(kafka, replication=7))
    assert "see to kafka.partitions and kafka.replication" in position and "kafka.replication" in of_tables
    [refused] = await wrongs(settings(kafka, topic_config={"cleanup.policy": "never"}))
    assert "see to kafka.topic_config" in refused
    [missing] = await wrongs(settings(kafka, create_topics=False))
    assert "there's no such topic; create it, compacted" in missing


async def test_the_topics_that_settings_name(kafka: KafkaBroker) -> None:
    told = f"told-{uuid.uuid4().hex[:8]}"
    named = {
        "include_schema_changes": True,
        "notification_sink_topic_name": told,
        "provide_transaction_metadata": True,
        "heartbeat_interval_ms": 1000,
    }
    assert await wrongs(settings(kafka, **named)) == []
    found = await wrongs(settings(kafka, replication=7, **named))
    assert len(found) == 6 and all("kafka.replication" in each for each in found)
    of = settings(kafka, create_topics=False, **named)
    await created(kafka, f"tidemark-position-{of.topic_prefix}", 1, **{"cleanup.policy": "compact"})
    await created(kafka, f"__debezium-heartbeat.{of.topic_prefix}", 1)
    assert [each.wrong for each in await check_topics(of, of.topic_prefix)] == [
        f"{topic}: there's no such topic"
        for topic in (f"{of.topic_prefix}.transaction", of.topic_prefix, told)
    ]


async def test_a_broker_that_is_not_there() -> None:
    [gone] = await check_topics(KafkaSinkSettings(("127.0.0.1:1",), "p"), "p")
    assert gone.severity is Severity.ERROR and "the broker at 127.0.0.1:1" in gone.wrong


async def test_logins_and_rights(parts: Parts, tmp_path: Path) -> None:
    assert parts.kafka is not None
    with SecuredBroker(parts.kafka, tmp_path, KafkaSecurity.SASL_SSL) as broker:
        of = KafkaSinkSettings((broker.address,), "p", **broker.login)  # type: ignore[arg-type]
        found = await wrongs(of)
        assert len(found) == 3 and "transactional id" in found[2], found
        assert all("allow it to" in each for each in found), found
        login = {**broker.login, "sasl_password": Secret("wrong")}
        [refused] = await wrongs(KafkaSinkSettings((broker.address,), "p", **login))  # type: ignore[arg-type]
        assert "doesn't let us in" in refused and "kafka.sasl_password_file" in refused
        rights = (Right.WRITE, Right.DESCRIBE, Right.CREATE, Right.READ)
        await broker.allow(Resource.TOPIC, "tidemark-position-p", Named.LITERAL, *rights)
        await broker.allow(Resource.TOPIC, "p.", Named.PREFIXED, *rights)
        await broker.allow(
            Resource.TRANSACTIONAL_ID, "tidemark-p", Named.LITERAL, Right.WRITE, Right.DESCRIBE
        )
        assert await wrongs(of) == []
