"""Row events into Arrow: the row images of the table maps in one slice of the log.

Two steps. `locate_images` passes over all of a table's events at once, in compiled code, and finds where each cell is
(`cells`). It also shows how many images each event has. `images_of_tables` makes columns from the cells (`columns`). No
row becomes a Python object, and no value but a few rare ones. Both release the GIL while they work and share nothing,
so that slices can be decoded beside each other in threads.

**Tables of few images are decoded together.** With hundreds of tables that change, each has some rows in a slice, and a
call costs more than they do. So all columns of one kind become one array, and each table's columns are slices of it. A
table of many images has arrays of its own. If a value isn't one of its column's type, each table is decoded alone, so
that only its own stops.

Source: MySQL 9.7 source documentation, class mysql::binlog::event::Rows_event.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple, Never

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.binlog.event_type import Code
from pipeline.binlog.rows import cells
from pipeline.binlog.rows.columns import ColumnKind, decode_column
from pipeline.binlog.rows.image_descriptions import describe_images
from pipeline.binlog.rows.stored_values import StoredColumn, decode_varying
from pipeline.binlog.rows.table_layout import layout_of
from pipeline.binlog.stream_state import TEXT_LENGTH
from pipeline.errors import Definite, InvariantBroken, UndecodableError
from pipeline.messages.row_images import IMAGE_FIELDS, SOURCE_TYPE, ImageKind, TableImages, TableUnreadable
from pipeline.schema.table_map import FullMetadata, TableMap
from pipeline.types import arrow_arrays
from pipeline.types.buffers import ABSENT, Bytes, CellTable, Flags, Longs
from pipeline.types.field_types import FieldType, Storage

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

# Tables of so many images at most are decoded together.
_FEW: Final = 256

# Of an image's description in memory, without the columns that it lacks and the statement's text. The file and the
# statement are numbers of four bytes.
_INTEGERS: Final = [field.type for field in (*IMAGE_FIELDS, *SOURCE_TYPE) if pa.types.is_integer(field.type)]
_DESCRIPTION_BYTES: Final = sum(each.bit_width // 8 for each in _INTEGERS) + 2 * 4

_TEXT: Final = Storage(FieldType.BLOB, TEXT_LENGTH)
_WEIGHTS: Final = 256 ** np.arange(TEXT_LENGTH)
_NOTHING: Final = pa.nulls(0)


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
    layout = layout_of(table_map)
    if len(buffer) > cells.LARGEST_BUFFER:
        raise InvariantBroken(
            f"{table_map.table}: a slice has {len(buffer)} bytes, more than a cell can point to"
        )
    columns = len(layout.kinds)
    room = max(_SMALLEST_ROOM, int((events.end - events.start).sum()) // layout.smallest)
    images = np.zeros(len(events.start), np.int64)
    while True:
        found = np.empty((columns, room), np.int32)
        sizes, state = np.zeros(columns, np.int64), np.zeros(cells.LOCATE_STATE, np.int64)
        status = cells.locate_cells(
            buffer, events.start, events.end, events.code, layout.widths, layout.masks, sizes, layout.json,
            found, images, state,
        )  # fmt: skip
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


class OrderedImages(NamedTuple):
    """A table's row images; `first_ordinals` has, of each event, the ordinal of its first image."""

    located: LocatedImages
    first_ordinals: Longs


def images_of_tables(tables: Sequence[OrderedImages]) -> list[TableImages | TableUnreadable]:
    """The row images of each table in columns, in the given order. All are located in one buffer.

    A table with a value that isn't one of its column's type is unreadable.
    """
    few = [each for each in tables if each.located.cells.shape[1] <= _FEW]
    try:
        together = dict(zip(map(id, few), _decoded(few), strict=True)) if len(few) > 1 else {}
    except Definite:
        together = {}
    return [together.get(id(each)) or _decoded_alone(each) for each in tables]


def images_of_events(located: LocatedImages, first_ordinals: Longs) -> TableImages:
    """The row images of one table in columns.

    Raises UndecodableError or TextError, which name table and column, if a value isn't one of its column's type.
    """
    return _decoded([OrderedImages(located, first_ordinals)])[0]


def _decoded_alone(images: OrderedImages) -> TableImages | TableUnreadable:
    try:
        return images_of_events(*images)
    except Definite as error:
        return TableUnreadable(images.located.table_map.table, str(error))


def _decoded(tables: Sequence[OrderedImages]) -> list[TableImages]:
    counts = np.array([each.located.cells.shape[1] for each in tables])
    described, sizes = _images(tables)
    sizes += counts * _DESCRIPTION_BYTES
    impossible_dates = np.zeros(len(tables), np.int64)
    columns: list[list[pa.Array]] = [[_NOTHING] * len(each.located.cells) for each in tables]
    for kind, members in _columns_by_kind(tables):
        whose = np.array([member.table for member in members])
        begins = _begins(counts[whose])
        stored = _stored_column(tables, members)
        values = decode_column(kind, stored)
        np.add.at(sizes, whose, _bytes_of_values(values, begins))
        np.add.at(impossible_dates, whose, _made_null(values, stored, begins))
        for (table, column), first, last in zip(
            members, begins[:-1].tolist(), begins[1:].tolist(), strict=True
        ):
            columns[table][column] = values if len(members) == 1 else values.slice(first, last - first)
    return [
        TableImages(
            each.located.table_map,
            described.slice(first, count),
            pa.RecordBatch.from_arrays(own, schema=layout_of(each.located.table_map).schema),
            size,
            dates,
        )
        for each, own, first, count, size, dates in zip(
            tables, columns, _begins(counts)[:-1].tolist(), counts.tolist(), sizes.tolist(),
            impossible_dates.tolist(), strict=True,
        )
    ]  # fmt: skip


