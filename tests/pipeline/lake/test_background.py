"""What is begun beside the batches, and what rests."""

import math
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pipeline.config.settings import LakeSettings
from pipeline.config.table_rules import LakeRule, Tiers
from pipeline.lake.background import (
    Background,
    CompletionDue,
    LakeTables,
    MaintainTable,
    MergeDue,
    background_due_at,
    completable_tables,
    files_delivered,
    merge_ages,
    mergeable_tables,
    next_work,
    tables_met,
    work_done,
    work_failed,
    work_given_up,
)
from pipeline.lake.batch import DeliveryStop, LakeTableState, Piece, Pieces
from pipeline.lake.tables import maintenance
from pipeline.lake.tables.maintenance import Chore, TableSize, Trim
from pipeline.lake.tables.tier import Tier
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.snapshot.checkpoint import Filling, Mirror, Ready
from pipeline.types.column_types import Integer

ORDERS = TableSchema(TableId("shop", "orders"), (Column("id", Integer(4, unsigned=False), False),), (0,))
ID = ORDERS.table


def lake_of(
    had: LakeTableState, mirror: Mirror | None = None, settings: LakeSettings | None = None
) -> LakeTables:
    """A lake with one table."""
    return LakeTables(settings or LakeSettings("lake"), {ID: had}, {ID: mirror} if mirror else {})


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


def delivered(background: Background, had: LakeTableState, rows: int, now: float) -> Background:
    """So many changes have come."""
    changes = Pieces(changes=(Piece(3, 0, "changes", ORDERS, rows, 60, absent=False),))
    return files_delivered(background, ID, had, had, changes, now)


def test_a_first_mirror_is_shown_when_its_rows_are_there() -> None:
    """Its generation begins behind the SCN 0, as if there were none."""
    after = LakeTableState(ORDERS, generation=0, rebuilding=7.0)
    background = tables_met(Background(), {ID: LakeTableState()}, {}, 0.0)
    background = files_delivered(background, ID, LakeTableState(), after, Pieces(), 0.0)
    assert background.rebuilding[ID] == 7.0
    assert completable_tables(background, lake_of(after, Filling(0))) == []
    lake = lake_of(after, Ready(0))
    background, work = next_work(background, lake, 3, "position", 1.0)
    assert work is not None
    assert (work.due, work.kind) == (CompletionDue(ID), "complete")
    background = work_done(background, TableSize(files=2), 2.0)
    assert background.rebuilding == {}
    assert background.mirrored[ID].reached.merged == 3
    assert background.kept[ID, Tier.MIRROR].size.files == 2


@pytest.mark.parametrize(("generation", "pending"), [(0, 12), (None, 0)])
def test_changes_are_pending_where_there_is_a_mirror(generation: int | None, pending: int) -> None:
    had = LakeTableState(ORDERS, generation=generation)
    changes = Pieces(changes=(Piece(3, 0, "changes", ORDERS, 6, 60, absent=False),))
    background = tables_met(Background(), {ID: had}, {}, 0.0)
    for _ in range(2):
        background = files_delivered(background, ID, had, had, changes, 1.0)
    assert background.mirrored[ID].pending == pending


def test_what_ends_is_the_filling_that_was_begun_and_no_later_one() -> None:
    """A batch may bring columns whose constants the mirror owes before it's known that it has the last ones."""
    owing = LakeTableState(ORDERS, generation=0, rebuilding=7.0)
    background = tables_met(Background(), {ID: owing}, {}, 0.0)
    background, work = next_work(background, lake_of(owing, Ready(0)), 3, "position", 1.0)
    assert work is not None
    again = replace(owing, rebuilding=9.0)
    background = files_delivered(background, ID, owing, again, Pieces(), 2.0)
    background = work_done(background, TableSize(), 3.0)
    assert background.rebuilding == {ID: 9.0}
    assert completable_tables(background, lake_of(again, Ready(0))) == [ID]


def test_a_generation_that_came_before_an_earlier_one_was_completed_is_still_to_be_completed() -> None:
    """Readers see the same frozen mirror meanwhile, so that both have been filled since the same moment."""
    filled = LakeTableState(ORDERS, generation=5, rebuilding=7.0, pending=4)
    background = tables_met(Background(), {ID: filled}, {}, 0.0)
    background, work = next_work(background, lake_of(filled, Ready(5)), 3, "position", 1.0)
    assert work is not None
    later = replace(filled, generation=9)
    background = files_delivered(background, ID, filled, later, Pieces(), 2.0)
    background = work_done(background, TableSize(), 3.0)
    assert background.rebuilding == {ID: 7.0}
    reached = background.mirrored[ID].reached
    assert (reached.generation, reached.merged) == (9, 0), "nothing of it is merged"
    assert completable_tables(background, lake_of(later, Ready(9))) == [ID]


def chores(monkeypatch: pytest.MonkeyPatch) -> tuple[Background, LakeTables]:
    """A changelog that is always due for trimming and vacuuming."""
    for every in ("TRIM_EVERY_S", "VACUUM_EVERY_S", "VACUUM_FIRST_S"):
        monkeypatch.setattr(maintenance, every, -1.0)
    had = LakeTableState(ORDERS, generation=0)
    return tables_met(Background(), {ID: had}, {(ID, Tier.CHANGELOG): TableSize()}, 0.0), lake_of(had)


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


def test_what_was_given_up_rests_and_the_rest_keeps_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else what's given up again and again would have all else of its table wait for ever."""
    background, lake = chores(monkeypatch)
    done: list[Chore] = []
    for now in range(1, 5):
        background, work = next_work(background, lake, 1, "", float(now))
        assert isinstance(work, MaintainTable)
        done.append(work.chore)
        if work.chore is Chore.TRIM:
            background = work_given_up(background, float(now))
        else:
            background = work_done(background, TableSize(), float(now))
    assert done == [Chore.TRIM, Chore.VACUUM, Chore.VACUUM, Chore.VACUUM]
    monkeypatch.setattr(maintenance, "VACUUM_EVERY_S", 600.0)
    assert background_due_at(background, lake) == 1.0 + maintenance.REST_S


def test_work_that_fails_rests_longer_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """It's one table's trouble: what else there is to do is done."""
    background, lake = chores(monkeypatch)
    done: list[Chore] = []
    now = 1.0
    for _ in range(3):
        background, work = next_work(background, lake, 1, "", now)
        assert isinstance(work, MaintainTable)
        done.append(work.chore)
        if work.chore is Chore.TRIM:
            background = work_failed(background, now)
        else:
            background = work_done(background, TableSize(), now)
    assert done == [Chore.TRIM, Chore.VACUUM, Chore.VACUUM]
    (due,) = background.failed
    assert background.resting[due] == now + maintenance.REST_S
    now += maintenance.REST_S
    resting = replace(background, due={due: 0.0})
    background, work = next_work(resting, lake, 1, "", now)
    assert work is not None and work.due == due
    background = work_failed(background, now)
    assert background.failed[due] == 2
    assert background.resting[due] == now + 2 * maintenance.REST_S
    resting = replace(background, due={due: 0.0}, failed={due: 5000})
    background, _ = next_work(resting, lake, 1, "", now + 3 * maintenance.REST_S)
    assert work_failed(background, now).resting[due] == now + 3600.0, "the longest pause, for weeks"
