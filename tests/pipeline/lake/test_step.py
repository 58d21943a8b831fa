"""The sink's next step: how it begins, what a batch takes, and what it leaves out until mirrors have begun again."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

import pytest

from pipeline.config.lake_types import LakeType, LakeTypeRule, form_by_rules
from pipeline.config.settings import LakeSettings
from pipeline.config.table_rules import LakeRule, Tiers
from pipeline.errors import Definite, InvariantBroken
from pipeline.journal.entry import Entry, FileKind
from pipeline.lake import step as spark_sink
from pipeline.lake.background.work import CompleteMirror, MaintainTable, MergeMirror, VerifyRows
from pipeline.lake.batch import DeliveryStop, LakeTableState, Pieces
from pipeline.lake.delivery import accept_batch
from pipeline.lake.facts import (
    BeginningFound,
    CursorFound,
    Fact,
    FindingsUnread,
    GapFound,
    JournalFound,
    JournalFoundEmpty,
    LakeTimerFired,
    ProgressReported,
    SealingEnded,
    SparkStopped,
    StopRequested,
    TableDelivered,
    TableFailed,
    TablesFound,
    WorkDone,
    WorkFailed,
    WorkGivenUp,
)
from pipeline.lake.orders import (
    DeliverTable,
    FindCursor,
    FindEnd,
    FindTables,
    Order,
    ReadBatch,
    ReportGap,
    ReportKeptTypes,
    ReportLostChanges,
    ReportMissingMirrors,
    ReportProgress,
    RequestMirrors,
    RequestRepair,
    StopSpark,
)
from pipeline.lake.state import Failed, Idle, SinkEnded, State
from pipeline.lake.tables.maintenance import REST_S, TRIM_EVERY_S, Chore, TableSize, Trim
from pipeline.lake.tables.tier import Tier
from pipeline.lake.verification.runs import (
    MOST_FINDINGS_TRIES,
    FindingKind,
    Judgement,
    LakeVerdict,
    VerificationRun,
)
from pipeline.messages.journal import SegmentSealed
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.snapshot.checkpoint import Checkpoint, Filling, Mirror, Ready
from pipeline.snapshot.snapshot import (
    Chunking,
    Completed,
    Progress,
    Repairing,
    Snapshot,
    TableSnapshot,
    Verification,
)
from pipeline.types.column_types import Integer
from tests.pipeline.lake.test_delivery import ITEMS, entry
from tests.pipeline.lake.test_delivery import V1 as PLAIN

ORDERS = PLAIN.table
V1 = replace(PLAIN, columns=(*PLAIN.columns, Column("n", Integer(8, unsigned=True), True)))
LONG = (LakeTypeRule(TableFilter((r"shop\.orders",)), ("n",), LakeType.LONG),)
FORMED = form_by_rules(LONG, V1)
NOTHING = LakeTableState()
Kind = TypeVar("Kind", bound=Order)


class Story:
    """A sink's state, and the orders after its last fact; a second passes with each fact."""

    def __init__(self, *rules: LakeRule, types: tuple[LakeTypeRule, ...] = ()) -> None:
        self.state = State(LakeSettings("lake", rules=rules, types=types))
        self.orders: list[Order] = []
        self.now = 0.0

    def after(self, *facts: Fact) -> "Story":
        """The facts come one after the other."""
        self.orders = []
        for fact in facts:
            self.now += 1.0
            self.state, orders = spark_sink.step(self.state, fact, self.now)
            self.orders += orders
        return self

    def read(self, *entries: Entry) -> "Story":
        """The batch comes that's made of these."""
        return self.after(spark_sink.next_batch_of(self.state, iter(entries)))

    def retried(self, end: Checkpoint) -> "Story":
        """The tables that failed are due again, and this is what's true at the journal's end."""
        assert self.after(LakeTimerFired()).only(FindEnd) == FindEnd()
        return self.after(JournalFound(end, 0))

    def only(self, kind: type[Kind]) -> Kind:
        """The one order that was brought, which is of this kind."""
        (order,) = self.orders
        assert isinstance(order, kind)
        return order


def of(table: TableId, segment: int, mirrors: dict[TableId, Mirror] | None = None) -> Entry:
    """A segment with changes of a table, and these mirrors at its end."""
    made = entry(segment, V1 if table == ORDERS else ITEMS)
    return replace(made, checkpoint=replace(made.checkpoint, mirrors=mirrors or {}))


def had(
    segment: int, after: int, generation: int | None = None, stopped: DeliveryStop | None = None
) -> LakeTableState:
    """What a lake has of a table of which it has everything through a segment."""
    return LakeTableState(
        V1, changes=segment, rows=segment, after=after, generation=generation, stopped=stopped
    )


def begun(
    found: dict[TableId, LakeTableState],
    place: Fact,
    end: Entry,
    *rules: LakeRule,
    types: tuple[LakeTypeRule, ...] = (),
) -> Story:
    """A sink that has found its place in a lake that has this."""
    story = Story(*rules, types=types).after(JournalFound(end.checkpoint, 0))
    return story.after(TablesFound({t: found.get(t, NOTHING) for t in end.checkpoint.schemas})).after(place)


@pytest.mark.parametrize(
    "ahead",
    [
        had(6, 3),
        had(3, 6),
        replace(had(3, 3), merged=6),
        replace(had(3, 3), since=6),
        replace(had(3, 3), rows=6),
    ],
)
def test_a_table_that_is_ahead_of_the_journal_is_refused(ahead: LakeTableState) -> None:
    end = entry(9, V1, ITEMS).checkpoint
    story = Story()
    story.state = replace(story.state, unchecked_end=5)
    story.after(JournalFound(end, 9))
    found = {ITEMS.table: had(5, 5), ORDERS: ahead}
    with pytest.raises(
        Definite, match=r"shop\.orders through segment 6, and the journal ended with 5 before"
    ):
        story.after(TablesFound(found))
    story.state = replace(story.state, unchecked_end=None)
    assert story.after(TablesFound(found)).only(FindCursor).reported >= 3


def test_a_table_that_could_not_be_looked_at_is_compared_when_it_is_found() -> None:
    """Its journal was put back to segment 2, and has sealed others since. The lake has the table through segment 5."""
    fails = (TableFailed(ORDERS, "no such folder"),)
    story, at = Story(), entry(2, V1, ITEMS).checkpoint
    story.state = replace(story.state, unchecked_end=2)
    story.after(JournalFound(at, 2), TablesFound({ITEMS.table: had(2, 2)}, failed=fails), CursorFound(2, at))
    unseen = story.state.still_unseen
    assert unseen == {ORDERS: 2}
    # The sink begins again: the journal ends later, and the other table has more.
    later, items = entry(7, V1, ITEMS).checkpoint, {ITEMS.table: had(7, 7)}

    def again(*found: TablesFound) -> Story:
        story = Story()
        story.state = replace(story.state, unchecked_end=7, unseen=unseen)
        return story.after(JournalFound(later, 7), *found)

    assert again(TablesFound(items, failed=fails)).state.still_unseen == {ORDERS: 2}
    assert again(TablesFound({**items, ORDERS: had(2, 2)})).state.still_unseen == {}
    with pytest.raises(Definite, match=r"orders through segment 5, and the journal ended with 2 before"):
        again(TablesFound({**items, ORDERS: had(5, 5)}))


