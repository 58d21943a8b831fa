"""Our messages in Avro beside those of a real Debezium and Confluent's AvroConverter, of the same log."""

import base64
import json
from collections.abc import Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

import pytest

from actors.kafka import batches
from actors.kafka.batches import MessageBatches
from deploy.toolchain.mysql_server import Account, MysqlServer
from deploy.toolchain.parts import Parts
from pipeline.config.message_handling import (
    BinaryHandling,
    DecimalHandling,
    TimePrecision,
    UnsignedBigintHandling,
)
from pipeline.config.outbox import Outbox
from pipeline.config.settings import ConverterKind, KafkaSinkSettings
from pipeline.config.unwrapping import DeleteHandling
from pipeline.schema.table_filter import TableFilter
from pipeline.signals.notifications import Notification, NotificationType
from tests.integration.kafka.test_against_debezium import (
    EVENTS,
    account,
    changes_of_all_kinds,
    flat,
    ours,
    routed,
    server,
)
from tests.servers.debezium_messages import PREFIX, LogStart, Message, debezium_variants, log_end, printed

__all__ = ("account", "server")

NAMES: Final = {"schema.name.adjustment.mode": "avro", "field.name.adjustment.mode": "avro"}
AVRO: Final = {"converter": ConverterKind.AVRO, "schema_registry_url": "http://registry:1"}
# An envelope ends with the times of its making: each a branch and a long, of 6, 8 and 9 bytes. Ours are 0.
TIMES: Final = 26
OUR_TIMES: Final = 6

Variant = tuple[Mapping[str, str], Mapping[str, Any]]


