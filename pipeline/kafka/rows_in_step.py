"""Rows of several tables in the order of the stream, in pieces that are bounded.

Tables that may share a topic are read in step: each time all of their rows through one place in the stream. Chunks of a
first snapshot come at their places among the changes.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.journal.change_rows import chunk_changes
from pipeline.journal.entry import Entry, FileKind, SealedChunk
from pipeline.kafka import portions
from pipeline.kafka.debezium.changed_rows import (
    BEFORE,
    CREATE,
    DELETE,
    LETTERS,
    UPDATE,
    message_bytes,
    whole_rows,
)
from pipeline.kafka.portions import Portion
from pipeline.schema.table_schema import TableId, TableSchema
from pipeline.types.buffers import Flags, Longs

# How many rows become messages at once, at most, and about how many bytes of messages.
ROWS_CONVERTED_TOGETHER: Final = 20_000
TOGETHER_BYTES: Final = 16 << 20
# No batch has more bytes than this, unless it is one row.
_MOST_BYTES: Final = 4 * TOGETHER_BYTES
_SIDES: Final[tuple[Literal["left"], Literal["right"]]] = ("left", "right")


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


def whole_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
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
    """Returns the rows in pieces of at most _MOST_BYTES of messages, or of one row.

    A few rows may have most bytes of a file, and all of them the text of one statement.
    """
    if message_bytes(batch) <= _MOST_BYTES or batch.num_rows <= 1:
        yield batch
        return
    half = batch.num_rows // 2
    yield from _bounded(batch.slice(0, half))
    yield from _bounded(batch.slice(half))


class SegmentPass:
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
            begin, end = rows_within(part.rows, portion)
            if end < part.rows.num_rows:
                self._rest[table] = TableRows(part.schema, part.rows.slice(end))
            if begin < end:
                yield TableRows(part.schema, part.rows.slice(begin, end - begin))
            if table in self._rest:
                return


class ChunkRows:
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


def unplaced_tables(entry: Entry) -> frozenset[TableId]:
    """Returns the tables whose chunks of a first snapshot have no known places among the table's changes.

    An entry of an earlier version doesn't say which rows file has a chunk. It matters if they are of several versions.
    """
    versions = Counter(
        table
        for table, _ in {(file.table, file.version) for file in entry.files if file.kind is FileKind.ROWS}
    )
    changed = {file.table for file in entry.files if file.kind is FileKind.CHANGES}
    placed = {chunk.chunk.table for chunk in entry.chunks if chunk.version is not None}
    return frozenset(table for table in changed - placed if versions[table] > 1)


def by_sharing(entry: Entry, sharing: Sharing) -> Iterable[list[TableId]]:
    """Returns the tables of a segment. Those that may share a topic are in one list."""
    groups: dict[str, list[TableId]] = {}
    for table in dict.fromkeys(file.table for file in portions.stream_files(entry)):
        groups.setdefault(sharing(table), []).append(table)
    return groups.values()


def in_step(tables: Iterable[Iterator[TableRows]]) -> Iterator[InStep]:
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


def few_at_once(parts: InStep) -> Iterator[InStep]:
    """Returns rows of several tables in the order of the stream, about so many at once as those of one table.

    A Kafka transaction ends between two of these.
    """
    count, size = sum(part.rows.num_rows for part in parts), sum(message_bytes(part.rows) for part in parts)
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


def _updates(parts: InStep, of: Longs) -> Flags:
    """Returns for each place in the order of the stream whether the row there may belong to the one before."""
    letters = pa.chunked_array([part.rows.column("__op") for part in parts])
    of_parts = np.asarray(pc.index_in(letters, LETTERS))
    ops = np.empty_like(of_parts)
    ops[np.argsort(of, kind="stable")] = of_parts
    follows = np.isin(ops[1:], (CREATE, UPDATE)) & np.isin(ops[:-1], (BEFORE, DELETE))
    return np.concatenate([[False], follows])


def alternating(parts: InStep) -> Iterator[TableRows]:
    """Returns the rows of several parts in the order of the stream, as long as possible of one part."""
    of, at = _stream_order(parts), [0] * len(parts)
    begins = [0, *(np.flatnonzero(np.diff(of)) + 1).tolist(), len(of)]
    for begin, end in itertools.pairwise(begins):
        number, count = int(of[begin]), end - begin
        part, first = parts[number], at[number]
        yield TableRows(part.schema, part.rows.slice(first, count))
        at[number] = first + count


def _stream_order(parts: InStep) -> Longs:
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


def rows_after(parts: InStep, skip: int) -> tuple[int, InStep]:
    """Returns how many of the first `skip` rows of the stream are among these, and the rows after them."""
    sizes = [part.rows.num_rows for part in parts]
    if not skip or skip >= sum(sizes):
        return (sum(sizes), ()) if skip else (0, parts)
    begins = np.bincount(_stream_order(parts)[:skip], minlength=len(parts)).tolist()
    left = zip(parts, sizes, begins, strict=True)
    return skip, tuple(
        TableRows(part.schema, part.rows.slice(begin)) for part, size, begin in left if begin < size
    )


def rows_within(changes: pa.RecordBatch, portion: Portion) -> tuple[int, int]:
    """Returns where the portion's rows begin and end."""
    scns, (first, last) = np.asarray(changes.column("__scn")), _SIDES
    return int(np.searchsorted(scns, portion.first_scn, first)), int(
        np.searchsorted(scns, portion.last_scn, last)
    )


def scn_of(entry: Entry, chunk: SealedChunk) -> int:
    """Returns the SCN of a chunk; the segment's first one if an earlier version of the journal doesn't have it."""
    return entry.first_scn if chunk.scn is None else chunk.scn
