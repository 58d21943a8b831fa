"""The JournalWriter: gathers what the coordinator appends, and seals it into segments.

One segment is sealed at a time, in a thread, while the next one fills; when that one is full too, no further message
is taken, and the mailbox's edge makes the coordinator wait. So segments are published in the order of the appends,
and memory holds two of them at most.

A cancellation can't stop a thread. So the end, of whatever kind, waits for it: afterwards no file of the journal
changes any more, and whoever recovers finds the segment sealed or not.
"""

import asyncio
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any, assert_never

from actors.actor import Actor, Outlet
from actors.journal_store import JournalStore, Recovered
from actors.mailbox import Mailbox
from actors.metrics import Metrics
from pipeline import journal, topology
from pipeline import metrics as catalogue
from pipeline.checkpoint import Checkpoint
from pipeline.journal import Entry, Unfinished, Waiting
from pipeline.messages import (
    Append,
    AppendRows,
    SegmentSealed,
    ToJournalWriter,
    ToSignalListener,
    ToSparkSink,
)
from pipeline.schema import TableId
from pipeline.settings import JournalSettings


@dataclass(frozen=True, slots=True)
class Outlets:
    """Where the news of a sealed segment goes."""

    listener: Outlet[ToSignalListener]
    sink: Outlet[ToSparkSink]


@dataclass(frozen=True, slots=True)
class Sealing:
    """A segment that a thread is sealing: its task, what's in it, and when it began (s, the loop's clock)."""

    task: asyncio.Task[Entry]
    waiting: Waiting
    began: float


class JournalWriter(Actor[ToJournalWriter]):
    """Owns the open segment; the store has to be recovered, and nobody else may write to it."""

    name = topology.Actor.JOURNAL_WRITER

    def __init__(
        self,
        mailbox: Mailbox[ToJournalWriter],
        metrics: Metrics,
        settings: JournalSettings,
        store: JournalStore,
        recovered: Recovered,
        outlets: Outlets,
    ) -> None:
        super().__init__(mailbox, metrics)
        self._settings = settings
        self._store = store
        self._outlets = outlets
        self._last = recovered.last
        self._size = recovered.bytes
        # Of the last segment that was begun, be it sealed or not.
        self._segment = self._last.segment if self._last else 0
        self._checkpoint: Checkpoint | None = self._last.checkpoint if self._last else None
        self._waiting: Waiting | None = None
        self._unfinished = Unfinished()
        self._sealing: Sealing | None = None

    async def run(self) -> None:
        """Take appends and seal them when they're due, until the mailbox is closed and all is sealed."""
        try:
            self.listen()
            while any(left is not None for left in (self._taking, self._waiting, self._sealing)):
                self._seal_if_due()
                await self._next()
        finally:
            self.rest()
            await self.release()

    async def handle(self, message: ToJournalWriter) -> None:
        """Put the append into the open segment, and keep rows until the one that they are meant for."""
        match message:
            case AppendRows():
                self._unfinished = journal.continued(self._unfinished, message)
            case Append():
                whole = journal.finished(self._unfinished, message)
                self._unfinished = Unfinished()
                self._waiting = journal.appended(self._waiting, whole, self._checkpoint, self._now())
            case _:
                assert_never(message)

    async def release(self) -> None:
        """Wait for the thread that seals, since nothing can stop it."""
        self.stop_listening()
        if self._sealing is not None:
            await asyncio.wait({self._sealing.task})

    def hung(self) -> bool:
        """Also while a segment takes too long to be sealed."""
        sealing = self._sealing
        return super().hung() or (sealing is not None and self._now() - sealing.began > self.patience)

    def status(self) -> dict[str, Any]:
        """The last sealed segment, its position, and what waits."""
        return {
            "segment": self._last.segment if self._last else 0,
            "position": str(self._last.checkpoint.position) if self._last else None,
            "bytes": self._size,
            "waiting_bytes": self._waiting.bytes if self._waiting else 0,
            "sealing": self._sealing is not None,
        }

    async def _next(self) -> None:
        """Wait for a message, if there's room for it, for the thread that seals, or for the moment to seal."""
        room = (
            self._sealing is None or self._waiting is None or not journal.full(self._waiting, self._settings)
        )
        taking = self._taking if room else None
        awaited = {task for task in (taking, self._sealing and self._sealing.task) if task}
        done, _ = await asyncio.wait(awaited, timeout=self._time_left(), return_when=asyncio.FIRST_COMPLETED)
        if self._sealing is not None and self._sealing.task in done:
            await self._sealed(self._sealing)
        if taking is not None and taking in done:
            await self.taken(taking)

    def _seal_if_due(self) -> None:
        """Give what waits to a thread, unless one is at work or it's too early; at the end nothing is too early."""
        if self._waiting is None or self._sealing is not None:
            return
        if self._taking is None or self._now() >= journal.seal_at(self._waiting, self._settings):
            before, self._checkpoint = self._checkpoint, self._waiting.appends[-1].checkpoint
            self._segment += 1
            work = asyncio.to_thread(self._seal, self._segment, self._waiting, before)
            self._sealing = Sealing(asyncio.create_task(work), self._waiting, self._now())
            self._waiting = None

    def _seal(self, segment: int, waiting: Waiting, before: Checkpoint | None) -> Entry:
        """In the thread: write, sync, publish."""
        files = self._store.write(segment, journal.segment_tables(waiting.appends))
        entry = journal.seal(segment, waiting.appends, files, before, sealed_at=time.time_ns() // 1000)
        self._store.publish(entry)
        return entry

    async def _sealed(self, sealing: Sealing) -> None:
        """Tell those who wait for it that the segment is durable."""
        self._sealing = None
        self._last = entry = sealing.task.result()
        self.metrics.observe(catalogue.SEALING, self._now() - sealing.began)
        self._measure(entry)
        for append in sealing.waiting.appends:
            for answer in append.answers:
                await self.send(self._outlets.listener, answer)
        await self.send(self._outlets.sink, SegmentSealed(entry.segment))
        self.metrics.progressed(self.name)

    def _measure(self, entry: Entry) -> None:
        written = sum(file.bytes for file in entry.files)
        self._size += written
        self.metrics.count(catalogue.SEGMENTS_SEALED)
        self.metrics.count(catalogue.JOURNAL_WRITTEN, written)
        self.metrics.set(catalogue.JOURNAL_SIZE, self._size)
        changes: Counter[TableId] = Counter()
        for file in entry.files:
            changes[file.table] += file.rows
        for sealed in entry.chunks:
            changes[sealed.chunk.table] -= sealed.rows
            table = str(sealed.chunk.table)
            self.metrics.count(catalogue.JOURNAL_ROWS, sealed.rows, table=table, part="chunks")
        for of, rows in changes.items():
            self.metrics.count(catalogue.JOURNAL_ROWS, rows, table=str(of), part="changes")
        if entry.commit_times is not None:
            oldest = (entry.sealed_at - entry.commit_times.oldest) / 1e6
            self.metrics.observe(catalogue.COMMIT_TO_JOURNAL, oldest)

    def _time_left(self) -> float | None:
        if self._waiting is None or self._sealing is not None:
            return None
        return max(0.0, journal.seal_at(self._waiting, self._settings) - self._now())

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
