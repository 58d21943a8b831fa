"""A ChunkSelector on a test's server, with the test in the place of its coordinator."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pyarrow as pa

from actors.chunk_selector import ChunkSelector
from actors.runtime.actor import Sender
from actors.runtime.mailbox import Mailbox
from actors.runtime.metrics import Metrics
from deploy.toolchain.mysql_server import MysqlServer
from pipeline.config.settings import ServerSettings, SourceSettings
from pipeline.gtid.gtid_set import GtidSet
from pipeline.messages.chunks import ChunkRead, PlanTable, ReadChunk, TablePlanned, TableRanges
from pipeline.messages.inboxes import ToChunkSelector, ToWatermarkCoordinator
from pipeline.messages.topology import EDGES, ActorName, inbox
from pipeline.schema.row_keys import Key
from pipeline.schema.table_schema import TableId
from pipeline.snapshot.snapshot import WHOLE_TABLE, ChunkId, Request
from pipeline.source.throttle import UNBOUNDED, SourceLimits
from tests.servers.source import settings

ORDERS = next(edge for edge in EDGES if edge.receiver is ActorName.CHUNK_SELECTOR)
ANSWERS = next(edge for edge in EDGES if edge.sender is ActorName.CHUNK_SELECTOR)


class Bench:
    """A selector with its mailbox and its coordinator's, whose place the test takes."""

    def __init__(
        self,
        source: SourceSettings,
        uuid: str,
        kind: type[ChunkSelector] = ChunkSelector,
        bounds: SourceLimits = UNBOUNDED,
        elsewhere: ServerSettings | None = None,
    ) -> None:
        self.orders: Mailbox[ToChunkSelector] = Mailbox(inbox(ActorName.CHUNK_SELECTOR))
        self.answers: Mailbox[ToWatermarkCoordinator] = Mailbox(inbox(ActorName.WATERMARK_COORDINATOR))
        coordinator = Sender(ANSWERS, self.answers)
        self.selector = kind(
            self.orders,
            Metrics(),
            source,
            2,
            coordinator,
            markers=None,
            allow_lock=False,
            bounds=bounds,
            elsewhere=elsewhere,
            server=uuid,
        )
        self.task = asyncio.create_task(self.selector.run())
        self._numbers = iter(range(1_000_000))

    async def order(self, order: ToChunkSelector) -> None:
        """Give an order."""
        await self.orders.put(ORDERS, order)

    async def answer(self) -> ToWatermarkCoordinator:
        """The next answer, or what ended the actor before."""
        answer = asyncio.create_task(self.answers.get())
        await asyncio.wait({answer, self.task}, return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            answer.cancel()
            await asyncio.wait({answer})
            self.task.result()
        return await answer

    async def plan(self, table: TableId, request: Request = WHOLE_TABLE, ranges: int = 1) -> TablePlanned:
        """The plan of a table that can be planned."""
        await self.order(PlanTable(table, request, ranges, GtidSet()))
        answer = await self.answer()
        assert isinstance(answer, TablePlanned), answer
        return answer

    def chunk(
        self, plan: TablePlanned, after: Key | None, end: Key, limit: int, request: Request = WHOLE_TABLE
    ) -> ReadChunk:
        """An order for a chunk, with a number of its own."""
        number = ChunkId("s", plan.schema.table, next(self._numbers))
        return ReadChunk(number, plan.schema, plan.walk, request, 0, after, end, limit, GtidSet())

    async def read(self, order: ReadChunk) -> ChunkRead:
        """The answer to an order that succeeds."""
        await self.order(order)
        answer = await self.answer()
        assert isinstance(answer, ChunkRead), answer
        assert answer.chunk == order.chunk
        return answer

    async def walk(
        self, plan: TablePlanned, limit: int, request: Request = WHOLE_TABLE
    ) -> list[pa.RecordBatch]:
        """The rows of the whole table, chunk after chunk."""
        end = divided(plan).end
        read: list[pa.RecordBatch] = []
        after: Key | None = None
        while True:
            chunk = await self.read(self.chunk(plan, after, end, limit, request))
            assert chunk.rows.num_rows <= limit
            read.append(chunk.rows)
            if chunk.upto is None:
                return read
            assert chunk.upto != after, "the walk stands still"
            after = chunk.upto


def divided(plan: TablePlanned) -> TableRanges:
    """The ranges of a table that has rows."""
    assert isinstance(plan.ranges, TableRanges)
    return plan.ranges


@asynccontextmanager
async def bench(
    server: MysqlServer,
    *databases: str,
    kind: type[ChunkSelector] = ChunkSelector,
    bounds: SourceLimits = UNBOUNDED,
    elsewhere: ServerSettings | None = None,
    **changes: Any,
) -> AsyncIterator[Bench]:
    """A running selector for these databases, stopped cleanly in the end; `changes` are of SourceSettings."""
    source = settings(server, server.create_capture_user(*databases), **changes)
    async with stopped_cleanly(Bench(source, server.uuid, kind, bounds, elsewhere)) as running:
        yield running


@asynccontextmanager
async def stopped_cleanly(running: Bench) -> AsyncIterator[Bench]:
    """A running selector, stopped cleanly in the end."""
    try:
        yield running
        running.orders.close()
        await running.task
    finally:
        running.task.cancel()
        await asyncio.wait([running.task])
