"""Where each value of row images lies, and how many there are: compiled passes over the rows events of a table.

A *cell* says of one column in one row image where its value begins in the buffer. A negative cell is `NULL`, or
`ABSENT` if the log leaves the column out (binlog_row_image MINIMAL or NOBLOB). Or it is the place of JSON diffs
(`diffs_at`), which make the value from the row image before it (PARTIAL_UPDATE_ROWS).

**An update doesn't change what its after image leaves out.** So there the cell is that of the before image, and only
what neither image has is `ABSENT`.

**A slice is bounded in cells too** (`count_cells`), since each of them takes room once it's decoded, whether the log
has bytes for it or not. An UPDATE of one column may log 11 bytes, and has two images of all columns. Where each cell
has bytes in the log, the bound in bytes is enough. There nothing is counted, which is so for most tables.

**No read outside the buffer.** Compiled code isn't checked, so the argument is this. `locate_cells` and `count_cells`
alone read lengths that come from the log. They take an event only if it ends at least `SLACK` bytes before the buffer
does. They count an image only if each of its values, length prefixes included, lies before the end of its event. An
incomplete one ends the pass, after a read of no more than eight bytes beyond the event. So a reader of a cell may read
8 bytes, or the width or the length in the prefix that `locate_cells` has checked.

Source: MySQL 9.7 source documentation, class mysql::binlog::event::Rows_event; `unpack_row` in sql/rpl_record.cc;
WL#5092 (columns-present bitmaps), WL#2955 (partial JSON).
"""

from typing import Final, TypeVar

import numpy as np

from pipeline.binlog.event_type import Code
from pipeline.errors import UndecodableError
from pipeline.schema.table_map import TableMap
from pipeline.types.buffers import ABSENT, NULL, SLACK, Bytes, Cells, CellTable, Flags, Int, Longs
from pipeline.types.byte_kernels import unsigned
from pipeline.types.field_types import FieldType, stored_width
from pipeline.types.jit import compiled

LARGEST_BUFFER: Final = 2**31 - 1  # bytes, that cells can point to

_DIFFS: Final = -3

_Cell = TypeVar("_Cell", int, Cells)

# How a pass ends.
LOCATED: Final = 0
IMAGES_FULL: Final = 1  # there are more row images than room for them
TRUNCATED: Final = 2  # an event ends inside of an image
OTHER_COLUMNS: Final = 3  # an event has another number of columns than its table map
OUTSIDE: Final = 4  # an event isn't in the buffer
OTHER_OPTIONS: Final = 5  # a row image has value options that aren't known

# What `state` holds: the next event, the next row image, the column at fault (-1: none), and whether an event may have
# cells that are ABSENT: none has them if its first images have all columns, since an after image takes from those.
EVENT: Final = 0
ROW_SLOT: Final = 1
COLUMN: Final = 2
PARTIAL: Final = 3
LOCATE_STATE: Final = 4  # numbers

_HEADER: Final = 8  # table id (6 bytes) and flags (2 bytes)
_PARTIAL_JSON: Final = 1  # the one value option

# A column's form: the width of its value or of the length before it (bytes), and what else is so.
_WIDTH: Final = 255
_HAS_LENGTH: Final = 256
_JSON: Final = 512
# In the first of a map's: an image with all columns may have more cells than _DENSE for a byte.
_SPARSE: Final = 1024
_DENSE: Final = 4

_V2: Final = int(Code.WRITE_ROWS)
_UPDATE_V1: Final = int(Code.UPDATE_ROWS_V1)
_UPDATE: Final = int(Code.UPDATE_ROWS)
_UPDATE_PARTLY: Final = int(Code.PARTIAL_UPDATE_ROWS)


def diffs_at(cell: _Cell) -> _Cell:
    """Where the JSON diffs of such a cell, or of each of such cells, begin. It's its own inverse."""
    return _DIFFS - cell


@compiled("boolean(uint8[::1], int64, int64)", inlined=True)
def _bit(buffer: Bytes, at: Int, bit: Int) -> bool:
    return bool((buffer[at + (bit >> 3)] >> (bit & 7)) & 1)


@compiled("int64(uint8[::1], int64, int64)", inlined=True)
def _count(buffer: Bytes, at: Int, bits: Int) -> Int:
    """How many of the first `bits` bits are set."""
    count: Int = np.int64(0)
    for bit in range(bits):
        count += np.int64(_bit(buffer, at, bit))
    return count


