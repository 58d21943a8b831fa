"""Where in the journal a stream begins and ends, as segments, for an SCN or a GTID set.

SCNs and positions rise from segment to segment, so a few entries are enough to find a place.
"""

from typing import assert_never

from pipeline.errors import Definite
from pipeline.gtid import file_positions
from pipeline.gtid.gtid_set import GtidSet
from pipeline.journal.changes.retained_range import (
    Entries,
    RetainedRange,
    first_segment_after_gtids,
    first_segment_after_scn,
    first_segment_where,
    is_through,
)
from pipeline.journal.changes.row_choice import RowChoice, choose_between
from pipeline.journal.entry import Entry
from pipeline.lake.stream.segment_offset import check_retained, segments_gone
from pipeline.lake.stream.source_options import StreamBegin


class NotYetSealed(Definite):
    """A place that an option names comes after the journal's end."""


def begin_after(place: int | GtidSet | StreamBegin, there: RetainedRange, entry: Entries) -> int:
    """Returns the segment after which a stream begins. Raises NotYetSealed, or SegmentsGone."""
    match place:
        case StreamBegin.EARLIEST:
            return there.first - 1
        case StreamBegin.LATEST:
            return there.last
        case int():
            found = first_segment_after_scn(place - 1, there, entry)
            reached = entry(there.last).last_scn if there.last else 0
            if found is None and place > reached + 1:
                raise NotYetSealed(f"from: the SCN {place} comes after {reached}, the journal's last one")
            if place < there.scn and there.first > 1:
                check_retained(there.first - 1, there)
            return there.last if found is None else found - 1
        case GtidSet():
            return _after_transactions(place, there, entry)
        case _:
            assert_never(place)


def end_with(place: int | GtidSet, there: RetainedRange, entry: Entries) -> int | None:
    """Returns the segment with which a stream ends; None if it isn't there so far."""
    if isinstance(place, GtidSet):
        _check_kind("through", place, there, entry)
    return first_segment_where(there, lambda segment: is_through(entry(segment), place))


def choice_of(begins: int | GtidSet | None, through: int | GtidSet | None, entry: Entry) -> RowChoice:
    """Returns which rows of a segment are between two places; None where no earlier or later rows are left out."""
    if isinstance(begins, GtidSet):
        return choose_between(entry, None, begins, through)
    first = begins if begins is not None and entry.first_scn < begins else None
    return choose_between(entry, first, None, through)


def _after_transactions(place: GtidSet, there: RetainedRange, entry: Entries) -> int:
    _check_kind("from", place, there, entry)
    position = entry(there.last).checkpoint.position if there.last else GtidSet()
    if not place <= position:
        raise NotYetSealed(f"from: the journal doesn't have {place - position} yet")
    found = first_segment_after_gtids(place, there, entry)
    if found is None:
        raise segments_gone(there.first - 1, there)
    return found - 1


def _check_kind(option: str, place: GtidSet, there: RetainedRange, entry: Entries) -> None:
    """Raises Definite if the source has no GTIDs."""
    if there.last and not file_positions.are_comparable(place, entry(there.last).checkpoint.position):
        raise Definite(f"{option}: the source has no GTIDs; give an SCN")
