"""The ChunkSelector: plans tables and reads chunks between their watermarks, several at once.

A chunk is read in three steps on one connection, each in its own transaction (pipeline/snapshot/watermark.py says why
these three, and in this order). `low` is what is visible, which has to contain the stream's position at the chunk's
order. `select` is one consistent read. `high` is the end of the log.

Every order is a task of the actor's own task group and has exactly one answer. After a passing failure (a lost
connection, a lock, a timeout) the chunk is tried again from `low`, with a pause that doubles. A permanent failure, or
too many tries, is the answer. A source that isn't ready (`SourceUnready`) is no failed try: the order waits for it, and
the coordinator orders nothing else meanwhile. Rows that are read by their keys don't wait so: their window keeps every
change of them, however often one row changes. If the coordinator will order them again, the actor looks for the
source's watermarks instead. If it finds none, as of a replica that is down, the coordinator orders nothing until it
does. Each retry has half as many rows,
in case the chunk takes the server too long. Any other error is the actor's own failure and ends it.

A table without a primary key is read in one transaction of its own (`actors.snapshot.scan_transaction`). If that fails,
the coordinator opens another one.

All of it comes from the server of the stream, to whose log `low` and `high` belong. If its address permanently leads to
another one, as after a failover, the actor ends: capture begins again there.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from time import monotonic
from typing import Any, Final, TypeVar, assert_never

import pyarrow as pa
import structlog

from actors.runtime.actor import Actor, Sender
from actors.runtime.mailbox import Mailbox
from actors.runtime.measuring import contain_errors
from actors.runtime.metrics import Metrics
from actors.runtime.retry import random_pause_s, retry
from actors.snapshot import table_plan
from actors.snapshot.connection_pool import SourcePool
from actors.snapshot.consistent_reads import ConsistentReads, MomentSearch
from actors.snapshot.load_watch import SourceWatch
from actors.snapshot.replica_watermarks import ReplicaWatermarks
from actors.snapshot.scan_transaction import TableScan, scan_transaction
from actors.source.connection import QueryResult, Source
from actors.source.errors import AccessDenied, AnotherServer, SourceUnready, StatementOutdated, TableGone
from actors.source.gtid_history import VISIBLE_WITHIN_S, wait_until_visible
from actors.source.watermark_table import SignalTable
from pipeline import metrics as catalogue
from pipeline.config.settings import ServerSettings, SourceSettings
from pipeline.errors import Backoff, Definite, InvariantBroken, Transient, worst_error
from pipeline.gtid.gtid_set import GtidSet
from pipeline.messages import chunks, topology
from pipeline.messages.inboxes import ToChunkSelector, ToWatermarkCoordinator
from pipeline.schema.row_keys import Key
from pipeline.schema.table_schema import TableId, TableSchema
from pipeline.snapshot import chunk_queries, key_literals
from pipeline.snapshot.chunk_index import ChunkIndex
from pipeline.snapshot.watermark import High
from pipeline.source import information_schema, result_set
from pipeline.source.result_columns import mismatch
from pipeline.source.throttle import SourceLimits

log = structlog.get_logger()

# Together half a minute at least, in which a server or a replica that was restarted is back.
TRIES: Final = 12
SELECT_BACKOFF: Final = Backoff(0.1, 10.0)

# Of rows that are ordered again anyway, at once if nothing else waits. Others wait meanwhile, perhaps for a lock that
# concerns one table.
FEW_TRIES: Final = 3
FEW_BACKOFF: Final = Backoff(1.0, 10.0)

# In place of VISIBLE_WITHIN_S for a replica, which may lag far; meanwhile most_replica_lag_s prevents orders of chunks.
REPLICATED_WITHIN_S: Final = 600.0

# A chunk with so many bytes of packets takes no more rows, so that large rows don't take the memory.
LARGEST_CHUNK: Final = 64 << 20

# The fewest rows of a range, by the server's estimate: a few chunks, so that the division pays.
LEAST_ROWS_OF_RANGE: Final = 100_000

_Answer = TypeVar("_Answer")

# Rows, the key that a chunk ends at if there may be more of it, and the bytes of the packets.
Selected = tuple[pa.RecordBatch, Key | None, int]


class SnapshotLost(Transient):
    """A transaction of a consistent snapshot was lost. No other can continue its reads, so capture begins again."""


class ChunkSelector(Actor[ToChunkSelector]):
    """Answers PlanTable, ReadChunk and ReadScan; more chunks than `connections` wait for one to be free.

    `server`: the one that the stream comes from, by what it calls itself.
    """

    name = topology.ActorName.CHUNK_SELECTOR

    def __init__(
        self,
        mailbox: Mailbox[ToChunkSelector],
        metrics: Metrics,
        source: SourceSettings,
        connections: int,
        coordinator: Sender[ToWatermarkCoordinator],
        markers: SignalTable | None,
        allow_lock: bool,
        bounds: SourceLimits,
        elsewhere: ServerSettings | None,
        server: str | None,
    ) -> None:
        super().__init__(mailbox, metrics)
        self._opening = MomentSearch(source, connections, allow_lock, server)
        self._opens: asyncio.Task[None] | None = None
        self._scanning = partial(scan_transaction, source, server, markers)
        self._scan: TableScan | None = None
        self._scans: asyncio.Task[None] | None = None
        self._consistent: ConsistentReads | None = None
        self._coordinator = coordinator
        self._markers = markers
        self._replica = ReplicaWatermarks(elsewhere, source, server) if elsewhere else None
        self._pool = SourcePool(elsewhere or source, connections, None if elsewhere else server)
        self._watch = SourceWatch(elsewhere or source, bounds)
        # Errors with which capture can't continue. If a replica for chunks refuses a password, only its chunks fail.
        self._endings = (SnapshotLost, AnotherServer, *(() if elsewhere else (AccessDenied,)))
        self._orders: asyncio.TaskGroup

    async def run(self) -> None:
        """Take orders until the mailbox is closed and empty, and answer those that are under way."""
        try:
            async with asyncio.TaskGroup() as self._orders:
                watching = self._orders.create_task(self._watch.run(self._coordinator.put))
                await super().run()
                watching.cancel()
                self._close_scan()
                if self._opens is not None:  # a source that is never quiet would keep it for ever
                    self._opens.cancel()
        except BaseExceptionGroup as failures:
            raise worst_error(failures.exceptions) from failures
        finally:
            self._close()
            self._pool.close()

    async def handle(self, message: ToChunkSelector) -> None:
        """Begins a task that carries the order out, or ends what is open for it."""
        match message:
            case chunks.PlanTable():
                self._watch.ordered()
                self._orders.create_task(self._plan(message))
            case chunks.ReadChunk():
                self._watch.ordered()
                self._orders.create_task(self._read(message))
            case chunks.ReselectRows() | chunks.RepairRows():
                self._watch.ordered()
                self._orders.create_task(self._read_again(message))
            case chunks.OpenTransactions():
                self._opens = self._orders.create_task(self._open(message))
            case chunks.CloseTransactions():
                self._close()
            case chunks.OpenScan():
                self._close_scan()
                self._scan = TableScan(message)
                self._scans = self._orders.create_task(self._scan_table(self._scan))
            case chunks.ReadScan():
                if self._scan is None:
                    raise InvariantBroken(f"rows of {message.chunk.table} are ordered in no scan")
                self._watch.ordered()
                self._scan.reads.put_nowait(message)
            case chunks.CloseScan():
                self._close_scan()
            case _:
                assert_never(message)

    def status(self) -> dict[str, Any]:
        """What snapshots wait for, as a moment for a consistent one or the end of a scan; and the source's load."""
        waits = self._opening.status() if self._opens and not self._opens.done() else None
        if waits is None and self._scan and self._scans and not self._scans.done():
            waits = self._scan.status()
        return {"waits": waits, "source": self._watch.status()}

    async def _open(self, order: chunks.OpenTransactions) -> None:
        """Open the transactions of a consistent snapshot, in which all is read until they're closed."""
        opened = self._consistent = await self._opening.open(order.failed)
        await self._coordinator.put(chunks.TransactionsOpened(order.number, opened.at, opened.visible))

    def _close(self) -> None:
        if self._opens is not None:
            self._opens.cancel()
        if self._consistent is not None:
            self._consistent.close()
        self._opens = self._consistent = None

    def _close_scan(self) -> None:
        """Ends the scan's transaction. Rows that were ordered in it don't come any more."""
        if self._scans is not None:
            self._scans.cancel()
        while self._scan is not None and not self._scan.reads.empty():
            self._scan.reads.get_nowait()
            self._watch.carried_out(0)
        self._scan = self._scans = None

    async def _scan_table(self, scan: TableScan) -> None:
        """Opens the transaction of a scan, and reads in it as ordered, until all rows have come."""
        order = scan.order
        try:
            async with self._scanning(order) as (source, opened):
                await self._coordinator.put(opened)
                await self._read_scan(source, scan)
        except self._endings:
            raise
        except (Transient, StatementOutdated, Definite) as failure:
            again = isinstance(failure, Transient | StatementOutdated)
            log.info("the scan failed", table=str(order.table), again=again, error=str(failure))
            await self._coordinator.put(chunks.ScanFailed(order.number, str(failure), again))

    async def _read_scan(self, source: Source, scan: TableScan) -> None:
        read = await scan.reads.get()
        scan.rows = 0
        none = pa.RecordBatch.from_pylist([], read.schema.arrow)
        async with source.select(chunk_queries.select_all(read.schema)) as result:
            last = False
            while not last:
                rows = none
                try:
                    if found := await self._next(result, read.schema):
                        rows = found[0]
                finally:
                    self._watch.carried_out(rows.num_rows, read.rows_per_s)
                last = found is None
                scan.rows += len(rows)
                await self._coordinator.put(chunks.ScanRead(read.chunk, read.number, rows, last))
                if not last:
                    read = await scan.reads.get()

    async def _plan(self, order: chunks.PlanTable) -> None:
        async def planned(source: Source) -> chunks.TablePlanned:
            return await self._plan_on(source, order)

        try:
            answer: chunks.TablePlanned | chunks.PlanFailed = await self._work_on_connection(
                planned, str(order.table)
            )
        except self._endings:
            raise
        except (Transient, Definite) as failure:
            answer = chunks.PlanFailed(order.table, str(failure), isinstance(failure, TableGone))
        await self._answer(answer)

    async def _read(self, order: chunks.ReadChunk) -> None:
        limit, in_transaction = order.limit, self._consistent is not None

        async def chunk(source: Source) -> chunks.ChunkRead:
            nonlocal limit
            smaller = replace(order, limit=limit)
            try:
                return await self._between_watermarks(
                    source, smaller, lambda source: self.select(source, smaller)
                )
            except SourceUnready:
                raise
            except Transient:
                limit = max(1, limit // 2)  # the next try has less to do
                raise

        what = str(order.chunk)
        high = partial(self._work_with_retries, partial(self.high, order=order), what)
        read = partial(self._work_on_connection, chunk, what)
        answer = await self._carry_out(order, read, None if in_transaction else high)
        await self._answer(answer, order.request.rows_per_s)

    async def _read_again(self, order: chunks.ReadByKeys) -> None:
        """Reads rows by their keys.

        The stream needs those of `ReselectRows`, so the coordinator orders them again if they don't come for now.
        """
        again = isinstance(order, chunks.ReselectRows)
        tries, backoff = (FEW_TRIES, FEW_BACKOFF) if again else (TRIES, SELECT_BACKOFF)
        rows = partial(self._between_watermarks, order=order, select=partial(self._select_by_keys, order))
        what = str(order.chunk)
        high = partial(
            self._work_with_retries, partial(self.high, order=order), what, tries, backoff, waits=False
        )
        read = partial(self._work_with_retries, rows, what, tries, backoff, waits=False)
        await self._answer(await self._carry_out(order, read, high, again=again))

    async def _carry_out(
        self,
        order: chunks.ReadChunk | chunks.ReadByKeys,
        read: Callable[[], Awaitable[chunks.ChunkRead]],
        high: Callable[[], Awaitable[High]] | None,
        *,
        again: bool = False,
    ) -> chunks.ChunkRead | chunks.ChunkSchemaChanged | chunks.ChunkFailed:
        """Returns the answer to an order. What outdates the chunk is in the log before `high`; None in a consistent
        snapshot.

        `again`: as of ChunkFailed, after a failure that passes. If the source gives no watermarks, nothing is ordered
        until it does.
        """
        try:
            try:
                return await read()
            except StatementOutdated as outdated:
                log.info("the table was altered", order=str(order.chunk), reason=str(outdated))
                upto = None if high is None else await high()
                return chunks.ChunkSchemaChanged(order.chunk, str(outdated), upto)
        except self._endings:
            raise
        except (Transient, Definite) as failure:
            again = again and isinstance(failure, Transient)
            if again:
                if isinstance(failure, SourceUnready):
                    self._watch.waits(str(order.chunk), str(failure))
                self._orders.create_task(self._find_ready(order))
            return chunks.ChunkFailed(order.chunk, str(failure), again)

    async def _find_ready(self, order: chunks.ReadChunk | chunks.ReadByKeys) -> None:
        """Looks for the watermarks of a failed order, and reports the source as not ready until it has them.

        A lock on the order's table doesn't keep them away, and a server that is down does.
        """

        async def watermarks(source: Source) -> None:
            await self.low(source, order)
            await self.high(source, order)

        what, looks = str(order.chunk), 0
        try:
            while True:
                try:
                    await self._work_when_ready(watermarks, what, waits=True)
                    break
                except self._endings:
                    raise
                except Transient as failure:
                    if self.mailbox.closed:
                        break
                    self._watch.waits(what, str(failure))
                    looks += 1
                    pause_s = random_pause_s(SELECT_BACKOFF, looks)
                    log.info("retrying", order=what, pause_s=round(pause_s, 3), error=str(failure))
                    await asyncio.sleep(pause_s)
        except Definite as failure:  # which the next order meets, and answers
            log.info("retrying", order=what, pause_s=0.0, error=str(failure))
        finally:
            self._watch.waits(what, None)

    async def _answer(
        self,
        answer: (
            chunks.TablePlanned
            | chunks.PlanFailed
            | chunks.ChunkRead
            | chunks.ChunkSchemaChanged
            | chunks.ChunkFailed
        ),
        rows_per_s: int = 0,
    ) -> None:
        """Sends the answer to an order, and takes note that the order is done; `rows_per_s`: see `carried_out`."""
        rows = answer.rows.num_rows if isinstance(answer, chunks.ChunkRead) else 0
        self._watch.carried_out(rows, rows_per_s)
        await self._coordinator.put(answer)

    async def _work_on_connection(self, work: Callable[[Source], Awaitable[_Answer]], what: str) -> _Answer:
        """Returns the result of the work: in the consistent snapshot's transaction, or on any connection with retries.

        Raises Definite, or the last try's Transient.
        """
        if self._consistent is not None:
            return await self._work_in_transaction(work, self._consistent)
        return await self._work_with_retries(work, what)

    async def _work_with_retries(
        self,
        work: Callable[[Source], Awaitable[_Answer]],
        what: str,
        tries: int | None = None,
        backoff: Backoff | None = None,
        *,
        waits: bool = True,
    ) -> _Answer:
        """Returns the result of the work; `waits`: for as long as the source isn't ready, which is no failed try."""

        def failed(failure: Transient, pause_s: float) -> None:
            log.info("retrying", order=what, pause_s=round(pause_s, 3), error=str(failure))
            if not isinstance(failure, SourceUnready):
                self._watch.waits(what, None)

        once = partial(self._work_when_ready, work, what, waits=waits)
        try:
            return await retry(once, backoff or SELECT_BACKOFF, tries or TRIES, failed)
        finally:
            self._watch.waits(what, None)

    async def _work_when_ready(
        self, work: Callable[[Source], Awaitable[_Answer]], what: str, *, waits: bool
    ) -> _Answer:
        """Returns the result of the work on a connection, once the source is ready for it.

        Raises SourceUnready if the order doesn't wait for that, or if the actor is to end by then.
        """
        looks = 0
        while True:
            async with self._pool.connection() as source:
                try:
                    return await work(source)
                except SourceUnready as unready:
                    self._watch.waits(what, str(unready))
                    source.close()  # its address may lead to another server by now
                    if not waits or self.mailbox.closed:
                        raise
            looks += 1
            await asyncio.sleep(random_pause_s(SELECT_BACKOFF, looks))

    async def _work_in_transaction(
        self, work: Callable[[Source], Awaitable[_Answer]], reads: ConsistentReads
    ) -> _Answer:
        """Returns the result of the work in a transaction of a consistent snapshot. A lost transaction can't be opened
        again.
        """
        try:
            async with reads.connection() as source:
                return await work(source)
        except Transient as failure:
            if self._consistent is not reads:  # it was closed meanwhile, so no actor waits for the answer
                raise
            raise SnapshotLost(str(failure)) from failure

    async def _plan_on(self, source: Source, order: chunks.PlanTable) -> chunks.TablePlanned:
        # What the stream has passed must be seen here: a table, which a replica may not have yet, and each of its keys,
        # which must not be beyond the end because a SELECT doesn't see it yet.
        await self.low(source, order)
        schema, walk = await table_plan.find_table(source, order.table, order.request)
        try:
            return await self._plan_with_schema(source, order, schema, walk)
        except StatementOutdated as outdated:
            if self._consistent is not None and source in self._consistent:  # where the table stays as it was
                raise
            raise Transient(f"{order.table} is being altered: {outdated}") from outdated

    async def _plan_with_schema(
        self, source: Source, order: chunks.PlanTable, schema: TableSchema, walk: ChunkIndex
    ) -> chunks.TablePlanned:
        """Plans a table of this schema. Raises StatementOutdated if it has been altered meanwhile."""
        if not order.ranges:
            # As a query for its keys does: then the log has what made the table so (`Source.unlogged`).
            await source.ask(information_schema.show_create_table(order.table))
            return chunks.TablePlanned(schema, walk, chunks.NotDivided(), await self.high(source, order))
        end = await table_plan.requested_key(source, schema, walk, chunk_queries.last_key(schema, walk))
        high = await self.high(source, order)
        if end is None:
            return chunks.TablePlanned(schema, walk, chunks.WithoutRows(), high)
        rows = len(order.request.keys) or await source.estimate(order.table)
        asked = replace(walk, roundings=await table_plan.ask_roundings(source, schema, walk))
        splits = await table_plan.find_ranges(
            source, schema, asked, end, rows, order.ranges, LEAST_ROWS_OF_RANGE
        )
        return chunks.TablePlanned(schema, walk, chunks.TableRanges(end, splits, rows), high)

    async def _between_watermarks(
        self,
        source: Source,
        order: chunks.ReadChunk | chunks.ReadByKeys,
        select: Callable[[Source], Awaitable[Selected]],
    ) -> chunks.ChunkRead:
        """Returns the result of a SELECT, between the low watermark and the high one."""
        started = monotonic()
        low = await self.low(source, order)
        low_read = monotonic()
        rows, upto, size = await select(source)
        selected = monotonic()
        high = await self.high(source, order)
        self.metrics.chunk_read(started, low_read, selected)
        scanned = len(rows)
        if isinstance(order, chunks.ReadChunk) and order.request.condition is not None:
            scanned = order.limit
        took = round((selected - low_read) * 1e6)
        return chunks.ChunkRead(order.chunk, low, rows, upto, high, took, size, scanned)

    async def low(
        self, source: Source, order: chunks.PlanTable | chunks.ReadChunk | chunks.ReadByKeys
    ) -> GtidSet:
        """Returns the low watermark: what is visible, as soon as it's usable, or what lies before a marker.

        Raises Transient if it isn't usable for too long.
        """
        if self._consistent is not None and source in self._consistent:
            return self._consistent.visible
        if self._markers is not None:
            await self._markers.open(source, _marked_order(order))
            return order.ordered_at
        if self._replica is not None and not self._replica.is_streams(source):
            return await wait_until_visible(source, order.ordered_at, REPLICATED_WITHIN_S, self._replica.low)
        return await wait_until_visible(source, order.ordered_at, VISIBLE_WITHIN_S)

    async def select(self, source: Source, order: chunks.ReadChunk) -> Selected:
        """Returns the chunk's rows, the key at its end if there may be more, and the bytes of its packets.

        A chunk that has grown to `LARGEST_CHUNK` ends there, as if its order had requested no more rows.
        """
        schema, end, limit = order.schema, order.end, order.limit
        roundings = await table_plan.ask_roundings(source, schema, order.walk)
        walk = replace(order.walk, roundings=roundings)
        condition = table_plan.row_condition(schema, order.request, roundings)
        upto: Key | None = None
        if order.request.condition is not None:
            statement = chunk_queries.select_boundary(schema, walk, order.after, end, limit)
            upto = await table_plan.requested_key(source, schema, walk, statement)
            end = upto or end
        places = chunk_queries.key_places(schema, walk)
        batches: list[pa.RecordBatch] = []
        number = size = 0
        statement = chunk_queries.select_chunk(schema, walk, order.after, end, limit, condition)
        async with source.select(statement) as result:
            while size < LARGEST_CHUNK and (read := await self._next(result, schema)) is not None:
                batch, located = read
                batches.append(batch)
                number, size = number + batch.num_rows, size + located.size
                if number == limit or size >= LARGEST_CHUNK:
                    upto = result_set.row_key(located, batch.num_rows - 1, places)
        return await _join(schema, batches), upto, size

    async def _select_by_keys(self, order: chunks.ReadByKeys, source: Source) -> Selected:
        """The rows of the order's keys."""
        schema = order.schema
        roundings = await table_plan.ask_roundings(source, schema)
        keys = key_literals.bound_keys(schema, order.keys)
        batches: list[pa.RecordBatch] = []
        size = 0
        for statement in chunk_queries.select_by_keys(schema, keys, roundings):
            async with source.select(statement) as result:
                while (read := await self._next(result, schema)) is not None:
                    batches.append(read[0])
                    size += read[1].size
        return await _join(schema, batches), None, size

    async def _next(
        self, result: QueryResult, schema: TableSchema
    ) -> tuple[pa.RecordBatch, result_set.LocatedRows] | None:
        """Returns the next rows of a result. Raises StatementOutdated if they aren't of this schema."""
        if wrong := mismatch(schema, result.columns[: len(schema.columns)]):
            raise StatementOutdated(wrong)
        read = await next_rows(result, schema)
        if read is not None:
            self._measure_dates(schema, *read)
        return read

    @contain_errors
    def _measure_dates(
        self, schema: TableSchema, rows: pa.RecordBatch, located: result_set.LocatedRows
    ) -> None:
        """Count dates that are null for being impossible."""
        if impossible := result_set.impossible_dates(rows, located):
            table = str(schema.table)
            self.metrics.count(catalogue.IMPOSSIBLE_DATES, impossible, table=table, part="chunks")

    async def high(
        self, source: Source, order: chunks.PlanTable | chunks.ReadChunk | chunks.ReadByKeys
    ) -> High:
        """Returns the high watermark: the end of the log, a marker in it, or what a replica has executed."""
        if self._consistent is not None and source in self._consistent:
            return self._consistent.at
        if self._markers is not None:
            return await self._markers.close(source, _marked_order(order))
        if self._replica is not None and not self._replica.is_streams(source):
            return await self._replica.high(source, _table(order))
        coordinates, _ = await source.end_of_log()
        return coordinates


def _table(order: chunks.PlanTable | chunks.ReadChunk | chunks.ReadByKeys) -> TableId:
    """Returns the table that the order is about."""
    return order.table if isinstance(order, chunks.PlanTable) else order.chunk.table


def _marked_order(order: chunks.PlanTable | chunks.ReadChunk | chunks.ReadByKeys) -> str:
    """Returns what a marker row says of the order for which it is written."""
    return str(order.table if isinstance(order, chunks.PlanTable) else order.chunk)


async def _join(schema: TableSchema, batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if not batches:
        return pa.RecordBatch.from_pylist([], schema.arrow)
    return await asyncio.to_thread(pa.concat_batches, batches)


async def next_rows(
    result: QueryResult, schema: TableSchema
) -> tuple[pa.RecordBatch, result_set.LocatedRows] | None:
    """Returns the next rows of a result, and where their values lie; None after the last.

    It decodes the schema's columns, and not those after them. The work is done in a thread. What the server sends
    meanwhile waits in the socket's buffers, which hold more.
    """

    def batch(rows: result_set.ResultRows) -> tuple[pa.RecordBatch, result_set.LocatedRows]:
        located = rows.located(result.columns)
        return result_set.decode_rows(schema, located.first(len(schema.columns))), located

    rows = await result.rows()
    return None if rows is None else await asyncio.to_thread(batch, rows)