@compiled("UniTuple(int64, 2)(uint8[::1], int64, int64, int64, int64)", inlined=True)
def _bitmaps(buffer: Bytes, start: Int, end: Int, code: Int, columns: Int) -> tuple[Int, Int]:
    """The status of an event's header, and where its columns-present bitmaps begin."""
    at: Int = start + _HEADER
    if code >= _V2:
        if at + 2 > end:
            return TRUNCATED, at
        at += unsigned(buffer, at, 2)  # it counts its own two bytes; if not, no columns are counted after it
    if at >= end:
        return TRUNCATED, at
    count: Int = np.int64(buffer[at])
    at += 1
    if count == 252:  # a length-encoded integer; a table has no more than 4096 columns
        if at + 2 > end:
            return TRUNCATED, at
        count = unsigned(buffer, at, 2)
        at += 2
    elif count > 250:
        return OTHER_COLUMNS, at
    if count != columns:
        return OTHER_COLUMNS, at
    return LOCATED, at


@compiled("int64(uint8[::1], int64, int64, int64[::1], int64[::1], int64[::1])", inlined=True)
def _value_end(buffer: Bytes, at: Int, column: Int, widths: Longs, masks: Longs, sizes: Longs) -> Int:
    """Where a column's value ends that begins here; `sizes` gets its length.

    The next value begins there. So the processor waits for each length that is read, and none is read where there is
    none. One that isn't complete ends in the slack, and makes the value end after it.
    """
    if masks[column] != 0:
        size = unsigned(buffer, at, 4) & masks[column]
        sizes[column] += size
        at += size
    end: Int = at + widths[column]
    return end


@compiled(
    "UniTuple(int64, 2)(uint8[::1], int64, int64, int64[::1], int64[::1], int64[::1], int32[:, ::1], int64)",
    inlined=True,
)
def _whole_image(
    buffer: Bytes, at: Int, end: Int, widths: Longs, masks: Longs, sizes: Longs, cells: CellTable, row: Int
) -> tuple[Int, Int]:
    """Find the cells of an image that has all columns. Returns where it ends, or -1 and the column at fault."""
    columns = np.int64(len(widths))
    nulls = at
    at += (columns + 7) >> 3
    if at > end:
        return np.int64(-1), np.int64(-1)
    for column in range(columns):
        if (buffer[nulls + (column >> 3)] >> (column & 7)) & 1:
            cells[column, row] = NULL
            continue
        cells[column, row] = at
        at = _value_end(buffer, at, column, widths, masks, sizes)
        if at > end:
            return np.int64(-1), np.int64(column)
    return at, np.int64(-1)


@compiled(
    "UniTuple(int64, 2)(uint8[::1], int64, int64, int64, int64, boolean, int64[::1], int64[::1], int64[::1],"
    " boolean[::1], int32[:, ::1], int64)",
    inlined=True,
)
def _partial_image(
    buffer: Bytes,
    at: Int,
    end: Int,
    present: Int,
    partial: Int,
    after: bool,
    widths: Longs,
    masks: Longs,
    sizes: Longs,
    json: Flags,
    cells: CellTable,
    row: Int,
) -> tuple[Int, Int]:
    """Find the cells of an image with the columns of the bitmap at `present`; else as `_whole_image`.

    `partial`: where the bitmap is that says which JSON columns have diffs, or -1. `after`: the image before it in
    `cells` is its before image.
    """
    columns = np.int64(len(widths))
    nulls = at
    at += (_count(buffer, present, columns) + 7) >> 3
    if at > end:
        return np.int64(-1), np.int64(-1)
    bit, document = np.int64(0), np.int64(0)
    for column in range(columns):
        differs = False
        if partial >= 0 and json[column]:
            differs = _bit(buffer, partial, document)
            document += 1
        if not _bit(buffer, present, column):
            same = np.int64(cells[column, row - 1]) if after else np.int64(ABSENT)
            cells[column, row] = same
            if same >= 0:
                sizes[column] += unsigned(buffer, same, 4) & masks[column]
            continue
        null = _bit(buffer, nulls, bit)
        bit += 1
        if null:
            cells[column, row] = NULL
            continue
        cells[column, row] = _DIFFS - at if differs else at
        at = _value_end(buffer, at, column, widths, masks, sizes)
        if at > end:
            return np.int64(-1), np.int64(column)
    return at, np.int64(-1)


@compiled("UniTuple(int64, 3)(uint8[::1], int64, int64, int64)", inlined=True)
def _value_options(buffer: Bytes, at: Int, end: Int, documents: Int) -> tuple[Int, Int, Int]:
    """Parses the bytes before the after images of PARTIAL_UPDATE_ROWS: returns a status, where the bitmap of JSON
    columns with diffs is (-1 without any), and where the image begins."""
    if at >= end:
        return TRUNCATED, np.int64(-1), at
    options = buffer[at]
    at += 1
    if options > _PARTIAL_JSON:
        return OTHER_OPTIONS, np.int64(-1), at
    if options == 0:
        return LOCATED, np.int64(-1), at
    partial = at
    at += (documents + 7) >> 3
    if at > end:
        return TRUNCATED, np.int64(-1), at
    return LOCATED, partial, at


