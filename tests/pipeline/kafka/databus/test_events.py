"""An event says what became of a row, in Databus' words, and other readers find the row in it."""

import base64
import io
import json
from dataclasses import replace
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa

from pipeline.kafka.databus.events import AvroEvents, JsonEvents
from pipeline.kafka.databus.row_records import key_schema_text, row_schema_digest, row_schema_text
from pipeline.kafka.databus.sources import source_id
from pipeline.schema.table_schema import Column, TableId
from pipeline.types.column_types import Geometry, Integer
from tests.pipeline.kafka.databus.windows import Row, batch
from tests.pipeline.lake.stream.entries import ITEMS, ORDERS

ROWS: list[Row] = [
    ("c", 7, (1, "a")),
    ("b", 8, (1, "a")),
    ("u", 8, (1, None)),
    ("r", 8, (5, "é")),
    ("d", 9, (1, None)),
    ("t", 10, (None, None)),
]
OPCODES = ["UPSERT", "UPSERT", "UPSERT", "DELETE", "TRUNCATE"]
ABSENT = [None, None, ["note", "é"], None, None, None]
COMPOSITE = replace(ORDERS, key=(1, 0))


def avro(text: str, value: str) -> Any:
    schema = fastavro.parse_schema(json.loads(text))
    return fastavro.schemaless_reader(io.BytesIO(base64.b64decode(value)), schema, None)


def lines(events: pa.Array) -> list[dict[str, Any]]:
    return [json.loads(line) for line in JsonEvents().whole(events.drop_null()).splitlines()]


def test_a_line_is_databus_own() -> None:
    events = JsonEvents().rows(batch(ORDERS, ROWS, ABSENT), ORDERS)
    found = lines(events)
    assert [line["opcode"] for line in found] == OPCODES
    assert found[0] == {
        "opcode": "UPSERT", "key": 1, "sequence": 7, "logicalPartitionId": 0, "physicalPartitionId": 0,
        "timestampInNanos": 1_700_000_000_000_007_000, "srcId": source_id(ORDERS.table),
        "schemaId": base64.b64encode(row_schema_digest(ORDERS)).decode(), "valueEnc": "JSON",
        "isReplicated": False, "value": found[0]["value"],
    }  # fmt: skip
    rows = [avro(row_schema_text(ORDERS), line["value"]) for line in found[:4]]
    assert [tuple(row.values()) for row in rows] == [(1, "a"), (1, None), (5, "é"), (1, None)]
    assert [line.get("absent") for line in found[:3]] == [None, ["note", "é"], None]


def test_a_key_of_several_columns_is_in_avro() -> None:
    [line] = lines(JsonEvents().rows(batch(COMPOSITE, ROWS[:1]), COMPOSITE))
    assert avro(key_schema_text(COMPOSITE) or "", line["keyBytes"]) == {"note": "a", "id": 1}
    [keyless] = lines(JsonEvents().rows(batch(replace(ORDERS, key=()), ROWS[:1]), replace(ORDERS, key=())))
    assert keyless["keyBytes"] == ""


def test_a_line_ends_a_window() -> None:
    [line] = lines(JsonEvents().ends(np.array([9])))
    assert (line["sequence"], line["srcId"], line["endOfPeriod"]) == (9, -2, True)


def container(form: AvroEvents, *events: pa.Array) -> list[Any]:
    return list(fastavro.reader(io.BytesIO(form.whole(pa.concat_arrays(events).drop_null()))))


def test_a_container_file_has_the_rows_of_all_tables() -> None:
    form = AvroEvents()
    orders = form.rows(batch(ORDERS, ROWS, ABSENT), ORDERS)
    items = form.rows(batch(ITEMS, [("c", 11, (3,))]), ITEMS)
    found = container(form, orders, items, form.ends(np.array([11])))
    assert [event["opcode"] for event in found] == [*OPCODES, "UPSERT", None]
    values = [event["value"] for event in found]
    assert values[0] == {"id": 1, "note": "a"}
    assert values[4:] == [None, {"id": 3}, None]
    assert [event["absent"] for event in found[:3]] == [[], ["note", "é"], []]
    assert found[5]["srcId"] == source_id(ITEMS.table)
    assert (found[6]["sequence"], found[6]["srcId"], found[6]["endOfPeriod"]) == (11, -2, True)


def test_a_container_file_tells_tables_apart_whose_names_avro_does_not_take() -> None:
    form, tables = AvroEvents(), [TableId("shop", "订单"), TableId("shop", "用户")]
    made = [
        form.rows(batch(of, [("c", 7, values)]), of)
        for of, values in (
            (replace(ITEMS, table=tables[0]), (3,)),
            (replace(ORDERS, table=tables[1]), (1, "a")),
        )
    ]
    assert [event["value"] for event in container(form, *made)] == [{"id": 3}, {"id": 1, "note": "a"}]


def test_an_empty_container_file_is_one() -> None:
    assert container(AvroEvents(), pa.array([], pa.binary())) == []


def test_a_container_file_takes_one_version_of_a_table() -> None:
    form = AvroEvents()
    form.rows(batch(ORDERS, ROWS[:1]), ORDERS)
    wider = replace(ORDERS, columns=(*ORDERS.columns, Column("more", Integer(4, unsigned=False), True)))
    assert form.takes(ORDERS) and form.takes(ITEMS) and not form.takes(wider)
    assert JsonEvents().takes(wider)


def test_two_tables_with_the_same_struct_name_it_once() -> None:
    form = AvroEvents()
    spatial = [
        replace(schema, columns=(schema.columns[0], Column("at", Geometry(), True)))
        for schema in (ORDERS, ITEMS)
    ]
    made = [form.rows(batch(schema, [("c", 7, (1, None))]), schema) for schema in spatial]
    assert [event["value"] for event in container(form, *made)] == 2 * [{"id": 1, "at": None}]
