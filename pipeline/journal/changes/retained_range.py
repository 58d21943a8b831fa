"""Which segments a journal has, and how a place among them is found.

SCNs and positions rise from segment to segment, so a few entries are enough. Spark's executors import this module, so
it imports little.
"""

import bisect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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
