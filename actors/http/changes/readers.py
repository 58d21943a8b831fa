"""Those who read `/changes`: each has its own place, and the socket holds it back.

A reader's changes are made in one of a few threads, a part at a time, and only once it has taken the part before.
Readers that want the same part share it. So a slow reader costs a connection and the part in hand, and delays no
other. Nor does one that finds nothing for long: it takes turns with the others, and gets checkpoints. New segments are
awaited: the journal's writer reports each one here. The lake takes it first, for a moment: many readers at once would
hold up its delivery. The service keeps nothing of a reader. Retention doesn't wait for it.

It lives as long as the service, while actors are built again.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from actors.http.changes.arrow_stream import ArrowStream
from actors.http.changes.journal_tap import JournalTap
from actors.http.changes.json_lines import JsonLines
from actors.http.changes.segment_changes import SegmentChanges, segment_transactions
from actors.http.changes.shared_parts import FirstPart, SharedParts
from actors.http.changes.stream_point import StreamForm, StreamPart, StreamPoint
from actors.journal.recent_entries import RecentEntries
from actors.runtime.measuring import contain_errors
from actors.runtime.metrics import Metrics
from pipeline import metrics as catalogue
from pipeline.config.settings import Settings
from pipeline.errors import Transient
from pipeline.journal.applied.progress import JournalProgress
from pipeline.journal.changes.bootstrap import (
    EvenLake,
    LakePlace,
    LakeWithout,
    lake_place,
    needs_restarts,
    restarted_after,
)
from pipeline.journal.changes.checkpoint import ChangesCheckpoint
from pipeline.journal.changes.key_filter import check_key_filter, matching_keys
from pipeline.journal.changes.place import UnknownTables, check_tables, check_through, find_place
from pipeline.journal.changes.query import ChangesFormat, ChangesQuery, NamedPlace, Since
from pipeline.journal.changes.translation import Translation, translate
from pipeline.kafka.databus.window_scn import own_scn
from pipeline.schema.table_schema import TableId, TableSchema

MOST_READERS: Final = 128

# A reader that has nothing to read gets a checkpoint so often (s). It notices then that the service is there, and the
# service that the reader is.
CHECKPOINT_EVERY_S: Final = 10.0

# So long (s) readers leave the journal's last segment to the lake at most.
LAKE_FIRST_S: Final = 0.1

# How long (s) a reader may take nothing.
STALLED_S: Final = 600.0

# A stream of several tables has a struct for each one in every batch.
MOST_STRUCTS: Final = 64


class TooManyReaders(Transient):
    """No more can read at once."""


class ServiceStops(Transient):
    """The service stops before a reader has all that it wants."""


@dataclass(slots=True)
class ReaderStream:
    """The stream of one reader: what it asked for, how far it has come, and the form of what comes now."""

    query: ChangesQuery
    point: StreamPoint
    form: StreamForm


class ChangesReaders:
    """Those who read now, `count` of them, by `tap`. `sent`: how many rows of each table they got so far.

    `recent`: what the journal's writer keeps, if it is in this process.
    """

    def __init__(self, settings: Settings, metrics: Metrics, recent: RecentEntries) -> None:
        self.tap = JournalTap(settings, recent)
        self._has_lake = settings.lake is not None
        self._lake: EvenLake | None = None
        self._metrics = metrics
        self.count = 0
        self.sent: Final = Counter[TableId]()
        self._sealed = 0
        self._news = asyncio.Event()
        self._ended = False
        self._parts = SharedParts(self._first_part)
        self._taken = Counter[tuple[ChangesFormat, StreamPart]]()
        metrics.watch(catalogue.CHANGES_READERS, partial(getattr, self, "count"))

    @contain_errors
    def journal_progressed(self, progress: JournalProgress) -> None:
        """The journal has sealed a segment."""
        self._sealed = progress.segment
        self._wake()

    @contain_errors
    def lake_progressed(self, progress: EvenLake) -> None:
        """The lake's tables are all at the end of the same segment."""
        self._lake = progress
        self._wake()

    def end(self) -> None:
        """Lets all go."""
        self._ended = True
        self._wake()
        self.tap.end()

    @contextmanager
    def admit(self) -> Iterator[None]:
        """Lets one more read. Raises TooManyReaders."""
        if self.count >= MOST_READERS:
            raise TooManyReaders(f"{MOST_READERS} read changes already")
        self.count += 1
        try:
            yield
        finally:
            self.count -= 1

    async def open(self, query: ChangesQuery) -> ReaderStream:
        """Returns the stream of a reader.

        Raises UnreachedPlace, PlaceGone, UnknownTables, WrongKeyFilter or NothingSealed.
        """
        stream, last = await self.tap.work(lambda: self._open(query))
        self._sealed = max(self._sealed, last)
        return stream

    async def translate(self, since: Since) -> Translation:
        """Returns the other forms of a place. Raises UnreachedPlace, PlaceGone or NothingSealed."""
        return await self.tap.work(lambda: self._translate(since))

    async def bootstrap(self, tables: tuple[TableId, ...]) -> tuple[LakePlace, ChangesCheckpoint]:
        """Returns where to read the lake, and where to continue.

        Raises UnknownTables, NothingSealed, LakeBehind or LakeWithout.
        """
        if not self._has_lake:
            raise LakeWithout("the configuration has no [lake]")
        # In this order: the journal's end must be no earlier than the lake.
        lake = self._lake
        places = self._places(lake, tables)
        while (place := await self.tap.work(lambda: next(places))) is None:
            pass
        return place

    def _translate(self, since: Since) -> Translation:
        journal, there = self.tap.sealed()
        since = own_scn(since, there.id) if isinstance(since, int) else since
        return translate(since, there, journal.entry, partial(segment_transactions, journal))

    def _places(
        self, lake: EvenLake | None, tables: tuple[TableId, ...]
    ) -> Iterator[tuple[LakePlace, ChangesCheckpoint] | None]:
        """Yields where to read the lake. Before that it yields None after each piece of the journal that it has looked
        through, so that others have their turn.
        """
        journal, there = self.tap.sealed()
        last = journal.entry(there.last)
        known = self.tap.tables(last)
        check_tables(tables, known)
        restarted: frozenset[TableId] | None = frozenset()
        if lake is not None and needs_restarts(lake, tables or known, last.checkpoint):
            for restarted in restarted_after(lake.whole.segment, there, journal.entry):  # noqa: B007 - the last counts
                yield None
        place = lake_place(lake, tables or known, last.checkpoint, restarted)
        yield place, ChangesCheckpoint(there.id, place.reached.segment + 1)

    def _open(self, query: ChangesQuery) -> tuple[ReaderStream, int]:
        """Returns the stream of a reader, and the journal's last segment."""
        journal, there = self.tap.sealed()
        known = self.tap.tables(journal.entry(there.last))
        check_tables(query.tables, known)
        if query.keys is not None:
            for table in query.tables or known:
                check_key_filter(query.keys, known[table])
        place = find_place(query.since, there, journal.entry)
        check_through(query.through, there, journal.entry)
        through = query.through
        # What comes after `now` isn't wanted.
        ends = there.last if through is NamedPlace.NOW else None
        place_wanted = None if isinstance(through, NamedPlace) else through
        keys = None if query.keys is None else partial(matching_keys, keys=query.keys)
        tables = frozenset(query.tables)
        changes = SegmentChanges(journal, place, tables, place_wanted, ends, keys, self.tap.shared)
        then = journal.entry(min(max(place.segment, there.first), there.last)).stored_schemas
        form = _form(query, {t: then.get(t, schema) for t, schema in known.items()})
        # Streams that have come to the same point go the same way from there, wherever they began.
        wanted = replace(query, since=NamedPlace.EARLIEST), ends
        return ReaderStream(query, StreamPoint(wanted, changes, form), form), there.last

    async def follow(self, stream: ReaderStream) -> AsyncIterator[bytes]:
        """Returns the parts of a reader's changes, without an end if it wants none.

        Raises PlaceGone, ServiceStops, or Definite if the journal is damaged.
        """
        yield stream.form.begin()
        now = asyncio.get_running_loop().time
        sent = now()
        while not stream.point.ended:
            if self._ended:
                # A proper end would say that the reader has all.
                raise ServiceStops("the service stops: continue with the last checkpoint")
            first = await self._parts.next(stream.point)
            is_late = first is None
            part, others = (None, None) if first is None else (first.part, first.others)
            first = None  # while one takes its part, it holds no other
            while part is not None:
                stream.point, stream.form = part.after or stream.point, part.form
                if part.data:
                    self._took(stream.query.format, part)
                    yield part.data
                    sent = now()
                part = None if others is None else await self.tap.work(partial(next, others, None))
            # What the reader wants may be rare, however much the journal gets.
            if (is_late or now() - sent > CHECKPOINT_EVERY_S) and not stream.point.ended:
                sent = now()
                yield stream.point.checkpoint
        yield stream.point.checkpoint
        yield stream.form.end()

    async def _first_part(self, point: StreamPoint) -> FirstPart | None:
        """Returns what comes next of a stream once the journal has it, None if that takes long."""
        if not await self._newer(point.segment) or self._ended:
            return None
        await self._let_lake_take(point.segment)
        parts = point.parts(self._sealed)
        part = await self.tap.work(partial(next, parts))
        return FirstPart(part, parts if part.after is None else None)

    async def _newer(self, segment: int) -> bool:
        """Waits until the journal has this segment; returns False if it takes long."""
        try:
            async with asyncio.timeout(CHECKPOINT_EVERY_S):
                while self._sealed < segment and not self._ended:
                    await self._news.wait()
        except TimeoutError:
            return False
        return True

    async def _let_lake_take(self, segment: int) -> None:
        """Waits for a moment while this is the journal's last segment, and the lake lacks it."""
        with suppress(TimeoutError):
            async with asyncio.timeout(LAKE_FIRST_S):
                while self._sealed == segment and self._lake_lacks(segment) and not self._ended:
                    await self._news.wait()

    def _lake_lacks(self, segment: int) -> bool:
        return self._lake is not None and self._lake.whole.segment < segment

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    def _took(self, form: ChangesFormat, part: StreamPart) -> None:
        """Counts a part, together with all readers who take it at this moment."""
        if not self._taken:
            asyncio.get_running_loop().call_soon(self._measure_taken)
        self._taken[form, part] += 1

    @contain_errors
    def _measure_taken(self) -> None:
        taken, self._taken = self._taken, Counter()
        for (form, part), times in taken.items():
            rows = Counter({table: times * count for table, count in part.rows.items()})
            self.measure(form.value, rows, times * len(part.data))

    @contain_errors
    def measure(self, form: str, rows: Counter[TableId], size: int) -> None:
        """Counts what a reader was sent."""
        self.sent.update(rows)
        self._metrics.count(catalogue.CHANGES_ROWS, rows.total(), format=form)
        self.measure_bytes(form, size)

    @contain_errors
    def measure_bytes(self, form: str, size: int) -> None:
        """Counts bytes that a reader was sent."""
        self._metrics.count(catalogue.CHANGES_BYTES, size, format=form)


def _form(query: ChangesQuery, known: dict[TableId, TableSchema]) -> StreamForm:
    if query.format is ChangesFormat.JSON:
        return JsonLines()
    wanted = {table: known[table] for table in query.tables} if query.tables else known
    if len(wanted) > MOST_STRUCTS:
        raise UnknownTables(
            f"tables: {len(wanted)} are too many for one stream of Arrow; name {MOST_STRUCTS} of them, or ask for JSON"
        )
    return ArrowStream(wanted, query.compression)
