"""Names only where they're proven; a table whose columns can't be named is stopped, by name, and only that one."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.config.column_protection import Protection, ProtectionRule, Treatment
from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.gtid_set import Gtid, GtidSet, Tsid
from pipeline.gtid.transactions import Transactions
from pipeline.messages.binlog import (
    CreateTableSelectRead,
    DdlRead,
    LogAdvanced,
    ReadingPaused,
    RowsUnread,
    TransactionPartRead,
    TransactionsRead,
)
from pipeline.messages.changes import (
    ChangesVerified,
    EnginesSurveyed,
    MirrorInvalidated,
    SchemaChanged,
    SchemaVerified,
    TableStopped,
    TransactionPartVerified,
)
from pipeline.messages.message_size import weight
from pipeline.messages.row_images import CHANGE_FIELDS, IMAGE_FIELDS, TableImages, TableUnreadable
from pipeline.schema.ddl.alter_table import Alteration
from pipeline.schema.foreign_key import ForeignKey
from pipeline.schema.known_schemas import KnownSchemas
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_map import FullMetadata, MinimalMetadata, NoMetadata, TableMap
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.schema.table_traits import Traits
from pipeline.types.column_types import (
    Binary,
    ColumnType,
    Enum,
    Integer,
    RawInteger,
    RawString,
    Set,
    Text,
    Timestamp,
)
from pipeline.types.enum_labels import NoLabel, enum_texts, set_texts
from pipeline.types.field_types import Storage
from pipeline.verifier import schema_fence
from pipeline.verifier import step as machine
from pipeline.verifier.schema_fence import ServerAnswer
from pipeline.verifier.state import State
from pipeline.verifier.step import AskServer, Fact, FromVerifier, Order, tables_to_ask
from tests.pipeline.verifier.answers import start, step

SERVER = Tsid("3e11fa47-71ca-11e1-9e33-c80aa9429562")
SHOP = TableFilter((r"shop\..*",))
ORDERS = TableId("shop", "orders")
LOG = "binlog.000001"


def end(number: int) -> Coordinates:
    """Where the transaction with this number ends in the log."""
    return Coordinates(LOG, 100 * number)


END = end(4)

TYPES: tuple[ColumnType, ...] = (Integer(4, unsigned=False), Enum(("new", "paid")), Set(("x", "y")))
NAMES = ("id", "state", "tags")
FULL = TableMap(
    ORDERS,
    TYPES,
    (Storage(3, 0), Storage(254, 0x01F7), Storage(254, 0x01F8)),
    (False, True, True),
    FullMetadata(NAMES, (0,)),
)
MINIMAL = replace(FULL, types=(TYPES[0], Enum(()), Set(())), metadata=MinimalMetadata())
SCHEMA = TableSchema(
    ORDERS, tuple(Column(n, t, null) for n, t, null in zip(NAMES, TYPES, FULL.nullable, strict=True)), (0,)
)
RENAMED = replace(SCHEMA, columns=(*SCHEMA.columns[:2], replace(SCHEMA.columns[2], name="labels")))

NOTHING_KNOWN = KnownSchemas({}, GtidSet())


def upto(number: int) -> GtidSet:
    return GtidSet.parse(f"{SERVER}:1-{number}") if number else GtidSet()


def slice_(*numbers: int, maps: tuple[TableMap, ...] = (FULL,)) -> TransactionsRead:
    """A slice with these transactions; each table has one inserted row, of the first."""
    transactions = Transactions.of((Gtid(SERVER, n), n) for n in numbers)
    return TransactionsRead(transactions, tuple(images(m) for m in maps), end(numbers[-1]))


def images(table_map: TableMap, state: int | None = 2, tags: int | None = 3) -> TableImages:
    rows = pa.record_batch(
        [pa.array([7], pa.int32()), pa.array([state], pa.int32()), pa.array([tags], pa.int64())],
        names=["0", "1", "2"],
    )
    return TableImages(table_map, pa.record_batch([[0], [0], [0], [None], [None]], schema=IMAGE_FIELDS), rows)


def statement(number: int, text: str, database: str = "shop") -> DdlRead:
    return DdlRead(Gtid(SERVER, number), 0, database, text, end(number))


def answer(number: int, schema: TableSchema | None, at: int | None = None) -> ServerAnswer:
    """Returns the server's answer once it has executed `at` transactions, with its log ending after the `number`th."""
    schemas = {schema.table: schema} if schema else {}
    return ServerAnswer(frozenset({ORDERS}), schemas, upto(number if at is None else at), end(number))


def fresh(known: KnownSchemas = NOTHING_KNOWN, position: int = 0, **schemas: TableSchema) -> State:
    """At a checkpoint with these schemas; an `old` one may have been altered since it was proven."""
    unproven = frozenset(schema.table for name, schema in schemas.items() if name == "old")
    return start(SHOP, known, upto(position), {s.table: s for s in schemas.values()}, (), unproven)[0]


Message = (
    TransactionsRead | TransactionPartRead | DdlRead | CreateTableSelectRead | LogAdvanced | ServerAnswer
)


def run(state: State, *log: Message) -> list[FromVerifier]:
    said: list[FromVerifier] = []
    for message in log:
        state, messages = step(state, message)
        said += messages
    return said


def kinds(said: list[FromVerifier]) -> list[str]:
    return [type(message).__name__ for message in said]


def schemas(said: list[FromVerifier]) -> list[TableSchema]:
    return [
        change.schema for message in said if isinstance(message, ChangesVerified) for change in message.tables
    ]


TAGS_GONE = "column 'tags' of shop.orders was dropped or renamed"


# -- full metadata


def test_a_full_map_names_the_columns_and_its_labels() -> None:
    state, (verified, changes) = step(fresh(), slice_(1))
    assert verified == SchemaVerified(SCHEMA)
    assert isinstance(changes, ChangesVerified)
    [change] = changes.tables
    assert change.rows.schema == SCHEMA.arrow
    assert change.rows.to_pylist() == [{"id": 7, "state": "paid", "tags": "x,y"}]
    # Reported once, until it changes.
    _, again = step(state, slice_(2))
    assert kinds(list(again)) == ["ChangesVerified"]