def test_a_table_that_was_compared_may_get_further_before_it_is_found_again() -> None:
    story = Story()
    story.state = replace(story.state, unchecked_end=2)
    story.after(JournalFound(of(ORDERS, 3).checkpoint, 3), TablesFound({ORDERS: had(2, 2)}))
    story.after(CursorFound(2, of(ORDERS, 2).checkpoint))
    story.read(of(ORDERS, 3)).after(TableFailed(ORDERS, "no such folder"))
    story.after(ProgressReported())
    story.now += 10
    story.retried(of(ORDERS, 3).checkpoint).after(TablesFound({ORDERS: had(3, 2)}))
    assert story.only(FindCursor).reported == 2


def test_a_batch_is_read_met_delivered_and_told_and_then_comes_the_next() -> None:
    story = Story().after(JournalFoundEmpty())
    assert story.orders == []
    assert story.after(SegmentSealed(2)).orders == [ReadBatch(0, 2)]
    assert story.read(entry(1, V1, ITEMS)).orders == [FindTables((ITEMS.table, ORDERS))]
    one, other = story.after(TablesFound({ORDERS: NOTHING, ITEMS.table: NOTHING})).orders
    assert isinstance(one, DeliverTable)
    assert isinstance(other, DeliverTable)
    assert (one.table, other.table, one.before) == (ORDERS, ITEMS.table, NOTHING)
    assert [piece.segment for piece in one.pieces.changes] == [1]
    assert story.after(TableDelivered(ORDERS, had(1, 0))).orders == []
    told = story.after(TableDelivered(ITEMS.table, had(1, 0))).only(ReportProgress)
    assert (told.batch.through, told.reported, told.seconds) == (1, 0, 3.0)
    assert (story.state.so_far.segment, story.state.so_far.of(ORDERS).changes) == (1, 1)
    assert story.state.lake_tables.newest == told.batch.newest == 2
    assert story.after(ProgressReported()).orders == [ReadBatch(1, 2)]
    assert story.read(of(ORDERS, 2)).only(DeliverTable).before == had(1, 0)
    assert story.after(TableDelivered(ORDERS, had(2, 1))).only(ReportProgress).reported == 1
    assert story.after(ProgressReported()).orders == []
    assert story.state.doing == Idle()
    assert story.after(SegmentSealed(2)).orders == []  # it was told of that already


def test_what_has_nothing_for_any_table_is_told_at_once_and_says_no_more_than_before() -> None:
    story = begun({ORDERS: had(3, 2)}, CursorFound(3, entry(3).checkpoint), entry(4))
    told = story.after(SegmentSealed(4)).read(entry(4)).only(ReportProgress)
    assert (told.batch.through, told.reported, told.seconds) == (4, 2, 0.0)


def test_a_table_that_is_made_says_that_it_is_there() -> None:
    made = entry(1, mirror=Filling(1))
    story = (
        Story().after(JournalFoundEmpty(), SegmentSealed(1)).read(made).after(TablesFound({ORDERS: NOTHING}))
    )
    assert story.after(TableDelivered(ORDERS, had(1, 0, generation=1))).only(ReportProgress).reported == 0
    # Once it's removed, what the journal was told counts no more.
    assert spark_sink.complete_through(FindCursor(-1), 1, 0) == 0


@pytest.mark.parametrize(
    ("said", "told", "by", "whole"),
    [
        (-1, 0, None, 0),
        (3, 5, 3, 5),
        (3, 5, 2, 3),
        (3, 2, 3, 3),
        (2, 5, 3, 2),
        (3, 9, None, 3),
        (-1, 4, -1, 4),
    ],
)
def test_the_journal_is_believed_where_it_was_told_of_the_same_tables(
    said: int, told: int, by: int | None, whole: int
) -> None:
    assert spark_sink.complete_through(FindCursor(said), told, by) == whole


def test_no_copy_of_the_lake_gets_what_the_journal_was_told_of_another_copy() -> None:
    """A copy takes the lake's place. As the source is quiet, one batch brings it to the journal's end."""
    end = of(ORDERS, 15)

    def place(segment: int, after: int) -> FindCursor:
        story = Story().after(JournalFound(end.checkpoint, 15))
        return story.after(TablesFound({ORDERS: had(segment, after)})).only(FindCursor)

    story = begun({ORDERS: had(7, 6)}, CursorFound(6, entry(6).checkpoint), end)
    story.after(SegmentSealed(15)).read(*(of(ORDERS, segment) for segment in range(7, 16)))
    pieces = story.only(DeliverTable).pieces
    told = story.after(TableDelivered(ORDERS, had(15, 6), pieces)).only(ReportProgress)
    recorded = told.batch.through, told.reported, told.brought
    assert recorded == (15, 6, 15)
    through = {
        lake: spark_sink.complete_through(place(*lake), *recorded) for lake in ((10, 9), (7, 6), (15, 6))
    }
    assert through == {(10, 9): 9, (7, 6): 6, (15, 6): 15}


def test_a_table_that_is_met_later_says_where_the_lake_is_as_at_the_start() -> None:
    """The source had dropped it. The next start finds it at once."""
    story = begun({ORDERS: had(3, 2)}, CursorFound(5, of(ORDERS, 5).checkpoint), of(ORDERS, 5))
    story.after(SegmentSealed(6)).read(of(ITEMS.table, 6)).after(TablesFound({ITEMS.table: had(4, 3, 1)}))
    assert (story.state.so_far.reported, story.state.so_far.brought) == (3, 4)


def test_at_the_start_the_tables_say_where_the_lake_is() -> None:
    end = entry(9, V1, ITEMS)
    story = Story().after(JournalFound(end.checkpoint, 0))
    assert story.orders == [FindTables((ITEMS.table, ORDERS))]
    found = TablesFound({ITEMS.table: had(7, 6), ORDERS: had(5, 4)})
    assert story.after(found).only(FindCursor).reported == 6
    assert story.after(CursorFound(7, entry(7, V1).checkpoint)).orders == []
    assert story.state.so_far.segment == 7
    assert story.after(SegmentSealed(9)).orders == [ReadBatch(7, 9)]
    assert Story().after(JournalFound(replace(end.checkpoint, schemas={}), 0)).only(FindCursor).reported == -1


def test_a_table_that_has_stopped_gets_nothing_and_one_that_has_it_already_nothing_again() -> None:
    found = {ORDERS: had(3, 2, stopped=DeliveryStop("so", 0)), ITEMS.table: had(5, 4)}
    story = begun(found, CursorFound(4, entry(4).checkpoint), entry(6, V1, ITEMS))
    order = story.after(SegmentSealed(6)).read(entry(5, V1, ITEMS), entry(6, V1, ITEMS)).only(DeliverTable)
    assert order.table == ITEMS.table
    assert [piece.segment for piece in order.pieces.changes] == [6]


