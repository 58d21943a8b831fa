"""The SparkSink: brings the journal's segments into the lake, batch by batch, and maintains the lake's tables.

`pipeline.lake.step` decides what comes next. This actor performs it, in Spark and at the journal. The orders of one
step are one work of the actor's loop. Two kinds of orders are each a work of their own. One brings a batch to a table:
whoever waits for that table needn't wait for a slower one. The other is the work beside the batches
(`actors.lake.background_work`).

Spark's calls block and can't be interrupted, so this actor has threads for them. A clean end waits for the calls, but
not for long (`BREAKS_OFF_WITHIN_S`). Any other end kills the JVM, which frees the threads and ends everything that
Spark was doing. What Spark had committed counts, and the rest never happened.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, ParamSpec, TypeVar, assert_never

import structlog
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from actors.journal.consumers import Consumer
from actors.journal.store import JournalReader
from actors.lake.background_work import do_work
from actors.lake.delta.lake_table import is_conflict
from actors.lake.files.file_placement import LakeFull
from actors.lake.filesystem import absent_tables
from actors.lake.lake import Lake
from actors.lake.live_view import CatalogUndefined
from actors.lake.reports.lake_metrics import LakeMetrics
from actors.lake.reports.sink_status import lake_table_statuses, reason_and_remedy, verification_statuses
from actors.lake.spark import spark_session
from actors.lake.spark.spark_session import RunningSpark, SparkFailed, SparkLost
from actors.lake.table_commits import CopiedJournal, ForeignTable
from actors.lake.threads.scheduler_pools import Pool
from actors.lake.threads.stall_detector import StallDetector
from actors.runtime.actor import Actor, Sender
from actors.runtime.mailbox import Mailbox
from actors.runtime.measuring import contain_errors
from actors.runtime.metrics import Metrics
from actors.runtime.redaction import safe_message
from actors.runtime.tasks import all_end, broken_off
from pipeline import metrics as catalogue
from pipeline.config.settings import LakeSettings, SparkSettings
from pipeline.errors import Definite, Transient
from pipeline.journal.consumer_names import LAKE_CONSUMER
from pipeline.journal.missing_generations import LostScans
from pipeline.lake import step as spark_sink
from pipeline.lake.background.work import (
    BackgroundWork,
    CompleteMirror,
    MaintainTable,
    MergeMirror,
    VerifyRows,
)
from pipeline.lake.batch import LakeTableState
from pipeline.lake.consumer_progress import LakeConsumerProgress
from pipeline.lake.facts import (
    BatchRead,
    BeginningFound,
    CursorAnswer,
    CursorFound,
    Fact,
    FindingsUnread,
    GapFound,
    JournalFound,
    JournalFoundEmpty,
    LakeTimerFired,
    ProgressReported,
    SealingEnded,
    SparkStopped,
    StopRequested,
    TableDelivered,
    TableFailed,
    TablesFound,
    WorkDone,
    WorkFailed,
    WorkGivenUp,
)
from pipeline.lake.files.delta_commit import Conflict
from pipeline.lake.orders import (
    DeliverTable,
    FindCursor,
    FindEnd,
    FindTables,
    Order,
    ReadBatch,
    ReportGap,
    ReportKeptTypes,
    ReportLostChanges,
    ReportMissingMirrors,
    ReportProgress,
    RequestMirrors,
    RequestRepair,
    StopSpark,
)
from pipeline.lake.state import Idle, SinkEnded, State
from pipeline.lake.tables.maintenance import TableSize
from pipeline.lake.tables.tier import Tier
from pipeline.messages import topology
from pipeline.messages.inboxes import ToSparkSink
from pipeline.messages.journal import DifferencesReported, MirrorDataExpired, SegmentSealed
from pipeline.schema.table_filter import ALL_TABLES, TableFilter
from pipeline.schema.table_schema import TableId

log = structlog.get_logger()

# How many tables are delivered at the same time. They wait for the disk most of the time, which syncs many at once in
# hardly more time than one. One more thread is for the work beside them.
TABLES_DELIVERED_AT_ONCE: Final = 12

# How long (s) calls may take that are under way when a stop has lasted long enough.
BREAKS_OFF_WITHIN_S: Final = 2.0

# How long (s) Spark may take to end cleanly. Nothing is under way by then, so a kill leaves nothing behind.
SPARK_ENDS_WITHIN_S: Final = 3.0

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class _BrokenOff(SparkLost):
    """A call wasn't begun, because the sink ends Spark."""