def _begins(counts: Longs) -> Longs:
    """Where each of so many values begin, one after the other, and the end."""
    begins = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=begins[1:])
    return begins


class _Member(NamedTuple):
    """A column of one of the tables, both by their places."""

    table: int
    column: int


def _columns_by_kind(tables: Sequence[OrderedImages]) -> list[tuple[ColumnKind, list[_Member]]]:
    """The columns that become one array each. Those of a single table stay alone: it may have many images."""
    of_tables = [layout_of(each.located.table_map).kinds for each in tables]
    if len(tables) == 1:
        return [(kind, [_Member(0, column)]) for column, kind in enumerate(of_tables[0])]
    groups: dict[ColumnKind, list[_Member]] = {}
    for table, kinds in enumerate(of_tables):
        for column, kind in enumerate(kinds):
            groups.setdefault(kind, []).append(_Member(table, column))
    return list(groups.items())


def _stored_column(tables: Sequence[OrderedImages], members: Sequence[_Member]) -> StoredColumn:
    """The values of all these columns. Its name is that of the first one."""
    first = tables[members[0].table].located
    name = _column_name(first.table_map, members[0].column)
    if len(members) == 1:
        column = members[0].column
        return StoredColumn(first.buffer, first.cells[column], name, int(first.sizes[column]))
    cells_ = np.concatenate([tables[table].located.cells[column] for table, column in members])
    size = sum(int(tables[table].located.sizes[column]) for table, column in members)
    return StoredColumn(first.buffer, cells_, name, size)


def _made_null(values: pa.Array, stored: StoredColumn, begins: Longs) -> Longs:
    """How many values between each two of these places are null though the log has them."""
    if values.null_count == stored.nulls:
        return np.zeros(len(begins) - 1, np.int64)
    before = _begins(values.is_null().to_numpy(zero_copy_only=False) & stored.exists)[begins]
    return before[1:] - before[:-1]


def _bytes_of_values(values: pa.Array, begins: Longs) -> Longs:
    """The bytes in memory of the values between each two of these places."""
    counts = begins[1:] - begins[:-1]
    sizes: Longs
    if pa.types.is_primitive(values.type) or pa.types.is_decimal(values.type):
        sizes = counts * values.type.bit_width // 8
        return sizes
    places = np.frombuffer(values.buffers()[1], np.int32)[values.offset :][begins].astype(np.int64)
    item = values.type.value_type.bit_width // 8 if pa.types.is_list(values.type) else 1
    sizes = (places[1:] - places[:-1]) * item + counts * 4
    return sizes


def _images(tables: Sequence[OrderedImages]) -> tuple[pa.RecordBatch, Longs]:
    """IMAGE_FIELDS of each row image of the tables, one table after the other.

    And the bytes of each table's part that aren't the same for each image.
    """
    located = [each.located for each in tables]
    code, transaction, counts = (
        _joined([each.events.code for each in located]),
        _joined([each.events.transaction for each in located]),
        _joined([each.images for each in located]),
    )
    origin = _joined([each.events.origin for each in located], axis=1)
    first_ordinals = _joined([each.first_ordinals for each in tables])
    size = sum(each.cells.shape[1] for each in located)
    kinds, exists = np.empty(size, np.int8), np.empty(size, np.bool_)
    transactions, ordinals, rows = (np.empty(size, np.int32) for _ in range(3))
    places, (servers, threads) = np.empty(size, np.int64), (np.empty(size, np.uint32) for _ in range(2))
    describe_images(
        _KINDS[code], transaction, np.ascontiguousarray(origin), counts, np.ascontiguousarray(first_ordinals),
        kinds, transactions, ordinals, rows, places, servers, threads, exists,
    )  # fmt: skip
    statements = _statements(located[0].buffer, origin[-1], counts)
    source = [
        _files(origin[0], located[0].events.files, counts),
        pa.array(places),
        pa.array(rows),
        pa.array(servers),
        arrow_arrays.fixed_width_array(pa.uint32(), threads, exists),
        statements,
    ]
    absent = [_absent(each) for each in located] if any(each.partial for each in located) else []
    fields = [
        pa.array(kinds),
        pa.array(transactions),
        pa.array(ordinals),
        pa.concat_arrays(absent) if absent else pa.nulls(size, pa.binary()),
        pa.StructArray.from_arrays(source, fields=_SOURCE_FIELDS),
    ]
    sizes = np.zeros(len(located), np.int64)
    for place, bitmaps in enumerate(absent):
        sizes[place] = bitmaps.nbytes if located[place].partial else 0
    sizes[0] += 0 if statements.null_count == size else statements.dictionary.nbytes
    return pa.record_batch(fields, schema=IMAGE_FIELDS), sizes


def _joined(arrays: Sequence[NDArray[Any]], axis: int = 0) -> NDArray[Any]:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays, axis)


def _files(numbers: Longs, files: tuple[str, ...], counts: Longs) -> pa.Array:
    """Returns the name of each row image's file."""
    if len(numbers) and (numbers == numbers[0]).all():
        return pa.DictionaryArray.from_arrays(
            pa.array(np.zeros(counts.sum(), np.int32)), _file_name(files[numbers[0]])
        )
    used, which = np.unique(numbers, return_inverse=True)
    names = pa.array([files[number] for number in used.tolist()], pa.string())
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
