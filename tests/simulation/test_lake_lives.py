"""Leads the SparkSink's machine through random lives: a lake gets everything once, and all that is due.

A small journal and a small lake perform what the machine orders. A kill comes between any two of their steps, and an
error between any two commits of a delivery. Work fails before it commits or after it, values are refused, generations
begin, capture stops tables, and the journal removes segments. At last nothing fails any more.
"""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import pytest

from pipeline.config.settings import LakeSettings
from pipeline.errors import InvariantBroken
from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.gtid_set import GtidSet
from pipeline.journal.entry import Entry, File, FileKind, SealedChunk
from pipeline.journal.missing_generations import LostScans
from pipeline.lake import step as spark_sink
from pipeline.lake.background.work import CompleteMirror, MaintainTable, MergeMirror, VerifyRows
from pipeline.lake.batch import Batch, DeliveryStop, LakeTableState, Pieces
from pipeline.lake.consumer_progress import LakeConsumerProgress
from pipeline.lake.delivery import AcceptedBatch, accept_batch
from pipeline.lake.facts import (
    BeginningFound,
    CursorFound,
    Fact,
    GapFound,
    JournalFound,
    JournalFoundEmpty,
    LakeTimerFired,
    ProgressReported,
    TableDelivered,
    TableFailed,
    TablesFound,
    WorkDone,
    WorkFailed,
    WorkGivenUp,
)
from pipeline.lake.orders import (
    DeliverTable,
    FindCursor,
    FindEnd,
    FindTables,
    Order,
    ReadBatch,
    ReportProgress,
    RequestMirrors,
)
from pipeline.lake.state import Confirming, Idle, State
from pipeline.lake.tables.maintenance import TableSize
from pipeline.messages.journal import SegmentSealed
from pipeline.schema.table_schema import TableId
from pipeline.snapshot.checkpoint import Filling, Mirror, Ready
from pipeline.snapshot.snapshot import ChunkId
from tests.pipeline.lake.test_delivery import ITEMS, V1, entry

SCHEMAS = {each.table: each for each in (V1, ITEMS, replace(V1, table=TableId("shop", "users")))}
Beside = MergeMirror | CompleteMirror | MaintainTable | VerifyRows
STEPS, MOST_SEGMENTS = 500, 40
# How many changes a file of a segment has.
CHANGES = 5


class Chance(random.Random):
    """Fate, until nothing fails any more."""

    calm = False

    def strikes(self, share: float) -> bool:
        return not self.calm and self.random() < share


class Journal:
    """Segments of changes, rows of snapshots, generations and stops of capture."""

    def __init__(self, chance: Chance) -> None:
        self.chance = chance
        self.entries: list[Entry] = []
        self.first = 1
        self.requested: Mapping[TableId, int] = {}

    @property
    def last(self) -> int:
        return len(self.entries)

    def seal(self) -> None:
        segment, before = self.last + 1, self.entries[-1].checkpoint if self.entries else None
        mirrors: dict[TableId, Mirror] = dict(before.mirrors) if before else {}
        stopped = dict(before.stopped) if before else {}
        files: list[File] = []
        for table in SCHEMAS:
            mirror = mirrors.get(table)
            if mirror is None or self._begins(table, mirror, stopped=table in stopped):
                stopped.pop(table, None)
                mirrors[table] = Ready(segment) if self.chance.strikes(0.3) else Filling(segment)
            elif isinstance(mirror, Filling) and table not in stopped:
                if self.chance.strikes(0.6):
                    files.append(_file(segment, table, FileKind.ROWS))
                if not self.chance.strikes(0.6):
                    mirrors[table] = Ready(mirror.since)
            elif self.chance.strikes(0.04):
                stopped[table] = "so"
            if table not in stopped and self.chance.strikes(0.5):
                files.insert(0, _file(segment, table, FileKind.CHANGES))
        self.requested = {}
        made = entry(segment, *SCHEMAS.values())
        chunks = (_chunk(file.table, segment) for file in files if file.kind is FileKind.ROWS)
        checkpoint = replace(made.checkpoint, mirrors=mirrors, stopped=stopped)
        self.entries.append(replace(made, files=tuple(files), chunks=tuple(chunks), checkpoint=checkpoint))

    def _begins(self, table: TableId, mirror: Mirror, *, stopped: bool) -> bool:
        """Whether a table's mirror begins again: somebody recaptures it, a statement says so, or the sink asks."""
        if stopped:
            return not self.chance.strikes(0.7)
        return self.requested.get(table) == mirror.since or self.chance.strikes(0.07)

    def segments(self, table: TableId, kind: FileKind, after: int | None, through: int) -> list[int]:
        """Those that have such a file of a table."""
        return [
            each.segment
            for each in self.entries[after or 0 : max(through, 0)]
            if any((file.table, file.kind) == (table, kind) for file in each.files)
        ]


