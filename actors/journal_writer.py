"""The JournalWriter: gathers what the coordinator appends, and seals it into segments.

`pipeline.journal.step` decides what is done when. Here a thread does it, one piece of work at a time, while messages
are accepted as far as there's room. On a local disk the journal has a reserve file, which is deleted while the
filesystem is full. Retention and the consumers, who make room, have to write a few bytes for it.

A cancellation can't stop a thread. So the end, of any kind, waits for it. Afterwards no file of the journal changes any
more, and the next recovery finds the segment sealed or not.
"""

import asyncio
import math
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, assert_never

import structlog

from actors.journal.files import NoRoom
from actors.journal.store import JournalStore
from actors.journal.writer_thread import WriterThread
from actors.runtime.actor import Actor, Sender
from actors.runtime.failure_kinds import StartAgain
from actors.runtime.mailbox import Mailbox
from actors.runtime.measuring import contain_errors
from actors.runtime.metrics import Metrics
from actors.runtime.tasks import broken_off
from pipeline import metrics as catalogue
from pipeline.config.column_protection import Protection
from pipeline.config.settings import JournalSettings
from pipeline.config.table_rules import LakeRule
from pipeline.journal import step as journal_writer
from pipeline.journal.applied.progress import JournalProgress
from pipeline.journal.entry import Entry
from pipeline.journal.state import ApplyRetention, Busy, FlushEarly, Publish, Seal, ThreadIdle
from pipeline.messages import topology
from pipeline.messages.inboxes import ToJournalWriter
from pipeline.messages.journal import (
    CheckpointSealed,
    ChunksFlushed,
    Full,
    HasSpace,
    JournalFull,
    JournalHasSpace,
    Room,
    SegmentSealed,
)
from pipeline.messages.signals import SignalAnswer
from pipeline.schema.table_schema import TableId
from pipeline.snapshot.checkpoint import Checkpoint

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class JournalWriterPorts:
    """The receivers of the news of a sealed segment, of the journal's room, and of chunks that are written.

    `applied` tells those who wait for transactions.
    """

    answers: Sender[SignalAnswer]
    checkpoints: Sender[CheckpointSealed]
    sinks: tuple[Sender[SegmentSealed], ...]
    room: Sender[JournalFull | JournalHasSpace]
    chunks: Sender[ChunksFlushed]
    applied: Callable[[JournalProgress], None]


@dataclass(frozen=True, slots=True)
class AtWork:
    """The thread's task, when it began (s, the loop's clock), and for how long (s) it may take."""

    task: asyncio.Task[journal_writer.Worked]
    began: float
    patience: float


