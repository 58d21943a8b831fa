"""What a statement does to tables: they begin again, change their columns, stop, or stay as they are."""

from dataclasses import replace

import pytest

from pipeline.config.column_protection import UNPROTECTED, Protection, ProtectionRule, Treatment
from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.gtid_set import Gtid, Tsid
from pipeline.gtid.transactions import Transactions
from pipeline.messages.binlog import CreateTableSelectRead, LogAdvanced, TransactionsRead
from pipeline.messages.changes import ChangesVerified, MirrorInvalidated, SchemaChanged
from pipeline.messages.row_images import TableUnreadable
from pipeline.schema.ddl.alter_table import Alteration
from pipeline.schema.ddl.effects import Unlogged
from pipeline.schema.ddl.unlogged_changes import Effect
from pipeline.schema.known_schemas import KnownSchemas
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_map import FullMetadata
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.schema.table_traits import Traits
from pipeline.snapshot.checkpoint import Checkpoint
from pipeline.types.column_types import Binary, ColumnType, Integer, Text, Timestamp
from pipeline.verifier.handle_statements import restarts_after_statement
from pipeline.verifier.state import FromVerifier
from pipeline.verifier.step import tables_to_ask
from tests.pipeline.verifier.answers import start, step
from tests.pipeline.verifier.small_log import (
    FULL,
    MINIMAL,
    ORDERS,
    SCHEMA,
    SERVER,
    SHOP,
    answer,
    end,
    fresh,
    images,
    kinds,
    part,
    protecting,
    restarts,
    run,
    schemas,
    slice_,
    statement,
    stops,
    upto,
)
from tests.pipeline.verifier.test_cascades import B, C, D

# -- minimal metadata: the server is queried again


@pytest.mark.parametrize(
    "text",
    [
        "/* daily */ OPTIMIZE TABLE shop.orders",
        "ANALYZE TABLE shop.orders UPDATE HISTOGRAM ON state",
        "CHECK TABLE shop.orders",
        "FLUSH TABLES shop.orders",
        "GRANT SELECT ON shop.orders TO reader",
        "CREATE TABLE other.items LIKE shop.orders",
        "CREATE VIEW shop.latest AS SELECT * FROM shop.orders",
        "CREATE TRIGGER shop.each BEFORE INSERT ON shop.orders FOR EACH ROW SET @n = 1",
    ],
)
def test_a_statement_that_leaves_a_table_as_it_is_drops_none_of_its_windows(text: str) -> None:
    """The coordinator drops those of `tables`."""
    known = KnownSchemas({ORDERS: SCHEMA}, upto(5))
    said = run(fresh(known, position=5), statement(6, text, database=""), slice_(7, maps=(MINIMAL,)))
    assert kinds(said) == ["SchemaChanged", "SchemasVerified", "ChangesVerified"]
    assert said[0] == SchemaChanged(Gtid(SERVER, 6), frozenset(), text, end(6))


@pytest.mark.parametrize(
    "text", ["CREATE INDEX i ON orders (state)", "DROP INDEX i ON orders", "WHAT orders"]
)
def test_a_plan_may_stand_on_an_index_that_a_statement_changes(text: str) -> None:
    known = KnownSchemas({ORDERS: SCHEMA}, upto(5))
    [changed, *_] = run(fresh(known, position=5), statement(6, text))
    assert isinstance(changed, SchemaChanged)
    assert ORDERS in changed.tables


def test_a_created_and_filled_table_has_its_schema_from_an_answer_that_knows_its_transaction() -> None:
    known = KnownSchemas({}, upto(5))
    creation = CreateTableSelectRead("", "CREATE TABLE `shop`.`orders` (`id` int) START TRANSACTION")
    assert kinds(run(fresh(known, 5), creation, slice_(6))) == ["SchemasVerified", "ChangesVerified"]
    for first, rest in ((slice_(6, maps=(MINIMAL,)), []), (part(6, images(MINIMAL)), [slice_(6, maps=())])):
        state = fresh(known, 5)
        for message in (creation, first, *rest):
            state, said = step(state, message)
            assert said == ()
        assert tables_to_ask(state) == {ORDERS}
        state, said = step(state, answer(5, None))
        assert said == ()
        assert tables_to_ask(state) == {ORDERS}
        assert kinds(run(state, answer(6, SCHEMA)))[:2] == ["SchemasVerified", "SchemasVerified"]
        assert schemas(run(state, answer(6, SCHEMA))) == ([] if rest else [SCHEMA])


