"""Values that the server's log has from another row: they are left out, and the row is read again.

A virtual column of a TEXT, BLOB, JSON or spatial type isn't in InnoDB's rows. The server computes it where a statement
writes a row, and its row then only points to the value. A row may take the key of a row that was deleted and that
InnoDB hasn't purged yet. Then InnoDB computes the deleted row's columns for the indexes that need them. It does so in
the same place, and the log gets what lies there: the earlier row's value, or a part of it. The server itself shows the
right value, because it computes the column again. It's so for each binlog_row_image (observed of MySQL 9.7).

Only a row that has come under its key is concerned: one that was inserted, or that an update has given another key. The
log doesn't tell whether InnoDB has purged a deleted row. So each such row is without the value, as if the log had left
it out, and `pipeline.coordinator.partial_rows` says what becomes of it. A table without a key has no earlier rows.
"""

from collections.abc import Set as AbstractSet
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.messages.row_images import ImageKind, TableChanges, updates_of_keys
from pipeline.schema.row_keys import key_tokens
from pipeline.types.buffers import Flags


def withhold_stale_values(changes: TableChanges, stale: AbstractSet[str]) -> TableChanges:
    """Returns the changes, in which rows that have come under their key lack the columns `stale`."""
    schema = changes.schema
    columns = [i for i, column in enumerate(schema.columns) if column.name in stale and i not in schema.key]
    if not columns or not schema.key:
        return changes
    came = _came(changes)
    if not came.any():
        return changes
    mask, rows = pa.array(came), changes.rows
    for i in columns:
        field = rows.schema.field(i)
        rows = rows.set_column(i, field, pc.if_else(mask, pa.scalar(None, field.type), rows.column(i)))
    place = changes.images.schema.get_field_index("absent")
    absent = pc.if_else(
        mask,
        _with_bits(changes.images.column(place), columns, len(schema.columns)),
        changes.images.column(place),
    )
    images = changes.images.set_column(place, changes.images.schema.field(place), absent)
    return replace(changes, images=images, rows=rows)


def _came(changes: TableChanges) -> Flags:
    """Returns which images are of rows that have come under their key."""
    kind = changes.images.column("kind").to_numpy()
    came: Flags = kind == ImageKind.INSERT
    came[updates_of_keys(kind, key_tokens(changes.rows, changes.schema.key)) + 1] = True
    return came


def _with_bits(absent: pa.Array, columns: list[int], count: int) -> pa.Array:
    """Returns the bitmaps of absent columns with these among them; a table has `count` columns."""
    added = sum(1 << i for i in columns)
    size = (count + 7) // 8
    several = absent.unique()
    found = [
        (int.from_bytes(bitmap or b"", "little") | added).to_bytes(size, "little")
        for bitmap in several.to_pylist()
    ]
    return pa.array(found, pa.binary()).take(pc.index_in(absent, value_set=several))
