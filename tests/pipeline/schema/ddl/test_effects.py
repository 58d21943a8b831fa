"""Which captured tables a statement may be about, and of which it changes rows without an event."""

from dataclasses import replace

import pytest

from pipeline.schema.ddl.effects import changed_unlogged, may_alter
from pipeline.schema.ddl.statement_kinds import parse_logged
from pipeline.schema.ddl.statement_scope import StatementScope
from pipeline.schema.ddl.unlogged_changes import Effect
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import TableId

SHOP = TableFilter((r"shop\..*",))
MET = TableId("Shop", "Met")
ORDERS, ITEMS = TableId("shop", "orders"), TableId("shop", "items")

# -- which tables may it be about?


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("/* daily */ truncate table shop.orders", set()),
        ("GRANT ALL ON shop.* TO u", set()),
        ("OPTIMIZE TABLE orders", set()),
        ("ALTER TABLE shop.orders FORCE", {"shop.orders"}),
        ("ALTER TABLE shop.orders RENAME TO shop.new", {"shop.orders", "shop.new"}),
        ("RENAME TABLE other.a TO shop.new", {"shop.new"}),
        ("CREATE TABLE IF NOT EXISTS shop.new (id INT REFERENCES shop.orders (id))", {"shop.new"}),
        ("CREATE TABLE shop.new LIKE shop.orders", {"shop.new"}),
        ("CREATE UNIQUE INDEX items ON orders (a)", {"shop.orders"}),
        ("DROP INDEX items ON orders", {"shop.orders"}),
        ("CREATE OR REPLACE ALGORITHM=MERGE DEFINER=`a`@`%` SQL SECURITY DEFINER VIEW v AS SELECT 1", set()),
        ("CREATE DEFINER=CURRENT_USER() TRIGGER orders BEFORE INSERT ON items FOR EACH ROW SET @a=1", set()),
        ("DROP DATABASE shop", {"shop.orders", "shop.items"}),
        # A session's own table is another one.
        ("DROP /*!40005 TEMPORARY */ TABLE IF EXISTS `orders`", set()),
        ("CREATE TEMPORARY TABLE shop.orders (a INT)", set()),
        ("DROP /*!99999 TEMPORARY */ TABLE IF EXISTS `orders`", {"shop.orders"}),  # only to newer servers
        ("DROP /* TEMPORARY */ TABLE orders", {"shop.orders"}),
        # What isn't listed may alter what it names.
        ("UPGRADE TABLE shop.orders", {"shop.orders"}),
        # A MERGE table changes rows of those in its UNION.
        ("CREATE TABLE other.m (id INT) ENGINE=MERGE UNION=(other.a, shop.orders)", {"shop.orders"}),
        ("ALTER TABLE other.m Union (`shop`.`items`)", {"shop.items"}),
        ("CREATE VIEW v AS SELECT id FROM orders UNION SELECT id FROM items", set()),
        ("ALTER TEMPORARY shop.orders", {"shop.orders"}),
        ("", set()),
    ],
)
def test_which_tables_it_may_alter(text: str, wanted: set[str]) -> None:
    shop = TableFilter((r"shop\.(orders|items|new)",))
    assert {
        t.dotted for t in may_alter(StatementScope(shop, {ORDERS, ITEMS}), parse_logged("shop", text))
    } == wanted


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
        ("RENAME TABLE other.orders TO shop.new", "", set()),  # nothing of it is here, too
        ("REPAIR TABLE shop.orders QUICK", "", {"shop.orders"}),
        ("DELETE FROM `shop`.`orders`", "", {"shop.orders"}),
        ("UPDATE orders SET a = 1", "shop", {"shop.orders"}),
        ("SHUFFLE TABLE shop.orders", "", {"shop.orders"}),
        ("RENAME TABLE other.orders TO shop.items", "", {"shop.items"}),
        ("RENAME TABLE other.a TO other.b", "shop", set()),
        ("ALTER TABLE other.a EXCHANGE PARTITION p WITH TABLE shop.items", "", {"shop.items"}),
        # Where it can't be read, what it may be about.
        ("DROP TABLE shop.orders shop.items", "", {"shop.items", "shop.orders"}),
        ("DROP TABLE \ufffd", "shop", {"Shop.Met", "shop.items", "shop.orders"}),
        ("CREATE TABLE shop.orders LIKE shop.items", "", {"shop.orders"}),
        ("CREATE TABLE IF NOT EXISTS shop.orders LIKE shop.items", "", set()),
        ("CREATE TABLE /*!32312 IF NOT EXISTS */ shop.orders (id INT)", "", set()),
        ("CREATE INDEX i ON shop.orders (a)", "", set()),
    ],
)
def test_of_which_tables_it_changes_rows(text: str, database: str, changed: set[str]) -> None:
    got = changed_unlogged(StatementScope(SHOP, {ORDERS, ITEMS, MET}), parse_logged(database, text))
    assert {table.dotted for table in got} == changed