# -- statements that the journal keeps


def test_statements_on_captured_tables_are_told_if_they_are_kept() -> None:
    texts = (
        "ALTER TABLE orders ADD x INT",
        "CREATE USER orders IDENTIFIED BY 'secret'",
        "DROP TABLE other.t",
    )
    log = [statement(number, text, "shop") for number, text in enumerate(texts, 1)]
    for keeps, wanted in ((SHOP, [texts[:1], (), ()]), (None, [(), (), ()])):
        said = run(replace(fresh(), keeps=keeps), *log)
        told = [message.kept for message in said if isinstance(message, SchemaChanged)]
        assert [tuple(each.text for each in one) for one in told] == wanted


@pytest.mark.parametrize("split", [False, True])
def test_the_creation_of_a_filled_table_is_told_with_the_end_of_its_transaction(split: bool) -> None:
    text = "CREATE TABLE `shop`.`orders` (`id` int) START TRANSACTION"
    begins = Coordinates("binlog.000001", 4)
    parts = [part(6, images(FULL))] if split else []
    said = run(
        replace(fresh(), keeps=SHOP), CreateTableSelectRead("", text, begins, 9), *parts, slice_(6), slice_(7)
    )
    first, second = (message.creation for message in said if isinstance(message, ChangesVerified))
    assert first is not None and second is None
    assert (first.begins, first.server, [each.text for each in first.statements]) == (begins, 9, [text])


# -- rows that change without an event


@pytest.mark.parametrize(
    ("text", "what", "emptied"),
    [
        ("TRUNCATE orders", "TRUNCATE TABLE", True),
        ("REPAIR TABLE orders", "REPAIR TABLE", False),
        ("DROP TABLE items, orders", "DROP TABLE", True),
        ("DROP DATABASE shop", "DROP DATABASE", True),
        ("RENAME TABLE other.orders TO orders", "RENAME TABLE", False),
        ("ALTER TABLE orders ADD x DATE NOT NULL", "ALTER TABLE … ADD COLUMN", False),
    ],
)
def test_a_statement_that_changes_rows_restarts_the_table_as_it_passes(
    text: str, what: str, emptied: bool
) -> None:
    said = run(fresh(KnownSchemas({ORDERS: SCHEMA}, upto(5)), 5), slice_(6), statement(7, text), slice_(8))
    changed, *_, changes = said[2:]
    assert isinstance(changed, SchemaChanged)
    [restarted] = changed.restarted
    assert (restarted.table, restarted.emptied) == (ORDERS, emptied)
    assert restarted.reason.startswith(what)
    assert f"{SERVER}:7" in restarted.reason
    assert schemas([changes]) == [SCHEMA]


def test_a_table_is_empty_until_it_has_an_image() -> None:
    """A schema that comes after it finds it empty or not."""
    renamed = replace(FULL, metadata=FullMetadata(("id", "state", "labels"), (0,)))
    emptied, altered = statement(2, "TRUNCATE orders"), statement(4, "ALTER TABLE orders DROP x")
    said = run(fresh(), slice_(1), emptied, altered, slice_(5, maps=(renamed,)))
    assert [each.emptied for each in restarts(said)] == [True, True]
    said = run(fresh(), slice_(1), emptied, slice_(3), altered, slice_(5, maps=(renamed,)))
    assert [each.emptied for each in restarts(said)] == [True, False]
    filled = statement(3, "RENAME TABLE other.x TO orders")
    said = run(fresh(), slice_(1), emptied, filled, slice_(5, maps=(renamed,)))
    assert [each.emptied for each in restarts(said)] == [True, False, False]


NUMBERS = Traits("innodb", columns={"id": None, "state": None, "tags": None})
TRAITS = {ORDERS: NUMBERS}


