"""The entries of the segments that this process has sealed last, in memory.

What reads the journal in the same process need neither read nor parse them: with many tables an entry is large.
"""

from typing import Final

from pipeline.journal.entry import Entry

# So many entries are kept.
_MOST: Final = 32


class RecentEntries:
    """What one thread seals, for all threads. Segments go by the names of their folders."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[Entry, int]] = {}

    def find(self, segment: str) -> tuple[Entry, int] | None:
        """Returns a segment and the bytes of its entry's file, None if it isn't kept."""
        return self._kept.get(segment)

    def keep(self, segment: str, entry: Entry, size: int) -> None:
        """Keeps a segment that is published, with the bytes of its entry's file."""
        self._kept[segment] = entry, size
        if len(self._kept) > _MOST:
            del self._kept[next(iter(self._kept))]

    def forget(self, segment: str) -> None:
        """Keeps a segment no longer."""
        self._kept.pop(segment, None)

    def clear(self) -> None:
        """Keeps nothing any more."""
        self._kept.clear()
