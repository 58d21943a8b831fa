"""A table's history, as a journal and as a plain dictionary, to hold the lake against."""

import copy
import random
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from actors.journal.store import JournalStore
from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.gtid_set import GtidSet
from pipeline.journal.change_rows import changes_schema, chunk_table
from pipeline.journal.entry import CommitTimes, Entry, FileKind, ProtectedTable, SealedChunk
from pipeline.journal.segment import SegmentTable
from pipeline.messages.journal import ChunkPart
from pipeline.schema.ddl.alter_table import Alteration, Altered
from pipeline.schema.table_schema import TableId, TableSchema
from pipeline.snapshot.checkpoint import Checkpoint, Filling, Mirror, Ready
from pipeline.snapshot.snapshot import (
    ChunkId,
    Completed,
    Progress,
    Repairing,
    Snapshot,
    SnapshotWaiting,
    TableSnapshot,
    Verification,
)

SOURCE = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
Row = tuple[Any, ...]
FILLING, READY = Filling(0), Ready(0)
HIGH = Coordinates("binlog.000001", 4)


@dataclass
class Table:
    """A table: its schema, its mirror's state, the source's rows by key, and those of them that the lake is to know.

    `changes` and `chunk` are what the open segment holds: (op, scn, ordinal, row) and rows of the first snapshot.
    `absent`: the columns that the log left out of a change, by its scn and ordinal. `segment`: the open one.
    `us_apart`: the time between two commits.
    `verified`: what a verification has read in it, with its name and the scn. `parts`: what its repair has.
    """

    schema: TableSchema
    segment: int
    mirror: Mirror | None = None
    source: dict[Row, Row] = field(default_factory=dict)
    rows: dict[Row, Row] = field(default_factory=dict)
    changes: list[tuple[str, int, int, Row]] = field(default_factory=list)
    chunk: list[Row] = field(default_factory=list)
    absent: dict[tuple[int, int], list[str]] = field(default_factory=dict)
    us_apart: int = 1
    sealed: list[SegmentTable] = field(default_factory=list)
    verified: list[tuple[str, int, Row]] = field(default_factory=list)
    parts: list[ChunkPart] = field(default_factory=list)

    def key(self, row: Row) -> Row:
        return tuple(row[i] for i in self.schema.key)

    def close_version(self) -> None:
        """Makes files of what the open segment has under the present schema."""
        schema = self.schema
        if self.changes:
            columns = list(
                zip(*[(op, scn, ordinal, *row) for op, scn, ordinal, row in self.changes], strict=True)
            )
            count = len(self.changes)
            meta: list[Iterable[Any]] = [
                *columns[:3],
                [f"{SOURCE}:{scn}" for scn in columns[1]],
                [1_700_000_000_000_000 + scn * self.us_apart for scn in columns[1]],
                [None] * count,
                [self.absent.get((scn, ordinal)) for scn, ordinal in zip(*columns[1:3], strict=True)],
                [self.segment] * count,
            ]
            arrays = [
                pa.array(list(values), field.type)
                for values, field in zip([*meta, *columns[3:]], changes_schema(schema), strict=True)
            ]
            table = pa.Table.from_arrays(arrays, schema=changes_schema(schema))
            self.sealed.append(SegmentTable(schema, FileKind.CHANGES, table))
        if self.chunk:
            arrays = [
                pa.array(list(values), field.type)
                for values, field in zip(zip(*self.chunk, strict=True), schema.arrow, strict=True)
            ]
            self.sealed.append(
                SegmentTable(schema, FileKind.ROWS, pa.Table.from_arrays(arrays, schema=schema.arrow))
            )
        for run, scn in dict.fromkeys((run, scn) for run, scn, _ in self.verified):
            rows = [row for *of, row in self.verified if of == [run, scn]]
            chunk = ChunkPart(
                ChunkId(run, schema.table, 1),
                schema,
                _batch(schema, rows),
                GtidSet(),
                HIGH,
                scn,
                False,
                verifies=True,
            )
            self.sealed.append(SegmentTable(schema, FileKind.VERIFIED, chunk_table(self.segment, chunk)))
        for part in self.parts:
            kind = FileKind.VERIFIED if part.verifies else FileKind.CHANGES
            self.sealed.append(SegmentTable(schema, kind, chunk_table(self.segment, part)))
        self.changes, self.chunk, self.verified, self.parts = [], [], [], []