def converted(*texts: str) -> list[FromVerifier]:
    """What's said of a table whose id is an INT, with strict statements, and then a BIGINT."""
    wide = replace(
        SCHEMA, columns=(replace(SCHEMA.columns[0], type=Integer(8, unsigned=False)), *SCHEMA.columns[1:])
    )
    state = fresh(KnownSchemas({ORDERS: SCHEMA}, upto(5), traits=TRAITS), 5)
    statements = (replace(statement(6 + i, text), strict=True) for i, text in enumerate(texts))
    return run(state, *statements, answer(9, wide), LogAdvanced(end(9)))


def test_a_strict_conversion_leaves_the_table_if_its_values_stay() -> None:
    assert restarts(converted("ALTER TABLE orders MODIFY id BIGINT")) == []
    [restarted] = restarts(converted("ALTER TABLE orders MODIFY id CHAR(20)"))
    assert "MODIFY" in restarted.reason


@pytest.mark.parametrize(
    ("text", "escapes", "again"),
    [
        ("ALTER TABLE orders ADD x INT COMMENT 'it\\'s'", True, False),
        ("ALTER TABLE orders ADD x INT COMMENT 'C:\\'", False, False),
        ("ALTER TABLE orders ADD x INT COMMENT 'it\\'s'", None, True),
    ],
)
def test_the_mode_says_where_a_string_ends(text: str, escapes: bool | None, again: bool) -> None:
    state = fresh(KnownSchemas({ORDERS: SCHEMA}, upto(5), traits=TRAITS), 5)
    _, said = step(state, replace(statement(6, text), escapes=escapes))
    assert bool(restarts(said)) is again


@pytest.mark.parametrize(
    "traits", [{}, {ORDERS: replace(NUMBERS, generated=True)}, {ORDERS: replace(NUMBERS, columns={})}]
)
def test_a_strict_conversion_is_judged_by_what_the_server_said_of_the_table(
    traits: dict[TableId, Traits],
) -> None:
    """A column may follow from the one that's converted."""
    alter = replace(statement(6, "ALTER TABLE orders MODIFY id BIGINT"), strict=True)
    for number, whole in ((5, traits), (4, TRAITS)):  # and what it will say at 6 isn't so before
        state = fresh(KnownSchemas({ORDERS: SCHEMA}, upto(number + 1), traits=whole), number, same=SCHEMA)
        assert len(restarts(run(state, alter))) == 1
    # A statement takes what was known of the table, and the next answer brings it again.
    state = fresh(KnownSchemas({ORDERS: SCHEMA}, upto(5), traits=TRAITS), 5)
    state, _ = step(state, statement(6, "ALTER TABLE orders ADD x INT AS (id)"))
    state, _ = step(state, slice_(7))
    assert ORDERS in tables_to_ask(state)
    assert len(restarts(run(state, replace(alter, gtid=Gtid(SERVER, 8), end=end(8))))) == 1
    state, _ = step(state, replace(answer(7, SCHEMA), traits=TRAITS))
    assert ORDERS not in tables_to_ask(state)
    assert restarts(run(state, replace(alter, gtid=Gtid(SERVER, 8), end=end(8)))) == []


DATED = replace(SCHEMA, columns=(*SCHEMA.columns, Column("at", Timestamp(0), nullable=True)))
STARTED = 1_700_000_000_000_000  # when the server was started


def in_zone(
    zone: str, text: str, *, utc: bool = False, schema: TableSchema = DATED, committed: int = STARTED
) -> list[MirrorInvalidated]:
    """The restarts of a table that has a TIMESTAMP, by a strict statement in this time_zone."""
    columns = dict.fromkeys(column.name for column in schema.columns)
    traits = {ORDERS: replace(NUMBERS, columns=columns)}
    known = KnownSchemas({ORDERS: schema}, upto(5), utc_since=STARTED if utc else None, traits=traits)
    state = fresh(known, 5, same=schema)
    alter = replace(statement(6, text), strict=True, zone=zone, commit_time=committed)
    return restarts(run(state, alter))


