"""Reads a reader's changes from the journal's files, one segment after the other.

It holds one batch of each table version that a segment has. Nothing is read before it is wanted.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from actors.http.changes.shared_segments import SharedSegments
from actors.journal.batch_sizes import rows_at_once
from actors.journal.files import journal_errors
from actors.journal.store import JournalReader
from pipeline.errors import Definite, Transient
from pipeline.gtid.gtid_set import GtidSet
from pipeline.journal.change_rows import META, changes_schema
from pipeline.journal.changes.checkpoint import ChangesCheckpoint
from pipeline.journal.changes.commit_order import (
    ORDERED_BY,
    CutRows,
    LaneBatch,
    OrderedRows,
    cut_transactions,
    merge_lanes,
)
from pipeline.journal.changes.place import ReadPlace, choose_of, place_gone
from pipeline.journal.changes.retained_range import RetainedRange, is_through
from pipeline.journal.changes.row_choice import CHOSEN_BY, RowChoice, choose_rows
from pipeline.journal.changes.table_notices import NO_NOTICES, TableNotices, notices_of
from pipeline.journal.entry import Entry, File, FileKind
from pipeline.schema.table_schema import TableId, TableSchema
from pipeline.types.buffers import Flags

# How many rows are read of a file at once, and about how many a reader gets at once.
READ_ROWS: Final = 1 << 15
SENT_ROWS: Final = 1 << 13

# About how many bytes these are at most, unless a single row has more.
READ_ROWS_BYTES: Final = 4 << 20
SENT_ROWS_BYTES: Final = 4 << 20

# Which rows of a table version are wanted.
ChooseKeys = Callable[[pa.RecordBatch, TableSchema], Flags]


@dataclass(frozen=True, slots=True)
class ChangesRead:
    """Rows in the order of commits, of the table versions `lanes`; `scn` of the last one.

    `checkpoint`: where to continue after them; None amid a transaction. There may be a checkpoint without rows.
    `notices`: what has become of tables by then. `complete`: these are the last ones of all that are wanted.
    """

    lanes: tuple[TableSchema, ...]
    rows: OrderedRows | None
    scn: int
    checkpoint: ChangesCheckpoint | None
    notices: TableNotices = NO_NOTICES
    complete: bool = False


class SegmentChanges:
    """A reader's way through the journal: from `place` on, to a place or to the end of segment `last`.

    `tables`: all captured ones without any. `keys`: chooses rows by their keys; None takes all. `shared`: what other
    readers have read. A copy continues from the same place, and neither of the two moves the other.
    """

    def __init__(
        self,
        journal: JournalReader,
        place: ReadPlace,
        tables: frozenset[TableId],
        through: int | GtidSet | None = None,
        last: int | None = None,
        keys: ChooseKeys | None = None,
        shared: SharedSegments | None = None,
    ) -> None:
        self.place = place
        self._shared = shared or SharedSegments()
        self._last = last
        self._journal = journal
        self._tables = tables
        self._through = through
        self._keys = keys
        self._before: Entry | None = None
        # Where transactions begin that `through` leaves out, and the reader lacks.
        self._lacking: ReadPlace | None = None
        self._reached = ChangesRead(
            (),
            None,
            place.scn or self._scn_before(place.segment),
            ChangesCheckpoint(journal.identity.id, place.segment, place.scn, place.without),
        )
        self._stopped: dict[TableId, str] = {}
        self.ended = self._has_ended()

    @property
    def key(self) -> Hashable:
        """Returns where it is. Of two that want the same, and are at the same place, the same changes come next."""
        # With the segment before it knows of more that has become of tables.
        knows = self._before is not None
        stopped = tuple(self._stopped.items())
        return self._journal.identity.id, self.place, self._lacking, knows, stopped

    def there(self) -> RetainedRange:
        """Returns what the journal has now."""
        return retained_range(self._journal)

    def reached(self) -> ChangesRead:
        """Returns where to continue after all segments that have been read, without rows."""
        return replace(self._reached, complete=self.ended)

    def read(self, last: int) -> Iterator[ChangesRead]:
        """Returns the changes through segment `last`. Raises PlaceGone, or Definite if a file is damaged."""
        while self.place.segment <= last and not self.ended:
            with _retained(self._journal, self.place.segment):
                entry = self._shared.entry(self.place.segment, self._journal.entry)
                ends = self._end(entry)
                yield from self._of(entry, ends)
            self._before, self._reached = entry, ends
            self.place = self.place.after(entry)
            self.ended = self._has_ended()

    def _has_ended(self) -> bool:
        """Returns whether the segments before the place have all that is wanted."""
        before = self.place.segment - 1
        if self._last is not None and before >= self._last:
            return True
        if self._through is None or before < self._journal.consumers.first():
            return False
        return is_through(self._journal.entry(before), self._through)

    def _end(self, entry: Entry) -> ChangesRead:
        """Returns where to continue after what is wanted of a segment, without rows."""
        through, place = self._through, self.place
        if isinstance(through, int) and entry.last_scn > through:
            reached = max(place.scn, through)
            return ChangesRead((), None, reached, self._at(entry.segment, reached))
        if isinstance(through, GtidSet) and not entry.checkpoint.position <= through:
            self._lacking = self._lacking or place
        if self._lacking is None or not isinstance(through, GtidSet):
            after = place.after(entry)
            ends = ChangesCheckpoint(self._journal.identity.id, after.segment, 0, after.without)
        else:
            first, had = self._lacking, through & entry.checkpoint.position
            without = had if first.without is None else first.without | had
            ends = ChangesCheckpoint(self._journal.identity.id, first.segment, first.scn, without)
        return ChangesRead((), None, entry.last_scn, ends)

    def _of(self, entry: Entry, ends: ChangesRead) -> Iterator[ChangesRead]:
        choice = choose_of(entry, self.place, self._through)
        files: dict[tuple[TableId, str], list[File]] = {}
        for file in entry.files:
            if file.kind is FileKind.CHANGES and (not self._tables or file.table in self._tables):
                files.setdefault((file.table, file.version), []).append(file)
        lanes = tuple(entry.schemas[version] for _, version in files)

        def read() -> Iterator[CutRows]:
            ordered = merge_lanes(
                [
                    self._lane(entry.segment, schema, own, choice)
                    for schema, own in zip(lanes, files.values(), strict=True)
                ]
            )
            return cut_transactions(ordered, SENT_ROWS, SENT_ROWS_BYTES)

        pieces: Iterable[CutRows] = read()
        if not choice and self._keys is None:
            pieces = self._shared.rows(entry.segment, self._tables, read)
        last: ChangesRead | None = None
        for piece in pieces:
            if last is not None:
                yield last
            within = piece.complete if self._lacking is None else None
            at = None if within is None else self._at(entry.segment, within)
            last = ChangesRead(lanes, piece.rows, int(piece.rows.scn[-1]), at)
        # What has become of tables comes with the end of the segment.
        notices = NO_NOTICES if choice.last is not None else self._notices(entry)
        if last is not None or notices:
            yield replace(last or ends, checkpoint=ends.checkpoint, notices=notices)

    def _notices(self, entry: Entry) -> TableNotices:
        """Returns what the reader hasn't been told of its tables. Each request tells once which have stopped."""
        before = self._before or self._entry_before(entry.segment)
        notices = notices_of(before, entry, self._tables, self._stopped)
        still = {table: why for table, why in self._stopped.items() if table not in notices.restarted}
        # A table may begin again and stop within a segment.
        self._stopped = {**still, **notices.stopped}
        return notices

    def _entry_before(self, segment: int) -> Entry | None:
        """Returns the entry of the segment before, None if retention has removed it."""
        if segment <= self._journal.consumers.first():
            return None
        try:
            return self._journal.entry(segment - 1)
        except (Definite, Transient, FileNotFoundError):
            if segment <= self._journal.consumers.first():
                return None
            raise

    def _scn_before(self, segment: int) -> int:
        """Returns the last SCN before this segment."""
        before = self._entry_before(segment)
        return self.there().scn - 1 if before is None else before.last_scn

    def _at(self, segment: int, scn: int) -> ChangesCheckpoint:
        return ChangesCheckpoint(self._journal.identity.id, segment, scn, self.place.without)

    def _lane(
        self, segment: int, schema: TableSchema, files: list[File], choice: RowChoice
    ) -> Iterator[LaneBatch]:
        wanted, left = changes_schema(schema), sum(file.rows for file in files)
        for file in files:
            path = self._journal.file(segment, file.path)
            with (
                journal_errors(self._journal.files.shown),
                self._journal.files.filesystem.open_input_file(path) as opened,
            ):
                # A row group isn't read ahead: whoever takes nothing costs no memory for it.
                parquet = pq.ParquetFile(opened, pre_buffer=False)
                together = rows_at_once(parquet, READ_ROWS, READ_ROWS_BYTES)
                for rows in parquet.iter_batches(together, columns=wanted.names, use_threads=False):
                    left -= rows.num_rows
                    chosen = _cast(choose_rows(rows, choice) if choice else rows, wanted)
                    if self._keys is not None:
                        chosen = chosen.filter(pa.array(self._keys(chosen, schema)))
                    yield LaneBatch(chosen, is_last=not left)


