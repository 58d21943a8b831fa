"""The description of each row image, in columns beside the image's own.

It has the image's kind (`row_images.ImageKind`), its place in the log, the index of its transaction in the slice, and
its ordinal in that transaction. Ordinals count over all captured tables, from 0, one for each image. It also says which
columns the log leaves out (with binlog_row_image MINIMAL or NOBLOB): their values in the image are null and mean
nothing. If an update's after image leaves out a column that its before image has, it takes the value from there.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pipeline.schema.table_map import TableMap
from pipeline.schema.table_schema import TableId, TableSchema
from pipeline.types.arrow_arrays import bytes_of
from pipeline.types.buffers import Flags, Longs

# Where a row is in the log: the file, the offset at which its rows event begins (or that of the compressed transaction
# around it), its number among the event's rows (from 0, one for both images of an update), the id of the server that
# wrote it, the thread of the connection, and the statement's text. Null where the log doesn't have it.
SOURCE_TYPE: Final = pa.struct(
    [
        pa.field("file", pa.dictionary(pa.int32(), pa.string())),
        pa.field("pos", pa.int64()),
        pa.field("row", pa.int32()),
        pa.field("server_id", pa.uint32()),
        pa.field("thread", pa.uint32()),
        pa.field("query", pa.dictionary(pa.int32(), pa.string())),
    ]
)

# `absent` is null where all columns are there, and else a bitmap: bit i % 8 of byte i // 8 is set where column i is
# absent. An image may lack hundreds of columns, so that their names are for the journal's files alone.
IMAGE_FIELDS: Final = pa.schema(
    [
        pa.field("kind", pa.int8(), nullable=False),
        pa.field("transaction", pa.int32(), nullable=False),
        pa.field("ordinal", pa.int32(), nullable=False),
        pa.field("absent", pa.binary()),
        pa.field("source", SOURCE_TYPE),
    ]
)


class ImageKind(IntEnum):
    """What a row image is: an update has its before directly followed by its after; EMPTIED: all rows are gone."""

    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3
    EMPTIED = 4


@dataclass(frozen=True, slots=True)
class TableImages:
    """Row images of one table under one table map: `images` (`row_images.IMAGE_FIELDS`) beside `rows`, equally long.

    `rows` has one column for each column of the table, in the table's order, named "0", "1", … and of the canonical
    type. What the log may leave open is an exception. ENUM is its index (int32) and SET its bits (int64, by two's
    complement), without labels. Raw types (`pipeline.types.column_types.RawType`) are neutral. An integer has its bits
    read as a signed one (int8 to int64). A string has the bytes that are stored (binary), which is BINARY without its
    padding. `bytes`: what they take in memory, where several tables may share a buffer. `impossible_dates`: how many
    dates in them are null because no calendar has them.
    """

    map: TableMap
    images: pa.RecordBatch
    rows: pa.RecordBatch
    bytes: int
    impossible_dates: int = 0


@dataclass(frozen=True, slots=True)
class TableUnreadable:
    """In place of images: rows of this table came here that can't be decoded rightly, for this reason."""

    table: TableId
    reason: str


@dataclass(frozen=True, slots=True)
class TableChanges:
    """Row images under a proven schema: `images` (`row_images.IMAGE_FIELDS`) beside `rows` (`schema.arrow`).

    `bytes`: as of TableImages.
    """

    schema: TableSchema
    images: pa.RecordBatch
    rows: pa.RecordBatch
    bytes: int

    @classmethod
    def unshared(cls, schema: TableSchema, images: pa.RecordBatch, rows: pa.RecordBatch) -> "TableChanges":
        """Returns changes whose buffers aren't shared, with the bytes of these."""
        return cls(schema, images, rows, images.nbytes + rows.nbytes)


def images_with(absent: pa.Array, column: int) -> Flags:
    """Returns which of the images have the column with this index. `absent`: as in IMAGE_FIELDS."""
    given = np.ones(len(absent), dtype=np.bool_)
    if absent.null_count == len(absent):
        return given
    bitmaps, places = bytes_of(absent)
    some = np.flatnonzero(places[1:] > places[:-1])
    given[some] = bitmaps[places[some] + column // 8] >> column % 8 & 1 == 0
    return given


def updates_of_keys(kind: NDArray[np.int8], keys: pa.Array) -> Longs:
    """Returns the places of the before images of updates that change the key. `keys`: the images' key tokens, of which
    null equals none.
    """
    before = np.flatnonzero(kind == ImageKind.UPDATE_BEFORE)
    same = pc.equal(keys.take(pa.array(before)), keys.take(pa.array(before + 1))).fill_null(False)
    return before[~np.asarray(same.to_numpy(zero_copy_only=False), np.bool_)]
