"""Verifications in the lake: what is to be compared, when, and what is known of it."""

import math
from collections import Counter
from dataclasses import replace

import pytest

from pipeline.config.settings import LakeSettings
from pipeline.gtid.gtid_set import GtidSet
from pipeline.lake.background.recording import files_delivered, tables_met, work_done
from pipeline.lake.background.state import Background, LakeTables, Mirrored
from pipeline.lake.background.turns import background_due_at, next_work
from pipeline.lake.background.work import (
    ChoreDue,
    ComparisonDue,
    CompleteMirror,
    Due,
    MaintainTable,
    MergeDue,
    MergeMirror,
    VerifyRows,
)
from pipeline.lake.batch import DeliveryStop, LakeTableState, Piece, Pieces
from pipeline.lake.live_view import MirrorPosition
from pipeline.lake.tables.maintenance import TRIM_EVERY_S, Chore, TableSize, Trim
from pipeline.lake.tables.tier import Tier
from pipeline.lake.verification.runs import (
    BYTES_AT_ONCE,
    LONGEST_RUN_WAIT_S,
    MOST_BYTES,
    MOST_FINDINGS_TRIES,
    ROWS_AT_ONCE,
    STOPPED,
    Comparisons,
    FindingKind,
    Judgement,
    LakeVerdict,
    PendingRows,
    TableResult,
    VerificationRun,
    comparison_due_at,
    repairs_due,
    results,
    runs_of,
)
from pipeline.snapshot.checkpoint import Checkpoint, Filling, Ready
from pipeline.snapshot.snapshot import (
    DROPPED,
    VERIFIED_ALREADY,
    Completed,
    Progress,
    Repairing,
    Snapshot,
    SnapshotFailed,
    SnapshotStopped,
    SnapshotWaiting,
    TableSnapshot,
    Verification,
)
from tests.pipeline.builders import ITEMS, ORDERS, USERS

ID = ORDERS.table
RUN = VerificationRun("v1", ID, 7, narrowed=False, ended=False, reason="", rows=3)
ENDED = VerificationRun("v1", ID, 7, narrowed=False, ended=True, reason="", rows=3)
EQUAL = Judgement("v1", ID, LakeVerdict.EQUAL, 3, {}, "position", 5.0)
DIFFERENT = replace(EQUAL, verdict=LakeVerdict.DIFFERENT, found={FindingKind.MISSING: 1})
MENDED = replace(EQUAL, run="v1 repaired", rows=1)
HAD = LakeTableState(ORDERS, generation=0)


def lake_of(*runs: VerificationRun, incomplete: bool = False) -> LakeTables:
    missing = frozenset({ID} if incomplete else ())
    return LakeTables(LakeSettings("lake"), {ID: HAD}, {ID: Ready(0)}, runs, missing, {ID: 4})


def read_rows(rows: int) -> Pieces:
    return Pieces(verified=(Piece(2, 0, "0000.parquet", ORDERS, rows, 10, absent=False),))


def test_a_checkpoint_tells_what_is_verified() -> None:
    tables: dict[object, TableSnapshot] = {
        ORDERS.table: SnapshotWaiting(),
        ITEMS.table: Completed(Progress(rows=3)),
        USERS.table: SnapshotFailed("so", Progress()),
    }
    of = Snapshot("v1", tables, verification=Verification(7, frozenset({ITEMS.table})))  # type: ignore[arg-type]
    stopped = Snapshot("v2", {ID: SnapshotStopped(Progress())}, verification=Verification(8))
    plain = Snapshot("s1", {ID: SnapshotWaiting()})
    found = runs_of(Checkpoint(GtidSet(), snapshots=(of, plain, stopped)))
    assert [(r.run, r.table.name, r.since, r.narrowed, r.ended, r.reason, r.rows) for r in found] == [
        ("v1", "orders", 7, False, False, "", 0),
        ("v1", "items", 7, True, True, "", 3),
        ("v1", "users", 7, False, True, "so", 0),
        ("v2", "orders", 8, False, True, STOPPED, 0),
    ]


def repairing(state: TableSnapshot) -> tuple[VerificationRun, ...]:
    of = Snapshot("v1", {ID: state}, verification=Verification(7, repairs=True))
    return runs_of(Checkpoint(GtidSet(), snapshots=(of,)))