def _file(segment: int, table: TableId, kind: FileKind) -> File:
    (file,) = entry(segment, SCHEMAS[table], kind=kind).files
    return file


def _chunk(table: TableId, segment: int) -> SealedChunk:
    return SealedChunk(ChunkId("s", table, segment), GtidSet(), Coordinates("b.000001", 4), CHANGES)


@dataclass
class Stored:
    """What the lake has of a table. `changes` and `rows` are segments, `marks` and `rows_mark` as Delta's commits say.

    `part`: whether it lacks segments before its generation, since a gap or a stop came between.
    """

    changes: list[int] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    since: int = 0
    mark: int = 0
    rows_mark: int = 0
    after: int = 0
    generation: int | None = None
    shown: int | None = None
    merged: int = 0
    rebuilding: float | None = None
    stopped: DeliveryStop | None = None
    capture_stopped: str = ""
    part: bool = False

    @property
    def pending(self) -> int:
        """The changes that the mirror lacks."""
        least = max(self.merged, (self.generation if self.shown is None else self.shown) or 0)
        return CHANGES * sum(segment > least for segment in self.changes)

    def begin(self, generation: int, now: float, *, empty: bool) -> None:
        self.capture_stopped = ""
        if self.shown is None or empty:
            self.shown, self.rebuilding = (generation, None) if empty else (None, now)
        elif self.rebuilding is None:
            self.merged, self.rebuilding = self.mark, now
        self.generation, self.rows = generation, []

    def found(self, table: TableId) -> LakeTableState:
        return LakeTableState(
            SCHEMAS[table],
            since=self.since,
            mirror_since=self.since,
            changes=self.mark,
            rows=self.rows_mark,
            generation=self.generation,
            merged=self.merged,
            pending=self.pending,
            after=self.after,
            rebuilding=self.rebuilding,
            stopped=self.stopped,
            capture_stopped=self.capture_stopped,
        )


