"""Plans what a stream reads, in the driver: which segments, and which of their files."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from actors.journal.store import JournalReader
from pipeline.config.validation import Mistake
from pipeline.errors import Definite
from pipeline.gtid.gtid_set import GtidSet
from pipeline.journal.changes.retained_range import RetainedRange, is_through
from pipeline.journal.changes.table_notices import notices_of
from pipeline.journal.entry import Entry
from pipeline.lake.stream.change_file import ChangeFile
from pipeline.lake.stream.segment_offset import (
    MicroBatchBegin,
    SegmentOffset,
    SegmentsGone,
    check_nothing_left_out,
    check_offset,
    check_retained,
    micro_batch_begin,
    new_stream,
    place_text,
)
from pipeline.lake.stream.segment_plan import (
    FixedColumns,
    MicroBatchLimit,
    PlannedSegment,
    RenamedColumns,
    batch_end,
    change_files,
    divide_files,
    plan_segment,
    renamed_columns,
    stream_end,
)
from pipeline.lake.stream.source_options import (
    SourceOptions,
    StreamBegin,
    WrongOption,
    check_read_once,
    unknown_tables,
)
from pipeline.lake.stream.stream_columns import check_wanted
from pipeline.lake.stream.stream_places import NotYetSealed, begin_after, choice_of, end_with
from pipeline.lake.stream.table_rows import own_fields
from pipeline.schema.table_schema import TableId, TableSchema


@dataclass(frozen=True, slots=True)
class LoadedColumns:
    """The schemas of a stream's tables, as of the end of segment `at`."""

    at: int
    schemas: Mapping[TableId, TableSchema]


def load_columns(journal: JournalReader, options: SourceOptions, at: int | None = None) -> LoadedColumns:
    """Returns the columns of a stream as of segment `at`, of the one that an option names, or of the last one.

    Raises WrongOption.
    """
    last, shown = journal.last_segment(), journal.files.shown
    at = at or options.columns_at or last
    if last == 0:
        raise WrongOption(
            Mistake("journal", f"{shown} has no segment yet", "wait until the service has sealed one")
        )
    if not journal.consumers.first() <= at <= last:
        if at != options.columns_at:
            wrong = f"load() has taken the columns of segment {at}, which {shown} doesn't have"
            raise WrongOption(Mistake("journal", wrong, "call load() again for each query"))
        there = f"give one from {journal.consumers.first()} through {last}, or leave it out"
        raise WrongOption(Mistake("schemaSegment", f"{shown} doesn't have segment {at}", there))
    schemas = journal.entry(at).stored_schemas
    if error := unknown_tables(options.tables, schemas, shown):
        raise error
    return LoadedColumns(at, {table: schemas[table] for table in options.tables})