class JournalWriter(Actor[ToJournalWriter]):
    """Owns the open segment. The store has to be recovered, and no other code may write to it."""

    name = topology.ActorName.JOURNAL_WRITER

    def __init__(
        self,
        mailbox: Mailbox[ToJournalWriter],
        metrics: Metrics,
        settings: JournalSettings,
        store: JournalStore,
        last: Entry | None,
        ports: JournalWriterPorts,
        rules: tuple[LakeRule, ...],
        protection: Protection,
    ) -> None:
        super().__init__(mailbox, metrics)
        self._store = store
        self._thread = WriterThread(store, settings, rules, protection)
        self._ports = ports
        self._state = journal_writer.start(settings, rules, last)
        self._at_work: AtWork | None = None
        self._changed_at = 0.0  # the room (s since the epoch)
        metrics.set(catalogue.JOURNAL_FULL, 0)
        metrics.set(catalogue.JOURNAL_SIZE, self._store.bytes)
        metrics.set(catalogue.JOURNAL_QUOTA, settings.quota_mib << 20 or math.inf)
        self._measure_last(last)

    async def begin(self) -> None:
        """Do what is due at the start."""
        await self._take_in(journal_writer.JournalTimerFired())

    def takes(self) -> bool:
        """As far as there's room for another append."""
        return journal_writer.takes_messages(self._state)

    def next_at(self) -> float | None:
        """The moment of its next work."""
        return journal_writer.timer_at(self._state)

    async def time_came(self) -> None:
        """Seal what is due."""
        await self._take_in(journal_writer.JournalTimerFired())

    async def mailbox_closed(self) -> None:
        """Seal the rest."""
        await self._take_in(journal_writer.MailboxClosed())

    def ended(self) -> bool:
        """Whether all is sealed."""
        return journal_writer.has_ended(self._state)

    async def handle(self, message: ToJournalWriter) -> None:
        """Put the append into the open segment, and keep rows until the one that they are meant for."""
        await self._take_in(message)

    async def release(self) -> None:
        """Wait for the thread, since nothing can stop it."""
        if self._at_work is not None:
            await broken_off(self._at_work.task)

    def hung(self) -> str | None:
        """Also while the thread takes too long."""
        at_work = self._at_work
        if at_work is None or self.now() - at_work.began <= at_work.patience:
            return super().hung()
        return f"its thread was at one piece of work for more than {at_work.patience:g} s"

    def waits(self) -> str | None:
        """Waits for room in the journal, which may take any time."""
        state = self._state
        if isinstance(state.thread, ThreadIdle | Busy) or not isinstance(state.room, Full):
            return None
        return state.room.reason

    @property
    def sealed(self) -> Checkpoint | None:
        """The checkpoint of the last sealed segment; None before the first."""
        return None if self._state.last is None else self._state.last.checkpoint

    def status(self) -> dict[str, Any]:
        """The last sealed segment, its position, and what waits."""
        state = self._state
        segment = state.last.segment if state.last else 0
        return {
            "segment": segment,
            "position": str(state.last.checkpoint.position) if state.last else None,
            "bytes": self._store.bytes,
            "waiting_bytes": state.waiting.bytes if state.waiting else 0,
            "unfinished_bytes": state.unfinished.bytes,
            "ahead_bytes": sum(each.file.bytes for each in state.ahead),
            "sealing": isinstance(state.thread, Busy) and isinstance(state.thread.work, Seal | Publish),
            "no_room": state.room.reason if isinstance(state.room, Full) else None,
            "no_room_since": self._changed_at if isinstance(state.room, Full) else None,
            "consumers": {
                name: {"segment": at, "behind": segment - at}
                for name, at in self._store.reported_segments.items()
            },
        }

    async def _take_in(self, fact: journal_writer.Fact) -> None:
        """Carry out what follows from a fact."""
        self._state, orders = journal_writer.step(self._state, fact, self.now())
        for order in orders:
            await self._perform(order)

    async def _perform(self, order: journal_writer.Order) -> None:
        match order:
            case Seal() | Publish() | FlushEarly() | ApplyRetention():
                task = self.begin_work(asyncio.to_thread(self._thread.do, order), self._finish_work)
                self._at_work = AtWork(
                    task, self.now(), self.patience_with(journal_writer.bytes_to_write(order))
                )
            case journal_writer.ReportSpace(room):
                await self._send_room(room)
            case journal_writer.ReportChunks(scn):
                await self.send(self._ports.chunks, ChunksFlushed(scn))
            case journal_writer.ReportSealed():
                await self._report_sealed(order)
            case journal_writer.GiveUp(reason):
                raise NoRoom(reason)
            case _:
                assert_never(order)

    async def _finish_work(self, worked: journal_writer.Worked) -> None:
        began = self._at_work.began if self._at_work is not None else self.now()
        self._at_work = None
        self._measure(worked, self.now() - began)
        await self._take_in(worked)

    async def _send_room(self, room: Room) -> None:
        lasted, self._changed_at = time.time() - self._changed_at, time.time()
        self.metrics.set(catalogue.JOURNAL_FULL, isinstance(room, Full))
        match room:
            case Full(reason):
                log.warning("capture waits for room in the journal", reason=reason)
                await self.send(self._ports.room, JournalFull(reason))
            case HasSpace():
                log.info("the journal has room again", waited_s=round(lasted, 1))
                await self.send(self._ports.room, JournalHasSpace())
            case _:
                assert_never(room)

    async def _report_sealed(self, sealed: journal_writer.ReportSealed) -> None:
        """Tell those who wait for it that the segment is durable."""
        for answer in sealed.answers:
            await self.send(self._ports.answers, answer)
        checkpoint = sealed.entry.checkpoint
        self._ports.applied(JournalProgress(sealed.entry.segment, checkpoint))
        await self.send(self._ports.checkpoints, CheckpointSealed(checkpoint, sealed.signal_outcomes))
        for sink in self._ports.sinks:
            await self.send(sink, SegmentSealed(sealed.entry.segment))
        if checkpoint.to_be_resumed and not self._drained:
            raise StartAgain("a signal asks for what only a start of capture can do")

    @contain_errors
    def _measure(self, worked: journal_writer.Worked, seconds: float) -> None:
        match worked:
            case journal_writer.Published(entry):
                self.metrics.progressed(self.name)
                self.metrics.observe(catalogue.SEALING, seconds)
                self._measure_segment(entry)
            case journal_writer.RetentionApplied(bytes=size):
                self.metrics.set(catalogue.JOURNAL_SIZE, size)
                self._measure_last(self._state.last)
            case journal_writer.FlushedEarly():
                self.metrics.progressed(self.name)
            case journal_writer.SpaceLacked():
                pass
            case _:
                assert_never(worked)

    @contain_errors
    def _measure_segment(self, entry: Entry) -> None:
        written = sum(file.bytes for file in entry.files)
        self.metrics.count(catalogue.SEGMENTS_SEALED)
        self.metrics.count(catalogue.JOURNAL_WRITTEN, written)
        self.metrics.count(catalogue.JOURNAL_FILES, len(entry.files) + 1)
        self.metrics.set(catalogue.JOURNAL_SIZE, self._store.bytes)
        changes: Counter[TableId] = Counter()
        for file in entry.files:
            changes[file.table] += file.rows
        for sealed in entry.chunks:
            changes[sealed.chunk.table] -= sealed.rows
            table = str(sealed.chunk.table)
            self.metrics.count(catalogue.JOURNAL_ROWS, sealed.rows, table=table, part="chunks")
        for of, rows in changes.items():
            self.metrics.count(catalogue.JOURNAL_ROWS, rows, table=str(of), part="changes")
        self._measure_last(entry)
        if entry.commit_times is not None:
            oldest = (entry.sealed_at - entry.commit_times.oldest) / 1e6
            self.metrics.observe(catalogue.COMMIT_TO_JOURNAL, oldest)

    @contain_errors
    def _measure_last(self, entry: Entry | None) -> None:
        if entry is None:
            return
        self.metrics.set(catalogue.SEALED_SEGMENT, entry.segment)
        if entry.commit_times is not None:
            self.metrics.set(catalogue.SEALED_COMMIT, entry.commit_times.newest / 1e6)
        reported = self._store.reported_segments.items()
        self.metrics.replace(
            catalogue.CONSUMER_BEHIND, {(name,): entry.segment - at for name, at in reported}
        )
