"""The layout of a table map's row images."""

from dataclasses import replace

import pyarrow as pa
import pytest

from pipeline.binlog.rows.table_layout import layout_of
from pipeline.errors import UndecodableError
from pipeline.schema.table_map import MinimalMetadata, TableMap
from pipeline.schema.table_schema import TableId
from pipeline.types import column_types as t
from pipeline.types.field_types import FieldType, Storage

MAP = TableMap(
    TableId("shop", "orders"),
    (t.Integer(4, unsigned=False), t.Text("utf8mb4"), t.Json(), t.Enum(("a", "b"))),
    (
        Storage(FieldType.LONG, 0),
        Storage(FieldType.VARCHAR, 300),
        Storage(FieldType.JSON, 4),
        Storage(254, 503),
    ),
    (False, True, True, True),
    MinimalMetadata(),
)


def test_a_layout_says_how_each_column_lies() -> None:
    layout = layout_of(MAP)
    assert layout.widths.tolist() == [4, 2, 4, 1]
    assert layout.masks.tolist() == [0, 0xFFFF, 0xFFFFFFFF, 0]
    assert layout.json.tolist() == [False, False, True, False]
    assert layout.smallest == 4 + 2 + 4 + 1 + 1
    assert layout.schema.types == [pa.int32(), pa.string(), pa.string(), pa.int32()]
    assert layout.schema.names == ["0", "1", "2", "3"]


def test_columns_of_one_kind_have_one_object_in_all_tables() -> None:
    other = replace(MAP, table=TableId("shop", "items"), types=MAP.types[:2], storage=MAP.storage[:2])
    assert layout_of(other).kinds[1] is layout_of(MAP).kinds[1]
    longer = replace(other, storage=(MAP.storage[0], Storage(FieldType.VARCHAR, 200)))
    assert layout_of(longer).kinds[1] is not layout_of(MAP).kinds[1]


def test_an_equal_map_has_the_same_layout_and_an_altered_one_another() -> None:
    assert layout_of(replace(MAP)) is layout_of(MAP)
    altered = replace(MAP, types=(t.Integer(4, unsigned=True), *MAP.types[1:]))
    assert layout_of(altered).schema.types[0] != layout_of(MAP).schema.types[0]


def test_a_column_that_is_stored_in_an_unknown_way_has_none() -> None:
    with pytest.raises(UndecodableError):
        layout_of(replace(MAP, storage=(*MAP.storage[:3], Storage(200, 0))))
