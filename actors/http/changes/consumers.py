"""Those who read `/changes`: each has its own place, and the socket holds it back.

A consumer's changes are made in one of a few threads, a piece at a time, and only once it has taken the piece before.
So a slow consumer costs a connection and the pieces in hand, and delays no other. Nor does one that finds nothing for
long: it takes turns with the others, and gets checkpoints. New segments are awaited: the
journal's writer reports each one here. The service keeps nothing of a consumer. Retention doesn't wait for it.

It lives as long as the service, while actors are built again.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Final, Protocol

from actors.http.changes.arrow_stream import ArrowStream
from actors.http.changes.journal_tap import JournalTap
from actors.http.changes.json_lines import JsonLines
from actors.http.changes.segment_changes import (
    ChangesRead,
    SegmentChanges,
    segment_transactions,
)
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
    restarted_after,
)
from pipeline.journal.changes.checkpoint import ChangesCheckpoint
from pipeline.journal.changes.commit_order import count_by_table
from pipeline.journal.changes.key_filter import check_key_filter, matching_keys
from pipeline.journal.changes.place import UnknownTables, check_tables, check_through, find_place
from pipeline.journal.changes.query import ChangesFormat, ChangesQuery, NamedPlace, Since
from pipeline.journal.changes.translation import Translation, translate
from pipeline.schema.table_schema import TableId, TableSchema

MOST_CONSUMERS: Final = 128

# A consumer that has nothing to read gets a checkpoint so often (s). It notices then that the service is there, and the
# service that the consumer is.
CHECKPOINT_EVERY_S: Final = 10.0

# A thread looks through so many segments for a consumer before others have their turn.
SEGMENTS_AT_ONCE: Final = 16

# How long (s) a consumer may take nothing.
STALLED_S: Final = 600.0

# A stream of several tables has a struct for each one in every batch.
MOST_STRUCTS: Final = 64


class TooManyConsumers(Transient):
    """No more can read at once."""


class ServiceStops(Transient):
    """The service stops before a consumer has all that it wants."""


class StreamForm(Protocol):
    """The form of a consumer's changes."""

    @property
    def content_type(self) -> str:
        """Returns its media type."""

    def begin(self) -> bytes:
        """Returns what comes first."""

    def write(self, read: ChangesRead) -> bytes:
        """Returns rows and their checkpoint."""

    def error(self, text: str) -> bytes:
        """Returns an error that ends the changes."""

    def end(self) -> bytes:
        """Returns what comes last."""


@dataclass(frozen=True, slots=True)
class ConsumerStream:
    """The changes of one consumer, and their form."""

    form: StreamForm
    changes: SegmentChanges