def test_tables_that_differ_by_case_alone_are_two_where_both_are_known() -> None:
    upper = TableId("shop", "ORDERS")
    assert set(
        changed_unlogged(StatementScope(SHOP, {ORDERS, upper}), parse_logged("shop", "DROP TABLE ORDERS"))
    ) == {upper}


@pytest.mark.parametrize(
    "text",
    [
        "RENAME TABLE stage.Orders TO shop.Orders",
        "CREATE TABLE SHOP.ORDERS (id INT)",
        "ALTER TABLE x RENAME Orders",
    ],
)
def test_a_new_table_may_be_stored_in_small_letters(text: str) -> None:
    only_orders = TableFilter((r"shop\.orders",))
    statement = parse_logged("shop", text)
    assert may_alter(StatementScope(only_orders, ()), statement) == {ORDERS}
    assert may_alter(StatementScope(only_orders, (), folds=False), statement) == set()
    # One that is stored as it's written may be captured too.
    either = TableFilter((r"(?i)shop\.orders",))
    assert ORDERS in may_alter(StatementScope(either, ()), statement)
    assert may_alter(StatementScope(either, (), lowers=True), statement) == {ORDERS}


def test_a_spelling_that_is_none_hides_no_known_table() -> None:
    """The server hasn't said yet that it has no table by the spelling of a statement before."""
    phantom = TableId("shop", "Orders")
    names = StatementScope(SHOP, {ORDERS, phantom})
    assert may_alter(names, parse_logged("shop", "ALTER TABLE Orders ADD x INT")) == {ORDERS, phantom}


def effects(text: str, *known: TableId) -> dict[TableId, Effect]:
    """What the statement does to the rows of these tables on a server that folds names."""
    folding = changed_unlogged(StatementScope(SHOP, known), parse_logged("shop", text))
    return {table: each.effect for table, each in folding.items()}


@pytest.mark.parametrize("text", ["TRUNCATE `ÄPFEL`", "DROP TABLE Äpfel", "ALTER TABLE ÄPFEL RENAME TO x"])
def test_a_match_by_folding_letters_beyond_ascii_may_change_rows_and_never_takes_them(text: str) -> None:
    apples = TableId("shop", "äpfel")
    assert effects(text, apples) == {apples: Effect.CHANGED}


def test_a_name_that_may_mean_two_known_tables_takes_no_rows() -> None:
    upper = TableId("shop", "ORDERS")
    assert effects("TRUNCATE Orders", ORDERS, upper) == dict.fromkeys((ORDERS, upper), Effect.CHANGED)
    other = TableId("SHOP", "orders")
    assert effects("DROP DATABASE SHOP", ORDERS, other) == {ORDERS: Effect.CHANGED, other: Effect.EMPTIED}


@pytest.mark.parametrize(
    "text",
    ["DROP TABLE Orders", "TRUNCATE SHOP.orders", "DROP DATABASE SHOP", "ALTER TABLE Orders RENAME TO x"],
)
def test_a_server_that_folds_names_means_a_table_by_any_case_of_ascii_letters(text: str) -> None:
    assert effects(text, ORDERS) == {ORDERS: Effect.EMPTIED}
    # A server that compares names exactly means another one.
    assert changed_unlogged(StatementScope(SHOP, {ORDERS}, folds=False), parse_logged("shop", text)) == {}
    assert ORDERS not in may_alter(StatementScope(SHOP, {ORDERS}, folds=False), parse_logged("shop", text))


