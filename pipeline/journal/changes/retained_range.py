"""Which segments a journal has, and how a place among them is found.

SCNs and positions rise from segment to segment, so a few entries are enough. A segment needn't raise either: rows that
were read again have no GTID, and a notice has no SCN. So a place is complete with the first segment that reaches it,
and all segments after that one come after the place. Spark's executors import this module, so it imports little.
"""

import bisect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipeline.gtid.gtid_set import GtidSet
    from pipeline.journal.entry import Entry

# Returns the entry of a segment.
Entries = Callable[[int], "Entry"]


@dataclass(frozen=True, slots=True)
class RetainedRange:
    """The segments that a journal has. `id` is the journal's, `shown` where it is, `scn` the first one's first SCN."""

    id: str
    shown: str
    first: int
    last: int
    scn: int


def first_segment_where(there: RetainedRange, holds: Callable[[int], bool]) -> int | None:
    """Returns the first segment for which something holds that holds for all later ones; None without one."""
    segments = range(there.first, there.last + 1)
    found = bisect.bisect_left(segments, True, key=holds)
    return segments[found] if found < len(segments) else None


def is_through(entry: "Entry", place: "int | GtidSet") -> bool:
    """Returns whether all that is up to an SCN, or all transactions of a set, are in this segment and those before."""
    return entry.last_scn >= place if isinstance(place, int) else place <= entry.checkpoint.position


def first_segment_after_scn(scn: int, there: RetainedRange, entry: Entries) -> int | None:
    """Returns the first segment with what comes after an SCN, perhaps amid others; None if it isn't there so far."""
    return first_segment_where(there, lambda segment: _greatest_scn(entry(segment)) > scn)


def _greatest_scn(entry: "Entry") -> int:
    """Returns a segment's last SCN; if it has none, the one that it would have first."""
    return max(entry.first_scn, entry.last_scn)


def first_segment_after_gtids(gtids: "GtidSet", there: RetainedRange, entry: Entries) -> int | None:
    """Returns the first segment with what comes after these transactions, perhaps amid them; None if some of that may
    have gone. It is the one after the last segment if that isn't there so far. The journal has all of them.
    """
    found = first_segment_where(there, lambda segment: not entry(segment).checkpoint.position <= gtids)
    begin = there.last + 1 if found is None else found
    if begin == there.first:
        # What else is missing may be in this segment, or in one that has gone.
        return None if there.first > 1 else begin
    if entry(begin - 1).checkpoint.position != gtids:
        return begin
    # The first one with this position completes it.
    others = bisect.bisect_left(
        range(there.first, begin), True, key=lambda segment: is_through(entry(segment), gtids)
    )
    if others == 0 and there.first > 1 and entry(there.first).position_stays:
        return None
    return there.first + others + 1
