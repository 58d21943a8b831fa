"""The rows of a segment in the order in which they become messages: table by table, each in the order of the stream.

Tables that may share a topic are read in step, so that their messages can be put into the order of the stream. All
tables of a source transaction that may be split are. So a number of its rows says which they are, whatever tables share
a topic at the next start.

A chunk of a first snapshot has no SCN in its file. The segment's entry has it, and so the chunk's place among the
table's changes. The rows files of one version have their chunks in the order of the stream. Those of several versions
come in any order.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from actors.journal.batch_sizes import rows_at_once
from actors.journal.store import JournalReader
from pipeline.errors import InvariantBroken
from pipeline.journal.entry import Entry, File, FileKind, SealedChunk
from pipeline.kafka import portions, rows_in_step
from pipeline.kafka.debezium import transactions
from pipeline.kafka.debezium.transactions import ChangedRows
from pipeline.kafka.portions import Capacity, Portion
from pipeline.kafka.rows_in_step import (
    ChunkRows,
    InStep,
    PortionRows,
    SegmentPass,
    Sharing,
    TableRows,
    alternating,
    by_sharing,
    few_at_once,
    in_step,
    rows_after,
    rows_within,
    scn_of,
    whole_batches,
)
from pipeline.schema.table_schema import TableId, TableSchema

# How many rows are read at once of which only the journal's own columns are.
_NARROW: Final = 1 << 20


class Narrowing(Protocol):
    """Which rows become messages, and which of the table's own columns that depends on."""

    def needed(self, schema: TableSchema) -> tuple[str, ...]:
        """Returns the columns."""

    def narrowed(self, schema: TableSchema, changes: pa.RecordBatch) -> pa.RecordBatch:
        """Returns the rows."""


class SegmentRows:
    """Reads segments of a journal.

    It calls `advanced` for each batch that it reads: a call here may read a whole segment. What that raises ends it.
    """

    def __init__(self, journal: JournalReader, advanced: Callable[[], None] = lambda: None) -> None:
        self._journal = journal
        self._advanced = advanced
        self._pass: SegmentPass | None = None
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
        reading = before if before is not None and before.comes_to(entry, portion) else SegmentPass(entry)
        for tables in by_sharing(entry, sharing):
            for parts in in_step([reading.rows(table, portion, self._of_table) for table in tables]):
                skipped, left = rows_after(parts, skip)
                skip -= skipped
                if left:
                    yield from few_at_once(left)
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
                for batch in whole_batches(self._batches(parquet, together, columns)):
                    begin, end = rows_within(batch, portion)
                    if begin < end:
                        rows = narrowing.narrowed(schema, batch.slice(begin, end - begin))
                        yield file.table, rows.drop_columns(list(needed))

    def _scns_of_rows(self, entry: Entry) -> NDArray[np.int64]:
        files = portions.stream_files(entry)
        return np.concatenate([np.empty(0, np.int64), *(self._scns(entry, file) for file in files)])

    def _scns(self, entry: Entry, file: File) -> NDArray[np.int64]:
        if file.kind is FileKind.ROWS:
            # All rows files of a table come together; which of them has a chunk doesn't matter here.
            own = _rows_files(entry, file.table)
            chunks = self._first_chunks(entry, file.table) if file is own[0] else []
            return np.repeat([scn_of(entry, c) for c in chunks], [c.rows for c in chunks]).astype(np.int64)
        with self._opened(entry, file) as parquet:
            batches = self._batches(parquet, _NARROW, ["__scn"])
            scns = (np.asarray(batch.column("__scn"), np.int64) for batch in batches)
            return np.concatenate([np.empty(0, np.int64), *scns])

    def _of_table(self, entry: Entry, table: TableId) -> Iterator[TableRows]:
        """Returns the changes of a table, with its chunks between them."""
        chunks = deque((scn_of(entry, chunk), chunk) for chunk in self._first_chunks(entry, table))
        read = {
            version: ChunkRows(self._rows_batches(entry, table, version))
            for version in {chunk.version for _, chunk in chunks}
        }
        for part in self._changes(entry, table):
            rest = part.rows
            scns = np.asarray(rest.column("__scn"))
            while chunks and chunks[0][0] < scns[-1]:
                scn, chunk = chunks.popleft()
                before = int(np.searchsorted(scns, scn))
                if before:
                    yield TableRows(part.schema, rest.slice(0, before))
                rest, scns = rest.slice(before), scns[before:]
                yield from read[chunk.version].rows(chunk, scn)
            yield TableRows(part.schema, rest)
        for scn, chunk in chunks:
            yield from read[chunk.version].rows(chunk, scn)

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
        for parts in in_step([self._read_files(entry, files) for files in lanes]):
            yield from alternating(parts)

    def _read_files(self, entry: Entry, files: Iterable[File]) -> Iterator[TableRows]:
        for file in files:
            with self._opened(entry, file) as parquet:
                for rows in whole_batches(self._batches(parquet, _together(parquet))):
                    yield TableRows(entry.schemas[file.version], rows)

    def _rows_batches(self, entry: Entry, table: TableId, version: str | None) -> Iterator[TableRows]:
        for file in _rows_files(entry, table):
            if version is None or file.version == version:
                with self._opened(entry, file) as parquet:
                    for batch in self._batches(parquet, _together(parquet)):
                        yield TableRows(entry.schemas[file.version], batch)

    def _first_chunks(self, entry: Entry, table: TableId) -> list[SealedChunk]:
        """Returns the chunks of a table that are in its rows files, in their order."""
        files = _rows_files(entry, table)
        if not files:
            return []
        chunks = [each for each in entry.chunks if each.chunk.table == table]
        named = [each for each in chunks if each.version is not None]
        rows = Counter[str | None]()
        for file in files:
            rows[file.version if named else None] += file.rows
        if named:
            chunks = named
        elif _rows_of(chunks) != rows:
            among_changes = self._chunks_among_changes(entry, table)
            chunks = [each for each in chunks if str(each.chunk) not in among_changes]
        if _rows_of(chunks) != rows:
            raise InvariantBroken(
                f"segment {entry.segment} has {rows.total()} rows of chunks of {table}, and names others"
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


def _rows_files(entry: Entry, table: TableId) -> list[File]:
    return [each for each in entry.files if each.table == table and each.kind is FileKind.ROWS]


def _rows_of(chunks: Iterable[SealedChunk]) -> Counter[str | None]:
    """Returns how many rows the chunks of each version have."""
    found = Counter[str | None]()
    for chunk in chunks:
        found[chunk.version] += chunk.rows
    return found


def _together(parquet: pq.ParquetFile) -> int:
    return rows_at_once(parquet, rows_in_step.ROWS_CONVERTED_TOGETHER, rows_in_step.TOGETHER_BYTES)
