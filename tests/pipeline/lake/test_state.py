"""What's known of the lake's tables."""

from pipeline.lake.batch import LakeTableState
from pipeline.lake.state import LakeProgress
from pipeline.schema.table_schema import TableId

ORDERS, ITEMS = TableId("shop", "orders"), TableId("shop", "items")


def test_a_table_that_was_never_met_has_nothing() -> None:
    so_far = LakeProgress(tables={ORDERS: LakeTableState(changes=3)})
    assert so_far.of(ITEMS) == LakeTableState()
    more = so_far.having({ITEMS: LakeTableState(changes=4)}).having({ORDERS: LakeTableState(changes=5)})
    assert [more.of(table).changes for table in (ORDERS, ITEMS)] == [5, 4]
    assert so_far.of(ORDERS).changes == 3
