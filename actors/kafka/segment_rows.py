"""The rows of a segment in the order in which they become messages: table by table, each in the order of the stream.

Tables that may share a topic are read in step, so that their messages can be put into the order of the stream. All
tables of a source transaction that may be split are. So a number of its rows says which they are, whatever tables share
a topic at the next start.

A chunk of a first snapshot has no SCN in its file. The segment's entry has it, and so the chunk's place among the
table's changes.
"""

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from actors.journal.segment_file import rows_at_once
from actors.journal.store import JournalReader
from pipeline.errors import InvariantBroken
from pipeline.journal.change_rows import chunk_changes
from pipeline.journal.entry import Entry, File, FileKind, SealedChunk
from pipeline.kafka import portions
from pipeline.kafka.debezium import transactions
from pipeline.kafka.debezium.changed_rows import BEFORE, CREATE, DELETE, LETTERS, UPDATE, whole_rows
from pipeline.kafka.debezium.transactions import ChangedRows
from pipeline.kafka.portions import Capacity, Portion
from pipeline.schema.table_schema import TableId, TableSchema

# How many rows become messages at once, at most, and about how many bytes of them.
ROWS_CONVERTED_TOGETHER: Final = 20_000
TOGETHER_BYTES: Final = 16 << 20
# No batch has more bytes than this, unless it is one row.
_MOST_BYTES: Final = 4 * TOGETHER_BYTES
_SIDES: Final[tuple[Literal["left"], Literal["right"]]] = ("left", "right")
# How many rows are read at once of which only the journal's own columns are.
_NARROW: Final = 1 << 20


class Narrowing(Protocol):
    """Which rows become messages, and which of the table's own columns that depends on."""

    def needed(self, schema: TableSchema) -> tuple[str, ...]:
        """Returns the columns."""

    def narrowed(self, schema: TableSchema, changes: pa.RecordBatch) -> pa.RecordBatch:
        """Returns the rows."""


@dataclass(frozen=True, slots=True)
class TableRows:
    """Rows of one table, in the form of a changes file. Two rows that belong together are in the same batch."""

    schema: TableSchema
    rows: pa.RecordBatch


# Rows of tables that may share a topic: all that these tables have from one place in the stream through another.
InStep = tuple[TableRows, ...]

# What is the same of two tables that may share a topic, and only of them.
Sharing = Callable[[TableId], str]


def all_in_step(_: TableId) -> str:
    """Returns what is the same of all tables, so that they are read in step."""
    return ""


# All rows of a table in a segment, in their order.
TablePass = Callable[[Entry, TableId], Iterator[TableRows]]


