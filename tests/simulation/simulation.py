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
from typing import NamedTuple

import pyarrow as pa

from pipeline import coordinator, journal, watermark
from pipeline.checkpoint import Checkpoint
from pipeline.coordinator_state import Order, State, WindowMode, Within
from pipeline.gtid import GtidSet
from pipeline.journal import Unfinished
from pipeline.messages import (
    CHANGE_FIELDS,
    Append,
    AppendRows,
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
    TransactionPartVerified,
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
    """One run.

    Of the coordinator that runs now: `read` transactions of the log have been read to their end, and of the next one
    `given` changes have been given in parts, which the journal keeps as `unfinished`.
    """

    state: State
    read: int
    given: int
    unfinished: Unfinished
    pausing: bool
    paused: bool

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
        """Give the coordinator what comes next: a slice, a part of a transaction, a statement, a heartbeat, a pause."""
        if self.paused:
            return
        if self.pausing and self.random.random() < 0.5:
            self.pausing, self.paused = False, True
            self.give(ReadingPaused())
        elif self._is_large():
            self._read_part(self.server.log[self.read])
        else:
            self._read_slice()

    def _is_large(self) -> bool:
        """Whether a part of the next transaction is to be given, rather than its end."""
        left = self.server.log[self.read :][:1]
        return bool(
            left
            and left[0].gtid not in self.resumed_at
            and len(left[0].changes) > self.given
            and self.random.random() < 0.3
        )

    def _read_part(self, transaction: Transaction) -> None:
        begin, self.given = self.given, self.random.randint(self.given + 1, len(transaction.changes))
        tables = self._tables([(0, i) for i in _images(transaction) if begin <= i.change < self.given])
        self.give(TransactionPartVerified(transaction.gtid, COMMIT_TIME, tables))

    def _read_slice(self) -> None:
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
            given, self.given = self.given, 0
            images = [(i, image) for i, t in enumerate(fresh) for image in _images(t)]
            tables = self._tables([(i, image) for i, image in images if i or image.change >= given])
            run = Transactions.of((transaction.gtid, COMMIT_TIME) for transaction in fresh)
            self.give(ChangesVerified(run, tables, fresh[-1].end))

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
        if isinstance(self.state.place, Within):
            self.reached["crash within a transaction"] += 1
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
        self.pausing = self.paused = False
        self.read = 0
        self.given = 0
        self.unfinished = Unfinished()
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
                    self.pausing = True
                case ResumeReading():
                    self.paused = False
                case AppendRows():
                    self.unfinished = journal.continued(self.unfinished, order)
                case Append():
                    whole = journal.finished(self.unfinished, order)
                    self.unfinished = Unfinished()
                    self.unsealed.append(whole)
                    self.lake.take(whole)
                    self._judge(whole)

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

    def _tables(self, images: "list[tuple[int, Image]]") -> tuple[TableChanges, ...]:
        """The images, each with the index of its transaction, as the changes of each table."""
        tables = []
        for table in TABLES:
            version = schema(table, self.server.version(table, self.state.checkpoint.position))
            of_table = [(i, image) for i, image in images if image.table == table]
            if of_table:
                count = len(of_table)
                columns = [pa.array([image.row[n] for _, image in of_table], pa.int64()) for n in range(2)]
                columns += [pa.nulls(count, pa.int64())] * (len(version.columns) - 2)
                meta = [
                    pa.array([image.kind for _, image in of_table], pa.int8()),
                    pa.array([i for i, _ in of_table], pa.int32()),
                    pa.array([image.ordinal for _, image in of_table], pa.int32()),
                    pa.nulls(count, CHANGE_FIELDS.field("absent").type),
                ]
                tables.append(
                    TableChanges(
                        version,
                        pa.RecordBatch.from_arrays(meta, schema=CHANGE_FIELDS),
                        pa.RecordBatch.from_arrays(columns, schema=version.arrow),
                    )
                )
        return tuple(tables)

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
            case TransactionPartVerified() if self.state.open:
                self.reached["part of a transaction while a window is open"] += 1
            case _:
                pass
        if isinstance(self.state.place, Within):
            self.reached[f"{type(message).__name__} within a transaction"] += 1
        self.reached["most windows"] = max(self.reached["most windows"], len(self.state.open))


class Image(NamedTuple):
    """A row image: the index of its change in its transaction, its ordinal there, and what it is."""

    change: int
    ordinal: int
    table: TableId
    kind: Kind
    row: tuple[int, int]


def _images(transaction: Transaction) -> list[Image]:
    images: list[Image] = []
    for i, change in enumerate(transaction.changes):
        kinds = (
            (Kind.UPDATE_BEFORE, Kind.UPDATE_AFTER)
            if change.before and change.after
            else (Kind.DELETE, Kind.INSERT)
        )
        for kind, row in zip(kinds, (change.before, change.after), strict=True):
            if row:
                images.append(Image(i, len(images), change.table, kind, row))
    return images


def _chunk_read(chunk: Chunk) -> ChunkRead:
    assert chunk.low is not None
    assert chunk.rows is not None
    assert chunk.high is not None
    full = chunk.rows.num_rows == chunk.order.limit
    upto = (chunk.rows["id"][-1].as_py(),) if full else None
    return ChunkRead(chunk.order.chunk, chunk.low, chunk.rows, upto, chunk.high)
