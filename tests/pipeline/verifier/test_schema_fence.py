"""What is held until a schema is proven, and where that is."""

import pytest

from pipeline.gtid.gtid_set import GtidSet
from pipeline.messages.binlog import CreateTableSelectRead, DdlRead, LogAdvanced
from pipeline.messages.message_size import weight
from pipeline.messages.row_images import TableUnreadable
from pipeline.schema.table_schema import TableId
from pipeline.verifier import handle_statements, schema_fence, table_state
from pipeline.verifier import step as machine
from pipeline.verifier.schema_fence import HeldMessage, NotYetProven, prove_schema, waiting_tables
from pipeline.verifier.state import FromVerifier, State
from tests.pipeline.verifier.answers import step
from tests.pipeline.verifier.small_log import (
    FULL,
    MINIMAL,
    ORDERS,
    SCHEMA,
    answer,
    end,
    fresh,
    images,
    kinds,
    part,
    run,
    schemas,
    slice_,
    statement,
)


def test_only_images_that_need_a_schema_wait_for_one() -> None:
    doubts: list[table_state.TableState] = [
        table_state.Unproven(),
        table_state.SchemaPending(SCHEMA),
        table_state.SchemaFetched(SCHEMA, GtidSet(), end(1)),
    ]
    for doubt in doubts:
        assert waiting_tables({ORDERS: doubt}, slice_(1, maps=(FULL, MINIMAL))) == {ORDERS}
        assert waiting_tables({ORDERS: doubt}, part(1, images(MINIMAL))) == {ORDERS}
        assert waiting_tables({ORDERS: doubt}, slice_(1)) == frozenset()
        assert waiting_tables({ORDERS: doubt}, part(1, TableUnreadable(ORDERS, "so"))) == frozenset()
        assert waiting_tables({ORDERS: doubt}, statement(1, "DROP TABLE orders")) == frozenset()
    assert waiting_tables({}, slice_(1, maps=(MINIMAL,))) == {ORDERS}
    for sure in (table_state.SchemaKnown(SCHEMA), table_state.Verified(SCHEMA, MINIMAL)):
        assert waiting_tables({ORDERS: sure}, slice_(1, maps=(MINIMAL,))) == frozenset()


def test_the_stream_is_at_no_place_within_a_transaction() -> None:
    state = fresh()
    for message, place in (
        (slice_(1, 3), end(3)),
        (part(4, images(FULL)), end(3)),
        (slice_(4), end(4)),
        (statement(5, "ANALYZE TABLE orders"), end(5)),
        (LogAdvanced(end(9)), end(9)),
        (CreateTableSelectRead("", "CREATE TABLE t (a INT)"), end(9)),
    ):
        state, _ = step(state, message)
        assert state.log_position == place


def test_each_held_message_is_examined_once() -> None:
    asked: list[str] = []

    def alters(message: DdlRead | CreateTableSelectRead) -> frozenset[TableId]:
        asked.append(message.statement)
        return frozenset()

    state: table_state.TableState = table_state.SchemaFetched(SCHEMA, GtidSet(), end(99))
    held: list[HeldMessage] = [slice_(1, maps=(MINIMAL,))]
    texts = [f"ANALYZE TABLE t{number}" for number in range(2, 9)]
    for number, text in enumerate(texts, 2):
        held.append(statement(number, text))
        outcome = prove_schema(ORDERS, state, held, 0, 0, alters)
        assert isinstance(outcome, NotYetProven)
        state = outcome.state
    assert asked == texts
    held.append(LogAdvanced(end(99)))
    assert prove_schema(ORDERS, state, held, 0, 0, alters) == table_state.SchemaKnown(SCHEMA)


@pytest.mark.parametrize("disproved", [False, True])
def test_each_held_message_is_examined_once_where_images_are_left_out(
    monkeypatch: pytest.MonkeyPatch, disproved: bool
) -> None:
    """Because there are too many, or because a statement among them altered the table after the server's answer."""
    asked: list[str] = []
    altered = handle_statements.altered_tables

    def counted(state: State, message: DdlRead | CreateTableSelectRead) -> frozenset[TableId]:
        asked.append(message.statement)
        return altered(state, message)

    monkeypatch.setattr(machine, "altered_tables", counted)
    monkeypatch.setattr(schema_fence, "MOST_HELD", 9 * weight(slice_(7, maps=(MINIMAL,))))
    state, _ = step(fresh(position=5, old=SCHEMA), answer(99, SCHEMA))
    said, texts = list[FromVerifier](), list[str]()
    for number in range(7, 87, 2):
        texts.append(f"ANALYZE TABLE t{number}")
        for message in (slice_(number, maps=(MINIMAL,)), statement(number + 1, texts[-1])):
            state, orders = step(state, message)
            said += orders
    if disproved:
        texts.append("ALTER TABLE orders DROP x")
        state, orders = step(state, statement(87, texts[-1]))
        said += orders
    again = asked[len(texts) :]
    assert asked[: len(texts)] == texts
    assert set(again) <= {texts[-1]} and len(again) < 9, "the one that decides, for each slice that waits"
    assert len(kinds(said)) > 60
    _, orders = step(state, LogAdvanced(end(100)))
    assert set(schemas([*said, *orders])) == (set() if disproved else {SCHEMA})


def test_where_images_are_left_out_what_comes_next_is_examined(monkeypatch: pytest.MonkeyPatch) -> None:
    """The messages have moved up then, and a statement among them mustn't be passed over."""
    alter = "ALTER TABLE orders DROP x"
    state, _ = step(fresh(position=5, old=SCHEMA), answer(20, SCHEMA))
    monkeypatch.setattr(schema_fence, "MOST_HELD", 2 * weight(slice_(7, maps=(MINIMAL,))))
    said = run(
        state, *(slice_(n, maps=(MINIMAL,)) for n in (7, 8, 9)), statement(10, alter), answer(20, SCHEMA)
    )
    assert kinds(said) == ["ChangesVerified"] * 3 + ["SchemaChanged"]
    assert schemas(said) == []