class History:
    """A real journal that tests write, segment by segment.

    `altered`: what statements did to columns before the open segment's first row. `chunks`: those that it has.
    `at_source`: the columns of tables that have other columns at the source, as they have with protected ones.
    `sealed_at`: when each segment is sealed.
    """

    def __init__(self, location: str | Path) -> None:
        self.store = JournalStore.open_single_writer(location, "test")
        self.tables: dict[TableId, Table] = {}
        self.altered: list[Altered] = []
        self.chunks: list[SealedChunk] = []
        self.at_source: dict[TableId, TableSchema] = {}
        self.scn = 0
        self.segment = 0
        self.sealed_scn = 0
        self.position = GtidSet()
        self.snapshots: tuple[Snapshot, ...] = ()
        self.scanned: frozenset[TableId] = frozenset()
        self.stopped: dict[TableId, str] = {}
        self.sealed_at = 1_700_000_000_000_000

    def copy(self, directory: Path) -> "History":
        """A copy of the journal, which continues by itself. Its segments are sealed at other moments."""
        shutil.copytree(self.store.directory, directory)
        made = copy.copy(self)
        made.store = JournalStore.open_single_writer(directory, "test")
        made.store.recover()
        made.tables = {id_: copy.deepcopy(each) for id_, each in self.tables.items()}
        made.sealed_at += 1
        return made

    def table(self, schema: TableSchema, mirror: Mirror | None = READY) -> Table:
        """Add a table."""
        self.tables[schema.table] = Table(schema, self.segment + 1, mirror)
        return self.tables[schema.table]

    def transaction(self, *changes: tuple[Table, str, Row]) -> None:
        """Commit changes: (table, c, u, d or r, the whole row)."""
        self.scn += 1
        for ordinal, (table, op, row) in enumerate(changes):
            table.changes.append((op, self.scn, ordinal, row))
            for known in (table.source, table.rows):
                known.pop(table.key(row), None)
                if op != "d":
                    known[table.key(row)] = row

    def chunk(self, table: Table, keys: Iterable[Row]) -> None:
        """Emit a chunk of the table's first snapshot: what the source has of these keys at this place."""
        self.scn += 1
        found = {key: table.source[key] for key in keys if key in table.source}
        table.chunk += found.values()
        table.rows |= found
        chunk = ChunkId("s", table.schema.table, self.scn)
        self.chunks.append(SealedChunk(chunk, GtidSet(), HIGH, len(found), self.scn))

    def read_again(self, table: Table, keys: Iterable[Row]) -> None:
        """Emit what the source has of these keys, as changes without a GTID."""
        self.scn += 1
        rows = _batch(table.schema, [table.source[key] for key in keys])
        chunk = ChunkId("s", table.schema.table, self.scn)
        table.parts.append(ChunkPart(chunk, table.schema, rows, GtidSet(), HIGH, self.scn, False))

    def begin_verification(self, run: str, table: Table, *, repairs: bool = False) -> None:
        """Begin a verification of the table here."""
        self.scn += 1
        states: dict[TableId, TableSnapshot] = {table.schema.table: SnapshotWaiting()}
        self.snapshots += (Snapshot(run, states, verification=Verification(self.scn, repairs=repairs)),)

    def verify(self, run: str, table: Table, keys: Iterable[Row]) -> None:
        """Emit a chunk of a verification: what the source has of these keys at this place."""
        self.scn += 1
        table.verified += [(run, self.scn, table.source[key]) for key in keys if key in table.source]

    def end_verification(self, run: str, table: Table, rows: int) -> None:
        """End a verification of the table here. It has read so many rows."""
        self._progress(run, table, lambda snapshot: snapshot.read_whole(Progress(rows=rows)))

    def repair(self, run: str, table: Table, keys: pa.RecordBatch, *, last: bool = True) -> None:
        """Emit what the source has of these keys, as changes and then to be compared, as a batch of a repair."""
        named = list(zip(*(column.to_pylist() for column in keys), strict=True))
        rows = _batch(table.schema, [table.source[key] for key in named if key in table.source])
        gone = keys.filter(pa.array([key not in table.source for key in named]))
        chunk = ChunkId(run, table.schema.table, 1)
        for verifies in (False, True):
            self.scn += 1
            table.parts.append(
                ChunkPart(
                    chunk, table.schema, rows, GtidSet(), HIGH, self.scn, False, verifies=verifies, gone=gone
                )
            )

        def repaired(snapshot: Snapshot) -> TableSnapshot:
            was = snapshot.tables[table.schema.table]
            assert isinstance(was, Repairing)
            counts = was.progress, was.batches + 1, was.reread + len(named)
            return Completed(*counts) if last else Repairing(*counts)

        self._progress(run, table, repaired)

    def _progress(self, run: str, table: Table, state: Callable[[Snapshot], TableSnapshot]) -> None:
        self.snapshots = tuple(
            replace(each, tables={table.schema.table: state(each)}) if each.id == run else each
            for each in self.snapshots
        )

    def restart(self, table: Table, schema: TableSchema, mirror: type[Filling] | type[Ready]) -> None:
        """Begins the table again here, perhaps with another schema: emptied, or with rows that the lake has to read."""
        table.close_version()
        table.sealed = [piece for piece in table.sealed if piece.kind is not FileKind.ROWS]
        table.schema, table.mirror = schema, mirror(self.scn)
        table.rows = {}
        if mirror is Ready:
            table.source = {}
            self.altered.append(Altered(self.scn, Alteration(schema, "TRUNCATE TABLE", emptied=True)))

    def seal(self, commit_times: CommitTimes | None = None, *, idle: bool = False) -> int:
        """Seal what came since the last time as a segment; its number. `idle`: the source has committed nothing."""
        self.segment += 1
        sealed: list[SegmentTable] = []
        for table in self.tables.values():
            table.close_version()
            sealed += table.sealed
            table.sealed = []
            table.segment += 1
        if not idle:
            self.position = GtidSet.parse(f"{SOURCE}:1-{self.scn + 1}")
        checkpoint = Checkpoint(
            self.position,
            self.scn,
            schemas={id_: table.schema for id_, table in self.tables.items()} | self.at_source,
            mirrors={id_: table.mirror for id_, table in self.tables.items() if table.mirror},
            snapshots=self.snapshots,
            stopped=dict(self.stopped),
            scanned=self.scanned,
        )
        named = [piece.schema for piece in sealed] + list(checkpoint.schemas.values())
        named += [each.alteration.schema for each in self.altered]
        protected = {id_: ProtectedTable(self.tables[id_].schema, "rules") for id_ in self.at_source}
        named += [each.schema for each in protected.values()]
        self.store.publish(
            Entry(
                segment=self.segment,
                files=self.store.write(self.segment, sealed),
                first_scn=self.sealed_scn + 1,
                last_scn=self.scn,
                transactions=1,
                commit_times=commit_times,
                chunks=tuple(self.chunks),
                checkpoint=checkpoint,
                schemas={schema.version: schema for schema in named},
                sealed_at=self.sealed_at,
                alterations=tuple(self.altered),
                protected=protected,
                position_stays=idle,
            )
        )
        self.altered, self.chunks = [], []
        self.sealed_scn = self.scn
        return self.segment


def _batch(schema: TableSchema, rows: list[Row]) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema.columns)
    arrays = [pa.array(list(values), field.type) for values, field in zip(columns, schema.arrow, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema.arrow)


def random_step(
    history: History, table: Table, some: random.Random, row: Callable[[random.Random], Row]
) -> None:
    """One random transaction of a table: rows come, change, change their key, go, come back, many times over."""
    changes: list[tuple[Table, str, Row]] = []
    there = dict(table.source)
    for _ in range(some.randint(1, 6)):
        new = row(some)
        if there and some.random() < 0.6:
            old = some.choice(list(there.values()))
            there.pop(table.key(old))
            if some.random() < 0.4:
                changes.append((table, "d", old))
                continue
            if table.key(new) not in there and some.random() < 0.4:
                changes.append((table, "d", old))  # an update that changes the key
            else:
                new = tuple(old[i] if i in table.schema.key else value for i, value in enumerate(new))
        there[table.key(new)] = new
        changes.append((table, "u", new))
    history.transaction(*changes)
