"""What the server's answers say of tables' engines. One may lose rows that the log has; until the server tells it, the
next one may bring others."""

from dataclasses import replace

import pytest

from pipeline.gtid.gtid_set import GtidSet
from pipeline.messages.changes import EnginesSurveyed, SchemaChanged, TableStopped
from pipeline.schema.known_schemas import KnownSchemas
from pipeline.schema.table_schema import TableId
from pipeline.schema.table_traits import Traits
from pipeline.snapshot.checkpoint import Checkpoint
from pipeline.verifier import step as machine
from pipeline.verifier.schema_fence import ServerAnswer
from pipeline.verifier.state import State
from pipeline.verifier.step import AskServer, Order
from tests.pipeline.verifier.answers import start, step
from tests.pipeline.verifier.small_log import (
    NOTHING_KNOWN,
    ORDERS,
    SCHEMA,
    SHOP,
    answer,
    end,
    fresh,
    kinds,
    ran,
    restarts,
    run,
    slice_,
    statement,
    upto,
)


def test_a_table_whose_rows_are_elsewhere_stops_by_the_servers_word() -> None:
    traits = {ORDERS: Traits("blackhole")}
    known = KnownSchemas({ORDERS: SCHEMA}, upto(5), traits=traits)
    assert kinds(list(start(SHOP, known, Checkpoint(upto(5)))[1])) == ["TableStopped"]
    assert start(SHOP, known, Checkpoint(upto(5), stopped={ORDERS: "it was"}))[1] == ()
    assert kinds(run(fresh(known, 4), slice_(5, maps=())))[-1] == "TableStopped"
    state, _ = step(fresh(), slice_(1))
    state, _ = step(state, statement(2, "CREATE TABLE orders (id INT)"))
    state, said = step(state, replace(answer(3, SCHEMA), traits=traits))
    assert said == ()
    assert kinds(run(state, slice_(3), slice_(4))) == [
        "SchemasVerified", "ChangesVerified", "TableStopped", "ChangesVerified",
    ]  # fmt: skip


CREATED = statement(2, "CREATE TABLE orders LIKE other.lost")
STORED = "ALTER TABLE orders ENGINE=InnoDB"


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
            SHOP, known, Checkpoint(upto(4), schemas={ORDERS: SCHEMA}, unknown_engines=unknown)
        )[0]

    assert len(restarts(ran(begun(unknown), statement(5, STORED))[1])) == 1
    assert restarts(ran(begun(frozenset()), statement(5, STORED))[1]) == []


def test_a_table_that_is_gone_has_no_engine() -> None:
    state, _ = machine.start(SHOP, NOTHING_KNOWN, Checkpoint(GtidSet(), schemas={ORDERS: SCHEMA}))
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
