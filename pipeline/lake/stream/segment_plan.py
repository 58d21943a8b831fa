"""Which files a stream reads of a segment, and whether its columns fit them.

A stream has one set of columns while it runs: those that its tables have at the end of one segment, `at`. A file of an
earlier segment fits if each of its columns is still one of them, by its name. Columns that came later are null in it,
and columns that became wider are widened. So it is in the changelog. A file of a later segment fits if it has exactly
the stream's columns, or more, if the user chose the columns. A column that a statement renamed or dropped in between
isn't the same column, whatever its name is now.

What doesn't fit ends the stream before that segment, with an error that says how to go on. So no row is read with
another column's value, and none without a value that it has.

A table that begins again ends the stream as well (`pipeline.journal.changes.table_notices`). The journal lacks changes
of it, and whoever has followed it by its changes has rows that aren't right any more.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from pipeline.errors import Definite
from pipeline.journal.changes.row_choice import RowChoice
from pipeline.journal.entry import Entry, File, FileKind
from pipeline.lake.stream.change_file import ChangeFile
from pipeline.lake.tables.column_changes import can_hold
from pipeline.lake.tables.spark_sql import spark_type
from pipeline.schema.table_schema import TableId, TableSchema

# A stream passes over so many segments without changes of its tables before it counts them as read.
IDLE_SEGMENTS = 100

# What a task reads: about so many bytes of files, and not more files than these.
TASK_BYTES = 16 << 20
TASK_FILES = 512


class ColumnsChanged(Definite):
    """A stream's next segment has other columns than the stream."""


class TableRestarted(Definite):
    """A table of the stream begins again in the next segment: the journal lacks changes of it."""


@dataclass(frozen=True, slots=True)
class FixedColumns:
    """The own columns of a stream's tables, as of the end of segment `at`. `chosen`: by the user, perhaps not all."""

    own: Mapping[TableId, pa.Schema]
    at: int
    chosen: bool


@dataclass(frozen=True, slots=True)
class RenamedColumns:
    """A statement before a segment's first row renamed or dropped columns of a table; `names`: the old and the new."""

    segment: int
    table: TableId
    names: frozenset[str]
    said: str


@dataclass(frozen=True, slots=True)
class PlannedSegment:
    """A segment's files for a stream. `unfit`: why they don't fit its columns, None if they do. `restarted`: the tables
    that begin again in it."""

    segment: int
    files: tuple[ChangeFile, ...]
    unfit: str | None
    restarted: tuple[TableId, ...]

    @property
    def ends_stream(self) -> bool:
        """Returns whether the stream ends before it, with `stream_end`."""
        return bool(self.unfit or self.restarted)

    @property
    def rows(self) -> int:
        """Returns the number of rows in the files."""
        return sum(file.rows for file in self.files)

    @property
    def bytes(self) -> int:
        """Returns the bytes of the files."""
        return sum(file.bytes for file in self.files)


@dataclass(frozen=True, slots=True)
class MicroBatchLimit:
    """The most that a micro-batch has; None for no limit. It has one segment at least."""

    rows: int | None = None
    bytes: int | None = None

    def excludes(self, rows: int, size: int) -> bool:
        """Returns whether this is too much."""
        return (self.rows is not None and rows > self.rows) or (self.bytes is not None and size > self.bytes)


def change_files(entry: Entry, tables: Iterable[TableId]) -> Iterator[File]:
    """Returns the files with changes of these tables, in the order of the stream."""
    wanted = frozenset(tables)
    return (file for file in entry.files if file.kind is FileKind.CHANGES and file.table in wanted)


def renamed_columns(entry: Entry, tables: Iterable[TableId]) -> tuple[RenamedColumns, ...]:
    """Returns what statements did to the names of these tables' columns before the segment's first row."""
    wanted, found = frozenset(tables), []
    for alteration in (altered.alteration for altered in entry.alterations):
        changes, table = alteration.changes, alteration.schema.table
        if table in wanted and (changes.renamed or changes.dropped):
            said = [f"column {old!r} was renamed {new!r}" for old, new in changes.renamed]
            said += [f"column {name!r} was dropped" for name in changes.dropped]
            names = frozenset((*(name for pair in changes.renamed for name in pair), *changes.dropped))
            found.append(RenamedColumns(entry.segment, table, names, " and ".join(said)))
    return tuple(found)


