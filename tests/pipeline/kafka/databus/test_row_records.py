"""Rows and keys in Avro are what another reader of Avro finds in them, by the schemas that are registered."""

import hashlib
import io
import json
import re
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
from pipeline.types.column_types import Binary, Date, DateTime, Decimal, Double, Integer, Json, Text, Time

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


def test_no_two_times_are_equal() -> None:
    """Of -1 h and 100 h Debezium's text is none, and that of 24:00:00 is the one of 00:00:00."""
    schema = TableSchema(TYPED.table, (Column("at", Time(6), False), Column("more", Time(0), True)), (0,))
    hours = [-1, 0, 12, 24, 100]
    times = pa.array([hour * 3_600_000_000 for hour in hours])
    rows = pa.RecordBatch.from_arrays([times, pa.array([None] * 4 + [1], pa.int64())], schema=schema.arrow)
    texts = ["-01:00:00", "00:00:00", "12:00:00", "24:00:00", "100:00:00"]
    found = read(row_records(rows, schema), row_schema_text(schema))
    assert [row["at"] for row in found] == texts
    assert [row["more"] for row in found] == [None] * 4 + ["00:00:00.000001"]
    keys = key_records(rows, schema)
    assert read(keys, key_schema_text(schema) or "") == [{"at": text} for text in texts]
    assert len(set(keys.to_pylist())) == len(hours)


def test_the_digest_names_the_text() -> None:
    text = row_schema_text(TYPED)
    assert row_schema_digest(TYPED) == hashlib.md5(text.encode(), usedforsecurity=False).digest()
    assert json.loads(text)["name"] == "parts" and json.loads(text)["namespace"] == "shop"
    assert key_schema_text(TableSchema(TYPED.table, TYPED.columns, ())) is None


def named(*columns: str, table: TableId = TYPED.table) -> TableSchema:
    """The last column is the key."""
    kind = Integer(4, unsigned=False)
    return TableSchema(table, tuple(Column(name, kind, True) for name in columns), (len(columns) - 1,))


def test_no_two_columns_have_one_name() -> None:
    """Avro's names are letters of ASCII, digits and _."""
    schema = named("姓名", "a-b", "a_b", "2nd", "__", "电话")
    values = pa.array([1], pa.int32())
    rows = pa.RecordBatch.from_arrays([values] * 5 + [pa.array([6], pa.int32())], schema=schema.arrow)
    [row] = read(row_records(rows, schema), row_schema_text(schema))
    assert list(row) == ["___2", "a_b_2", "a_b", "_2nd", "__", "___3"] and row["___3"] == 6
    assert read(key_records(rows, schema), key_schema_text(schema) or "") == [{"___3": 6}]


def test_no_two_tables_have_one_name() -> None:
    alike = [
        ("shop", "订单"),
        ("shop", "用户"),
        ("shop", "a-b"),
        ("shop", "a_b"),
        ("shop", "a.b"),
        ("shop.a", "b"),
    ]
    others = [("2shop", "2024_orders"), ("tidemark", "DatabusEvent"), ("shop", "orders")]
    tables = [TableId(*each) for each in (*alike, *others)]
    found = [json.loads(row_schema_text(named("id", table=table))) for table in tables]
    names = [f"{schema['namespace']}.{schema['name']}" for schema in found]
    assert len(set(names)) == len(names) and names[-1] == "shop.orders" and "shop.a_b" in names
    assert all(re.fullmatch(r"([A-Za-z_][A-Za-z0-9_]*\.)+[A-Za-z_][A-Za-z0-9_]*", name) for name in names)
    assert "tidemark.DatabusEvent" not in names
