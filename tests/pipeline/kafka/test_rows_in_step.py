"""Rows of several tables in the order of the stream, however they are divided and however many come at once."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.journal.change_rows import SOURCE
from pipeline.kafka import rows_in_step
from pipeline.kafka.portions import Portion
from pipeline.kafka.rows_in_step import (
    TableRows,
    alternating,
    few_at_once,
    in_step,
    rows_after,
    rows_within,
    whole_batches,
)
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.types.column_types import Integer

ID = Column("id", Integer(8, unsigned=False), nullable=False)
ITEMS, ORDERS, OTHERS = (
    TableSchema(TableId("shop", name), (ID,), key=(0,)) for name in ("items", "orders", "others")
)
Place = tuple[int, int]


def table_rows(schema: TableSchema, rows: Sequence[Place], ops: str = "") -> TableRows:
    columns = {
        "__scn": [scn for scn, _ in rows],
        "__ordinal": [ordinal for _, ordinal in rows],
        "__op": list(ops or "c" * len(rows)),
    }
    return TableRows(schema, pa.RecordBatch.from_pydict(columns))


def places(parts: Sequence[TableRows]) -> list[Place]:
    names = ("__scn", "__ordinal")
    return [
        place
        for each in parts
        for place in zip(*(each.rows.column(name).to_pylist() for name in names), strict=True)
    ]


def test_rows_of_many_tables_come_few_at_once_and_an_updates_two_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rows_in_step, "ROWS_CONVERTED_TOGETHER", 3)
    items = table_rows(ITEMS, [(1, at) for at in (0, 1, 4, 5, 8)], "ccdud")
    orders = table_rows(ORDERS, [(1, at) for at in (2, 3, 6, 7, 9)], "buddc")
    found = [[ordinal for _, ordinal in places(parts)] for parts in few_at_once((items, orders))]
    assert [sorted(each) for each in found] == [[0, 1, 2, 3], [4, 5, 6], [7, 8, 9]]
    assert [len(each.rows) for parts in few_at_once((items,)) for each in parts] == [5]


@st.composite
def streams(draw: st.DrawFn) -> tuple[list[Place], list[list[TableRows]]]:
    """The places of a stream's rows, and each table's rows in parts."""
    stream = sorted(draw(st.sets(st.tuples(st.integers(1, 4), st.integers(0, 9)), min_size=1)))
    owners = draw(st.lists(st.integers(0, 2), min_size=len(stream), max_size=len(stream)))
    tables = []
    for number, schema in enumerate((ITEMS, ORDERS, OTHERS)):
        own = [place for place, owner in zip(stream, owners, strict=True) if owner == number]
        cuts = draw(st.sets(st.integers(1, max(1, len(own) - 1)))) if len(own) > 1 else set[int]()
        ends = [0, *sorted(cuts), len(own)]
        tables.append([table_rows(schema, own[a:b]) for a, b in itertools.pairwise(ends) if a < b])
    return stream, tables


@given(streams(), st.integers(0, 40))
def test_tables_in_step_have_all_rows_through_a_place_each_time(
    made: tuple[list[Place], list[list[TableRows]]], skip: int
) -> None:
    stream, tables = made

    def stepped() -> Iterator[tuple[TableRows, ...]]:
        return in_step([iter(parts) for parts in tables])

    assert [place for parts in stepped() for place in sorted(places(parts))] == stream
    assert [place for parts in stepped() for each in alternating(parts) for place in places([each])] == stream
    left, rest = list[Place](), skip
    for parts in stepped():
        skipped, after = rows_after(parts, rest)
        rest -= skipped
        left += sorted(places(after))
    assert left == stream[skip:]


def test_a_portion_has_the_rows_of_its_scns() -> None:
    rows = table_rows(ITEMS, [(1, 0), (3, 0), (3, 1), (4, 0), (7, 0)]).rows
    assert rows_within(rows, Portion(3, 4, 3)) == (1, 4)
    assert rows_within(rows, Portion(5, 6, 3)) == (4, 4)
    wide = table_rows(replace(ITEMS, key=()), [(2, 5)]).rows
    assert rows_within(wide, Portion(1, 9, 3)) == (0, 1)


def test_rows_of_a_long_statement_come_few_at_once_though_they_share_its_text() -> None:
    """Each message has the text. All of them would have more bytes than a column of texts has room for."""
    text = "x" * (64 << 10)
    query = pa.DictionaryArray.from_arrays(pa.array([0] * 5000, pa.int32()), pa.array([text]))
    source = pa.StructArray.from_arrays([query], fields=[SOURCE.type.field("query")])
    items = table_rows(ITEMS, [(1, at) for at in range(0, 10_000, 2)])
    orders = table_rows(ORDERS, [(1, at) for at in range(1, 10_000, 2)])
    told = items.rows.append_column(SOURCE.name, source)
    found = list(whole_batches([told]))
    assert max(len(rows) for rows in found) <= (64 << 20) // len(text)
    assert pa.Table.from_batches(found).column("__ordinal").to_pylist() == list(range(0, 10_000, 2))
    mixed = [sum(len(each.rows) for each in parts) for parts in few_at_once((TableRows(ITEMS, told), orders))]
    assert sum(mixed) == 10_000 and max(mixed) <= 2 * (16 << 20) // len(text)
