"""Transformations become sections of `[kafka]`, or are named as ones that can't be taken over."""

from typing import Any

import pytest

from pipeline.config.debezium.connector import take_over
from pipeline.config.debezium.conversion import NoteKind
from tests.pipeline.config.debezium.connectors import LEAST
from tests.pipeline.config.debezium.test_messages import JSON, kafka

UNWRAP = "io.debezium.transforms.ExtractNewRecordState"
OUTBOX = "io.debezium.transforms.outbox.EventRouter"
ROUTER = "io.debezium.transforms.ByLogicalTableRouter"
REGEX = "org.apache.kafka.connect.transforms.RegexRouter"


def one(kind: str, **options: str) -> dict[str, str]:
    """A transformation; `_` stands for a dot."""
    said = {f"transforms.t.{name.replace('_', '.')}": value for name, value in options.items()}
    return {"transforms": "t", "transforms.t.type": kind, **said}


def told(given: dict[str, str], kind: NoteKind = NoteKind.OTHERWISE) -> list[str]:
    """The properties of transformations that are told so."""
    notes = take_over(LEAST | given).notes
    return [note.name for note in notes if note.kind is kind and note.name.startswith("transforms")]


@pytest.mark.parametrize(
    ("given", "unwrap"),
    [
        ({}, {}),
        ({"delete_tombstone_handling_mode": "drop"}, {"delete_tombstone_handling_mode": "drop"}),
        ({"delete_handling_mode": "rewrite"}, {"delete_tombstone_handling_mode": "rewrite"}),
        ({"drop_tombstones": "false"}, {"delete_tombstone_handling_mode": "tombstone"}),
        (
            {"route_by_field": "to", "add_headers": "op, db"},
            {"route_by_field": "to", "add_headers": ["op", "db"]},
        ),
    ],
)
def test_the_flat_form(given: dict[str, str], unwrap: dict[str, Any]) -> None:
    assert kafka(one(UNWRAP, **given))["unwrap"] == unwrap
    assert told(one(UNWRAP, **given)) == []


def test_a_transformation_in_an_unknown_way_is_named() -> None:
    assert told(one(UNWRAP, delete_handling_mode="none")) == ["transforms.t.delete.tombstone.handling.mode"]
    assert told(one(UNWRAP, drop_fields_from_key="true")) == ["transforms.t.drop.fields.from.key"]
    assert told(one(UNWRAP, predicate="p")) == ["transforms.t.predicate"]
    assert told(one(ROUTER, topic_regex="(", topic_replacement="$1")) == ["transforms.t.type"]


def test_routes() -> None:
    by_table = one(ROUTER, topic_regex="(.*)_[0-9]", topic_replacement="$1", key_field_name="of")
    route = {"topic_regex": "(.*)_[0-9]", "topic_replacement": "$1", "key_field_name": "of"}
    assert kafka(by_table)["topic_routes"] == [route]
    by_regex = one(REGEX, regex="a(.*)", replacement="b$1")
    alone: dict[str, Any] = {
        "topic_regex": "a(.*)",
        "topic_replacement": "b$1",
        "key_enforce_uniqueness": False,
    }
    assert kafka(by_regex)["topic_routes"] == [alone]
    assert told(by_regex) == []
    assert told(by_regex | {"value.converter": JSON}) == ["transforms.t.type"]
    again = {f"{name.replace('.t.', '.s.')}": value for name, value in by_regex.items()}
    assert told(by_regex | again | {"transforms": "t,s"}) == ["transforms.s.type"]


def test_a_class_of_characters_that_java_alone_reads_so_is_named() -> None:
    """Python takes the first `]` for the end of the class, so that the route would match nothing."""
    only_java = "(.*)[.][a-z&&[^b]]+"
    by_regex = one(REGEX, regex=only_java, replacement="$1")
    assert told(by_regex) == ["transforms.t.type"] and "topic_routes" not in kafka(by_regex)
    by_table = one(ROUTER, topic_regex="(.*)_[0-9]", topic_replacement="$1", key_field_regex=only_java)
    assert told(by_table) == ["transforms.t.key.field.regex"]
    assert "key_field_regex" not in kafka(by_table)["topic_routes"][0]
    box = one(OUTBOX, route_topic_regex=only_java)
    assert told(box) == ["transforms.t.route.topic.regex"]
    assert "route_topic_regex" not in kafka(box)["outboxes"][0]


@pytest.mark.parametrize(
    ("pattern", "tables"),
    [
        ("shop.inventory.outbox.*", ["inventory.outbox.*"]),
        (r"shop\.inventory\.outbox", [r"inventory\.outbox"]),
        (r".*\.outbox", [r".*\.outbox"]),
        (r".*(outbox|events)", [r".*(outbox|events)"]),
        # Each alternative is a topic's whole name.
        (r"shop\.inventory\.outbox|shop\.(a|b)[|.]c", [r"inventory\.outbox", "(a|b)[|.]c"]),
        (r".*outbox|shop\.hr\.events", [".*outbox", r"hr\.events"]),
        (r"shop\.inventory\.outbox|hr\.events", None),
        # What comes before a table's name may be the prefix alone, or end within it.
        (r".*\.inventory\.outbox", [r"inventory\.outbox", r".*\.inventory\.outbox"]),
        (r".*op\.inventory\.outbox", None),
        (".*hop.*_outbox", None),
        (r".*\.op\.inventory\.outbox", None),
        (r"shop\.inventory\.[a-z&&[^b]]+", None),
        ("other.outbox", None),
        (r"shop.*\.outbox", None),
    ],
)
def test_an_outbox_is_of_the_tables_whose_topics_are_meant(pattern: str, tables: list[str] | None) -> None:
    given = one(OUTBOX, predicate="p", table_field_event_id="key") | {
        "predicates": "p",
        "predicates.p.type": "org.apache.kafka.connect.transforms.predicates.TopicNameMatches",
        "predicates.p.pattern": pattern,
        "table.include.list": "inventory.outbox,inventory.orders",
    }
    [outbox] = kafka(given)["outboxes"]
    assert outbox["table_field_event_id"] == "key"
    if tables is None:
        assert told(given, NoteKind.TO_DO) == ["transforms.t.predicate"]
    else:
        assert outbox["tables"] == tables and told(given, NoteKind.TO_DO) == []


def test_an_outbox_without_a_condition_is_of_all_captured_tables() -> None:
    given = one(OUTBOX) | {"table.include.list": "inventory.outbox"}
    assert kafka(given)["outboxes"] == [{"tables": ["(?i)inventory.outbox"]}]


@pytest.mark.parametrize(("old", "missing"), [("true", "error"), ("FALSE", "ignore")])
def test_an_outboxs_older_options_are_known(old: str, missing: str) -> None:
    given = one(OUTBOX, table_fields_additional_error_on_missing=old, table_field_event_schema_version="v")
    [outbox] = kafka(given)["outboxes"]
    assert outbox["table_field_additional_missing"] == missing
    assert outbox["table_field_event_schema_version"] == "v" and told(given) == []
    newer = given | {"transforms.t.table.field.additional.missing": "error"}
    assert kafka(newer)["outboxes"][0]["table_field_additional_missing"] == "error"


def test_others_are_still_judged_by_their_class() -> None:
    given = one(UNWRAP) | {
        "transforms": "t,c",
        "transforms.c.type": "org.apache.kafka.connect.transforms.Cast$Value",
    }
    assert told(given) == ["transforms.c.type"]
