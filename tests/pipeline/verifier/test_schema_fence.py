"""What is held until a schema is proven, and where that is."""

from pipeline.gtid.gtid_set import GtidSet
from pipeline.messages.binlog import CreateTableSelectRead, LogAdvanced
from pipeline.messages.row_images import TableUnreadable
from pipeline.verifier import table_state
from pipeline.verifier.schema_fence import waiting_tables
from tests.pipeline.verifier.answers import step
from tests.pipeline.verifier.test_step import (
    FULL,
    MINIMAL,
    ORDERS,
    SCHEMA,
    end,
    fresh,
    images,
    part,
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
        assert state.place == place