class ChangesConsumers:
    """Those who read now, `count` of them, by `tap`. `sent`: how many rows of each table they got so far."""

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self.tap = JournalTap(settings)
        self._has_lake = settings.lake is not None
        self._lake: EvenLake | None = None
        self._metrics = metrics
        self.count = 0
        self.sent: Final = Counter[TableId]()
        self._sealed = 0
        self._news = asyncio.Event()
        self._ended = False
        metrics.watch(catalogue.CHANGES_CONSUMERS, partial(getattr, self, "count"))

    @contain_errors
    def journal_progressed(self, progress: JournalProgress) -> None:
        """The journal has sealed a segment."""
        self._sealed = progress.segment
        self._wake()

    @contain_errors
    def lake_progressed(self, progress: EvenLake) -> None:
        """The lake's tables are all at the end of the same segment."""
        self._lake = progress

    def end(self) -> None:
        """Lets all go."""
        self._ended = True
        self._wake()
        self.tap.end()

    @contextmanager
    def consumer(self) -> Iterator[None]:
        """One more who reads. Raises TooManyConsumers."""
        if self.count >= MOST_CONSUMERS:
            raise TooManyConsumers(f"{MOST_CONSUMERS} read changes already")
        self.count += 1
        try:
            yield
        finally:
            self.count -= 1

    async def open(self, query: ChangesQuery) -> ConsumerStream:
        """Returns the stream of a consumer.

        Raises UnreachedPlace, PlaceGone, UnknownTables, WrongKeyFilter or NothingSealed.
        """
        return await self.tap.work(lambda: self._open(query))

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
        return await self.tap.work(lambda: self._bootstrap(lake, tables))

    def _translate(self, since: Since) -> Translation:
        journal, there = self.tap.sealed()
        return translate(since, there, journal.entry, partial(segment_transactions, journal))

    def _bootstrap(
        self, lake: EvenLake | None, tables: tuple[TableId, ...]
    ) -> tuple[LakePlace, ChangesCheckpoint]:
        journal, there = self.tap.sealed()
        last = journal.entry(there.last)
        known = self.tap.tables(last)
        check_tables(tables, known)
        restarts = lru_cache(partial(restarted_after, there=there, entry=journal.entry))
        place = lake_place(lake, tables or known, last.checkpoint, restarts)
        return place, ChangesCheckpoint(there.id, place.reached.segment + 1)

    def _open(self, query: ChangesQuery) -> ConsumerStream:
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
        wanted = frozenset(query.tables)
        changes = SegmentChanges(journal, place, wanted, place_wanted, ends, keys, self.tap.shared)
        then = journal.entry(min(max(place.segment, there.first), there.last)).stored_schemas
        return ConsumerStream(_form(query, {t: then.get(t, schema) for t, schema in known.items()}), changes)

    async def follow(self, stream: ConsumerStream, form: ChangesFormat) -> AsyncIterator[bytes]:
        """Returns the pieces of a consumer's changes, without an end if it wants none.

        Raises PlaceGone, ServiceStops, or Definite if the journal is damaged.
        """
        changes = stream.changes
        yield stream.form.begin()
        now = asyncio.get_running_loop().time
        sent = now()
        sealed = (await self.tap.work(changes.there)).last
        while not self._ended:
            last = max(sealed, self._sealed)
            pieces = changes.read(min(last, changes.place.segment + SEGMENTS_AT_ONCE - 1))
            while (piece := await self.tap.work(lambda: self._next(pieces, stream.form))) is not None:  # noqa: B023
                data, rows = piece
                self.measure(form.value, rows, len(data))
                yield data
                sent = now()
            if changes.ended:
                yield stream.form.write(changes.reached())
                yield stream.form.end()
                return
            # What the consumer wants may be rare, however much the journal gets.
            newer = changes.place.segment <= last or await self._newer(changes.place.segment)
            if not newer or now() - sent > CHECKPOINT_EVERY_S:
                sent = now()
                yield stream.form.write(changes.reached())
        # A proper end would say that the consumer has all.
        raise ServiceStops("the service stops: continue with the last checkpoint")

    def _next(self, pieces: Iterator[ChangesRead], form: StreamForm) -> tuple[bytes, Counter[TableId]] | None:
        read = next(pieces, None)
        if read is None:
            return None
        rows = Counter[TableId]() if read.rows is None else count_by_table(read.rows, read.lanes)
        return form.write(read), rows

    async def _newer(self, segment: int) -> bool:
        """Waits until the journal has this segment; returns False if it takes long."""
        try:
            async with asyncio.timeout(CHECKPOINT_EVERY_S):
                while self._sealed < segment and not self._ended:
                    await self._news.wait()
        except TimeoutError:
            return False
        return True

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    @contain_errors
    def measure(self, form: str, rows: Counter[TableId], size: int) -> None:
        """Counts what a consumer was sent."""
        self.sent.update(rows)
        self._metrics.count(catalogue.CHANGES_ROWS, rows.total(), format=form)
        self.measure_bytes(form, size)

    @contain_errors
    def measure_bytes(self, form: str, size: int) -> None:
        """Counts bytes that a consumer was sent."""
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