def test_another_full_map_is_another_version() -> None:
    renamed = replace(FULL, metadata=FullMetadata(("id", "state", "labels"), (0,)))
    said = run(
        fresh(),
        slice_(1),
        statement(2, "ALTER TABLE orders COMMENT 'x'"),  # not what was done, as far as it's told
        slice_(3, maps=(renamed,)),
    )
    assert kinds(said) == [
        "SchemaVerified",
        "ChangesVerified",
        "SchemaChanged",
        "SchemaVerified",
        "ChangesVerified",
    ]
    assert schemas(said) == [SCHEMA, RENAMED]
    [restarted] = restarts(said)
    assert (restarted.table, restarted.emptied) == (ORDERS, False)
    assert restarted.reason == TAGS_GONE


def test_a_table_that_cannot_be_captured_stops_with_its_first_images() -> None:
    """None of its rows go on, those of later slices neither."""
    ours = replace(FULL, metadata=FullMetadata(("id", "__op", "tags"), (0,)))
    said = run(fresh(), slice_(1, maps=(ours,)), slice_(2, maps=(ours,)))
    assert kinds(said) == ["TableStopped", "ChangesVerified", "ChangesVerified"]
    assert schemas(said) == []


def test_after_a_statement_the_same_version_is_verified_anew() -> None:
    said = run(fresh(), slice_(1), statement(2, "ALTER TABLE orders COMMENT 'x'"), slice_(3))
    assert kinds(said)[2:] == ["SchemaChanged", "SchemaVerified", "ChangesVerified"]


def test_places_and_pauses_are_passed_on() -> None:
    for message in (LogAdvanced(END), ReadingPaused()):
        assert step(fresh(), message)[1] == (message,)


# -- minimal metadata: when is a schema proven?


def test_the_servers_schema_holds_once_all_that_it_had_executed_has_passed() -> None:
    known = KnownSchemas({ORDERS: SCHEMA}, upto(5))
    said = run(fresh(known, position=5), slice_(6, maps=(MINIMAL,)))
    assert kinds(said) == ["SchemaVerified", "ChangesVerified"]
    assert schemas(said) == [SCHEMA]
    [_, changes] = said
    assert isinstance(changes, ChangesVerified)
    assert changes.tables[0].rows.to_pylist() == [{"id": 7, "state": "paid", "tags": "x,y"}]


def test_before_that_it_does_not_since_the_statement_that_made_it_may_be_to_come() -> None:
    known = KnownSchemas({ORDERS: SCHEMA}, upto(5))
    waiting = run(fresh(known, position=2), slice_(3, maps=(MINIMAL,)))
    assert kinds(waiting) == []
    # A slice that brings the last of them, and the rows with it: those may lie before the statement as well.
    assert kinds(run(fresh(known, position=2), slice_(3, 4, 5, maps=(MINIMAL,)))) == []
    said = run(
        fresh(known, position=2),
        slice_(3, 4, maps=()),
        statement(5, "ALTER TABLE orders DROP x"),
        slice_(6, maps=(MINIMAL,)),
    )
    assert schemas(said) == [SCHEMA]


# -- minimal metadata: the server is queried again


def test_what_waits_goes_on_once_an_answer_proves_its_schema() -> None:
    """Nothing has overtaken it, and another table that needn't wait comes after it."""
    items = replace(FULL, table=TableId("shop", "items"))
    state = fresh(KnownSchemas({ORDERS: SCHEMA}, upto(5)), 5, same=SCHEMA)
    state, said = step(state, statement(6, "ALTER TABLE orders RENAME COLUMN tags TO labels"))
    assert kinds(list(said)) == ["SchemaChanged"]
    assert ORDERS in tables_to_ask(state)
    for waiting in (slice_(7, maps=(MINIMAL,)), slice_(8, maps=(items,))):
        state, said = step(state, waiting)
        assert said == ()
    # The answer is of a place that the stream hasn't come to, so that a statement may still lie before it.
    state, said = step(state, answer(9, RENAMED))
    assert said == ()
    assert ORDERS not in tables_to_ask(state)
    messages: list[Message] = [LogAdvanced(end(9)), slice_(9, maps=()), slice_(9, maps=(MINIMAL,))]
    for message in messages:
        then = run(state, message)
        assert kinds(then)[:3] == ["SchemaVerified", "SchemaVerified", "ChangesVerified"]
        assert [s.table.name for s in schemas(then)][:2] == ["orders", "items"]
        assert schemas(then)[0] == RENAMED
        assert kinds(then)[-1] == type(message).__name__.replace("TransactionsRead", "ChangesVerified")


def test_a_pause_of_the_reader_is_told_at_once_since_it_may_be_what_is_waited_for() -> None:
    state, _ = step(fresh(KnownSchemas({}, upto(5)), 5), slice_(6, maps=(MINIMAL,)))
    assert step(state, ReadingPaused())[1] == (ReadingPaused(),)


def test_an_answer_that_may_not_know_the_statement_has_the_server_asked_again() -> None:
    state, _ = step(
        fresh(KnownSchemas({ORDERS: SCHEMA}, upto(5)), 5), statement(6, "ALTER TABLE orders DROP x")
    )
    state, said = step(state, answer(6, SCHEMA, at=5))
    assert said == ()
    assert ORDERS in tables_to_ask(state)
    state, said = step(state, answer(6, RENAMED))
    [verified] = said
    assert verified == SchemaVerified(RENAMED, (MirrorInvalidated(ORDERS, False, TAGS_GONE),))
    assert ORDERS not in tables_to_ask(state)


