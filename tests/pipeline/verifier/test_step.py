"""Names only where they're proven: what is sent, what waits for the server's answer, and what is left out."""

from dataclasses import replace

import pyarrow as pa
import pytest

from pipeline.gtid.gtid_set import GtidSet
from pipeline.messages.binlog import LogAdvanced, ReadingPaused
from pipeline.messages.changes import ChangesVerified, MirrorInvalidated, SchemasVerified, TableStopped
from pipeline.messages.message_size import weight
from pipeline.messages.row_images import IMAGE_FIELDS, TableImages
from pipeline.schema.known_schemas import KnownSchemas
from pipeline.schema.table_map import NoMetadata, TableMap
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.schema.table_traits import Traits
from pipeline.snapshot.checkpoint import Checkpoint
from pipeline.types.column_types import Integer, RawInteger, RawString, Text
from pipeline.types.field_types import Storage
from pipeline.verifier import schema_fence
from pipeline.verifier import step as machine
from pipeline.verifier.state import FromVerifier, State
from pipeline.verifier.step import AskServer, tables_to_ask
from tests.pipeline.verifier.answers import start, step, told
from tests.pipeline.verifier.small_log import (
    END,
    FULL,
    MINIMAL,
    NOTHING_KNOWN,
    ORDERS,
    RENAMED,
    SCHEMA,
    SHOP,
    TAGS_GONE,
    Message,
    answer,
    end,
    fresh,
    images,
    kinds,
    part,
    ran,
    restarts,
    run,
    schemas,
    slice_,
    statement,
    stops,
    upto,
    verified,
)

# -- full metadata


def test_progress_and_pauses_are_passed_on() -> None:
    for message in (LogAdvanced(END), ReadingPaused()):
        assert step(fresh(), message)[1] == (message,)


# -- minimal metadata: when is a schema proven?


def test_the_servers_schema_holds_once_all_that_it_had_executed_has_passed() -> None:
    known = KnownSchemas({ORDERS: SCHEMA}, upto(5))
    said = run(fresh(known, position=5), slice_(6, maps=(MINIMAL,)))
    assert kinds(said) == ["SchemasVerified", "ChangesVerified"]
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


# -- statements that were logged while the server was asked

TWO_LOOKS = KnownSchemas({ORDERS: SCHEMA}, upto(5), end=end(7))
UNDONE = "ALTER TABLE orders RENAME COLUMN labels TO tags"


def test_the_start_s_schema_is_proven_at_the_log_s_end_behind_it() -> None:
    state = fresh(TWO_LOOKS, 5, old=SCHEMA)
    assert tables_to_ask(state) == frozenset()
    state, said = step(state, slice_(6, maps=(MINIMAL,)))
    assert said == (), "a statement may still be to come"
    assert schemas(run(state, slice_(7, maps=()))) == [SCHEMA]
    assert kinds(run(fresh(TWO_LOOKS, 5, old=SCHEMA), LogAdvanced(end(6)))) == ["LogAdvanced"]
    assert kinds(run(fresh(TWO_LOOKS, 5, old=SCHEMA), LogAdvanced(end(7)))) == [
        "LogAdvanced",
        "SchemasVerified",
    ]


def test_a_start_s_schemas_that_are_proven_at_once_are_reported_at_once() -> None:
    """There may be thousands of them, and each report costs a checkpoint of all tables."""
    known = {table: replace(SCHEMA, table=table) for table in (TableId("shop", "items"), ORDERS)}
    state = start(SHOP, replace(TWO_LOOKS, schemas=known), Checkpoint(upto(5)))[0]
    assert run(state, LogAdvanced(end(6)), LogAdvanced(end(7)))[2:] == [
        SchemasVerified(tuple(known.values()))
    ]


