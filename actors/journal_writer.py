"""The JournalWriter: gathers what the coordinator appends, and seals it into segments.

One segment is sealed at a time, in a thread, while the next one fills; when that one is full too, no further message
is taken, and the mailbox's edge makes the coordinator wait. So segments are published in the order of the appends.

While a segment fills and isn't due, the thread writes ahead what has come in large pieces (`pipeline.journal`), chunks
above all: then a commit waits for the end of one such piece at most, and not for the writing of all that came with it.

Rows of a transaction that hasn't ended fill the next segment like everything else. Once they are what fills it, the
thread writes them ahead and memory lets go of them; what's whole and came before them is sealed first. A transaction
whose end doesn't come before the mailbox is closed hasn't happened; the next recovery removes its files.

So memory holds as much as two segments at most, each with one message more than fits, and no transaction changes that:
what the thread has in hand is one segment's, and what fills up beside it isn't more than another's. Of a segment that's
written ahead the rows in hand count among those that fill it until it's sealed.

A cancellation can't stop a thread. So the end, of whatever kind, waits for it: afterwards no file of the journal
changes any more, and whoever recovers finds the segment sealed or not.
"""

import asyncio
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, assert_never

from actors.actor import Actor, Outlet
from actors.journal_store import JournalStore, Recovered
from actors.mailbox import Mailbox
from actors.metrics import Metrics
from pipeline import journal, topology
from pipeline import metrics as catalogue
from pipeline.change_rows import ruled
from pipeline.checkpoint import Checkpoint
from pipeline.errors import Transient
from pipeline.journal import Ahead, Entry, Unfinished, Waiting
from pipeline.lake_rules import LakeRule
from pipeline.messages import (
    Append,
    AppendRows,
    ChangePart,
    ChunkPart,
    SegmentSealed,
    SignalAccepted,
    SignalAnswer,
    SignalRejected,
    ToJournalWriter,
    ToSparkSink,
)
from pipeline.schema import TableId
from pipeline.settings import JournalSettings
from pipeline.signal_states import CheckpointSealed, SignalState

_ROWS_REMEMBERED: Final = 100


@dataclass(frozen=True, slots=True)
class Outlets:
    """Where the news of a sealed segment goes."""

    answers: Outlet[SignalAnswer]
    checkpoints: Outlet[CheckpointSealed]
    sink: Outlet[ToSparkSink]


@dataclass(frozen=True, slots=True)
class Sealing:
    """A thread seals a segment: its task, what's in it, and when it began (s, the loop's clock)."""

    task: asyncio.Task[Entry]
    waiting: Waiting
    began: float