def test_a_statement_between_the_images_and_the_answers_place_leaves_them_unproven() -> None:
    known, alter = KnownSchemas({ORDERS: SCHEMA}, upto(5)), "ALTER TABLE orders DROP x"
    waiting: list[Message] = [statement(6, alter), slice_(7, maps=(MINIMAL,)), statement(8, alter)]
    said = run(fresh(known, 5), *waiting, answer(9, RENAMED))
    assert kinds(said) == ["SchemaChanged", "ChangesVerified", "SchemaChanged"]
    # They're left out, and right after them, in one step, the mirror begins again.
    [changes] = said[1:2]
    assert isinstance(changes, ChangesVerified)
    [restarted] = changes.restarted
    assert (changes.tables, restarted.emptied, restarted.gap) == ((), False, True)
    assert restarted.reason.startswith("one statement after another altered it")
    # Images after the second statement have names again.
    more = (slice_(9, maps=(MINIMAL,)), slice_(10, maps=(MINIMAL,)))
    assert schemas(run(fresh(known, 5), *waiting, answer(9, RENAMED), *more)) == [RENAMED, RENAMED]
    # The answer doesn't include one after its position.
    said = run(fresh(known, 5), *waiting, answer(7, SCHEMA))
    assert kinds(said) == [
        "SchemaChanged",
        "SchemaVerified",
        "SchemaVerified",
        "ChangesVerified",
        "SchemaChanged",
    ]
    # And one that changes no columns doesn't count.
    waiting[2] = statement(8, "TRUNCATE other.orders")
    assert schemas(run(fresh(known, 5), *waiting, answer(8, SCHEMA))) == [SCHEMA]


def test_parts_whose_columns_cannot_be_named_have_the_table_restarted_at_their_transactions_end() -> None:
    known, alter = KnownSchemas({ORDERS: SCHEMA}, upto(5)), "ALTER TABLE orders DROP x"
    waiting: list[Message] = [statement(6, alter), part(7, images(MINIMAL)), slice_(7, maps=())]
    said = run(fresh(known, 5), *waiting, statement(8, alter), answer(9, RENAMED))
    assert kinds(said) == ["SchemaChanged", "TransactionPartVerified", "ChangesVerified", "SchemaChanged"]
    changes = said[2]
    assert isinstance(changes, ChangesVerified)
    assert [(each.table, each.gap) for each in changes.restarted] == [(ORDERS, True)]
    assert schemas(said) == []


def test_too_much_is_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    state, _ = step(
        fresh(KnownSchemas({ORDERS: SCHEMA}, upto(5)), 5), statement(6, "ALTER TABLE orders DROP x")
    )
    monkeypatch.setattr(schema_fence, "MOST_HELD", 2 * weight(slice_(7, maps=(MINIMAL,))))
    said = run(state, *(slice_(n, maps=(MINIMAL,)) for n in (7, 8)))
    assert kinds(said) == []
    said = run(state, *(slice_(n, maps=(MINIMAL,)) for n in (7, 8, 9)))
    # What's too much is left out, and no more.
    assert kinds(said) == ["ChangesVerified"]
    assert "lags too far" in str(said[0])
    assert schemas(said) == []


def test_a_table_that_is_gone_is_forgotten_until_it_is_created_anew() -> None:
    state = fresh(KnownSchemas({ORDERS: SCHEMA}, upto(5)), 5, same=SCHEMA)
    state, _ = step(state, statement(6, "DROP TABLE orders"))
    state, news = step(state, answer(6, None))
    assert news == ()
    assert ORDERS not in state.tables
    said = run(state, statement(7, "CREATE TABLE orders (id INT)"), answer(7, RENAMED))
    assert kinds(said) == ["SchemaChanged", "SchemaVerified"]
    assert said[1] == SchemaVerified(RENAMED, (MirrorInvalidated(ORDERS, True, TAGS_GONE),))
    # Rows of a log without column names, from before the drop: their columns are no longer known.
    state = fresh(KnownSchemas({}, upto(9)), 5, old=SCHEMA)
    said = run(state, slice_(6, maps=(MINIMAL,)), answer(9, None), LogAdvanced(end(9)))
    assert kinds(said) == ["ChangesVerified", "LogAdvanced"]
    assert "no such table any more" in str(said[0])
    assert schemas(said) == []


def test_a_checkpoint_with_the_servers_schema_speaks_for_the_time_before() -> None:
    known = KnownSchemas({ORDERS: SCHEMA}, upto(5))
    before, after = slice_(3, maps=(MINIMAL,)), slice_(6, maps=(MINIMAL,))
    said = run(
        fresh(known, 2, same=SCHEMA),
        before,
        statement(4, "ALTER TABLE orders DROP x"),
        slice_(5, maps=()),
        after,
    )
    assert schemas(said) == [SCHEMA, SCHEMA]
    # Between the statement and the last transaction that the server had executed, there may be another one.
    said = run(
        fresh(known, 2, same=SCHEMA), statement(3, "ALTER TABLE orders DROP x"), slice_(4, maps=(MINIMAL,))
    )
    assert kinds(said) == ["SchemaChanged"]


def test_a_checkpoint_with_another_schema_does_not() -> None:
    """The statement that changed it may have passed before the checkpoint, or be to come."""
    known = KnownSchemas({ORDERS: RENAMED}, upto(5))
    assert kinds(run(fresh(known, 2, old=SCHEMA), slice_(3, maps=(MINIMAL,)))) == []
    said = run(fresh(known, 2, old=SCHEMA), slice_(3, 4, 5, maps=()), slice_(6, maps=(MINIMAL,)))
    assert schemas(said) == [RENAMED]
    # Nothing is to come: it was before, and the checkpoint's is old.
    assert schemas(run(fresh(known, 5, old=SCHEMA), slice_(6, maps=(MINIMAL,)))) == [RENAMED]
    news = start(SHOP, known, upto(5), {ORDERS: SCHEMA}, (), frozenset())[1]
    assert news == (SchemaVerified(RENAMED, (MirrorInvalidated(ORDERS, False, TAGS_GONE),)),)
    assert schemas(run(fresh(known, 2, old=SCHEMA), slice_(3))) == [SCHEMA]


