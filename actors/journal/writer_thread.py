"""The work of the journal's thread, one piece at a time (`pipeline.journal.state.Work`).

A piece of work that had no room can be repeated. It writes its files again under the same names. A file that is
incomplete, or that could not be synced, is gone meanwhile (`actors.journal.files`).
"""

import time
from dataclasses import dataclass
from typing import assert_never

from actors.journal.files import NoRoom
from actors.journal.store import JournalStore
from pipeline.config.column_protection import Protection
from pipeline.config.settings import JournalSettings
from pipeline.config.table_rules import LakeRule
from pipeline.journal import segment as segments
from pipeline.journal.segment import EarlyFile
from pipeline.journal.state import ApplyRetention, FlushEarly, Publish, Seal, Work
from pipeline.journal.step import FlushedEarly, Published, RetentionApplied, SpaceLacked, Worked


@dataclass(frozen=True, slots=True)
class WriterThread:
    """What the thread works with; no other code writes to the store."""

    store: JournalStore
    settings: JournalSettings
    rules: tuple[LakeRule, ...]
    protection: Protection

    def do(self, work: Work) -> Worked:
        """Does all of it, or as much as there's room for; then the reserve is deleted. Blocks."""
        try:
            if isinstance(work, Seal):
                work = self._written(work)
            return self._do(work)
        except NoRoom as error:
            self.store.files.release()
            return SpaceLacked(str(error), work)

    def _written(self, seal: Seal) -> Publish:
        appends = seal.waiting.appends
        parts = segments.parts_of_appends(appends)
        tables = segments.segment_tables(seal.segment, parts, self.rules, self.protection)
        rest = self.store.write(seal.segment, tables, len(seal.ahead))
        files = segments.files_of_segment(seal.ahead, rest, appends, self.protection)
        return Publish(seal.segment, seal.waiting, files, seal.before)

    def _do(self, work: Publish | FlushEarly | ApplyRetention) -> Worked:
        match work:
            case Publish(segment, waiting, files, before):
                entry = segments.seal(segment, waiting.appends, files, before, _now(), self.protection)
                self.store.publish(entry)
                return Published(entry, self.store.bytes)
            case FlushEarly(segment, parts, first, scn):
                tables = segments.segment_tables(segment, parts, self.rules, self.protection)
                written = self.store.write(segment, tables, first)
                return FlushedEarly(tuple(EarlyFile(file, scn) for file in written))
            case ApplyRetention(reserve):
                removed = self.store.retain(self.settings, _now()).segments
                reserved = reserve and self.store.files.reserve()
                if not removed and not reserved:
                    removed = self.store.retain(self.settings, _now(), full=True).segments
                kept_for = None if removed else self.store.kept_for()
                return RetentionApplied(removed, kept_for, reserved, self.store.bytes, self.store.files.shown)
            case _:
                assert_never(work)


def _now() -> int:
    return time.time_ns() // 1000