def test_a_statement_that_undid_another_leaves_what_lies_between_unproven() -> None:
    """Orders had SCHEMA, then RENAMED for transaction 6, and SCHEMA again: the server reported SCHEMA twice."""
    waiting: list[Message] = [slice_(6, maps=(MINIMAL,)), statement(7, UNDONE)]
    [changes, *_] = run(fresh(TWO_LOOKS, 5, old=SCHEMA), *waiting)
    assert isinstance(changes, ChangesVerified)
    [restarted] = changes.restarted
    assert (changes.tables, restarted.gap) == ((), True)
    more = (slice_(8, maps=(MINIMAL,)), answer(8, SCHEMA, at=7))
    assert schemas(run(fresh(TWO_LOOKS, 5, old=SCHEMA), *waiting, *more)) == [SCHEMA]


def test_so_does_one_behind_all_that_was_to_come() -> None:
    lagging: list[Message] = [statement(5, "ALTER TABLE orders ADD x INT"), LogAdvanced(end(5), upto(5))]
    state = fresh(TWO_LOOKS, 3)
    for message in lagging:
        state, _ = step(state, message)
    [changes, *_] = run(state, slice_(6, maps=(MINIMAL,)), statement(7, UNDONE))
    assert isinstance(changes, ChangesVerified)
    assert changes.tables == ()
    assert kinds(run(state, LogAdvanced(end(7)))) == ["LogAdvanced", "SchemasVerified"]


def test_a_checkpoint_with_the_same_schema_needs_no_further_proof() -> None:
    """No statement has passed since it was proven. So the two looks say no more than it does."""
    said = run(fresh(TWO_LOOKS, 5, same=SCHEMA), slice_(6, maps=(MINIMAL,)))
    assert schemas(said) == [SCHEMA]


# -- tables that statements altered while the server was asked

UNSETTLED = KnownSchemas(
    {ORDERS: RENAMED}, upto(5), traits={ORDERS: Traits("innodb")}, unsettled=frozenset({ORDERS})
)


def at_start(checkpoint: Checkpoint) -> State:
    """At this checkpoint, while the server has orders in one moment thus, and thus in the next."""
    return start(SHOP, UNSETTLED, checkpoint)[0]


def test_what_the_server_has_of_an_unsettled_table_is_not_believed() -> None:
    """At a first start its statement may have passed already. So the server is asked once more."""
    state = at_start(Checkpoint(upto(5), schemas={ORDERS: RENAMED}, unproven=frozenset({ORDERS})))
    assert tables_to_ask(state) == {ORDERS}
    waiting = slice_(6, maps=(MINIMAL,))
    assert run(state, waiting) == []
    said = run(state, answer(6, SCHEMA, at=5), LogAdvanced(end(6)), slice_(7, maps=(MINIMAL,)))
    assert schemas(said) == [SCHEMA]
    assert schemas(run(state, waiting, answer(6, SCHEMA, at=5))) == [SCHEMA]


def test_an_unsettled_table_that_the_checkpoint_lacks_is_reported_with_the_answer() -> None:
    said = run(at_start(Checkpoint(upto(5))), answer(5, SCHEMA), LogAdvanced(end(5)))
    assert verified(said) == [SCHEMA]


def test_an_unsettled_table_is_as_the_checkpoint_has_it_until_a_statement_passes() -> None:
    state = at_start(Checkpoint(upto(3), schemas={ORDERS: SCHEMA}))
    assert schemas(run(state, slice_(4, maps=(MINIMAL,)), slice_(5, maps=(MINIMAL,)))) == [SCHEMA, SCHEMA]
    altered = statement(5, "ALTER TABLE orders RENAME COLUMN tags TO labels")
    state, _ = step(step(state, slice_(4, maps=(MINIMAL,)))[0], altered)
    assert run(state, slice_(6, maps=(MINIMAL,))) == [], "it may be of before the statement after it"


