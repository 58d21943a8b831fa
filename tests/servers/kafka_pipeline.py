"""A pipeline into a broker's topics: its settings, when the topics have all, and whether that is right."""

import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

from deploy.toolchain.kafka_broker import KafkaBroker
from deploy.toolchain.mysql_server import MysqlServer
from pipeline.config.settings import KafkaSinkSettings, Settings
from pipeline.messages.topology import ActorName as Name
from tests.servers.awaiting import WITHIN_S
from tests.servers.kafka_messages import Judge, committed_messages
from tests.servers.service import Running, pipeline
from tests.servers.shop import TABLES


def to_topics(
    broker: KafkaBroker, server: MysqlServer, folder: Path, database: str = "shop", **kafka: Any
) -> Settings:
    """A pipeline into topics alone, with a prefix of its own."""
    prefix = kafka.pop("topic_prefix", f"p{uuid.uuid4().hex[:8]}")
    sink = KafkaSinkSettings((broker.address,), prefix, **kafka)
    return replace(pipeline(server, folder, database), lake=None, kafka=sink, name=prefix)


async def sent(service: Running, within_s: float = WITHIN_S) -> None:
    """Until the topics have all that has passed by now."""
    last = await service.sealed()
    await service.until(
        lambda: service.status(Name.KAFKA_SINK).get("segment", -1) >= last, "the topics have it", within_s
    )


async def judged(broker: KafkaBroker, settings: Settings, server: MysqlServer) -> dict[str, Judge]:
    """Each topic of the shop, which has each change once and in order, and whose rows are the server's."""
    assert settings.kafka is not None
    found = {}
    for table in TABLES:
        topic = f"{settings.kafka.topic_prefix}.{table}"
        judge = found[topic] = Judge().judge(await committed_messages(broker, topic))
        assert judge.faults == []
        ((rows,),) = server.sql(f"SELECT COUNT(*) FROM {table}")
        assert sum(row is not None for row in judge.rows.values()) == rows
    return found
