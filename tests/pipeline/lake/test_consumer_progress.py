"""What the sink's state says of the lake, while batches land, tables fail, and mirrors fill."""

from dataclasses import replace

import pytest

from pipeline.config.table_rules import LakeRule, Tiers
from pipeline.journal.applied.progress import BEGINS_AGAIN, SegmentEnd, TableProgress
from pipeline.journal.entry import Entry
from pipeline.lake.batch import DeliveryStop, LakeTableState
from pipeline.lake.consumer_progress import LakeConsumerProgress
from pipeline.lake.facts import (
    CursorFound,
    GapFound,
    ProgressReported,
    TableDelivered,
    TableFailed,
    TablesFound,
    WorkDone,
)
from pipeline.lake.live_view import Versions
from pipeline.lake.orders import DeliverTable
from pipeline.lake.tables.maintenance import TableSize
from pipeline.messages.journal import SegmentSealed
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import TableId
from pipeline.snapshot.checkpoint import Filling, Ready
from pipeline.snapshot.snapshot import Progress, Snapshot, SnapshotFailed, SnapshotWaiting, TableSnapshot
from tests.pipeline.lake.test_delivery import ITEMS, V1, entry
from tests.pipeline.lake.test_step import ORDERS, Story, begun, had, of

BOTH = entry(4, V1, ITEMS)


def place(segment: int) -> SegmentEnd:
    """The end of a segment as the entries here have it."""
    return SegmentEnd.at(segment, entry(segment).checkpoint)


def filling(segment: int, snapshot: TableSnapshot) -> Entry:
    """A segment as of which a table has only this snapshot."""
    end = of(ORDERS, segment, {ORDERS: Filling(5)})
    snapshots = (Snapshot("s", {ORDERS: snapshot}),)
    return replace(end, checkpoint=replace(end.checkpoint, snapshots=snapshots))


def told(story: Story) -> LakeConsumerProgress:
    return LakeConsumerProgress(story.state)


def at(state: LakeTableState, mirror: int | None, changelog: int) -> LakeTableState:
    return replace(state, at=Versions(mirror, changelog))


def progress(story: Story, table: TableId) -> tuple[int, object]:
    """The segment through which a table is, and what names it."""
    found = told(story).of(table)
    return found.reached.segment, found.read_at


def test_a_table_has_a_batch_once_its_part_is_delivered_or_it_has_none() -> None:
    story = begun({ORDERS: had(3, 2), ITEMS.table: had(3, 2)}, CursorFound(3, entry(3).checkpoint), BOTH)
    assert told(story).whole == told(story).furthest == place(3)
    assert told(story).even
    story.after(SegmentSealed(4)).read(BOTH)
    assert not told(story).even
    assert (told(story).whole, told(story).furthest) == (place(3), place(4))
    assert progress(story, ORDERS) == (3, None)
    other = TableId("shop", "customers")
    assert progress(story, other) == (4, None)
    story.after(TableDelivered(ORDERS, at(had(4, 3), None, 9)))
    assert progress(story, ORDERS) == (4, {"mirror": None, "changelog": 9})
    assert progress(story, ITEMS.table) == (3, None)
    story.after(TableDelivered(ITEMS.table, at(had(4, 3), None, 5)))
    assert told(story).whole == told(story).furthest == place(4)
    assert told(story).even


def test_a_lake_is_not_even_while_a_table_has_more_than_the_others() -> None:
    """A batch that ended earlier than the one before a restart, which had brought one of the tables."""
    found = {ORDERS: had(5, 3), ITEMS.table: had(3, 2)}
    story = begun(found, CursorFound(3, entry(3).checkpoint), entry(5, V1, ITEMS))
    story.after(SegmentSealed(5)).read(BOTH)
    story.after(TableDelivered(ORDERS, had(5, 3)), TableDelivered(ITEMS.table, had(4, 3)))
    assert (told(story).whole, told(story).even) == (place(4), False)
    story.after(ProgressReported()).read(entry(5, V1, ITEMS))
    story.after(TableDelivered(ORDERS, had(5, 3)), TableDelivered(ITEMS.table, had(5, 4)))
    assert told(story).even


def test_a_lake_that_is_being_looked_at_is_not_even() -> None:
    assert not told(Story()).even


