"""A real Debezium stops or dies, and Tidemark continues its topics with what `import-debezium` makes of its JSON."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
from aiokafka import ConsumerRecord
from click.testing import CliRunner

from actors.service.assembly import Assembly
from actors.service.cli import main
from actors.service.config_file import load
from deploy.demo.writer import Line
from deploy.toolchain.kafka_broker import KafkaBroker
from deploy.toolchain.mysql_server import Account, MysqlServer
from deploy.toolchain.parts import Parts
from pipeline.messages.topology import ActorName as Name
from tests.servers.debezium_topics import running_debezium
from tests.servers.kafka import create_topic
from tests.servers.kafka_console import consumed
from tests.servers.kafka_messages import Judge, committed_messages
from tests.servers.service import Running, running
from tests.servers.shop import FEW_PER_S, TABLES, writing

_OFFSETS: Final = "offset.storage.file.filename"
_KEYS: Final = {"orders": ("id",), "order_items": ("order_id", "line"), "customers": ("name",)}
_MADE: Final = re.compile(rb'"ts_(ms|us|ns)": ?\d+,? ?|"version": ?"[^"]*"')
_BEFORE: Final = 500


def connector(server: MysqlServer, account: Account, broker: KafkaBroker, prefix: str) -> dict[str, str]:
    """A connector's properties, as they are sent to Kafka Connect."""
    return {
        "connector.class": "io.debezium.connector.mysql.MySqlConnector",
        "topic.prefix": prefix,
        "database.hostname": server.host,
        "database.port": str(server.port),
        "database.user": account.user,
        "database.password": account.password,
        "database.server.id": "4712",
        "database.ssl.mode": "disabled",
        "driver.allowPublicKeyRetrieval": "true",
        "table.include.list": "shop.orders,shop.order_items,shop.customers,shop.hello",
        "snapshot.mode": "no_data",
        "snapshot.locking.mode": "none",
        "schema.history.internal.kafka.bootstrap.servers": broker.address,
        "schema.history.internal.kafka.topic": "history",
        "include.schema.changes": "false",
        "provide.transaction.metadata": "true",
        "decimal.handling.mode": "string",
        "time.precision.mode": "connect",
        "column.mask.hash.v2.SHA-256.with.salt.pepper": "shop.customers.email",
        "column.truncate.to.5.chars": "shop.orders.note",
        "column.exclude.list": "shop.orders.weight",
        "key.converter": "org.apache.kafka.connect.json.JsonConverter",
        "key.converter.schemas.enable": "false",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        # Each message is a batch, after which the offset is stored: what comes twice is of one transaction.
        "max.batch.size": "1",
        "max.queue.size": "2",
        "offset.flush.interval.ms": "0",
    }


def imported(folder: Path, given: Mapping[str, str], offsets: Path) -> Path:
    """The configuration that `import-debezium` prints, with what it leaves to do done."""
    (folder / "connector.json").write_text(json.dumps({"name": "connector", "config": given}))
    arguments = ["import-debezium", "--offsets", str(offsets), str(folder / "connector.json")]
    told = CliRunner().invoke(main, arguments)
    assert told.exit_code == 0, told.stderr
    (folder / "mysql-password").write_text(given["database.password"])
    (folder / "kafka-salt-1").write_text("pepper")
    text = told.stdout.replace("/run/secrets", str(folder)).replace("/var/lib/tidemark", str(folder))
    (folder / "tidemark.toml").write_text(text)
    assert "pepper" not in text and "[lake]" not in text
    return folder / "tidemark.toml"


@pytest.mark.parametrize("killed", [pytest.param(False, marks=pytest.mark.full), True])
async def test_a_debezium_is_continued_on_its_topics(
    parts: Parts, open_shop: MysqlServer, kafka: KafkaBroker, tmp_path: Path, killed: bool
) -> None:
    prefix = f"debezium-{'killed' if killed else 'stopped'}"
    account = open_shop.create_capture_user("shop")
    open_shop.sql("CREATE TABLE shop.hello (id INT AUTO_INCREMENT PRIMARY KEY)")
    topics = [f"{prefix}.{table}" for table in TABLES]
    for topic in topics:
        await create_topic(kafka, topic, 3)
    for topic in (f"{prefix}.shop.hello", f"{prefix}.transaction", f"{prefix}-offsets"):
        await create_topic(kafka, topic, config={"cleanup.policy": "compact"} if "offsets" in topic else None)
    given = connector(open_shop, account, kafka, prefix)
    kept = stored_in_topic(kafka, f"{prefix}-offsets") if killed else stored_in_file(tmp_path / "offsets")
    with running_debezium(parts, kafka, given | kept, tmp_path) as debezium:
        while not debezium.has_sent(1, within_s=0.5):
            open_shop.sql("INSERT INTO shop.hello VALUES ()")
        with writing(open_shop, FEW_PER_S) as tally:
            debezium.wait(debezium.sent + _BEFORE)
            if killed:
                debezium.kill()
            else:
                debezium.stop()
            first = {topic: await read(kafka, topic) for topic in topics}
            offsets = tmp_path / "offsets"
            if killed:
                stored = await committed_messages(kafka, f"{prefix}-offsets")
                printed = consumed(kafka, f"{prefix}-offsets", len(stored), tmp_path)
                offsets.write_text("\n".join(printed))
            settings = load(imported(tmp_path, given, offsets), {})
            assert settings.source.begin_after and settings.lake is None
            async with running(settings, Assembly) as service:
                await service.begun()
                await caught_up(service, open_shop)
        async with running(settings, Assembly) as service:
            await caught_up(service, open_shop)
            await service.stop()
    overlaps = set[str]()
    union: dict[str, list[ConsumerRecord]] = {}
    for topic in topics:
        assert Judge().judge(first[topic]).faults == [], "Debezium's own"
        union[topic], twice = joined(await read(kafka, topic), first[topic])
        overlaps |= twice
        judge = Judge().judge(union[topic])
        assert judge.faults == []
        places: dict[bytes, int] = {}
        assert all(places.setdefault(each.key, each.partition) == each.partition for each in union[topic])
    assert len(overlaps) <= 1
    assert changes(union) == expected(tally)