@dataclass(frozen=True, slots=True)
class WritingAhead:
    """A thread writes rows of a segment that isn't due yet: its task, and when it began (s, the loop's clock)."""

    task: asyncio.Task[tuple[Ahead, ...]]
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
        rules: tuple[LakeRule, ...] = (),
    ) -> None:
        super().__init__(mailbox, metrics)
        self._settings = settings
        self._rules = rules
        self._store = store
        self._outlets = outlets
        self._last = recovered.last
        self._size = recovered.bytes
        # Of the last segment that was begun, be it sealed or not.
        self._segment = self._last.segment if self._last else 0
        self._checkpoint: Checkpoint | None = self._last.checkpoint if self._last else None
        self._waiting: Waiting | None = None
        self._unfinished = Unfinished()
        # Files of the next segment that are written ahead.
        self._ahead: tuple[Ahead, ...] = ()
        self._work: Sealing | WritingAhead | None = None
        # How the last signals that came as rows of the signal table were judged.
        self._rows: deque[SignalState] = deque(maxlen=_ROWS_REMEMBERED)

    async def run(self) -> None:
        """Take appends and seal them when they're due, until the mailbox is closed and all is sealed."""
        try:
            self.listen()
            while any(left is not None for left in (self._taking, self._waiting, self._work)):
                self._work_if_due()
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
                whole = journal.finished(self._unfinished, ruled(message, self._rules))
                self._unfinished = Unfinished()
                self._waiting = journal.appended(self._waiting, whole, self._checkpoint, self._now())
            case _:
                assert_never(message)

    async def release(self) -> None:
        """Wait for the thread, since nothing can stop it."""
        self.stop_listening()
        if self._work is not None:
            await asyncio.wait({self._work.task})

    def hung(self) -> bool:
        """Also while the thread takes too long."""
        work = self._work
        return super().hung() or (work is not None and self._now() - work.began > self.patience)

    def status(self) -> dict[str, Any]:
        """The last sealed segment, its position, and what waits."""
        return {
            "segment": self._last.segment if self._last else 0,
            "position": str(self._last.checkpoint.position) if self._last else None,
            "bytes": self._size,
            "waiting_bytes": self._waiting.bytes if self._waiting else 0,
            "unfinished_bytes": self._unfinished.bytes,
            "ahead_bytes": sum(each.file.bytes for each in self._ahead),
            "sealing": isinstance(self._work, Sealing),
        }

    async def _next(self) -> None:
        """Wait for a message, if there's room for it, for the thread, or for the moment to seal."""
        work = self._work
        taking = self._taking if work is None or not self._full() else None
        awaited = {task for task in (taking, work and work.task) if task}
        done, _ = await asyncio.wait(awaited, timeout=self._time_left(), return_when=asyncio.FIRST_COMPLETED)
        if work is not None and work.task in done:
            self._work = None
            await self._worked(work)
        if taking is not None and taking in done:
            await self.taken(taking)

    def _full(self) -> bool:
        return journal.full(self._waiting, self._unfinished, self._settings)

    def _work_if_due(self) -> None:
        """Give what's there to a thread, unless one is at work or it's too early; at the end nothing is too early."""
        if self._work is not None:
            return
        if self._waiting is None:
            if self._full():
                parts, self._unfinished = self._unfinished.parts, journal.written(self._unfinished)
                self._write_ahead(parts, None)
        elif (
            self._taking is None
            or self._full()
            or self._now() >= journal.seal_at(self._waiting, self._settings)
        ):
            self._seal(self._waiting)
        else:
            self._waiting, large = journal.ahead_of(self._waiting)
            if large:
                self._write_ahead(large, self._waiting.appends[-1].checkpoint.scn)

    def _write_ahead(self, parts: Sequence[ChangePart | ChunkPart], scn: int | None) -> None:
        work = asyncio.to_thread(self._rows_written, self._segment + 1, parts, len(self._ahead), scn)
        self._work = WritingAhead(asyncio.create_task(work), self._now())

    def _rows_written(
        self, segment: int, parts: Sequence[ChangePart | ChunkPart], first: int, scn: int | None
    ) -> tuple[Ahead, ...]:
        """In the thread: write and sync."""
        files = self._store.write(segment, journal.segment_tables(segment, parts, self._rules), first)
        return tuple(Ahead(file, scn) for file in files)

    def _seal(self, waiting: Waiting) -> None:
        before, self._checkpoint = self._checkpoint, waiting.appends[-1].checkpoint
        self._segment += 1
        work = asyncio.to_thread(self._segment_sealed, self._segment, waiting, self._ahead, before)
        self._work = Sealing(asyncio.create_task(work), waiting, self._now())
        self._waiting, self._ahead = None, ()

    def _segment_sealed(
        self, segment: int, waiting: Waiting, ahead: tuple[Ahead, ...], before: Checkpoint | None
    ) -> Entry:
        """In the thread: write, sync, publish."""
        appends = waiting.appends
        tables = journal.segment_tables(segment, journal.parts_of(appends), self._rules)
        rest = self._store.write(segment, tables, len(ahead))
        files = (*journal.kept(ahead, appends), *rest)
        entry = journal.seal(segment, appends, files, before, sealed_at=time.time_ns() // 1000)
        self._store.publish(entry)
        return entry

    async def _worked(self, work: Sealing | WritingAhead) -> None:
        """The thread has ended; raises what it raised."""
        match work:
            case Sealing():
                await self._sealed(work)
            case WritingAhead():
                self._ahead += work.task.result()
                self.metrics.progressed(self.name)
            case _:
                assert_never(work)

    async def _sealed(self, sealing: Sealing) -> None:
        """Tell those who wait for it that the segment is durable."""
        self._last = entry = sealing.task.result()
        self.metrics.observe(catalogue.SEALING, self._now() - sealing.began)
        self._measure(entry)
        for append in sealing.waiting.appends:
            for answer in append.answers:
                match answer:
                    case SignalAccepted() | SignalRejected():
                        await self.send(self._outlets.answers, answer)
                    case SignalState():
                        self._rows.append(answer)
                    case _:
                        assert_never(answer)
        sealed = CheckpointSealed(entry.checkpoint, tuple(self._rows))
        await self.send(self._outlets.checkpoints, sealed)
        await self.send(self._outlets.sink, SegmentSealed(entry.segment))
        self.metrics.progressed(self.name)
        if entry.checkpoint.moving is not None and self._taking is not None:
            raise Transient("the position is to be set, so that capture begins anew")

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
        if self._waiting is None or self._work is not None:
            return None
        return max(0.0, journal.seal_at(self._waiting, self._settings) - self._now())

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
