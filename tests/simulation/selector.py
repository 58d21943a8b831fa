"""A model of the ChunkSelector: several orders at once, each step of each one by itself and at any time.

`low` is asked for until it's usable, then the SELECT is made, then `high` is read. What goes wrong on the way makes
the order begin again, or fail by name. An answer may come late, when nobody waits for it any more, and twice.

What's asked for while the transactions of a consistent snapshot are open is read in these. All else is read over pooled
connections, each of which leads to the server that its address led to when it was opened.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random

import pyarrow as pa

from pipeline.gtid.gtid_set import GtidSet
from pipeline.messages.chunks import (
    ChunkFailed,
    ChunkRead,
    ChunkSchemaChanged,
    CloseTransactions,
    NotDivided,
    OpenTransactions,
    PlanFailed,
    PlanTable,
    ReadChunk,
    RepairRows,
    TablePlanned,
    TableRanges,
    TransactionsOpened,
    WithoutRows,
)
from pipeline.schema.row_keys import Key
from pipeline.schema.table_schema import TableId, TableSchema
from pipeline.snapshot import watermark
from pipeline.snapshot.chunk_index import ChunkIndex
from pipeline.snapshot.snapshot import Request
from pipeline.snapshot.watermark import CLOSE_MARKER, OPEN_MARKER, High, MarkerRow
from tests.pipeline.builders import primary_index
from tests.simulation.replica import Replica
from tests.simulation.server import Row, Rows, Server, Transaction
from tests.simulation.story import Story
from tests.simulation.views import Lost, Views
from tests.simulation.world import Reads, World

Answer = TablePlanned | PlanFailed | ChunkRead | ChunkFailed | ChunkSchemaChanged | TransactionsOpened

# What a signal may ask for, and which rows satisfy it.
CONDITIONS: dict[str, Callable[[Row], bool]] = {
    "id <= 3": lambda row: row[0] <= 3,
    "value > 5": lambda row: row[1] > 5,
}


@dataclass
class Plan:
    """An order to plan a table, in these transactions if they are open."""

    order: PlanTable
    views: Views | None


@dataclass
class Chunk:
    """An order to read a chunk, as far as it has got: in these transactions, or over a connection to this server."""

    order: ReadChunk | RepairRows
    views: Views | None
    where: Server | Replica | None = None
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
        self.calm = False  # nothing goes wrong any more
        self.elsewhere: Replica | None = None  # where the address leads by now
        self.views: Views | None = None
        self.plans: list[Plan] = []
        self.chunks: list[Chunk] = []
        self.repeated: list[ChunkRead] = []

    @property
    def idle(self) -> bool:
        """Whether there's nothing to read."""
        return not self.plans and not self.chunks

    def take(self, order: PlanTable | ReadChunk | RepairRows | OpenTransactions | CloseTransactions) -> None:
        """Begin with an order."""
        views = self.views if self.views and self.views.opened else None
        match order:
            case PlanTable():
                # An answer names its table only.
                assert order.table not in {plan.order.table for plan in self.plans}, order
                self.plans.append(Plan(order, views))
            case ReadChunk() | RepairRows():
                self.chunks.append(Chunk(order, views))
            case OpenTransactions():
                connections, locks = self._world.limits.connections, self._world.locks
                self.views = Views(order, connections, self._server, self._random, locks)
            case CloseTransactions():
                self.close()

    def close(self) -> None:
        """End the transactions of a consistent snapshot."""
        if self.views:
            self.views.close()
        self.views = None

    def go_on(self) -> Answer | None:
        """Get on with one of the orders by one step, and give its answer if that was the last one. Raises Lost."""
        if self.repeated and self._random.random() < 0.3:
            return self.repeated.pop()
        if self.views and not self.views.opened and (self.idle or self._random.random() < 0.5):
            self._connected()
            return self._opened(self.views)
        if self.plans and (not self.chunks or self._random.random() < 0.5):
            return self._planned(self._random.choice(self.plans))
        return self._step(self._random.choice(self.chunks)) if self.chunks else None

    def _opened(self, views: Views) -> TransactionsOpened | None:
        tries, opened = views.tries, views.go_on()
        self._reached["no quiet moment was found"] += views.tries > tries
        self._reached["the source was locked for a moment"] += self._server.locked
        if opened:
            self._story.tell("transactions opened at", opened.at, "visible", opened.visible)
        return opened

    def _connected(self) -> Server | Replica:
        """What a pooled connection leads to, which may be opened only now."""
        if self.elsewhere is None or self._random.random() < 0.5:
            return self._read
        self.must_be_ours(self.elsewhere)
        return self.elsewhere

    def must_be_ours(self, met: Server | Replica) -> None:
        """Raises Lost for a server that isn't the one whose places the stream knows."""
        if met is not self._read:
            self._reached["a connection led to another server"] += 1
            raise Lost("the address leads to another server")

    def _seen(
        self, views: Views | None, where: Server | Replica, table: TableId
    ) -> tuple[Rows, TableSchema | None]:
        """The rows, and the schema, which is None where there's no such table."""
        if views is None:
            return where.rows[table], where.schemas.get(table)
        return views.any().read(table)

    def _planned(self, plan: Plan) -> Answer | None:
        """The plan, or nothing while it would be older than the stream was when it was asked for."""
        order, views, where = plan.order, plan.views, self._read
        if views is None:
            where = self._connected()
            if not watermark.is_usable_low(where.executed, order.ordered_at) or not self._whole():
                self._reached["a plan waited for what had passed"] += 1
                return None
        self.plans.remove(plan)
        if views is not None and views is not self.views:
            return PlanFailed(order.table, "its transactions were closed")
        if self._random.random() < self._world.fails and not self.calm:
            return PlanFailed(order.table, "its plan failed")
        rows, schema = self._seen(views, where, order.table)
        if schema is None:
            self._reached["a plan of a table that's gone"] += 1
            return PlanFailed(order.table, "it doesn't exist")
        along = walk_of(schema, order.request)
        keys = sorted((along_key(row, along) for row in rows.items()), key=order_of(along))
        splits: list[Key] = []
        if order.ranges > 1 and len(keys) > 1:
            most = min(order.ranges - 1, len(keys) - 1)
            chosen = set(self._random.sample(range(len(keys) - 1), self._random.randint(0, most)))
            splits = [key for i, key in enumerate(keys) if i in chosen]
        ranges = TableRanges(keys[-1], tuple(splits), len(keys)) if keys else WithoutRows()
        marked = self._world.reads is Reads.MARKED
        high = MarkerRow(marker_id(self._mark(CLOSE_MARKER))) if marked else self._high(views, where)
        return TablePlanned(schema, along, ranges if order.ranges else NotDivided(), high)

    def _step(self, chunk: Chunk) -> Answer | None:
        name = chunk.order.chunk
        if chunk.views is not None and chunk.views is not self.views:
            self.chunks.remove(chunk)
            return ChunkFailed(name, "its transactions were closed")
        if self._random.random() < self._world.fails and not self.calm:
            self.chunks.remove(chunk)
            return ChunkFailed(name, "it couldn't be read")
        if self._random.random() < self._world.loses and not self.calm:
            self._story.tell("the connection is lost:", name)
            if chunk.views:
                self._reached["a connection of a consistent snapshot was lost"] += 1
                raise Lost("a connection of the consistent snapshot was lost")
            self.chunks[self.chunks.index(chunk)] = Chunk(chunk.order, None)
            return None
        where = chunk.where = chunk.where or self._connected()
        if chunk.low is None:
            self._ask_low(chunk, where)
        elif chunk.rows is None:
            rows, schema = self._seen(chunk.views, where, name.table)
            if schema != chunk.order.schema:
                self.chunks.remove(chunk)
                return ChunkSchemaChanged(name)
            self._select(chunk, where, rows)
        elif chunk.high is None:
            self._ask_high(chunk, where)
        else:
            self.chunks.remove(chunk)
            return self._answered(chunk, chunk.low, chunk.rows, chunk.high)
        return None

    def _ask_low(self, chunk: Chunk, where: Server | Replica) -> None:
        low = where.executed
        if chunk.views and chunk.views.opened:
            chunk.low = chunk.views.opened.visible
        elif self._world.reads is Reads.MARKED:
            chunk.opened = chunk.opened or self._mark(OPEN_MARKER)
            chunk.low = chunk.order.ordered_at if chunk.opened.committed else None
        elif watermark.is_usable_low(low, chunk.order.ordered_at):
            chunk.low = low
            self._story.tell("low:", chunk.order.chunk, low)
        else:
            self._reached["the low watermark was asked again"] += 1

    def _ask_high(self, chunk: Chunk, where: Server | Replica) -> None:
        if self._world.reads is Reads.MARKED:
            chunk.closed = chunk.closed or self._mark(CLOSE_MARKER)
            chunk.high = MarkerRow(marker_id(chunk.closed)) if chunk.closed.committed else None
        elif self._whole():
            chunk.high = self._high(chunk.views, where)
        if chunk.high is not None:
            self._story.tell("high:", chunk.order.chunk, chunk.high)
            nothing = chunk.low == self._server.executed and not self._server.unfinished
            self._reached["low is high"] += nothing

    def _whole(self) -> bool:
        """Whether the executed set of a replica, where chunks are read there, has all that's in its log."""
        return self._replica is None or self._replica.whole

    def _high(self, views: Views | None, where: Server | Replica) -> High:
        return views.opened.at if views and views.opened else self.high_watermark(where)

    def high_watermark(self, where: Server | Replica) -> High:
        """The end of the log; or all that a replica has executed and that the stream will bring."""
        return where.end if self._replica is None else self._replica.executed - self._server.purged

    def _mark(self, type_: str) -> Transaction:
        self._markers += 1
        return self._server.mark(f"{type_} {self._markers} behind {self._server.end}", type_)

    def _select(self, chunk: Chunk, where: Server | Replica, rows: Rows) -> None:
        order = chunk.order
        if isinstance(order, RepairRows):
            found = keyed(rows.items(), order)
        else:
            found = selected(rows.items(), order)
            chunk.upto = along_key(found[-1], order.walk) if len(found) == order.limit else None
        chunk.rows = found
        unknown = any(c.table == order.chunk.table for t in where.unexecuted for c in t.changes)
        self._reached["SELECT saw what the executed set lacks"] += unknown
        self._reached["a replica's SELECT saw what its executed set lacks"] += (
            unknown and self._replica is not None
        )
        self._story.tell("SELECT:", order.chunk, "gives", tuple(found))

    def _answered(self, chunk: Chunk, low: GtidSet, rows: list[Row], high: High) -> ChunkRead:
        columns = [pa.array([row[n] for row in rows], pa.int64()) for n in range(2)]
        columns += [pa.nulls(len(rows), pa.int64())] * (len(chunk.order.schema.columns) - 2)
        batch = pa.RecordBatch.from_arrays(columns, schema=chunk.order.schema.arrow)
        took = self._random.choice((1, 1_000, 100_000, 10_000_000))
        size = int(batch.nbytes)
        read = ChunkRead(chunk.order.chunk, low, batch, chunk.upto, high, took, size, len(rows))
        if self._random.random() < self._world.repeats:
            self.repeated.append(read)
        return read


def marker_id(row: Transaction) -> str:
    """The id of a row of the signal table."""
    assert row.marker is not None
    return row.marker.id


def keyed(rows: Iterable[Row], order: RepairRows) -> list[Row]:
    """What the SELECT of these keys gives of these rows."""
    keys = {tuple(key.values()) for key in order.keys.to_pylist()}
    return sorted(row for row in rows if row[: len(order.schema.key)] in keys)


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


def walk_of(schema: TableSchema, request: Request) -> ChunkIndex:
    """The index that the chunks follow."""
    return ChunkIndex("by_value", (1,), (False,), (None,)) if request.surrogate else primary_index(schema)


def along_key(row: Row, along: ChunkIndex) -> Key:
    """The row's key in the walk."""
    return tuple(row[column] for column in along.columns)


def order_of(along: ChunkIndex) -> Callable[[Key], tuple[int, ...]]:
    """How the server orders keys of the walk."""
    signs = [-1 if descending else 1 for descending in along.descending]
    return lambda key: tuple(sign * int(part) for sign, part in zip(signs, key, strict=True))
