"""The walk: what makes two of them keys of the same."""

from dataclasses import replace

import pytest

from pipeline.schema.table_schema import Column, TableSchema
from pipeline.snapshot.chunk_index import ChunkIndex
from pipeline.types.column_types import Integer
from tests.pipeline.builders import ORDERS, altered, primary_index, table

LINES = table("lines", "order", "line", "note", key=(0, 1))
SURROGATE = ChunkIndex("by_note", (2,), (False,), (None,))

OTHERS = {
    "another index": (LINES, replace(primary_index(LINES), index="other")),
    "another direction": (LINES, replace(primary_index(LINES), descending=(False, True))),
    "another collation": (LINES, replace(primary_index(LINES), collations=(None, "utf8mb4_bin"))),
    "a column less": (LINES, ChunkIndex("PRIMARY", (0,), (False,), (None,))),
    "another type": (
        replace(LINES, columns=(Column("order", Integer(4, unsigned=False), False), *LINES.columns[1:])),
        primary_index(LINES),
    ),
}


def test_a_walk_is_the_same_where_other_columns_change() -> None:
    assert primary_index(ORDERS).version(ORDERS) == primary_index(ORDERS).version(altered(ORDERS))


@pytest.mark.parametrize(("schema", "walk"), OTHERS.values(), ids=OTHERS.keys())
def test_a_walk_is_another_where_its_keys_would_not_compare(schema: TableSchema, walk: ChunkIndex) -> None:
    assert walk.version(schema) != primary_index(LINES).version(LINES)


def test_a_walk_is_another_where_rows_are_not_told_apart_alike() -> None:
    assert SURROGATE.version(LINES) != SURROGATE.version(replace(LINES, key=(0,)))
    assert SURROGATE.version(LINES) == SURROGATE.version(
        replace(LINES, columns=(*LINES.columns, LINES.columns[2]))
    )
