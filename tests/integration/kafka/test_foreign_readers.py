"""Foreign readers of our messages: Kafka Connect's JsonConverter, Debezium's transformations, and Spark."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark.sql import functions as f

from actors.lake.spark.spark_session import Spark
from deploy.toolchain.mysql_server import Account, MysqlServer
from deploy.toolchain.parts import Parts
from pipeline.config.message_handling import DecimalHandling
from pipeline.config.outbox import Outbox
from pipeline.config.unwrapping import DeleteHandling, Unwrap
from pipeline.schema.table_filter import TableFilter
from tests.integration.kafka.test_against_debezium import (
    account,
    changes_of_all_kinds,
    comparable,
    ours,
    server,
)
from tests.servers.debezium_messages import LogStart, Message, log_end, read_again

__all__ = ["account", "server"]


def plain(message: Message) -> Message:
    """A message without what a reader doesn't keep."""
    return replace(comparable(message), partition=None, at_ms=None)


def flattened(messages: Mapping[str, list[Message]]) -> list[Message]:
    """All messages, topic by topic."""
    return [message for topic in sorted(messages) for message in messages[topic]]


def read_equals(
    parts: Parts, server: MysqlServer, account: Account, start: LogStart, folder: Path,
    transformation: Mapping[str, str], written: Mapping[str, Any],
) -> list[Message]:  # fmt: skip
    """What a transformation makes of our envelopes, which has to be what we write with these settings."""
    whole = flattened(ours(server, account, start, schemas_enable=True))
    read = read_again(parts, whole, folder, transformation)
    topics: dict[str, list[Message]] = {}
    for message in read:
        topics.setdefault(message.topic, []).append(message)
    expected = flattened(ours(server, account, start, schemas_enable=True, **written))
    assert [*map(plain, flattened(topics))] == [*map(plain, expected)]
    return read


def test_connects_json_converter_reads_what_it_would_write(
    parts: Parts, server: MysqlServer, account: Account, tmp_path: Path
) -> None:
    start = changes_of_all_kinds(server)
    assert len(read_equals(parts, server, account, start, tmp_path, {}, {})) > 15


def test_debeziums_transformation_makes_our_envelopes_flat_as_we_do(
    parts: Parts, server: MysqlServer, account: Account, tmp_path: Path
) -> None:
    start = changes_of_all_kinds(server)
    transformation = {
        "type": "io.debezium.transforms.ExtractNewRecordState",
        "delete.tombstone.handling.mode": "rewrite-with-tombstone",
        "add.fields": "op,source.ts_ms",
    }
    unwrap = Unwrap(DeleteHandling.REWRITE_WITH_TOMBSTONE, ("op", "source.ts_ms"))
    read = read_equals(parts, server, account, start, tmp_path, transformation, {"unwrap": unwrap})
    assert any('"__deleted":"true"' in (message.value or "") for message in read)


def test_debeziums_router_makes_events_of_our_envelopes_as_we_do(
    parts: Parts, server: MysqlServer, account: Account, tmp_path: Path
) -> None:
    server.sql(
        "CREATE TABLE shop.outbox (id CHAR(9) PRIMARY KEY, aggregatetype VARCHAR(20) NOT NULL, "
        "aggregateid VARCHAR(20), type VARCHAR(20), payload TEXT)"
    )
    start = log_end(server)
    server.sql(
        "INSERT INTO shop.outbox VALUES ('1', 'Order', '7', 'Created', '{\"a\": 1}')",
        "INSERT INTO shop.outbox VALUES ('2', 'Order', '8', 'Gone', NULL)",
        "DELETE FROM shop.outbox",
    )
    placement = "type:header:eventType"
    transformation = {
        "type": "io.debezium.transforms.outbox.EventRouter",
        "table.fields.additional.placement": placement,
    }
    box = Outbox(TableFilter((r"shop\.outbox",)), table_fields_additional_placement=(placement,))
    read = read_equals(parts, server, account, start, tmp_path, transformation, {"outboxes": (box,)})
    assert [message.topic for message in read] == ["outbox.event.Order"] * 2


def test_sparks_from_json_reads_rows(spark: Spark, server: MysqlServer, account: Account) -> None:
    server.sql(
        "CREATE TABLE shop.read (id INT PRIMARY KEY, big BIGINT, name VARCHAR(50), price DECIMAL(10,2),"
        " real_ DOUBLE, at DATETIME(3), doc JSON, bytes VARBINARY(9))"
    )
    start = log_end(server)
    server.sql(
        "INSERT INTO shop.read VALUES (1, -9223372036854775808, 'ü \"q\" 😀', 12345678.91, 1e-7,"
        " '2024-02-29 12:34:56.789', '{\"a\": [1]}', x'00ff'), (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
        "UPDATE shop.read SET name = 'b' WHERE id = 2",
        "DELETE FROM shop.read WHERE id = 1",
    )
    [messages] = ours(server, account, start, decimal_handling_mode=DecimalHandling.STRING).values()
    columns = (
        "id INT, big BIGINT, name STRING, price STRING, real_ DOUBLE, at BIGINT, doc STRING, bytes BINARY"
    )
    row = f"STRUCT<{columns}>"
    schema = f"before {row}, after {row}, op STRING, source STRUCT<gtid STRING>"
    frame = spark.session.createDataFrame([(message.value,) for message in messages], "value STRING")
    parsed = f.from_json("value", schema, {"mode": "FAILFAST"}).alias("message")
    read = [each.message for each in frame.select(parsed).collect()]
    assert [each and each.op for each in read] == ["c", "c", "u", "d", None]
    first = read[0].after
    assert (first.id, first.big, first.name, first.price) == (1, -(2**63), 'ü "q" 😀', "12345678.91")
    assert (first.real_, first.at, json.loads(first.doc)) == (1e-7, 1709210096789, {"a": [1]})
    assert first.bytes == b"\x00\xff" and read[3].before == first
    assert read[2].before == read[1].after and read[2].after.name == "b" and read[2].after.price is None
    assert len({each.source.gtid for each in read[:4]}) == 3
