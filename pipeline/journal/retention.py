"""Retention: which segments of a journal may be removed.

It always removes the oldest ones, so that the rest has no gap. It never removes the last one, which holds the
checkpoint. It keeps what a consumer hasn't confirmed, and the consumer's current segment, whose checkpoint says how
fresh it is. It keeps rows that capture itself will look for after a restart (`Checkpoint.unread`). It keeps all of
these at any age and at any size of the journal. Beyond that the quota decides, which makes capture wait and loses
nothing. Of the other segments it removes those that are too old, and as many as the journal is too large by. While the
filesystem is full it removes more of them, whatever their age, until there is room.

**Consumers that arrive during a removal.** The writer first makes durable from which segment the journal is complete.
Then it reads the consumers again, and removes only what none of them needs. A consumer first publishes its position,
and then reads where the journal begins. At least one of the two sees the other. If the consumer found the old
beginning, it had published its position before the writer read the consumers again. Then the writer removes nothing
that it needs.

**Crashes.** Everything before the beginning counts as removed, so an interrupted removal does no damage. A segment's
files are removed before its entry, so the entry names them as long as any is left.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pipeline.config.settings import JournalSettings

_US = 1_000_000

# How many segments go at once, so that sealing doesn't wait for long.
MOST_AT_ONCE = 32


@dataclass(frozen=True, slots=True)
class RetainedSegment:
    """A segment of the journal: its number, the bytes of its files and its entry, its last SCN, and when it was sealed
    (µs, epoch)."""

    segment: int
    bytes: int
    last_scn: int
    sealed_at: int


def removable(
    oldest: Iterable[RetainedSegment],
    first: int,
    last: int,
    consumers: Iterable[int],
    unread: int | None,
    size: int,
    settings: JournalSettings,
    now: int,
    *,
    full: bool = False,
) -> Iterator[RetainedSegment]:
    """Returns the segments that may be removed, from the ordered `oldest`; reads no more of them than needed.

    `first`: the segment from which the journal is complete; `last`: its last one; `consumers`: the last segment that
    each has completely; `unread`: rows after this SCN are needed after a restart; `size`: bytes of all segments; `now`:
    µs since the epoch; `full`: whether the filesystem has no room.
    """
    least = min(consumers, default=last)
    for taken, kept in enumerate(oldest):
        if taken == MOST_AT_ONCE or kept.segment >= min(least, last):
            return
        old = now - kept.sealed_at > settings.keep_hours * 3600 * _US
        if unread is not None and kept.last_scn > unread:
            return
        if not (full or kept.segment < first or old or size > settings.keep_mib << 20):
            return
        size -= kept.bytes
        yield kept