async def caught_up(service: Running, server: MysqlServer) -> None:
    """Until the topics have all that the server has executed."""
    await service.caught_up(server)
    last = service.status(Name.JOURNAL_WRITER)["segment"]
    await service.until(
        lambda: service.status(Name.KAFKA_SINK).get("segment", -1) >= last, "the topics have it"
    )


async def read(broker: KafkaBroker, topic: str) -> list[ConsumerRecord]:
    """A topic's messages. It has documents as Python writes them, since Debezium writes them without spaces."""
    return [*map(with_plain_document, await committed_messages(broker, topic))]


def with_plain_document(message: ConsumerRecord) -> ConsumerRecord:
    """A message whose column `details` has the spaces that Python writes."""
    if message.value is None:
        return message
    value = json.loads(message.value)
    for row in (value["before"], value["after"]):
        if row is not None and row.get("details") is not None:
            row["details"] = json.dumps(json.loads(row["details"]))
    return replace(message, value=json.dumps(value).encode())


def stored_in_file(path: Path) -> dict[str, str]:
    """Connect's properties for offsets in a file."""
    return {"offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore", _OFFSETS: str(path)}


def stored_in_topic(broker: KafkaBroker, topic: str) -> dict[str, str]:
    """Connect's properties for offsets in its topic."""
    return {
        "offset.storage": "org.apache.kafka.connect.storage.KafkaOffsetBackingStore",
        "offset.storage.topic": topic,
        "offset.storage.partitions": "1",
        "offset.storage.replication.factor": "1",
        "bootstrap.servers": broker.address,
    }


def joined(
    whole: Iterable[ConsumerRecord], first: Iterable[ConsumerRecord]
) -> tuple[list[ConsumerRecord], set[str]]:
    """A topic's messages without those of Tidemark's that Debezium had sent, and the transactions of these.

    `first`: Debezium's. Those that came again have to be equal, and the last ones of their partition.
    """
    old: dict[int, list[ConsumerRecord]] = {}
    for each in first:
        old.setdefault(each.partition, []).append(each)
    new: dict[int, list[ConsumerRecord]] = {}
    for each in whole:
        new.setdefault(each.partition, []).append(each)
    found, twice = [], set[str]()
    for partition, messages in sorted(new.items()):
        theirs = old.get(partition, [])
        ours = messages[len(theirs) :]
        again = next(
            (n for n in range(min(len(theirs), len(ours)), 0, -1)
             if [*map(said, theirs[-n:])] == [*map(said, ours[:n])]), 0,
        )  # fmt: skip
        twice |= {json.loads(each.value)["source"]["gtid"] for each in ours[:again] if each.value}
        found += theirs + ours[again:]
    return found, twice


def said(message: ConsumerRecord) -> tuple[bytes, bytes | None]:
    """A message without what's of its making."""
    return message.key, message.value and _MADE.sub(b"", message.value)


def changes(topics: Mapping[str, Iterable[ConsumerRecord]]) -> Counter[tuple[str, bool, str, int, int]]:
    """Each change: table, whether it's a delete, key, version and number."""
    found: Counter[tuple[str, bool, str, int, int]] = Counter()
    for messages in topics.values():
        for message in messages:
            if message.value is not None:
                value = json.loads(message.value)
                row, table = value["after"] or value["before"], value["source"]["table"]
                key = "|".join(str(row[column]) for column in _KEYS[table])
                found[table, value["after"] is None, key, row["version"], row["op_no"]] += 1
    return found


def expected(tally: Iterable[Line]) -> Counter[tuple[str, bool, str, int, int]]:
    """The changes that the writer has committed."""
    return Counter((table, op == "d", key, version, op_no) for table, op, key, version, op_no in tally)