def retained_range(journal: JournalReader) -> RetainedRange:
    """Returns the segments that a journal has."""
    last, first = journal.last_segment(), journal.consumers.first()
    scn = journal.entry(first).first_scn if first <= last else 1
    return RetainedRange(journal.identity.id, journal.files.shown, first, last, scn)


def segment_transactions(journal: JournalReader, entry: Entry) -> pa.Table:
    """Returns `__scn` and `__gtid` of the changes in a segment, once for each transaction of a table's file.

    Raises PlaceGone, or Definite if a file is damaged.
    """
    schema = pa.schema([META.field(name) for name in CHOSEN_BY])
    found = [pa.RecordBatch.from_pylist([], schema=schema)]
    with _retained(journal, entry.segment), journal_errors(journal.files.shown):
        for file in entry.files:
            if file.kind is FileKind.CHANGES:
                path = journal.file(entry.segment, file.path)
                with journal.files.filesystem.open_input_file(path) as opened:
                    parquet = pq.ParquetFile(opened, pre_buffer=False)
                    batches = parquet.iter_batches(READ_ROWS, columns=schema.names, use_threads=False)
                    found += [_first_of_each(rows.select(schema.names)) for rows in batches]
    return pa.Table.from_batches([rows.cast(schema) for rows in found], schema)


def _first_of_each(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Returns the rows whose SCN isn't that of the row before."""
    return rows.filter(pa.array(np.diff(rows.column("__scn").to_numpy(), prepend=-1) != 0))


@contextmanager
def _retained(journal: JournalReader, segment: int) -> Iterator[None]:
    """Raises PlaceGone for what fails within because retention has removed the segment."""
    try:
        yield
    except (Definite, Transient, FileNotFoundError) as error:
        there = retained_range(journal)
        if segment < there.first:
            raise place_gone(f"segment {segment - 1}", there) from error
        raise


def _cast(rows: pa.RecordBatch, wanted: pa.Schema) -> pa.RecordBatch:
    if rows.schema.equals(wanted):
        return rows
    columns = (rows.column(field.name) for field in wanted)
    cast = [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(columns, wanted, strict=True)
    ]
    return pa.RecordBatch.from_arrays(cast, schema=wanted)


assert {*ORDERED_BY, *CHOSEN_BY} <= set(META.names)
