"""A model of the sink: batches of sealed segments go to the lake table by table, with kills between any two commits.

What's done next is decided by `pipeline.lake.step`, and what of it a table lacks by `pipeline.lake.delivery`; what's in
the segments' files was made by `pipeline.journal.segment`. What's modelled are the commits: each is one step, and a
kill takes away all that isn't in one. Now and then somebody removes the lake, too. Held to: behind each batch a table's
live view, mirror and changes, is the one that the stream had at the end of that segment, and its changelog has each row
of the files once.
"""

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field, replace
from random import Random
from typing import NamedTuple

import pyarrow as pa

from pipeline.config.column_protection import UNPROTECTED
from pipeline.config.settings import LakeSettings
from pipeline.journal import segment as journal
from pipeline.journal.entry import Entry, File, FileKind
from pipeline.journal.segment import SegmentTable
from pipeline.lake import delivery
from pipeline.lake import step as spark_sink
from pipeline.lake.background.work import VerifyRows
from pipeline.lake.batch import Batch, LakeTableState, Piece
from pipeline.lake.facts import (
    BeginningFound,
    CursorAnswer,
    CursorFound,
    Fact,
    JournalFound,
    JournalFoundEmpty,
    ProgressReported,
    TableDelivered,
    TablesFound,
    WorkDone,
)
from pipeline.lake.orders import (
    DeliverTable,
    FindCursor,
    FindTables,
    Order,
    ReadBatch,
    ReportProgress,
    RequestRepair,
)
from pipeline.lake.state import Delivering, Idle, State
from pipeline.lake.tables.maintenance import TableSize
from pipeline.lake.verification.runs import LakeVerdict, results, runs_of
from pipeline.messages.journal import Append, ChunkPart, DifferencesReported, SegmentSealed
from pipeline.schema.table_schema import TableId, TableSchema
from pipeline.snapshot.checkpoint import Checkpoint, Ready
from tests.simulation.lake import Lake, Violation, chunk_rows
from tests.simulation.server import Row, Rows
from tests.simulation.story import Story
from tests.simulation.verifying import Key, LakeOfTable, VerifiedRow, Verifying


class Logged(NamedTuple):
    """A row of a changes file."""

    scn: int
    ordinal: int
    op: str
    segment: int
    key: int | None
    value: int | None


class Message(NamedTuple):
    """What a topic gets for a row of a segment: `place` tells the rows of one SCN apart."""

    scn: int
    topic: str
    place: int
    op: str
    key: int | None
    value: int | None


@dataclass
class Table:
    """What's committed of a table: what the lake tells of it, its changelog, and its mirror's rows."""

    told: LakeTableState = field(default_factory=LakeTableState)
    changelog: list[Logged] = field(default_factory=list)
    mirror: list[Row] = field(default_factory=list)

    def changes(self) -> Iterator[Logged]:
        """Those that count beside the mirror."""
        for row in sorted(self.changelog):
            if row.segment > self.told.merged and row.scn > (self.told.generation or 0) and row.op != "t":
                yield row

    def view(self) -> Rows:
        """The live view: the mirror, and over it the last change of each key."""
        assert self.told.schema is not None
        whole = len(self.told.schema.key) > 1
        found: dict[tuple[int | None, ...], Row] = {}
        for row in self.mirror:
            key: tuple[int | None, ...] = row if whole else row[:1]
            if key in found:
                raise Violation(f"{self.told.schema.table}: the mirror has the key {key} twice")
            found[key] = row
        for change in self.changes():
            key = (change.key, change.value) if whole else (change.key,)
            found.pop(key, None)
            if change.op != "d" and change.key is not None and change.value is not None:
                found[key] = (change.key, change.value)
        return dict(found.values())


