"""What is held until a schema is proven, and where that is."""

from pipeline.gtid.gtid_set import GtidSet
from pipeline.messages.binlog import CreateTableSelectRead, LogAdvanced
from pipeline.messages.row_images import TableUnreadable
from pipeline.verifier import table_state
from pipeline.verifier.schema_fence import position_after, waiting_tables
from tests.pipeline.verifier.test_step import (
    FULL,
    MINIMAL,
    ORDERS,
    SCHEMA,
    end,
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


def test_a_place_is_between_transactions() -> None:
    assert [position_after(m) for m in (slice_(1, 3), statement(4, "x"), LogAdvanced(end(9)))] == [
        end(3),
        end(4),
        end(9),
    ]
    assert position_after(part(1)) is None
    assert position_after(CreateTableSelectRead("", "x")) is None
