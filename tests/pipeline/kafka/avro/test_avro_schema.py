"""Avro schemas of Connect schemas; `test_avro_against_debezium` compares them with those that AvroConverter makes."""

import json
from typing import Any

import fastavro

from pipeline.kafka.avro.avro_schema import avro_text, fit_field_name, fit_full_name
from pipeline.kafka.debezium.connect_schema import CONNECT_STRING, LONG, OPTIONAL_TEXT, field, struct
from pipeline.kafka.debezium.source_block import TOLD_SCHEMAS


def avro(schema: dict[str, Any]) -> Any:
    return json.loads(avro_text(schema))


def test_an_optional_value_is_a_union_with_null_first_unless_it_has_a_default() -> None:
    assert avro(CONNECT_STRING) == "string"
    assert avro(OPTIONAL_TEXT) == ["null", "string"]
    snapshot = avro(TOLD_SCHEMAS["source.snapshot"])
    assert snapshot[1] == "null"
    assert (snapshot[0]["connect.default"], snapshot[0]["connect.name"]) == ("false", "io.debezium.data.Enum")


def test_a_struct_that_comes_again_is_named_only() -> None:
    row = struct([field(LONG, "id")], optional=True, name="p.shop.t.Value")
    record = avro(struct([field(row, "before"), field(row, "after")], name="p.shop.t.Envelope", version=2))
    before, after = record["fields"]
    assert before["type"][1]["name"] == "Value" and "namespace" not in before["type"][1]
    assert (after["type"], after["default"]) == (["null", "Value"], None)
    assert (record["namespace"], record["connect.version"]) == ("p.shop.t", 2)
    elsewhere = avro(struct([field(row, "before"), field(row, "after")], name="p.other.Envelope"))
    assert elsewhere["fields"][1]["type"] == ["null", "p.shop.t.Value"]


def test_a_reader_of_avro_takes_the_whole_source_block() -> None:
    parsed = fastavro.parse_schema(avro(TOLD_SCHEMAS["source"]))
    assert isinstance(parsed, dict) and parsed["name"] == "io.debezium.connector.mysql.Source"


def test_names_are_made_fit() -> None:
    assert fit_full_name("1p.2db.my-table.Value") == "_p.2db.my_table.Value"
    assert [fit_field_name(name) for name in ("a-b", "2 x", "é", "ok_1")] == ["a_b", "_2_x", "_", "ok_1"]
