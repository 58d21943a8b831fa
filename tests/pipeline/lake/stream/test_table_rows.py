"""Rows of a file get the columns of a stream: missing ones null, narrow ones wide, a table's own in its struct."""

import pyarrow as pa

from pipeline.lake.stream.table_rows import own_fields, read_columns, shape_rows
from pipeline.schema.table_schema import TableId

ORDERS = TableId("shop", "orders")
FILE = pa.record_batch(
    {
        "__op": pa.array(["c", "d"]),
        "__scn": pa.array([1, 2], pa.int64()),
        "id": pa.array([7, 8], pa.int32()),
        "gone": pa.array([1, 2], pa.int32()),
        "__source": pa.nulls(2, pa.struct([("time", pa.int64())])),
    }
)
ONE = pa.schema([("__op", pa.string()), ("id", pa.int64()), ("note", pa.string())])
ITEM = pa.struct([("id", pa.int64()), ("note", pa.string())])
SEVERAL = pa.schema(
    [
        ("__table", pa.string()),
        ("__op", pa.string()),
        ("shop", pa.struct([("orders", ITEM), ("items", ITEM)])),
        ("other", pa.struct([("orders", ITEM)])),
    ]
)


def test_a_stream_of_one_table_has_its_columns() -> None:
    assert read_columns(FILE.schema, ONE, ORDERS, several=False) == ["__op", "id"]
    shaped = shape_rows(FILE, ONE, ORDERS, several=False)
    assert shaped.schema == ONE
    assert shaped.to_pylist() == [
        {"__op": "c", "id": 7, "note": None},
        {"__op": "d", "id": 8, "note": None},
    ]


def test_a_stream_of_several_has_a_struct_for_each() -> None:
    assert read_columns(FILE.schema, SEVERAL, ORDERS, several=True) == ["__op", "id"]
    shaped = shape_rows(FILE, SEVERAL, ORDERS, several=True)
    assert shaped.schema == SEVERAL
    assert shaped.to_pylist()[0] == {
        "__table": "shop.orders",
        "__op": "c",
        "shop": {"orders": {"id": 7, "note": None}, "items": None},
        "other": None,
    }


def test_a_table_that_the_user_left_out_has_no_columns() -> None:
    other = TableId("shop", "customers")
    assert own_fields(SEVERAL, other, several=True) == []
    assert own_fields(SEVERAL, TableId("__op", "x"), several=True) == []
    assert own_fields(SEVERAL, TableId("none", "x"), several=True) == []
    assert shape_rows(FILE, SEVERAL, other, several=True).to_pylist()[0]["shop"] == {
        "orders": None,
        "items": None,
    }
