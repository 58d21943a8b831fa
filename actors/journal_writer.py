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

In between, the thread keeps the journal small. Where it reaches its quota nevertheless, or its filesystem is full, the
coordinator is told, and told again when there's room (`pipeline.room`). What there was no room for is done again, just
that and nothing else before it, so that all stays in order; what comes meanwhile fills the next segment, and then
waits. On a local disk the journal has a reserve, which is given up while the filesystem is full: retention and the
consumers, who make the room, have to write a few bytes for it.

A cancellation can't stop a thread. So the end, of whatever kind, waits for it: afterwards no file of the journal
changes any more, and whoever recovers finds the segment sealed or not.
"""

import asyncio
import math
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, assert_never

import structlog

from actors.actor import Actor, Outlet
from actors.journal_files import NoRoom
from actors.journal_store import JournalStore, Recovered
from actors.journal_work import Keeping, Kept, Sealing, Work, WritingAhead, done
from actors.mailbox import Mailbox
from actors.metrics import Metrics
from pipeline import journal, topology
from pipeline import metrics as catalogue
from pipeline.change_rows import ruled
from pipeline.checkpoint import Checkpoint
from pipeline.errors import InvariantBroken, Transient
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
    ToWatermarkCoordinator,
)
from pipeline.room import Full, Room, RoomEnded, RoomMade, Roomy, quota_reached
from pipeline.schema import TableId
from pipeline.settings import JournalSettings
from pipeline.signal_states import CheckpointSealed, SignalState

log = structlog.get_logger()

_ROWS_REMEMBERED: Final = 100

# How often (seconds) the journal is kept small, and how soon that and what there was no room for is done again.
_KEEP_EVERY_S: Final = 5.0
_AGAIN_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Outlets:
    """Where the news of a sealed segment goes, and of the journal's room."""

    answers: Outlet[SignalAnswer]
    checkpoints: Outlet[CheckpointSealed]
    sink: Outlet[ToSparkSink]
    coordinator: Outlet[ToWatermarkCoordinator]