@pytest.mark.parametrize(
    ("zone", "utc", "again"),
    [
        ("SYSTEM", False, 1),
        ("SYSTEM", True, 0),
        ("Europe/Berlin", True, 1),
        ("+02:00", False, 0),
        ("", False, 0),
    ],
)
def test_a_copy_moves_instants_only_where_a_clock_may_go_back(zone: str, utc: bool, again: int) -> None:
    for text in (
        "ALTER TABLE orders MODIFY id BIGINT",
        "CREATE INDEX i ON orders (id)",
        "OPTIMIZE TABLE other, orders",
    ):
        assert len(in_zone(zone, text, utc=utc)) == again
    assert in_zone(zone, "ALTER TABLE orders MODIFY id BIGINT", utc=utc, schema=SCHEMA) == []


def test_before_the_server_was_started_its_system_may_have_had_another_zone() -> None:
    text = "ALTER TABLE orders MODIFY id BIGINT"
    assert len(in_zone("SYSTEM", text, utc=True, committed=STARTED - 1)) == 1
    assert in_zone("UTC", text, utc=True, committed=STARTED - 1) == []


@pytest.mark.parametrize(
    "text",
    [
        "ALTER TABLE orders ADD x INT, ALGORITHM=INPLACE",
        "ALTER TABLE orders ADD x INT, ALGORITHM INSTANT, LOCK=NONE",
        "CREATE INDEX i ON orders (id) ALGORITHM = INPLACE",
        "ALTER TABLE orders ADD PARTITION (PARTITION p VALUES LESS THAN (UNIX_TIMESTAMP('2026-01-01')))",
        "CREATE TABLE other (at TIMESTAMP DEFAULT '2026-01-01')",
        "ALTER TABLE other MODIFY x BIGINT",
        "CREATE TABLE other LIKE orders",
    ],
)
def test_what_copies_no_value_moves_no_instant(text: str) -> None:
    assert in_zone("SYSTEM", text) == []


@pytest.mark.parametrize(
    ("text", "generated", "again"),
    [
        ("ALTER TABLE orders ALTER id SET DEFAULT 7", True, 1),
        ("ALTER TABLE orders ADD x INT, ALTER COLUMN id DROP DEFAULT", True, 1),
        ("ALTER TABLE orders ALTER id SET DEFAULT 7", False, 0),
        ("ALTER TABLE orders ALTER id SET INVISIBLE, ALTER INDEX x VISIBLE", True, 0),
        ("ALTER TABLE other ALTER id SET DEFAULT 7", True, 0),
    ],
)
def test_a_generated_column_may_follow_a_default(text: str, generated: bool, again: int) -> None:
    traits = {ORDERS: replace(NUMBERS, generated=generated)}
    state = fresh(KnownSchemas({ORDERS: SCHEMA}, upto(5), traits=traits), 5, same=SCHEMA)
    assert len(restarts(run(state, statement(6, text)))) == again


def test_of_a_table_that_is_not_known_any_more_a_default_may_change_a_column() -> None:
    state = fresh(KnownSchemas({ORDERS: SCHEMA}, upto(5), traits=TRAITS), 5, same=SCHEMA)
    state, _ = step(state, statement(6, "ALTER TABLE orders ADD x INT"))
    assert len(restarts(run(state, statement(7, "ALTER TABLE orders ALTER id SET DEFAULT 7")))) == 1


def test_a_table_that_is_not_known_any_more_may_have_instants() -> None:
    state = fresh(KnownSchemas({ORDERS: SCHEMA}, upto(5), traits=TRAITS), 5, same=SCHEMA)
    state, _ = step(state, statement(6, "ALTER TABLE orders ADD at TIMESTAMP NULL"))
    alter = replace(statement(7, "ALTER TABLE orders ADD INDEX (id)"), zone="SYSTEM")
    assert len(restarts(run(state, alter))) == 1


def test_a_conversion_before_the_end_that_proves_the_starts_traits_may_have_met_others() -> None:
    known = KnownSchemas({ORDERS: SCHEMA}, upto(5), traits=TRAITS, end=end(7))
    state = fresh(known, 5, same=SCHEMA)
    early, late = (
        replace(statement(number, "ALTER TABLE orders MODIFY id BIGINT"), strict=True) for number in (6, 8)
    )
    assert len(restarts(run(state, early))) == 1
    assert restarts(run(state, LogAdvanced(end(7)), late)) == []


