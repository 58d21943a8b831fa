"""Transactions' blocks and messages; `test_against_debezium` compares them with Debezium's own."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa

from pipeline.gtid.gtid_set import GtidSet
from pipeline.journal.change_rows import chunk_table
from pipeline.kafka.debezium.json_format import JSON
from pipeline.kafka.debezium.source_block import TOLD_SCHEMAS
from pipeline.kafka.debezium.text_rows import joined
from pipeline.kafka.debezium.transactions import ChangedRows, MessageOrders, transaction_messages
from pipeline.messages.journal import ChunkPart
from pipeline.schema.table_schema import TableId
from pipeline.snapshot.snapshot import ChunkId
from tests.pipeline.builders import ORDERS, place
from tests.pipeline.builders import rows as rows_with

TABLES = tuple(TableId("shop", name) for name in "abk")
# Table, SCN, ordinal, and whether it's counted; table by table.
ROWS = (
    (0, 1, 0, True),
    (0, 1, 2, False),
    (0, 1, 3, True),
    (0, 3, 0, True),
    (1, 1, 1, True),
    (1, 2, 0, False),
    (2, 1, 4, True),
)


def changed(rows: tuple[tuple[int, int, int, bool], ...] = ROWS) -> ChangedRows:
    table, scn, ordinal, counted = zip(*rows, strict=True)
    return ChangedRows(
        TABLES,
        np.array(table, np.int32),
        np.array(scn, np.int64),
        np.array(ordinal, np.int64),
        np.array(counted, np.bool_),
        *_transactions({number for number, of_one in zip(scn, counted, strict=True) if of_one}),
    )


def _transactions(scns: set[int]) -> tuple[pa.Array, pa.Array]:
    """Their ids and times."""
    ids, times = [f"u:{number}" for number in sorted(scns)], [1000 * number + 1 for number in sorted(scns)]
    return pa.array(ids, pa.string()), pa.array(times, pa.int64())


def rows_of(table: int) -> pa.RecordBatch:
    """The rows of a table, in a changes file's columns."""
    scn, ordinal = ([row[column] for row in ROWS if row[0] == table] for column in (1, 2))
    return pa.record_batch({"__scn": scn, "__ordinal": ordinal, "__gtid": [f"u:{number}" for number in scn]})


def test_a_change_is_counted_in_its_transaction_and_in_its_table_there() -> None:
    orders = MessageOrders(changed())
    a, b, k = (orders.blocks(table, rows_of(number)) for number, table in enumerate(TABLES))
    none = orders.blocks(TableId("shop", "z"), rows_of(0))
    assert (none.id.null_count, none.total_order.to_pylist()) == (4, [0, 0, 0, 0])
    assert a.total_order.to_pylist() == [1, 0, 3, 1]
    assert a.collection_order.to_pylist() == [1, 0, 2, 1]
    assert (b.total_order.to_pylist(), k.total_order.to_pylist()) == ([2, 0], [4])
    block = joined(JSON.told(b.block(), TOLD_SCHEMAS["transaction"], 2), count=2)
    assert block.to_pylist() == ['{"id":"u:1","total_order":2,"data_collection_order":1}', "null"]


def test_a_transaction_begins_and_ends_once_with_its_tables_in_the_order_of_a_hash_map() -> None:
    messages = transaction_messages(changed(), JSON)
    assert [json.loads(key)["id"] for key in messages.keys.to_pylist()] == ["u:1", "u:1", "u:3", "u:3"]
    values = [json.loads(value) for value in messages.values.to_pylist()]
    assert [(value["status"], value["event_count"], value["ts_ms"]) for value in values] == [
        ("BEGIN", None, 1),
        ("END", 4, 1),
        ("BEGIN", None, 3),
        ("END", 1, 3),
    ]
    assert values[1]["data_collections"] == [
        {"data_collection": "shop.b", "event_count": 1},
        {"data_collection": "shop.a", "event_count": 2},
        {"data_collection": "shop.k", "event_count": 1},
    ]


def test_rows_without_a_transaction_have_none() -> None:
    assert len(transaction_messages(changed(((0, 2, 0, False),)), JSON).keys) == 0


def test_what_a_repair_removes_is_of_no_transaction() -> None:
    """Its key has no row at the source, and no commit says when it went."""
    keys, rows = pa.record_batch({"id": pa.array([1, 2], pa.int64())}), rows_with(ORDERS, ())
    part = ChunkPart(
        ChunkId("v1", ORDERS.table, 1), ORDERS, rows, GtidSet(), place(4), 7, first=False, gone=keys
    )
    (removed,) = chunk_table(1, part).combine_chunks().to_batches()
    found = ChangedRows.of([(ORDERS.table, removed)])
    assert found.counted.tolist() == [False, False]


def test_a_large_transaction_has_its_id_once() -> None:
    """Its rows' texts together have more bytes than a column of texts may have. Here all are in the same memory."""
    count, size = 1000, 1 << 16
    offsets = pa.py_buffer(np.arange(0, count * size + 1, size, dtype=np.int32))
    gtids = pa.Array.from_buffers(pa.string(), count, [None, offsets, pa.py_buffer(b"u" * count * size)])

    def rows(scn: int, ordinal: int, table: TableId) -> tuple[TableId, pa.RecordBatch]:
        columns = {
            "__op": ["c"] * count,
            "__scn": [scn] * count,
            "__ordinal": pa.array(range(ordinal, ordinal + count), pa.int32()),
            "__gtid": gtids,
            "__commit_time": pa.array([scn] * count, pa.timestamp("us", "UTC")),
        }
        return table, pa.record_batch(columns)

    parts = [rows(7, n * count, TABLES[n % 2]) for n in range(40)]
    found = ChangedRows.of([*parts, rows(8, 0, TABLES[0])])
    assert found.counted.sum() == 41 * count
    assert (len(found.ids), found.times.to_pylist()) == (2, [7, 8])
    end = json.loads(transaction_messages(found, JSON).values[1].as_py())
    assert end["event_count"] == 40 * count and len(end["id"]) == size


def test_a_table_has_the_name_that_debezium_gives_it() -> None:
    rows = replace(changed(), tables=(TableId("shop", "a.b"), *TABLES[1:]))
    end = json.loads(transaction_messages(rows, JSON).values[1].as_py())
    assert "shop.a.b" in {each["data_collection"] for each in end["data_collections"]}
