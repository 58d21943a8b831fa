"""Retention: which segments of a journal may go.

Always the oldest ones, so that what's left has no gap, and never the last one, which holds the checkpoint. What a
consumer hasn't confirmed is kept, and the segment that it's at, whose checkpoint says how fresh it is; and so are
rows that capture itself will look for after a restart (`Checkpoint.unread`): whatever their age and however large the
journal is. Then the quota decides, which makes capture wait and loses nothing. Of the others those go that are too old,
and as many as the journal is too large by.

**Who comes while they go.** The writer first makes durable from which segment on the journal is whole, then looks at
the consumers again, and removes only what none of them needs. A consumer first says where it is, and then looks where
the journal begins. Of the two, one at least sees the other: if the consumer found the old beginning, then it had said
where it is before the writer looked again, and nothing is removed that it needs.

**Crashes.** Whatever lies before the beginning is given up, so that a removal which was interrupted is no damage. A
segment's files are removed before its entry: as long as anything is left of it, the entry names it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pipeline.config.settings import JournalSettings

_US = 1_000_000

# How many segments go at once, so that sealing doesn't wait for long.
MOST_AT_ONCE = 32


@dataclass(frozen=True, slots=True)
class RetainedSegment:
    """A segment of the journal: its number, its files' bytes, its last SCN, and when it was sealed (µs, epoch)."""

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
) -> Iterator[RetainedSegment]:
    """Those of the segments that may go, out of `oldest`, which are in order; no more of it is read than needed.

    `first`: the segment that the journal is whole from; `last`: its last one; `consumers`: the segment of each that it
    has everything through; `unread`: what lies behind this SCN is looked for after a restart; `size`: bytes of all
    segments; `now`: µs since the epoch.
    """
    least = min(consumers, default=last)
    for taken, kept in enumerate(oldest):
        if taken == MOST_AT_ONCE or kept.segment >= min(least, last):
            return
        old = now - kept.sealed_at > settings.keep_hours * 3600 * _US
        if unread is not None and kept.last_scn > unread:
            return
        if not (kept.segment < first or old or size > settings.keep_mib << 20):
            return
        size -= kept.bytes
        yield kept