def test_a_mirror_with_which_a_stopped_table_resumes_is_completed() -> None:
    """The lake can't have a value of the very segment at whose end the mirror begins."""
    scn = of(ORDERS, 4).checkpoint.scn
    before, begins = of(ORDERS, 3, {ORDERS: Ready(0)}), of(ORDERS, 4, {ORDERS: Filling(scn)})
    story = begun({ORDERS: had(3, 2, generation=0)}, CursorFound(3, before.checkpoint), before)
    story.after(SegmentSealed(5)).read(begins)
    stopped = replace(had(3, 3, scn, DeliveryStop("a value", scn)), rebuilding=7.0)
    story.after(TableDelivered(ORDERS, stopped), ProgressReported())
    order = story.read(of(ORDERS, 5, {ORDERS: Ready(scn)})).only(DeliverTable)
    resumed = replace(had(5, 4, scn), rebuilding=7.0)
    story.after(TableDelivered(ORDERS, resumed, order.pieces)).after(ProgressReported())
    assert story.only(CompleteMirror).generation == scn


def test_the_lake_says_that_capture_has_stopped_a_table_and_that_it_has_it_again() -> None:
    story = begun({ORDERS: had(3, 2)}, CursorFound(3, entry(3).checkpoint), entry(4))
    stopped = entry(4)
    stopped.checkpoint.stopped[ORDERS] = "so"
    order = story.after(SegmentSealed(4)).read(stopped).only(DeliverTable)
    assert (order.table, order.pieces.changes) == (ORDERS, ())
    assert order.batch.stops(ORDERS, order.before)
    known = replace(had(4, 3), capture_stopped="so")
    story.after(TableDelivered(ORDERS, known), ProgressReported(), SegmentSealed(5))
    still = entry(5)
    still.checkpoint.stopped[ORDERS] = "so"
    assert story.read(still).only(ReportProgress).batch.through == 5
    story.after(ProgressReported(), SegmentSealed(6))
    assert story.read(entry(6)).only(DeliverTable).table == ORDERS


def test_a_mirror_that_begins_anew_makes_its_table_wanted() -> None:
    story = begun({ORDERS: had(3, 2, generation=0)}, CursorFound(3, entry(3).checkpoint), entry(4))
    restarted = entry(4, mirror=Filling(4))
    assert story.after(SegmentSealed(4)).read(restarted).only(DeliverTable).table == ORDERS
    same = begun({ORDERS: had(3, 2, generation=4)}, CursorFound(3, entry(3).checkpoint), entry(4))
    assert same.after(SegmentSealed(4)).read(restarted).only(ReportProgress).batch.through == 4


def test_a_table_without_a_mirror_is_not_said_to_be_read_again_behind_a_gap() -> None:
    first = of(ITEMS.table, 5, {ORDERS: Ready(0)})
    first.checkpoint.schemas[ITEMS.table] = ITEMS
    tables, end = {ORDERS: had(2, 2), ITEMS.table: had(2, 2)}, of(ORDERS, 8)
    end.checkpoint.schemas[ITEMS.table] = ITEMS
    gap, lost = begun(tables, GapFound(2, first), end).orders
    assert gap == ReportGap(frozenset({ORDERS}), 5)
    assert lost == ReportLostChanges(frozenset({ITEMS.table}), 5)


def test_a_scan_that_was_removed_is_lost_until_a_batch_brings_another() -> None:
    scanned, done = frozenset({ITEMS.table}), Completed(Progress())

    def items(segment: int, *names: str) -> Entry:
        snapshots = tuple(Snapshot(name, {ITEMS.table: done}) for name in names)
        made = of(ITEMS.table, segment)
        return replace(made, checkpoint=replace(made.checkpoint, snapshots=snapshots, scanned=scanned))

    lost = {ITEMS.table: frozenset({"s1"})}
    story = begun({ITEMS.table: had(2, 2)}, GapFound(2, items(5, "s1")), items(6, "s1"))
    assert story.state.so_far.lost == lost
    story.after(SegmentSealed(6)).read(items(5, "s1"), items(6, "s1"))
    assert story.after(TableDelivered(ITEMS.table, had(6, 4))).only(ReportProgress).lost == lost
    story.after(ProgressReported(), SegmentSealed(7)).read(items(7, "s1", "s2"))
    assert story.state.so_far.lost == lost
    assert story.after(TableDelivered(ITEMS.table, had(7, 6))).only(ReportProgress).lost == {}
    # Somebody has removed the table from the lake. The next batch makes its changelog again.
    story = begun({}, CursorFound(6, items(6, "s1").checkpoint), items(6, "s1"))
    assert story.state.so_far.lost == lost
    story.after(SegmentSealed(7)).read(items(7, "s1"))
    assert story.after(TableDelivered(ITEMS.table, had(7, 6))).only(ReportProgress).lost == lost
    # A restart has it from the journal. A lake that begins with the journal's first segment lacks nothing.
    for place, known in (
        (CursorFound(6, items(6, "s1").checkpoint, lost), lost),
        (BeginningFound(6, lost), lost),
        (BeginningFound(0, lost), {}),
    ):
        assert begun({ITEMS.table: had(6, 6)}, place, items(6, "s1")).state.so_far.lost == known


def test_behind_a_gap_tables_are_left_out_until_their_mirrors_have_begun_anew() -> None:
    first, end = of(ITEMS.table, 5, {ORDERS: Ready(0)}), of(ORDERS, 8, {ORDERS: Ready(0)})
    for each in (first, end):
        each.checkpoint.schemas[ITEMS.table] = ITEMS
    story = begun({ORDERS: had(2, 2), ITEMS.table: had(4, 2)}, GapFound(2, first), end)
    assert story.orders == [ReportGap(frozenset({ORDERS}), 5), RequestMirrors({ORDERS: 0})]
    assert story.state.so_far.late.since == first.first_scn - 1
    story.after(SegmentSealed(8))
    assert story.orders == [ReadBatch(4, 8)]
    again: dict[TableId, Mirror] = {ORDERS: Filling(first.first_scn - 1)}
    entries = [first, of(ORDERS, 6, {ORDERS: Ready(0)}), of(ORDERS, 7, again), of(ORDERS, 8, again)]
    order = story.read(*entries).only(DeliverTable)
    assert (order.table, order.batch.through, order.batch.after) == (ITEMS.table, 6, 2)
    told, asked = story.after(TableDelivered(ITEMS.table, had(6, 2))).orders
    assert isinstance(told, ReportProgress)
    assert told.reported is None  # a restart has to find what's left out again
    assert asked == RequestMirrors({ORDERS: 0})
    story.after(ProgressReported()).read(*entries[2:])
    order = story.only(DeliverTable)
    assert (order.table, order.batch.through, order.batch.after) == (ORDERS, 8, 6)
    assert story.after(TableDelivered(ORDERS, had(8, 6))).only(ReportProgress).reported == 6
    assert story.state.so_far.late.tables == frozenset()


def test_a_generation_that_lacks_segments_is_not_shown_to_readers() -> None:
    """The journal says that it has all of its rows, but the lake has no more than some of them."""
    first, end = of(ITEMS.table, 5, {ORDERS: Ready(0)}), of(ORDERS, 6, {ORDERS: Ready(0)})
    for each in (first, end):
        each.checkpoint.schemas[ITEMS.table] = ITEMS
    filled = replace(had(2, 2, generation=0), rebuilding=1.0, pending=1)
    story = begun({ORDERS: filled, ITEMS.table: had(4, 2)}, GapFound(2, first), end)
    story.after(SegmentSealed(6)).read(first, end).after(TableDelivered(ITEMS.table, had(6, 2)))
    assert story.after(ProgressReported()).orders == []
    assert story.state.background.under_way is None
    again = of(ORDERS, 7, {ORDERS: Ready(first.first_scn)})
    story.after(SegmentSealed(7)).read(again).after(
        TableDelivered(ORDERS, replace(had(7, 6, generation=first.first_scn), rebuilding=2.0))
    )
    assert story.after(ProgressReported()).only(CompleteMirror).generation == first.first_scn


