"""Which schema changes leave a table's rows as they are."""

from dataclasses import replace

import pytest

from pipeline.schema.compatibility import incompatibility
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.types.column_types import (
    Bit,
    ColumnType,
    Date,
    DateTime,
    Decimal,
    Double,
    Enum,
    FixedBinary,
    Float,
    Integer,
    Text,
    Year,
)

INT = Integer(8, unsigned=False)
ID = Column("id", INT, False)
V1 = TableSchema(TableId("shop", "orders"), (ID, Column("note", Text("utf8mb4"), True)), (0,))


def test_columns_that_may_be_null_can_be_added_anywhere_and_columns_can_move() -> None:
    assert (
        incompatibility(V1, replace(V1, columns=(Column("first", INT, True), *V1.columns), key=(1,))) is None
    )
    assert incompatibility(V1, replace(V1, columns=V1.columns[::-1], key=(1,))) is None


@pytest.mark.parametrize(
    ("new", "told"),
    [
        (replace(V1, columns=(ID,)), "column 'note' of shop.orders was dropped or renamed"),
        (
            replace(V1, columns=(*V1.columns, Column("n", INT, False))),
            "column 'n' was added to shop.orders as NOT",
        ),
        (replace(V1, key=(1,)), "the primary key of shop.orders was (id) and is (note)"),
        (replace(V1, key=()), "the primary key of shop.orders was (id) and is (none)"),
        (
            replace(V1, columns=(replace(ID, type=Float()), V1.columns[1])),
            "column 'id' of shop",
        ),
    ],
)
def test_what_does_not_is_told(new: TableSchema, told: str) -> None:
    assert (incompatibility(V1, new) or "").startswith(told)


@pytest.mark.parametrize(
    ("old", "new", "kept"),
    [
        (Text("latin1"), Text("utf8mb4"), True),
        (Enum(("a", "b")), Enum(("a", "b", "c")), True),
        (Enum(("a", "b")), Enum(("b", "a")), False),
        (Enum(("a",)), Text("utf8mb4"), False),
        (DateTime(0), DateTime(6), True),
        (DateTime(6), DateTime(0), False),
        (FixedBinary(4), FixedBinary(8), False),
        (Bit(9), Bit(16), True),
        (Bit(8), Bit(9), False),
        (Decimal(40, 2), Decimal(65, 2), True),
        (Decimal(40, 2), Decimal(40, 3), False),
        (Decimal(38, 2), Decimal(39, 2), False),
        (Decimal(10, 2), Decimal(12, 4), True),
        (Decimal(10, 2), Decimal(10, 3), True),
        (Decimal(12, 4), Decimal(12, 2), False),
        (Integer(4, unsigned=False), INT, True),
        (INT, Integer(1, unsigned=True), True),
        (INT, Integer(8, unsigned=True), True),
        (INT, Decimal(30, 2), True),
        (INT, Decimal(65, 2), False),
        (Integer(4, unsigned=False), Double(), True),
        (Integer(4, unsigned=True), Double(), False),
        (INT, Double(), False),
        (Double(), INT, False),
        (Float(), Double(), True),
        (Double(), Float(), False),
        (Year(), INT, True),
        (Date(), DateTime(3), True),
        (DateTime(0), Date(), False),
        (INT, Text("utf8mb4"), False),
    ],
)
def test_a_column_may_change_where_its_values_do_not(old: ColumnType, new: ColumnType, kept: bool) -> None:
    before, after = (replace(V1, columns=(ID, Column("c", type_, True))) for type_ in (old, new))
    assert (incompatibility(before, after) is None) is kept


def test_a_character_set_that_changes_a_character_does_not_keep_values() -> None:
    def of(charset: str) -> TableSchema:
        return TableSchema(TableId("d", "t"), (Column("c", Text(charset), True),), ())

    assert incompatibility(of("utf8mb4"), of("cp932")) is not None
    assert incompatibility(of("cp932"), of("cp932")) is None
    assert incompatibility(of("cp932"), of("utf8mb4")) is None