def test_a_checkpoint_that_no_statement_has_passed_since_speaks_for_itself() -> None:
    """The table was altered while capture was down: the log before that differs from the log after it."""
    known = KnownSchemas({ORDERS: RENAMED}, upto(5))
    log: list[Message] = [
        slice_(3, maps=(MINIMAL,)),
        statement(4, "ALTER TABLE orders RENAME COLUMN tags TO labels"),
        slice_(5, maps=(MINIMAL,)),
    ]
    said = run(fresh(known, 2, same=SCHEMA), *log, answer(5, RENAMED))
    assert schemas(said) == [SCHEMA, RENAMED]
    assert restarts(said) == []
    # A table that's gone by now had its columns as well.
    assert schemas(run(fresh(KnownSchemas({}, upto(5)), 2, same=SCHEMA), log[0])) == [SCHEMA]


def test_a_checkpoint_speaks_for_a_table_that_is_gone_until_the_statement_passes() -> None:
    """What takes a table away can be seen before the executed set has it."""
    said = run(fresh(position=1, it=SCHEMA), slice_(2, maps=(MINIMAL,)), statement(3, "DROP TABLE orders"))
    assert kinds(said) == ["SchemaVerified", "ChangesVerified", "SchemaChanged"]
    assert schemas(said) == [SCHEMA]


def test_a_statement_that_came_after_the_schema_was_read_proves_nothing() -> None:
    known = KnownSchemas({ORDERS: SCHEMA}, upto(5))
    altered = statement(6, "ALTER TABLE shop.orders DROP x")
    assert kinds(run(fresh(known, position=5), altered, slice_(7, maps=(MINIMAL,)))) == ["SchemaChanged"]


def test_of_statements_to_come_only_those_made_the_schema_that_it_holds() -> None:
    """Servers don't commit in the order of their numbers: 6 passes before 3 to 5, but after the schema was read."""
    known = KnownSchemas({ORDERS: SCHEMA}, upto(5))
    later = statement(6, "ALTER TABLE orders DROP x")
    said = run(fresh(known, position=2), later, slice_(3, 4, 5, maps=()), slice_(7, maps=(MINIMAL,)))
    assert kinds(said) == ["SchemaChanged", "ChangesVerified"]


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
    assert kinds(said) == ["SchemaChanged", "SchemaVerified", "ChangesVerified"]
    assert said[0] == SchemaChanged(Gtid(SERVER, 6), frozenset(), text, end(6))


@pytest.mark.parametrize(
    "text", ["CREATE INDEX i ON orders (state)", "DROP INDEX i ON orders", "WHAT orders"]
)
def test_a_plan_may_stand_on_an_index_that_a_statement_changes(text: str) -> None:
    known = KnownSchemas({ORDERS: SCHEMA}, upto(5))
    [changed, *_] = run(fresh(known, position=5), statement(6, text))
    assert isinstance(changed, SchemaChanged)
    assert ORDERS in changed.tables


def test_a_full_map_proves_what_a_minimal_one_could_not() -> None:
    known = KnownSchemas({ORDERS: SCHEMA}, upto(5))
    said = run(fresh(known, position=2), slice_(3), slice_(4, maps=(MINIMAL,)))
    assert schemas(said) == [SCHEMA, SCHEMA]


@pytest.mark.parametrize(
    "other",
    [
        replace(SCHEMA, columns=SCHEMA.columns[:2]),
        replace(
            SCHEMA, columns=(replace(SCHEMA.columns[0], type=Integer(4, unsigned=True)), *SCHEMA.columns[1:])
        ),
        replace(SCHEMA, columns=(replace(SCHEMA.columns[0], type=Text("utf8mb4")), *SCHEMA.columns[1:])),
        replace(SCHEMA, columns=(replace(SCHEMA.columns[0], nullable=True), *SCHEMA.columns[1:])),
    ],
    ids=["fewer columns", "another sign", "another type", "nullable"],
)
def test_a_schema_that_does_not_fit_the_map_stops_the_table(other: TableSchema) -> None:
    said = run(fresh(KnownSchemas({ORDERS: other}, GtidSet())), slice_(1, maps=(MINIMAL,)))
    assert kinds(said) == ["TableStopped", "ChangesVerified"]


def test_a_created_and_filled_table_has_its_schema_from_an_answer_that_knows_its_transaction() -> None:
    known = KnownSchemas({}, upto(5))
    creation = CreateTableSelectRead("", "CREATE TABLE `shop`.`orders` (`id` int) START TRANSACTION")
    assert kinds(run(fresh(known, 5), creation, slice_(6))) == ["SchemaVerified", "ChangesVerified"]
    for first, rest in ((slice_(6, maps=(MINIMAL,)), []), (part(6, images(MINIMAL)), [slice_(6, maps=())])):
        state = fresh(known, 5)
        for message in (creation, first, *rest):
            state, said = step(state, message)
            assert said == ()
        assert tables_to_ask(state) == {ORDERS}
        state, said = step(state, answer(5, None))
        assert said == ()
        assert tables_to_ask(state) == {ORDERS}
        assert kinds(run(state, answer(6, SCHEMA)))[:2] == ["SchemaVerified", "SchemaVerified"]
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


# -- no metadata


def named(*, unsigned: bool, charset: str = "latin1") -> TableSchema:
    """A schema of a log without metadata: an integer and a text."""
    columns = (Column("id", Integer(4, unsigned=unsigned), False), Column("note", Text(charset), True))
    return TableSchema(ORDERS, columns, (0,))


def test_a_map_without_metadata_has_its_types_from_the_schema_as_well() -> None:
    bare = TableMap(
        ORDERS,
        (RawInteger(4), RawString()),
        (Storage(3, 0), Storage(15, 40)),
        (False, True),
        NoMetadata(),
    )
    rows = pa.record_batch([pa.array([-1], pa.int32()), pa.array([b"\xfc"], pa.binary())], names=["0", "1"])
    fields = pa.record_batch([[0], [0], [0], [None], [None]], schema=IMAGE_FIELDS)
    log = replace(slice_(6, maps=()), tables=(TableImages(bare, fields, rows),))

    def told(schema: TableSchema) -> list[FromVerifier]:
        return run(fresh(KnownSchemas({ORDERS: schema}, upto(5)), 5), log)

    for unsigned, number in ((True, 2**32 - 1), (False, -1)):
        schema = named(unsigned=unsigned)
        [changes] = told(schema)[-1:]
        assert isinstance(changes, ChangesVerified)
        [change] = changes.tables
        assert change.schema == schema
        assert change.rows.to_pylist() == [{"id": number, "note": "ü"}]
    # Bytes that aren't text in the column's character set, and a schema that the log contradicts.
    for schema, why in (
        (named(unsigned=True, charset="utf8mb4"), "orders.note"),
        (SCHEMA, "the log has 2 columns"),
    ):
        stop, _ = told(schema)
        assert isinstance(stop, TableStopped)
        assert why in stop.reason
    assert kinds(run(fresh(), log)) == []