@pytest.mark.parametrize("has", [NOTHING, replace(had(2, 2, generation=0), rebuilding=1.0)])
def test_a_generation_that_lacks_segments_stops_with_its_table(has: LakeTableState) -> None:
    """Else the lake would show a part of the table, and say that it is all of it."""
    first = of(ITEMS.table, 5, {ORDERS: Ready(0)})
    stopped = of(ORDERS, 6, {ORDERS: Ready(0)})
    for each in (first, stopped):
        each.checkpoint.schemas[ITEMS.table] = ITEMS
    stopped.checkpoint.stopped[ORDERS] = "so"
    story = begun({ORDERS: has, ITEMS.table: had(4, 2)}, GapFound(2, first), first)
    story.after(SegmentSealed(6)).read(first, stopped).after(TableDelivered(ITEMS.table, had(5, 2)))
    order = story.after(ProgressReported()).read(stopped).only(DeliverTable)
    accepted = accept_batch(order.before, ORDERS, order.batch)
    assert (order.table, order.pieces) == (ORDERS, Pieces())
    assert order.batch.after == 2, "a crash before the stop is in the lake finds the gap again"
    assert (accepted.pieces, accepted.schema, accepted.generation) == (Pieces(), None, has.generation)
    assert accepted.reason.endswith("capture has stopped it: so")
    after = replace(has, stopped=DeliveryStop(accepted.reason, order.batch.checkpoint.scn))
    assert story.after(TableDelivered(ORDERS, after)).only(ReportProgress).reported is not None
    assert story.after(ProgressReported()).orders == []
    assert story.state.background.under_way is None
    back = of(ORDERS, 7, {ORDERS: Filling(stopped.checkpoint.scn + 1)})
    assert story.after(SegmentSealed(7)).read(back).only(DeliverTable).pieces.changes


def test_a_table_that_had_everything_when_it_stopped_lacks_nothing_after_a_gap() -> None:
    first = of(ITEMS.table, 5, {ORDERS: Ready(0)})
    first.checkpoint.schemas[ITEMS.table] = ITEMS
    first.checkpoint.stopped[ORDERS] = "so"
    has = replace(had(2, 2, generation=0), capture_stopped="so")
    story = begun({ORDERS: has, ITEMS.table: had(4, 2)}, GapFound(2, first), first)
    assert story.after(SegmentSealed(5)).read(first).only(DeliverTable).table == ITEMS.table
    # Without a mirror readers see no generation, and a recapture couldn't bring the table back.
    rule = LakeRule(TableFilter((r"shop\.orders",)), tiers=Tiers.CHANGELOG)
    story = begun({ITEMS.table: had(4, 2)}, GapFound(2, first), first, rule)
    assert story.after(SegmentSealed(5)).read(first).only(DeliverTable).table == ITEMS.table


def test_a_table_that_is_there_against_its_rule_is_set_aside_alone() -> None:
    """Its lake says where it is all the same."""
    rule = LakeRule(TableFilter((r"shop\.orders",)), tiers=Tiers.CHANGELOG)
    end, there = entry(4, V1, ITEMS), had(3, 2, generation=0)
    found = {ORDERS: there, ITEMS.table: there}
    so_far = begun(found, CursorFound(3, end.checkpoint), end, rule).state.so_far
    assert so_far.tables == found
    assert so_far.aside == {ORDERS}
    assert so_far.failed[ORDERS].reason.startswith("shop.orders has a mirror in the lake")


def test_a_table_whose_rows_have_no_mirror_to_go_to_is_set_aside_alone() -> None:
    rule = LakeRule(TableFilter((r"shop\.orders",)), tiers=Tiers.CHANGELOG)
    rows = entry(4, V1, ITEMS, kind=FileKind.ROWS)
    found = {ORDERS: had(3, 2), ITEMS.table: had(3, 2)}
    story = begun(found, CursorFound(3, rows.checkpoint), rows, rule).after(SegmentSealed(4)).read(rows)
    assert story.only(DeliverTable).table == ITEMS.table
    failed = story.state.so_far.failed[ORDERS]
    assert failed.reason.startswith("rows of the first snapshot of shop.orders wait for its mirror")
    assert story.after(TableDelivered(ITEMS.table, had(4, 3))).only(ReportProgress).reported is None
    assert story.state.so_far.whole == 3, "a restart begins where the table failed"


def test_a_batch_whose_only_table_has_no_mirror_to_go_to_ends_at_once() -> None:
    rule = LakeRule(TableFilter((r"shop\.orders",)), tiers=Tiers.CHANGELOG)
    rows = entry(4, V1, kind=FileKind.ROWS)
    story = begun({ORDERS: had(3, 2)}, CursorFound(3, rows.checkpoint), rows, rule).after(SegmentSealed(4))
    assert story.read(rows).only(ReportProgress).reported is None
    assert story.state.so_far.aside == {ORDERS}


def test_a_mirror_that_has_gone_is_asked_for_and_the_changelog_goes_on() -> None:
    at = of(ORDERS, 3, {ORDERS: Ready(1)})
    story = begun({ORDERS: had(3, 2)}, CursorFound(3, at.checkpoint), at)
    assert story.orders == [ReportMissingMirrors(frozenset({ORDERS})), RequestMirrors({ORDERS: 1})]
    order = story.after(SegmentSealed(4)).read(of(ORDERS, 4, {ORDERS: Ready(1)})).only(DeliverTable)
    assert order.batch.generations == {}  # none that began before
    told, asked = story.after(TableDelivered(ORDERS, had(4, 3))).orders
    assert isinstance(told, ReportProgress)
    assert asked == RequestMirrors({ORDERS: 1})
    story.after(ProgressReported(), SegmentSealed(5)).read(of(ORDERS, 5, {ORDERS: Filling(4)}))
    assert story.only(DeliverTable).batch.generations[ORDERS][0].since == 4
    assert story.after(TableDelivered(ORDERS, had(5, 4, generation=4))).only(ReportProgress).reported == 4


def test_a_table_whose_columns_have_other_types_than_rules_want_begins_again() -> None:
    at = of(ORDERS, 3, {ORDERS: Ready(1)})
    place = CursorFound(3, at.checkpoint)
    assert begun({ORDERS: had(3, 2, 1)}, place, at, types=LONG).orders == [RequestMirrors({ORDERS: 1})]
    assert begun({ORDERS: had(3, 2, 1)}, place, at).orders == []
    formed = replace(had(3, 2, 1), schema=FORMED)
    assert begun({ORDERS: formed}, place, at, types=LONG).orders == []
    assert begun({ORDERS: replace(formed, stopped=DeliveryStop("a value", 3))}, place, at).orders == [
        RequestMirrors({ORDERS: 1})
    ]

    # A restart finds the request carried out, but not delivered.
    later = of(ORDERS, 4, {ORDERS: Filling(4)})
    assert begun({ORDERS: formed}, place, later).orders == []

    story = begun({ORDERS: formed}, place, at)
    story.after(SegmentSealed(4)).read(of(ORDERS, 4, {ORDERS: Ready(1)}))
    _, asked = story.after(TableDelivered(ORDERS, replace(formed, changes=4))).orders
    assert asked == RequestMirrors({ORDERS: 1}), "until it is carried out"
    story.after(ProgressReported(), SegmentSealed(5)).read(of(ORDERS, 5, {ORDERS: Filling(5)}))
    assert story.after(TableDelivered(ORDERS, had(5, 4, generation=5))).only(ReportProgress).reported == 4