class Segments:
    """The sealed segments, their files' rows, and what the live views are at the end of each."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self._logged: dict[tuple[int, str], list[Logged]] = {}
        self._rows: dict[tuple[int, str], list[Row]] = {}
        self._verified: dict[tuple[int, str], list[VerifiedRow]] = {}
        self.views: dict[int, dict[TableId, Rows]] = {}
        # What the topics get of each segment: table by table, each in the stream's order.
        self.streams: list[tuple[Message, ...]] = []
        self._appends: list[Append] = []

    def append(self, append: Append) -> None:
        """Put it into the open segment."""
        self._appends.append(append)

    def lose(self) -> None:
        """Lose the open segment."""
        self._appends = []

    def seal(self, lake: Lake) -> None:
        """Make the open segment durable; `lake` has all of it."""
        if not self._appends:
            return
        number = len(self.entries) + 1
        tables = journal.segment_tables(number, journal.parts_of_appends(self._appends), (), UNPROTECTED)
        files = tuple(self._file(number, place, each) for place, each in enumerate(tables))
        before = self.entries[-1].checkpoint if self.entries else None
        self.entries.append(journal.seal(number, self._appends, files, before, 0, UNPROTECTED))
        self.streams.append(tuple(self._messages(number, files)))
        checkpoint = self._appends[-1].checkpoint
        self.views[number] = {
            table: lake.live_view(checkpoint.schemas[table])
            for table in checkpoint.mirrors
            if table not in checkpoint.stopped
        }
        self._appends = []

    def logged(self, pieces: Iterable[Piece]) -> list[Logged]:
        """The rows of these changes files."""
        return [row for piece in pieces for row in self._logged[piece.segment, piece.path]]

    def rows(self, pieces: Iterable[Piece]) -> list[Row]:
        """The rows of these files of first snapshots."""
        return [row for piece in pieces for row in self._rows[piece.segment, piece.path]]

    def verified(self, piece: Piece) -> list[VerifiedRow]:
        """The rows of this file of verifications."""
        return self._verified[piece.segment, piece.path]

    def logged_through(self, table: TableId, through: int) -> list[Logged]:
        """All changes of a table through this segment."""
        files = ((entry.segment, file) for entry in self.entries[:through] for file in entry.files)
        mine = ((n, f) for n, f in files if f.table == table and f.kind is FileKind.CHANGES)
        return [row for number, file in mine for row in self._logged[number, file.path]]

    def _messages(self, number: int, files: tuple[File, ...]) -> Iterator[Message]:
        for table in dict.fromkeys(file.table for file in files):
            of_table = [*self._changed(number, files, table), *self._read(table)]
            yield from sorted(of_table, key=lambda message: message.scn)

    def _changed(self, number: int, files: tuple[File, ...], table: TableId) -> Iterator[Message]:
        for file in files:
            if file.table == table and file.kind is FileKind.CHANGES:
                for row in self._logged[number, file.path]:
                    yield Message(row.scn, str(table), row.ordinal, row.op, row.key, row.value)

    def _read(self, table: TableId) -> Iterator[Message]:
        """The rows of first snapshots: their chunks say where they are in the stream."""
        for part in journal.parts_of_appends(self._appends):
            if isinstance(part, ChunkPart) and part.first and part.schema.table == table:
                for place, row in enumerate(chunk_rows(part)):
                    yield Message(part.scn, str(table), place, "r", *row)

    def _file(self, number: int, place: int, of: SegmentTable) -> File:
        path, table, rows = f"{place}", of.schema.table, of.rows
        if of.kind is FileKind.CHANGES:
            self._logged[number, path] = _logged(rows)
        elif of.kind is FileKind.VERIFIED:
            self._verified[number, path] = _verified(rows)
        else:
            self._rows[number, path] = _rows(rows)
        return File(path, table, of.schema.version, of.kind, len(rows), len(rows), "", of.absent)


class Sink:
    """Delivers what's sealed. A kill leaves the lake's `tables` as they are, and what the journal was told."""

    def __init__(self, segments: Segments, random: Random, story: Story, reached: Counter[str]) -> None:
        self._segments, self._random, self._story, self._reached = segments, random, story, reached
        self.tables: dict[TableId, Table] = {}
        self.verifying = Verifying()
        self.report: DifferencesReported | None = None  # the newest one, until the coordinator takes it
        self.reported: Callable[[State], None] = lambda _: None
        self._told: tuple[int, int | None, int] = (0, None, 0)
        self._most_bytes = random.choice(
            (1, 8, 1000)
        )  # never less than before: a batch is made anew as it was, or longer
        self._start()

    def go_on(self) -> None:
        """Make the next commits; or be killed, and begin anew from what the lake tells."""
        for _ in range(self._random.choice((1, 2, 4))):
            next(self._work)
        if self._random.random() < 0.1:
            self._reached["the sink was killed within a batch"] += isinstance(self._state.doing, Delivering)
            self._story.tell("the sink is killed")
            if self._random.random() < 0.1:
                self._reached["the lake was removed"] += bool(self.tables)
                self._story.tell("the lake is removed")
                self.tables = {}
                self.verifying = Verifying()
            self._start()

    def tamper(self) -> None:
        """Change, remove or add a row of a mirror that readers see, as somebody who has no business there.

        What later changes hide would come to light with a merge, when nobody expects it any more.
        """
        tables = [table for table, lake in self.tables.items() if self._has_mirror(table, lake)]
        if not tables:
            return
        table = self._random.choice(tables)
        lake = self.tables[table]
        view, mirror = lake.view(), lake.mirror
        tampered = self.verifying.tampered.setdefault(table, set())
        id_ = self._random.choice([0, *(row[0] for row in lake.mirror)]) + self._random.choice((-1, 0, 0, 1))
        lake.mirror = [row for row in lake.mirror if row[0] != id_]
        if id_ not in view or self._random.random() < 0.5:
            lake.mirror.append((id_, self._random.randint(100, 200)))
        if lake.view() == view:
            lake.mirror = mirror
            return
        self._story.tell("somebody changes", table, id_)
        tampered.add(id_)

    def _has_mirror(self, table: TableId, lake: Table) -> bool:
        ready = isinstance(self._checkpoint().mirrors.get(table), Ready) if self._segment else False
        return ready and lake.told.schema is not None and lake.told.generation is not None

    def judge_repaired(self) -> None:
        """The last verification of each table has found it equal, or has mended it, if it could be judged."""
        runs = runs_of(self._checkpoint())
        last = {run.table: run.run for run in runs if run.of is None}
        for (name, table), result in results(runs, self._state.background.verified).items():
            if last[table] != name or result is None:
                continue
            said = result.repaired or result.found
            if said.verdict is LakeVerdict.DIFFERENT and not result.found.reason:
                raise Violation(f"{table} isn't mended: {result}")
            if said.verdict is LakeVerdict.EQUAL:
                self.verifying.tampered.pop(table, None)

    def finish(self) -> None:
        """Deliver all that's sealed."""
        while self._segment < len(self._segments.entries) or not isinstance(self._state.doing, Idle):
            next(self._work)
        wanted = self._segments.views.get(self._segment, {})
        for table, lake in self.tables.items():
            if table in wanted and lake.told.schema is not None:
                self._judge_view(table, lake, wanted[table])

    @property
    def entries(self) -> list[Entry]:
        """The sealed segments."""
        return self._segments.entries

    def has_through(self, table: TableId, segment: int) -> bool:
        """Whether a table's changelog has all changes through this segment."""
        wanted = self._segments.logged_through(table, segment)
        return not wanted or (table in self.tables and self.tables[table].changelog[: len(wanted)] == wanted)

    @property
    def _segment(self) -> int:
        return self._state.so_far.segment

    def _start(self) -> None:
        self._state = State(LakeSettings("lake"))
        self._landed: list[TableId] = []
        self._work = self._works()
        self.reported(self._state)

    def _works(self) -> Iterator[None]:
        entries = self._segments.entries
        yield from self._take_in(JournalFound(entries[-1].checkpoint, 0) if entries else JournalFoundEmpty())
        while True:
            if self._segment < len(entries):
                yield from self._take_in(SegmentSealed(len(entries)))
            elif self.tables and self._segment:
                self._merge(self._random.choice(list(self.tables)))
            yield

    def _take_in(self, fact: Fact) -> Iterator[None]:
        facts = [fact]
        while facts:
            self._state, orders = spark_sink.step(self._state, facts.pop(0), 0.0)
            self.reported(self._state)
            for order in self._random.sample(orders, len(orders)):  # they're carried out side by side
                following = yield from self._carry_out(order)
                facts += [] if following is None else [following]

    def _carry_out(self, order: Order) -> Generator[None, None, Fact | None]:
        match order:
            case FindTables(tables):
                return TablesFound(
                    {t: self.tables[t].told if t in self.tables else LakeTableState() for t in tables}
                )
            case FindCursor():
                return self._place(order)
            case ReadBatch(after, through):
                left = iter(self._segments.entries[after:through])
                read = spark_sink.next_batch_of(self._state, left, self._most_bytes)
                self._reached["a batch of several segments"] += read.batch.through > read.batch.after + 1
                return read
            case DeliverTable(table, before, _, batch):
                self._landed.append(table)
                return TableDelivered(table, (yield from self._deliver(table, before, batch)))
            case ReportProgress(batch, said, brought=brought):
                self._story.tell("delivered through segment", batch.through)
                while self._landed:
                    self._judge(self._landed.pop(0), batch)
                yield
                self._told = batch.through, said, brought
                return ProgressReported()
            case VerifyRows() as work:
                yield
                found = self.verifying.compare(work, self._seen(work.table), self._reached)
                return WorkDone(TableSize(), None, found)
            case RequestRepair(run, found):
                keys, last = self.verifying.keys_to_repair(run, 2) if found else ([], True)
                assert run.awaits is not None
                schema = self.tables[run.table].told.schema
                differing = _key_rows(schema, keys) if keys and schema is not None else None
                self.report = DifferencesReported(run.run, run.table, run.awaits, differing, last)
                return None
            case _:
                raise Violation(f"nothing has gone from the journal or the lake, and yet: {order}")

    def _place(self, lake: FindCursor) -> CursorAnswer:
        whole = spark_sink.complete_through(lake, *self._told)
        self.tell_at_start(whole, lake)
        if not whole:
            return BeginningFound(0)
        return CursorFound(whole, self._segments.entries[whole - 1].checkpoint)

    def _deliver(
        self, table: TableId, present: LakeTableState, batch: Batch
    ) -> Generator[None, None, LakeTableState]:
        lake = self.tables.setdefault(table, Table())
        todo = delivery.accept_batch(present, table, batch)
        verified = todo.pieces.verified
        self.verifying.place(table, verified, map(self._segments.verified, verified))
        if todo.reason:
            raise Violation(f"{table} can't be delivered: {todo.reason}")
        if todo.schema is None:
            return present
        columns = tuple(each.column for each in todo.plan.columns)
        taken = replace(present, schema=todo.schema, since=todo.since, columns=columns)
        if (present.schema, present.since) != (todo.schema, todo.since):
            self._tell(lake, schema=taken.schema, since=taken.since, columns=taken.columns)
            yield
        before = -1 if present.generation is None else present.generation
        if todo.generation is not None and before < todo.generation:
            self._reached["a mirror in the lake was emptied"] += bool(lake.mirror)
            lake.mirror = []
            self._tell(lake, generation=todo.generation, mirror_since=todo.since)
            yield
        elif todo.generation is not None and present.mirror_since < todo.since:
            self._tell(lake, mirror_since=todo.since)
            yield
        if todo.pieces.changes:
            self._reached["a batch was delivered again in part"] += lake.told.changes > batch.after
            lake.changelog += self._segments.logged(todo.pieces.changes)
            self._tell(lake, changes=todo.through, after=self.told_after(batch))
            yield
        if todo.pieces.rows:
            lake.mirror += self._segments.rows(todo.pieces.rows)
            self._tell(lake, rows=todo.through, after=self.told_after(batch))
            yield
        return replace(
            taken,
            mirror_since=todo.since,
            generation=todo.generation,
            changes=batch.through,
            rows=batch.through,
            after=batch.after,
        )

    def tell_at_start(self, segment: int, lake: FindCursor) -> None:
        """Tell the journal where it goes on: another lake may have been here before."""
        self._told = segment, lake.reported, lake.brought

    def told_after(self, batch: Batch) -> int:
        """The segment through which every table has everything, as a commit of this batch says it."""
        return batch.after

    def _tell(self, lake: Table, **told: object) -> None:
        lake.told = replace(lake.told, **told)  # type: ignore[arg-type]

    def _merge(self, table: TableId) -> None:
        """Merge into a mirror that no snapshot fills any more."""
        lake, checkpoint = self.tables[table], self._checkpoint()
        ready = isinstance(checkpoint.mirrors.get(table), Ready) and lake.told.generation is not None
        if not ready:
            return
        self._reached["changes were merged into a mirror"] += lake.told.merged < self._segment
        lake.mirror = list(lake.view().items())
        self._tell(lake, merged=self._segment)

    def _seen(self, table: TableId) -> LakeOfTable | None:
        """What a comparison sees of a table, None if its mirror isn't whole."""
        if (lake := self.tables.get(table)) is None:
            return None
        told = lake.told
        if told.schema is None or told.generation is None:
            return None
        seen = LakeOfTable(told.schema, told.generation, lake.view(), {})
        for row in lake.changelog:
            if row.key is not None:
                seen.changed[seen.key((row.key, row.value or 0))] = row.scn
        return seen

    def _checkpoint(self) -> Checkpoint:
        return self._segments.entries[self._segment - 1].checkpoint

    def _judge(self, table: TableId, batch: Batch) -> None:
        lake, wanted = self.tables[table], self._segments.views[batch.through]
        told = lake.told
        if told.schema is None:
            return
        rows = self._segments.logged_through(table, max(batch.through, told.changes))
        if lake.changelog != rows:
            raise Violation(
                f"{table}: the changelog is {lake.changelog} behind segment {batch.through}, the stream has {rows}"
            )
        # As it was killed in a later batch, which may have begun the mirror anew and no more than that.
        mirror = batch.checkpoint.mirrors.get(table)
        begun = mirror is not None and (told.generation or 0) > mirror.since
        ahead = begun or max(told.changes, told.rows) > batch.through
        if table in wanted and not ahead:
            self._judge_view(table, lake, wanted[table])

    def _judge_view(self, table: TableId, lake: Table, wanted: Rows) -> None:
        """What nobody has changed is as in the stream."""
        tampered = self.verifying.tampered.get(table, ())
        view, stream = (
            {key: value for key, value in rows.items() if key not in tampered}
            for rows in (lake.view(), wanted)
        )
        if view != stream:
            raise Violation(f"{table}: the lake's live view is {view}, the stream's {stream}")


def _logged(rows: pa.Table) -> list[Logged]:
    names = ("__scn", "__ordinal", "__op", "__segment", "id", "value")
    return [Logged(*row) for row in zip(*(rows[name].to_pylist() for name in names), strict=True)]


def _verified(rows: pa.Table) -> list[VerifiedRow]:
    names = ("__chunk", "__scn", "__op", "id", "value")
    return [
        VerifiedRow(run, scn, (key, value or 0), op == "d")
        for run, scn, op, key, value in zip(*(rows[name].to_pylist() for name in names), strict=True)
    ]


def _key_rows(schema: TableSchema, keys: list[Key]) -> pa.RecordBatch:
    columns = [pa.array(part, pa.int64()) for part in zip(*keys, strict=True)]
    return pa.RecordBatch.from_arrays(columns, names=list(schema.key_names))


def _rows(rows: pa.Table) -> list[Row]:
    return list(zip(rows["id"].to_pylist(), rows["value"].to_pylist(), strict=True))
