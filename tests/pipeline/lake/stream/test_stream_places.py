"""A place is found as a segment, and one that isn't there is refused by name."""

from dataclasses import replace

import pytest

from pipeline.errors import Definite
from pipeline.gtid.gtid_set import GtidSet
from pipeline.journal.changes.retained_range import RetainedRange
from pipeline.journal.changes.row_choice import ALL_ROWS, RowChoice
from pipeline.journal.entry import Entry
from pipeline.lake.stream.segment_offset import SegmentsGone
from pipeline.lake.stream.source_options import StreamBegin
from pipeline.lake.stream.stream_places import NotYetSealed, begin_after, choice_of, end_with
from tests.pipeline.lake.stream.entries import SOURCE, entry, retained

THERE = retained(3, 9)
WHOLE = retained(1, 9)


def through(number: int) -> GtidSet:
    return GtidSet.parse(f"{SOURCE}:1-{number}")


@pytest.mark.parametrize(
    ("place", "after"),
    [
        (StreamBegin.EARLIEST, 2),
        (StreamBegin.LATEST, 9),
        (21, 2),
        (30, 2),
        (31, 3),
        (90, 8),
        (91, 9),
        (through(30), 3),
        (through(35), 3),
        (through(90), 9),
        (GtidSet.parse(f"{SOURCE}:1-50:52"), 5),
    ],
)
def test_a_stream_begins_before_the_first_segment_that_it_needs(
    place: int | GtidSet | StreamBegin, after: int
) -> None:
    assert begin_after(place, THERE, entry) == after


def idle_from(segment: int) -> Entry:
    """As `entry`, but for the segments 5 and 6: their rows have no GTID, and 6 has no SCN either."""
    made = entry(segment)
    if segment not in (5, 6):
        return made
    first, last = (41, 50) if segment == 5 else (51, 50)
    checkpoint = replace(made.checkpoint, position=through(40))
    return replace(made, first_scn=first, last_scn=last, checkpoint=checkpoint, position_stays=True)


@pytest.mark.parametrize(
    ("place", "after"),
    [
        (through(40), 4),
        (through(39), 3),
        (through(41), 6),
        (41, 4),
        (50, 4),
        (51, 5),
        (52, 6),
    ],
)
def test_what_has_no_gtid_or_no_scn_comes_after_the_place_that_is_complete_before_it(
    place: int | GtidSet, after: int
) -> None:
    assert begin_after(place, THERE, idle_from) == after


def test_a_place_before_rows_without_a_gtid_that_have_gone_is_gone() -> None:
    assert begin_after(through(40), retained(4, 9), idle_from) == 4
    for first in (5, 6):
        with pytest.raises(SegmentsGone, match=f"from {first - 1} on, and .* begins with {first}"):
            begin_after(through(40), retained(first, 9), idle_from)


def test_a_whole_journal_has_every_place() -> None:
    assert begin_after(1, WHOLE, entry) == 0
    assert begin_after(through(5), WHOLE, entry) == 0
    empty = RetainedRange("j1", "/journal", 1, 0, 1)
    assert [begin_after(place, empty, entry) for place in (StreamBegin.EARLIEST, StreamBegin.LATEST, 1)] == [
        0,
        0,
        0,
    ]


@pytest.mark.parametrize("place", [20, through(20), through(25), GtidSet.parse(f"{SOURCE}:25")])
def test_a_place_before_the_journal_is_gone(place: int | GtidSet) -> None:
    with pytest.raises(SegmentsGone, match="begins with 3"):
        begin_after(place, THERE, entry)


@pytest.mark.parametrize(
    ("place", "said"),
    [
        (92, "from: the SCN 92 comes after 90"),
        (through(93), f"from: the journal doesn't have {SOURCE}:91-93 yet"),
    ],
)
def test_a_place_of_the_future_is_refused(place: int | GtidSet, said: str) -> None:
    with pytest.raises(NotYetSealed, match=said):
        begin_after(place, THERE, entry)


@pytest.mark.parametrize(
    ("place", "ends"),
    [(30, 3), (31, 4), (90, 9), (91, None), (through(30), 3), (through(31), 4), (through(91), None)],
)
def test_a_stream_ends_with_the_segment_that_has_the_place(place: int | GtidSet, ends: int | None) -> None:
    assert end_with(place, THERE, entry) == ends


def test_a_gtid_set_is_refused_where_the_source_has_none() -> None:
    def without(segment: int) -> Entry:
        one = entry(segment)
        position = GtidSet.parse(f"{SOURCE}:tidemark_binlog:1-{10 * segment}")
        return replace(one, checkpoint=replace(one.checkpoint, position=position))

    with pytest.raises(Definite, match="from: the source has no GTIDs; give an SCN"):
        begin_after(through(3), THERE, without)
    with pytest.raises(Definite, match="through: the source has no GTIDs; give an SCN"):
        end_with(through(3), THERE, without)


@pytest.mark.parametrize(
    ("segment", "begins", "ends", "choice"),
    [
        (3, 25, 45, RowChoice(first=25)),
        (4, 25, 45, ALL_ROWS),
        (5, 25, 45, RowChoice(last=45)),
        (5, 45, 46, RowChoice(first=45, last=46)),
        (3, through(25), None, RowChoice(without=f"{SOURCE}:1-25")),
        (4, None, through(40), ALL_ROWS),
        (5, None, through(45), RowChoice(only=f"{SOURCE}:1-45")),
        (5, None, None, ALL_ROWS),
    ],
)
def test_rows_are_chosen_only_where_a_segment_has_others(
    segment: int, begins: int | GtidSet | None, ends: int | GtidSet | None, choice: RowChoice
) -> None:
    assert choice_of(begins, ends, entry(segment)) == choice