def test_the_server_is_asked_for_an_unsettled_table_s_engine() -> None:
    state = at_start(Checkpoint(upto(5), schemas={ORDERS: SCHEMA}))
    assert tables_to_ask(state) == {ORDERS}
    blackhole = replace(answer(5, SCHEMA), traits={ORDERS: Traits("blackhole")})
    said = run(state, blackhole, LogAdvanced(end(5)))
    assert [each.table for each in said if isinstance(each, TableStopped)] == [ORDERS]


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
        assert kinds(then)[:3] == ["SchemasVerified", "SchemasVerified", "ChangesVerified"]
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
    assert verified == SchemasVerified((RENAMED,), (MirrorInvalidated(ORDERS, TAGS_GONE),))
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
        "SchemasVerified",
        "SchemasVerified",
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
    assert kinds(said) == ["SchemaChanged", "SchemasVerified"]
    assert said[1] == SchemasVerified((RENAMED,), (MirrorInvalidated(ORDERS, TAGS_GONE, emptied=True),))
    # Rows of a log without column names, from before the drop: their columns are no longer known.
    state = fresh(KnownSchemas({}, upto(9)), 5, old=SCHEMA)
    dropped = statement(8, "DROP TABLE orders")
    said = run(state, slice_(6, maps=(MINIMAL,)), answer(9, None), dropped, LogAdvanced(end(9)))
    assert kinds(said) == ["ChangesVerified", "SchemaChanged", "LogAdvanced"]
    assert "no such table any more" in str(said[0])
    assert schemas(said) == []


@pytest.mark.parametrize("known", [{}, {"old": SCHEMA}])
def test_a_table_that_the_server_does_not_show_stops_by_name(known: dict[str, TableSchema]) -> None:
    """Its rows come, and no statement took it away: the user may not SELECT from it."""
    state, orders = ran(fresh(KnownSchemas({}, upto(5)), 5, **known), slice_(6, maps=(MINIMAL,)))
    state, orders = ran(state, answer(7, None), LogAdvanced(end(7)))
    # A dropped MyISAM table is gone a moment before the log has that, so that the server is asked once more.
    assert orders == [AskServer(frozenset({ORDERS}))]
    state, orders = ran(state, answer(8, None), LogAdvanced(end(8)))
    assert kinds(orders) == ["TableStopped", "ChangesVerified", "LogAdvanced", "LogAdvanced"]
    assert "grant SELECT, or leave it out" in stops(orders)[ORDERS]
    state, orders = ran(state, slice_(9, maps=(MINIMAL,)))
    assert kinds(orders) == ["ChangesVerified"]
    assert schemas([each for each in orders if not isinstance(each, AskServer)]) == []


def test_a_table_that_is_gone_before_its_drop_is_in_the_log_is_gone() -> None:
    state, _ = ran(fresh(KnownSchemas({}, upto(5)), 5), slice_(6, maps=(MINIMAL,)), answer(7, None))
    dropped = statement(8, "DROP TABLE orders")
    state, orders = ran(state, LogAdvanced(end(7)), dropped, answer(8, None))
    assert stops(orders) == {}
    assert kinds(said := told(orders)) == ["ChangesVerified", "LogAdvanced", "SchemaChanged"]
    assert "no such table any more" in str(said[0])
    assert ORDERS not in state.tables


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
    news = start(SHOP, known, Checkpoint(upto(5), schemas={ORDERS: SCHEMA}))[1]
    assert news == (SchemasVerified((RENAMED,), (MirrorInvalidated(ORDERS, TAGS_GONE),)),)
    assert schemas(run(fresh(known, 2, old=SCHEMA), slice_(3))) == [SCHEMA]


def test_a_start_reports_what_it_proves_of_a_schema_that_a_statement_left_as_it_was() -> None:
    """Service or server were gone before the answer after the statement. The table may never change again."""
    known = KnownSchemas({ORDERS: SCHEMA}, upto(5))
    checkpoint = Checkpoint(upto(5), schemas={ORDERS: SCHEMA}, unproven=frozenset({ORDERS}))
    assert start(SHOP, known, checkpoint)[1] == (SchemasVerified((SCHEMA,)),)
    assert start(SHOP, known, replace(checkpoint, unproven=frozenset()))[1] == ()
    state, said = start(SHOP, known, replace(checkpoint, position=upto(3)))
    assert said == ()
    assert run(state, slice_(4, 5, maps=()))[1:] == [SchemasVerified((SCHEMA,))]


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


def elsewhere() -> State:
    """Two transactions before the place at which the server has other columns, which no statement explains."""
    return fresh(KnownSchemas({ORDERS: RENAMED}, upto(5)), 3, same=SCHEMA)


