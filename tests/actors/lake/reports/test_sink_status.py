"""What the sink's status says of tables needs its state alone."""

from dataclasses import replace

from actors.lake.reports.sink_status import lake_table_statuses
from pipeline.config.settings import LakeSettings
from pipeline.config.table_rules import LakeRule, Tiers
from pipeline.lake.batch import DeliveryStop, LakeTableState
from pipeline.lake.state import Failed, State
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import TableId
from tests.pipeline.lake.test_step import ORDERS


def test_the_remedy_of_a_table_without_a_mirror_names_its_folder() -> None:
    """Its database and name may have other characters than the folders."""
    odd = TableId("Läden", "orders")
    rule = LakeRule(TableFilter((r"Läden\..*",)), Tiers.CHANGELOG)
    state = State(LakeSettings("/lake", rules=(rule,)))
    so_far = replace(state.so_far, tables={odd: LakeTableState(stopped=DeliveryStop("so", 7))})
    assert lake_table_statuses(replace(state, so_far=so_far), {})["Läden.orders"]["stopped"] == (
        "so; then stop the service, move the table's folder (/lake/L~C3~A4den/orders) away, and start it again"
    )


def test_a_table_that_is_tried_again_has_its_reason_without_a_remedy() -> None:
    state = State(LakeSettings("/lake"))
    so_far = replace(state.so_far, failed={ORDERS: Failed("so", 3, 0.0)})
    status = lake_table_statuses(replace(state, so_far=so_far), {ORDERS: "its name"})[str(ORDERS)]
    assert status["stopped"] == "it failed 3 times in a row and is tried again: so"
    assert status["no_view"] == "its name"