@dataclass(frozen=True, slots=True)
class SparkUp:
    """What there is while Spark is up."""

    spark: RunningSpark
    lake: Lake


@dataclass(frozen=True, slots=True)
class _Found:
    """What the lake has of a table, and the sizes of its lake tables."""

    table: TableId
    found: LakeTableState
    sizes: dict[Tier, TableSize]


@dataclass(frozen=True, slots=True)
class SparkSinkPorts:
    """Where the sink's requests go."""

    mirrors: Sender[MirrorDataExpired]
    differences: Sender[DifferencesReported]


def register_lake(journal: JournalReader) -> None:
    """Registers the lake as a consumer of the journal, before any segment is sealed, so that its tables are compared
    with the journal's end (`actors.journal.consumers`)."""
    consumers = journal.consumers
    if LAKE_CONSUMER not in consumers.all():
        consumers.record_progress(LAKE_CONSUMER, consumers.first() - 1)


class SparkSink(Actor[ToSparkSink]):
    """Owns Spark and the lake's tables. It needs only the reading side of the journal."""

    name = topology.ActorName.SPARK_SINK

    def __init__(
        self,
        mailbox: Mailbox[ToSparkSink],
        metrics: Metrics,
        lake: LakeSettings,
        spark: SparkSettings,
        journal: JournalReader,
        ports: SparkSinkPorts,
        applied: Callable[[LakeConsumerProgress], None],
        captured: TableFilter = ALL_TABLES,
    ) -> None:
        super().__init__(mailbox, metrics)
        self._settings = lake
        self._spark_settings = spark
        self._journal = journal
        self._ports = ports
        self._applied = applied
        self._lake_metrics = LakeMetrics(metrics, captured)
        self._threads = ThreadPoolExecutor(TABLES_DELIVERED_AT_ONCE + 1, "spark")
        self._pulse = StallDetector()
        self._state = State(lake)
        self._up: SparkUp | None = None
        # The tables that the journal knows not to be compared with its end; None if it doesn't know that of any.
        self._unseen: Mapping[TableId, int] | None = None
        self._recording = asyncio.Lock()
        # The tables that the journal knows to have lost rows in the lake.
        self._lost: LostScans = {}
        self._closing: asyncio.Task[Any] | None = None
        self._breaks_off = False
        self._calls: set[asyncio.Future[Any]] = set()

    async def begin(self) -> None:
        """Starts Spark, finds out how far the lake is, and begins to deliver what it lacks."""
        self.beat()
        self._closing = self.begin_work(self._wait_closed(), self._take_in)
        self._lake_metrics.begin()
        known = await self._in_thread(self._join)
        self._state = replace(self._state, unchecked_end=known.unchecked_end, unseen=known.unseen)
        up = await self._in_thread(self._start)
        self._pulse.begin(partial(self._call_spark, up.spark.progress))
        self.begin_work(self._pulse.followed(), self._take_in)
        self.metrics.set(catalogue.SPARK_UP, 1)
        await self._take_in([await self._find_end()])

    def takes(self) -> bool:
        """Takes further segments only after it has delivered all earlier ones."""
        return isinstance(self._state.doing, Idle)

    def next_at(self) -> float | None:
        """Returns when a table is tried again, or work beside the batches is due."""
        return spark_sink.timer_at(self._state)

    async def time_came(self) -> None:
        """Does what is due."""
        await self._take_in([LakeTimerFired()])

    async def mailbox_closed(self) -> None:
        """Begins no more work beside the batches, and stops Spark when the present work has ended."""
        await self._take_in([SealingEnded()])

    def ended(self) -> bool:
        """Ends when Spark has stopped, and so everything is delivered."""
        return isinstance(self._state.doing, SinkEnded)

    async def handle(self, message: SegmentSealed) -> None:
        """Delivers everything through the segment."""
        await self._take_in([message])

    async def release(self) -> None:
        """Kills the JVM, so that its threads end, and waits for them."""
        if self._closing is not None:
            self._closing.cancel()
        await asyncio.to_thread(self._end)
        await self._pulse.end()
        self.metrics.set(catalogue.SPARK_UP, 0)
        for work in self._works:
            await broken_off(work)

    def hung(self) -> str | None:
        """Returns whether Spark hangs. A call may take long, as long as it advances."""
        return self._pulse.stuck() or (None if self._pulse.batch else super().hung())

    def status(self) -> dict[str, Any]:
        """Returns what is wholly delivered, and of each table how far its mirror is and why it stopped.

        `late`: the tables that wait for new generations of their mirrors. `freshness_seconds`: the age of the oldest
        change of the last batch when it could be read in the lake. `beside`: the work beside the batches.
        `verifications`: the result for each table of the known verifications, null for one that has none yet.
        """
        so_far, under_way = self._state.so_far, self._state.background.under_way
        work = None if under_way is None else under_way.work
        delivered = so_far.ahead or so_far
        views = None if self._up is None else self._up.lake.views
        return {
            "lake": self._settings.path,
            "segment": delivered.segment,
            "position": str(delivered.checkpoint.position),
            "freshness_seconds": self._lake_metrics.freshness,
            "late": sorted(map(str, so_far.late.tables)),
            "verifications": verification_statuses(self._state),
            "beside": None if work is None else {"work": work.kind, "table": str(work.table)},
            "tables": lake_table_statuses(self._state, {} if views is None else views.refused),
        }

    def not_ready(self) -> str | None:
        """Not ready before Spark is up."""
        return None if self._up is not None else "Spark isn't up yet"

    async def _wait_closed(self) -> list[Fact]:
        """Returns when the service stops, even if a batch is under way."""
        await self.mailbox.wait_closed()
        return [StopRequested(self.now())]

    async def _find_end(self) -> JournalFoundEmpty | JournalFound:
        last = await self._in_thread(self._journal.last_segment)
        if last == 0:
            return JournalFoundEmpty()
        entry = await self._in_thread(self._journal.entry, last)
        return JournalFound(entry.checkpoint, last)

    def _join(self) -> Consumer:
        """Registers as a consumer, so that the journal removes nothing while Spark starts, however long that takes.

        Returns what the journal knows of it.
        """
        register_lake(self._journal)
        return self._journal.consumers.all()[LAKE_CONSUMER]

    async def _take_in(self, facts: Iterable[Fact | None]) -> None:
        """Begins the orders that follow from facts that come together. Their own facts come later."""
        orders: list[Order] = []
        for fact in facts:
            if fact is not None:
                before = self._state
                self._state, following = spark_sink.step(before, fact, self.now())
                self._lake_metrics.record(fact, before, self._state)
                orders += following
        self._applied(LakeConsumerProgress(self._state))
        together: list[Order] = []
        for order in orders:
            if isinstance(order, DeliverTable | BackgroundWork):
                self.begin_work(all_end(self._performed, [order]), self._take_in)
            else:
                together.append(order)
        if together:
            self.begin_work(all_end(self._performed, together), self._take_in)
        if isinstance(self._state.doing, Idle):
            self._lake_metrics.count_stopped(self._state)
            self.rest()
        else:
            self.beat()

    async def _performed(self, order: Order) -> Fact | None:
        """Performs an order. Whatever it fails with, nothing but a line of the log follows once the sink breaks off."""
        try:
            return await self._perform(order)
        except Exception as error:
            if not self._breaks_off or isinstance(order, StopSpark):
                raise
            if not isinstance(error, SparkLost):  # the sink ends Spark itself
                log.warning("work in the lake failed while the sink stopped", reason=safe_message(error))
            return None

    async def _perform(self, order: Order) -> Fact | None:
        """Returns the fact that an order brings; None if it brings none."""
        assert self._up is not None
        match order:
            case FindEnd():
                return await self._find_end()
            case FindTables(tables):
                return await self._find_tables(self._up, tables)
            case FindCursor():
                return await self._in_thread(self._place, order)
            case ReadBatch(after, through):
                await self._record_unseen()
                if (lost := self._state.so_far.lost) != self._lost:  # a crash within the batch would hide it
                    await self._in_thread(self._journal.consumers.record_lost, LAKE_CONSUMER, lost)
                    self._lost = lost
                return await self._in_thread(self._read_batch, after, through)
            case DeliverTable():
                await self._record_unseen()  # the batch's own tables may have been found since it was read
                return await self._deliver(self._up, order)
            case ReportProgress(batch, reported, seconds, lost, brought):
                self._lake_metrics.measure_batch(batch, seconds, self._state)
                record = self._journal.consumers.record_progress
                await self._in_thread(record, LAKE_CONSUMER, batch.through, reported, lost, brought)
                self._lost = lost
                return ProgressReported()
            case CompleteMirror() | MergeMirror() | MaintainTable() | VerifyRows():
                return await self._do_work(self._up, order)
            case StopSpark(at_once, sealed):
                await self._end_spark(self._up.spark, cleanly=not at_once or await self._break_off(sealed))
                return SparkStopped()
            case RequestMirrors(generations):
                await self._ports.mirrors.put(MirrorDataExpired(generations))
            case RequestRepair():
                return await self._request_repair(self._up, order)
            case ReportGap() | ReportLostChanges() | ReportMissingMirrors() | ReportKeptTypes():
                _warn(order)
            case _:
                assert_never(order)
        return None

    async def _record_unseen(self) -> None:
        """Records which tables aren't compared with the journal's end yet, before the lake has anything that a crash
        would find ahead of it.
        """
        async with self._recording:  # tables are delivered at the same time
            if (unseen := self._state.still_unseen) != self._unseen:
                await self._in_thread(self._journal.consumers.checked, LAKE_CONSUMER, unseen)
                self._unseen = unseen

    async def _break_off(self, sealed: int) -> bool:
        """Begins no further call, and returns whether those under way have ended soon."""
        self._breaks_off = True
        segment = self._state.so_far.segment
        if segment < sealed:
            log.warning("the next start delivers the rest", segment=segment, sealed=sealed)
        if not self._calls:
            return True
        _, left = await asyncio.wait(self._calls, timeout=BREAKS_OFF_WITHIN_S)
        return not left

    async def _end_spark(self, spark: RunningSpark, *, cleanly: bool) -> None:
        """Ends Spark. One that does not end cleanly in time is killed. It may not even answer the pulse."""
        if cleanly:
            with suppress(TimeoutError):
                async with asyncio.timeout(SPARK_ENDS_WITHIN_S):
                    await self._pulse.end()
                    await asyncio.to_thread(spark.stop)
                    return
        # The pulse ends first: its question fails with Spark, and would count as a failure of the sink's.
        await asyncio.gather(self._pulse.end(), asyncio.to_thread(spark.kill))

    async def _request_repair(self, up: SparkUp, order: RequestRepair) -> FindingsUnread | None:
        """Reports the keys of what a verification has found, or why its repair has to end."""
        run, keys, last = order.run, None, True
        assert run.awaits is not None
        if order.found and not order.reason:
            try:
                keys, last = await self._in_thread(up.lake.verification.keys_to_repair, run)
            except Exception as error:  # noqa: BLE001 - whatever it is, it's this table's alone
                await self._raise_for_all(up, error)
                table, reason = str(run.table), safe_message(error)
                log.warning("what a verification found can't be read", id=run.run, table=table, reason=reason)
                return FindingsUnread(run, reason)
        report = DifferencesReported(run.run, run.table, run.awaits, keys, last, order.reason)
        await self._ports.differences.put(report)
        return None

    async def _find_tables(self, up: SparkUp, tables: tuple[TableId, ...]) -> TablesFound:
        """Reads what the lake has of these tables. At a start it may have nothing of most of them."""
        absent = await self._in_thread(absent_tables, self._settings.path, tables)
        found = dict.fromkeys(absent, LakeTableState())
        sizes: dict[tuple[TableId, Tier], TableSize] = {}
        failed: list[TableFailed] = []
        for answer in await all_end(partial(self._find, up), (t for t in tables if t not in absent)):
            if isinstance(answer, TableFailed):
                failed.append(answer)
            else:
                found[answer.table] = answer.found
                sizes |= {(answer.table, tier): size for tier, size in answer.sizes.items()}
        for table, each in found.items():
            stopped = each.stopped is not None
            self.metrics.set(catalogue.TABLE_STOPPED, stopped, table=str(table), part="lake")
        return TablesFound(found, sizes, tuple(failed))

    async def _find(self, up: SparkUp, table: TableId) -> _Found | TableFailed:
        try:
            return await self._in_thread(_find_in, up.lake, table)
        except Exception as error:  # noqa: BLE001 - whatever it is, it's this table's alone
            return await self._failed(up, table, error)

    def _place(self, lake: FindCursor) -> CursorAnswer:
        """Reports to the journal how far the lake is, and finds out what it lacks."""
        consumers = self._journal.consumers
        known = consumers.all()[LAKE_CONSUMER]
        told = known.segment, known.reported, known.brought
        segment = whole = spark_sink.complete_through(lake, *told)
        self._lost = lost = known.lost
        consumers.record_progress(LAKE_CONSUMER, segment, lake.reported, lost, lake.brought)
        while (first := consumers.first()) > segment + 1:
            segment = first - 1
            consumers.record_progress(LAKE_CONSUMER, segment, lost=lost)
        if segment > whole:
            return GapFound(whole, self._journal.entry(first), lost)
        if segment < first:
            return BeginningFound(whole, lost)
        return CursorFound(whole, self._journal.entry(whole).checkpoint, lost)

    def _read_batch(self, after: int, through: int) -> BatchRead:
        """Raises Transient if retention has removed what comes next: the next sink finds out what the lake lacks."""
        try:
            return spark_sink.next_batch_of(self._state, self._journal.entries(after, through))
        except Definite as error:
            if self._journal.consumers.first() <= after + 1:
                raise
            raise Transient(
                f"the journal removed segments after {after}, which the lake lacked: its consumer was forgotten"
            ) from error

    async def _raise_for_all(self, up: SparkUp, error: Exception) -> None:
        """Raises if Spark or the lake's store has failed, for all tables, or if a copy of the journal delivers too."""
        if isinstance(error, SparkLost | LakeFull | CatalogUndefined | CopiedJournal):
            raise error
        try:
            await self._in_thread(up.lake.probe)
        except _BrokenOff:
            return  # a stop asks nothing more of the lake: the failure counts as the table's
        except Definite:
            raise  # there can't be a lake at its path
        except Exception as down:  # noqa: BLE001 - whatever it is, all tables have it
            # The lake's folder may only be missing because it can't be made: then the first error says why.
            raise Transient(
                f"the lake can't be written: {safe_message(down)}; first a table failed: {safe_message(error)}; see to "
                "the disk or store of lake.path, and to this user's rights there"
            ) from error

    async def _failed(self, up: SparkUp, table: TableId, error: Exception) -> TableFailed:
        """Returns that the table alone has failed. Raises as `_raise_for_all` does."""
        await self._raise_for_all(up, error)
        return TableFailed(table, safe_message(error), foreign=isinstance(error, ForeignTable))

    async def _deliver(self, up: SparkUp, order: DeliverTable) -> TableDelivered | TableFailed:
        """Brings one table to the end of the batch."""
        table, pieces = order.table, order.pieces
        try:
            after = await self._in_thread(up.lake.deliver, table, order.before, order.batch)
        except Exception as error:  # noqa: BLE001 - whatever it is, it's this table's alone
            return await self._failed(up, table, error)
        self.metrics.set(catalogue.TABLE_STOPPED, after.stopped is not None, table=str(table), part="lake")
        if after.stopped is not None:
            reason = reason_and_remedy(self._state, table, after.stopped.reason, order.batch.checkpoint)
            log.error("the table was stopped", table=str(table), part="lake", reason=reason)
            return TableDelivered(table, after)
        self._lake_metrics.measure_delivered(str(table), pieces)
        return TableDelivered(table, after, pieces)

    async def _do_work(self, up: SparkUp, work: BackgroundWork) -> WorkDone | WorkGivenUp | WorkFailed:
        """Does the work beside the batches. Raises if Spark is gone."""
        began, table = self.now(), str(work.table)
        try:
            size, at, judgements, written = await self._call(Pool.BESIDE, do_work, up.lake, work)
        except Conflict as error:
            log.warning(
                "another writer committed first; retrying", work=work.kind, table=table, reason=str(error)
            )
            self.metrics.count(catalogue.CONFLICTS, kind=work.kind)
            return WorkGivenUp()
        except (SparkLost, CatalogUndefined):
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, it's this table's alone
            times = self._state.background.failed.get(work.due, 0) + 1
            reason = safe_message(error)
            log.error("work on a lake table failed", work=work.kind, table=table, times=times, reason=reason)
            self.metrics.count(catalogue.WORK_FAILED, kind=work.kind)
            return WorkFailed()
        self._lake_metrics.measure_work(work, self.now() - began, written)
        if isinstance(work, MaintainTable) and work.runs is not None:
            await self._trim_results(up, work, work.runs)
        return WorkDone(size, at, judgements)

    async def _trim_results(self, up: SparkUp, work: MaintainTable, runs: frozenset[str]) -> None:
        """Trims the tables of verifications. If they fail, the table's own TRIM doesn't. Raises if Spark is gone."""
        try:
            await self._call(Pool.BESIDE, up.lake.upkeep.trim_results, runs)
        except (SparkLost, CatalogUndefined):
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, it's these tables' alone
            log.error("the results of verifications can't be trimmed", reason=safe_message(error))
            self.metrics.count(catalogue.WORK_FAILED, kind=work.kind)

    async def _in_thread(
        self, function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Result:
        """Runs a blocking call in a thread."""
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
            asked = partial(self._call_unless_broken_off, function, *args, **kwargs)
            call = asyncio.get_running_loop().run_in_executor(self._threads, asked)
            self._calls.add(call)
            call.add_done_callback(self._calls.discard)
            return await call

    def _call_unless_broken_off(
        self, function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Result:
        if self._breaks_off:
            raise _BrokenOff("the sink ends Spark")
        return self._call_spark(function, *args, **kwargs)

    def _call_spark(
        self, function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Result:
        """Raises Transient if Spark is gone or another writer was faster, and SparkFailed otherwise.

        An error of the JVM asks the JVM for its text. So no such error leaves this function: logging it could fail.
        """
        try:
            return function(*args, **kwargs)
        except (Py4JError, PySparkException, ConnectionError) as error:
            if self._up is not None and (lost := self._up.spark.lost(error)):
                raise SparkLost(lost) from None
            if is_conflict(error):
                raise Conflict("another writer committed to a lake table meanwhile") from None
            raise SparkFailed(str(error)).with_traceback(error.__traceback__) from None

    def _start(self) -> SparkUp:
        lake, folder = self._settings, self._journal.local_folder / "spark"
        spark = spark_session.open_session(self._spark_settings, folder, self._journal.files)
        try:
            placed = partial(self._pulse.advanced, Pool.BATCHES)
            tables = Lake(
                spark.session, lake.path, self._journal, lake.rules, lake.catalog, lake.types, placed
            )
        except BaseException:
            spark.kill()
            raise
        self._up = up = SparkUp(spark, tables)
        return up

    def _end(self) -> None:
        self._kill()
        self._threads.shutdown()
        self._kill()  # it may have been about to start

    def _kill(self) -> None:
        if self._up is not None:
            self._up.spark.kill()


def _find_in(lake: Lake, table: TableId) -> _Found:
    found = lake.find(table)
    of = Tier if found.schema is not None else ()
    sizes = {tier: size for tier in of if (size := lake.upkeep.size(table, tier)) is not None}
    return _Found(table, found, sizes)


@contain_errors
def _warn(
    order: ReportGap | ReportLostChanges | ReportMissingMirrors | ReportKeptTypes,
) -> None:
    tables = sorted(map(str, order.tables))
    match order:
        case ReportGap(_, begins):
            log.warning(
                "the lake needs segments that the journal removed: its tables are read again",
                journal_begins_at=begins,
                tables=tables,
            )
        case ReportLostChanges(_, begins):
            log.warning(
                "changelogs lack the segments that the journal removed",
                journal_begins_at=begins,
                tables=tables,
            )
        case ReportMissingMirrors():
            log.warning("tables have no mirror in the lake: their mirrors are filled again", tables=tables)
        case ReportKeptTypes():
            log.warning("tables without a mirror keep the types that lake.types had before", tables=tables)
        case _:
            assert_never(order)