def test_a_table_begins_again_once_a_renamed_column_has_another_type_than_rules_want() -> None:
    at = of(ORDERS, 3, {ORDERS: Ready(1)})
    found = replace(had(3, 2, 1), schema=FORMED)
    story = begun({ORDERS: found}, CursorFound(3, at.checkpoint), at, types=LONG)
    story.after(SegmentSealed(4)).read(of(ORDERS, 4, {ORDERS: Ready(1)}))
    renamed = replace(FORMED, columns=(*FORMED.columns[:-1], replace(FORMED.columns[-1], name="m")))
    _, asked = story.after(TableDelivered(ORDERS, replace(found, schema=renamed, changes=4))).orders
    assert asked == RequestMirrors({ORDERS: 1})


def test_a_table_without_a_mirror_keeps_its_types_and_that_is_logged() -> None:
    at = of(ORDERS, 3)
    found = {ORDERS: replace(had(3, 2), schema=FORMED)}
    assert begun(found, CursorFound(3, at.checkpoint), at).orders == [ReportKeptTypes(frozenset({ORDERS}))]


def test_a_new_lake_in_a_whole_journal_lacks_nothing() -> None:
    end = of(ORDERS, 2, {ORDERS: Ready(1)})
    story = begun({}, BeginningFound(0), end)
    assert story.orders == []
    assert story.after(SegmentSealed(2)).orders == [ReadBatch(0, 2)]


def test_a_table_that_is_there_against_its_rule_is_set_aside_alone_wherever_it_is_met() -> None:
    """What the lake has of it still says where the lake is, so that nothing begins again."""
    end, refused = entry(4, V1, ITEMS), (TableFailed(ITEMS.table, "so"),)
    mirrored = TablesFound({ITEMS.table: had(3, 3, generation=0)}, failed=refused)
    start = Story().after(JournalFound(entry(3, ITEMS).checkpoint, 3))
    assert start.after(mirrored).only(FindCursor).reported == 3
    start.after(CursorFound(3, entry(3).checkpoint), SegmentSealed(4)).read(end)
    assert start.only(FindTables).tables == (ORDERS,)
    assert start.after(TablesFound({ORDERS: NOTHING})).only(DeliverTable).table == ORDERS
    later = Story().after(JournalFoundEmpty(), SegmentSealed(1)).read(entry(1, V1, ITEMS))
    found = {ORDERS: NOTHING, ITEMS.table: had(3, 2, generation=0)}
    assert later.after(TablesFound(found, failed=refused)).only(DeliverTable).table == ORDERS
    for story in (start, later):
        assert story.state.so_far.stopped(ITEMS.table) is not None


@pytest.mark.parametrize(
    "facts", [(SegmentSealed(1), SegmentSealed(2)), (ProgressReported(),), (JournalFoundEmpty(),)]
)
def test_what_cannot_happen_now_breaks_an_invariant(facts: Sequence[Fact]) -> None:
    with pytest.raises(InvariantBroken, match=f"{type(facts[-1]).__name__} came while"):
        Story().after(JournalFoundEmpty()).after(*facts)


def test_a_table_that_nobody_looked_for_breaks_an_invariant() -> None:
    with pytest.raises(InvariantBroken, match="tables were found while"):
        Story().after(JournalFoundEmpty(), TablesFound({ORDERS: NOTHING}))


def failing(*left: TableId) -> Story:
    """A sink of two tables that have everything through 3, behind the failure of `left` in segment 4."""
    end = entry(4, V1, ITEMS)
    story = begun({ORDERS: had(3, 2), ITEMS.table: had(3, 2)}, CursorFound(3, entry(3).checkpoint), end)
    story.after(SegmentSealed(4)).read(end)
    for table in (ORDERS, ITEMS.table):
        story.after(TableFailed(table, "so") if table in left else TableDelivered(table, had(4, 3)))
    return story


def test_a_table_that_fails_for_weeks_has_the_longest_pause() -> None:
    """It doesn't end the sink, which all other tables have."""
    end = entry(4, V1, ITEMS)
    story = begun({ORDERS: had(3, 2), ITEMS.table: had(3, 2)}, CursorFound(3, entry(3).checkpoint), end)
    story.after(SegmentSealed(4)).read(end)
    often = {ITEMS.table: Failed("so", 5000, story.now)}
    story.state = replace(story.state, so_far=replace(story.state.so_far, failed=often))
    story.after(TableFailed(ITEMS.table, "so"))
    aside = story.state.so_far.failed[ITEMS.table]
    assert (aside.times, aside.again) == (5001, story.now + spark_sink.TABLE_BACKOFF.longest_s)


def test_a_table_that_fails_is_set_aside_and_the_others_say_that_it_lacks_something() -> None:
    story = failing(ITEMS.table)
    assert (story.only(ReportProgress).batch.through, story.only(ReportProgress).reported) == (4, None)
    aside = story.state.so_far.failed[ITEMS.table]
    assert (aside.reason, aside.times, aside.again) == ("so", 1, story.now + spark_sink.TABLE_BACKOFF.first_s)
    assert spark_sink.retry_at(story.state) is None, "something is under way"
    assert ITEMS.table not in story.state.so_far.mergeable
    story.after(ProgressReported(), SegmentSealed(5)).read(entry(5, V1, ITEMS))
    order = story.only(DeliverTable)
    assert (order.table, order.batch.after) == (ORDERS, 3), "all tables have everything through 3"
    story.after(TableDelivered(ORDERS, had(5, 3)), ProgressReported())
    assert spark_sink.retry_at(story.state) == aside.again


def test_a_table_catches_up_from_where_it_failed_while_the_others_have_it_all() -> None:
    story = failing(ITEMS.table).after(ProgressReported(), SegmentSealed(5)).read(entry(5, V1, ITEMS))
    story.after(TableDelivered(ORDERS, had(5, 3)), ProgressReported())
    end = entry(5, V1, ITEMS).checkpoint
    assert story.retried(end).only(FindTables).tables == (ITEMS.table,)
    assert story.after(TablesFound({ITEMS.table: had(3, 2)})).only(FindCursor).reported == 3
    story.after(CursorFound(3, entry(3).checkpoint))
    assert story.state.so_far.mergeable == {}, "batches are behind what the others have"
    assert story.after(SegmentSealed(5)).only(ReadBatch) == ReadBatch(3, 5)
    story.read(entry(4, V1, ITEMS), entry(5, V1, ITEMS))
    brought = {
        o.table: [p.segment for p in o.pieces.changes] for o in story.orders if isinstance(o, DeliverTable)
    }
    assert brought == {ORDERS: [], ITEMS.table: [4, 5]}
    story.after(TableDelivered(ORDERS, had(5, 3)))
    told = story.after(TableDelivered(ITEMS.table, had(5, 3))).only(ReportProgress)
    assert (told.batch.through, told.reported) == (5, 3)
    so_far = story.after(ProgressReported()).state.so_far
    assert (so_far.segment, so_far.aside, so_far.failed, so_far.ahead) == (5, frozenset(), {}, None)


