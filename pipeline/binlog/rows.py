"""Row events into Arrow: one builder for the row images of one table map in one slice of the log.

The bodies of the events are laid end to end in one buffer, and one compiled walk over each finds where the cells
are (`kernels.walk`). When the slice is complete, each column is made from its cells in one go (`columns.decode`).
So no row and no value becomes a Python object, JSON and a few rare types aside.

Source: MySQL 9.7 source documentation, class mysql::binlog::event::Rows_event; WL#5092 (columns-present bitmaps).
"""

from typing import Final, NamedTuple, Never

import numpy as np
import pyarrow as pa

from pipeline.binlog import kernels
from pipeline.binlog.codes import Code
from pipeline.binlog.columns import check, decode, rows_type
from pipeline.binlog.errors import UndecodableError
from pipeline.binlog.fieldtypes import stored_width
from pipeline.binlog.stored import Stored
from pipeline.messages import IMAGE_FIELDS, Kind
from pipeline.tablemap import FullMetadata, TableMap

# Cells are 32-bit places in the buffer, and Arrow's strings have 32-bit offsets.
LARGEST_BUFFER: Final = 2**31 - 1 - kernels.SLACK

_SMALLEST_ROOM: Final = 64  # row images
_SMALLEST_BUFFER: Final = 8192  # bytes


class _Layout(NamedTuple):
    """What a row event holds: the kind of its first image, and whether its header is that of version 2."""

    first: Kind
    extended: bool


_LAYOUTS: Final[dict[int, _Layout]] = {
    Code.WRITE_ROWS_V1: _Layout(Kind.INSERT, extended=False),
    Code.UPDATE_ROWS_V1: _Layout(Kind.UPDATE_BEFORE, extended=False),
    Code.DELETE_ROWS_V1: _Layout(Kind.DELETE, extended=False),
    Code.WRITE_ROWS: _Layout(Kind.INSERT, extended=True),
    Code.UPDATE_ROWS: _Layout(Kind.UPDATE_BEFORE, extended=True),
    Code.DELETE_ROWS: _Layout(Kind.DELETE, extended=True),
}

# WRITE, UPDATE and DELETE_ROWS of version 1 (MySQL 5.5) and 2.
ROW_EVENTS: Final = frozenset(_LAYOUTS)


class ImagesBuilder:
    """Collects the row images of one table map: `add` for each event, `finish` once.

    `impossible_dates`, after `finish`: how many dates became null because no calendar has them.
    """

    def __init__(self, table_map: TableMap) -> None:
        """Raise UndecodableError if a column is stored in a way that Tidemark doesn't know."""
        for column, storage in zip(table_map.types, table_map.storage, strict=True):
            check(column, storage)
        self.map = table_map
        self.impossible_dates = 0
        self._widths = np.array([stored_width(storage) for storage in table_map.storage], np.int32)
        self._buffer = np.empty(_SMALLEST_BUFFER, np.uint8)
        self._used = 0
        self._cells = np.empty((len(table_map.types), _SMALLEST_ROOM), np.int32)
        self._rows = 0
        # Of each event.
        self._images: list[int] = []
        self._first: list[int] = []
        self._transaction: list[int] = []
        self._ordinal: list[int] = []

    def add(self, body: bytes | bytearray | memoryview, code: int, transaction: int, ordinal: int) -> int:
        """Take a row event, and return the number of its row images (two for each updated row).

        `body`: the event without its header of 19 bytes and without its checksum; `code`: its type code, one of
        ROW_EVENTS; `transaction`: index of its transaction in the slice; `ordinal`: of its first image.

        Raises UndecodableError if the bytes aren't whole images with all of the table's columns. The builder is of
        no use after that.
        """
        layout = _LAYOUTS[code]
        start, end = self._used, self._used + len(body)
        self._reserve(end)
        self._buffer[start:end] = np.frombuffer(body, np.uint8)
        self._used = end
        before = self._rows
        while True:
            status, rows, column = kernels.walk(
                self._buffer,
                start,
                end,
                layout.extended,
                layout.first is Kind.UPDATE_BEFORE,
                self._widths,
                self._cells,
                before,
            )
            if status == kernels.WHOLE:
                break
            if status != kernels.FULL:
                self._refuse(status, column)
            self._cells = _wider(self._cells)
        self._rows = rows
        self._images.append(rows - before)
        self._first.append(layout.first)
        self._transaction.append(transaction)
        self._ordinal.append(ordinal)
        return int(rows - before)

    def finish(self) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """The images (IMAGE_FIELDS) and, as long, the rows: columns "0", "1", … of `TableImages.rows`.

        Raises UndecodableError or TextError if a value isn't one of its column's type.
        """
        return self._finish_images(), self._finish_rows()

    def _finish_images(self) -> pa.RecordBatch:
        counts = np.array(self._images, np.int64)
        starts = np.cumsum(counts) - counts
        place = np.arange(self._rows) - np.repeat(starts, counts)
        first = np.repeat(np.array(self._first, np.int8), counts)
        kinds = np.where(first == Kind.UPDATE_BEFORE, first + place % 2, first).astype(np.int8)
        transactions = np.repeat(np.array(self._transaction, np.int32), counts)
        ordinals = (np.repeat(np.array(self._ordinal, np.int64), counts) + place).astype(np.int32)
        return pa.record_batch(
            [
                pa.array(kinds),
                pa.array(transactions),
                pa.array(ordinals),
                pa.nulls(self._rows, pa.binary()),
            ],
            schema=IMAGE_FIELDS,
        )

    def _finish_rows(self) -> pa.RecordBatch:
        arrays: list[pa.Array] = []
        fields: list[pa.Field] = []
        for i, (column, storage) in enumerate(zip(self.map.types, self.map.storage, strict=True)):
            stored = Stored(self._buffer, self._cells[i, : self._rows], self._column_name(i))
            values = decode(column, storage, stored)
            self.impossible_dates += values.null_count - stored.nulls
            arrays.append(values)
            fields.append(pa.field(str(i), rows_type(column)))
        return pa.record_batch(arrays, schema=pa.schema(fields))

    def _reserve(self, used: int) -> None:
        if used > LARGEST_BUFFER:
            raise UndecodableError(
                f"{self.map.table}: more than 2 GiB of row images in one slice of the log; change the table in"
                " smaller transactions"
            )
        if used + kernels.SLACK > len(self._buffer):
            larger = np.empty(max(used + kernels.SLACK, 2 * len(self._buffer)), np.uint8)
            larger[: self._used] = self._buffer[: self._used]
            self._buffer = larger

    def _refuse(self, status: int, column: int) -> Never:
        table = self.map.table
        if status == kernels.PARTIAL:
            raise UndecodableError(
                f"{table}: a row image leaves columns out; binlog_row_image must be FULL on the source, for all"
                " of its sessions"
            )
        if status == kernels.OTHER_COLUMNS:
            raise UndecodableError(f"{table}: a row event has another number of columns than its table map")
        where = f"column {self._column_name(column)}" if column >= 0 else "between its columns"
        raise UndecodableError(f"{table}: a row event ends inside of a row image, {where}")

    def _column_name(self, column: int) -> str:
        metadata = self.map.metadata
        name = metadata.names[column] if isinstance(metadata, FullMetadata) else str(column)
        return f"{self.map.table}.{name}"


def _wider(cells: kernels.CellTable) -> kernels.CellTable:
    columns, room = cells.shape
    wider = np.empty((columns, 4 * room), np.int32)
    wider[:, :room] = cells
    return wider
