"""A connector's options of messages become a section `[kafka]` that the service takes."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from actors.service.config_file import load
from actors.service.debezium_file import properties
from pipeline.config.column_rules import ColumnRule, HashAlgorithm
from pipeline.config.debezium.connector import take_over
from pipeline.config.debezium.conversion import NoteKind, NotTakenOver
from pipeline.config.secret import Secret
from pipeline.config.settings import SaslMechanism
from pipeline.config.unwrapping import DeleteHandling, Unwrap
from tests.pipeline.config.debezium.connectors import CONNECTORS, LEAST

JSON = "org.apache.kafka.connect.json.JsonConverter"


def kafka(more: dict[str, str]) -> dict[str, Any]:
    """The section `[kafka]` for a connector with these options."""
    section: dict[str, Any] = tomllib.loads(take_over(LEAST | more).text)["kafka"]
    return section


def test_what_comes_out_is_taken_by_the_service(tmp_path: Path) -> None:
    text = (CONNECTORS / "topics.toml").read_text().replace("/run/secrets", str(tmp_path))
    for name in re.findall(rf"{tmp_path}/([\w-]+)", text):
        (tmp_path / name).write_text(name)
    (tmp_path / "hr.toml").write_text(text)
    settings = load(tmp_path / "hr.toml", {})
    assert settings.lake is None and settings.kafka is not None
    sink = settings.kafka
    assert (sink.sasl_mechanism, sink.sasl_username) == (SaslMechanism.PLAIN, "tidemark")
    email = (r"hr.employees.email", r"hr.employees.mail\d{1,2}")
    assert sink.columns[2] == ColumnRule(
        email, hash=HashAlgorithm.SHA_256, salt=Secret("kafka-salt-1", tmp_path / "kafka-salt-1")
    )
    assert sink.columns[3].hash_version == 1
    assert [(key.tables.patterns, key.columns) for key in sink.message_keys] == [
        (("(?i)hr.employees",), ("id", "country")),
        (("(?i)hr.(.*)_log",), ("at",)),
    ]
    assert sink.topic_config == {"cleanup.policy": "compact"}
    assert sink.unwrap == Unwrap(
        DeleteHandling.REWRITE_WITH_TOMBSTONE, ("op", "source.ts_ms:at"), "", ("db",), "__"
    )
    assert sink.outboxes[0].placed and not sink.topic_routes[0].key_enforce_uniqueness


@pytest.mark.parametrize(("given", "ours"), [(None, True), ("true", True), ("false", None)])
def test_there_is_a_topic_of_schema_changes_as_the_connector_has_one(
    given: str | None, ours: bool | None
) -> None:
    found = kafka({} if given is None else {"include.schema.changes": given})
    assert found.get("include_schema_changes") is ours


def test_no_secret_is_written() -> None:
    taken = take_over(properties(CONNECTORS / "topics.json"))
    assert "canary" not in taken.text and "canary" not in taken.report()


@pytest.mark.parametrize(
    ("given", "schemas"),
    [
        ({}, None),
        ({"value.converter": JSON}, True),
        ({"key.converter": JSON, "value.converter": JSON, "value.converter.schemas.enable": "false"}, False),
        ({"value.converter.schemas.enable": "false"}, False),
        ({"value.converter": "io.apicurio.registry.utils.converter.AvroConverter"}, None),
    ],
)
def test_schemas_are_in_messages_as_the_values_converter_says(
    given: dict[str, str], schemas: bool | None
) -> None:
    assert kafka(given).get("schemas_enable") is schemas


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"value.converter": JSON, "key.converter.schemas.enable": "false"}, "key.converter.schemas.enable"),
        ({"value.converter": "org.apache.kafka.connect.storage.StringConverter"}, "value.converter"),
        ({"topic.naming.strategy": "com.example.Own"}, "topic.naming.strategy"),
        ({"topic.delimiter": "/"}, "topic.delimiter"),
        ({"topic.heartbeat.name": "beats"}, "topic.heartbeat.name"),
        ({"include.schema.changes": "maybe"}, "include.schema.changes"),
        ({"tombstones.on.delete": "maybe"}, "tombstones.on.delete"),
        ({"producer.override.sasl.mechanism": "GSSAPI"}, "producer.override.sasl.mechanism"),
        ({"producer.override.acks": "1"}, "producer.override.acks"),
        ({"topic.creation.groups": "a"}, "topic.creation.groups"),
    ],
)  # fmt: skip
def test_what_cannot_be_taken_over_is_named(given: dict[str, str], told: str) -> None:
    notes = take_over(LEAST | {"include.schema.changes": "false"} | given).notes
    assert [note.name for note in notes if note.kind is NoteKind.OTHERWISE and note.name == told] == [told]


def test_brokers_are_those_that_the_connector_names() -> None:
    history = {"schema.history.internal.kafka.bootstrap.servers": "h:1"}
    signals = {"signal.enabled.channels": "kafka", "signal.kafka.bootstrap.servers": "s:1, s:2"}
    own = {"producer.override.bootstrap.servers": "p:1"}
    assert kafka(history | signals | own)["bootstrap_servers"] == ["p:1"]
    assert kafka(history | signals)["bootstrap_servers"] == ["h:1"]
    assert kafka(signals)["bootstrap_servers"] == ["s:1", "s:2"]
    assert "bootstrap_servers" not in kafka({})


def test_the_brokers_default_is_no_number_of_ours() -> None:
    default = {f"topic.creation.default.{name}": "-1" for name in ("partitions", "replication.factor")}
    assert kafka(default).keys().isdisjoint({"partitions", "replication"})


@pytest.mark.parametrize(
    ("given", "keys", "told"),
    [
        ("shop.t:a, b", [("(?i)shop.t", ["a", "b"])], False),
        (r"shop.t:a;shop\.u:b", [("(?i)shop.t", ["a"]), (r"(?i)shop\.u", ["b"])], False),
        ("shop.t:a;inv.(.*)_t:c", [("(?i)shop.t", ["a"]), ("(?i)inv.(.*)_t", ["c"])], False),
        # Debezium takes the columns of all items that match a table. Here the first one holds.
        ("shop.t:a;shop.t:b,a", [("(?i)shop.t", ["a", "b"])], False),
        (r"shop.t:a;shop\.T:b", [("(?i)shop.t", ["a"]), (r"(?i)shop\.T", ["b"])], True),
        ("(.*).t:a;shop.t:b", [("(?i)(.*).t", ["a"]), ("(?i)shop.t", ["b"])], True),
        ("shop.a.*:a;shop.*z:b", [("(?i)shop.a.*", ["a"]), ("(?i)shop.*z", ["b"])], True),
    ],
)  # fmt: skip
def test_keys_name_their_columns(given: str, keys: list[tuple[str, list[str]]], told: bool) -> None:
    option = {"message.key.columns": given}
    assert [(key["tables"], key["columns"]) for key in kafka(option)["message_keys"]] == [
        ([table], columns) for table, columns in keys
    ]
    notes = [note for note in take_over(LEAST | option).notes if note.name == "message.key.columns"]
    assert [note.kind for note in notes] == [NoteKind.OTHERWISE] * told


@pytest.mark.parametrize("given", ["shop.t:.*_id", "shop.t:a;shop.u:b|c", "shop.t", "shop.t{1,2}:a"])
def test_a_key_of_expressions_of_columns_is_refused(given: str) -> None:
    """Debezium takes each column that the expression matches. Here no column has such a name."""
    with pytest.raises(NotTakenOver, match=r"message\.key\.columns: "):
        take_over(LEAST | {"message.key.columns": given})
