"""Table maps: equal where the log describes columns equally, and usable to look up a schema by."""

from dataclasses import replace

import pytest

from pipeline.schema import table_map
from pipeline.schema.table_map import FullMetadata, MinimalMetadata, TableMap
from pipeline.schema.table_schema import TableId
from pipeline.types.column_types import Integer, Text
from pipeline.types.field_types import Storage
from tests.pipeline.declarations import declared, is_value

MAP = TableMap(
    TableId("shop", "orders"),
    (Integer(8, unsigned=False), Text("utf8mb4")),
    (Storage(8, 0), Storage(15, 400)),
    (False, True),
    FullMetadata(("id", "note"), (0,)),
)

OTHERS = {
    "table": replace(MAP, table=TableId("shop", "items")),
    "type": replace(MAP, types=(Integer(8, unsigned=True), Text("utf8mb4"))),
    "storage": replace(MAP, storage=(Storage(8, 0), Storage(15, 100))),
    "nullability": replace(MAP, nullable=(False, False)),
    "names": replace(MAP, metadata=FullMetadata(("id", "remark"), (0,))),
    "key": replace(MAP, metadata=FullMetadata(("id", "note"), ())),
    "metadata": replace(MAP, metadata=MinimalMetadata()),
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS.keys())
def test_maps_that_differ_in_anything_are_different(other: TableMap) -> None:
    assert other != MAP
    assert {MAP: "here"}.get(other) is None


def test_a_map_that_says_the_same_finds_what_was_kept_for_it() -> None:
    assert {MAP: "here"}[replace(MAP)] == "here"


@pytest.mark.parametrize("declaration", declared(table_map))
def test_what_the_log_says_is_a_value(declaration: type) -> None:
    assert is_value(declaration)
