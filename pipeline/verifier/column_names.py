"""Gives row images the names of their columns, from the known schema of their table.

With full metadata a table map has all of them. Any other map has to be compared with the schema that holds at its
position in the stream. If no schema is verified there, or it doesn't fit the map, the table stops: Tidemark guesses
nothing.

**What stops a table in mid-stream.** Three things do: rows that the reader couldn't decode, a value without a label,
and a column of the key that the log leaves out. Then none of the table's images of that slice or part is sent on.
Earlier parts of the same transaction may have been sent. The coordinator ensures that they have no effect.

**Absent columns** are bits in the reader, because only names last: the table may be altered later. A row image without
all columns has the names of those that it lacks.
"""

from typing import assert_never

import pyarrow as pa

from pipeline.config.column_protection import UNPROTECTED, Protection
from pipeline.errors import Definite
from pipeline.gtid.gtid_set import Gtid, GtidSet
from pipeline.journal.change_rows import uncapturable
from pipeline.messages.changes import TableStopped
from pipeline.messages.row_images import CHANGE_FIELDS, TableChanges, TableImages, TableUnreadable
from pipeline.schema.table_map import FullMetadata, MinimalMetadata, NoMetadata, TableMap
from pipeline.schema.table_schema import TableId, TableSchema
from pipeline.verifier.column_metadata import complete_columns, misfit, self_described
from pipeline.verifier.table_state import (
    Capturable,
    SchemaFetched,
    SchemaKnown,
    SchemaPending,
    TableState,
    Unproven,
    Verified,
)

NAMES_REMEDY = (
    "set binlog_row_metadata=FULL on the source; before MySQL 8.0.1, alter a captured table only when capture has "
    "caught up with the statement before"
)
_KEY_ABSENT = (
    "the log has rows of it without {columns} of its primary key, so that they can't be told apart; set "
    "binlog_row_image=FULL on the source"
)


class KeyAbsent(Definite):
    """The log leaves out a column of the primary key."""


def after_statement(state: TableState | None, gtid: Gtid, to_come: TableSchema | None) -> TableState:
    """Returns a table's state after a statement that may have altered it; `to_come`: the schema that has its work in
    it."""
    match state:
        case SchemaFetched(_, at) as answer if gtid in at:
            return answer
        case Unproven(statements):
            return Unproven(statements.with_gtid(gtid))
        case _:
            return Unproven(GtidSet().with_gtid(gtid)) if to_come is None else SchemaPending(to_come)


def name_columns(
    state: Capturable, images: TableImages | TableUnreadable, protection: Protection = UNPROTECTED
) -> tuple[Verified, TableChanges] | TableStopped:
    """The images under their table's schema, and the table's state then; or why it stops."""
    if isinstance(images, TableUnreadable):
        return TableStopped(images.table, images.reason)
    table = images.map.table
    verified = _verify(state, images.map)
    if isinstance(verified, str):
        return TableStopped(table, verified)
    if verified is not state and (why := uncapturable(verified.schema, protection)) is not None:
        return TableStopped(table, why)
    try:
        fields = _with_names(verified.schema, images.images)
        rows = complete_columns(verified.schema, images.map, images.rows)
    except Definite as error:
        return TableStopped(table, str(error))
    return verified, TableChanges(verified.schema, fields, rows)


def images_table(images: TableImages | TableUnreadable) -> TableId:
    """The table that these are of."""
    return images.table if isinstance(images, TableUnreadable) else images.map.table


def must_wait(state: TableState, images: TableImages | TableUnreadable) -> bool:
    """Whether these images have to wait for the proof of their table's schema."""
    if isinstance(images, TableUnreadable) or isinstance(images.map.metadata, FullMetadata):
        return False
    return isinstance(state, Unproven | SchemaPending | SchemaFetched)


def _verify(state: Capturable, table_map: TableMap) -> Verified | str:
    """The table's state with this map in the stream, or why its schema isn't proven."""
    if isinstance(state, Verified) and state.map == table_map:
        return state
    match table_map.metadata:
        case FullMetadata() as metadata:
            return Verified(self_described(table_map, metadata), table_map)
        case MinimalMetadata() | NoMetadata():
            return _proven(state, table_map)
        case _:
            assert_never(table_map.metadata)


def _proven(state: Capturable, table_map: TableMap) -> Verified | str:
    match state:
        case Unproven() | SchemaPending() | SchemaFetched():
            return f"the log doesn't name its columns, and no schema is proven to hold here; {NAMES_REMEDY}"
        case SchemaKnown(schema) | Verified(schema):
            differs = misfit(schema, table_map)
            return Verified(schema, table_map) if differs is None else f"{differs}; {NAMES_REMEDY}"
        case _:
            assert_never(state)


def _with_names(schema: TableSchema, images: pa.RecordBatch) -> pa.RecordBatch:
    """IMAGE_FIELDS as CHANGE_FIELDS. Raises KeyAbsent."""
    *fields, bitmaps, source = images.columns
    return pa.record_batch([*fields, _absent(schema, bitmaps), source], schema=CHANGE_FIELDS)


def _absent(schema: TableSchema, bitmaps: pa.Array) -> pa.Array:
    """Of each row image the names of the absent columns, null where there are none. Raises KeyAbsent."""
    kind = CHANGE_FIELDS.field("absent").type
    if bitmaps.null_count == len(bitmaps):
        return pa.nulls(len(bitmaps), kind)
    encoded = bitmaps.dictionary_encode()
    bits = [int.from_bytes(bitmap, "little") for bitmap in encoded.dictionary.to_pylist()]
    if lacking := [schema.columns[i].name for i in schema.key if any(each >> i & 1 for each in bits)]:
        raise KeyAbsent(_KEY_ABSENT.format(columns=" and ".join(lacking)))
    names = [[column.name for i, column in enumerate(schema.columns) if each >> i & 1] for each in bits]
    return pa.array(names, kind).take(encoded.indices)
