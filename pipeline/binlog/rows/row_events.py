"""Row events into Arrow: the row images of one table map in one slice of the log.

Two steps. `locate_images` passes over all of the table's events at once, in compiled code, and finds where each cell is
(`cells`). It also shows how many images each event has. `images_of_events` makes each column from its cells in one go
(`columns`). No row becomes a Python object, and no value but a few rare ones. Both release the GIL while they work and
share nothing, so that slices can be decoded beside each other in threads.

Source: MySQL 9.7 source documentation, class mysql::binlog::event::Rows_event.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple, Never

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.binlog.event_type import Code
from pipeline.binlog.rows import cells
from pipeline.binlog.rows.columns import check_storage, decode_column, rows_type
from pipeline.binlog.rows.image_descriptions import describe_images
from pipeline.binlog.rows.stored_values import StoredColumn, decode_varying
from pipeline.binlog.stream_state import TEXT_LENGTH
from pipeline.errors import InvariantBroken, UndecodableError
from pipeline.messages.row_images import IMAGE_FIELDS, SOURCE_TYPE, ImageKind, TableImages
from pipeline.schema.table_map import FullMetadata, TableMap
from pipeline.types import arrow_arrays
from pipeline.types.buffers import ABSENT, Bytes, CellTable, Flags, Longs
from pipeline.types.field_types import FieldType, Storage, stored_width

_FIRST_KINDS: Final[dict[int, ImageKind]] = {
    Code.WRITE_ROWS_V1: ImageKind.INSERT,
    Code.UPDATE_ROWS_V1: ImageKind.UPDATE_BEFORE,
    Code.DELETE_ROWS_V1: ImageKind.DELETE,
    Code.WRITE_ROWS: ImageKind.INSERT,
    Code.UPDATE_ROWS: ImageKind.UPDATE_BEFORE,
    Code.DELETE_ROWS: ImageKind.DELETE,
    Code.PARTIAL_UPDATE_ROWS: ImageKind.UPDATE_BEFORE,
}

# WRITE, UPDATE and DELETE_ROWS of version 1 (MySQL 5.5) and 2, and PARTIAL_UPDATE_ROWS.
ROW_EVENTS: Final = frozenset(_FIRST_KINDS)

# Of each type code, the kind of its first image.
_KINDS: Final = np.zeros(256, np.int8)
for _code, _kind in _FIRST_KINDS.items():
    _KINDS[_code] = _kind

_SOURCE_FIELDS: Final = list(SOURCE_TYPE)
_QUERY: Final = SOURCE_TYPE.field("query").type

_SMALLEST_ROOM: Final = 64  # row images

_TEXT: Final = Storage(FieldType.BLOB, TEXT_LENGTH)
_WEIGHTS: Final = 256 ** np.arange(TEXT_LENGTH)


class RowsEvents(NamedTuple):
    """The rows events of one table map in one slice, in the log's order; as long as each other."""

    start: Longs  # bounds of each body in the buffer: after the event's header, before its checksum
    end: Longs
    code: NDArray[np.uint8]  # its type code, one of ROW_EVENTS
    transaction: NDArray[np.int32]  # the index of its transaction in the slice
    origin: NDArray[np.int64]  # of `Rows.events` the rows from FILE on
    files: tuple[str, ...]  # the names by their numbers


@dataclass(frozen=True, slots=True)
class LocatedImages:
    """Where all values of the events' row images are; `images` is the number of row images of each event.

    `cells` is [columns, row images] (see pipeline.binlog.rows.cells), `sizes` the bytes of each column's values that
    are of no fixed width. `partial` says whether an event may leave columns out.
    """

    table_map: TableMap
    buffer: Bytes
    events: RowsEvents
    images: Longs
    cells: CellTable
    sizes: Longs
    partial: bool


