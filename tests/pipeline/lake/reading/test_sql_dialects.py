"""The SQL of the engines: each one's text of the live view is parsed by a grammar of that engine."""

import re

import pytest
import sqlglot
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import expressions as parts

from pipeline.errors import Definite
from pipeline.lake.live_view import MirrorPosition, Versions, live_view_sql
from pipeline.lake.reading.sql_dialects import Dialect, registered_tables, registration, view_sql
from pipeline.lake.tables.tier import Tier
from pipeline.schema.table_schema import TableId
from tests.pipeline.live_view_cases import SCHEMA


def grammar(dialect: Dialect) -> str:
    """What parses a dialect; DataFusion's SQL is near to PostgreSQL's."""
    return "postgres" if dialect is Dialect.DELTA_RS else dialect.value


@pytest.mark.parametrize("dialect", Dialect)
@pytest.mark.parametrize("at", [None, Versions(3, 5)])
@pytest.mark.parametrize("partial", [False, True])
def test_each_text_is_one_query_of_its_engine(dialect: Dialect, at: Versions | None, partial: bool) -> None:
    text = live_view_sql("lake", SCHEMA, MirrorPosition(2, 7, partial), at, dialect)
    (query,) = sqlglot.parse(text, read=grammar(dialect))
    assert isinstance(query, parts.Union)
    assert query.named_selects == [column.name for column in SCHEMA.columns]


@given(name=st.text(min_size=1))
def test_identifiers_and_literals_are_read_as_what_was_meant(name: str) -> None:
    for dialect in Dialect:
        said = f"SELECT {dialect.text(name)} AS {dialect.name_of(name)}"
        query = sqlglot.parse_one(said, read=grammar(dialect))
        assert isinstance(query, parts.Select)
        (told,) = query.selects
        assert told.alias == name
        assert told.this.this == name


def test_a_table_by_its_path_or_its_name() -> None:
    orders = TableId("shop", "orders")
    assert Dialect.SPARK.table("s3a://l", orders, Tier.MIRROR, 7) == (
        "delta.`s3a://l/shop/orders/mirror` VERSION AS OF 7"
    )
    assert Dialect.DUCKDB.table("/l", orders, Tier.MIRROR) == "delta_scan('/l/shop/orders/mirror')"
    assert Dialect.DUCKDB.table("/l", orders, Tier.MIRROR, 7) == (
        "delta_scan('/l/shop/orders/mirror', version := 7)"
    )
    assert Dialect.DUCKDB.table("s3a://l", orders, Tier.MIRROR) == "delta_scan('s3://l/shop/orders/mirror')"
    assert Dialect.TRINO.table("/l", orders, Tier.MIRROR, 7) == (
        '"delta"."shop"."orders_mirror" FOR VERSION AS OF 7'
    )


def test_tables_that_differ_by_case_are_two_in_trino() -> None:
    small, *others = (
        Dialect.TRINO.table("/l", TableId(database, name), Tier.MIRROR).lower()
        for database, name in (("shop", "orders"), ("shop", "Orders"), ("Shop", "orders"), ("shop", "ORDERS"))
    )
    assert small == '"delta"."shop"."orders_mirror"'
    assert len({small, *others}) == 4
    for statement in registration("/l", TableId("shop", "Orders")):
        (name,) = re.findall(r"table_name => '(\w+)'", statement)
        assert f'"{name}"' in Dialect.TRINO.table(
            "/l", TableId("shop", "Orders"), Tier(name.rpartition("_")[2])
        )


def test_trino_is_told_both_tables() -> None:
    changelog, mirror = registration("s3://l", TableId("shop", "it's"))
    assert "schema_name => 'shop', table_name => 'it''s_changelog'" in changelog
    assert mirror.endswith("table_location => 's3://l/shop/it~27s/mirror')")


def test_a_view_has_the_name_of_its_table_in_a_schema_that_is_made_first() -> None:
    orders = TableId("shop", "Orders")
    for dialect, schema, name in (
        (Dialect.SPARK, "`shop`", "`shop`.`Orders`"),
        (Dialect.DUCKDB, '"shop"', '"shop"."Orders"'),
        (Dialect.TRINO, '"delta"."shop"', '"delta"."shop"."orders_'),
    ):
        first, second = view_sql(orders, "SELECT 1 AS id", dialect)
        assert first == f"CREATE SCHEMA IF NOT EXISTS {schema}"
        assert second.startswith(f"CREATE OR REPLACE VIEW {name}")
        (made,) = sqlglot.parse(second, read=dialect.value)
        assert isinstance(made, parts.Create)
    with pytest.raises(Definite, match=r"shop\.é can't have a view"):
        view_sql(TableId("shop", "é"), "SELECT 1", Dialect.SPARK)
    with pytest.raises(Definite, match="delta-rs keeps no views"):
        view_sql(orders, "SELECT 1", Dialect.DELTA_RS)


def test_delta_rs_is_told_each_table_and_version() -> None:
    told = registered_tables("/l", TableId("shop", "it's"), (Tier.MIRROR, Tier.CHANGELOG), {Tier.MIRROR: 3})
    assert told == (
        """register('"shop.it\\'s.mirror"', DeltaTable('/l/shop/it~27s/mirror', version=3))""",
        """register('"shop.it\\'s.changelog"', DeltaTable('/l/shop/it~27s/changelog'))""",
    )