def test_what_a_verification_needs_is_not_trimmed_while_another_table_catches_up() -> None:
    def at(segment: int, *schemas: TableSchema) -> Entry:
        made = entry(segment, *schemas)
        chunking = Chunking((), "", first=False, progress=Progress())
        reading = Snapshot("v1", {ORDERS: chunking}, verification=Verification(2))
        known = replace(made.checkpoint, schemas={ORDERS: V1, ITEMS.table: ITEMS}, mirrors={ORDERS: Ready(1)})
        return replace(made, checkpoint=replace(known, snapshots=(reading,)))

    story = Story(LakeRule(TableFilter((r"shop\.orders",)), Tiers.MIRROR))
    story.after(JournalFound(at(3).checkpoint, 0))
    merged = replace(had(3, 2, generation=1), merged=3)
    found = {ORDERS: merged, ITEMS.table: had(3, 2)}
    story.after(TablesFound(found, {(ORDERS, Tier.CHANGELOG): TableSize()}))
    story.after(CursorFound(3, at(3).checkpoint), SegmentSealed(5)).read(at(4, ITEMS), at(5, ITEMS))
    story.after(TableFailed(ITEMS.table, "so"), ProgressReported())
    story.retried(at(5, ITEMS).checkpoint).after(TablesFound({ITEMS.table: had(3, 2)}))
    story.after(CursorFound(3, at(3).checkpoint), SegmentSealed(5)).read(at(4, ITEMS))
    story.after(TableDelivered(ITEMS.table, had(4, 3)))
    story.now += TRIM_EVERY_S
    read, trim = story.after(ProgressReported()).orders
    assert read == ReadBatch(4, 5), "it hasn't caught up yet"
    assert isinstance(trim, MaintainTable)
    assert (trim.chore, trim.table, trim.trim) == (Chore.TRIM, ORDERS, Trim(3, None, 2))


def test_a_table_that_fails_again_rests_longer_and_the_others_are_where_they_were() -> None:
    for finds in (False, True):
        story = failing(ITEMS.table).after(ProgressReported(), SegmentSealed(6))
        story.read(entry(5, V1), entry(6, V1)).after(TableDelivered(ORDERS, had(6, 3)), ProgressReported())
        story.retried(entry(6).checkpoint)
        if finds:
            story.after(TablesFound({ITEMS.table: had(3, 2)}), CursorFound(3, entry(3).checkpoint))
            story.after(SegmentSealed(6)).read(entry(4, V1, ITEMS)).after(TableDelivered(ORDERS, had(6, 3)))
        failed = TableFailed(ITEMS.table, "so again")
        story.after(failed if finds else TablesFound({}, failed=(failed,)))
        if finds:
            assert story.after(ProgressReported()).orders == [], "all else has been delivered"
        so_far = story.state.so_far
        assert so_far.segment == 6
        assert (so_far.failed[ITEMS.table].times, so_far.whole, so_far.ahead) == (2, 3, None)
        assert so_far.failed[ITEMS.table].again == pytest.approx(story.now + 2.0, abs=1.0)
        assert so_far.stopped(ITEMS.table) is not None


def test_a_table_that_cannot_be_found_at_the_start_is_left_out() -> None:
    end = entry(4, V1, ITEMS)
    found = TablesFound({ORDERS: had(3, 2)}, failed=(TableFailed(ITEMS.table, "so"),))
    story = Story().after(JournalFound(end.checkpoint, 0))
    assert story.after(found).only(FindCursor).reported == 2
    story.after(CursorFound(2, entry(2).checkpoint), SegmentSealed(4)).read(entry(3, V1, ITEMS), end)
    order = story.only(DeliverTable)
    assert (order.table, order.batch.after, len(order.pieces.changes)) == (ORDERS, 2, 1)


def test_a_table_of_another_journal_is_set_aside_and_a_lake_of_another_ends_the_pipeline() -> None:
    end, another = entry(4, V1, ITEMS), (TableFailed(ITEMS.table, "another's", foreign=True),)
    for found, ends in ((had(3, 2), False), (NOTHING, True)):
        story, first = (
            Story().after(JournalFound(end.checkpoint, 4)),
            TablesFound({ORDERS: found}, {}, another),
        )
        if ends:
            with pytest.raises(Definite, match="another's"):
                story.after(first)
            continue
        assert story.after(first).only(FindCursor).reported == 2
        story.after(CursorFound(2, entry(2).checkpoint)).read(entry(3, V1, ITEMS), end)
        assert story.only(DeliverTable).table == ORDERS
        story.after(TableDelivered(ORDERS, had(4, 2)), ProgressReported())
        story.now += 10
        assert story.retried(end.checkpoint).only(FindTables).tables == (ITEMS.table,)
        story.after(TablesFound({}, failed=another))
        assert story.state.so_far.failed[ITEMS.table].times == 2


def test_the_first_tables_that_a_new_pipeline_meets_are_not_all_of_another_journal() -> None:
    another = (TableFailed(ITEMS.table, "another's", foreign=True),)
    for others in ({}, {ORDERS: NOTHING}):
        tables = (V1, ITEMS) if others else (ITEMS,)
        story = Story().after(JournalFoundEmpty(), SegmentSealed(1)).read(entry(1, *tables))
        with pytest.raises(Definite, match="another's"):
            story.after(TablesFound(others, failed=another))


def test_a_table_that_another_journal_makes_first_is_set_aside_whatever_else_there_is() -> None:
    end = entry(1, ITEMS)
    story = Story().after(JournalFoundEmpty(), SegmentSealed(1)).read(end)
    another = TableFailed(ITEMS.table, "another's", foreign=True)
    story.after(TablesFound({ITEMS.table: NOTHING})).after(another)
    story.after(ProgressReported())
    story.retried(end.checkpoint).after(TablesFound({}, failed=(another,)))
    story.after(SegmentSealed(2)).read(entry(2, ITEMS)).after(ProgressReported())
    assert story.state.so_far.aside == {ITEMS.table}


def test_what_a_failed_table_lacks_may_have_gone_and_no_other_table_begins_anew() -> None:
    story = failing(ITEMS.table).after(ProgressReported())
    story.retried(entry(9, V1, ITEMS).checkpoint).after(TablesFound({ITEMS.table: had(3, 2)}))
    gap, *_ = story.after(GapFound(3, entry(8, V1, ITEMS))).orders
    assert isinstance(gap, ReportLostChanges)
    assert gap.tables == {ITEMS.table}


def test_what_was_sealed_at_the_start_is_read_as_soon_as_the_place_is_found() -> None:
    story = Story().after(JournalFound(entry(5, V1).checkpoint, 5), TablesFound({ORDERS: had(3, 2)}))
    assert story.after(CursorFound(3, entry(3).checkpoint)).only(ReadBatch) == ReadBatch(3, 5)


