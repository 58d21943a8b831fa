"""The journal as those who ask for changes read it: in a few threads, and of the tables that are captured."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from actors.http.changes.segment_changes import retained_range
from actors.http.changes.shared_segments import SharedSegments
from actors.journal.files import Files, open_files
from actors.journal.recent_entries import RecentEntries
from actors.journal.store import JournalReader
from pipeline.config.settings import Settings
from pipeline.errors import Transient
from pipeline.journal.changes.retained_range import RetainedRange
from pipeline.journal.entry import Entry
from pipeline.schema.table_schema import TableId, TableSchema

# Capture has the same cores.
_THREADS: Final = 2

_Value = TypeVar("_Value")


class NothingSealed(Transient):
    """The journal has no segment yet."""


class JournalTap:
    """The journal of these settings, with what its writer keeps. `shared`: what its readers have read of it last."""

    def __init__(self, settings: Settings, recent: RecentEntries) -> None:
        self.shared = SharedSegments()
        self._recent = recent
        self._journal = settings.journal.path
        self._captured = settings.tables.match
        self._threads = ThreadPoolExecutor(_THREADS, "changes")

    def end(self) -> None:
        """Begins no other work."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def work(self, work: Callable[[], _Value]) -> _Value:
        """Returns what a function returns that one of the threads calls."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def files(self) -> Files:
        """Returns the journal's files."""
        return open_files(self._journal)

    def sealed(self) -> tuple[JournalReader, RetainedRange]:
        """Returns the journal, and what it has now. Raises NothingSealed."""
        journal = JournalReader(self._journal, self._recent)
        there = retained_range(journal)
        if there.last == 0:
            raise NothingSealed("the journal has no segment yet")
        return journal, there

    def tables(self, last: Entry) -> dict[TableId, TableSchema]:
        """Returns the captured tables as of a segment."""
        return {t: schema for t, schema in last.stored_schemas.items() if self._captured(t)}
