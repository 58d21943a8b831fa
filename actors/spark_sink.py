"""The SparkSink: brings the journal's segments into the lake, batch by batch, and sees to its tables meanwhile.

Batches come one after the other; within one, tables are delivered at the same time. A batch takes all segments that
wait (up to a bound), so that the further the sink lags the larger its commits and the less each row costs. Where it
goes on is found in the tables themselves, at the start and so after each failure.

One MERGE at a time, or one piece of maintenance, runs beside the batches (`actors.background`). It takes seconds that
no reader waits for, since the live view is right with it and without it.

How far it is, it tells the journal after each batch, so that retention keeps what it needs. Where what it needs has
gone, since the lake is new or was removed, tables wait until their mirrors have begun anew (`pipeline.late`).

Spark's calls block and can't be interrupted, so they're made in threads of this actor's own. A clean end waits for
them. Any other end kills the JVM, which lets go of the threads, and of all that Spark was doing: what it had
committed counts, and the rest never happened.
"""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import chain, takewhile
from typing import Any, ParamSpec, TypeVar

import structlog
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from actors import spark_session
from actors.actor import Actor, Outlet
from actors.background import Background
from actors.delta import Conflict, is_conflict
from actors.journal_store import JournalReader
from actors.lake import Lake
from actors.mailbox import Mailbox
from actors.metrics import Metrics
from actors.spark_pulse import Pulse
from actors.spark_session import Pool, Running, SparkFailed
from actors.tasks import all_end
from pipeline import metrics as catalogue
from pipeline import tiers, topology
from pipeline.checkpoint import Checkpoint, Mirror, state_of
from pipeline.delivery import Batch, Delivered, Pieces, missing, next_batch, said_by
from pipeline.errors import Transient
from pipeline.journal import Entry
from pipeline.lake_rules import rule_of
from pipeline.lake_tables import Tier
from pipeline.late import MirrorsLacked, incomplete
from pipeline.messages import SegmentSealed, ToSparkSink
from pipeline.schema import TableId
from pipeline.settings import LakeSettings, SparkSettings

log = structlog.get_logger()

# The sink's name among the journal's consumers.
CONSUMER = "lake"