def locate_images(table_map: TableMap, buffer: Bytes, events: RowsEvents) -> LocatedImages:
    """Finds the row images of the events. After the last body the buffer has at least `buffers.SLACK` bytes.

    Raises UndecodableError, which names the table: a column is stored in a way that Tidemark doesn't know, or the
    bytes aren't whole row images of such columns.
    """
    for column, storage in zip(table_map.types, table_map.storage, strict=True):
        check_storage(column, storage)
    if len(buffer) > cells.LARGEST_BUFFER:
        raise InvariantBroken(
            f"{table_map.table}: a slice has {len(buffer)} bytes, more than a cell can point to"
        )
    stored = np.array([stored_width(storage) for storage in table_map.storage], np.int64)
    widths = np.abs(stored)  # of the value, or of the length before it
    masks = np.where(stored < 0, (np.int64(1) << (8 * widths * (stored < 0))) - 1, 0)
    json = np.array([storage.code == FieldType.JSON for storage in table_map.storage], np.bool_)
    smallest = int(widths.sum()) + (len(stored) + 7) // 8  # bytes of an image without NULLs and texts
    room = max(_SMALLEST_ROOM, int((events.end - events.start).sum()) // smallest)
    images = np.zeros(len(events.start), np.int64)
    while True:
        found = np.empty((len(stored), room), np.int32)
        sizes, state = np.zeros(len(stored), np.int64), np.zeros(cells.LOCATE_STATE, np.int64)
        status = cells.locate_cells(
            buffer, events.start, events.end, events.code, widths, masks, sizes, json, found, images, state
        )
        if status != cells.IMAGES_FULL:
            break
        room *= 2
    if status != cells.LOCATED:
        _refuse(table_map, int(status), int(state[cells.COLUMN]))
    return LocatedImages(
        table_map,
        buffer,
        events,
        images,
        found[:, : state[cells.ROW_SLOT]],
        sizes,
        bool(state[cells.PARTIAL]),
    )


def images_of_events(located: LocatedImages, first_ordinals: Longs) -> TableImages:
    """The row images in columns; `first_ordinals` has, of each event, the ordinal of its first image.

    Raises UndecodableError or TextError, which name table and column, if a value isn't one of its column's type.
    """
    columns: list[pa.Array] = []
    fields: list[pa.Field] = []
    impossible_dates = 0
    table_map = located.table_map
    for i, (column, storage) in enumerate(zip(table_map.types, table_map.storage, strict=True)):
        stored = StoredColumn(
            located.buffer, located.cells[i], _column_name(table_map, i), int(located.sizes[i])
        )
        values = decode_column(column, storage, stored)
        impossible_dates += values.null_count - stored.nulls
        columns.append(values)
        fields.append(pa.field(str(i), rows_type(column)))
    rows = pa.record_batch(columns, schema=pa.schema(fields))
    return TableImages(table_map, _images(located, first_ordinals), rows, impossible_dates)


def _images(located: LocatedImages, first_ordinals: Longs) -> pa.RecordBatch:
    """IMAGE_FIELDS of each row image."""
    events, size = located.events, located.cells.shape[1]
    kinds, exists = np.empty(size, np.int8), np.empty(size, np.bool_)
    transactions, ordinals, rows = (np.empty(size, np.int32) for _ in range(3))
    places, (servers, threads) = np.empty(size, np.int64), (np.empty(size, np.uint32) for _ in range(2))
    describe_images(
        _KINDS[events.code], events.transaction, np.ascontiguousarray(events.origin), located.images,
        np.ascontiguousarray(first_ordinals), kinds, transactions, ordinals, rows, places, servers, threads, exists,
    )  # fmt: skip
    source = [
        _files(events, located.images),
        pa.array(places),
        pa.array(rows),
        pa.array(servers),
        arrow_arrays.fixed_width_array(pa.uint32(), threads, exists),
        _statements(located.buffer, events.origin[-1], located.images),
    ]
    fields = [
        pa.array(kinds),
        pa.array(transactions),
        pa.array(ordinals),
        _absent(located),
        pa.StructArray.from_arrays(source, fields=_SOURCE_FIELDS),
    ]
    return pa.record_batch(fields, schema=IMAGE_FIELDS)


def _files(events: RowsEvents, counts: Longs) -> pa.Array:
    """Returns the name of each row image's file."""
    numbers = events.origin[0]
    if len(numbers) and (numbers == numbers[0]).all():
        return pa.DictionaryArray.from_arrays(
            pa.array(np.zeros(counts.sum(), np.int32)), _file_name(events.files[numbers[0]])
        )
    used, which = np.unique(numbers, return_inverse=True)
    names = pa.array([events.files[number] for number in used.tolist()], pa.string())
    return pa.DictionaryArray.from_arrays(pa.array(np.repeat(which.astype(np.int32), counts)), names)


@lru_cache(maxsize=16)
def _file_name(name: str) -> pa.Array:
    return pa.array([name], pa.string())


def _statements(buffer: Bytes, starts: Longs, counts: Longs) -> pa.Array:
    """Returns the text of each row image's statement, which lies after its length in the buffer; null without one."""
    if not (starts >= 0).any():
        return pa.nulls(int(counts.sum()), _QUERY)
    used, which = np.unique(starts, return_inverse=True)
    cells_ = used.astype(np.int32)
    lengths = buffer[used[used >= 0][:, None] + np.arange(TEXT_LENGTH)].astype(np.int64) @ _WEIGHTS
    stored = StoredColumn(buffer, cells_, "a statement's text", int(lengths.sum()))
    texts = decode_varying(_TEXT, stored)
    return pa.DictionaryArray.from_arrays(
        pa.array(np.repeat(which, counts).astype(np.int32)), _readable(texts)
    )


def _readable(texts: pa.Array) -> pa.Array:
    """The bytes as text; what isn't UTF-8 becomes U+FFFD."""
    try:
        return texts.cast(pa.string())
    except pa.ArrowInvalid:
        decoded = [None if each is None else each.decode(errors="replace") for each in texts.to_pylist()]
        return pa.array(decoded, pa.string())


def _absent(located: LocatedImages) -> pa.Array:
    """The bitmap of absent columns of each row image, null where there are none."""
    columns, images = located.cells.shape
    if not located.partial:
        return pa.nulls(images, pa.binary())
    absent = np.equal(located.cells, ABSENT)
    some: Flags = np.logical_or.reduce(absent, axis=0)
    size = (columns + 7) // 8
    offsets = np.zeros(images + 1, np.int64)
    np.cumsum(some * size, out=offsets[1:])
    bitmaps = np.packbits(absent[:, some], axis=0, bitorder="little")
    return arrow_arrays.varying_width_array(
        pa.binary(), offsets, np.ascontiguousarray(bitmaps.T).reshape(-1), some
    )


def _refuse(table_map: TableMap, status: int, column: int) -> Never:
    table = table_map.table
    match status:
        case cells.OUTSIDE:
            raise InvariantBroken(f"{table}: a rows event lies outside of the slice's buffer")
        case cells.OTHER_COLUMNS:
            raise UndecodableError(f"{table}: a row event has another number of columns than its table map")
        case cells.OTHER_OPTIONS:
            raise UndecodableError(f"{table}: a row image has value options that Tidemark doesn't know")
        case _:
            where = f"column {_column_name(table_map, column)}" if column >= 0 else "between its columns"
            raise UndecodableError(f"{table}: a row event ends inside of a row image, {where}")


def _column_name(table_map: TableMap, column: int) -> str:
    metadata = table_map.metadata
    name = metadata.names[column] if isinstance(metadata, FullMetadata) else str(column)
    return f"{table_map.table}.{name}"
