"""Columns of the lake's tables: the journal's and the table's own, and the names that they can't have."""

import re

import pytest

from pipeline.errors import Definite
from pipeline.lake.tables.columns import META_COLUMNS, LakeColumn, columns
from pipeline.lake.tables.tier import Tier
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.types.column_types import Integer, Text
from tests.pipeline.hostile_names import COLUMNS, REFUSED, random_columns

INT = Integer(8, unsigned=False)
ORDERS = TableSchema(
    TableId("shop", "orders"),
    (Column("id", INT, False), Column("part", Text("utf8mb4"), False), Column("v", INT, True)),
    (1, 0),
)


def test_columns_of_both_tiers() -> None:
    own = (LakeColumn("id", "BIGINT"), LakeColumn("part", "STRING"), LakeColumn("v", "BIGINT"))
    assert columns(ORDERS, Tier.MIRROR) == own
    assert columns(ORDERS, Tier.CHANGELOG) == (*META_COLUMNS, *own)
    assert META_COLUMNS[-2:] == (LakeColumn("__absent", "ARRAY<STRING>"), LakeColumn("__segment", "BIGINT"))


def of(*names: str) -> TableSchema:
    return TableSchema(TableId("shop", "odd"), tuple(Column(name, INT, True) for name in names), (0,))


@pytest.mark.parametrize("names", [*REFUSED, ("id", "ID")])
def test_a_column_that_would_be_taken_for_another_is_refused(names: tuple[str, ...]) -> None:
    for tier in Tier:
        with pytest.raises(Definite, match=f"{re.escape(repr(names[-1]))} of shop.odd"):
            columns(of(*names), tier)


def test_no_other_name_is_refused() -> None:
    for names in (COLUMNS, random_columns(1, 200)):
        assert [column.name for column in columns(of(*names), Tier.MIRROR)] == list(names)