@compiled(
    "UniTuple(int64, 2)(uint8[::1], int64, int64, int64, int64, boolean, boolean, int64[::1], int64[::1], int64[::1],"
    " boolean[::1], int32[:, ::1], int64, int64[::1])"
)
def _images(
    buffer: Bytes,
    at: Int,
    end: Int,
    before: Int,
    after: Int,
    update: bool,
    partly: bool,
    widths: Longs,
    masks: Longs,
    sizes: Longs,
    json: Flags,
    cells: CellTable,
    row: Int,
    state: Longs,
) -> tuple[Int, Int]:
    """Finds the cells of the images at buffer[at:end], from `row`. Returns a status and the row after the last one.

    `before`, `after`: where the bitmaps of the images' columns are; the second one is for after images.
    """
    columns = np.int64(len(widths))
    documents = np.int64(0)
    for column in range(columns):
        documents += np.int64(json[column])
    present_before = _count(buffer, before, columns)
    # An inserted row of nothing but defaults may have no column, and so no bytes; it's alone in its event.
    nothing = present_before == 0
    if nothing and (update or at < end):
        return np.int64(TRUNCATED), row
    whole_before = present_before == columns
    whole_after = _count(buffer, after, columns) == columns and not partly
    state[PARTIAL] |= not whole_before
    is_after = False
    while at < end or is_after or nothing:
        if row == cells.shape[1]:
            return np.int64(IMAGES_FULL), row
        if whole_after if is_after else whole_before:
            at, fault = _whole_image(buffer, at, end, widths, masks, sizes, cells, row)
        else:
            partial: Int = np.int64(-1)
            if is_after and partly:
                status, partial, at = _value_options(buffer, at, end, documents)
                if status != LOCATED:
                    return status, row
            present = after if is_after else before
            at, fault = _partial_image(
                buffer, at, end, present, partial, is_after, widths, masks, sizes, json, cells, row
            )
        if at < 0:
            state[COLUMN] = fault
            return np.int64(TRUNCATED), row
        row += 1
        is_after = update and not is_after
        nothing = False
    return np.int64(LOCATED), row


@compiled(
    "int64(uint8[::1], int64[::1], int64[::1], uint8[::1], int64[::1], int64[::1], int64[::1], boolean[::1],"
    " int32[:, ::1], int64[::1], int64[::1])"
)
def locate_cells(
    buffer: Bytes,
    starts: Longs,
    ends: Longs,
    codes: Bytes,
    widths: Longs,
    masks: Longs,
    sizes: Longs,
    json: Flags,
    cells: CellTable,
    images: Longs,
    state: Longs,
) -> Int:
    """Finds the cells of the rows events with these bodies and type codes. Returns a status.

    A column's value takes its `widths` in bytes, and those that its first four bytes, masked by `masks`, count; `sizes`
    gets their sum over all row images. `json` says which columns are of that type. `cells` is [columns, room]; `images`
    takes the number of row images of each event, and `state` and `sizes` begin with zeros.

    With IMAGES_FULL, the pass has to be repeated with more room. With any other status except LOCATED, `state`
    points to the event at fault.
    """
    columns = np.int64(len(widths))
    size = (columns + 7) >> 3
    state[COLUMN] = -1
    while state[EVENT] < len(starts):
        event = state[EVENT]
        start, end, code = starts[event], ends[event], np.int64(codes[event])
        if start < 0 or end < start or end > len(buffer) - SLACK:
            return OUTSIDE
        status, before = _bitmaps(buffer, start, end, code, columns)
        if status != LOCATED:
            return status
        partly = code == _UPDATE_PARTLY
        update = code in (_UPDATE, _UPDATE_V1) or partly
        after = before + size if update else before
        if after + size > end:
            return TRUNCATED
        status, row = _images(
            buffer,
            after + size,
            end,
            before,
            after,
            update,
            partly,
            widths,
            masks,
            sizes,
            json,
            cells,
            state[ROW_SLOT],
            state,
        )
        if status != LOCATED:
            return status
        images[event] = row - state[ROW_SLOT]
        state[ROW_SLOT] = row
        state[EVENT] = event + 1
    return LOCATED