# -- tables that the checkpoint doesn't know


def verified(said: list[FromVerifier]) -> list[TableSchema]:
    return [message.schema for message in said if isinstance(message, SchemaVerified)]


def test_a_table_that_the_checkpoint_lacks_is_told_at_the_start_if_nothing_is_to_come() -> None:
    known = KnownSchemas({ORDERS: SCHEMA}, upto(5))
    assert start(SHOP, known, upto(5), {}, (), frozenset())[1] == (SchemaVerified(SCHEMA),)
    assert start(SHOP, known, upto(5), {ORDERS: SCHEMA}, (), frozenset())[1] == ()
    assert start(SHOP, known, upto(5), {}, [ORDERS], frozenset())[1] == ()
    assert start(SHOP, known, upto(4), {}, (), frozenset())[1] == ()


def test_it_is_told_behind_the_last_transaction_that_was_to_come() -> None:
    known = KnownSchemas({ORDERS: SCHEMA}, upto(5))
    said = run(fresh(known, 2), slice_(3, 4, maps=()), slice_(5, maps=()), slice_(6, maps=()))
    assert kinds(said) == ["ChangesVerified", "ChangesVerified", "SchemaVerified", "ChangesVerified"]
    assert verified(said) == [SCHEMA]
    said = run(fresh(known, 2), slice_(3, 4, maps=()), statement(5, "CREATE TABLE orders (id INT)"))
    assert kinds(said) == ["ChangesVerified", "SchemaChanged", "SchemaVerified"]
    # A map has reported it before.
    said = run(fresh(known, 2), slice_(3, 4), slice_(5))
    assert kinds(said) == ["SchemaVerified", "ChangesVerified", "ChangesVerified"]


def test_a_table_that_is_not_captured_any_more_is_stopped() -> None:
    items = TableId("other", "items")
    state, news = start(
        SHOP, NOTHING_KNOWN, GtidSet(), {items: replace(SCHEMA, table=items)}, (), frozenset()
    )
    [stopped] = news
    assert isinstance(stopped, TableStopped)
    assert (stopped.table, "configuration" in stopped.reason) == (items, True)
    assert schemas(run(state, slice_(1, maps=(replace(FULL, table=items), FULL)))) == [SCHEMA]
    # Once it's durable it isn't reported again.
    assert (
        start(SHOP, NOTHING_KNOWN, GtidSet(), {items: replace(SCHEMA, table=items)}, [items], frozenset())[1]
        == ()
    )


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


def restarts(said: Sequence[Order]) -> list[MirrorInvalidated]:
    """All of them, by themselves or with a statement."""
    each = [m.restarted if isinstance(m, SchemaChanged | SchemaVerified) else (m,) for m in said]
    return [m for some in each for m in some if isinstance(m, MirrorInvalidated)]


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


def test_a_table_that_lost_its_key_is_not_empty_for_its_mirror() -> None:
    keyless = replace(SCHEMA, key=())
    state = fresh(KnownSchemas({ORDERS: SCHEMA}, upto(5)), 5)
    emptied = statement(6, "TRUNCATE orders")
    state, _ = ran(state, emptied, statement(7, "ALTER TABLE orders DROP PRIMARY KEY"))
    _, said = ran(state, answer(7, keyless))
    [again] = restarts(said)
    assert (again.emptied, "primary key" in again.reason) == (False, True)


def test_a_table_that_the_server_lost_changes_of_is_empty_no_more() -> None:
    lost = LogAdvanced(end(3), unread=(RowsUnread("so", databases=None, lost=True),))
    renamed = replace(FULL, metadata=FullMetadata(("id", "state", "labels"), (0,)))
    said = run(fresh(), slice_(1), statement(2, "TRUNCATE orders"), lost, slice_(5, maps=(renamed,)))
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


def in_zone(
    zone: str, text: str, *, utc: bool = False, schema: TableSchema = DATED
) -> list[MirrorInvalidated]:
    """The restarts of a table that has a TIMESTAMP, by a strict statement in this time_zone."""
    columns = dict.fromkeys(column.name for column in schema.columns)
    traits = {ORDERS: replace(NUMBERS, columns=columns)}
    known = KnownSchemas({ORDERS: schema}, upto(5), system_is_utc=utc, traits=traits)
    state = fresh(known, 5, same=schema)
    return restarts(run(state, replace(statement(6, text), strict=True, zone=zone)))


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


def test_a_table_whose_rows_are_elsewhere_stops_by_the_servers_word() -> None:
    traits = {ORDERS: Traits("blackhole")}
    known = KnownSchemas({ORDERS: SCHEMA}, upto(5), traits=traits)
    assert kinds(list(start(SHOP, known, upto(5), {}, (), frozenset())[1])) == ["TableStopped"]
    assert start(SHOP, known, upto(5), {}, [ORDERS], frozenset())[1] == ()
    assert kinds(run(fresh(known, 4), slice_(5, maps=())))[-1] == "TableStopped"
    state, _ = step(fresh(), slice_(1))
    state, _ = step(state, statement(2, "CREATE TABLE orders (id INT)"))
    state, said = step(state, replace(answer(3, SCHEMA), traits=traits))
    assert said == ()
    assert kinds(run(state, slice_(3), slice_(4))) == [
        "SchemaVerified", "ChangesVerified", "TableStopped", "ChangesVerified",
    ]  # fmt: skip


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
    _, news = start(SHOP, known, upto(7), {ORDERS: told.schema}, (), frozenset({ORDERS}))
    assert len(restarts(list(news))) == restarted