class Lake:
    """Tables that get what a delivery brings, and work beside it."""

    def __init__(self, chance: Chance, journal: Journal) -> None:
        self.chance, self.journal = chance, journal
        self.tables: dict[TableId, Stored] = {}
        self.gap = False

    def find(self, tables: frozenset[TableId]) -> TablesFound:
        failed = [table for table in sorted(tables) if self.chance.strikes(0.1)]
        found = {
            table: self.tables[table].found(table) if table in self.tables else LakeTableState()
            for table in tables.difference(failed)
        }
        return TablesFound(found, failed=tuple(TableFailed(table, "not found") for table in failed))

    def deliver(self, order: DeliverTable, now: float) -> Fact:
        table, batch, before = order.table, order.batch, order.before
        fails_after = self.chance.randrange(3) if self.chance.strikes(0.15) else None
        had = self.tables.setdefault(table, Stored())
        had.part |= self.gap or before.stopped is not None
        todo = accept_batch(before, table, batch)
        if not todo.reason and todo.pieces.changes and self.chance.strikes(0.03):
            todo = replace(
                todo, pieces=Pieces(), through=todo.pieces.changes[0].segment - 1, reason="a value"
            )
        present = self._begin(had, before, todo, batch, table, now)
        for commit in range(3):
            if fails_after == commit:
                return TableFailed(table, f"after {commit} commits")
            if commit < 2:
                self._append(had, table, todo, batch, rows=commit == 1)
        if todo.reason:
            had.stopped = DeliveryStop(todo.reason, batch.checkpoint.scn)
            return TableDelivered(table, replace(present, stopped=had.stopped))
        had.stopped = None
        if batch.stops(table, present):
            had.capture_stopped = batch.checkpoint.stopped.get(table, "")
            present = replace(present, capture_stopped=had.capture_stopped)
        after = replace(
            present,
            changes=max(present.changes, batch.through),
            rows=max(present.rows, batch.through),
            after=max(present.after, batch.after),
            stopped=None,
        )
        return TableDelivered(table, after, order.pieces)

    def _begin(
        self,
        had: Stored,
        before: LakeTableState,
        todo: AcceptedBatch,
        batch: Batch,
        table: TableId,
        now: float,
    ) -> LakeTableState:
        if todo.schema is None:
            return before
        had.since = todo.since
        present = replace(before, schema=todo.schema, since=todo.since, mirror_since=todo.since)
        if todo.generation is None or todo.generation == before.generation:
            return present
        had.begin(
            todo.generation, now, empty=batch.completes(table, todo.generation, shown=had.shown is not None)
        )
        return replace(
            present,
            generation=todo.generation,
            rebuilding=had.rebuilding,
            capture_stopped=had.capture_stopped,
        )

    def _append(self, had: Stored, table: TableId, todo: AcceptedBatch, batch: Batch, *, rows: bool) -> None:
        if not (pieces := todo.pieces.rows if rows else todo.pieces.changes):
            return
        came, mark = [piece.segment for piece in pieces], had.rows_mark if rows else had.mark
        assert min(came) > mark, f"{table} gets {came} again"
        had.after = max(had.after, batch.after)
        if rows:
            had.rows += came
            had.rows_mark = todo.through
            return
        least = had.generation if had.part else None
        due = self.journal.segments(table, FileKind.CHANGES, max(had.mark, least or 0), todo.through)
        assert [each for each in came if each > (least or 0)] == due, f"{table} gets {came} of {due}"
        had.changes += came
        had.mark = todo.through

    def work(self, order: Beside) -> Fact:
        """Work may fail before its commit or after it."""
        failures: list[Fact] = [WorkGivenUp(), WorkFailed()]
        if self.chance.strikes(0.1):
            return self.chance.choice(failures)
        had = self.tables[order.table]
        if isinstance(order, MergeMirror):
            if had.generation == order.reached.generation and had.rebuilding is None:
                had.merged = max(had.merged, order.through)
        elif isinstance(order, CompleteMirror):
            if had.generation != order.generation:
                return WorkGivenUp()
            if had.rebuilding is not None:
                due = self.journal.segments(order.table, FileKind.ROWS, order.generation, order.through)
                assert had.rows == due, f"{order.table} is shown with {had.rows} of {due}"
                had.shown, had.rebuilding = order.generation, None
            had.merged = max(had.merged, order.through)
        return self.chance.choice(failures) if self.chance.strikes(0.1) else WorkDone(TableSize())


@dataclass(eq=False)
class Task:
    """Orders under way, and the facts that they have brought, which the sink doesn't know yet."""

    orders: list[Order]
    facts: list[Fact] | None = None

    def concerns(self, table: TableId) -> bool:
        return any(isinstance(o, FindTables) or getattr(o, "table", None) == table for o in self.orders)