# How many tables are delivered at once; a further thread is for what goes on beside that.
TABLES_AT_ONCE = 4

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class SparkSink(Actor[ToSparkSink]):
    """Owns Spark and the lake's tables; needs the journal's reading side alone."""

    name = topology.Actor.SPARK_SINK

    def __init__(
        self,
        mailbox: Mailbox[ToSparkSink],
        metrics: Metrics,
        lake: LakeSettings,
        spark: SparkSettings,
        journal: JournalReader,
        coordinator: Outlet[MirrorsLacked],
    ) -> None:
        super().__init__(mailbox, metrics)
        self._settings = lake
        self._spark_settings = spark
        self._journal = journal
        self._threads = ThreadPoolExecutor(TABLES_AT_ONCE + 1, "spark")
        self._pulse = Pulse()
        self._spark: Running | None = None
        self._lake: Lake | None = None
        self._segment = 0
        self._position = ""
        self._freshness: float | None = None
        self._mirrors: dict[TableId, Mirror] = {}
        self._delivered: dict[TableId, Delivered] = {}
        self._background: Background | None = None
        self._coordinator = coordinator
        # The last SCN that has gone from the journal, and the tables that lack rows of before.
        self._beginning = 0
        self._late: frozenset[TableId] = frozenset()
        self._whole = 0  # the segment through which all tables had everything before that
        self._said = said_by(())  # the segment through which the tables themselves say so
        # The tables whose mirror isn't there, and the SCN that it may begin at, or behind it (`pipeline.tiers`).
        self._bare: frozenset[TableId] = frozenset()
        self._bare_since = 0

    async def run(self) -> None:
        """Deliver what is sealed, and what will be, until the mailbox is closed and the last segment delivered."""
        try:
            self.beat()
            await self._open()
            self.rest()
            self.listen()
            assert self._background is not None
            while self._taking is not None or self._background.work is not None:
                await self._next(self._background)
                self._see_to_tables()
            await self._pulse.end()
            await self._in_thread(self._stop)
        finally:
            self.rest()
            await self.release()

    async def handle(self, message: SegmentSealed) -> None:
        """Deliver everything through the segment."""
        await self._deliver_through(message.segment)

    async def release(self) -> None:
        """Kill the JVM, so that its threads end, and wait for these."""
        self.stop_listening()
        await asyncio.to_thread(self._end)
        await self._pulse.end()
        if (background := self._background) is not None and background.work is not None:
            await asyncio.wait({background.work.task})
        self.metrics.set(catalogue.SPARK_UP, 0)

    def hung(self) -> str | None:
        """It is while Spark is, too; a call of Spark's may take long as long as it gets on."""
        return self._pulse.stuck() or (None if self._pulse.batch else super().hung())

    def status(self) -> dict[str, Any]:
        """What's wholly delivered, and of each table how far its mirror is and why it stopped.

        `late`: the tables that wait for their mirrors to begin anew. `freshness_seconds`: the age of the oldest change
        of the last batch when it could be read in the lake. `beside`: what goes on beside the batches.
        """
        background = self._background
        work = None if background is None else background.work
        return {
            "lake": self._settings.path,
            "segment": self._segment,
            "position": self._position,
            "freshness_seconds": self._freshness,
            "late": sorted(map(str, self._late)),
            "beside": None if work is None else {"work": work.name, "table": str(work.table)},
            "tables": {
                str(table): {
                    "mirror": state_of(self._mirrors[table]) if table in self._mirrors else None,
                    **(background.status(table) if background is not None else {}),
                    "stopped": delivered.stopped,
                }
                for table, delivered in self._delivered.items()
            },
        }

    def not_ready(self) -> str | None:
        """Not before Spark is up."""
        return None if self._spark is not None else "Spark isn't up yet"

    async def _open(self) -> None:
        """Start Spark, find out where the lake is, and deliver what it lacks."""
        await self._in_thread(self._join)
        self._spark = await self._in_thread(self._start)
        self._pulse.begin(partial(self._asked, self._spark.progress))
        self.metrics.set(catalogue.SPARK_UP, 1)
        session, lake = self._spark.session, self._settings
        self._lake = Lake(session, lake.path, self._journal, lake.rules, lake.catalog)
        self._background = Background(lake, self.metrics, self._lake, partial(self._call, Pool.BESIDE))
        last = await self._in_thread(self._journal.last_segment)
        if last == 0:
            return
        entry = await self._in_thread(self._journal.entry, last)
        await all_end(self._find, list(entry.checkpoint.schemas))
        self._count_stopped()
        self._said = said_by(self._delivered.values())
        self._whole = max(0, await self._in_thread(self._has, self._said))
        self._segment = await self._in_thread(self._came, self._whole)
        self.metrics.set(catalogue.DELIVERED_SEGMENT, self._segment)
        if self._segment > self._whole:
            await self._come_late(entry)
        elif self._segment >= await self._in_thread(self._journal.consumers.first):
            at = (await self._in_thread(self._journal.entry, self._segment)).checkpoint
            self._position, self._mirrors = str(at.position), at.mirrors
            self._bare = tiers.bare(self._delivered, at.mirrors, self._settings.rules)
            self._bare_since = at.scn
            if bare := sorted(map(str, self._bare)):
                log.warning("tables have no mirror in the lake: their mirrors begin anew", tables=bare)
            await self._ask(entry.checkpoint)
        await self._deliver_through(last)

    def _join(self) -> None:
        """Be known as a consumer, so that nothing goes while Spark starts, however long that takes."""
        consumers = self._journal.consumers
        if CONSUMER not in consumers.all():
            consumers.tell(CONSUMER, consumers.first() - 1)

    def _has(self, said: int) -> int:
        """The segment through which the lake has everything, if its tables say that they have it through `said`.

        What's behind that had nothing for them, as far as we told the journal of the very same tables.
        """
        told = self._journal.consumers.all()[CONSUMER]
        return said if told.said is None or told.said > said else max(said, told.segment)

    def _came(self, segment: int) -> int:
        """Tell where we are; where we have to go on: there, or at the journal's beginning."""
        consumers = self._journal.consumers
        consumers.tell(CONSUMER, segment, self._said)
        while (first := consumers.first()) > segment + 1:
            segment = first - 1
            consumers.tell(CONSUMER, segment)
        return segment

    async def _come_late(self, last: Entry) -> None:
        """Segments that the lake lacks have gone: find out which tables lack something, and ask for it."""
        first = await self._in_thread(self._journal.entry, self._segment + 1)
        self._beginning = first.first_scn - 1
        self._late = frozenset(
            table
            for table in first.checkpoint.schemas
            if self._delivered.get(table, Delivered()).changes < self._segment
        )
        log.warning(
            "the lake comes late: its tables begin anew, and their changelogs lack what has gone",
            journal_begins_at=self._segment + 1,
            tables=sorted(map(str, self._late)),
        )
        await self._ask(last.checkpoint)

    async def _ask(self, checkpoint: Checkpoint) -> None:
        late = incomplete(self._late, checkpoint, self._beginning)
        if lacked := {**incomplete(self._bare, checkpoint, self._bare_since), **late}:
            await self.send(self._coordinator, MirrorsLacked(lacked))

    async def _deliver_through(self, segment: int) -> None:
        while self._segment < segment:
            batch, self._late = await self._in_thread(self._read_batch, segment)
            began = time.monotonic()
            await all_end(
                self._find, [table for table in self._wanted(batch) if table not in self._delivered]
            )
            await all_end(partial(self._deliver, batch), self._wanted(batch))
            self._segment = batch.through
            self._position = str(batch.checkpoint.position)
            self._mirrors = batch.checkpoint.mirrors
            self._tell(batch, time.monotonic() - began)
            said = None if self._late else self._said
            await self._in_thread(self._journal.consumers.tell, CONSUMER, self._segment, said)
            await self._ask(batch.checkpoint)
            self.beat()
            self._see_to_tables()

    def _wanted(self, batch: Batch) -> list[TableId]:
        """The tables that have something in the batch, and those whose mirror is to be made, or begun anew."""
        begun = [t for t in batch.generations if batch.newly_begun(t, self._delivered.get(t, Delivered()))]
        wanted = dict.fromkeys([*batch.tables, *begun, *batch.alterations])
        return [table for table in wanted if table not in self._late]

    async def _find(self, table: TableId) -> None:
        assert self._lake is not None
        assert self._background is not None
        found = await self._in_thread(self._lake.find, table)
        tiers.check(found, table, rule_of(self._settings.rules, table))
        of = Tier if found.schema is not None else ()
        sizes = {tier: await self._in_thread(self._lake.upkeep.size, table, tier) for tier in of}
        self._background.found(table, found, sizes)
        self._delivered[table] = found
        self.metrics.set(catalogue.TABLE_STOPPED, found.stopped is not None, table=str(table), part="lake")

    async def _deliver(self, batch: Batch, table: TableId) -> None:
        """Bring one table to the end of the batch."""
        assert self._lake is not None
        assert self._background is not None
        before = self._delivered[table]
        if before.stopped is not None:
            return
        pieces = missing(before, batch.tables.get(table, Pieces()))
        after = await self._in_thread(self._lake.deliver, table, before, batch)
        self._delivered[table] = after
        if pieces.changes or pieces.rows:
            self._said = batch.after
        if after.stopped is not None:
            self.metrics.set(catalogue.TABLE_STOPPED, 1, table=str(table), part="lake")
            log.error("the table was stopped", table=str(table), part="lake", reason=after.stopped)
            return
        for tier, files in ((Tier.CHANGELOG, pieces.changes), (Tier.MIRROR, pieces.rows)):
            rows, size = sum(piece.rows for piece in files), sum(piece.bytes for piece in files)
            self.metrics.count(catalogue.DELIVERED, rows, table=str(table), tier=tier.value)
            self.metrics.count(catalogue.DELIVERED_FILES, len(files), tier=tier.value)
            self.metrics.count(catalogue.DELIVERED_BYTES, size, tier=tier.value)
        self._background.delivered(table, after, pieces)

    def _count_stopped(self) -> None:
        stopped = sum(delivered.stopped is not None for delivered in self._delivered.values())
        self.metrics.set(catalogue.STOPPED_TABLES, stopped, part="lake")

    def _tell(self, batch: Batch, seconds: float) -> None:
        now = time.time()
        self._count_stopped()
        if batch.newest is not None:
            self.metrics.set(catalogue.DELIVERED_COMMIT, batch.newest / 1e6)
        if batch.commit_times:
            self._freshness = round(now - min(batch.commit_times) / 1e6, 3)
        for committed in batch.commit_times:
            self.metrics.observe(catalogue.FRESHNESS, max(0.0, now - committed / 1e6))
        self.metrics.observe(catalogue.SPARK_BATCH, seconds)
        self.metrics.set(catalogue.DELIVERED_SEGMENT, batch.through)

    async def _next(self, background: Background) -> None:
        """Wait for a message, for what goes on beside the batches, or for the moment at which something is due."""
        work = background.work
        awaited: set[asyncio.Task[Any]] = {work.task} if work is not None else set()
        if self._taking is not None:
            awaited.add(self._taking)
        if self._pulse.task is not None:
            awaited.add(self._pulse.task)
        timeout = None if work is not None else background.time_left(self._mirrors)
        done, _ = await asyncio.wait(awaited, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        if self._pulse.task in done:
            self._pulse.task.result()  # raises what it found
        if work is not None and work is background.work and work.task in done:
            background.ended()
        if self._taking is not None and self._taking in done:
            await self.taken(self._taking)

    def _see_to_tables(self) -> None:
        """Begin what is due beside the batches; nothing at the end."""
        if self._background is not None and self._taking is not None:
            self._background.begin_if_due(self._mirrors, self._segment, self._position)

    async def _in_thread(
        self, function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Result:
        """Call what blocks; what comes behind it is another piece of work."""
        result = await self._call(Pool.BATCHES, function, *args, **kwargs)
        if self._busy_since is not None:
            self.beat()
        return result

    async def _call(
        self,
        pool: Pool,
        function: Callable[Arguments, Result],
        *args: Arguments.args,
        **kwargs: Arguments.kwargs,
    ) -> Result:
        with self._pulse.call(pool):
            asked = partial(self._asked, function, *args, **kwargs)
            return await asyncio.get_running_loop().run_in_executor(self._threads, asked)

    def _asked(
        self, function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Result:
        """Raises Transient where Spark has gone, or another writer was faster, and SparkFailed otherwise.

        An error of the JVM's asks it for its words, so none may outlive it: who told of one would fail himself.
        """
        try:
            return function(*args, **kwargs)
        except (Py4JError, PySparkException, ConnectionError) as error:
            if self._spark is not None and (lost := self._spark.lost(error)):
                raise Transient(lost) from None
            if is_conflict(error):
                raise Conflict("another writer committed to a lake table meanwhile") from None
            raise SparkFailed(str(error)).with_traceback(error.__traceback__) from None

    def _start(self) -> Running:
        return spark_session.run(self._spark_settings, self._journal.local_folder / "spark")

    def _stop(self) -> None:
        assert self._spark is not None
        self._spark.stop()

    def _end(self) -> None:
        if self._spark is not None:
            self._spark.kill()
        self._threads.shutdown()

    def _read_batch(self, through: int) -> tuple[Batch, frozenset[TableId]]:
        """The next batch, and the tables that it leaves out; it ends where one of these can be taken again."""
        entries = self._journal.entries(self._segment, through)
        first = next(entries)
        late = frozenset(self._incomplete(first))
        same = takewhile(lambda entry: frozenset(self._incomplete(entry)) == late, entries)
        batch = next_batch(chain([first], same))
        # As long as a table is left out, a restart has to find that again.
        batch = tiers.ruled(batch, self._settings.rules, self._bare, self._bare_since)
        return replace(batch, after=self._whole) if late else batch, late

    def _incomplete(self, entry: Entry) -> dict[TableId, int]:
        return incomplete(self._late, entry.checkpoint, self._beginning)
