"""What is begun beside the batches, and what rests."""

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pipeline.config.settings import LakeSettings
from pipeline.config.table_rules import LakeRule, Tiers
from pipeline.lake.background.recording import (
    tables_met,
    work_done,
)
from pipeline.lake.background.state import Background
from pipeline.lake.background.turns import (
    background_due_at,
    merge_ages,
    mergeable_tables,
    next_work,
)
from pipeline.lake.background.work import MaintainTable, MergeDue
from pipeline.lake.batch import DeliveryStop, LakeTableState
from pipeline.lake.tables import maintenance
from pipeline.lake.tables.maintenance import Chore, TableSize, Trim
from pipeline.lake.tables.tier import Tier
from pipeline.schema.table_filter import TableFilter
from pipeline.snapshot.checkpoint import Ready
from tests.pipeline.lake.background.lakes import ID, ORDERS, delivered, lake_of


@pytest.mark.parametrize(
    ("had", "due"),
    [
        (LakeTableState(ORDERS, generation=0, pending=5), True),
        (LakeTableState(ORDERS, generation=0), False),
        # By its rule it has a changelog alone, or its mirror waits.
        (LakeTableState(ORDERS, pending=5), False),
        (LakeTableState(ORDERS, generation=0, pending=5, stopped=DeliveryStop("so", 0)), False),
    ],
)
def test_a_mirror_is_merged_if_there_is_one(had: LakeTableState, *, due: bool) -> None:
    lake = lake_of(had, Ready(0), LakeSettings("lake", merge_rows=1))
    background = tables_met(Background(), {ID: had}, {}, 0.0)
    assert (background_due_at(background, lake) is not None) is due
    assert bool(mergeable_tables(background, lake)) is due


def test_few_changes_are_merged_when_the_oldest_is_old() -> None:
    had = LakeTableState(ORDERS, generation=0, pending=5)
    lake = lake_of(had, Ready(0), LakeSettings("lake", merge_after_s=60.0))
    background = tables_met(Background(), {ID: had}, {}, 7.0)
    assert background_due_at(background, lake) == 67.0
    background, work = next_work(background, lake, 3, "position", 66.0)
    assert work is None
    background, work = next_work(background, lake, 3, "position", 67.0)
    assert work is not None
    assert work.due == MergeDue(ID)
    assert background_due_at(background, lake) is None, "it's under way"


SECONDS = st.lists(st.floats(0.0, 1e5), max_size=40)


@given(SECONDS, st.floats(0.1, 1e4), st.floats(0.001, 1.0))
@example([60.0, *([0.3] * 50)], 300.0, 0.1)
def test_merges_take_their_share_of_the_time_at_most(
    merges_s: list[float], least: float, share: float
) -> None:
    ages = merge_ages(merges_s, least, share)
    assert all(age >= least for age in ages)
    assert math.fsum(map(float.__truediv__, merges_s, ages)) <= share * (1 + 1e-9)


@given(SECONDS, st.floats(0.1, 1e4), st.floats(0.001, 1.0))
def test_what_costs_no_more_is_merged_no_less_often(
    merges_s: list[float], least: float, share: float
) -> None:
    ages = merge_ages(merges_s, least, share)
    assert sorted(ages) == [age for _, age in sorted(zip(merges_s, ages, strict=True))]


def test_a_mirror_alone_waits_for_ten_times_its_last_merge() -> None:
    """Also if only seconds lie between its merges by the settings. The first one after a start is by age alone."""
    had = LakeTableState(ORDERS, generation=0, pending=5)
    lake = lake_of(had, Ready(0), LakeSettings("lake", merge_rows=100, merge_after_s=60.0))
    background = tables_met(Background(), {ID: had}, {}, 7.0)
    for began, took, due in ((67.0, 2.0, 127.0), (127.0, 20.0, 327.0), (327.0, 1.0, 387.0)):
        assert background_due_at(background, lake) == began
        background, work = next_work(background, lake, 3, "position", began)
        assert work is not None and work.due == MergeDue(ID)
        background = delivered(background, had, 5, began + took / 2)
        background = work_done(background, TableSize(), began + took)
        background = delivered(background, had, 5, began + took)
        assert background_due_at(background, lake) == pytest.approx(due)
    # As many changes as readers are to pay for at most wait for nothing.
    background = delivered(background, had, 90, 330.0)
    assert background_due_at(background, lake) == -math.inf


def test_a_merge_of_very_many_changes_says_nothing_of_the_next_one() -> None:
    """A nightly job's takes 20 minutes. The next one doesn't wait ten times as long for that."""
    had = LakeTableState(ORDERS, generation=0, pending=5)
    lake = lake_of(had, Ready(0), LakeSettings("lake", merge_rows=100, merge_after_s=60.0))
    background = tables_met(Background(), {ID: had}, {}, 0.0)
    for more, began, took, due in (
        (0, 60.0, 10.0, 160.0),
        (95, 100.0, 1200.0, 200.0),
        (0, 1300.0, 7.0, 1370.0),
    ):
        background = delivered(background, had, more, began)
        background, work = next_work(background, lake, 3, "position", began)
        assert work is not None and work.due == MergeDue(ID)
        background = delivered(background, had, 5, began)
        background = work_done(background, TableSize(), began + took)
        assert background_due_at(background, lake) == pytest.approx(due)


def test_nothing_is_trimmed_while_verifications_may_be_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a restart the batches begin where the last table is. Verifications may have begun after that place."""
    monkeypatch.setattr(maintenance, "TRIM_EVERY_S", -1.0)
    had = LakeTableState(ORDERS, changes=5, generation=0, merged=4)
    lake = lake_of(had, settings=LakeSettings("lake", rules=(LakeRule(TableFilter((".*",)), Tiers.MIRROR),)))
    background = tables_met(Background(), {ID: had}, {(ID, Tier.CHANGELOG): TableSize()}, 0.0)
    for through, trim in ((4, None), (5, Trim(4, None))):
        _, work = next_work(background, lake, through, "", 1.0)
        assert isinstance(work, MaintainTable)
        assert (work.chore, work.trim) == (Chore.TRIM, trim)
