"""Parts of a table become one, in their order, until they are many. Tables that share a topic stay together."""

import itertools
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from pipeline.journal.change_rows import SOURCE
from pipeline.kafka import rows_in_step
from pipeline.kafka.debezium.transactions import TransactionBlocks
from pipeline.kafka.messages import message_rows
from pipeline.kafka.messages.message_rows import Gathered, GatheredRows, MessageRows
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.types.column_types import Integer

ID = Column("id", Integer(8, unsigned=False), nullable=False)
ITEMS, ORDERS = (TableSchema(TableId("shop", name), (ID,), key=(0,)) for name in ("items", "orders"))
WIDER = replace(ITEMS, columns=(ID, replace(ID, name="more")))


def part(schema: TableSchema, first: int, count: int = 2) -> MessageRows:
    """Rows with the ids from `first` on, and blocks that number them."""
    ids = pa.array(np.arange(first, first + count))
    rows = pa.RecordBatch.from_arrays([ids] * len(schema.columns), schema=schema.arrow)
    return MessageRows(schema, rows, TransactionBlocks(ids.cast(pa.string()), ids, ids))


def found(gathered: list[Gathered]) -> list[list[tuple[TableSchema, list[int]]]]:
    """The ids of each, which its blocks have as well."""
    for each in itertools.chain.from_iterable(gathered):
        assert each.blocks is not None
        assert each.blocks.total_order.to_pylist() == each.blocks.collection_order.to_pylist()
        assert each.blocks.id.to_pylist() == [str(number) for number in each.blocks.total_order.to_pylist()]
        assert each.blocks.total_order.to_pylist() == each.rows.column("id").to_pylist()
    return [[(each.schema, each.rows.column("id").to_pylist()) for each in together] for together in gathered]


def test_a_tables_parts_become_one_in_their_order() -> None:
    held = GatheredRows()
    assert not held.add("items", [part(ITEMS, 0)])
    assert not held.add("orders", [part(ORDERS, 10)])
    assert not held.add("items", [part(ITEMS, 2)])
    assert found(held.all()) == [[(ITEMS, [0, 1, 2, 3])], [(ORDERS, [10, 11])]]
    assert held.all() == []


def test_tables_that_may_share_a_topic_stay_together_and_a_new_form_is_a_part_of_its_own() -> None:
    held = GatheredRows()
    assert not held.add("both", [part(ITEMS, 0), part(ORDERS, 10)])
    assert not held.add("both", [part(WIDER, 2), part(ORDERS, 12)])
    assert found(held.all()) == [[(ITEMS, [0, 1]), (WIDER, [2, 3]), (ORDERS, [10, 11, 12, 13])]]


def test_no_more_is_held_than_becomes_messages_at_once() -> None:
    held, most = GatheredRows(), rows_in_step.ROWS_CONVERTED_TOGETHER
    assert not held.add("items", [part(ITEMS, 0, most - 2)]) and not held.add("orders", [part(ORDERS, 0, 1)])
    [[(_, items)], [(_, orders)]] = found(held.add("items", [part(ITEMS, most - 2, 1)]))
    assert (len(items), len(orders)) == (most - 1, 1)
    assert held.all() == []


def test_rows_of_many_bytes_are_not_held() -> None:
    rows = pa.RecordBatch.from_arrays([pa.array(["x" * rows_in_step.TOGETHER_BYTES])], names=["id"])
    assert GatheredRows().add("items", [MessageRows(ITEMS, rows)]) == [(MessageRows(ITEMS, rows),)]


def test_parts_of_more_bytes_than_a_column_may_have_stay_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_rows, "MOST_JOINED", 2 * part(ITEMS, 0).rows.nbytes)
    held = GatheredRows()
    for first in range(0, 10, 2):
        assert not held.add("items", [part(ITEMS, first)])
    assert found(held.all()) == [[(ITEMS, [0, 1, 2, 3]), (ITEMS, [4, 5, 6, 7]), (ITEMS, [8, 9])]]


def test_rows_that_share_a_long_statement_are_many() -> None:
    text = "x" * (64 << 10)
    query = pa.DictionaryArray.from_arrays(pa.array([0] * 128, pa.int32()), pa.array([text]))
    source = pa.StructArray.from_arrays([query], fields=[SOURCE.type.field("query")])
    held, parts = GatheredRows(), [part(ITEMS, first, 128) for first in (0, 128)]
    told = [replace(each, rows=each.rows.append_column(SOURCE.name, source)) for each in parts]
    assert not held.add("items", told[:1])
    assert found(held.add("items", told[1:])) == [[(ITEMS, list(range(256)))]]