def test_a_repair_has_a_run_of_its_own() -> None:
    (before,) = repairing(Repairing(Progress(rows=3)))
    assert (before.ended, before.awaits, before.of) == (True, 1, None)
    first, again = repairing(Repairing(Progress(rows=3), batches=2, reread=9))
    assert (first.run, first.awaits, first.rows) == ("v1", 3, 3)
    assert (again.run, again.of, again.rows, again.narrowed, again.ended) == (
        "v1 repaired",
        "v1",
        9,
        True,
        False,
    )
    assert again.awaits is None
    first, again = repairing(Completed(Progress(rows=3), batches=3, reread=9))
    assert (first.awaits, again.ended) == (None, True)
    (first,) = repairing(Completed(Progress(rows=3)))
    assert first.awaits is None, "there was nothing to repair"


def test_a_repair_needs_keys_once_its_table_is_judged() -> None:
    (run,) = repairing(Repairing(Progress(rows=3)))
    assert list(repairs_due([run], Comparisons(), [])) == []
    judged = Comparisons().compared(ID, 0, 1.0, [DIFFERENT])
    assert list(repairs_due([run], judged, [])) == [run]
    assert list(repairs_due([RUN], judged, [])) == []
    assert list(repairs_due([run], judged, [ID])) == [], "the lake may lack rows that were read for it"


def test_keys_that_cannot_be_read_are_tried_later_and_given_up_at_last() -> None:
    (run,) = repairing(Repairing(Progress(rows=3)))
    failed = Comparisons().compared(ID, 0, 1.0, [DIFFERENT])
    assert not failed.rests(run, 5.0)
    for times in range(1, MOST_FINDINGS_TRIES + 1):
        failed = failed.findings_failed(run, "so", 5.0)
        assert failed.unread[run].again == 5.0 + 2 ** (times - 1)
        assert failed.given_up(run) == ("so" if times == MOST_FINDINGS_TRIES else "")
    again = failed.unread[run].again
    assert (failed.rests(run, again - 1.0), failed.rests(run, again)) == (True, False)
    assert failed.requested_again(again - 1.0) == failed
    assert failed.requested_again(again).rests(run, again)
    assert failed.only([run]) is failed
    assert failed.only([replace(run, awaits=2)]).unread == {}, "another batch"
    assert failed.compared(ID, 0, 2.0, []).unread == failed.unread


def test_a_result_comes_with_the_one_of_its_repair() -> None:
    of = ("v1", ID)
    judged = Comparisons().compared(ID, 0, 1.0, [DIFFERENT])
    assert results(repairing(Repairing(Progress(rows=3))), judged) == {of: None}
    ended = repairing(Completed(Progress(rows=3), batches=1, reread=1))
    assert results(ended, judged) == {of: None}
    assert results(ended, judged.compared(ID, 0, 1.0, [MENDED])) == {of: TableResult(DIFFERENT, MENDED)}
    assert results([ENDED], judged) == {of: TableResult(DIFFERENT)}
    failed = repairing(SnapshotFailed("so", Progress(rows=3)))
    assert results(failed, judged) == {of: TableResult(replace(DIFFERENT, reason="so"))}


@pytest.mark.parametrize(
    ("pending", "ended", "due"),
    [
        (None, False, None),
        (None, True, -math.inf),
        (PendingRows(1, 5.0), False, 5.0 + LONGEST_RUN_WAIT_S),
        (PendingRows(ROWS_AT_ONCE, 5.0), False, -math.inf),
        (PendingRows(1, 5.0, BYTES_AT_ONCE - 1), False, 5.0 + LONGEST_RUN_WAIT_S),
        (PendingRows(1, 5.0, BYTES_AT_ONCE - 1, 9.0), False, 5.0 + LONGEST_RUN_WAIT_S),
        (PendingRows(1, 5.0, BYTES_AT_ONCE), False, 5.0),
        (PendingRows(1, 5.0, BYTES_AT_ONCE, 9.0), False, 5.0 + 4 * 9.0),
        (PendingRows(1, 5.0, BYTES_AT_ONCE, LONGEST_RUN_WAIT_S), False, 5.0 + LONGEST_RUN_WAIT_S),
        (PendingRows(ROWS_AT_ONCE, 5.0, BYTES_AT_ONCE, 9.0), False, -math.inf),
        (PendingRows(1, 5.0, MOST_BYTES - 1, 9.0), False, 5.0 + 4 * 9.0),
        (PendingRows(1, 5.0, MOST_BYTES, 9.0), False, -math.inf),
        (PendingRows(1, 5.0), True, -math.inf),
    ],
)
def test_rows_are_compared_many_at_once(
    pending: PendingRows | None, *, ended: bool, due: float | None
) -> None:
    assert comparison_due_at(pending, ended=ended) == due


