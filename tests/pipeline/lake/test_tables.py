"""The lake's names and statements."""

import re

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import Definite
from pipeline.lake.tables import (
    META_COLUMNS,
    LakeColumn,
    Property,
    Tier,
    begin_sql,
    columns,
    create_sql,
    location,
    spark_type,
)
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.types.column_types import Integer, Text, arrow_type
from tests.pipeline.hostile_names import COLUMNS, REFUSED, random_columns

INT = Integer(8, unsigned=False)
ORDERS = TableSchema(
    TableId("shop", "orders"),
    (Column("id", INT, False), Column("part", Text("utf8mb4"), False), Column("v", INT, True)),
    (1, 0),
)


@given(
    names=st.lists(st.tuples(st.text(max_size=5), st.text(max_size=5)), min_size=2, max_size=2, unique=True)
)
def test_paths_are_plain_and_never_shared(names: list[tuple[str, str]]) -> None:
    paths = [location("lake/", TableId(*name), Tier.MIRROR) for name in names]
    assert paths[0] != paths[1]
    for path in paths:
        assert re.fullmatch(
            r"lake/([A-Za-z0-9~-][A-Za-z0-9_~-]*)?/([A-Za-z0-9~-][A-Za-z0-9_~-]*)?/mirror", path
        )


def test_the_longest_names_have_paths_of_their_own_that_every_filesystem_takes() -> None:
    longest = "漢" * 63
    paths = {location("lake", TableId("d" * 64, longest + end), Tier.MIRROR) for end in "字漢あa"}
    assert len(paths) == 4
    for path in paths:
        assert all(len(name) <= 255 for name in path.split("/"))
        assert re.fullmatch(r"lake/d{64}/(~[0-9A-F]{2})+~?[0-9A-F]?~~[0-9a-f]{32}/mirror", path)


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


def test_types() -> None:
    assert spark_type(arrow_type(Integer(8, unsigned=True))) == "DECIMAL(20,0)"
    assert spark_type(pa.list_(pa.float32())) == "ARRAY<FLOAT>"
    assert spark_type(pa.struct([("a", pa.int64()), ("b", pa.binary())])) == "STRUCT<a:BIGINT,b:BINARY>"
    assert spark_type(pa.timestamp("us")) == "TIMESTAMP_NTZ"
    assert spark_type(pa.timestamp("us", tz="UTC")) == "TIMESTAMP"


def test_statements_that_make_and_change_tables() -> None:
    assert create_sql("a`b", Tier.CHANGELOG, (LakeColumn("x y", "INT"),), {}) == (
        "CREATE TABLE IF NOT EXISTS delta.`a``b` (`x y` INT) USING delta TBLPROPERTIES "
        "('delta.deletedFileRetentionDuration' = 'interval 24 hours', "
        "'delta.logRetentionDuration' = 'interval 24 hours', 'delta.columnMapping.mode' = 'name')"
    )
    of = (LakeColumn("x", "INT"), LakeColumn("y", "DATE"))
    assert begin_sql("p", Tier.MIRROR, of, {Property.SINCE: "7"}) == (
        "CREATE OR REPLACE TABLE delta.`p` USING delta TBLPROPERTIES ("
        "'delta.enableDeletionVectors' = 'true', 'tidemark.since' = '7') "
        "AS SELECT CAST(NULL AS INT) AS `x`, CAST(NULL AS DATE) AS `y` WHERE false"
    )