def test_of_two_conversions_in_a_row_nobody_knows_what_the_first_one_made() -> None:
    """A column that's rounded and then given room again has the type that it had."""
    said = converted("ALTER TABLE orders MODIFY id DECIMAL(9)", "ALTER TABLE orders MODIFY id BIGINT")
    assert [each.reason.split(" (")[0] for each in restarts(said)] == ["ALTER TABLE … MODIFY"]


def alterations(said: list[FromVerifier]) -> list[Alteration]:
    return [each for message in said if isinstance(message, SchemaChanged) for each in message.alterations]


@pytest.mark.parametrize(
    ("text", "renamed", "dropped", "now"),
    [
        (
            "ALTER TABLE orders RENAME COLUMN Tags TO labels",
            [("tags", "labels")],
            [],
            ["id", "state", "labels"],
        ),
        ("ALTER TABLE orders CHANGE tags labels TEXT", [("tags", "labels")], [], ["id", "state", "labels"]),
        ("ALTER TABLE orders DROP tags", [], ["tags"], ["id", "state"]),
    ],
)
def test_columns_that_a_statement_renames_or_drops_are_told_with_it(
    text: str, renamed: list[tuple[str, str]], dropped: list[str], now: list[str]
) -> None:
    state = fresh(KnownSchemas({ORDERS: SCHEMA}, upto(5)), 5)
    said = run(state, slice_(6), statement(7, text))
    [told] = alterations(said)
    assert (list(told.changes.renamed), list(told.changes.dropped), told.emptied) == (renamed, dropped, False)
    assert [column.name for column in told.schema.columns] == now
    # The checkpoint has them by then, and a start from there misses no column either.
    behind = _slice_of(8, now)
    missed = [
        each
        for each in restarts(run(state, slice_(6), statement(7, text), behind))
        if "column" in each.reason
    ]
    assert missed == []
    again = run(fresh(KnownSchemas({}, upto(7)), 7, old=told.schema), behind)
    assert restarts(again) == []
    assert schemas(again) == [told.schema]


ADDING = "ALTER TABLE orders ADD note VARCHAR(9) NOT NULL DEFAULT 'new'"


def extended(type_: ColumnType) -> TableSchema:
    return replace(SCHEMA, columns=(*SCHEMA.columns, Column("note", type_, False)))


@pytest.mark.parametrize(
    ("proven", "restarted"), [(Text("latin1"), 0), (Text("utf8mb4"), 0), (Binary(), 1), (Text("cp932"), 1)]
)
def test_a_column_that_comes_with_a_constant_is_told_with_the_statement(
    proven: ColumnType, restarted: int
) -> None:
    """Nothing begins again, unless it turns out to be another type's column than the text says."""
    state = fresh(KnownSchemas({ORDERS: SCHEMA}, upto(5)), 5)
    said = run(state, slice_(6), statement(7, ADDING))
    [told] = alterations(said)
    assert (told.schema, [each.value for each in told.changes.added]) == (extended(Text("utf8mb4")), ["new"])
    assert restarts(said) == []
    said = run(state, slice_(6), statement(7, ADDING), answer(7, extended(proven)), LogAdvanced(end(8)))
    assert len(restarts(said)) == restarted
    # A start from the checkpoint of the statement finds the same.
    known = KnownSchemas({ORDERS: extended(proven)}, upto(7))
    _, news = start(
        SHOP, known, Checkpoint(upto(7), schemas={ORDERS: told.schema}, unproven=frozenset({ORDERS}))
    )
    assert len(restarts(list(news))) == restarted


