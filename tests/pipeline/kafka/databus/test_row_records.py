"""Rows and keys in Avro are what another reader of Avro finds in them, by the schemas that are registered."""

import hashlib
import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal as Exact
from typing import Any

import fastavro
import pyarrow as pa

from pipeline.kafka.databus.row_records import (
    key_records,
    key_schema_text,
    row_records,
    row_schema_digest,
    row_schema_text,
)
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.types.column_types import Binary, Date, DateTime, Decimal, Double, Integer, Json, Text

TYPED = TableSchema(
    TableId("shop", "parts"),
    (
        Column("id", Integer(8, unsigned=True), False),
        Column("name", Text("utf8mb4"), False),
        Column("price", Decimal(10, 2), True),
        Column("day", Date(), True),
        Column("at", DateTime(3), True),
        Column("more", Json(), True),
        Column("data", Binary(), True),
        Column("weight", Double(), True),
    ),
    (1, 0),
)
MOMENT = datetime(2026, 5, 1, 12, 0, 0, 5000, tzinfo=UTC).replace(tzinfo=None)
ROWS: list[list[Any]] = [
    [Exact(2**64 - 1), Exact(0)],
    ["é", ""],
    [Exact("12.50"), None],
    [date(2026, 5, 1), None],
    [MOMENT, None],
    ['{"a": 1}', None],
    [b"\x00\xff", None],
    [1.5, None],
]


def read(records: pa.Array, text: str) -> list[Any]:
    schema = fastavro.parse_schema(json.loads(text))
    return [fastavro.schemaless_reader(io.BytesIO(each), schema, None) for each in records.to_pylist()]


def test_another_reader_finds_the_values() -> None:
    rows = pa.RecordBatch.from_arrays(
        [pa.array(values, field.type) for values, field in zip(ROWS, TYPED.arrow, strict=True)],
        schema=TYPED.arrow,
    )
    one, other = read(row_records(rows, TYPED), row_schema_text(TYPED))
    assert one == {
        "id": Exact(2**64 - 1), "name": "é", "price": Exact("12.50"), "day": "2026-05-01Z",
        "at": "2026-05-01T12:00:00.005Z", "more": '{"a": 1}', "data": b"\x00\xff", "weight": 1.5,
    }  # fmt: skip
    assert (other["id"], other["name"], set(list(other.values())[2:])) == (Exact(0), "", {None})
    # A key has its columns in the key's own order.
    keys = read(key_records(rows, TYPED), key_schema_text(TYPED) or "")
    assert [list(key.items()) for key in keys] == [
        [("name", "é"), ("id", Exact(2**64 - 1))],
        [("name", ""), ("id", Exact(0))],
    ]


def test_the_digest_names_the_text() -> None:
    text = row_schema_text(TYPED)
    assert row_schema_digest(TYPED) == hashlib.md5(text.encode(), usedforsecurity=False).digest()
    assert json.loads(text)["name"] == "parts" and json.loads(text)["namespace"] == "shop"
    assert key_schema_text(TableSchema(TYPED.table, TYPED.columns, ())) is None