def test_what_came_during_a_comparison_waits_for_the_next_one() -> None:
    waiting = Comparisons().with_rows(ID, 5, 1.0, 50).with_rows(ID, 2, 2.0, 30)
    assert waiting.pending[ID] == PendingRows(7, 1.0, 80)
    after = waiting.compared(ID, 5, 1.5, [EQUAL], 50, 9.0)
    assert after.pending[ID] == PendingRows(2, 1.5, 30, 9.0)
    assert after.with_rows(ID, 1, 20.0, 5).pending[ID] == PendingRows(3, 1.5, 35, 9.0)
    assert after.unjudged([RUN], ID) == ()
    assert after.only([]).judged == {}
    assert after.only([RUN]) is after


def test_few_rows_of_many_bytes_are_compared_at_once() -> None:
    met = tables_met(Background(), {ID: HAD}, {}, 0.0)
    [piece] = read_rows(3).verified
    large = Pieces(
        verified=(replace(piece, bytes=BYTES_AT_ONCE // 2), replace(piece, bytes=BYTES_AT_ONCE // 2))
    )
    background, work = next_work(
        files_delivered(met, ID, HAD, HAD, large, 10.0), lake_of(RUN), 5, "position", 10.0
    )
    assert isinstance(work, VerifyRows)
    background = files_delivered(background, ID, HAD, HAD, read_rows(3), 11.0)
    background = work_done(background, TableSize(), 12.0)
    assert background.verified.pending[ID] == PendingRows(3, 10.0, 10, 2.0)


def test_comparisons_of_many_bytes_leave_merges_most_of_the_time() -> None:
    """Each takes a minute, in which the bytes of another one come. A merge takes a second, and is always due."""
    items = LakeTableState(ITEMS, generation=0, pending=5)
    lake = replace(
        lake_of(RUN),
        tables={ID: HAD, ITEMS.table: items},
        mirrors={ID: Ready(0), ITEMS.table: Ready(0)},
        settings=LakeSettings("lake", merge_after_s=0.0),
    )
    background = tables_met(Background(), {ID: HAD, ITEMS.table: items}, {}, 0.0)
    [piece] = read_rows(3).verified
    many = Pieces(verified=(replace(piece, bytes=BYTES_AT_ONCE),))
    background = files_delivered(background, ID, HAD, HAD, many, 0.0)
    now, spent = 0.0, Counter[str]()
    while now < 1000.0:
        background, work = next_work(background, lake, 5, "position", now)
        assert work is not None
        took = 60.0 if isinstance(work, VerifyRows) else 1.0
        if isinstance(work, VerifyRows):
            background = files_delivered(background, ID, HAD, HAD, many, now + took)
        now, spent = now + took, spent + Counter({work.kind: round(took)})
        background = work_done(background, TableSize(), now)
        background = background.mirroring(ITEMS.table, Mirrored(MirrorPosition(0, 5), 5, now))
    assert spent["merge"] > 2 * spent["verify"]
    assert spent["verify"] >= 240, "and a comparison waits no longer"


def test_delivered_rows_are_compared_and_a_verification_ends_with_a_result() -> None:
    background = files_delivered(
        tables_met(Background(), {ID: HAD}, {}, 0.0), ID, HAD, HAD, read_rows(3), 10.0
    )
    lake = lake_of(RUN)
    assert background_due_at(background, lake) == 10.0 + LONGEST_RUN_WAIT_S
    background, work = next_work(background, lake, 5, "position", 10.0 + LONGEST_RUN_WAIT_S)
    assert work == VerifyRows(ID, (RUN,), 5, "position", 3, 4, bytes=10)
    assert work.ended == ()
    background = work_done(background, TableSize(), 50.0)
    assert next_work(background, lake, 5, "position", 100.0)[1] is None
    background, work = next_work(background, lake_of(ENDED), 6, "position", 51.0)
    assert isinstance(work, VerifyRows)
    assert (work.ended, work.due, work.kind) == ((ENDED,), ComparisonDue(ID), "verify")
    background = work_done(background, TableSize(), 52.0, [EQUAL])
    assert background.verified.judged == {("v1", ID): EQUAL}
    assert next_work(background, lake_of(ENDED), 6, "position", 100.0)[1] is None


@pytest.mark.parametrize(("compared", "first"), [(False, ComparisonDue(ID)), (True, MergeDue(ITEMS.table))])
def test_comparisons_and_other_work_take_turns(compared: bool, first: Due) -> None:
    """Somebody may wait for a comparison, and yet a merge waits for no more than one."""
    items = LakeTableState(ITEMS, generation=0, pending=5)
    lake = replace(
        lake_of(ENDED),
        tables={ID: HAD, ITEMS.table: items},
        mirrors={ID: Ready(0), ITEMS.table: Ready(0)},
        settings=LakeSettings("lake", merge_after_s=1.0),
    )
    background = tables_met(Background(compared=compared), {ID: HAD}, {}, 0.0)
    background = tables_met(background, {ITEMS.table: items}, {}, 0.0)
    background = replace(background, due={MergeDue(ITEMS.table): 10.0, ComparisonDue(ID): 90.0})
    background, work = next_work(background, lake, 5, "position", 100.0)
    assert work is not None
    assert work.due == first
    assert background.compared is not compared


def test_a_table_is_merged_and_compacted_before_it_is_compared() -> None:
    """Each once, though more changes come meanwhile and make both due again: the comparison has its turn."""
    had, many = replace(HAD, pending=5), TableSize(files=1000)
    settings = LakeSettings("lake", merge_after_s=1.0, compact_files=10)
    lake = replace(lake_of(ENDED), tables={ID: had}, settings=settings)
    background = tables_met(Background(), {ID: had}, {(ID, Tier.CHANGELOG): many}, 0.0)
    done: list[Due] = []
    for now in (100.0, 200.0, 300.0, 400.0):
        background, work = next_work(background, lake, 5, "position", now)
        assert work is not None
        done.append(work.due)
        background = work_done(background, TableSize() if isinstance(work, MergeMirror) else many, now)
        background = background.mirroring(ID, Mirrored(MirrorPosition(0, 5), 5, now))
    compaction = ChoreDue(Chore.COMPACT, ID, Tier.CHANGELOG)
    assert done[:3] == [MergeDue(ID), compaction, ComparisonDue(ID)]
    assert not isinstance(done[3], ComparisonDue)


@pytest.mark.parametrize(("rows", "first"), [(159, MergeDue(ID)), (160, ComparisonDue(ID))])
def test_many_rows_are_compared_before_few_are_merged(rows: int, first: Due) -> None:
    had = replace(HAD, pending=5)
    lake = replace(lake_of(ENDED), tables={ID: had}, settings=LakeSettings("lake", merge_after_s=1.0))
    background = tables_met(Background(), {ID: had}, {}, 0.0)
    background = replace(background, verified=background.verified.with_rows(ID, rows, 90.0))
    background, work = next_work(background, lake, 5, "position", 100.0)
    assert work is not None and work.due == first
    background = work_done(background, TableSize(), 101.0)
    _, work = next_work(background, lake, 5, "position", 102.0)
    assert work is not None and {first, work.due} == {MergeDue(ID), ComparisonDue(ID)}, "each has its turn"


def test_a_comparison_that_is_alone_does_not_wait_for_its_turn() -> None:
    background = replace(
        tables_met(Background(compared=True), {ID: HAD}, {}, 0.0), due={ComparisonDue(ID): 90.0}
    )
    _, work = next_work(background, lake_of(ENDED), 5, "position", 100.0)
    assert isinstance(work, VerifyRows)


def test_nothing_is_compared_while_the_lake_lacks_something() -> None:
    background = tables_met(Background(), {ID: HAD}, {}, 0.0)
    assert background_due_at(background, lake_of(ENDED, incomplete=True)) is None
    _, work = next_work(background.rebuilt(ID, 3.0), lake_of(ENDED), 5, "position", 9.0)
    assert isinstance(work, CompleteMirror), "readers don't see it yet"
    newer = VerificationRun("v1", ID, 0, narrowed=False, ended=True, reason="", rows=3)
    filling = replace(lake_of(newer), mirrors={ID: Filling(9)})
    assert background_due_at(background.rebuilt(ID, 3.0), filling) == -math.inf, "it can't be judged"


def test_a_verification_waits_for_its_mirror_also_if_an_earlier_one_has_no_result() -> None:
    """The earlier one's comparison has failed until the table began again. Both have rows in the same files."""
    background = tables_met(Background(), {ID: HAD}, {}, 0.0).rebuilt(ID, 3.0)
    earlier, later = (replace(ENDED, run=name, since=since) for name, since in (("v1", 3), ("v2", 11)))

    def due(*runs: VerificationRun) -> bool:
        _, work = next_work(background, replace(lake_of(*runs), mirrors={ID: Ready(9)}), 12, "position", 9.0)
        return isinstance(work, VerifyRows)

    assert due(earlier), "it can't be judged"
    assert not due(later)
    assert not due(earlier, later)


def test_a_table_that_has_stopped_is_not_compared() -> None:
    stopped = LakeTableState(ORDERS, generation=0, stopped=DeliveryStop("so", 3))
    lake = replace(lake_of(ENDED), tables={ID: stopped})
    _, work = next_work(tables_met(Background(), {ID: stopped}, {}, 0.0), lake, 5, "position", 9.0)
    assert isinstance(work, VerifyRows)
    assert work.stopped


def test_files_that_a_start_finds_are_compared_at_once() -> None:
    found = LakeTableState(ORDERS, generation=0, uncompared=True)
    background = tables_met(Background(), {ID: found}, {}, 0.0)
    assert background_due_at(background, lake_of(RUN)) == -math.inf


def test_changes_that_a_verification_needs_are_not_trimmed() -> None:
    settings = LakeSettings("lake", keep_changelog_hours=1)
    lake = LakeTables(settings, {ID: HAD}, {ID: Ready(0)}, (RUN,), newest=7)
    background = tables_met(Background(), {ID: HAD}, {(ID, Tier.CHANGELOG): TableSize(1)}, 0.0)
    _, work = next_work(background, lake, 5, "position", 3_600.0)
    assert isinstance(work, MaintainTable)
    assert work.trim == Trim(0, 1, RUN.since, 7 + 900_000_000)
    assert work.runs == frozenset({RUN.run}), "their results aren't trimmed either"


def test_verifications_that_cannot_be_judged_are_counted_until_one_can() -> None:
    unjudged = replace(EQUAL, verdict=LakeVerdict.UNJUDGED, reason="so")
    counted = Comparisons().compared(ID, 0, 1.0, [unjudged, EQUAL, unjudged])
    assert counted.in_a_row == {ID: 1}
    counted = counted.compared(ITEMS.table, 0, 2.0, [replace(unjudged, table=ITEMS.table)])
    counted = counted.compared(ID, 0, 3.0, [unjudged]).only(
        [replace(RUN, run="v2"), replace(RUN, table=ITEMS.table)]
    )
    assert counted.in_a_row == {ID: 2, ITEMS.table: 1}
    assert counted.compared(ID, 0, 4.0, [DIFFERENT]).in_a_row == {ID: 0, ITEMS.table: 1}


@pytest.mark.parametrize(("reason", "count"), [("so", 2), (VERIFIED_ALREADY, 1), (DROPPED, 0)])
def test_what_another_one_verifies_or_is_dropped_is_not_counted(reason: str, count: int) -> None:
    unjudged = replace(EQUAL, verdict=LakeVerdict.UNJUDGED, reason="so")
    counted = Comparisons().compared(ID, 0, 1.0, [unjudged])
    last = replace(unjudged, reason=f"{reason}, as said")
    assert counted.compared(ID, 0, 2.0, [last]).in_a_row == {ID: count}


def test_of_a_table_that_no_known_verification_has_none_are_counted() -> None:
    """It may have been dropped, or the schedule leaves it out. No other verification would end its alert."""
    unjudged = replace(EQUAL, verdict=LakeVerdict.UNJUDGED, reason="so")
    counted = Comparisons().compared(ID, 0, 1.0, [unjudged])
    counted = counted.compared(ITEMS.table, 0, 2.0, [replace(unjudged, table=ITEMS.table)])
    counted = counted.only([RUN])
    assert (counted.in_a_row, counted.only([RUN])) == ({ID: 1}, counted)
    assert replace(counted, judged={}).only([]).in_a_row == {}, "also if all else is known"


def test_results_of_verifications_are_trimmed_at_most_once_an_hour_also_if_that_fails() -> None:
    """Each table has a TRIM of its own."""
    settings = LakeSettings("lake", keep_changelog_hours=1)
    tables = {each.table: LakeTableState(each, generation=0) for each in (ORDERS, ITEMS)}
    lake = LakeTables(settings, tables, dict.fromkeys(tables, Ready(0)), (RUN,))
    sizes = dict.fromkeys(((table, Tier.CHANGELOG) for table in tables), TableSize(1))
    background = tables_met(Background(), tables, sizes, 0.0)
    trimmed, hour = [], int(TRIM_EVERY_S)
    for at in (*range(hour, hour + 9), *range(2 * hour, 2 * hour + 9)):
        background, work = next_work(background, lake, 5, "position", at)
        if isinstance(work, MaintainTable):
            background = work_done(background, TableSize(1), at)
            if work.chore is Chore.TRIM:
                trimmed.append((at // hour, work.runs is not None))
    assert sorted(trimmed) == [(1, False), (1, True), (2, False), (2, True)]
