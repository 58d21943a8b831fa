"""Random interleavings of a modelled server, the real coordinator and crashes, judged at each step.

One seed is one run, always the same. The judge holds, whenever something has been put into the stream:

- each chunk row equals the source's row at the very position at which it's emitted, under the schema that holds there;
- for each key that a snapshot has covered, the live view equals the source at that position;
- no transaction passes twice, and at the end every snapshot completes and the live views equal the source.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import pyarrow as pa

from pipeline import coordinator, watermark
from pipeline.checkpoint import Checkpoint
from pipeline.coordinator_state import Order, State, WindowMode
from pipeline.gtid import GtidSet
from pipeline.messages import (
    CHANGE_FIELDS,
    Append,
    ChangesVerified,
    ChunkPart,
    ChunkRead,
    Kind,
    LogAdvanced,
    PauseReading,
    PlanTable,
    ReadChunk,
    ReadingPaused,
    ResumeReading,
    SchemaChanged,
    SignalReceived,
    TableChanges,
    TablePlanned,
    ToWatermarkCoordinator,
)
from pipeline.schema import TableId
from pipeline.signals import ExecuteSnapshot, PauseSnapshot, ResumeSnapshot, Tables
from pipeline.snapshot import Chunking, Completed
from pipeline.transactions import Transactions
from pipeline.watermark import Coordinates
from tests.simulation.lake import Lake
from tests.simulation.server import TABLES, Server, Transaction, schema

COMMIT_TIME = 1_700_000_000_000_000


class Violation(AssertionError):
    """A promise was broken; the text tells how."""


@dataclass
class Chunk:
    """An order to read a chunk, as far as it has got."""

    order: ReadChunk
    low: GtidSet | None = None
    rows: pa.RecordBatch | None = None
    high: Coordinates | None = None


class Simulation:
    """One run."""

    state: State

    def __init__(self, seed: int, mode: WindowMode) -> None:
        self.random = Random(seed)
        self.mode = mode
        self.server = Server(self.random)
        self.reached: Counter[str] = Counter()
        self.sealed: list[Append] = []
        self.unsealed: list[Append] = []
        self.signals = 0
        known = {table: schema(table, 0) for table in TABLES}
        self._boot(Checkpoint(GtidSet.parse(""), schemas=known))

    def run(self, steps: int = 120) -> None:
        """Let everything happen in random order, then let it come to rest, and judge the end."""
        actions: list[tuple[float, Callable[[], None]]] = [
            (3, self.server.write),
            (3, self.server.commit_one),
            (3, self.server.execute_one),
            (4, self.read_log),
            (8, self.select),
            (0.3, self.server.alter),
            (0.5, self.seal),
            (0.15, self.crash),
            (0.3, self.signal),
        ]
        weights = [weight for weight, _ in actions]
        for _ in range(steps):
            self.random.choices(actions, weights)[0][1]()
        self._settle()

    def read_log(self) -> None:
        """Give the coordinator the next slice: some whole transactions, one statement, or a heartbeat."""
        if self.paused:
            return
        waiting = self.server.log[self.read :]
        slice_: list[Transaction] = []
        for transaction in waiting[: self.random.choice((1, 1, 2, 4))]:
            if transaction.statement and slice_:
                break
            slice_.append(transaction)
            if transaction.statement:
                break
        self.read += len(slice_)
        fresh = [t for t in slice_ if t.gtid not in self.resumed_at]
        if not slice_ or not fresh:
            end = slice_[-1].end if slice_ else (self.server.log[self.read - 1].end if self.read else None)
            if end:
                self.give(LogAdvanced(end))
        elif fresh[0].statement:
            transaction = fresh[0]
            self.give(
                SchemaChanged(transaction.gtid, frozenset([fresh[0].statement]), "ALTER", transaction.end)
            )
        else:
            self.give(self._changes(fresh))

    def select(self) -> None:
        """Get on with one of the selector's orders by one step."""
        if self.plans and (not self.chunks or self.random.random() < 0.5):
            self.give(self._plan(self.plans.pop(self.random.randrange(len(self.plans)))))
        elif self.chunks:
            chunk = self.random.choice(self.chunks)
            if chunk.low is None:
                low = self.server.executed()
                if watermark.usable(low, chunk.order.asked_at):
                    chunk.low = low
                else:
                    self.reached["low watermark asked again"] += 1
            elif chunk.rows is None:
                chunk.rows = self._select(chunk.order)
            elif chunk.high is None:
                chunk.high = self.high_watermark()
            else:
                self.chunks.remove(chunk)
                self.give(_chunk_read(chunk))

    def high_watermark(self) -> Coordinates:
        """The high watermark: the end of the log. (A planted bug replaces it.)"""
        return self.server.end_of_log()

    def signal(self) -> None:
        """Ask for a snapshot, pause, or resume."""
        self.signals += 1
        id_ = f"s{self.random.randint(1, self.signals)}"
        kind = self.random.random()
        if kind < 0.6:
            self.give(SignalReceived(ExecuteSnapshot(id_, Tables((r"shop\..*",)))))
        elif kind < 0.8:
            self.give(SignalReceived(PauseSnapshot(f"p{self.signals}")))
        else:
            self.give(SignalReceived(ResumeSnapshot(f"r{self.signals}")))

    def seal(self) -> None:
        """Make what was appended durable."""
        self.sealed += self.unsealed
        self.unsealed = []

    def crash(self) -> None:
        """Lose all but what's sealed, and start again from there."""
        if not self.sealed:
            return
        self.reached["crash"] += 1
        if self.state.open:
            self.reached["crash with open windows"] += 1
        self.unsealed = []
        self._boot(self.sealed[-1].checkpoint)

    def give(self, message: ToWatermarkCoordinator) -> None:
        """One step of the real coordinator."""
        self._count(message)
        self.state, orders = coordinator.step(self.state, message)
        self._perform(orders)

    def _boot(self, checkpoint: Checkpoint) -> None:
        self.plans: list[PlanTable] = []
        self.chunks: list[Chunk] = []
        self.paused = False
        self.read = 0
        self.resumed_at = checkpoint.position
        self.lake = Lake()
        for append in self.sealed:
            self.lake.take(append)
        self.state, orders = coordinator.start(checkpoint, chunk_rows=2, mode=self.mode)
        self._perform(orders)

    def _perform(self, orders: tuple[Order, ...]) -> None:
        for order in orders:
            match order:
                case PlanTable():
                    self.plans.append(order)
                case ReadChunk():
                    self.chunks.append(Chunk(order))
                case PauseReading():
                    self.paused = True
                    self.give(ReadingPaused())
                case ResumeReading():
                    self.paused = False
                case Append():
                    self.unsealed.append(order)
                    self.lake.take(order)
                    self._judge(order)

    def _settle(self) -> None:
        self.give(SignalReceived(ResumeSnapshot("last")))
        for _ in range(2000):
            for transaction in self.server.log:
                if not transaction.committed:
                    self.server.commit(transaction)
                transaction.executed = True
            self.select()
            self.read_log()
            if self.read == len(self.server.log) and self._snapshots_ended() and not self.chunks:
                break
        else:
            raise Violation(f"snapshots never end: {self.state}")
        for table in self.state.checkpoint.mirrors:
            view, truth = self.lake.live_view(table), self.server.rows[table]
            if view != truth:
                raise Violation(f"at the end {table} is {view}, but the source is {truth}")

    def _snapshots_ended(self) -> bool:
        return all(snapshot.ended for snapshot in self.state.checkpoint.snapshots)

    def _judge(self, append: Append) -> None:
        position = append.checkpoint.position
        for part in append.parts:
            if isinstance(part, ChunkPart):
                self._judge_chunk(part, position)
        for table in TABLES:
            self._judge_view(table, append.checkpoint)

    def _judge_chunk(self, part: ChunkPart, position: GtidSet) -> None:
        table = part.schema.table
        truth = self.server.truth(table, position)
        for key, value in zip(part.rows["id"].to_pylist(), part.rows["value"].to_pylist(), strict=True):
            if truth.get(key) != value:
                raise Violation(
                    f"chunk {part.chunk} emits {key}={value}, but the source had {truth.get(key)}"
                )
        if part.schema != schema(table, self.server.version(table, position)):
            raise Violation(f"chunk {part.chunk} has columns that the table didn't have at {position}")

    def _judge_view(self, table: TableId, checkpoint: Checkpoint) -> None:
        if table not in checkpoint.mirrors:
            return
        covered = self._covered(table, checkpoint)
        truth = self.server.truth(table, checkpoint.position)
        view = self.lake.live_view(table)
        for key in set(view) | set(truth):
            if key <= covered and view.get(key) != truth.get(key):
                raise Violation(
                    f"{table}: key {key} is {view.get(key)} in the live view, {truth.get(key)} in the source"
                )

    def _covered(self, table: TableId, checkpoint: Checkpoint) -> float:
        states = [s.tables[table] for s in checkpoint.snapshots if table in s.tables]
        if any(isinstance(state, Completed) for state in states):
            return float("inf")
        done = [state.done for state in states if isinstance(state, Chunking) and state.done]
        return max((int(key[0]) for key in done), default=0)

    def _plan(self, order: PlanTable) -> TablePlanned:
        rows = self.server.rows[order.table]
        end = (max(rows),) if rows else None
        return TablePlanned(schema(order.table, self.server.versions[order.table]), end, len(rows))

    def _select(self, order: ReadChunk) -> pa.RecordBatch:
        after = int(order.after[0]) if order.after else 0
        rows = self.server.rows[order.chunk.table]
        keys = sorted(key for key in rows if after < key <= int(order.end[0]))[: order.limit]
        columns = [pa.array(keys, pa.int64()), pa.array([rows[key] for key in keys], pa.int64())]
        columns += [pa.nulls(len(keys), pa.int64())] * (len(order.schema.columns) - 2)
        return pa.RecordBatch.from_arrays(columns, schema=order.schema.arrow)

    def _changes(self, transactions: list[Transaction]) -> ChangesVerified:
        tables = []
        for table in TABLES:
            version = schema(table, self.server.version(table, self.state.checkpoint.position))
            images = [
                (kind, index, ordinal, row)
                for index, transaction in enumerate(transactions)
                for ordinal, (of, kind, row) in enumerate(_images(transaction))
                if of == table
            ]
            if images:
                kinds, indices, ordinals, rows = zip(*images, strict=True)
                columns = [pa.array(column, pa.int64()) for column in zip(*rows, strict=True)]
                columns += [pa.nulls(len(images), pa.int64())] * (len(version.columns) - 2)
                meta = [
                    pa.array(kinds, pa.int8()),
                    pa.array(indices, pa.int32()),
                    pa.array(ordinals, pa.int32()),
                    pa.nulls(len(images), CHANGE_FIELDS.field("absent").type),
                ]
                tables.append(
                    TableChanges(
                        version,
                        pa.RecordBatch.from_arrays(meta, schema=CHANGE_FIELDS),
                        pa.RecordBatch.from_arrays(columns, schema=version.arrow),
                    )
                )
        run = Transactions.of((transaction.gtid, COMMIT_TIME) for transaction in transactions)
        return ChangesVerified(run, tuple(tables), transactions[-1].end)

    def _count(self, message: ToWatermarkCoordinator) -> None:
        match message:
            case ChangesVerified() if self.state.open:
                self.reached["changes while a window is open"] += 1
            case SchemaChanged() if self.state.open:
                self.reached["statement while a window is open"] += 1
            case ChunkRead(_, _, rows, _, high):
                self.reached["chunk"] += 1
                if self.state.stream and self.state.stream.reaches(high):
                    self.reached["window closes at once"] += 1
                if not rows.num_rows:
                    self.reached["empty chunk"] += 1
                if any(t.committed and not t.executed for t in self.server.log):
                    self.reached["committed but not in the executed set"] += 1
            case _:
                pass
        self.reached["most windows"] = max(self.reached["most windows"], len(self.state.open))


def _images(transaction: Transaction) -> list[tuple[TableId, Kind, tuple[int, int]]]:
    images = []
    for change in transaction.changes:
        if change.before and change.after:
            images += [(change.table, Kind.UPDATE_BEFORE, change.before)]
            images += [(change.table, Kind.UPDATE_AFTER, change.after)]
        elif change.before:
            images += [(change.table, Kind.DELETE, change.before)]
        elif change.after:
            images += [(change.table, Kind.INSERT, change.after)]
    return images


def _chunk_read(chunk: Chunk) -> ChunkRead:
    assert chunk.low is not None
    assert chunk.rows is not None
    assert chunk.high is not None
    full = chunk.rows.num_rows == chunk.order.limit
    upto = (chunk.rows["id"][-1].as_py(),) if full else None
    return ChunkRead(chunk.order.chunk, chunk.low, chunk.rows, upto, chunk.high)