class SegmentRows:
    """Reads segments of a journal.

    It calls `advanced` for each batch that it reads: a call here may read a whole segment. What that raises ends it.
    """

    def __init__(self, journal: JournalReader, advanced: Callable[[], None] = lambda: None) -> None:
        self._journal = journal
        self._advanced = advanced
        self._pass: _Pass | None = None
        self._begun: PortionRows | None = None

    def plan(self, entry: Entry, after_scn: int, capacity: Capacity, *, split: bool) -> tuple[Portion, ...]:
        """Returns the portions of a segment's rows and statements after an SCN; see
        `pipeline.kafka.portions.plan_portions`."""
        return portions.plan_portions(
            entry, after_scn, capacity, lambda: self._scns_of_rows(entry), split=split
        )

    def rows(self, entry: Entry, portion: Portion, sharing: Sharing, skip: int = 0) -> "PortionRows":
        """Returns the rows of a portion after the first `skip` ones, those of tables that share a topic in step.

        Those first ones are table by table, and in the order of the stream of tables that are read in step.

        If the portions are read in their order, each to its end, the segment's files are read once. That holds too for
        a portion that is read in parts, each from where the one before ended.
        """
        before, self._begun = self._begun, None
        if before is None or not before.is_at(entry, portion, sharing, skip):
            before = PortionRows(entry, portion, sharing, skip, self._read(entry, portion, sharing, skip))
        self._begun = before
        return before

    def _read(self, entry: Entry, portion: Portion, sharing: Sharing, skip: int) -> Iterator[InStep]:
        before, self._pass = self._pass, None
        reading = before if before is not None and before.comes_to(entry, portion) else _Pass(entry)
        for tables in _by_sharing(entry, sharing):
            for parts in _in_step([reading.rows(table, portion, self._of_table) for table in tables]):
                skipped, left = _after(parts, skip)
                skip -= skipped
                if left:
                    yield from _few_at_once(left)
        reading.through = portion.last_scn
        self._pass = reading

    def changed(self, entry: Entry, portion: Portion, narrowing: Narrowing) -> ChangedRows:
        """Returns what the transactions of a portion changed: the rows that become messages, without their values."""
        return ChangedRows.of(self._changed(entry, portion, narrowing))

    def _changed(
        self, entry: Entry, portion: Portion, narrowing: Narrowing
    ) -> Iterator[tuple[TableId, pa.RecordBatch]]:
        for file in entry.files:
            if file.kind is not FileKind.CHANGES:
                continue
            schema = entry.schemas[file.version]
            needed = narrowing.needed(schema)
            with self._opened(entry, file) as parquet:
                together = _together(parquet) if needed else _NARROW
                columns = [*transactions.COLUMNS, *needed]
                for batch in _whole_batches(self._batches(parquet, together, columns)):
                    begin, end = _within(batch, portion)
                    if begin < end:
                        rows = narrowing.narrowed(schema, batch.slice(begin, end - begin))
                        yield file.table, rows.drop_columns(list(needed))

    def _scns_of_rows(self, entry: Entry) -> NDArray[np.int64]:
        files = portions.stream_files(entry)
        return np.concatenate([np.empty(0, np.int64), *(self._scns(entry, file) for file in files)])

    def _scns(self, entry: Entry, file: File) -> NDArray[np.int64]:
        if file.kind is FileKind.ROWS:
            # All rows files of a table come together; which of them has a chunk doesn't matter here.
            own = [each for each in entry.files if each.kind is FileKind.ROWS and each.table == file.table]
            chunks = self._first_chunks(entry, file.table) if file is own[0] else []
            return np.repeat([_scn(entry, c) for c in chunks], [c.rows for c in chunks]).astype(np.int64)
        with self._opened(entry, file) as parquet:
            batches = self._batches(parquet, _NARROW, ["__scn"])
            scns = (np.asarray(batch.column("__scn"), np.int64) for batch in batches)
            return np.concatenate([np.empty(0, np.int64), *scns])

    def _of_table(self, entry: Entry, table: TableId) -> Iterator[TableRows]:
        """Returns the changes of a table, with its chunks between them."""
        chunks = deque((_scn(entry, chunk), chunk) for chunk in self._first_chunks(entry, table))
        read = _Chunks(self._rows_batches(entry, table))
        for part in self._changes(entry, table):
            rest = part.rows
            scns = np.asarray(rest.column("__scn"))
            while chunks and chunks[0][0] < scns[-1]:
                scn, chunk = chunks.popleft()
                before = int(np.searchsorted(scns, scn))
                if before:
                    yield TableRows(part.schema, rest.slice(0, before))
                rest, scns = rest.slice(before), scns[before:]
                yield from read.rows(chunk, scn)
            yield TableRows(part.schema, rest)
        for scn, chunk in chunks:
            yield from read.rows(chunk, scn)

    def _changes(self, entry: Entry, table: TableId) -> Iterator[TableRows]:
        """Returns the changes of a table. Its columns may be again what they were: then a file has rows from before and
        after those of another one.
        """
        own = [each for each in entry.files if each.table == table and each.kind is FileKind.CHANGES]
        versions = dict.fromkeys(file.version for file in own)
        if len(versions) < 2:
            yield from self._read_files(entry, own)
            return
        lanes = [[file for file in own if file.version == version] for version in versions]
        for parts in _in_step([self._read_files(entry, files) for files in lanes]):
            yield from _alternating(parts)

    def _read_files(self, entry: Entry, files: Iterable[File]) -> Iterator[TableRows]:
        for file in files:
            with self._opened(entry, file) as parquet:
                for rows in _whole_batches(self._batches(parquet, _together(parquet))):
                    yield TableRows(entry.schemas[file.version], rows)

    def _rows_batches(self, entry: Entry, table: TableId) -> Iterator[TableRows]:
        for file in entry.files:
            if file.table == table and file.kind is FileKind.ROWS:
                with self._opened(entry, file) as parquet:
                    for batch in self._batches(parquet, _together(parquet)):
                        yield TableRows(entry.schemas[file.version], batch)

    def _first_chunks(self, entry: Entry, table: TableId) -> list[SealedChunk]:
        """Returns the chunks of a table that are in its rows files, in their order."""
        kinds = {file.kind for file in entry.files if file.table == table}
        if FileKind.ROWS not in kinds:
            return []
        chunks = [each for each in entry.chunks if each.chunk.table == table]
        rows = sum(file.rows for file in entry.files if file.table == table and file.kind is FileKind.ROWS)
        if sum(chunk.rows for chunk in chunks) != rows:
            among_changes = self._chunks_among_changes(entry, table)
            chunks = [each for each in chunks if str(each.chunk) not in among_changes]
        if sum(chunk.rows for chunk in chunks) != rows:
            raise InvariantBroken(
                f"segment {entry.segment} has {rows} rows of chunks of {table}, and names others"
            )
        return chunks

    def _chunks_among_changes(self, entry: Entry, table: TableId) -> set[str]:
        found: set[str] = set()
        for file in entry.files:
            if file.table == table and file.kind is FileKind.CHANGES:
                with self._opened(entry, file) as parquet:
                    for batch in self._batches(parquet, _NARROW, ["__chunk"]):
                        found |= set(batch.column("__chunk").unique().to_pylist())
        return found

    def _batches(
        self, parquet: pq.ParquetFile, together: int, columns: Sequence[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        for batch in parquet.iter_batches(together, columns=columns):
            self._advanced()
            yield batch

    def _opened(self, entry: Entry, file: File) -> pq.ParquetFile:
        filesystem = self._journal.files.filesystem
        return pq.ParquetFile(filesystem.open_input_file(self._journal.file(entry.segment, file.path)))


class PortionRows(Iterator[InStep]):
    """The rows of a portion, from a place on: an iterator that can be left, and continued at the same place.

    `at`: how many of the portion's rows came before the next one, None once reading has failed.
    """

    def __init__(
        self, entry: Entry, portion: Portion, sharing: Sharing, skip: int, parts: Iterator[InStep]
    ) -> None:
        self._entry = entry
        self._portion = portion
        self._sharing = sharing
        self._parts = parts
        self._next: InStep | None = None
        self.at: int | None = skip

    def is_at(self, entry: Entry, portion: Portion, sharing: Sharing, skip: int) -> bool:
        """Returns whether the portion's rows after the first `skip` ones come next, in the same order."""
        own = self._portion
        same = (own.first_scn, own.last_scn) == (portion.first_scn, portion.last_scn)
        return self._entry is entry and same and self._sharing == sharing and self.at == skip

    def __next__(self) -> InStep:
        at, self.at = self.at, None
        parts, self._next = self._next, None
        if parts is None:
            parts = next(self._parts)
        self.at = None if at is None else at + _count(parts)
        return parts

    def put_back(self, parts: InStep) -> None:
        """Takes back what `next` has returned last, so that it comes next."""
        self._next, self.at = parts, None if self.at is None else self.at - _count(parts)


def _count(parts: InStep) -> int:
    return sum(part.rows.num_rows for part in parts)


def _whole_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Returns the rows of a changes file, about as many at once.

    Two rows that belong together are in the same batch.
    """
    held: pa.RecordBatch | None = None
    for batch in batches:
        for some in _bounded(batch):
            rows = pa.concat_batches([held, some]) if held else some
            kept = whole_rows(rows)
            if kept:
                yield rows.slice(0, kept)
            held = rows.slice(kept)
    if held:
        yield held


def _bounded(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Returns the rows in pieces of at most _MOST_BYTES, or of one row. A few rows may have most bytes of a file."""
    if batch.nbytes <= _MOST_BYTES or batch.num_rows <= 1:
        yield batch
        return
    half = batch.num_rows // 2
    yield from _bounded(batch.slice(0, half))
    yield from _bounded(batch.slice(half))


class _Pass:
    """One pass over a segment's tables, portion by portion; `through`: the last SCN that it has read of each table."""

    def __init__(self, entry: Entry) -> None:
        self.through = 0
        self._entry = entry
        self._parts: dict[TableId, Iterator[TableRows]] = {}
        self._rest: dict[TableId, TableRows] = {}

    def comes_to(self, entry: Entry, portion: Portion) -> bool:
        """Returns whether this pass still reaches the portion."""
        return self._entry is entry and self.through < portion.first_scn

    def rows(self, table: TableId, portion: Portion, read: TablePass) -> Iterator[TableRows]:
        """Returns the rows of a table in the portion; `read` reads all of the table's rows in the segment."""
        if table not in self._parts:
            self._parts[table] = read(self._entry, table)
        while (part := self._rest.pop(table, None) or next(self._parts[table], None)) is not None:
            begin, end = _within(part.rows, portion)
            if end < part.rows.num_rows:
                self._rest[table] = TableRows(part.schema, part.rows.slice(end))
            if begin < end:
                yield TableRows(part.schema, part.rows.slice(begin, end - begin))
            if table in self._rest:
                return


class _Chunks:
    """Takes one chunk after the other from the batches of their files."""

    def __init__(self, batches: Iterator[TableRows]) -> None:
        self._batches = batches
        self._rest: TableRows | None = None

    def rows(self, chunk: SealedChunk, scn: int) -> Iterator[TableRows]:
        """Returns the rows of the next chunk."""
        count = chunk.rows
        while count:
            part = self._rest or next(self._batches)
            taken = part.rows.slice(0, count)
            rest = part.rows.slice(taken.num_rows)
            self._rest = TableRows(part.schema, rest) if rest.num_rows else None
            count -= taken.num_rows
            yield TableRows(part.schema, chunk_changes(taken, chunk.chunk, scn, 0, chunk.at))


def _by_sharing(entry: Entry, sharing: Sharing) -> Iterable[list[TableId]]:
    """Returns the tables of a segment. Those that may share a topic are in one list."""
    groups: dict[str, list[TableId]] = {}
    for table in dict.fromkeys(file.table for file in portions.stream_files(entry)):
        groups.setdefault(sharing(table), []).append(table)
    return groups.values()


def _in_step(tables: Iterable[Iterator[TableRows]]) -> Iterator[InStep]:
    """Returns the rows of tables, each time all through the place where the first of their next parts ends."""
    heads = [(part, rest) for rest in tables if (part := next(rest, None)) is not None]
    while heads:
        through = min(_last_place(part.rows) for part, _ in heads)
        taken, left = list[TableRows](), list[tuple[TableRows, Iterator[TableRows]]]()
        for part, rest in heads:
            end = _end(part.rows, *through)
            if end:
                taken.append(TableRows(part.schema, part.rows.slice(0, end)))
            if end < part.rows.num_rows:
                left.append((TableRows(part.schema, part.rows.slice(end)), rest))
            elif (following := next(rest, None)) is not None:
                left.append((following, rest))
        heads = left
        yield tuple(taken)


def _few_at_once(parts: InStep) -> Iterator[InStep]:
    """Returns rows of several tables in the order of the stream, about so many at once as those of one table.

    A Kafka transaction ends between two of these.
    """
    count, size = sum(part.rows.num_rows for part in parts), sum(part.rows.nbytes for part in parts)
    most = max(1, min(ROWS_CONVERTED_TOGETHER, TOGETHER_BYTES * count // max(1, size)))
    if len(parts) == 1 or count <= most:
        yield parts
        return
    of, at = _stream_order(parts), [0] * len(parts)
    together = _updates(parts, of)
    begin = 0
    while begin < count:
        end = min(begin + most, count)
        end += int(end < count and together[end])
        taken = np.bincount(of[begin:end], minlength=len(parts)).tolist()
        yield tuple(
            TableRows(part.schema, part.rows.slice(first, rows))
            for part, first, rows in zip(parts, at, taken, strict=True)
            if rows
        )
        at = [first + rows for first, rows in zip(at, taken, strict=True)]
        begin = end


def _updates(parts: InStep, of: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Returns for each place in the order of the stream whether the row there may belong to the one before."""
    letters = pa.chunked_array([part.rows.column("__op") for part in parts])
    of_parts = np.asarray(pc.index_in(letters, LETTERS))
    ops = np.empty_like(of_parts)
    ops[np.argsort(of, kind="stable")] = of_parts
    follows = np.isin(ops[1:], (CREATE, UPDATE)) & np.isin(ops[:-1], (BEFORE, DELETE))
    return np.concatenate([[False], follows])


def _alternating(parts: InStep) -> Iterator[TableRows]:
    """Returns the rows of several parts in the order of the stream, as long as possible of one part."""
    of, at = _stream_order(parts), [0] * len(parts)
    begins = [0, *(np.flatnonzero(np.diff(of)) + 1).tolist(), len(of)]
    for begin, end in itertools.pairwise(begins):
        number, count = int(of[begin]), end - begin
        part, first = parts[number], at[number]
        yield TableRows(part.schema, part.rows.slice(first, count))
        at[number] = first + count


def _stream_order(parts: InStep) -> NDArray[np.int64]:
    """Returns for each place in the order of the stream whose of the parts the row there is."""
    scns, ordinals = (
        np.concatenate([np.asarray(part.rows.column(name)) for part in parts])
        for name in ("__scn", "__ordinal")
    )
    of = np.repeat(np.arange(len(parts)), [part.rows.num_rows for part in parts])
    return of[np.lexsort((ordinals, scns))]


def _last_place(changes: pa.RecordBatch) -> tuple[int, int]:
    return int(changes.column("__scn")[-1].as_py()), int(changes.column("__ordinal")[-1].as_py())


def _end(changes: pa.RecordBatch, scn: int, ordinal: int) -> int:
    """Returns how many of the rows come no later than this place."""
    scns = np.asarray(changes.column("__scn"))
    begin, end = (int(np.searchsorted(scns, scn, side)) for side in _SIDES)
    of_scn = np.asarray(changes.column("__ordinal"))[begin:end]
    return begin + int(np.searchsorted(of_scn, ordinal, "right"))


def _after(parts: InStep, skip: int) -> tuple[int, InStep]:
    """Returns how many of the first `skip` rows of the stream are among these, and the rows after them."""
    sizes = [part.rows.num_rows for part in parts]
    if not skip or skip >= sum(sizes):
        return (sum(sizes), ()) if skip else (0, parts)
    begins = np.bincount(_stream_order(parts)[:skip], minlength=len(parts)).tolist()
    left = zip(parts, sizes, begins, strict=True)
    return skip, tuple(
        TableRows(part.schema, part.rows.slice(begin)) for part, size, begin in left if begin < size
    )


def _within(changes: pa.RecordBatch, portion: Portion) -> tuple[int, int]:
    """Returns where the portion's rows begin and end."""
    scns, (first, last) = np.asarray(changes.column("__scn")), _SIDES
    return int(np.searchsorted(scns, portion.first_scn, first)), int(
        np.searchsorted(scns, portion.last_scn, last)
    )


def _scn(entry: Entry, chunk: SealedChunk) -> int:
    """Returns the SCN of a chunk; the segment's first one if an earlier version of the journal doesn't have it."""
    return entry.first_scn if chunk.scn is None else chunk.scn


def _together(parquet: pq.ParquetFile) -> int:
    return rows_at_once(parquet, ROWS_CONVERTED_TOGETHER, TOGETHER_BYTES)
