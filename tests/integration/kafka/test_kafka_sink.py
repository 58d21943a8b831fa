"""The service with topics and without a lake, on a real source and a real broker."""

import json
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from actors.service.assembly import Assembly
from deploy.toolchain.kafka_broker import KafkaBroker
from deploy.toolchain.mysql_server import MysqlServer
from pipeline.config.settings import KafkaSinkSettings, Settings
from pipeline.messages.topology import ActorName as Name
from tests.servers.kafka_messages import Judge, committed_messages, topics
from tests.servers.service import Running, pipeline, running
from tests.servers.shop import TABLES, writing


def to_topics(
    broker: KafkaBroker, server: MysqlServer, folder: Path, database: str = "shop", **kafka: Any
) -> Settings:
    """A pipeline into topics alone, with a prefix of its own."""
    prefix = kafka.pop("topic_prefix", f"p{uuid.uuid4().hex[:8]}")
    sink = KafkaSinkSettings((broker.address,), prefix, **kafka)
    return replace(pipeline(server, folder, database), lake=None, kafka=sink, name=prefix)


async def sent(service: Running) -> None:
    """Until the topics have all that's sealed now."""
    last = service.status(Name.JOURNAL_WRITER)["segment"]
    await service.until(
        lambda: service.status(Name.KAFKA_SINK).get("segment", -1) >= last, "the topics have it"
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


async def test_each_change_is_once_in_its_topic_and_a_snapshot_between(
    open_shop: MysqlServer, kafka: KafkaBroker, tmp_path: Path
) -> None:
    settings = to_topics(kafka, open_shop, tmp_path, partitions=3)
    async with running(settings, Assembly) as service:
        await service.begun()
        with writing(open_shop):
            await service.execute("s1")
            await service.completed("s1")
        await service.execute("s2")
        await service.completed("s2")
        await service.caught_up(open_shop)
        await service.stop()
    judges = await judged(kafka, settings, open_shop)
    assert all(judge.read and judge.changes for judge in judges.values())
    assert settings.kafka is not None
    records = await committed_messages(kafka, f"{settings.kafka.topic_prefix}.shop.orders")
    assert {record.partition for record in records} == {0, 1, 2}
    kinds = {json.loads(record.value)["source"]["snapshot"] for record in records if record.value}
    assert kinds == {"false", "incremental"}
    assert await topics(kafka, f"{settings.kafka.topic_prefix}.") == sorted(judges)


@pytest.mark.parametrize("rows", [1, 7])
async def test_a_transaction_that_is_too_large_is_split(
    open_shop: MysqlServer, kafka: KafkaBroker, tmp_path: Path, rows: int
) -> None:
    settings = to_topics(kafka, open_shop, tmp_path, transaction_rows=rows)
    async with running(settings, Assembly) as service:
        await service.begun()
        values = ", ".join(f"({number}, 0)" for number in range(40))
        open_shop.sql(
            "CREATE TABLE shop.many (id INT PRIMARY KEY, v INT)", f"INSERT INTO shop.many VALUES {values}"
        )
        open_shop.sql("UPDATE shop.many SET v = 1", "UPDATE shop.many SET id = id + 100 WHERE id < 9")
        await service.caught_up(open_shop)
        await service.stop()
    assert settings.kafka is not None
    records = await committed_messages(kafka, f"{settings.kafka.topic_prefix}.shop.many")
    assert Judge().judge(records).faults == []
    assert len(records) == 40 + 40 + 3 * 9