def test_the_versions_never_go_back_whoever_reports_last() -> None:
    found = replace(had(3, 2, generation=1), pending=10**9, at=Versions(4, 7))
    story = begun({ORDERS: found}, CursorFound(3, of(ORDERS, 3, {ORDERS: Ready(1)}).checkpoint), entry(4))
    assert story.state.background.under_way is not None
    story.after(SegmentSealed(4)).read(of(ORDERS, 4, {ORDERS: Ready(1)}))
    story.after(TableDelivered(ORDERS, at(had(4, 3, generation=1), 5, 8)))
    story.after(WorkDone(TableSize(), Versions(5, 7)))
    assert progress(story, ORDERS) == (4, {"mirror": 5, "changelog": 8})


def test_a_mirror_that_fills_or_has_not_begun_is_not_seen() -> None:
    end = of(ORDERS, 3, {ORDERS: Filling(5)})
    story = begun({ORDERS: replace(had(3, 2, 5), rebuilding=1.0)}, CursorFound(3, end.checkpoint), end)
    assert told(story).of(ORDERS).lacks == "its mirror is being filled"
    for generation in (None, 4):
        story = begun({ORDERS: had(3, 2, generation)}, CursorFound(3, end.checkpoint), end)
        assert told(story).of(ORDERS).lacks == "its mirror hasn't begun yet"
    story = begun({ORDERS: had(3, 2, 5)}, CursorFound(3, end.checkpoint), end)
    assert told(story).of(ORDERS) == TableProgress(SegmentEnd.at(3, end.checkpoint))


def test_what_comes_after_columns_that_the_mirror_lacks_is_not_seen() -> None:
    """A kill came between the two tables' changes of columns, and the next batch ends before that segment."""
    end = of(ORDERS, 3, {ORDERS: Ready(1)})
    amid = replace(had(3, 2, 1), since=5, mirror_since=2)
    story = begun({ORDERS: amid}, CursorFound(3, end.checkpoint), end)
    story.after(SegmentSealed(4)).read(of(ORDERS, 4, {ORDERS: Ready(1)}))
    story.after(TableDelivered(ORDERS, replace(amid, changes=4, rows=4)))
    assert told(story).even
    assert told(story).of(ORDERS).lacks == "its mirror doesn't have the new columns yet"
    story.after(ProgressReported(), SegmentSealed(5)).read(of(ORDERS, 5, {ORDERS: Ready(1)}))
    story.after(TableDelivered(ORDERS, replace(amid, changes=5, rows=5, mirror_since=5)))
    assert told(story).of(ORDERS).lacks is None
    story = begun(
        {ORDERS: replace(amid, generation=None)}, CursorFound(3, of(ORDERS, 3).checkpoint), entry(3)
    )
    assert told(story).of(ORDERS).lacks is None


def test_without_a_mirror_a_table_says_which_of_its_rows_a_snapshot_brings() -> None:
    rule = LakeRule(TableFilter((r"shop\.orders",)), Tiers.CHANGELOG)
    end = filling(3, SnapshotWaiting())
    story = begun({ORDERS: had(3, 2)}, CursorFound(3, end.checkpoint), end, rule)
    assert told(story).of(ORDERS) == TableProgress(SegmentEnd.at(3, end.checkpoint), filling=5)
    story.after(SegmentSealed(4)).read(of(ORDERS, 4, {ORDERS: Ready(5)}))
    assert told(story).of(ORDERS).filling == 5
    story.after(TableDelivered(ORDERS, had(4, 3)))
    assert (told(story).of(ORDERS).reached.segment, told(story).of(ORDERS).filling) == (4, None)


def test_without_a_mirror_nothing_waits_for_a_snapshot_that_ended_without_all_rows() -> None:
    rule = LakeRule(TableFilter((r"shop\.orders",)), Tiers.CHANGELOG)
    end = filling(3, SnapshotFailed("no such column", Progress()))
    story = begun({ORDERS: had(3, 2)}, CursorFound(3, end.checkpoint), end, rule)
    assert told(story).of(ORDERS) == TableProgress(SegmentEnd.at(3, end.checkpoint))


def test_a_changelog_alone_is_whole_only_if_it_keeps_all() -> None:
    rule = LakeRule(TableFilter((r"shop\.orders",)), Tiers.CHANGELOG)
    story = begun({ORDERS: had(3, 2)}, CursorFound(3, entry(3).checkpoint), entry(3), rule)
    assert told(story).never_whole(ORDERS) is None
    settings = replace(story.state.settings, keep_changelog_hours=24.0)
    kept = LakeConsumerProgress(replace(story.state, settings=settings))
    assert "keeps changes for keep_changelog_hours only" in (kept.never_whole(ORDERS) or "")
    assert kept.never_whole(ITEMS.table) is None


