"""What a lake table reports about itself, read back from its properties."""

from dataclasses import replace

from pipeline.lake.tables.columns import pin_of
from pipeline.lake.tables.properties import Property
from pipeline.lake.tables.report import (
    Constant,
    Rebuilding,
    TableReport,
    constants_text,
    without_constants,
)
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.types.column_types import Integer, Text

INT = Integer(4, unsigned=False)
COLUMNS = (
    Column("id", INT, True),
    Column("flag", INT, True),
    Column("a", INT, True),
    Column("b", Text("utf8mb4"), True),
)
FLAGGED = TableSchema(TableId("shop", "orders"), COLUMNS, (0,))


def test_a_schema_without_owed_columns_keeps_its_key() -> None:
    keyed = replace(FLAGGED, key=(3, 0))
    left = without_constants(keyed, [Constant("flag", "7", 5)])
    assert (left.key_names, left.columns) == (("b", "id"), (COLUMNS[0], *COLUMNS[2:]))
    assert without_constants(keyed, []) == keyed
    assert constants_text(()) == ""
    assert Constant("b", "it's", 5).sql("STRING") == "CAST('it\\'s' AS STRING)"


def test_a_complete_mirror_has_its_generation_in_its_pin() -> None:
    filling = Rebuilding(8, None, 2.5)
    begun = TableReport({Property.JOURNAL: "j", Property.REBUILDING: filling.text}, {"j/generation": 8})
    assert (begun.generation, begun.first, begun.frozen, begun.rebuilding) == (8, True, False, filling)
    complete = TableReport({Property.JOURNAL: "j", Property.PIN: pin_of(7)}, {"j/generation": 3})
    assert (complete.generation, complete.first, complete.frozen, complete.rebuilding) == (
        7,
        False,
        False,
        None,
    )
    beside = replace(complete, properties={**complete.properties, Property.REBUILDING: filling.text})
    assert (beside.generation, beside.first, beside.frozen, beside.filling_since) == (7, False, True, 2.5)
