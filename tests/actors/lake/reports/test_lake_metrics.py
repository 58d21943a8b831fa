"""The metrics and the log follow from the sink's facts and its state, without Spark."""

from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from actors.lake.reports.lake_metrics import LakeMetrics
from actors.runtime.metrics import Metrics
from pipeline import metrics as catalogue
from pipeline.config.settings import LakeSettings
from pipeline.lake.background.state import UnderWay
from pipeline.lake.background.work import VerifyRows
from pipeline.lake.batch import LakeTableState, Piece, Pieces
from pipeline.lake.facts import LakeTimerFired, TablesFound, WorkDone
from pipeline.lake.state import Failed, State
from pipeline.lake.tables.maintenance import TableSize
from pipeline.lake.verification.runs import Comparisons, FindingKind, Judgement, LakeVerdict
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import TableId
from pipeline.snapshot.snapshot import DROPPED
from tests.pipeline.lake.test_delivery import ITEMS
from tests.pipeline.lake.test_step import ORDERS

VERIFYING = UnderWay(VerifyRows(ORDERS, (), 3, "", 0, None, stopped=False), 0.0, full=False)


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def recorded(metrics: Metrics) -> LakeMetrics:
    return LakeMetrics(metrics, TableFilter((r"shop\.(orders|items)",)))


def verifying(state: State) -> State:
    return replace(state, background=replace(state.background, under_way=VERIFYING))


def test_a_verification_that_cannot_be_judged_leaves_what_was_found(
    recorded: LakeMetrics, metrics: Metrics
) -> None:
    def extra() -> float:
        return metrics.value(catalogue.FINDINGS, table=str(ORDERS), kind="extra")

    state = State(LakeSettings("/lake"))
    found = Judgement("v1", ORDERS, LakeVerdict.DIFFERENT, 9, {FindingKind.EXTRA: 2}, "", 5.0)
    unjudged = replace(found, run="v2", verdict=LakeVerdict.UNJUDGED, found={}, at=6.0, reason="so")
    recorded.record(WorkDone(TableSize(), None, (found, unjudged)), verifying(state), state)
    assert extra() == 2
    equal = replace(found, run="v3", verdict=LakeVerdict.EQUAL, found={}, at=7.0)
    recorded.record(WorkDone(TableSize(), None, (equal,)), verifying(state), state)
    assert extra() == 0
    assert metrics.value(catalogue.VERIFIED_AT, table=str(ORDERS)) == 7.0, "perhaps before this start"


@pytest.mark.parametrize("found_until_then", [{}, {FindingKind.MISSING: 1}])
def test_what_was_found_in_a_table_ends_with_the_table(
    found_until_then: dict[FindingKind, int], recorded: LakeMetrics, metrics: Metrics
) -> None:
    """No later verification can find a dropped table equal, so the alert would never end."""
    state = State(LakeSettings("/lake"))
    found = Judgement("v1", ORDERS, LakeVerdict.DIFFERENT, 9, {FindingKind.EXTRA: 2}, "", 5.0)
    recorded.record(WorkDone(TableSize(), None, (found,)), verifying(state), state)
    assert metrics.total(catalogue.FINDINGS, table=str(ORDERS)) == 2
    verdict = LakeVerdict.DIFFERENT if found_until_then else LakeVerdict.UNJUDGED
    dropped = Judgement("v2", ORDERS, verdict, 0, found_until_then, "", 6.0, f"{DROPPED}: it doesn't exist")
    recorded.record(WorkDone(TableSize(), None, (dropped,)), verifying(state), state)
    assert metrics.total(catalogue.FINDINGS, table=str(ORDERS)) == 0
    assert metrics.value(catalogue.VERIFIED_AT, table=str(ORDERS)) == 0, "it wasn't found equal"