def test_a_column_of_which_something_is_not_sure_has_the_table_read_again() -> None:
    state = fresh(KnownSchemas({ORDERS: SCHEMA}, upto(5)), 5)
    for text in (
        ADDING.replace("'new'", "(UUID())"),
        ADDING.replace("orders", "Orders"),
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


def test_a_table_of_another_case_is_altered_for_certain_by_no_statement() -> None:
    state = fresh(KnownSchemas({ORDERS: SCHEMA}, upto(5)), 5)
    said = run(state, slice_(6), statement(7, "ALTER TABLE Orders DROP tags"))
    assert alterations(said) == []
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


# -- stopped tables


def test_a_stopped_table_is_named_once_and_dropped_and_the_others_go_on() -> None:
    items = replace(FULL, table=TableId("shop", "items"))
    misfit = replace(MINIMAL, nullable=(True, True, True))
    said = run(
        fresh(KnownSchemas({ORDERS: SCHEMA}, GtidSet())),
        slice_(1, maps=(misfit, items)),
        slice_(2, maps=(misfit, items)),
        slice_(3),
    )
    assert kinds(said) == [
        "TableStopped", "SchemaVerified", "ChangesVerified", "ChangesVerified", "ChangesVerified",
    ]  # fmt: skip
    assert {schema.table.name for schema in schemas(said)} == {"items"}
    assert [m.transactions.gtid(0).number for m in said if isinstance(m, ChangesVerified)] == [1, 2, 3]


def test_a_slice_in_which_a_table_is_stopped_has_none_of_it() -> None:
    """The news comes before the slice, so that nothing of the table may follow it."""
    other = replace(MINIMAL, nullable=(True, True, True))
    said = run(fresh(KnownSchemas({ORDERS: SCHEMA}, GtidSet())), slice_(1, maps=(FULL, other)))
    assert kinds(said) == ["SchemaVerified", "TableStopped", "ChangesVerified"]
    assert schemas(said) == []


def test_a_table_that_was_stopped_before_a_restart_stays_stopped() -> None:
    state, _ = start(SHOP, NOTHING_KNOWN, GtidSet(), {ORDERS: SCHEMA}, [ORDERS], frozenset())
    said = run(state, statement(1, "DROP TABLE orders"), slice_(2))
    assert kinds(said) == ["SchemaChanged", "ChangesVerified"]
    assert schemas(said) == []


def test_a_value_without_a_label_stops_the_table() -> None:
    for bad in (images(FULL, state=3), images(FULL, tags=4)):
        said = run(fresh(), replace(slice_(1), tables=(bad,)))
        assert kinds(said) == ["TableStopped", "ChangesVerified"]
        assert schemas(said) == []


def test_a_table_that_could_not_be_decoded_is_stopped_by_name_and_the_others_go_on() -> None:
    items = replace(FULL, table=TableId("shop", "items"))
    unreadable = replace(slice_(2), tables=(TableUnreadable(ORDERS, "a time of 25 hours"), images(items)))
    said = run(fresh(), slice_(1), unreadable, slice_(3))
    assert [m for m in said if isinstance(m, TableStopped)] == [TableStopped(ORDERS, "a time of 25 hours")]
    assert [schema.table.name for schema in schemas(said)] == ["orders", "items"]


def test_a_table_stops_before_a_parent_that_is_stopped_could_change_it() -> None:
    """Also with the rows that it has in the same slice: what the parent's rows did to it isn't known."""
    child = TableId("shop", "items")
    state = replace(fresh(), foreign_keys=(ForeignKey(child, ORDERS, ("id",), deletes=True, updates=True),))
    items = images(replace(FULL, table=child))
    unreadable = replace(slice_(2), tables=(items, TableUnreadable(ORDERS, "a time of 25 hours")))
    said = run(state, replace(slice_(1), tables=(items,)), unreadable, replace(slice_(3), tables=(items,)))
    assert [m.table for m in said if isinstance(m, TableStopped)] == [ORDERS, child]
    assert "along with those of shop.orders, which is stopped" in str(said)
    assert [schema.table for schema in schemas(said)] == [child]


# -- parts of a transaction


def part(number: int, *tables: TableImages | TableUnreadable) -> TransactionPartRead:
    return TransactionPartRead(Gtid(SERVER, number), number, tables)


def test_a_part_is_verified_as_a_slice_is() -> None:
    state, (verified, changes) = step(fresh(), part(7, images(FULL)))
    assert verified == SchemaVerified(SCHEMA)
    assert isinstance(changes, TransactionPartVerified)
    assert (changes.gtid, changes.commit_time) == (Gtid(SERVER, 7), 7)
    assert [change.rows.to_pylist() for change in changes.tables] == [
        [{"id": 7, "state": "paid", "tags": "x,y"}]
    ]
    said = run(state, part(7, images(MINIMAL)), part(7, TableUnreadable(ORDERS, "so")), slice_(7))
    assert kinds(said) == [
        "TransactionPartVerified", "TableStopped", "TransactionPartVerified", "ChangesVerified",
    ]  # fmt: skip
    assert schemas(said) == []


def test_a_part_has_not_passed() -> None:
    """What the server knew holds once all of it has passed, which a transaction has with its end."""
    state = fresh(KnownSchemas({ORDERS: SCHEMA}, upto(7)), position=6)
    assert kinds(run(state, part(7), slice_(7, maps=()), slice_(8, maps=(MINIMAL,)))) == [
        "TransactionPartVerified", "ChangesVerified", "SchemaVerified", "SchemaVerified", "ChangesVerified",
    ]  # fmt: skip
    assert kinds(run(state, part(7, images(MINIMAL)))) == []


# -- absent columns


def lacking(*bitmaps: bytes | None) -> TransactionsRead:
    """A slice with a row for each of these bitmaps."""
    count = len(bitmaps)
    whole = images(FULL)
    rows = pa.record_batch(
        [pa.concat_arrays([column] * count) for column in whole.rows.columns], whole.rows.schema
    )
    fields = [[0] * count, [0] * count, range(count), bitmaps, [None] * count]
    meta = pa.record_batch(
        [pa.array(values, f.type) for values, f in zip(fields, IMAGE_FIELDS, strict=True)], IMAGE_FIELDS
    )
    return replace(slice_(1), tables=(replace(whole, images=meta, rows=rows),))


@pytest.mark.parametrize(
    ("bitmaps", "wanted"),
    [
        ([None, None], [None, None]),
        ([None, b"\x04"], [None, ["tags"]]),
        ([b"\x06", b"\x02", b"\x06"], [["state", "tags"], ["state"], ["state", "tags"]]),
    ],
)
def test_absent_columns_are_told_by_their_names(
    bitmaps: list[bytes | None], wanted: list[list[str] | None]
) -> None:
    said = run(fresh(), lacking(*bitmaps))
    (changes,) = [m for m in said if isinstance(m, ChangesVerified)]
    (table,) = changes.tables
    assert table.images.schema == CHANGE_FIELDS
    assert table.images["absent"].to_pylist() == wanted
    assert table.images["ordinal"].to_pylist() == list(range(len(bitmaps)))


def test_an_absent_column_of_the_key_stops_the_table_by_name() -> None:
    said = run(fresh(), lacking(None, b"\x03"))
    (stopped,) = [m for m in said if isinstance(m, TableStopped)]
    assert stopped.table == ORDERS
    assert "without id of its primary key" in stopped.reason
    assert schemas(said) == []


# -- labels


@given(st.lists(st.none() | st.integers(0, 3)))
def test_enum_texts(indices: list[int | None]) -> None:
    labels = ("a", "b", "ü")
    wanted = [None if i is None else ["", *labels][i] for i in indices]
    assert enum_texts(pa.array(indices, pa.int32()), labels).to_pylist() == wanted


@given(st.lists(st.none() | st.integers(0, 2**64 - 1)), st.just(tuple(f"l{i}" for i in range(64))))
def test_set_texts_of_64_labels(patterns: list[int | None], labels: tuple[str, ...]) -> None:
    signed = [None if p is None else p - 2**64 * (p >> 63) for p in patterns]
    wanted = [None if p is None else ",".join(labels[b] for b in range(64) if p >> b & 1) for p in patterns]
    assert set_texts(pa.array(signed, pa.int64()), labels).to_pylist() == wanted


def test_numbers_that_no_label_has() -> None:
    for indices in ([3], [-1, 1]):
        with pytest.raises(NoLabel, match="2 labels"):
            enum_texts(pa.array(indices, pa.int32()), ("a", "b"))
    with pytest.raises(NoLabel, match="the value 0x4"):
        set_texts(pa.array([4], pa.int64()), ("a", "b"))


# -- questions


def test_one_question_is_under_way_at_a_time() -> None:
    state, orders = machine.step(fresh(old=SCHEMA), slice_(1, maps=(MINIMAL,)))
    assert AskServer(frozenset({ORDERS})) not in orders, "it was asked at the start"
    state, [*_, question] = machine.start(
        SHOP, NOTHING_KNOWN, upto(0), {ORDERS: SCHEMA}, (), frozenset({ORDERS})
    )
    assert question == AskServer(frozenset({ORDERS}))
    state, orders = machine.step(state, statement(2, "ALTER TABLE orders COMMENT 'x'"))
    assert not any(isinstance(order, AskServer) for order in orders)
    state, orders = machine.step(state, answer(2, SCHEMA, at=1))
    assert orders == (AskServer(frozenset({ORDERS})),), "it hadn't executed the statement"


# -- engines: one may lose rows that the log has; until the server tells it, the next one may bring others


CREATED = statement(2, "CREATE TABLE orders LIKE other.lost")
STORED = "ALTER TABLE orders ENGINE=InnoDB"


def ran(state: State, *facts: Fact) -> tuple[State, list[Order]]:
    said: list[Order] = []
    for fact in facts:
        state, orders = machine.step(state, fact)
        said += orders
    return state, said


def innodb(told: ServerAnswer) -> ServerAnswer:
    return replace(told, traits={ORDERS: Traits("innodb")})


def engines(said: list[Order]) -> list[EnginesSurveyed]:
    return [order for order in said if isinstance(order, EnginesSurveyed)]


def test_another_engine_before_the_first_was_told_may_bring_other_rows() -> None:
    _, said = ran(fresh(), CREATED, slice_(3), statement(4, STORED))
    [again] = restarts(said)
    assert (again.table, again.emptied) == (ORDERS, False)


def test_a_table_that_may_have_been_created_again_may_have_another_engine() -> None:
    """Also if the server's answer has said before that the table was gone."""
    state, _ = ran(fresh(NOTHING_KNOWN, same=SCHEMA), statement(1, "DROP TABLE orders"), answer(1, None))
    created = statement(2, "CREATE TABLE IF NOT EXISTS orders (id INT) ENGINE=BLACKHOLE")
    _, said = ran(state, created, slice_(3), statement(4, STORED))
    assert [each.emptied for each in restarts(said)] == [False]


def test_rows_of_a_table_that_a_merge_table_may_have_are_others_with_another_engine() -> None:
    state, _ = ran(fresh(), CREATED, slice_(3), innodb(answer(3, SCHEMA)))
    merge = statement(4, "CREATE TABLE other.m (id INT) ENGINE=MERGE UNION=(shop.orders)")
    state, said = ran(state, merge)
    assert AskServer(frozenset({ORDERS})) in said
    assert [again.table for again in restarts(ran(state, statement(5, STORED))[1])] == [ORDERS]


@pytest.mark.parametrize(
    ("traits", "restarted", "stopped"),
    [
        (Traits("myisam"), True, False),
        (Traits("myisam", merged_by=TableId("other", "m")), False, True),
        (Traits("innodb"), False, False),
    ],
    ids=["not merged any more", "merged", "of another engine"],
)
def test_rows_of_a_table_that_a_merge_table_may_have_had_are_read_again(
    traits: Traits, restarted: bool, stopped: bool
) -> None:
    """The MERGE table has gone before the server could be asked, or another definition of this table has shut it."""
    state, _ = ran(fresh(), CREATED, slice_(3), innodb(answer(3, SCHEMA)))
    merge = statement(4, "CREATE TABLE other.m (id INT) ENGINE=MERGE UNION=(shop.orders)")
    told = replace(answer(5, SCHEMA), traits={ORDERS: traits})
    state, said = ran(state, merge, slice_(5), told)
    assert [again.table for again in restarts(said)] == ([ORDERS] if restarted else [])
    assert any(isinstance(order, TableStopped) for order in said) is stopped
    _, said = ran(state, statement(6, "ALTER TABLE orders ADD KEY (state)"), replace(told, end=end(6)))
    assert restarts(said) == []


def test_another_engine_behind_one_that_was_told_brings_the_same_rows() -> None:
    state, _ = ran(fresh(), CREATED, slice_(3), innodb(answer(3, SCHEMA)))
    assert restarts(ran(state, statement(4, STORED))[1]) == []


def test_a_harmless_statement_leaves_the_engine_that_was_told() -> None:
    state, _ = ran(fresh(), CREATED, slice_(3), innodb(answer(3, SCHEMA)))
    _, said = ran(state, statement(4, "ALTER TABLE orders ADD KEY (state)"), statement(5, STORED))
    assert engines(said) == []
    assert restarts(said) == []


def test_an_answer_without_the_last_statement_tells_no_engine() -> None:
    state, said = ran(fresh(), CREATED, slice_(3), innodb(answer(3, SCHEMA, at=1)), statement(4, STORED))
    assert len(restarts(said)) == 1
    assert ORDERS in state.unknown_engines


def test_the_checkpoint_knows_no_later_that_it_is_unknown_and_no_earlier_that_it_is_told() -> None:
    _, said = ran(fresh(), CREATED, slice_(3), innodb(answer(3, SCHEMA)))
    unknown, told = engines(said)
    assert unknown == EnginesSurveyed(frozenset({ORDERS}))
    assert said.index(unknown) < [isinstance(each, SchemaChanged) for each in said].index(True)
    assert told == EnginesSurveyed(frozenset())
    assert said.index(told) == len(said) - 1


def test_a_start_knows_from_the_checkpoint_which_engines_are_unknown() -> None:
    known = KnownSchemas({ORDERS: SCHEMA}, upto(5), traits={ORDERS: Traits("innodb")})
    unknown = frozenset({ORDERS})

    def begun(unknown: frozenset[TableId]) -> State:
        return machine.start(
            SHOP, known, upto(4), {ORDERS: SCHEMA}, (), frozenset(), unknown_engines=unknown
        )[0]

    assert len(restarts(ran(begun(unknown), statement(5, STORED))[1])) == 1
    assert restarts(ran(begun(frozenset()), statement(5, STORED))[1]) == []


def test_a_table_that_is_gone_has_no_engine() -> None:
    state, _ = machine.start(SHOP, NOTHING_KNOWN, GtidSet(), {ORDERS: SCHEMA}, (), frozenset())
    state, _ = ran(state, statement(1, "DROP TABLE orders"))
    assert state.unknown_engines == {ORDERS}
    assert ran(state, answer(1, None))[0].unknown_engines == frozenset()


def test_a_table_that_is_created_has_no_rows_whatever_became_of_the_one_before() -> None:
    """A DROP TABLE that failed may have taken it: it's read again, and can't be read once it's gone."""
    dropped = replace(statement(1, "DROP TABLE orders, other.parent"), failed=True)
    state = fresh(NOTHING_KNOWN, same=SCHEMA)
    state, said = ran(state, dropped)
    assert [each.emptied for each in restarts(said)] == [False]
    state, said = ran(state, CREATED)
    assert [each.emptied for each in restarts(said)] == [True]
    # Behind a DROP TABLE that took it, nothing is new in that.
    state, said = ran(state, statement(3, "DROP TABLE orders"), statement(4, "CREATE TABLE orders (id INT)"))
    assert [each.emptied for each in restarts(said)] == [True]


# Protected columns


def protecting(*columns: str, tables: str = r"shop\.orders") -> Protection:
    return Protection(rules=(ProtectionRule(TableFilter((tables,)), columns, Treatment.EXCLUDE),))


def stops(said: Iterable[FromVerifier]) -> dict[TableId, str]:
    return {each.table: each.reason for each in said if isinstance(each, TableStopped)}


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        (("tags",), None),
        (("labels",), "it has no column 'labels'"),
        (("id",), "its column 'id' is in the primary key"),
    ],
)
def test_a_table_that_the_rules_do_not_fit_is_stopped_whoever_tells_its_columns(
    columns: tuple[str, ...], why: str | None
) -> None:
    """The server does at the start and after a statement, and the log with its rows, of which none passes."""
    known = KnownSchemas({ORDERS: SCHEMA}, upto(5))
    protection = protecting(*columns)
    _, at_start = start(SHOP, known, upto(5), {}, (), frozenset(), protection=protection)
    later = replace(fresh(), protection=protection)
    with_rows = run(later, slice_(1))
    state, _ = step(
        replace(fresh(same=SCHEMA), protection=protection), statement(1, "ALTER TABLE orders ADD x int")
    )
    answered = run(state, answer(2, SCHEMA), LogAdvanced(end(2)))
    for said in (at_start, with_rows, answered):
        assert (ORDERS in stops(said)) == (why is not None)
        assert (why or "") in stops(said).get(ORDERS, "")
    assert schemas(with_rows) == ([] if why else [SCHEMA])


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


def test_columns_without_rules_get_other_names() -> None:
    state = replace(
        fresh(KnownSchemas({ORDERS: SCHEMA}, upto(5)), 5, same=SCHEMA), protection=protecting("tags")
    )
    _, said = step(state, statement(6, "ALTER TABLE orders RENAME COLUMN state TO condition_"))
    assert stops(said) == {}
