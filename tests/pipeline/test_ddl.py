"""Which captured tables a statement may be about, and of which it changes rows without an event."""

import pytest

from pipeline.ddl import changed_unlogged, is_harmless, touched
from pipeline.schema import TableId
from pipeline.table_patterns import Tables
from pipeline.unlogged import Effect

SHOP = Tables((r"shop\..*",))
MET = TableId("Shop", "Met")
ORDERS, ITEMS = TableId("shop", "orders"), TableId("shop", "items")

# -- which tables may it be about?


def names(text: str, database: str = "") -> set[str]:
    return {str(table) for table in touched(SHOP, {MET}, database, text)}


@pytest.mark.parametrize(
    ("text", "database", "wanted"),
    [
        ("ALTER TABLE shop.orders ADD x INT", "", {"shop.orders"}),
        ("ALTER TABLE `shop` . `or``ders` ADD x INT", "", {"shop.or`ders"}),
        ('ALTER TABLE "shop"."orders" ADD x INT', "", {"shop.orders"}),
        ("alter table /*!40000 shop.orders */ add x int", "", {"shop.orders"}),
        ("ALTER TABLE other.orders -- shop.orders\n ADD x INT /* shop.items */ # shop.y", "", set()),
        ("ALTER TABLE other.t COMMENT 'shop.orders'", "", set()),
        # The string ends at the backslash's quote if NO_BACKSLASH_ESCAPES is set.
        ("ALTER TABLE other.t COMMENT 'it''s \\' shop.orders'", "", {"shop.orders"}),
        ("ALTER TABLE other.t COMMENT 'a\\\\', RENAME shop.orders", "", {"shop.orders"}),
        ("RENAME TABLE other.t TO shop/* to here */.orders", "", {"shop.orders"}),
        ("RENAME TABLE other.t TO orders", "shop", {"shop.orders"}),
        ("ALTER TABLE other.t ADD shop INT, ADD orders INT", "", set()),
        ("ALTER TABLE MET ADD x INT", "other", {"Shop.Met"}),
        ("DROP DATABASE shop", "", {"Shop.Met"}),
        ("ALTER TABLE shop.x TABLESPACE y", "", {"shop.x"}),
        ("ALTER TABLE \ufffd ADD x INT", "other", {"Shop.Met"}),
    ],
)
def test_a_statement_touches_what_it_names(text: str, database: str, wanted: set[str]) -> None:
    got = names(text, database)
    if wanted:
        assert wanted <= got
    else:
        assert got == set()


def test_a_statement_on_other_databases_touches_nothing() -> None:
    assert names("CREATE TABLE things (id INT)", "other") == set()
    assert names("CREATE TABLE things (id INT)", "shop") >= {"shop.things"}


def test_what_changes_no_columns() -> None:
    assert is_harmless("/* daily */ truncate table shop.orders")
    assert is_harmless("GRANT ALL ON shop.* TO u")
    assert not is_harmless("ALTER TABLE shop.orders FORCE")
    assert not is_harmless("")


def test_a_sessions_own_table_is_another_one() -> None:
    assert is_harmless("DROP /*!40005 TEMPORARY */ TABLE IF EXISTS `orders`")
    assert is_harmless("CREATE TEMPORARY TABLE shop.orders (a INT)")
    assert not is_harmless("DROP /*!99999 TEMPORARY */ TABLE IF EXISTS `orders`")  # only to newer servers
    assert not is_harmless("DROP TABLE temporary")
    assert not is_harmless("DROP /* TEMPORARY */ TABLE orders")
    assert not is_harmless("ALTER TEMPORARY")


# -- of which does it change rows?


@pytest.mark.parametrize(
    ("text", "database", "changed"),
    [
        ("DROP TABLE shop.orders", "", {"shop.orders"}),
        ("DROP TABLE IF EXISTS orders, other.items", "shop", {"shop.orders"}),
        ("DROP TABLE other.orders", "shop", set()),
        ("TRUNCATE orders", "other", set()),
        ("DROP TABLE shop.unmet", "", set()),  # nothing of it is here
        ("DROP TABLE SHOP.MET", "", {"Shop.Met"}),
        ("DROP DATABASE shop", "", {"Shop.Met", "shop.items", "shop.orders"}),
        ("DROP DATABASE other", "shop", set()),
        ("RENAME TABLE shop.orders TO other.orders", "", {"shop.orders"}),
        ("RENAME TABLE other.orders TO shop.new", "", set()),
        ("RENAME TABLE other.orders TO shop.items", "", {"shop.items"}),
        ("RENAME TABLE other.a TO other.b", "shop", set()),
        ("ALTER TABLE other.a EXCHANGE PARTITION p WITH TABLE shop.items", "", {"shop.items"}),
        # Where it can't be read, what it may be about.
        ("DROP TABLE shop.orders shop.items", "", {"shop.items", "shop.orders"}),
        ("DROP TABLE \ufffd", "shop", {"Shop.Met", "shop.items", "shop.orders"}),
        ("CREATE TABLE shop.orders LIKE shop.items", "", set()),
    ],
)
def test_of_which_tables_it_changes_rows(text: str, database: str, changed: set[str]) -> None:
    got = changed_unlogged(SHOP, {ORDERS, ITEMS, MET}, database, text)
    assert {str(table) for table in got} == changed


def test_tables_that_differ_by_case_alone_are_two_where_both_are_known() -> None:
    upper = TableId("shop", "ORDERS")
    assert set(changed_unlogged(SHOP, {ORDERS, upper}, "shop", "DROP TABLE ORDERS")) == {upper}


@pytest.mark.parametrize(
    ("text", "effect"),
    [
        ("TRUNCATE orders", Effect.EMPTIED),
        ("DROP TABLE orders", Effect.EMPTIED),
        ("DROP DATABASE shop", Effect.EMPTIED),
        ("RENAME TABLE orders TO gone", Effect.EMPTIED),
        ("RENAME TABLE orders TO gone, new TO orders", Effect.CHANGED),
        ("ALTER TABLE orders ADD x INT DEFAULT 1", Effect.CHANGED),
        ("ALTER TABLE orders MODIFY v VARCHAR(3)", Effect.CHANGED),
        ("ALTER TABLE orders CHANGE v w INT", Effect.CHANGED),
        ("ALTER TABLE orders CONVERT TO CHARACTER SET latin1", Effect.CHANGED),
        ("ALTER TABLE orders ENGINE=BLACKHOLE, ADD x INT DEFAULT 1", Effect.LOST),
        # Nobody knows whether the server dropped it, or a table of the session.
        ("DROP /*!99999 TEMPORARY */ TABLE orders", Effect.CHANGED),
        ("DROP TABLE items /*!99999 , orders */", Effect.CHANGED),
        ("/*!99999 ALTER TABLE orders ENGINE=BLACKHOLE */", Effect.LOST),
        ("DROP TABLE orders items", Effect.CHANGED),
    ],
)
def test_what_becomes_of_the_rows(text: str, effect: Effect) -> None:
    assert changed_unlogged(SHOP, {ORDERS, ITEMS}, "shop", text)[ORDERS].effect is effect