def unfit_columns(
    entry: Entry, file: File, stream: FixedColumns, renamed: Iterable[RenamedColumns]
) -> str | None:
    """Returns why a file can't be read with a stream's columns, None if it can.

    `renamed`: at least those of the segments between this one and the stream's.
    """
    own, earlier = stream.own[file.table], entry.segment <= stream.at
    between = range(entry.segment + 1, stream.at + 1) if earlier else range(stream.at + 1, entry.segment + 1)
    for each in renamed:
        if each.table == file.table and each.segment in between and each.names & set(own.names):
            return each.said
    return _difference(entry.schemas[file.version], own, earlier=earlier, chosen=stream.chosen)


def _difference(file: TableSchema, own: pa.Schema, *, earlier: bool, chosen: bool) -> str | None:
    there = {field.name: spark_type(field.type) for field in file.arrow}
    for field in own:
        has, wanted = there.pop(field.name, None), spark_type(field.type)
        if has is None and not earlier:
            return f"column {field.name!r} is gone"
        if has is not None and not can_hold(wanted, has):
            return f"column {field.name!r} is {has}, and the stream has {wanted}"
    if chosen or not there:
        return None
    name, type_ = next(iter(there.items()))
    return f"column {name!r} ({type_}) {'went later' if earlier else 'came'}"


def plan_segment(
    entry: Entry,
    stream: FixedColumns,
    renamed: Sequence[RenamedColumns],
    paths: Mapping[str, str],
    choice: RowChoice,
    restarted: tuple[TableId, ...] = (),
) -> PlannedSegment:
    """Returns a stream's files of a segment; `paths`: where each of its files is."""
    files, unfit = [], None
    for file in change_files(entry, stream.own):
        unfit = unfit or _told(file.table, unfit_columns(entry, file, stream, renamed))
        files.append(ChangeFile(paths[file.path], entry.segment, file.table, file.rows, file.bytes, choice))
    return PlannedSegment(entry.segment, tuple(files), unfit, restarted)


def _told(table: TableId, why: str | None) -> str | None:
    return why and f"{table}: {why}"


def stream_end(planned: PlannedSegment, stream: FixedColumns) -> ColumnsChanged | TableRestarted:
    """Returns the error that ends a stream before a segment."""
    return _table_restarted(planned) if planned.restarted else _columns_changed(planned, stream)


def _table_restarted(planned: PlannedSegment) -> TableRestarted:
    segment, tables = planned.segment, ", ".join(map(str, planned.restarted))
    return TableRestarted(
        f"{tables}: the table begins again in segment {segment}, and the journal lacks changes of it. Everything "
        "before it has been read. Take all rows of the table where GET /bootstrap says, which answers 503 until the "
        f'lake has them. Then start the stream with its checkpoint and .option("restartedThrough", "{segment}")'
    )


def _columns_changed(planned: PlannedSegment, stream: FixedColumns) -> ColumnsChanged:
    segment = planned.segment
    if stream.chosen or segment == stream.at:
        remedy = (
            "Everything before it has been read. Start the stream with its checkpoint and a .schema(…) of columns "
            "that the segment has"
        )
    elif segment < stream.at:
        remedy = (
            f"Everything before it has been read. Columns have changed again since. Start the stream with its "
            f'checkpoint and .option("schemaSegment", "{segment}"), which reads with the columns of then'
        )
    else:
        remedy = (
            "Everything before it has been read. Start the stream with its checkpoint again, without schemaSegment: "
            "load() takes the new columns. The sink has to take them too (Delta: mergeSchema)"
        )
    return ColumnsChanged(f"segment {segment} has other columns than the stream. {planned.unfit}. {remedy}")


def batch_end(
    start: int, planned: Iterable[PlannedSegment], limit: MicroBatchLimit, last: int, stream: FixedColumns
) -> int:
    """Returns the segment with which a micro-batch ends that begins after `start`; `planned` follow `start`, through
    `last`.

    It is `start` if there is nothing to read. It ends before the first segment that ends the stream.
    Raises ColumnsChanged or TableRestarted if that is the first one with changes.
    """
    rows = size = 0
    end = start
    for each in planned:
        rows, size = rows + each.rows, size + each.bytes
        if each.ends_stream and end == start:
            raise stream_end(each, stream)
        if each.ends_stream or (end > start and each.files and limit.excludes(rows, size)):
            return end
        if each.files:
            end = each.segment
    return last if end > start or last - start >= IDLE_SEGMENTS else start


def divide_files(files: Iterable[ChangeFile]) -> tuple[tuple[ChangeFile, ...], ...]:
    """Returns the files of each task, in the order of the stream."""
    tasks: list[list[ChangeFile]] = []
    size = 0
    for file in files:
        if not tasks or size + file.bytes > TASK_BYTES or len(tasks[-1]) == TASK_FILES:
            tasks.append([])
            size = 0
        tasks[-1].append(file)
        size += file.bytes
    return tuple(map(tuple, tasks))
