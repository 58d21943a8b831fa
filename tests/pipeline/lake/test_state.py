"""What's known of the lake's tables."""

from dataclasses import replace

from pipeline.config.settings import LakeSettings
from pipeline.config.table_rules import LakeRule, Tiers
from pipeline.lake.background.state import Background
from pipeline.lake.batch import LakeTableState
from pipeline.lake.state import LakeProgress, State
from pipeline.lake.verification.runs import Comparisons
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import TableId
from tests.pipeline import builders

ORDERS, ITEMS = TableId("shop", "orders"), TableId("shop", "items")


def test_a_table_that_was_never_met_has_nothing() -> None:
    so_far = LakeProgress(tables={ORDERS: LakeTableState(changes=3)})
    assert so_far.of(ITEMS) == LakeTableState()
    more = so_far.having({ITEMS: LakeTableState(changes=4)}).having({ORDERS: LakeTableState(changes=5)})
    assert [more.of(table).changes for table in (ORDERS, ITEMS)] == [5, 4]
    assert so_far.of(ORDERS).changes == 3


def test_verifications_count_only_of_tables_that_can_be_verified() -> None:
    """A schedule of all tables verifies those too that have no primary key or no mirror, each time in vain."""
    keyless, unkept = TableId("shop", "log"), TableId("shop", "unkept")
    schemas = {ORDERS: builders.ORDERS, keyless: replace(builders.ORDERS, table=keyless, key=())}
    rule = LakeRule(TableFilter((r"shop\.unkept",)), tiers=Tiers.CHANGELOG)
    state = State(
        LakeSettings("lake", rules=(rule,)),
        LakeProgress(tables={table: LakeTableState(schema) for table, schema in schemas.items()}),
        background=Background(
            verified=Comparisons(in_a_row=dict.fromkeys((ORDERS, ITEMS, keyless, unkept), 3))
        ),
    )
    assert state.unjudged_in_a_row == {ORDERS: 3, ITEMS: 3}
