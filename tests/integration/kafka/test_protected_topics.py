"""Protected columns and topics: neither messages nor the broker's files have one of the planted values."""

import json
from dataclasses import replace
from pathlib import Path

from actors.service.assembly import Assembly
from deploy.toolchain.kafka_broker import KafkaBroker
from deploy.toolchain.mysql_server import MysqlServer
from deploy.toolchain.parts import Parts
from pipeline.config.settings import SnapshotMode
from tests.integration.kafka.test_kafka_sink import sent, to_topics, written
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
from tests.servers.service import running


async def test_no_planted_value_reaches_the_broker(
    mysql: MysqlServer, database: str, parts: Parts, tmp_path: Path
) -> None:
    assert parts.kafka is not None
    created(mysql, database)
    # Not compressed: a search of the broker's bytes finds what is there.
    with KafkaBroker(parts.kafka, tmp_path / "kafka") as broker:
        settings = to_topics(broker, mysql, tmp_path, database, schemas_enable=True)
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
        kept = written(broker.data)
        found = list(leaks(tmp_path))
    for record in logins + people:
        assert PLANTED not in repr(record)
    assert not any(b'"ssn"' in (record.value or b"") for record in people), "an excluded column has no name"
    keys = {json.loads(record.key)["payload"]["login"] for record in logins}
    wanted = {hashed(value(row, "login")) for row in (*range(1, ROWS + 1), 1001, 2001)}
    assert keys == wanted
    emails = {json.loads(r.value)["payload"]["after"]["email"] for r in people if _has_row(r.value)}
    assert {hashed(value(1, "email")), hashed(value(2001, "email")), None} <= emails
    assert any(hashed(value(1, "login")).encode() in content for content in kept), "the search sees rows"
    assert not any(PLANTED.encode() in content for content in kept)
    assert found == []


def _has_row(message: bytes | None) -> bool:
    return message is not None and json.loads(message)["payload"]["after"] is not None
