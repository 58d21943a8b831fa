"""Gives row images the columns of their table, from its known schema: their names, and what the log leaves open.

With full metadata a table map has all of them. Any other map has to be compared with the schema that holds at its
position in the stream. If no schema is verified there, or it doesn't fit the map, the table stops: Tidemark guesses
nothing.

**What stops a table in mid-stream:** rows that the reader couldn't decode, a value without a label, or a key's column
that the log leaves out. Then none of the table's images of that slice or part is sent on. Earlier parts of the same
transaction may have been sent. The coordinator ensures that they have no effect.

**What the schema completes.** ENUM and SET come as indices and bits, with any metadata. A log without metadata (before
MySQL 8.0.1) says neither which integers are unsigned nor which strings are text. Integers come with their bits read as
signed, strings as the stored bytes. The schema's types make each column canonical in one pass. Everything that the log
does say has to agree with the schema.

**Absent columns** stay bits, which the schema beside them explains.
"""

from typing import Final, assert_never

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.config.column_protection import UNPROTECTED, Protection
from pipeline.errors import Definite, InvariantBroken
from pipeline.journal.change_rows import uncapturable
from pipeline.messages.changes import TableStopped
from pipeline.messages.row_images import TableChanges, TableImages, TableUnreadable, images_with
from pipeline.schema.table_map import FullMetadata, MinimalMetadata, NoMetadata, TableMap
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.types import column_types as t
from pipeline.types.enum_labels import enum_texts, set_texts
from pipeline.types.text.charsets import to_strings
from pipeline.verifier.table_state import (
    Capturable,
    SchemaFetched,
    SchemaKnown,
    SchemaPending,
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
        _require_key(verified.schema, images.images.column("absent"))
        rows, added = complete_columns(verified.schema, images.map, images.rows)
    except Definite as error:
        return TableStopped(table, str(error))
    return verified, TableChanges(verified.schema, images.images, rows, images.bytes + added)


def images_table(images: TableImages | TableUnreadable) -> TableId:
    """The table that these are of."""
    return images.table if isinstance(images, TableUnreadable) else images.map.table


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


def _require_key(schema: TableSchema, absent: pa.Array) -> None:
    """Raise KeyAbsent if some image lacks a column of the primary key."""
    if absent.null_count == len(absent):
        return
    if lacking := [schema.columns[i].name for i in schema.key if not images_with(absent, i).all()]:
        raise KeyAbsent(_KEY_ABSENT.format(columns=" and ".join(lacking)))


class TooLong(Definite):
    """A value is longer than its column."""


def self_described(table_map: TableMap, metadata: FullMetadata) -> TableSchema:
    """The schema that a map with full metadata is by itself."""
    columns: list[Column] = []
    for name, kind, nullable in zip(metadata.names, table_map.types, table_map.nullable, strict=True):
        if isinstance(kind, t.RawType):
            raise InvariantBroken(
                f"{table_map.table}: the log names the column {name} and leaves its type open"
            )
        columns.append(Column(name, kind, nullable))
    return TableSchema(table_map.table, tuple(columns), metadata.key)


def misfit(schema: TableSchema, table_map: TableMap) -> str | None:
    """How the schema differs from what the log says, as far as the log says it; None if it fits."""
    if len(schema.columns) != len(table_map.types):
        return f"the log has {len(table_map.types)} columns, and the server's schema {len(schema.columns)}"
    for column, kind, nullable in zip(schema.columns, table_map.types, table_map.nullable, strict=True):
        if not _fits(column.type, kind) or column.nullable != nullable:
            return f"the log has {kind}, nullable={nullable}, where the server's schema has {column}"
    return None


def _fits(column: t.ColumnType, logged: t.LogType) -> bool:
    match column, logged:
        case (t.Enum(), t.Enum()) | (t.Set(), t.Set()):
            return True
        case t.Integer(size, _), t.RawInteger(stored):
            return size == stored
        case t.FixedBinary(width), t.RawChar(stored):
            return width == stored
        case (t.Text(), t.RawChar()) | (t.Text() | t.Binary(), t.RawString()):
            return True
        case _:
            return column == logged


def complete_columns(
    schema: TableSchema, table_map: TableMap, rows: pa.RecordBatch
) -> tuple[pa.RecordBatch, int]:
    """The rows of a map that fits the schema (`TableImages.rows`), under its names and of its types (`schema.arrow`).

    And how many bytes more they take. Raises Definite: a value isn't one of its column's type (a label that isn't
    there, bytes that aren't text).
    """
    read = rows.columns
    completed = [
        _completed(schema, column, logged, values)
        for column, logged, values in zip(schema.columns, table_map.types, read, strict=True)
    ]
    added = sum(new.nbytes - old.nbytes for new, old in zip(completed, read, strict=True) if new is not old)
    return pa.RecordBatch.from_arrays(completed, schema=schema.arrow), added


def _completed(schema: TableSchema, column: Column, logged: t.LogType, values: pa.Array) -> pa.Array:
    match column.type, logged:
        case t.Enum(labels), _:
            return enum_texts(values, labels)
        case t.Set(labels), _:
            return set_texts(values, labels)
        case t.Integer(size, unsigned=True), t.RawInteger():
            return _as_unsigned(values, size)
        case t.FixedBinary(width), t.RawChar():
            return _pad(values, width, f"{schema.table}.{column.name}")
        case t.Text(charset), t.RawChar() | t.RawString():
            return to_strings(values, charset, f"{schema.table}.{column.name}")
        case _:
            return values


_BITS: Final = {1: pa.uint8(), 2: pa.uint16(), 4: pa.uint32(), 8: pa.uint64()}


def _as_unsigned(values: pa.Array, size: int) -> pa.Array:
    """The same bits, of integers with this many bytes, without a sign."""
    if size == 3:  # in four bytes, and the highest one repeats the sign
        return pc.bit_wise_and(values, pa.scalar(0xFFFFFF, pa.int32()))
    return values.view(_BITS[size]).cast(t.arrow_type(t.Integer(size, unsigned=True)))


def _pad(values: pa.Array, width: int, column: str) -> pa.Array:
    """Returns the same bytes, padded with zero bytes up to `width`."""
    longest = pc.max(pc.binary_length(values)).as_py() or 0
    if longest > width:
        raise TooLong(f"{column}: a value has {longest} bytes, and the column {width}")
    # Arrow pads only what it calls text, byte by byte, with any bytes.
    return pc.ascii_rpad(values.view(pa.string()), width, "\0").view(pa.binary())