class Life:
    """A sink, which may be killed at any moment, with its journal and its lake."""

    def __init__(self, seed: int) -> None:
        self.chance = Chance(seed)
        self.journal = Journal(self.chance)
        self.lake = Lake(self.chance, self.journal)
        self.recorded: tuple[int, int | None, int] = (0, None, 0)
        self.lost: LostScans = {}
        self.now = 0.0
        self.facts: list[Fact] = []
        self.restart()

    def restart(self) -> None:
        self.state = State(LakeSettings("lake", merge_rows=12))
        self.tasks: list[Task] = []
        self.take(self._end())

    def _end(self) -> Fact:
        entries = self.journal.entries
        return JournalFound(entries[-1].checkpoint, entries[-1].segment) if entries else JournalFoundEmpty()

    def take(self, *facts: Fact) -> None:
        orders: list[Order] = []
        for fact in facts:
            self.facts.append(fact)
            self.state, following = spark_sink.step(self.state, fact, self.now)
            orders += following
        alone = [each for each in orders if isinstance(each, DeliverTable | Beside)]
        together = [each for each in orders if each not in alone]
        self.tasks += [Task([each]) for each in alone] + ([Task(together)] if together else [])
        for table, had in self.lake.tables.items():
            self._check_claim(table, had)
            self._check_count(table, had)

    def perform(self, order: Order) -> Iterator[Fact]:
        match order:
            case FindEnd():
                yield self._end()
            case FindTables(tables):
                yield self.lake.find(frozenset(tables))
            case FindCursor():
                yield self._cursor(order)
            case ReadBatch(after, through):
                waiting = self.journal.entries[max(after, self.journal.first - 1) : through]
                yield spark_sink.next_batch_of(self.state, iter(waiting), self.chance.choice([1, 30, 1000]))
            case DeliverTable():
                yield self.lake.deliver(order, self.now)
            case ReportProgress(batch, reported, _, lost, brought):
                self.recorded, self.lost = (batch.through, reported, brought), lost
                yield ProgressReported()
            case MergeMirror() | CompleteMirror() | MaintainTable() | VerifyRows():
                yield self.lake.work(order)
            case RequestMirrors(generations):
                self.journal.requested = {**self.journal.requested, **generations}
            case _:
                pass

    def _cursor(self, order: FindCursor) -> Fact:
        entries, first = self.journal.entries, self.journal.first
        whole = spark_sink.complete_through(order, *self.recorded)
        if first > whole + 1:
            self.lake.gap, self.recorded = True, (first - 1, None, 0)
            return GapFound(whole, entries[first - 1], self.lost)
        self.recorded = (max(whole, first - 1), order.reported, order.brought)
        if whole < first:
            return BeginningFound(whole, self.lost)
        return CursorFound(whole, entries[whole - 1].checkpoint, self.lost)

    def _check_claim(self, table: TableId, had: Stored) -> None:
        """What readers are told that a table has, it has."""
        claimed = LakeConsumerProgress(self.state).of(table)
        if table in self.state.so_far.tables and claimed.stopped is None and claimed.lacks is None:
            scn = claimed.reached.scn  # each segment has one
            due = self.journal.segments(table, FileKind.CHANGES, had.generation, scn)
            assert set(due) <= set(had.changes), f"{table} claims {claimed} with {had.changes} of {due}"

    def _check_count(self, table: TableId, had: Stored) -> None:
        """No change that the mirror lacks is forgotten."""
        so_far = self.state.so_far
        if not isinstance(self.state.doing, Idle | Confirming) or table not in so_far.tables:
            return
        paused = (
            had.stopped or table in so_far.failed or table in so_far.late.tables or table in so_far.beyond
        )
        filled = had.generation is not None and had.rebuilding is None
        if paused or not filled or any(task.concerns(table) for task in self.tasks):
            return
        counted = self.state.background.mirrored[table].pending
        assert counted >= had.pending, f"{table} counts {counted} of {had.pending}"

    def advance(self) -> None:
        """Something happens."""
        chance, journal = self.chance, self.journal
        self.now += chance.choice([0.0, 0.1, 1.0, 20.0])
        if chance.strikes(0.02):
            if journal.entries and chance.strikes(0.15):
                journal.first = chance.randint(journal.first, journal.last)
            self.restart()
            return
        if journal.last < MOST_SEGMENTS and chance.strikes(0.2):
            journal.seal()
        at = spark_sink.timer_at(self.state)
        choices: list[Task | Fact] = [*self.tasks]
        if isinstance(self.state.doing, Idle) and journal.last > self.state.so_far.segment:
            choices.append(SegmentSealed(journal.last))
        if at is not None and at <= self.now:
            choices.append(LakeTimerFired())
        if choices:
            self._bring(chance.choice(choices))
        elif at is not None:
            self.now = max(at, self.now)

    def _bring(self, chosen: Task | Fact) -> None:
        if not isinstance(chosen, Task):
            self.take(chosen)
        elif chosen.facts is None:
            chosen.facts = [fact for order in chosen.orders for fact in self.perform(order)]
        else:
            self.tasks.remove(chosen)
            self.take(*chosen.facts)

    def settle(self) -> None:
        """Nothing fails any more. All that is due ends."""
        self.chance.calm = True
        for _ in range(6):
            self.journal.seal()
            for _ in range(300):
                self.advance()
        so_far = self.state.so_far
        assert isinstance(self.state.doing, Idle), self.state.doing
        assert (so_far.segment, so_far.failed, so_far.late.tables) == (self.journal.last, {}, frozenset())
        for table, had in self.lake.tables.items():
            assert had.stopped or (had.pending, had.rebuilding) == (0, None), f"{table}: {had}"


@pytest.mark.parametrize(
    "seeds", [range(20), pytest.param(range(20, 1000), marks=pytest.mark.full)], ids=lambda seeds: seeds.start
)
def test_a_lake_gets_everything_once_and_all_that_is_due(seeds: range) -> None:
    for seed in seeds:
        life = Life(seed)
        try:
            for _ in range(STEPS):
                life.advance()
            life.settle()
        except (AssertionError, InvariantBroken, KeyError) as error:
            last = "\n".join(map(str, life.facts[-30:]))
            raise AssertionError(f"seed {seed}: {error}\n{last}") from error