def test_verifications_without_a_result_are_counted(recorded: LakeMetrics, metrics: Metrics) -> None:
    unjudged = Judgement("v1", ORDERS, LakeVerdict.UNJUDGED, 9, {}, "", 5.0, "so")
    state = State(LakeSettings("/lake"))
    for results, count in (((unjudged, unjudged), 2), ((replace(unjudged, verdict=LakeVerdict.EQUAL),), 0)):
        before = verifying(state)
        known = state.background.verified.compared(ORDERS, 0, 1.0, results)
        state = replace(state, background=replace(state.background, verified=known))
        recorded.record(WorkDone(TableSize(), None, results), before, state)
        assert metrics.value(catalogue.UNJUDGED_IN_A_ROW, table=str(ORDERS)) == count


def test_a_delivery_has_its_files_and_those_of_its_commits(recorded: LakeMetrics, metrics: Metrics) -> None:
    changes = (Piece(4, 0, "a", ITEMS, 1, 100, False), Piece(4, 1, "b", ITEMS, 1, 50, False))
    rows = (Piece(4, 2, "c", ITEMS, 1, 7, False),)
    recorded.measure_delivered("shop.items", Pieces(changes=changes, rows=rows))
    recorded.measure_delivered("shop.items", Pieces(changes=changes[:1]))
    assert metrics.value(catalogue.LAKE_FILES_WRITTEN, kind="deliver") == (2 + 2) + (1 + 2) + (1 + 2)


def test_a_table_that_fails_again_and_again_is_reported_as_stopped(
    recorded: LakeMetrics, metrics: Metrics
) -> None:
    """Each failure is logged once, whatever else happens."""
    state = State(LakeSettings("/lake"))
    with capture_logs() as logged:
        for times in range(1, 5):
            before = state
            failed = {**before.so_far.failed, ORDERS: Failed("so", times, 0.0)}
            state = replace(before, so_far=replace(before.so_far, failed=failed))
            recorded.record(LakeTimerFired(), before, state)
            recorded.record(LakeTimerFired(), state, state)
            stopped = metrics.value(catalogue.TABLE_STOPPED, table="shop.orders", part="lake")
            assert stopped == metrics.value(catalogue.STOPPED_TABLES, part="lake") == (times >= 3)
    assert [each["times"] for each in logged if each["event"] == "a table failed in the lake"] == [1, 2, 3, 4]
    (told,) = (each for each in logged if each["event"] == "the table was stopped")
    assert (told["table"], told["part"], told["reason"]) == ("shop.orders", "lake", "so")


def test_a_table_that_the_configuration_leaves_out_raises_no_alert(
    recorded: LakeMetrics, metrics: Metrics
) -> None:
    """Its mirror isn't filled any more, and its verifications can't be judged."""
    state, left_out = State(LakeSettings("/lake")), TableId("shop", "left_out")
    for table in (ORDERS, left_out):
        background = replace(state.background, rebuilding={table: 7.0}, under_way=VERIFYING)
        background = replace(background, verified=Comparisons(in_a_row={table: 3}))
        so_far = replace(state.so_far, failed={table: Failed("so", 3, 0.0)})
        now = replace(state, background=background, so_far=so_far)
        found = Judgement("v1", table, LakeVerdict.DIFFERENT, 9, {FindingKind.EXTRA: 2}, "", 5.0)
        recorded.record(WorkDone(TableSize(), None, (found,)), now, now)
        recorded.record(TablesFound({table: LakeTableState()}, {}, ()), now, now)
        recorded.count_stopped(now)
        captured = table is ORDERS
        assert metrics.value(catalogue.MIRROR_REBUILDING, table=str(table)) == (7.0 if captured else 0.0)
        assert metrics.value(catalogue.UNJUDGED_IN_A_ROW, table=str(table)) == (3 if captured else 0)
        assert metrics.value(catalogue.FINDINGS, table=str(table), kind="extra") == (2 if captured else 0)
        assert metrics.value(catalogue.STOPPED_TABLES, part="lake") == (1 if captured else 0)