@pytest.mark.parametrize(
    ("treatment", "restarted"), [(Treatment.MASK, 1), (Treatment.HASH, 1), (Treatment.EXCLUDE, 0)]
)
def test_a_protected_column_that_comes_with_a_constant_has_the_table_read_again(
    treatment: Treatment, restarted: int
) -> None:
    """The journal doesn't have the constant. Without it the rows that there were would have null in the mirror."""
    rule = ProtectionRule(SHOP, ("NOTE",), treatment, text="x", required=False)
    state = fresh(KnownSchemas({ORDERS: SCHEMA}, upto(5)), 5)
    said = run(replace(state, protection=Protection(rules=(rule,))), slice_(6), statement(7, ADDING))
    assert len(restarts(said)) == restarted
    elsewhere = Protection(rules=(replace(rule, columns=("tags",)),))
    assert restarts(run(replace(state, protection=elsewhere), slice_(6), statement(7, ADDING))) == []


def test_a_column_of_which_something_is_not_sure_has_the_table_read_again() -> None:
    state = fresh(KnownSchemas({ORDERS: SCHEMA}, upto(5)), 5)
    for text in (
        ADDING.replace("'new'", "(UUID())"),
        ADDING.replace("note", "state"),
        ADDING + ", MODIFY tags INT",
    ):
        assert [each.emptied for each in restarts(run(state, statement(6, text)))] == [False], text


def _slice_of(number: int, names: list[str]) -> TransactionsRead:
    """A slice with a row of the first columns, which have these names."""
    some = len(names)
    table_map = replace(
        FULL,
        types=FULL.types[:some],
        storage=FULL.storage[:some],
        nullable=FULL.nullable[:some],
        metadata=FullMetadata(tuple(names), (0,)),
    )
    row = images(table_map)
    whole = replace(row, rows=row.rows.select(range(some)))
    return TransactionsRead(Transactions.of([(Gtid(SERVER, number), 0)]), (whole,), end(number))


def test_a_table_is_altered_by_any_case_of_its_name_if_the_server_folds_names() -> None:
    state = fresh(KnownSchemas({ORDERS: SCHEMA}, upto(5), traits=TRAITS), 5)
    said = run(state, slice_(6), statement(7, "ALTER TABLE Orders DROP tags"))
    [told] = alterations(said)
    assert (told.schema.table, told.changes.dropped, restarts(said)) == (ORDERS, ("tags",), [])
    state = fresh(KnownSchemas({ORDERS: SCHEMA}, upto(5)), 5)
    said = run(state, slice_(6), statement(7, ADDING.replace("orders", "Orders")))
    assert ([each.schema.table for each in alterations(said)], restarts(said)) == ([ORDERS], [])
    state = fresh(KnownSchemas({ORDERS: SCHEMA}, upto(5), traits=TRAITS), 5)
    said = run(state, replace(statement(6, "ALTER TABLE SHOP.ORDERS MODIFY state BIGINT"), strict=True))
    assert restarts(said) == []
    exact = fresh(KnownSchemas({ORDERS: SCHEMA}, upto(5), folds=False), 5)
    said = run(exact, slice_(6), statement(7, "DROP TABLE IF EXISTS Orders"))
    assert (alterations(said), restarts(said)) == ([], [])


def test_a_table_that_is_gone_and_comes_back_with_rows_is_restarted() -> None:
    """Also after a restart, where only the checkpoint knows that there was one."""
    gone, back = statement(6, "RENAME TABLE orders TO old"), statement(8, "RENAME TABLE new TO orders")
    state = fresh(KnownSchemas({ORDERS: SCHEMA}, upto(5)), 5)
    said = run(state, gone, answer(6, None), LogAdvanced(end(7)), back)
    assert [each.emptied for each in restarts(said)] == [True, False]
    [restarted] = restarts(run(fresh(KnownSchemas({}, upto(7)), 7, old=SCHEMA), answer(7, None), back))
    assert (restarted.table, restarted.emptied) == (ORDERS, False)


def test_a_table_that_is_only_referred_to_is_not_altered() -> None:
    """So its images need no further proof."""
    texts = (
        "CREATE TABLE items LIKE orders",
        "CREATE TABLE chi (p INT, FOREIGN KEY (p) REFERENCES orders (id))",
        "CREATE VIEW v AS SELECT * FROM orders",
        "CREATE DEFINER=`root`@`localhost` TRIGGER x AFTER INSERT ON orders FOR EACH ROW SET @a = 1",
    )
    for text in texts:
        known = KnownSchemas({ORDERS: SCHEMA}, upto(5))
        state, _ = step(fresh(known, 5), statement(6, text))
        assert ORDERS not in tables_to_ask(state)
        assert schemas(run(state, slice_(7, maps=(MINIMAL,)))) == [SCHEMA]


