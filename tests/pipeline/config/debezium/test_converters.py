"""A connector's converters become keys of `[kafka]`."""

from typing import Any

import pytest

from pipeline.config.debezium.connector import take_over
from pipeline.config.debezium.conversion import NoteKind
from tests.pipeline.config.debezium.connectors import LEAST
from tests.pipeline.config.debezium.test_messages import kafka

AVRO = "io.confluent.connect.avro.AvroConverter"
BOTH = {"key.converter": AVRO, "value.converter": AVRO}


def test_avro_brings_its_registry_and_no_secret() -> None:
    given = BOTH | {
        "key.converter.schema.registry.url": "http://one:8081",
        "value.converter.schema.registry.url": "https://u:canary@registry:8081,http://other:8081",
        "value.converter.auto.register.schemas": "false",
        "value.converter.schemas.enable": "true",
    }
    found = kafka(given | {"include.schema.changes": "false"})
    assert {name: value for name, value in found.items() if "schema" in name or name == "converter"} == {
        "converter": "avro",
        "schema_registry_url": "https://registry:8081",
        "schema_registry_username": "u",
        "schema_registry_password_file": "/run/secrets/schema-registry-password",
        "auto_register_schemas": False,
    }
    taken = take_over(LEAST | given)
    assert "canary" not in taken.text + taken.report()
    assert "value.converter.basic.auth.user.info" in {
        note.name for note in taken.notes if note.kind is NoteKind.TO_DO
    }


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (BOTH, "value.converter.schema.registry.url"),
        (BOTH | {"key.converter.basic.auth.user.info": "u:p"}, "value.converter.basic.auth.user.info"),
    ],
)
def test_what_is_lacking_is_to_do(given: dict[str, str], told: str) -> None:
    notes = take_over(LEAST | given).notes
    assert told in {note.name for note in notes if note.kind is NoteKind.TO_DO}


@pytest.mark.parametrize(
    ("given", "ours"),
    [
        ({}, "simple"),
        ({"header.converter": "org.apache.kafka.connect.storage.SimpleHeaderConverter"}, "simple"),
        ({"header.converter": "org.apache.kafka.connect.json.JsonConverter"}, None),
        ({"header.converter": "some.Other"}, None),
    ],
)
def test_headers_have_the_converter_of_the_connector_or_kafka_connects_default(
    given: dict[str, str], ours: str | None
) -> None:
    assert kafka(given).get("header_converter") == ours
    named = {note.name for note in take_over(LEAST | given).notes}
    assert ("header.converter" in named) == ("some.Other" in given.values())


@pytest.mark.parametrize("side", ["key.converter", "value.converter"])
def test_one_converter_is_not_both(side: str) -> None:
    section: dict[str, Any] = kafka({side: AVRO})
    assert "converter" not in section
    notes = take_over(LEAST | {side: AVRO}).notes
    assert side in {note.name for note in notes if note.kind is NoteKind.OTHERWISE}


JSON = "org.apache.kafka.connect.json.JsonConverter"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"value.converter": JSON}, True),
        ({"value.converter": JSON, "value.converter.replace.null.with.default": "true"}, True),
        ({"value.converter": JSON, "value.converter.replace.null.with.default": "false"}, False),
        ({}, False),
        (BOTH, True),
        (BOTH | {"value.converter.ignore.default.for.nullables": "false"}, True),
        (BOTH | {"value.converter.ignore.default.for.nullables": "true"}, False),
    ],
)
def test_a_converter_that_writes_defaults_for_nulls_is_named(given: dict[str, str], told: bool) -> None:
    notes = take_over(LEAST | given).notes
    named = [note for note in notes if "default" in note.name]
    assert [note.kind for note in named] == [NoteKind.OTHERWISE] * told
    assert all("a NULL is null" in note.why for note in named)