def test_a_table_whose_scan_the_lake_lacks_is_not_whole() -> None:
    lost = {ITEMS.table: frozenset({"s1"})}
    story = begun({ITEMS.table: had(3, 2)}, CursorFound(3, entry(3).checkpoint, lost), entry(3))
    assert "request a blocking snapshot" in (told(story).never_whole(ITEMS.table) or "")
    assert told(story).never_whole(ORDERS) is None


def test_a_table_that_failed_or_lacks_segments_or_was_stopped_says_so() -> None:
    story = begun({ORDERS: had(3, 2)}, CursorFound(3, entry(3).checkpoint), entry(4))
    story.after(SegmentSealed(4)).read(entry(4, V1)).after(TableFailed(ORDERS, "no room"))
    assert told(story).whole == place(4)
    assert "no room" in (told(story).of(ORDERS).lacks or "")
    gap = begun({ORDERS: had(3, 2)}, GapFound(3, entry(6)), entry(6))
    assert "segments" in (told(gap).of(ORDERS).lacks or "")
    found = {ORDERS: had(3, 2, None, DeliveryStop("it's VARCHAR", 9))}
    stopped = begun(found, CursorFound(3, entry(3).checkpoint), entry(3))
    assert told(stopped).of(ORDERS).stopped == "it's VARCHAR"


@pytest.mark.parametrize("stopped", [False, True])
def test_a_table_lacks_what_the_journal_removed_until_the_batch_that_mends_it_is_delivered(
    stopped: bool,
) -> None:
    """Its mirror begins again in the batch, or capture has stopped it and the lake is about to say so."""
    mirror, generation = Ready(0), replace(had(3, 2), generation=0)
    first, items = (of(ITEMS.table, segment, {ORDERS: mirror}) for segment in (6, 7))
    for each in (first, items):
        each.checkpoint.schemas[ITEMS.table] = ITEMS
    story = begun({ORDERS: generation, ITEMS.table: had(6, 2)}, GapFound(3, first), items)
    story.after(SegmentSealed(7)).read(first).after(TableDelivered(ITEMS.table, had(6, 2)))
    story.after(ProgressReported())
    assert "segments" in (told(story).of(ORDERS).lacks or "")
    mends = of(ORDERS, 7, {ORDERS: mirror if stopped else Filling(7)})
    if stopped:
        mends.checkpoint.stopped[ORDERS] = "so"
    order = story.read(mends).only(DeliverTable)
    assert (order.table, told(story).whole.segment) == (ORDERS, 6)
    assert "segments" in (told(story).of(ORDERS).lacks or "")
    end = DeliveryStop("so", 7) if stopped else None
    after = replace(generation, generation=0 if stopped else 7, stopped=end, changes=7, rows=7)
    story.after(TableDelivered(ORDERS, after))
    assert "segments" not in (told(story).of(ORDERS).lacks or "")


def test_a_table_that_begins_again_after_a_stop_lacks_what_it_had_not_at_the_stop() -> None:
    """The journal's newest checkpoint has the table again, and the lake's doesn't yet."""
    end = replace(entry(4), checkpoint=replace(entry(4).checkpoint, stopped={ORDERS: "no such column"}))
    story = begun({ORDERS: had(4, 2)}, CursorFound(4, end.checkpoint), end)
    assert told(story).of(ORDERS).lacks == BEGINS_AGAIN
    assert told(story).of(ITEMS.table).lacks is None


def test_rows_that_are_unread_count_by_the_checkpoint_that_the_table_has() -> None:
    partial = replace(entry(4, V1), checkpoint=replace(entry(4).checkpoint, unread={ORDERS: 31}))
    story = begun({ORDERS: had(3, 2)}, CursorFound(3, entry(3).checkpoint), entry(4))
    story.after(SegmentSealed(4)).read(partial)
    assert told(story).of(ORDERS).unread is None
    story.after(TableDelivered(ORDERS, had(4, 3)), ProgressReported())
    assert told(story).of(ORDERS).unread == 31


def test_while_a_table_catches_up_the_others_are_where_they_were() -> None:
    end = entry(5)
    story = begun({ORDERS: had(3, 2), ITEMS.table: had(3, 2)}, CursorFound(3, entry(3).checkpoint), BOTH)
    story.after(SegmentSealed(5)).read(BOTH).after(TableFailed(ORDERS, "no room"))
    story.after(TableDelivered(ITEMS.table, had(4, 3)), ProgressReported()).read(end)
    story.after(ProgressReported())
    story.retried(end.checkpoint).after(TablesFound({ORDERS: had(3, 2)}))
    assert (told(story).whole.segment, progress(story, ITEMS.table)[0]) == (5, 5)
    assert told(story).of(ORDERS).lacks is not None
