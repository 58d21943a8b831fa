"""What the batches bring counts, and work that was given up or failed pauses."""

from dataclasses import replace

import pytest

from pipeline.lake.background.recording import (
    files_delivered,
    tables_met,
    work_done,
    work_failed,
    work_given_up,
)
from pipeline.lake.background.state import Background, LakeTables
from pipeline.lake.background.turns import background_due_at, completable_tables, next_work
from pipeline.lake.background.work import CompletionDue, MaintainTable
from pipeline.lake.batch import LakeTableState, Piece, Pieces
from pipeline.lake.tables import maintenance
from pipeline.lake.tables.maintenance import Chore, TableSize
from pipeline.lake.tables.tier import Tier
from pipeline.snapshot.checkpoint import Filling, Ready
from tests.pipeline.lake.background.lakes import ID, ORDERS, lake_of


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