def test_words_that_are_no_tables_put_no_other_statement_in_doubt() -> None:
    """With a pattern that any word matches, MODIFY and BIGINT could be tables of the default database."""
    items = replace(SCHEMA, table=TableId("shop", "items"))
    traits = {**TRAITS, items.table: NUMBERS}
    state = fresh(KnownSchemas({ORDERS: SCHEMA, items.table: items}, upto(5), traits=traits), 5)
    first, second = (
        replace(statement(6 + i, f"ALTER TABLE {table} MODIFY id BIGINT"), strict=True)
        for i, table in enumerate(("orders", "items"))
    )
    assert restarts(run(state, first, second)) == []


def test_a_table_that_is_emptied_says_so_with_the_schema_that_it_had() -> None:
    said = run(fresh(), slice_(1), statement(2, "TRUNCATE orders"), statement(3, "DROP DATABASE shop"))
    told = [(each.statement, each.emptied, each.schema) for each in alterations(said)]
    assert told == [("TRUNCATE TABLE", True, SCHEMA), ("DROP DATABASE", True, SCHEMA)]


def test_a_table_that_has_stopped_is_neither_altered_nor_restarted() -> None:
    unreadable = replace(slice_(2), tables=(TableUnreadable(ORDERS, "a time of 25 hours"),))
    dropped, emptied = statement(3, "ALTER TABLE orders DROP tags"), statement(4, "TRUNCATE orders")
    said = run(fresh(), slice_(1), unreadable, dropped, emptied, slice_(5))
    assert (alterations(said), restarts(said), schemas(said)) == ([], [], [SCHEMA])


def test_statements_about_others_restart_nothing() -> None:
    items = replace(FULL, table=TableId("shop", "items"))
    said = run(
        fresh(),
        slice_(1, maps=(FULL, items)),
        statement(2, "DROP TABLE other.orders"),
        statement(3, "TRUNCATE orders", database="other"),
        statement(4, "DROP TABLE IF EXISTS shop.unmet"),
        statement(5, "DROP TABLE shop.items"),
        slice_(6, maps=(FULL,)),
    )
    assert [each.table for each in restarts(said)] == [items.table]
    assert [s.table.name for s in schemas(said)] == ["orders", "items", "orders"]


# -- protected columns


@pytest.mark.parametrize(
    "text",
    [
        "ALTER TABLE orders RENAME COLUMN tags TO labels",
        "ALTER TABLE orders RENAME COLUMN tags TO labels, RENAME COLUMN state TO tags",
        "ALTER TABLE orders CHANGE state tags varchar(9), CHANGE tags state varchar(9)",
        "ALTER TABLE orders DROP COLUMN tags",
    ],
)
def test_a_protected_column_is_not_shown_under_another_name(text: str) -> None:
    state = replace(
        fresh(KnownSchemas({ORDERS: SCHEMA}, upto(5)), 5, same=SCHEMA), protection=protecting("tags")
    )
    state, said = step(state, statement(6, text))
    assert "'tags'" in stops(said)[ORDERS]
    changed = next(each for each in said if isinstance(each, SchemaChanged))
    assert changed.alterations == ()
    assert schemas(run(state, slice_(7), LogAdvanced(end(8)))) == []