class SegmentPlanner:
    """The plan of one stream, or of one read. `wanted`: its columns, which the user has chosen if `loaded` is None.

    `loaded` is the segment as of which its columns were loaded.
    """

    def __init__(self, options: SourceOptions, wanted: pa.Schema, loaded: int | None) -> None:
        self._options = options
        self._journal = JournalReader(options.journal)
        found = load_columns(self._journal, options, loaded)
        if loaded is None:
            check_wanted(wanted, found.schemas, several=options.several)
        own = {table: _own(wanted, table, schema, options.several) for table, schema in found.schemas.items()}
        self._columns = FixedColumns(own, found.at, loaded is None)
        self._renamed: list[RenamedColumns] = []
        self._followed: int | None = None
        self._begun: int | None = None
        self._before: Entry | None = None
        self._kept: dict[int, PlannedSegment] = {}
        self._registered = False
        # The journal's first segment, and its first SCN; Spark asks for new segments many times a second.
        self._first, self._first_scn = 0, 1

    def begin(self) -> SegmentOffset:
        """Returns where a new stream begins."""
        while True:
            there = self._there()
            after = begin_after(self._options.begins, there, self._entry)
            self._register(self._not_after(after))
            # Retention may have removed segments before it knew of the stream (`pipeline.journal.retention`).
            if self._journal.consumers.first() <= max(after + 1, there.first):
                self._begun = after
                begins = self._options.begins
                place = None if isinstance(begins, StreamBegin) else begins
                return new_stream(there.id, after, place)

    def latest(self) -> SegmentOffset:
        """Returns the end of the journal, or of the stream."""
        there = self._there()
        return SegmentOffset(there.id, self._last(there))

    def end(self, start: SegmentOffset, limit: MicroBatchLimit, at_most: int | None = None) -> SegmentOffset:
        """Returns where a micro-batch ends that begins at `start`, and not after segment `at_most`.

        Raises SegmentsGone, WrongOffset, ColumnsChanged or TableRestarted.
        """
        if not self._registered:
            self._register(start.segment)
        there = self._there()
        after = check_offset(start, there)
        check_nothing_left_out(start, self._through)
        last = self._last(there) if at_most is None else min(at_most, self._last(there))
        seen: dict[int, PlannedSegment] = {}

        def planned() -> Iterator[PlannedSegment]:
            for each in self._planned(start, last):
                seen[each.segment] = each
                yield each

        end = batch_end(after, planned(), limit, last, self._columns)
        self._kept = {segment: each for segment, each in seen.items() if after < segment <= end}
        if end <= after:
            return start
        batch = MicroBatchBegin(after, start.begins)
        return SegmentOffset(there.id, end, self._cut(end), self._begins_after(start, end), batch)

    def tasks(self, start: SegmentOffset, end: SegmentOffset) -> tuple[tuple[ChangeFile, ...], ...]:
        """Returns the files of each task for the segments after `start` through `end`. Raises as `end` does."""
        for offset in (start, end):
            check_nothing_left_out(offset, self._through)
        begin = micro_batch_begin(start, end)
        if start.is_new:
            # `begin` knew only where the stream would begin now.
            self._begun = begin.segment
            self._register(begin.segment)
        if begin != start or any(n not in self._kept for n in range(begin.segment + 1, end.segment + 1)):
            there = self._there()
            check_offset(begin, there)
            check_offset(end, there)
        files: list[ChangeFile] = []
        for each in self._planned(begin, end.segment):
            if each.ends_stream:
                raise stream_end(each, self._columns)
            files += each.files
        return divide_files(files)

    def whole(self) -> tuple[tuple[ChangeFile, ...], ...]:
        """Returns the files of each task for all between the places that the options name.

        Raises as `end` does, and WrongOption if the options name a consumer.
        """
        check_read_once(self._options)
        begin, there = self.begin(), self._there()
        if self._options.through is not None and end_with(self._options.through, there, self._entry) is None:
            raise NotYetSealed(
                f"through: the journal in {there.shown} ends before {self._options.through}; wait for it with "
                "GET /applied?through=journal, or leave the option out"
            )
        last = max(begin.segment, self._last(there))
        return self.tasks(begin, SegmentOffset(there.id, last, batch=begin.batch))

    def committed(self, end: SegmentOffset) -> None:
        """Tells the journal that the stream needs nothing through this segment any more."""
        self._register(end.segment)

    def _not_after(self, segment: int) -> int:
        """Returns this segment, or an earlier one through which the journal knows the stream's progress.

        The stream's first micro-batch may have begun there, and not be completed.
        """
        name = self._options.consumer
        known = None if name is None else self._journal.consumers.known(name)
        return segment if known is None else min(segment, known.segment)

    def _register(self, segment: int) -> None:
        if self._options.consumer is not None:
            self._journal.consumers.record_progress(self._options.consumer, segment)
            self._registered = True

    @property
    def _through(self) -> str | None:
        through = self._options.through
        return None if through is None else place_text(through)

    def _cut(self, segment: int) -> str | None:
        """Returns the option by which the stream leaves out a part of a segment, None if it leaves out none."""
        if self._options.through is None:
            return None
        return self._through if choice_of(None, self._options.through, self._entry(segment)) else None

    def _begins_after(self, start: SegmentOffset, segment: int) -> int | GtidSet | None:
        """Returns the place with which the stream began, if segments after this one may have rows of before it."""
        begins = start.begins
        return None if begins is None or is_through(self._entry(segment), begins) else begins

    def _there(self) -> RetainedRange:
        last, first = self._journal.last_segment(), self._journal.consumers.first()
        if first <= last and self._first != first:
            self._first, self._first_scn = first, self._entry(first).first_scn
        return RetainedRange(
            self._journal.identity.id, self._journal.files.shown, first, last, self._first_scn
        )

    def _last(self, there: RetainedRange) -> int:
        through = self._options.through
        ends = None if through is None else end_with(through, there, self._entry)
        return there.last if ends is None else ends

    def _planned(self, start: SegmentOffset, through: int) -> Iterator[PlannedSegment]:
        """Plans the segments after an offset, through another one.

        The offset says where the stream has begun. A restart may have another `from`.
        """
        self._follow(start.segment)
        begins = start.begins
        for segment in range(start.segment + 1, through + 1):
            if (kept := self._kept.get(segment)) is not None:
                yield kept
                continue
            entry = self._entry(segment)
            self._note(entry)
            choice = choice_of(begins, self._options.through, entry)
            restarted = self._restarted(entry, begins)
            if begins is not None and is_through(entry, begins):
                begins = None
            paths = {
                file.path: self._journal.file(segment, file.path)
                for file in change_files(entry, self._columns.own)
            }
            yield plan_segment(entry, self._columns, self._renamed, paths, choice, restarted)

    def _follow(self, after: int) -> None:
        """Notes what statements did to columns between a segment and the one that the columns are of."""
        if self._followed is not None:
            return
        self._followed = min(after, self._columns.at)
        for segment in range(self._followed + 1, max(after, self._columns.at) + 1):
            self._note(self._entry(segment))

    def _note(self, entry: Entry) -> None:
        if self._followed is not None and entry.segment > self._followed:
            self._renamed += renamed_columns(entry, self._options.tables)
            self._followed = entry.segment

    def _restarted(self, entry: Entry, begins: int | GtidSet | None) -> tuple[TableId, ...]:
        """Returns the stream's tables that begin again in a segment, unless the user knows of it.

        `begins`: the place that the stream began with, if the segment may have rows of before it.
        """
        before, self._before = self._entry_before(entry), entry
        if entry.segment <= self._options.restarted_through:
            return ()
        if before is None and begins is None and self._begun == entry.segment - 1:
            return ()  # whoever begins with the journal lacks nothing; at a place one may have read the lake up to it
        return notices_of(before, entry, self._options.tables, {}).restarted

    def _entry_before(self, entry: Entry) -> Entry | None:
        """Returns the entry of the segment before, None if retention has removed it."""
        before = entry.segment - 1
        if self._before is not None and self._before.segment == before:
            return self._before
        if before < self._journal.consumers.first():
            return None
        try:
            return self._entry(before)
        except SegmentsGone:
            return None

    def _entry(self, segment: int) -> Entry:
        try:
            return self._journal.entry(segment)
        except Definite:
            if segment < self._journal.consumers.first():
                check_retained(segment, self._there())
            raise


def _own(wanted: pa.Schema, table: TableId, schema: TableSchema, several: bool) -> pa.Schema:
    """Returns the table's own columns in a stream."""
    names = {column.name for column in schema.columns}
    return pa.schema([field for field in own_fields(wanted, table, several=several) if field.name in names])
