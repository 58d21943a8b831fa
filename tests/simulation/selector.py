"""A model of the ChunkSelector: several orders at once, each step of each one by itself and at any time.

`low` is asked for until it's usable, then the SELECT is made, then `high` is read. What goes wrong on the way makes
the order begin again, or fail by name. An answer may come late, when nobody waits for it any more, and twice.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random

import pyarrow as pa

from pipeline import walk, watermark
from pipeline.gtid import GtidSet
from pipeline.keys import Key
from pipeline.messages import (
    ChunkFailed,
    ChunkOutdated,
    ChunkRead,
    PlanFailed,
    PlanTable,
    ReadChunk,
    TablePlanned,
)
from pipeline.schema import TableSchema
from pipeline.snapshot import Request
from pipeline.walk import Walk
from pipeline.watermark import CLOSE_MARKER, OPEN_MARKER, High, MarkerRow
from tests.simulation.replica import Replica
from tests.simulation.server import Row, Server, Transaction
from tests.simulation.story import Story
from tests.simulation.world import Reads, World

Answer = TablePlanned | PlanFailed | ChunkRead | ChunkFailed | ChunkOutdated

# What a signal may ask for, and which rows satisfy it.
CONDITIONS: dict[str, Callable[[Row], bool]] = {
    "id <= 3": lambda row: row[0] <= 3,
    "value > 5": lambda row: row[1] > 5,
}


@dataclass
class Chunk:
    """An order to read a chunk, as far as it has got."""

    order: ReadChunk
    low: GtidSet | None = None
    opened: Transaction | None = None
    rows: list[Row] | None = None
    closed: Transaction | None = None
    upto: Key | None = None
    high: High | None = None

    @property
    def place(self) -> str:
        """Where in its window it is."""
        if self.low is None:
            return "before low"
        return "between low and SELECT" if self.rows is None else "between SELECT and high"


class Selector:
    """The orders that wait for something."""

    def __init__(
        self,
        server: Server,
        replica: Replica | None,
        world: World,
        random: Random,
        story: Story,
        reached: Counter[str],
    ) -> None:
        self._server, self._world, self._random, self._story = server, world, random, story
        self._replica = replica
        self._read: Server | Replica = replica or server  # where chunks are read
        self._markers = 0
        self._reached = reached
        self.plans: list[PlanTable] = []
        self.chunks: list[Chunk] = []
        self.repeated: list[ChunkRead] = []

    @property
    def idle(self) -> bool:
        """Whether there's nothing to do."""
        return not self.plans and not self.chunks

    def take(self, order: PlanTable | ReadChunk) -> None:
        """Begin with an order."""
        if isinstance(order, PlanTable):
            self.plans.append(order)
        else:
            self.chunks.append(Chunk(order))

    def go_on(self) -> Answer | None:
        """Get on with one of the orders by one step, and give its answer if that was the last one."""
        if self.repeated and self._random.random() < 0.3:
            return self.repeated.pop()
        if self.plans and (not self.chunks or self._random.random() < 0.5):
            return self._planned(self._random.choice(self.plans))
        return self._step(self._random.choice(self.chunks)) if self.chunks else None

    def _planned(self, order: PlanTable) -> Answer | None:
        """The plan, or nothing while it would be older than the stream was when it was asked for."""
        if not watermark.usable(self._read.executed, order.asked_at) or not self._whole():
            self._reached["a plan waited for what had passed"] += 1
            return None
        self.plans.remove(order)
        if self._random.random() < self._world.fails:
            return PlanFailed(order.table, "its plan failed")
        schema = self._read.schemas[order.table]
        along = walk_of(schema, order.request)
        keys = sorted(
            (along_key(row, along) for row in self._read.rows[order.table].items()), key=order_of(along)
        )
        splits: list[Key] = []
        if order.ranges > 1 and len(keys) > 1:
            most = min(order.ranges - 1, len(keys) - 1)
            chosen = set(self._random.sample(range(len(keys) - 1), self._random.randint(0, most)))
            splits = [key for i, key in enumerate(keys) if i in chosen]
        end = keys[-1] if keys and order.ranges else None
        marked = self._world.reads is Reads.MARKED
        high = MarkerRow(marker_id(self._mark(CLOSE_MARKER))) if marked else self.high_watermark()
        return TablePlanned(schema, along, end, tuple(splits), len(keys), high)

    def _step(self, chunk: Chunk) -> Answer | None:
        name = chunk.order.chunk
        if self._random.random() < self._world.fails:
            self.chunks.remove(chunk)
            return ChunkFailed(name, "it couldn't be read")
        if self._random.random() < self._world.loses:
            self._story.tell("the connection is lost:", name)
            self.chunks[self.chunks.index(chunk)] = Chunk(chunk.order)
        elif chunk.low is None:
            self._ask_low(chunk)
        elif chunk.rows is None and self._read.schemas[name.table] != chunk.order.schema:
            self.chunks.remove(chunk)
            return ChunkOutdated(name)
        elif chunk.rows is None:
            self._select(chunk)
        elif chunk.high is None:
            self._ask_high(chunk)
        else:
            self.chunks.remove(chunk)
            return self._answered(chunk, chunk.low, chunk.rows, chunk.high)
        return None

    def _ask_low(self, chunk: Chunk) -> None:
        low = self._read.executed
        if self._world.reads is Reads.MARKED:
            chunk.opened = chunk.opened or self._mark(OPEN_MARKER)
            chunk.low = chunk.order.asked_at if chunk.opened.committed else None
        elif watermark.usable(low, chunk.order.asked_at):
            chunk.low = low
            self._story.tell("low:", chunk.order.chunk, low)
        else:
            self._reached["the low watermark was asked again"] += 1

    def _ask_high(self, chunk: Chunk) -> None:
        if self._world.reads is Reads.MARKED:
            chunk.closed = chunk.closed or self._mark(CLOSE_MARKER)
            chunk.high = MarkerRow(marker_id(chunk.closed)) if chunk.closed.committed else None
        elif self._whole():
            chunk.high = self.high_watermark()
        if chunk.high is not None:
            self._story.tell("high:", chunk.order.chunk, chunk.high)
            nothing = chunk.low == self._server.executed and not self._server.unfinished
            self._reached["low is high"] += nothing

    def _whole(self) -> bool:
        """Whether the executed set of a replica, where chunks are read there, has all that's in its log."""
        return self._replica is None or self._replica.whole

    def high_watermark(self) -> High:
        """The end of the log; or all that a replica has executed and that the stream will bring."""
        return self._server.end if self._replica is None else self._replica.executed - self._server.purged

    def _mark(self, type_: str) -> Transaction:
        self._markers += 1
        return self._server.mark(f"{type_} {self._markers} behind {self._server.end}", type_)

    def _select(self, chunk: Chunk) -> None:
        order = chunk.order
        found = selected(self._read.rows[order.chunk.table].items(), order)
        chunk.rows = found
        chunk.upto = along_key(found[-1], order.walk) if len(found) == order.limit else None
        unknown = any(c.table == order.chunk.table for t in self._read.unexecuted for c in t.changes)
        self._reached["SELECT saw what the executed set lacks"] += unknown
        self._reached["a replica's SELECT saw what its executed set lacks"] += (
            unknown and self._replica is not None
        )
        self._story.tell("SELECT:", order.chunk, order.after, "to", order.end, "gives", tuple(found))

    def _answered(self, chunk: Chunk, low: GtidSet, rows: list[Row], high: High) -> ChunkRead:
        columns = [pa.array([row[n] for row in rows], pa.int64()) for n in range(2)]
        columns += [pa.nulls(len(rows), pa.int64())] * (len(chunk.order.schema.columns) - 2)
        batch = pa.RecordBatch.from_arrays(columns, schema=chunk.order.schema.arrow)
        took = self._random.choice((1, 1_000, 100_000, 10_000_000))
        read = ChunkRead(chunk.order.chunk, low, batch, chunk.upto, high, took, int(batch.nbytes))
        if self._random.random() < self._world.repeats:
            self.repeated.append(read)
        return read