def merging() -> Story:
    """A sink whose one table has a change that its mirror hasn't merged; each change is merged at once."""
    story = Story()
    story.state = replace(story.state, settings=LakeSettings("lake", merge_rows=1))
    found = replace(had(3, 2, generation=0), pending=1)
    story.after(JournalFound(of(ORDERS, 3).checkpoint, 0), TablesFound({ORDERS: found}))
    return story.after(CursorFound(3, of(ORDERS, 3, {ORDERS: Ready(0)}).checkpoint))


def test_a_mirror_is_merged_beside_the_batches_one_thing_at_a_time() -> None:
    story = merging()
    merge = story.only(MergeMirror)
    assert (merge.table, merge.through, merge.changes) == (ORDERS, 3, 1)
    end = of(ORDERS, 4, {ORDERS: Ready(0)})
    story.after(SegmentSealed(4)).read(end)
    pieces = story.only(DeliverTable).pieces
    story.after(TableDelivered(ORDERS, had(4, 3, generation=0), pieces))
    assert story.after(ProgressReported()).orders == [], "a merge is under way"
    assert spark_sink.timer_at(story.state) is None
    following = story.after(WorkDone(TableSize(files=1))).only(MergeMirror)
    assert (following.through, following.reached.merged) == (4, 3)


def test_between_two_batches_begins_what_is_due() -> None:
    story = Story()
    story.state = replace(story.state, settings=LakeSettings("lake", merge_rows=1))
    story.after(JournalFound(of(ORDERS, 3).checkpoint, 0), TablesFound({ORDERS: had(3, 2, generation=0)}))
    story.after(CursorFound(3, of(ORDERS, 3, {ORDERS: Ready(0)}).checkpoint), SegmentSealed(5))
    story.read(of(ORDERS, 4, {ORDERS: Ready(0)}))
    pieces = story.only(DeliverTable).pieces
    story.after(TableDelivered(ORDERS, had(4, 3, generation=0), pieces))
    read, merge = story.after(ProgressReported()).orders
    assert read == ReadBatch(4, 5)
    assert isinstance(merge, MergeMirror)


@pytest.mark.parametrize("rebuilding", [None, 1.0])
def test_a_mirror_waits_for_the_batches_that_its_table_had_before_a_restart(
    rebuilding: float | None,
) -> None:
    """The sink can't tell how many of the changes that it found come after a segment before the last of them."""
    story = Story()
    story.state = replace(story.state, settings=LakeSettings("lake", merge_rows=1))
    found = replace(had(5, 3, generation=0), merged=2, pending=3, rebuilding=rebuilding)
    batches = [of(ORDERS, segment, {ORDERS: Ready(0)}) for segment in (4, 5)]
    story.after(JournalFound(batches[-1].checkpoint, 5), TablesFound({ORDERS: found}))
    story.after(CursorFound(3, of(ORDERS, 3, {ORDERS: Ready(0)}).checkpoint))
    for each, orders in zip(batches, ([ReadBatch(4, 5)], []), strict=True):
        assert story.state.background.under_way is None
        order = story.read(each).only(DeliverTable)
        assert order.pieces == Pieces()
        story.after(TableDelivered(ORDERS, found, order.pieces)).after(ProgressReported())
        assert [order for order in story.orders if isinstance(order, ReadBatch)] == orders
    work = story.only(MergeMirror) if rebuilding is None else story.only(CompleteMirror)
    assert (work.through, work.changes) == (5, 3)


@pytest.mark.parametrize(("merged", "pending", "left"), [(3, 0, 0), (3, 2, 2), (0, 3, 2)])
def test_a_table_that_is_found_again_during_its_merge_counts_each_change_once(
    merged: int, pending: int, left: int
) -> None:
    """The merge has committed when the sink looks for the failed table, or it commits after that."""
    mirrors: dict[TableId, Mirror] = {ORDERS: Ready(0)}
    story = merging()
    assert story.only(MergeMirror).changes == 1
    story.after(SegmentSealed(4)).read(of(ORDERS, 4, mirrors)).after(TableFailed(ORDERS, "no such folder"))
    story.after(ProgressReported())
    story.now += 10
    story.retried(of(ORDERS, 4, mirrors).checkpoint)
    found = replace(had(4, 3, generation=0), merged=merged, pending=pending)
    story.after(TablesFound({ORDERS: found}), WorkDone(TableSize()))
    mirrored = story.state.background.mirrored[ORDERS]
    assert (mirrored.reached.merged, mirrored.pending) == (3, left)


def test_work_that_is_given_up_rests_and_begins_again_at_its_moment() -> None:
    story = merging().after(WorkGivenUp())
    assert story.orders == []
    again = spark_sink.timer_at(story.state)
    assert again == story.now + REST_S
    assert story.after(LakeTimerFired()).orders == []
    story.now = again
    assert story.after(LakeTimerFired()).only(MergeMirror).table == ORDERS


def test_at_the_end_nothing_begins_and_spark_is_stopped_after_the_work_under_way() -> None:
    story = merging().after(SealingEnded())
    assert story.orders == []
    assert story.after(WorkFailed()).only(StopSpark) == StopSpark()
    assert spark_sink.timer_at(story.state) is None
    assert story.after(SparkStopped()).state.doing == SinkEnded()
    assert Story().after(JournalFoundEmpty(), SealingEnded()).only(StopSpark) == StopSpark()


def test_a_stop_delivers_for_so_long_and_leaves_the_rest_to_the_next_start() -> None:
    story = Story().after(JournalFoundEmpty(), SegmentSealed(2)).read(entry(1, V1, ITEMS))
    story.after(TablesFound({ORDERS: NOTHING, ITEMS.table: NOTHING}))
    assert spark_sink.timer_at(story.state) is None
    stop_at = story.now + story.state.settings.drain_s
    assert story.after(StopRequested(story.now)).orders == []
    assert spark_sink.timer_at(story.state) == stop_at
    assert story.after(TableDelivered(ORDERS, had(1, 0)), LakeTimerFired()).orders == []
    story.now = stop_at
    assert story.after(LakeTimerFired()).only(StopSpark) == StopSpark(at_once=True, sealed=2)
    assert spark_sink.timer_at(story.state) is None
    # What was under way may still end. Nothing follows from it, and the journal isn't told of half a batch.
    assert story.after(TableDelivered(ITEMS.table, had(1, 0)), SealingEnded()).orders == []
    assert story.after(SparkStopped()).state.doing == SinkEnded()


def test_tables_that_fail_while_spark_stops_are_noted() -> None:
    story = Story().after(JournalFoundEmpty(), SegmentSealed(1)).read(entry(1, V1)).after(StopRequested(0.0))
    story.after(TablesFound({ORDERS: NOTHING}))
    story.now = story.state.settings.drain_s
    story.after(LakeTimerFired()).only(StopSpark)
    lost = TableFailed(ITEMS.table, "its folder can't be read")
    story.after(TableFailed(ORDERS, "so"), TablesFound({}, failed=(lost,)))
    assert story.orders == []
    failed = story.state.so_far.failed
    assert {table: (each.times, each.reason) for table, each in failed.items()} == {
        ORDERS: (1, "so"),
        ITEMS.table: (1, "its folder can't be read"),
    }


