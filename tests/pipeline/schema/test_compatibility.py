"""Which schema changes leave a table's rows as they are."""

from dataclasses import replace

import pytest

from pipeline.schema.compatibility import incompatibility
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.types import column_types as t
from pipeline.types.lake_forms import LakeForm

INT = t.Integer(8, unsigned=False)
ID = Column("id", INT, False)
V1 = TableSchema(TableId("shop", "orders"), (ID, Column("note", t.Text("utf8mb4"), True)), (0,))


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
            replace(V1, columns=(replace(ID, type=t.Float()), V1.columns[1])),
            "column 'id' of shop",
        ),
    ],
)
def test_what_does_not_is_told(new: TableSchema, told: str) -> None:
    assert (incompatibility(V1, new) or "").startswith(told)


@pytest.mark.parametrize(
    ("old", "new", "kept"),
    [
        (t.Text("latin1"), t.Text("utf8mb4"), True),
        (t.Enum(("a", "b")), t.Enum(("a", "b", "c")), True),
        (t.Enum(("a", "b")), t.Enum(("b", "a")), False),
        (t.Enum(("a",)), t.Text("utf8mb4"), False),
        (t.DateTime(0), t.DateTime(6), True),
        (t.DateTime(6), t.DateTime(0), False),
        (t.FixedBinary(4), t.FixedBinary(8), False),
        (t.Bit(9), t.Bit(16), True),
        (t.Bit(8), t.Bit(9), False),
        (t.Decimal(40, 2), t.Decimal(65, 2), True),
        (t.Decimal(40, 2), t.Decimal(40, 3), False),
        (t.Decimal(38, 2), t.Decimal(39, 2), False),
        (t.Decimal(10, 2), t.Decimal(12, 4), True),
        (t.Decimal(10, 2), t.Decimal(10, 3), True),
        (t.Decimal(12, 4), t.Decimal(12, 2), False),
        (t.Integer(4, unsigned=False), INT, True),
        (INT, t.Integer(1, unsigned=True), True),
        (INT, t.Integer(8, unsigned=True), True),
        (INT, t.Decimal(30, 2), True),
        (INT, t.Decimal(65, 2), False),
        (t.Integer(4, unsigned=False), t.Double(), True),
        (t.Integer(4, unsigned=True), t.Double(), False),
        (INT, t.Double(), False),
        (t.Double(), INT, False),
        (t.Float(), t.Double(), True),
        (t.Double(), t.Float(), False),
        (t.Year(), INT, True),
        (t.Date(), t.DateTime(3), True),
        (t.DateTime(0), t.Date(), False),
        (INT, t.Text("utf8mb4"), False),
    ],
)
def test_a_column_may_change_where_its_values_do_not(
    old: t.ColumnType, new: t.ColumnType, kept: bool
) -> None:
    before, after = (replace(V1, columns=(ID, Column("c", type_, True))) for type_ in (old, new))
    assert (incompatibility(before, after) is None) is kept


def test_a_character_set_that_changes_a_character_does_not_keep_values() -> None:
    def of(charset: str) -> TableSchema:
        return TableSchema(TableId("d", "t"), (Column("c", t.Text(charset), True),), ())

    assert incompatibility(of("utf8mb4"), of("cp932")) is not None
    assert incompatibility(of("cp932"), of("cp932")) is None
    assert incompatibility(of("cp932"), of("utf8mb4")) is None


def test_a_column_of_another_form_does_not_keep_values() -> None:
    tiny, flag = (Column("c", t.Integer(1, unsigned=False), True, form) for form in (None, LakeForm.BOOLEAN))
    before, after = (replace(V1, columns=(ID, column)) for column in (tiny, flag))
    for one, other in ((before, after), (after, before)):
        why = incompatibility(one, other)
        assert why is not None
        assert why.startswith("lake.types has type = \"boolean\" for column 'c'")
    assert incompatibility(after, after) is None