@pytest.mark.parametrize(
    ("text", "effect"),
    [
        ("TRUNCATE orders", Effect.EMPTIED),
        ("DELETE FROM `shop`.`orders`", Effect.CHANGED),
        ("DELETE FROM `shop`.`orders` WHERE id = 1", Effect.CHANGED),
        ("INSERT INTO orders VALUES (1)", Effect.CHANGED),
        ("ALTER IGNORE TABLE orders ADD UNIQUE KEY (x)", Effect.CHANGED),
        ("ALTER TABLE orders UNION=(items)", Effect.CHANGED),
        ("DROP TABLE orders", Effect.EMPTIED),
        ("DROP DATABASE shop", Effect.EMPTIED),
        ("RENAME TABLE orders TO gone", Effect.EMPTIED),
        ("RENAME TABLE orders TO gone, new TO orders", Effect.CHANGED),
        ("ALTER TABLE orders MODIFY x TEXT, RENAME TO gone", Effect.EMPTIED),
        ("ALTER TABLE orders RENAME gone, ENGINE = MEMORY, CONVERT TO CHARACTER SET utf8mb4", Effect.EMPTIED),
        ("ALTER TABLE orders MODIFY x TEXT, RENAME TO orders", Effect.CHANGED),
        ("ALTER TABLE orders ADD x INT DEFAULT 1", Effect.EXTENDED),
        ("ALTER TABLE orders ADD x INT DEFAULT 1, ADD (y INT, z INT NOT NULL), DROP w", Effect.EXTENDED),
        ("ALTER TABLE orders ADD x INT DEFAULT (1)", Effect.CHANGED),
        ("ALTER TABLE orders ADD x INT DEFAULT 1, ADD y DATETIME DEFAULT NOW()", Effect.CHANGED),
        ("ALTER TABLE orders ADD x INT DEFAULT 1, DROP x", Effect.CHANGED),
        ("ALTER IGNORE TABLE orders ADD x INT DEFAULT 1", Effect.CHANGED),
        ("ALTER TABLE Orders ADD x INT DEFAULT 1", Effect.EXTENDED),
        ("ALTER TABLE orders ADD x INT /*!99999 DEFAULT 1 */", Effect.CHANGED),
        ("ALTER TABLE orders MODIFY v VARCHAR(3)", Effect.CHANGED),
        ("ALTER TABLE orders CHANGE v w INT", Effect.CHANGED),
        ("ALTER TABLE orders CONVERT TO CHARACTER SET latin1", Effect.CHANGED),
        ("ALTER TABLE orders ENGINE=BLACKHOLE, ADD x INT DEFAULT 1", Effect.CHANGED),
        # Nobody knows whether the server dropped it, or a table of the session.
        ("DROP /*!99999 TEMPORARY */ TABLE orders", Effect.CHANGED),
        ("DROP TABLE items /*!99999 , orders */", Effect.CHANGED),
        ("/*!99999 ALTER TABLE orders ENGINE=BLACKHOLE */", Effect.CHANGED),
        ("DROP TABLE orders items", Effect.CHANGED),
        # The server leaves `/*!99999 … */` out as a whole, with the comment in it, and logs it without its sign.
        ("RENAME TABLE items TO gone /* 99999 x /* y */, orders TO x */", Effect.CHANGED),
        ("RENAME TABLE items TO gone /* 99999 x /* y */ ' */, orders TO x", Effect.CHANGED),
        ("CREATE TABLE orders (id INT)", Effect.CREATED),
        ("CREATE TABLE orders LIKE items", Effect.CREATED),
        ("CREATE TABLE Orders (id INT)", Effect.CREATED),
    ],
)
def test_what_becomes_of_the_rows(text: str, effect: Effect) -> None:
    assert (
        changed_unlogged(StatementScope(SHOP, {ORDERS, ITEMS}), parse_logged("shop", text))[ORDERS].effect
        is effect
    )


@pytest.mark.parametrize(
    "text",
    [
        "ALTER TABLE orders ENGINE=InnoDB",
        "ALTER TABLE Orders ENGINE = `MyISAM`",
        "ALTER TABLE orders ENGINE = `MyISAM`, ADD x INT DEFAULT 1",
        "ALTER TABLE orders PARTITION BY HASH (id) (PARTITION p ENGINE = InnoDB)",
        "ALTER TABLE orders ADD PARTITION (PARTITION p VALUES IN (1) ENGINE InnoDB)",
    ],
)
def test_an_engine_may_bring_other_rows_only_behind_one_that_is_not_known(text: str) -> None:
    scope = StatementScope(SHOP, {ORDERS, ITEMS})
    unknown = replace(scope, unknown_engines={ORDERS})
    found = changed_unlogged(unknown, parse_logged("shop", text))
    assert {table: each.effect for table, each in found.items()} == {ORDERS: Effect.CHANGED}
    assert Effect.CHANGED not in {
        each.effect for each in changed_unlogged(scope, parse_logged("shop", text)).values()
    }


def test_a_creation_that_failed_changes_nothing() -> None:
    text = "CREATE TABLE orders (id INT)"
    assert (
        changed_unlogged(StatementScope(SHOP, {ORDERS, ITEMS}), parse_logged("shop", text), failed=True) == {}
    )


@pytest.mark.parametrize("text", ["DROP TABLE orders, items", "ALTER TABLE orders ADD x INT NOT NULL"])
def test_the_effects_of_a_statement_that_failed_are_not_certain(text: str) -> None:
    found = changed_unlogged(StatementScope(SHOP, {ORDERS, ITEMS}), parse_logged("shop", text), failed=True)
    assert ORDERS in found
    assert {each.effect for each in found.values()} == {Effect.CHANGED}