def test_a_stop_ends_as_soon_as_everything_is_delivered() -> None:
    story = Story().after(JournalFoundEmpty(), SegmentSealed(1)).read(entry(1, V1)).after(StopRequested(4.0))
    story.after(TablesFound({ORDERS: NOTHING})).after(TableDelivered(ORDERS, had(1, 0))).only(ReportProgress)
    assert story.after(ProgressReported()).orders == []
    assert story.after(SealingEnded()).only(StopSpark) == StopSpark()


def test_a_stop_breaks_off_the_work_beside_the_batches() -> None:
    story = merging()
    story.after(StopRequested(story.now - story.state.settings.drain_s))
    assert story.after(LakeTimerFired()).only(StopSpark) == StopSpark(at_once=True, sealed=3)


def repairing_at(segment: int, state: TableSnapshot) -> Entry:
    """A segment at whose end a verification of a table is repaired, or was."""
    made = of(ORDERS, segment, {ORDERS: Ready(1)})
    snapshot = Snapshot("v1", {ORDERS: state}, verification=Verification(2, repairs=True))
    return replace(made, checkpoint=replace(made.checkpoint, snapshots=(snapshot,)))


def test_a_repair_is_requested_until_its_batch_has_come() -> None:
    first = repairing_at(3, Repairing(Progress(rows=1)))
    story = begun({ORDERS: had(3, 2, generation=1)}, CursorFound(3, first.checkpoint), first)
    work = story.only(VerifyRows)
    (run,) = work.ended
    judged = Judgement("v1", ORDERS, LakeVerdict.DIFFERENT, 1, {FindingKind.EXTRA: 1}, "", 5.0)
    assert story.after(WorkDone(TableSize(), None, (judged,))).orders == [RequestRepair(run, found=True)]
    assert run.awaits == 1
    for segment, batches in ((4, 0), (5, 1)):
        story.after(SegmentSealed(segment))
        story.read(repairing_at(segment, Repairing(Progress(rows=1), batches, batches)))
        _, again = story.after(TableDelivered(ORDERS, had(segment, segment - 1, generation=1))).orders
        assert isinstance(again, RequestRepair)
        assert again.run.awaits == batches + 1
        story.after(ProgressReported())
    story.after(SegmentSealed(6)).read(repairing_at(6, Completed(Progress(rows=1), 2, 2)))
    story.after(TableDelivered(ORDERS, had(6, 5, generation=1))).only(ReportProgress)


def judged_repairs(*tables: TableId) -> tuple[Story, list[VerificationRun]]:
    """A sink of tables with rows to repair, after the comparisons."""
    states: dict[TableId, TableSnapshot] = {each: Repairing(Progress(rows=1)) for each in tables}
    first = entry(3, V1, ITEMS)
    snapshot = Snapshot("v1", states, verification=Verification(2, repairs=True))
    mirrors: dict[TableId, Mirror] = {each: Ready(1) for each in tables}
    first = replace(first, checkpoint=replace(first.checkpoint, mirrors=mirrors, snapshots=(snapshot,)))
    has = {each: had(3, 2, generation=1) for each in tables}
    story, runs = begun(has, CursorFound(3, first.checkpoint), first), list[VerificationRun]()
    for _ in tables:
        work = next(order for order in story.orders if isinstance(order, VerifyRows))
        judged = Judgement("v1", work.table, LakeVerdict.DIFFERENT, 1, {FindingKind.EXTRA: 1}, "", 5.0)
        story.after(WorkDone(TableSize(), None, (judged,)))
        runs += work.ended
    return story, runs


def test_keys_that_cannot_be_read_are_requested_again_and_end_the_repair_at_last() -> None:
    story, (run,) = judged_repairs(ORDERS)
    assert story.only(RequestRepair) == RequestRepair(run, found=True)
    for _ in range(MOST_FINDINGS_TRIES - 1):
        assert story.after(FindingsUnread(run, "so")).orders == []
        again = spark_sink.timer_at(story.state)
        assert again is not None
        story.now = again - 1.0
        assert story.after(LakeTimerFired()).only(RequestRepair) == RequestRepair(run, found=True)
        later = spark_sink.timer_at(story.state)
        assert later is not None
        assert later > again, "it's under way"
    given_up = RequestRepair(run, found=True, reason="so")
    assert story.after(FindingsUnread(run, "so")).only(RequestRepair) == given_up
    again = spark_sink.timer_at(story.state)
    assert again is not None
    story.now = again - 1.0
    assert story.after(LakeTimerFired()).only(RequestRepair) == given_up, "until the checkpoint has it"


def test_keys_that_cannot_be_read_keep_no_other_repair_waiting() -> None:
    story, (first, second) = judged_repairs(ORDERS, ITEMS.table)
    story.after(FindingsUnread(first, "so"), SegmentSealed(4))
    at = replace(entry(4), checkpoint=replace(entry(4).checkpoint, **kept_of(story)))
    assert [o.run for o in story.read(at).orders if isinstance(o, RequestRepair)] == [second]


def test_a_table_that_lacks_something_has_no_rows_to_repair_yet() -> None:
    story, (first, second) = judged_repairs(ORDERS, ITEMS.table)
    story.after(SegmentSealed(4))
    at = entry(4, V1)
    story.read(replace(at, checkpoint=replace(at.checkpoint, **kept_of(story))))
    story.after(TableFailed(ORDERS, "so"))
    assert [o.run for o in story.orders if isinstance(o, RequestRepair)] == [second]
    assert first.table == ORDERS


def kept_of(story: Story) -> dict[str, Any]:
    """What the next checkpoint has of the sink's."""
    known = story.state.so_far.checkpoint
    return {"mirrors": known.mirrors, "snapshots": known.snapshots, "schemas": known.schemas}


def test_behind_a_gap_a_generation_that_is_filled_may_lack_rows_whose_changes_are_there() -> None:
    """The changelog's commit comes first, and a kill may come between the two."""
    first, end = of(ITEMS.table, 5, {ORDERS: Ready(0)}), of(ORDERS, 8, {ORDERS: Ready(0)})
    for each in (first, end):
        each.checkpoint.schemas[ITEMS.table] = ITEMS
    ahead = replace(had(9, 2, generation=0), rows=2)
    for has, late in ((replace(ahead, rebuilding=1.0), {ORDERS}), (ahead, set[TableId]())):
        story = begun({ORDERS: has, ITEMS.table: had(4, 2)}, GapFound(2, first), end)
        assert story.state.so_far.late.tables == late
    whole = replace(ahead, rebuilding=1.0, rows=4)
    story = begun({ORDERS: whole, ITEMS.table: had(4, 2)}, GapFound(2, first), end)
    assert story.state.so_far.late.tables == set()


def test_a_batch_that_comes_again_for_another_table_takes_no_stop_back() -> None:
    story = failing(ITEMS.table).after(ProgressReported(), SegmentSealed(5))
    stopped = entry(5, V1)
    stopped.checkpoint.stopped[ORDERS] = "so"
    story.read(stopped).after(TableDelivered(ORDERS, replace(had(5, 3), capture_stopped="so")))
    story.after(ProgressReported()).retried(stopped.checkpoint)
    story.after(TablesFound({ITEMS.table: had(3, 2)}), CursorFound(3, entry(3).checkpoint), SegmentSealed(5))
    assert story.read(entry(4, ITEMS)).only(DeliverTable).table == ITEMS.table
