"""The service with topics on a broker that is spoken to by TLS, wants a password and has rights for each thing."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from actors.kafka.producer import KafkaProducer
from actors.kafka.topics import KafkaTopics
from actors.service.assembly import Assembly
from deploy.toolchain.mysql_server import MysqlServer
from deploy.toolchain.parts import Parts
from pipeline.config.settings import KafkaSecurity, KafkaSinkSettings, Secret
from pipeline.errors import Definite
from pipeline.kafka import step
from pipeline.kafka.errors import KafkaRefused, TopicRefusal
from pipeline.messages.topology import ActorName as Name
from tests.actors.kafka.test_producer import batch, producing, topic_of
from tests.servers.kafka_pipeline import judged, to_topics
from tests.servers.secured_kafka import Named, Resource, Right, SecuredBroker
from tests.servers.service import running


@dataclass(frozen=True)
class Plain:
    """A broker as its administrator sees it."""

    address: str


def settings(broker: SecuredBroker, **more: Any) -> KafkaSinkSettings:
    return KafkaSinkSettings((broker.address,), "p", **{**broker.login, **more})


async def test_tls_alone(parts: Parts, tmp_path: Path) -> None:
    assert parts.kafka is not None
    with SecuredBroker(parts.kafka, tmp_path, KafkaSecurity.SSL) as broker:
        assert await KafkaTopics(settings(broker), "p").partitions("p.t") == 1
        with pytest.raises(Definite, match=r"certificate isn't to be trusted .*in kafka\.ca"):
            await KafkaTopics(settings(broker, ca=None), "p").partitions("p.t")


async def test_each_right_that_is_missing_is_named(
    parts: Parts, open_shop: MysqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step, "AGAIN_AFTER_S", 0.5)
    assert parts.kafka is not None
    with SecuredBroker(parts.kafka, tmp_path / "broker", KafkaSecurity.SASL_SSL) as broker:
        with pytest.raises(Definite, match=r"the broker doesn't let us in .*see to kafka\.sasl_username"):
            await KafkaTopics(settings(broker, sasl_password=Secret("wrong")), "p").position_topic()
        with pytest.raises(KafkaRefused, match=r"tidemark-position-p: the account may not .*allow it to"):
            await KafkaTopics(settings(broker), "p").position_topic()
        producer = KafkaProducer(settings(broker), "p")
        with pytest.raises(KafkaRefused, match=r"may not use our transactional id .*allow it to Write and"):
            await producer.start()
        await producer.close()
        own = replace(to_topics(broker, open_shop, tmp_path / "own", topic_prefix="p"), name="p")
        own = replace(own, kafka=settings(broker))
        await broker.allow(
            Resource.TRANSACTIONAL_ID, "tidemark-p", Named.LITERAL, Right.WRITE, Right.DESCRIBE
        )
        position = "tidemark-position-p"
        await broker.allow(
            Resource.TOPIC, position, Named.LITERAL, Right.WRITE, Right.DESCRIBE, Right.CREATE, Right.READ
        )
        async with running(own, Assembly) as service:
            await service.begun()
            open_shop.sql("UPDATE shop.orders SET total = total + 1 WHERE id < 20")
            await service.caught_up(open_shop)
            asides = await service.until(
                lambda: service.status(Name.KAFKA_SINK).get("set_aside"), "the topic is set aside"
            )
            assert asides is not None and [*asides] == ["p.shop.orders"]
            assert "may not" in asides["p.shop.orders"] and "allow it to" in asides["p.shop.orders"]
            await broker.allow(
                Resource.TOPIC, "p.", Named.PREFIXED, Right.DESCRIBE, Right.CREATE, Right.WRITE
            )
            await service.until(
                lambda: not service.status(Name.KAFKA_SINK).get("set_aside"), "the topic takes its messages"
            )
            await service.execute("s")
            await service.completed("s")
            await service.caught_up(open_shop)
            await service.stop()
        await judged(Plain(broker.plain), own, open_shop)  # type: ignore[arg-type]


async def test_a_topic_without_a_right_is_named_whichever_batch_is_first(
    parts: Parts, tmp_path: Path
) -> None:
    """The broker takes none of the partitions that it is asked for together. The other topic's batch fails too."""
    assert parts.kafka is not None
    with SecuredBroker(parts.kafka, tmp_path, KafkaSecurity.SASL_SSL) as broker:
        of = settings(broker)
        await broker.allow(
            Resource.TRANSACTIONAL_ID, "tidemark-p", Named.LITERAL, Right.WRITE, Right.DESCRIBE
        )
        await broker.allow(Resource.TOPIC, "p.", Named.PREFIXED, Right.DESCRIBE, Right.CREATE)
        await broker.allow(Resource.TOPIC, "p.allowed", Named.LITERAL, Right.WRITE)
        allowed, denied = [await topic_of(of, name) for name in ("allowed", "denied")]
        refused = pytest.raises(TopicRefusal, match=r"p\.denied: the account may not write")
        for order in ((allowed, denied), (denied, allowed)):
            async with producing(of) as producer:
                for topic in order:
                    await producer.opened(topic, 1)
                await producer.begin()
                # Nothing is asked of the broker between these, so one request has both.
                for topic in order:
                    await producer.send(batch(topic, b"v"))
                with refused:
                    await producer.commit()
                with refused:
                    await producer.send(batch(allowed, b"v"))
                with refused:
                    await producer.commit()
