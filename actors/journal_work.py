"""What the journal's thread does, one piece of work at a time: writes a segment's large pieces, seals it, keeps the
journal small.

A piece of work that there was no room for can be done again, and goes on where it had to end. What it had written by
then stays for that under the same names; only the file that wasn't whole is gone (`actors.journal_files`).
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from actors.journal_files import NoRoom
from actors.journal_store import JournalStore, Removed
from pipeline import journal
from pipeline.checkpoint import Checkpoint
from pipeline.journal import Ahead, Entry, File, Waiting
from pipeline.lake_rules import LakeRule
from pipeline.messages import ChangePart, ChunkPart
from pipeline.settings import JournalSettings


@dataclass(slots=True)
class Sealing:
    """A segment is written, synced and published; `before` is the checkpoint of the last one.

    `ahead`: its files that are written already, and `rest` the others, once they are.
    """

    store: JournalStore
    segment: int
    waiting: Waiting
    ahead: tuple[Ahead, ...]
    before: Checkpoint | None
    rules: tuple[LakeRule, ...]
    rest: tuple[File, ...] | None = None

    def do(self) -> Entry:
        """All of it, or what's left to do."""
        appends = self.waiting.appends
        if self.rest is None:
            tables = journal.segment_tables(self.segment, journal.parts_of(appends), self.rules)
            self.rest = self.store.write(self.segment, tables, len(self.ahead))
        files = (*journal.kept(self.ahead, appends), *self.rest)
        entry = journal.seal(self.segment, appends, files, self.before, sealed_at=_now())
        self.store.publish(entry)
        return entry


@dataclass(frozen=True, slots=True)
class WritingAhead:
    """Rows of a segment that isn't due yet are written; `first` and `scn` are of `JournalStore.write` and `Ahead`."""

    store: JournalStore
    segment: int
    parts: Sequence[ChangePart | ChunkPart]
    first: int
    scn: int | None
    rules: tuple[LakeRule, ...]

    def do(self) -> tuple[Ahead, ...]:
        """Write and sync."""
        tables = journal.segment_tables(self.segment, self.parts, self.rules)
        return tuple(Ahead(file, self.scn) for file in self.store.write(self.segment, tables, self.first))


@dataclass(frozen=True, slots=True)
class Kept:
    """What came of keeping the journal small: what went, and the consumer that the oldest segment is kept for, if any.

    `reserved`: whether the filesystem has room, so that the reserve is there.
    """

    removed: Removed
    behind: str | None
    reserved: bool


@dataclass(frozen=True, slots=True)
class Keeping:
    """Old segments are removed, and the reserve is made if it isn't there, unless something waits for that room."""

    store: JournalStore
    settings: JournalSettings
    reserve: bool

    def do(self) -> Kept:
        """Remove a few."""
        removed = self.store.retain(self.settings, _now())
        behind = None if removed.segments else self.store.behind()
        return Kept(removed, behind, self.reserve and self.store.files.reserve())


Work = Sealing | WritingAhead | Keeping


def done(work: Work) -> Entry | tuple[Ahead, ...] | Kept:
    """What came of it. Raises NoRoom, with the reserve given up."""
    try:
        return work.do()
    except NoRoom:
        work.store.files.release()
        raise


def _now() -> int:
    return time.time_ns() // 1000