@dataclass(frozen=True, slots=True)
class AtWork:
    """What the thread does, its task, and when it began (s, the loop's clock)."""

    work: Work
    task: asyncio.Task[Entry | tuple[Ahead, ...] | Kept]
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
        # Of the last segment that was begun, be it sealed or not.
        self._segment = self._last.segment if self._last else 0
        self._checkpoint: Checkpoint | None = self._last.checkpoint if self._last else None
        self._waiting: Waiting | None = None
        self._unfinished = Unfinished()
        # Files of the next segment that are written ahead.
        self._ahead: tuple[Ahead, ...] = ()
        self._at_work: AtWork | None = None
        # What there was no room for, and when it's done again; and when the journal is to be kept small.
        self._undone: Sealing | WritingAhead | None = None
        self._again_at = self._keep_at = 0.0
        self._room: Room = Roomy()
        self._changed_at = 0.0  # the room (s since the epoch)
        metrics.set(catalogue.JOURNAL_FULL, 0)
        metrics.set(catalogue.JOURNAL_SIZE, self._store.bytes)
        metrics.set(catalogue.JOURNAL_QUOTA, settings.quota_mib << 20 or math.inf)
        if self._last is not None:
            self._measure_last(self._last)
        # How the last signals that came as rows of the signal table were judged.
        self._rows: deque[SignalState] = deque(maxlen=_ROWS_REMEMBERED)

    async def run(self) -> None:
        """Take appends and seal them when they're due, until the mailbox is closed and all is sealed."""
        try:
            self.listen()
            while self._taking is not None or self._has_work():
                self._work_if_due(at_once=self._taking is None)
                await self._next(self._taking)
        finally:
            self.rest()
            await self.release()

    async def handle(self, message: ToJournalWriter) -> None:
        """Put the append into the open segment, and keep rows until the one that they are meant for."""
        match message:
            case AppendRows():
                self._unfinished = journal.continued(self._unfinished, message)
            case Append():
                if message.alterations:
                    await self._seal_all()
                whole = journal.finished(self._unfinished, ruled(message, self._rules))
                self._unfinished = Unfinished()
                self._waiting = journal.appended(self._waiting, whole, self._checkpoint, self._now())
            case _:
                assert_never(message)

    async def release(self) -> None:
        """Wait for the thread, since nothing can stop it."""
        self.stop_listening()
        if self._at_work is not None:
            await asyncio.wait({self._at_work.task})

    def hung(self) -> str | None:
        """Also while the thread takes too long."""
        at_work = self._at_work
        if at_work is None or self._now() - at_work.began <= self.patience:
            return super().hung()
        return f"its thread was at one piece of work for more than {self.patience:g} s"

    def waits(self) -> str | None:
        """For room in the journal: nobody can tell when there will be any."""
        return self._room.reason if self._undone is not None and isinstance(self._room, Full) else None

    @property
    def sealed(self) -> Checkpoint | None:
        """The checkpoint of the last sealed segment; None before the first."""
        return None if self._last is None else self._last.checkpoint

    def status(self) -> dict[str, Any]:
        """The last sealed segment, its position, and what waits."""
        return {
            "segment": self._last.segment if self._last else 0,
            "position": str(self._last.checkpoint.position) if self._last else None,
            "bytes": self._store.bytes,
            "waiting_bytes": self._waiting.bytes if self._waiting else 0,
            "unfinished_bytes": self._unfinished.bytes,
            "ahead_bytes": sum(each.file.bytes for each in self._ahead),
            "sealing": self._at_work is not None and isinstance(self._at_work.work, Sealing),
            "no_room": self._room.reason if isinstance(self._room, Full) else None,
            "no_room_since": self._changed_at if isinstance(self._room, Full) else None,
            "consumers": {
                name: {"segment": told, "behind": (self._last.segment if self._last else 0) - told}
                for name, told in self._store.told.items()
            },
        }

    def _has_work(self) -> bool:
        return any(left is not None for left in (self._waiting, self._undone, self._at_work))

    async def _next(self, taking: asyncio.Task[ToJournalWriter] | None) -> None:
        """Wait for a message, if there's room for it, for the thread, or for the moment of its next work."""
        at_work = self._at_work
        if self._full() and (at_work is not None or self._undone is not None):
            taking = None
        awaited = {task for task in (taking, at_work and at_work.task) if task}
        if not awaited:
            await asyncio.sleep(self._time_left() or 0.0)
            return
        done, _ = await asyncio.wait(awaited, timeout=self._time_left(), return_when=asyncio.FIRST_COMPLETED)
        if at_work is not None and at_work.task in done:
            self._at_work = None
            await self._worked(at_work)
        if taking is not None and taking in done:
            await self.taken(taking)

    def _full(self) -> bool:
        return journal.full(self._waiting, self._unfinished, self._settings)

    def _work_if_due(self, at_once: bool) -> None:
        """Give the thread something to do, unless it's at work or all is too early, which with `at_once` it isn't."""
        if self._at_work is not None:
            return
        now = self._now()
        if self._undone is not None:
            if now >= self._keep_at:
                self._begin(Keeping(self._store, self._settings, reserve=False))
            elif now >= self._again_at:
                self._begin(self._undone)
                self._undone = None
        elif self._waiting is None and self._full():
            self._write_ahead(self._unfinished.parts, None)
            self._unfinished = journal.written(self._unfinished)
        elif self._waiting is not None and (
            at_once or self._full() or now >= journal.seal_at(self._waiting, self._settings)
        ):
            self._seal(self._waiting)
        else:
            self._when_nothing_is_due(now, at_once)

    def _when_nothing_is_due(self, now: float, at_once: bool) -> None:
        large: list[ChangePart | ChunkPart] = []
        if self._waiting is not None:
            self._waiting, large = journal.ahead_of(self._waiting)
        if self._waiting is not None and large:
            self._write_ahead(large, self._waiting.appends[-1].checkpoint.scn)
        elif now >= self._keep_at and not at_once:
            self._begin(Keeping(self._store, self._settings, reserve=True))

    def _begin(self, work: Work) -> None:
        self._at_work = AtWork(work, asyncio.create_task(asyncio.to_thread(done, work)), self._now())

    def _write_ahead(self, parts: Sequence[ChangePart | ChunkPart], scn: int | None) -> None:
        first = len(self._ahead)
        self._begin(WritingAhead(self._store, self._segment + 1, parts, first, scn, self._rules))

    def _seal(self, waiting: Waiting) -> None:
        before, self._checkpoint = self._checkpoint, waiting.appends[-1].checkpoint
        self._segment += 1
        self._begin(Sealing(self._store, self._segment, waiting, self._ahead, before, self._rules))
        self._waiting, self._ahead = None, ()

    async def _seal_all(self) -> None:
        """Seal what waits, so that what comes next begins a segment; to wait for room is no hanging."""
        self.rest()
        while self._has_work():
            self._work_if_due(at_once=True)
            await self._next(None)
        self.beat()

    async def _worked(self, at_work: AtWork) -> None:
        """The thread has ended; raises what it raised. Room is waited for, unless it's the end."""
        try:
            result = at_work.task.result()
        except NoRoom as error:
            self._keep_at = self._again_at = self._now() + _AGAIN_S
            if not isinstance(at_work.work, Keeping):
                if self._taking is None:
                    raise
                self._undone, self._keep_at = at_work.work, self._now()
            await self._has_room(Full(str(error)))
            return
        match at_work.work, result:
            case Sealing() as sealing, Entry() as entry:
                await self._sealed(sealing, entry, at_work.began)
            case WritingAhead(), tuple() as ahead:
                self._ahead += ahead
                self.metrics.progressed(self.name)
            case Keeping(), Kept() as kept:
                await self._kept(kept)
            case other:
                raise InvariantBroken(f"the journal's thread did something else than it was told to: {other}")

    async def _kept(self, kept: Kept) -> None:
        """See whether there's room, once all has gone that may go."""
        self.metrics.set(catalogue.JOURNAL_SIZE, self._store.bytes)
        if self._last is not None:
            self._measure_last(self._last)
        if kept.removed.segments:
            self._again_at = self._now()
            return
        self._keep_at = self._now() + (_AGAIN_S if isinstance(self._room, Full) else _KEEP_EVERY_S)
        if kept.reserved:
            of = self._settings
            reason = quota_reached(of.quota_mib, of.keep_mib, self._store.bytes, kept.behind, self._room)
            await self._has_room(Roomy() if reason is None else Full(reason))
        elif isinstance(self._room, Roomy):
            await self._has_room(Full(f"the filesystem of {self._store.files.shown} is full"))

    async def _has_room(self, room: Room) -> None:
        """Tell it, where it's another thing than before."""
        if type(room) is not type(self._room):
            lasted, self._changed_at = time.time() - self._changed_at, time.time()
            self.metrics.set(catalogue.JOURNAL_FULL, isinstance(room, Full))
            match room:
                case Full(reason):
                    log.warning("capture waits for room in the journal", reason=reason)
                    await self.send(self._outlets.coordinator, RoomEnded(reason))
                case Roomy():
                    log.info("the journal has room again", waited_s=round(lasted, 1))
                    await self.send(self._outlets.coordinator, RoomMade())
                case _:
                    assert_never(room)
        self._room = room

    async def _sealed(self, sealing: Sealing, entry: Entry, began: float) -> None:
        """Tell those who wait for it that the segment is durable."""
        self._last = entry
        self.metrics.observe(catalogue.SEALING, self._now() - began)
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
        self.metrics.count(catalogue.SEGMENTS_SEALED)
        self.metrics.count(catalogue.JOURNAL_WRITTEN, written)
        self.metrics.set(catalogue.JOURNAL_SIZE, self._store.bytes)
        if isinstance(self._room, Full) or self._store.bytes >= self._settings.quota_mib << 20 > 0:
            self._keep_at = self._now()
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

    def _measure_last(self, entry: Entry) -> None:
        self.metrics.set(catalogue.SEALED_SEGMENT, entry.segment)
        if entry.commit_times is not None:
            self.metrics.set(catalogue.SEALED_COMMIT, entry.commit_times.newest / 1e6)
        told = self._store.told.items()
        self.metrics.replace(catalogue.CONSUMER_BEHIND, {(name,): entry.segment - at for name, at in told})

    def _time_left(self) -> float | None:
        """Until the thread's next work (s), None while it's at work."""
        if self._at_work is not None:
            return None
        moments = [self._keep_at]
        if self._undone is not None:
            moments.append(self._again_at)
        elif self._waiting is not None:
            moments.append(journal.seal_at(self._waiting, self._settings))
        return max(0.0, min(moments) - self._now())

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
