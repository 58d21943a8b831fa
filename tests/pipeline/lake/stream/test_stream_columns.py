"""A stream's columns are the changelog's, and what the user chooses must be among them."""

from dataclasses import replace

import pyarrow as pa
import pytest

from pipeline.errors import Definite
from pipeline.lake.stream.source_options import WrongOption
from pipeline.lake.stream.stream_columns import check_wanted, stream_ddl
from pipeline.schema.table_schema import Column, TableId, TableSchema
from tests.pipeline.lake.stream.entries import ID, ITEMS, ORDERS

META = (
    "`__op` STRING, `__scn` BIGINT, `__ordinal` INT, `__gtid` STRING, `__commit_time` TIMESTAMP, `__chunk` STRING, "
    "`__absent` ARRAY<STRING>, `__segment` BIGINT"
)
ONE = {ORDERS.table: ORDERS}
BOTH = {ORDERS.table: ORDERS, ITEMS.table: ITEMS}


def test_one_table_has_the_columns_of_its_changelog() -> None:
    assert stream_ddl(ONE, several=False) == f"{META}, `id` INT, `note` STRING"


def test_several_tables_have_a_struct_in_their_databases() -> None:
    assert stream_ddl(BOTH, several=True) == (
        f"`__table` STRING, {META}, `shop` STRUCT<`orders`: STRUCT<`id`: INT, `note` STRING>, "
        "`items`: STRUCT<`id`: INT>>"
    ).replace("`note` STRING", "`note`: STRING")


def named(database: str, name: str, column: str = "x") -> TableSchema:
    return TableSchema(TableId(database, name), (ID, Column(column, ID.type, True)), (0,))


@pytest.mark.parametrize(
    "others",
    [(named("shop", "ORDERS"),), (named("SHOP", "a"),), (named("__OP", "a"),), (named("__table", "a"),)],
)
def test_names_that_spark_takes_for_one_are_refused(others: tuple[TableSchema, ...]) -> None:
    with pytest.raises(WrongOption, match="read one of the tables in a stream of its own"):
        stream_ddl({schema.table: schema for schema in (ORDERS, *others)}, several=True)


def test_a_column_that_no_lake_table_can_have_is_refused() -> None:
    for several in (False, True):
        schema = named("shop", "orders", "__OP")
        with pytest.raises(Definite, match="has the name of a column that Tidemark adds"):
            stream_ddl({schema.table: schema}, several=several)


def test_the_user_may_choose_columns_that_there_are() -> None:
    check_wanted(pa.schema([("__scn", pa.int64()), ("note", pa.string())]), ONE, several=False)
    item = pa.struct([("id", pa.int32())])
    check_wanted(
        pa.schema([("__table", pa.string()), ("shop", pa.struct([("items", item)]))]), BOTH, several=True
    )


@pytest.mark.parametrize(
    ("wanted", "several", "said"),
    [
        ([("notes", pa.string())], False, "shop.orders has no column 'notes'; it has id, note"),
        ([("__scn", pa.int32())], False, "__scn is BIGINT; give it this type"),
        ([("id", pa.int32())], True, "'id' is no table of the option tables; leave it out"),
        ([("shop", pa.struct([("x", pa.struct([]))]))], True, "'shop.x' is no table of the option tables"),
        (
            [("shop", pa.struct([("orders", pa.int32())]))],
            True,
            "'shop.orders' is no table of the option tables",
        ),
        (
            [("shop", pa.struct([("items", pa.struct([("x", pa.int32())]))]))],
            True,
            "shop.items has no column 'x'; it has id",
        ),
    ],
)
def test_a_wrong_choice_is_named(wanted: list[tuple[str, pa.DataType]], several: bool, said: str) -> None:
    with pytest.raises(WrongOption, match=said):
        check_wanted(pa.schema(wanted), BOTH if several else ONE, several=several)


def test_the_order_of_tables_is_the_users() -> None:
    other = replace(ITEMS, table=TableId("x", "y"))
    assert "`x` STRUCT<`y`: STRUCT<`id`: INT>>, `shop`" in stream_ddl(
        {other.table: other, **ONE}, several=True
    )