def column_forms(table_map: TableMap) -> Longs:
    """How the table's columns are stored, for `count_cells`; nothing of a table that can't be read."""
    try:
        widths = [stored_width(storage) for storage in table_map.storage]
    except UndecodableError:
        return np.empty(0, np.int64)
    json = [storage.code == FieldType.JSON for storage in table_map.storage]
    forms = [
        abs(width) | (_HAS_LENGTH if width < 0 else 0) | (_JSON if is_json else 0)
        for width, is_json in zip(widths, json, strict=True)
    ]
    least = sum(abs(width) for width, null in zip(widths, table_map.nullable, strict=True) if not null)
    if forms and len(forms) > _DENSE * ((len(forms) + 7) // 8 + least):
        forms[0] |= _SPARSE
    return np.array(forms, np.int64)


@compiled("int64(uint8[::1], int64, int64, int64, int64, int64[::1], int64, int64)", inlined=True)
def _image_end(
    buffer: Bytes, at: Int, end: Int, present: Int, size: Int, forms: Longs, first: Int, last: Int
) -> Int:
    """Where an image with the columns of the bitmap at `present` ends, `size` being that of its NULL bitmap.

    It is after `end` if the image isn't whole.
    """
    nulls, bit, column = at, np.int64(0), np.int64(0)
    at += size
    while column < last - first and at <= end:
        if column & 7 == 0 and buffer[present + (column >> 3)] == 0:
            column += 8
            continue
        if _bit(buffer, present, column):
            if not _bit(buffer, nulls, bit):
                form: Int = np.int64(forms[first + column])
                length: Int = np.int64(0)
                if form & _HAS_LENGTH:
                    length = unsigned(buffer, at, 4) & ((1 << (8 * (form & _WIDTH))) - 1)
                at += (form & _WIDTH) + length
            bit += 1
        column += 1
    return at


@compiled("boolean(uint8[::1], int64, int64, int64, int64)", inlined=True)
def _has_all(buffer: Bytes, start: Int, end: Int, code: Int, columns: Int) -> bool:
    """Returns whether it's plain that all images of an event have all columns, which is so of most."""
    at: Int = start + _HEADER
    if at + 2 > end:
        return False
    if code >= _V2:
        at += unsigned(buffer, at, 2)
    at += 1 if columns <= 250 else 3
    size = (columns + 7) >> 3
    bitmaps = 2 if code in (_UPDATE, _UPDATE_V1, _UPDATE_PARTLY) else 1
    if at + bitmaps * size > end:
        return False
    ends = np.int64(255) >> (-columns & 7)
    for _ in range(bitmaps):
        for place in range(at, at + size - 1):
            if buffer[place] != 255:
                return False
        at += size
        if buffer[at - 1] & ends != ends:
            return False
    return True


@compiled("int64(uint8[::1], int64, int64, int64, int64[::1], int64, int64)")
def _count_cells(buffer: Bytes, start: Int, end: Int, code: Int, forms: Longs, first: Int, last: Int) -> Int:
    columns = np.int64(last - first)
    size = (columns + 7) >> 3
    status, before = _bitmaps(buffer, start, end, code, columns)
    partly = code == _UPDATE_PARTLY
    update = code in (_UPDATE, _UPDATE_V1) or partly
    after = before + size if update else before
    at: Int = after + size
    if status != LOCATED or at > end:
        return np.int64(0)
    some_before, some_after = _count(buffer, before, columns), _count(buffer, after, columns)
    if some_before == columns and some_after == columns and not forms[first] & _SPARSE:
        return np.int64(0)
    if some_before == 0:  # a row of nothing but defaults, as in `_images`
        return columns
    documents = np.int64(0)
    for column in range(first, last):
        documents += np.int64(forms[column] & _JSON != 0)
    images = np.int64(0)
    is_after = False
    while at < end or is_after:
        if is_after and partly:
            status, _, at = _value_options(buffer, at, end, documents)
            if status != LOCATED:
                break
        if is_after:
            at = _image_end(buffer, at, end, after, (some_after + 7) >> 3, forms, first, last)
        else:
            at = _image_end(buffer, at, end, before, (some_before + 7) >> 3, forms, first, last)
        if at > end:
            break
        images += 1
        is_after = update and not is_after
    return images * columns


@compiled("int64(uint8[::1], int64, int64, int64, int64[::1], int64)", inlined=True)
def count_cells(buffer: Bytes, start: Int, end: Int, code: Int, forms: Longs, at: Int) -> Int:
    """Returns how many cells the images of a rows event have: of one that leaves columns out, or is `_SPARSE`; else 0.

    Its body is buffer[start:end], with `buffers.SLACK` bytes after it. forms[at] is the number of its columns, whose
    forms come next. Images that aren't whole don't count: decoding refuses them.
    """
    first = at + 1
    last = first + forms[at]
    if last == first:
        return np.int64(0)
    if not forms[first] & _SPARSE and _has_all(buffer, start, end, code, last - first):
        return np.int64(0)
    return _count_cells(buffer, start, end, code, forms, first, last)
