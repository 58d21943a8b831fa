"""Foreign keys that a statement adds, below a log without their effects."""

from dataclasses import replace

import pytest

from pipeline.messages.changes import MirrorInvalidated, SchemaVerified, TableStopped
from pipeline.schema.foreign_key import ForeignKey
from pipeline.schema.table_schema import TableId
from pipeline.verifier.cascades import OutdatedForeignKeys
from pipeline.verifier.state import State
from pipeline.verifier.step import tables_to_ask
from tests.pipeline.verifier.answers import step
from tests.pipeline.verifier.small_log import FULL, ORDERS, SCHEMA, answer, fresh, slice_, statement

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
    assert not [m for m in step(state, slice_(4, maps=(FULL,)))[1] if isinstance(m, SchemaVerified)]
    assert step(state, replace(GIVEN, foreign_keys=(key,)))[1] == ()