@pytest.fixture(autouse=True)
def version(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let our messages name Debezium's version, whose length shows in them."""
    monkeypatch.setattr(batches, "software_version", lambda: "3.6.3.Final")


def comparable(message: Message, times: int = TIMES) -> tuple[object, ...]:
    """What two messages have to have in common; an envelope's times take so many bytes."""
    headers = tuple(each for each in message.headers if not str(each[0]).startswith("__debezium.context."))
    schema, payload = (None, None) if message.value is None else message.value.split("\n")
    made = base64.b64decode(payload or "")
    if schema is not None and '"name":"Envelope"' in schema:
        made = made[:-times]
    return message.key, schema, made, headers, message.partition


def compare(
    parts: Parts, server: MysqlServer, account: Account, start: LogStart, folder: Path, options: Mapping[str, str],
    variants: Mapping[str, Variant],
) -> dict[str, list[Message]]:  # fmt: skip
    """Hold our messages against Debezium's in each variant, and return Debezium's."""
    server.sql("INSERT INTO marker.end VALUES (1)")
    said = {name: {**transforms, "converter": "avro"} for name, (transforms, _) in variants.items()}
    theirs = debezium_variants(
        parts, server, account, start, "marker.end", folder, {**NAMES, **options}, said
    )
    for name, (_, form) in variants.items():
        theirs[name] = [message for message in theirs[name] if message.topic != f"{PREFIX}.marker.end"]
        if form.get("provide_transaction_metadata"):  # the last one is that of the marker
            assert theirs[name].pop().topic == f"{PREFIX}.transaction"
        found = ours(server, account, start, **AVRO, **form)
        for topic in {message.topic for message in theirs[name]} | found.keys():
            expected = [comparable(each) for each in theirs[name] if each.topic == topic]
            told = [comparable(each, OUR_TIMES) for each in found.get(topic, [])]
            for one, other in zip_longest(told, expected):
                assert one == other, (name, topic)
    return theirs


@pytest.mark.parametrize(
    ("options", "form"),
    [
        ({"provide.transaction.metadata": "true"}, {"provide_transaction_metadata": True}),
        pytest.param(
            {"time.precision.mode": "connect", "decimal.handling.mode": "string",
             "bigint.unsigned.handling.mode": "precise"},
            {"time_precision_mode": TimePrecision.CONNECT, "decimal_handling_mode": DecimalHandling.STRING,
             "bigint_unsigned_handling_mode": UnsignedBigintHandling.PRECISE}, marks=pytest.mark.full),
        ({"time.precision.mode": "isostring", "decimal.handling.mode": "double", "binary.handling.mode": "hex"},
         {"time_precision_mode": TimePrecision.ISOSTRING, "decimal_handling_mode": DecimalHandling.DOUBLE,
          "binary_handling_mode": BinaryHandling.HEX}),
    ],
    ids=["default", "connect", "isostring"],
)  # fmt: skip
def test_messages_are_those_of_debezium_and_avro_converter(
    parts: Parts,
    server: MysqlServer,
    account: Account,
    tmp_path: Path,
    options: dict[str, str],
    form: dict[str, Any],
) -> None:
    start = changes_of_all_kinds(server)
    modes = [flat(mode, add_fields=("op", "source.ts_ms", "gtid")) for mode in (DeleteHandling.REWRITE,)]
    variants: dict[str, Variant] = {"plain": ({}, form)}
    variants |= {f"flat{at}": (said, {**form, **more}) for at, (said, more) in enumerate(modes)}
    theirs = compare(parts, server, account, start, tmp_path, options, variants)
    assert len(theirs["plain"]) > 10


def test_names_that_avro_does_not_have_are_debeziums(
    parts: Parts, server: MysqlServer, account: Account, tmp_path: Path
) -> None:
    server.sql(
        "CREATE TABLE shop.`1-a.ü` (`2 x` INT PRIMARY KEY, `a-b` POLYGON, `é$` ENUM('x','y'), g POLYGON)"
    )
    start = log_end(server)
    server.sql(
        "INSERT INTO shop.`1-a.ü` VALUES (1, NULL, 'y', ST_GeomFromText('POLYGON((0 0,0 1,1 1,0 0))'))"
    )
    compare(parts, server, account, start, tmp_path, {}, {"plain": ({}, {})})


def test_events_of_an_outbox_are_those_of_debezium_and_avro_converter(
    parts: Parts, server: MysqlServer, account: Account, tmp_path: Path
) -> None:
    server.sql(
        "CREATE TABLE shop.outbox (id CHAR(9) PRIMARY KEY, aggregatetype VARCHAR(20) NOT NULL, aggregateid VARCHAR(20),"
        " type VARCHAR(20), payload TEXT, part INT NOT NULL)"
    )
    start = log_end(server)
    for row in EVENTS:
        quoted = ("NULL" if value is None else "'" + str(value).replace("\\", "\\\\") + "'" for value in row)
        server.sql(f"INSERT INTO shop.outbox VALUES ({', '.join(quoted)})")
    tables = TableFilter((r"shop\.outbox",))
    variants: dict[str, Variant] = {
        "plain": (routed(), {"outboxes": (Outbox(tables),)}),
        "tombstones": (
            routed(route__tombstone__on__empty__payload="true"),
            {"outboxes": (Outbox(tables, route_tombstone_on_empty_payload=True),)},
        ),
    }
    compare(parts, server, account, start, tmp_path, {}, variants)


def test_notifications_have_debeziums_schemas(
    parts: Parts, server: MysqlServer, account: Account, tmp_path: Path
) -> None:
    start = log_end(server)
    server.sql("INSERT INTO marker.end VALUES (1)")
    options = {
        "notification.enabled.channels": "sink",
        "notification.sink.topic.name": "notifications",
        "converter.schemas.enable": "true",
    }
    forms: dict[str, dict[str, Any]] = {"json": {"schemas_enable": True}, "avro": AVRO}
    said = {name: {"converter": name} for name in forms}
    found = debezium_variants(parts, server, account, start, "marker.end", tmp_path, options, said)
    for name, form in forms.items():
        theirs = next(each for each in found[name] if each.topic == "notifications")
        settings = KafkaSinkSettings(
            ("kafka:1",), PREFIX, notification_sink_topic_name="notifications", **form
        )
        notices = (Notification("n", NotificationType.STARTED, data={"data_collections": "shop.a"}),)
        keys, values = printed(MessageBatches(settings).notifications(notices, 0))
        for one, other in ((keys[0], theirs.key), (values[0], theirs.value)):
            assert one is not None and other is not None
            if name == "avro":
                assert one.split("\n")[0] == other.split("\n")[0]
            else:
                assert json.loads(one)["schema"] == json.loads(other)["schema"]
                assert json.loads(one)["payload"].keys() == json.loads(other)["payload"].keys()
