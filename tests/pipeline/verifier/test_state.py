"""What is known of tables: their schemas, foreign keys and engines, and what is reported as that changes."""

from collections.abc import Iterable
from dataclasses import replace

import pyarrow as pa
import pytest

from pipeline.gtid.gtid_set import GtidSet
from pipeline.messages.binlog import LogAdvanced, TransactionsRead
from pipeline.messages.changes import (
    ChangesVerified,
    ForeignKeysFollowed,
    MirrorInvalidated,
    SchemasVerified,
    TableStopped,
)
from pipeline.messages.row_images import IMAGE_FIELDS, ImageKind, TableImages, TableUnreadable
from pipeline.schema.foreign_key import ForeignKey
from pipeline.schema.known_schemas import KnownSchemas
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_map import FullMetadata
from pipeline.schema.table_schema import TableId
from pipeline.schema.table_traits import Traits
from pipeline.snapshot.checkpoint import Checkpoint
from pipeline.verifier import step as machine
from pipeline.verifier.cascades import OutdatedForeignKeys
from pipeline.verifier.state import State, stops_for_engines
from pipeline.verifier.step import Order, tables_to_ask
from tests.pipeline.verifier.answers import start, step
from tests.pipeline.verifier.small_log import (
    FULL,
    NOTHING_KNOWN,
    ORDERS,
    SCHEMA,
    SHOP,
    answer,
    end,
    fresh,
    images,
    kinds,
    protecting,
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
from tests.pipeline.verifier.test_cascades import A, B, C, D

ITEMS, OTHERS = TableId("shop", "items"), TableId("other", "lines")
ADDED = "ALTER TABLE orders ADD FOREIGN KEY (state) REFERENCES items (id) ON DELETE CASCADE"
GIVEN = replace(answer(2, SCHEMA), foreign_keys=(ForeignKey(ORDERS, ITEMS, ("id",), True, False),))


def behind_the_statement(*, reread: bool) -> State:
    """An image has proven the table's schema since, so the server needn't be queried for this."""
    state = replace(fresh(), outdated_keys=OutdatedForeignKeys(reread))
    for message in (slice_(1), statement(2, ADDED), slice_(3)):
        state, _ = step(state, message)
    return state


def test_the_server_is_asked_though_the_schema_is_proven() -> None:
    state = behind_the_statement(reread=True)
    assert ORDERS in tables_to_ask(state)
    state, said = step(state, replace(GIVEN, at=answer(1, None).at, foreign_keys=()))
    assert said == ()
    assert ORDERS in tables_to_ask(state), "it hadn't executed the statement"
    assert ORDERS not in tables_to_ask(step(state, GIVEN)[0])
    logged, _ = step(step(fresh(), statement(2, ADDED))[0], slice_(3))
    logged, said = step(logged, GIVEN)
    assert said == ()
    assert logged.foreign_keys == (), "the server logs what foreign keys do"
    assert ORDERS not in tables_to_ask(logged)


def test_what_a_new_one_did_meanwhile_is_read_anew_and_what_it_does_is_noticed() -> None:
    state, (restarted,) = step(behind_the_statement(reread=True), GIVEN)
    assert isinstance(restarted, MirrorInvalidated)
    assert (restarted.table, restarted.emptied) == (ORDERS, False)
    assert state.foreign_keys == GIVEN.foreign_keys
    assert step(state, GIVEN)[1] == (), "it isn't new any more"
    assert step(state, replace(GIVEN, foreign_keys=()))[0].foreign_keys == GIVEN.foreign_keys


@pytest.mark.parametrize(("reread", "parent"), [(False, ITEMS), (True, OTHERS)])
def test_one_that_is_not_or_cannot_be_noticed_stops_its_table_by_name(reread: bool, parent: TableId) -> None:
    key = replace(GIVEN.foreign_keys[0], parent=parent)
    state, (stopped,) = step(
        behind_the_statement(reread=reread), replace(GIVEN, foreign_keys=(key, replace(key, child=OTHERS)))
    )
    assert isinstance(stopped, TableStopped)
    assert stopped.table == ORDERS
    assert (
        f"changes its rows along with those of {parent}, and this server doesn't log that" in stopped.reason
    )
    assert not [m for m in step(state, slice_(4, maps=(FULL,)))[1] if isinstance(m, SchemasVerified)]
    assert step(state, replace(GIVEN, foreign_keys=(key,)))[1] == ()


# -- foreign keys at a start

BY_ORDERS = ForeignKey(ITEMS, ORDERS, ("id",), deletes=True, updates=True)
BOTH = {table: replace(SCHEMA, table=table) for table in (ORDERS, ITEMS)}


def at_start(
    *keys: ForeignKey,
    before: tuple[ForeignKey, ...] | None,
    to: int = 3,
    reread: bool | None = True,
    captured: TableFilter = SHOP,
) -> tuple[State, list[Order]]:
    """A start at 1, at a server that has executed `to`; `reread` is None if it logs what foreign keys do."""
    checkpoint = Checkpoint(upto(1), schemas=BOTH, foreign_keys=before)
    outdated = None if reread is None else OutdatedForeignKeys(reread)
    state, orders = machine.start(
        captured, KnownSchemas(BOTH, upto(to)), checkpoint, foreign_keys=keys, outdated_keys=outdated
    )
    return state, list(orders)


def followed(said: Iterable[Order]) -> list[tuple[ForeignKey, ...]]:
    return [each.keys for each in said if isinstance(each, ForeignKeysFollowed)]


def deleting(number: int) -> TransactionsRead:
    """A transaction that deletes a row of ORDERS."""
    [row] = slice_(number).tables
    assert isinstance(row, TableImages)
    kind = pa.array([int(ImageKind.DELETE)], pa.int8())
    gone = replace(row, images=row.images.set_column(0, IMAGE_FIELDS.field("kind"), kind))
    return replace(slice_(number), tables=(gone,))


def reread_along(said: Iterable[Order]) -> list[list[TableId]]:
    """The tables that each slice restarts."""
    return [[each.table for each in m.restarted] for m in said if isinstance(m, ChangesVerified)]


@pytest.mark.parametrize(
    ("now", "reread"),
    [
        ((), True),
        ((replace(BY_ORDERS, parent=TableId("shop", "renamed")),), True),
        ((), False),
        ((), None),
    ],
    ids=["dropped", "the parent renamed", "dropped, and none may come", "logged by now"],
)
def test_a_start_follows_the_foreign_keys_that_worked_in_what_is_to_come(
    now: tuple[ForeignKey, ...], reread: bool | None
) -> None:
    state, first = at_start(*now, before=(BY_ORDERS, *now), reread=reread)
    assert (followed(first), restarts(first)) == ([], [])
    state, said = ran(state, deleting(2))
    assert (reread_along(said), followed(said)) == ([[ITEMS]], [])
    # With this one all has passed that the server had executed when it was asked.
    state, said = ran(state, deleting(3))
    assert (reread_along(said), followed(said)) == ([[ITEMS]], [now])
    assert isinstance(said[0], ChangesVerified), "no segment may have the foreign keys without that position"
    _, said = ran(state, deleting(4))
    assert (reread_along(said), followed(said)) == ([[]], [])


def test_a_start_forgets_former_foreign_keys_if_nothing_is_to_come() -> None:
    state, first = at_start(before=(BY_ORDERS,), to=1)
    assert (state.foreign_keys, followed(first), restarts(first)) == ((), [()], [])


LINES = TableId("shop", "lines")
BY_ITEMS = ForeignKey(LINES, ITEMS, ("id",), deletes=True, updates=False)
WITHOUT_ORDERS = TableFilter((r"shop\.(items|lines)",))


def test_a_foreign_key_that_is_gone_stops_no_table_with_its_parent() -> None:
    """What it did to the rows that are to come isn't seen, so that they are read after these."""
    before = (BY_ORDERS, BY_ITEMS)
    state, first = at_start(before=before, captured=WITHOUT_ORDERS)
    assert list(stops(first)) == [ORDERS]
    assert ([each.table for each in restarts(first)], followed(first)) == ([ITEMS, LINES], [])
    items = replace(slice_(2), tables=(images(replace(FULL, table=ITEMS)),))
    state, said = ran(state, items)
    assert (stops(said), restarts(said), followed(said)) == ({}, [], [])
    state, said = ran(state, slice_(3))
    assert (stops(said), followed(said)) == ({}, [()])
    assert kinds(said) == ["ChangesVerified", "MirrorInvalidated", "MirrorInvalidated", "ForeignKeysFollowed"]
    assert [each.table for each in restarts(said)] == [ITEMS, LINES]
    _, said = ran(state, slice_(4))
    assert kinds(said) == ["ChangesVerified"]


def test_a_recaptured_table_is_read_after_what_a_former_foreign_key_of_a_stopped_table_did() -> None:
    checkpoint = Checkpoint(upto(1), schemas=BOTH, foreign_keys=(BY_ORDERS,), stopped={ORDERS: "it was"})
    state, _ = machine.start(SHOP, KnownSchemas(BOTH, upto(3)), checkpoint)
    _, said = ran(state, slice_(2), slice_(3))
    assert (stops(said), [each.table for each in restarts(said)]) == ({}, [ITEMS])


def test_a_kill_between_the_last_transaction_and_the_restarts_loses_none() -> None:
    _, first = at_start(before=(BY_ORDERS,), captured=WITHOUT_ORDERS, to=1)
    assert [each.table for each in restarts(first)] == [ITEMS]
    assert followed(first[-1:]) == [()], "no segment may lack it without the restart"


def test_a_foreign_key_that_is_there_stops_the_next_one_too() -> None:
    """The next one is gone, and its own parent stops at the first message."""
    checkpoint = Checkpoint(
        upto(1), schemas=BOTH, foreign_keys=(BY_ORDERS, BY_ITEMS), stopped={ORDERS: "it was"}
    )
    state, _ = machine.start(
        SHOP,
        KnownSchemas(BOTH, upto(3)),
        checkpoint,
        foreign_keys=(BY_ORDERS,),
        outdated_keys=OutdatedForeignKeys(reread=True),
    )
    _, said = ran(state, slice_(2), slice_(3))
    assert list(stops(said)) == [ITEMS]
    assert [each.table for each in restarts(said)] == [LINES]


def test_a_foreign_key_of_a_stopped_table_that_came_back_stops_its_child() -> None:
    state, _ = at_start(before=(BY_ORDERS,), captured=WITHOUT_ORDERS)
    altered = statement(2, "ALTER TABLE items ADD x INT")
    state, _ = ran(state, altered, replace(answer(2, None), foreign_keys=(BY_ORDERS,)))
    _, said = ran(state, slice_(3))
    assert list(stops(said)) == [ITEMS]


def test_a_foreign_key_that_came_back_is_not_forgotten() -> None:
    state, _ = at_start(before=(BY_ORDERS,))
    state, said = ran(state, statement(2, ADDED), replace(answer(4, SCHEMA), foreign_keys=(BY_ORDERS,)))
    assert (restarts(said), followed(said)) == ([], [])
    _, said = ran(state, slice_(3), deleting(4))
    assert (reread_along(said), followed(said)) == ([[], [ITEMS]], [])


def test_a_foreign_key_that_the_checkpoint_lacks_has_its_tables_read_again() -> None:
    """It came while nobody asked the server, or a kill came before the answer."""
    state, first = at_start(BY_ORDERS, before=())
    assert [each.table for each in restarts(first)] == [ITEMS]
    assert followed(first[-1:]) == [(BY_ORDERS,)], "no segment may have it without the restart"
    assert reread_along(ran(state, deleting(2))[1]) == [[ITEMS]]
    _, first = at_start(BY_ORDERS, before=None)
    assert (restarts(first), followed(first)) == ([], [(BY_ORDERS,)])
    _, first = at_start(BY_ORDERS, before=(BY_ORDERS,))
    assert (restarts(first), followed(first)) == ([], [])


def test_a_new_foreign_key_is_reported_behind_its_restarts() -> None:
    _, (restarted, known) = ran(behind_the_statement(reread=True), GIVEN)
    assert isinstance(restarted, MirrorInvalidated)
    assert known == ForeignKeysFollowed(GIVEN.foreign_keys)


# -- engines


def test_tables_stop_whose_rows_are_elsewhere() -> None:
    traits = {A: Traits("innodb"), B: Traits("blackhole"), C: Traits(""), D: Traits("mrg_myisam")}
    stops = stops_for_engines(traits, [A, B, C], [])
    assert [stop.table for stop in stops] == [B, C]
    assert [stop.reason.partition(",")[0] for stop in stops] == [
        "its engine is BLACKHOLE",
        "its engine is unknown",
    ]
    assert stops_for_engines(traits, [B, D], [B, D]) == ()


def test_a_table_stops_that_a_merge_table_has_in_its_union() -> None:
    [stop] = stops_for_engines({A: Traits("myisam"), B: Traits("myisam", merged_by=D)}, [A, B], [])
    assert stop.table == B
    assert stop.reason.startswith(f"the MERGE table {D} has it in its UNION")


def test_a_table_that_cannot_be_captured_stops_with_its_first_images() -> None:
    """None of its rows go on, those of later slices neither."""
    ours = replace(FULL, metadata=FullMetadata(("id", "__op", "tags"), (0,)))
    said = run(fresh(), slice_(1, maps=(ours,)), slice_(2, maps=(ours,)))
    assert kinds(said) == ["TableStopped", "ChangesVerified", "ChangesVerified"]
    assert schemas(said) == []


def test_after_a_statement_the_same_version_is_verified_anew() -> None:
    said = run(fresh(), slice_(1), statement(2, "ALTER TABLE orders COMMENT 'x'"), slice_(3))
    assert kinds(said)[2:] == ["SchemaChanged", "SchemasVerified", "ChangesVerified"]


def test_a_table_that_the_checkpoint_lacks_is_told_at_the_start_if_nothing_is_to_come() -> None:
    known = KnownSchemas({ORDERS: SCHEMA}, upto(5))
    assert start(SHOP, known, Checkpoint(upto(5)))[1] == (SchemasVerified((SCHEMA,)),)
    assert start(SHOP, known, Checkpoint(upto(5), schemas={ORDERS: SCHEMA}))[1] == ()
    assert start(SHOP, known, Checkpoint(upto(5), stopped={ORDERS: "it was"}))[1] == ()
    assert start(SHOP, known, Checkpoint(upto(4)))[1] == ()


def test_it_is_told_behind_the_last_transaction_that_was_to_come() -> None:
    known = KnownSchemas({ORDERS: SCHEMA}, upto(5))
    said = run(fresh(known, 2), slice_(3, 4, maps=()), slice_(5, maps=()), slice_(6, maps=()))
    assert kinds(said) == ["ChangesVerified", "ChangesVerified", "SchemasVerified", "ChangesVerified"]
    assert verified(said) == [SCHEMA]
    said = run(fresh(known, 2), slice_(3, 4, maps=()), statement(5, "CREATE TABLE orders (id INT)"))
    assert kinds(said) == ["ChangesVerified", "SchemaChanged", "SchemasVerified"]
    # A map has reported it before.
    said = run(fresh(known, 2), slice_(3, 4), slice_(5))
    assert kinds(said) == ["SchemasVerified", "ChangesVerified", "ChangesVerified"]


def test_a_table_that_is_not_captured_any_more_is_stopped() -> None:
    items = TableId("other", "items")
    state, news = start(
        SHOP, NOTHING_KNOWN, Checkpoint(GtidSet(), schemas={items: replace(SCHEMA, table=items)})
    )
    [stopped] = news
    assert isinstance(stopped, TableStopped)
    assert (stopped.table, "configuration" in stopped.reason) == (items, True)
    assert schemas(run(state, slice_(1, maps=(replace(FULL, table=items), FULL)))) == [SCHEMA]
    # Once it's durable it isn't reported again.
    assert (
        start(
            SHOP,
            NOTHING_KNOWN,
            Checkpoint(GtidSet(), schemas={items: replace(SCHEMA, table=items)}, stopped={items: "it was"}),
        )[1]
        == ()
    )


def test_a_table_that_lost_its_key_is_not_empty_for_its_mirror() -> None:
    keyless = replace(SCHEMA, key=())
    state = fresh(KnownSchemas({ORDERS: SCHEMA}, upto(5)), 5)
    emptied = statement(6, "TRUNCATE orders")
    state, _ = ran(state, emptied, statement(7, "ALTER TABLE orders DROP PRIMARY KEY"))
    _, said = ran(state, answer(7, keyless))
    [again] = restarts(said)
    assert (again.emptied, "primary key" in again.reason) == (False, True)


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
    _, at_start = start(SHOP, known, Checkpoint(upto(5)), protection=protection)
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