def test_columns_that_no_statement_explains_hold_once_the_servers_place_is_reached() -> None:
    """A server that has taken over has them, or sql_log_bin was 0. What got names of the checkpoint's is read again."""
    state, said = elsewhere(), list[FromVerifier]()
    for log in (slice_(4, maps=(MINIMAL,)), slice_(5, maps=()), slice_(6, maps=(MINIMAL,))):
        state, told = step(state, log)
        said += told
    assert schemas(said) == [SCHEMA, RENAMED]
    before, at_the_place, after = (each for each in said if isinstance(each, ChangesVerified))
    assert before.restarted == after.restarted == ()
    [again] = at_the_place.restarted  # no segment has the place without it
    assert again.table == ORDERS and again.gap and not again.emptied
    assert "no statement in the log has made its columns what they are at the source" in again.reason
    corrected = SchemasVerified((RENAMED,), (MirrorInvalidated(ORDERS, TAGS_GONE),))
    assert said[said.index(at_the_place) + 1] == corrected


@pytest.mark.parametrize(
    "last",
    [
        slice_(5, maps=(MINIMAL,)),
        statement(5, "CREATE TABLE another (id INT PRIMARY KEY)"),
        LogAdvanced(end(5), upto(5)),
    ],
)
def test_no_last_thing_to_come_has_the_place_without_the_restart(last: Message) -> None:
    state, _ = step(elsewhere(), slice_(4, maps=(MINIMAL,)))
    said = list(step(state, last)[1])
    at_the_place = next(i for i, m in enumerate(said) if not isinstance(m, MirrorInvalidated))
    assert [each.table for each in restarts(said[: at_the_place + 1])] == [ORDERS]
    assert kinds(said)[-1] == "SchemasVerified"


def test_columns_that_the_log_names_or_a_statement_explains_are_read_once() -> None:
    named = run(elsewhere(), slice_(4), slice_(5, maps=()), slice_(6))
    assert restarts(named) == []
    quiet = run(elsewhere(), slice_(4, 5, maps=()))
    assert [each.reason for each in restarts(quiet)] == [TAGS_GONE]
    altered = statement(5, "ALTER TABLE orders RENAME COLUMN tags TO labels")
    assert restarts(run(elsewhere(), slice_(4, maps=(MINIMAL,)), altered, slice_(6, maps=(MINIMAL,)))) == []
    later = statement(7, "ALTER TABLE orders RENAME COLUMN tags TO labels")
    said = run(elsewhere(), slice_(4, maps=(MINIMAL,)), later, slice_(5, maps=()))
    assert restarts(said) == [], "the server may have another one by now, and is asked"


def test_a_checkpoint_speaks_for_a_table_that_is_gone_until_the_statement_passes() -> None:
    """What takes a table away can be seen before the executed set has it."""
    said = run(fresh(position=1, it=SCHEMA), slice_(2, maps=(MINIMAL,)), statement(3, "DROP TABLE orders"))
    assert kinds(said) == ["SchemasVerified", "ChangesVerified", "SchemaChanged"]
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
    log = replace(slice_(6, maps=()), tables=(TableImages(bare, fields, rows, fields.nbytes + rows.nbytes),))

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


# -- questions


def test_one_question_is_under_way_at_a_time() -> None:
    state, orders = machine.step(fresh(old=SCHEMA), slice_(1, maps=(MINIMAL,)))
    assert AskServer(frozenset({ORDERS})) not in orders, "it was asked at the start"
    state, [*_, question] = machine.start(
        SHOP, NOTHING_KNOWN, Checkpoint(upto(0), schemas={ORDERS: SCHEMA}, unproven=frozenset({ORDERS}))
    )
    assert question == AskServer(frozenset({ORDERS}))
    state, orders = machine.step(state, statement(2, "ALTER TABLE orders COMMENT 'x'"))
    assert not any(isinstance(order, AskServer) for order in orders)
    state, orders = machine.step(state, answer(2, SCHEMA, at=1))
    assert orders == (AskServer(frozenset({ORDERS})),), "it hadn't executed the statement"