def test_a_table_with_protected_columns_stops_if_one_may_have_another_name() -> None:
    known = KnownSchemas({ORDERS: SCHEMA}, upto(5))
    text = "ALTER TABLE orders /*!80000 RENAME COLUMN state TO other */"
    state, said = step(
        replace(fresh(known, 5, same=SCHEMA), protection=protecting("tags")), statement(6, text)
    )
    assert "may have renamed a column" in stops(said)[ORDERS]
    assert restarts(said) == []
    _, said = step(state, statement(7, text))
    assert stops(said) == {}
    _, said = step(fresh(known, 5, same=SCHEMA), statement(6, text))
    assert stops(said) == {}
    assert [each.table for each in restarts(said)] == [ORDERS]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("RENAME TABLE orders TO sales", {"shop.sales"}),
        ("RENAME TABLE orders TO other.sales", set()),
        ("RENAME TABLE orders TO _orders_del, _orders_gho TO orders", {"shop._orders_del"}),
        ("ALTER TABLE orders RENAME TO sales", {"shop.sales"}),
        ("ALTER TABLE orders EXCHANGE PARTITION p WITH TABLE sales", {"shop.sales"}),
    ],
)
def test_a_table_with_protected_columns_is_not_shown_under_another_name(text: str, shown: set[str]) -> None:
    known = KnownSchemas({ORDERS: SCHEMA}, upto(5))
    of_both, absent = protecting("tags", tables=r"shop\..*"), protecting("absent")
    for protection, stopped in (
        (protecting("tags"), shown),
        (replace(absent, rules=(replace(absent.rules[0], required=False),)), set()),
        (of_both, set()),
        (UNPROTECTED, set()),
    ):
        state = replace(fresh(known, 5, same=SCHEMA), protection=protection)
        _, said = step(state, statement(6, text))
        assert set(map(str, stops(said))) == stopped
        assert all("rows of shop.orders" in why for why in stops(said).values())
        assert stopped.isdisjoint(str(each.table) for each in restarts(said))


@pytest.mark.parametrize("captured", [r"shop\.orders", r"(?i)shop\.orders"])
@pytest.mark.parametrize(
    "text",
    [
        "RENAME TABLE stage.orders TO shop.Orders",
        "RENAME TABLE Stage.ORDERS TO shop.orders",
        "ALTER TABLE STAGE.orders RENAME SHOP.ORDERS",
        "ALTER TABLE stage.Parts EXCHANGE PARTITION p WITH TABLE Shop.orders",
    ],
)
@pytest.mark.parametrize("there", [False, True])
def test_a_table_stops_by_its_name_in_small_letters_if_it_gets_protected_columns(
    captured: str, text: str, there: bool
) -> None:
    """The server stores names in these alone. Nothing may stop by a spelling that it doesn't have."""
    known = KnownSchemas({ORDERS: SCHEMA} if there else {}, upto(5), lowers=True)
    rules = protecting("tags", tables=r"stage\..*")
    state, _ = start(TableFilter((captured,)), known, Checkpoint(upto(5)), protection=rules)
    state, said = step(state, statement(6, text))
    assert list(stops(said)) == [ORDERS]
    assert schemas(run(state, slice_(7), LogAdvanced(end(8)))) == []
    exact = replace(known, folds=False, lowers=False)
    state, _ = start(TableFilter((r"shop\.orders",)), exact, Checkpoint(upto(5)), protection=rules)
    _, said = step(state, statement(6, "RENAME TABLE stage.orders TO shop.Orders"))
    assert stops(said) == {}


def test_columns_without_rules_get_other_names() -> None:
    state = replace(
        fresh(KnownSchemas({ORDERS: SCHEMA}, upto(5)), 5, same=SCHEMA), protection=protecting("tags")
    )
    _, said = step(state, statement(6, "ALTER TABLE orders RENAME COLUMN state TO condition_"))
    assert stops(said) == {}


def test_a_statement_empties_tables_or_has_them_read_again() -> None:
    gtid = Gtid(Tsid("3e11fa47-71ca-11e1-9e33-c80aa9429562"), 7)
    unlogged = {
        C: Unlogged("TRUNCATE TABLE", Effect.EMPTIED),
        B: Unlogged("RENAME TABLE", Effect.CHANGED),
        D: Unlogged("TRUNCATE TABLE", Effect.EMPTIED),
    }
    restarts = restarts_after_statement(unlogged, gtid, [D])
    assert [(restart.table, restart.emptied) for restart in restarts] == [(B, False), (C, True)]
    assert all(str(gtid) in restart.reason for restart in restarts)