def marker_id(row: Transaction) -> str:
    """The id of a row of the signal table."""
    assert row.marker is not None
    return row.marker.id


def selected(rows: Iterable[Row], order: ReadChunk) -> list[Row]:
    """What the order's SELECT gives of these rows."""
    place = order_of(order.walk)
    inside = [
        (place(key), row)
        for row in rows
        if wanted(row, order.request)
        and place(key := along_key(row, order.walk)) <= place(order.end)
        and (order.after is None or place(key) > place(order.after))
    ]
    return [row for _, row in sorted(inside)[: order.limit]]


def wanted(row: Row, request: Request) -> bool:
    """Whether the request asks for this row."""
    if request.keys:
        return any(key[0] == row[0] for key in request.keys)
    return request.condition is None or CONDITIONS[request.condition](row)


def walk_of(schema: TableSchema, request: Request) -> Walk:
    """The index that the chunks follow."""
    return Walk("by_value", (1,), (False,), (None,)) if request.surrogate else walk.primary(schema)


def along_key(row: Row, along: Walk) -> Key:
    """The row's key in the walk."""
    return tuple(row[column] for column in along.columns)


def order_of(along: Walk) -> Callable[[Key], tuple[int, ...]]:
    """How the server orders keys of the walk."""
    signs = [-1 if descending else 1 for descending in along.descending]
    return lambda key: tuple(sign * int(part) for sign, part in zip(signs, key, strict=True))
