"""Rows that are to be read again (`pipeline.coordinator.reselect`): their keys, the order to read them, and what the
journal has."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.schema.table_schema import TableId, TableSchema

# What `keys_behind` needs to know of a row.
NEEDED: Final = ("__op", "__scn", "__absent")

# What a start is given where no table has such rows.
NOTHING: Final[Mapping[TableId, pa.RecordBatch | None]] = {}


@dataclass(frozen=True, slots=True)
class UnknownRows:
    """Rows that are to be read again: the columns of their keys; unknown `since` this SCN."""

    since: int
    keys: pa.RecordBatch


def key_rows(schema: TableSchema, rows: Iterable[pa.Array]) -> pa.RecordBatch:
    """Columns of keys, in the key's order, in the form that they're kept in."""
    fields = [schema.arrow.field(index) for index in schema.key]
    return pa.RecordBatch.from_arrays(
        [column.cast(field.type) for column, field in zip(rows, fields, strict=True)],
        schema=pa.schema(fields),
    )


def no_keys(schema: TableSchema) -> pa.RecordBatch:
    """The keys of no rows."""
    return pa.RecordBatch.from_pylist([], pa.schema([schema.arrow.field(index) for index in schema.key]))


def keys_behind(schema: TableSchema, rows: pa.Table, scn: int) -> pa.RecordBatch:
    """The keys of rows behind an SCN that lack columns, of a changes file: NEEDED, and then the key's columns."""
    op, at, absent = (rows.column(name) for name in NEEDED)
    there = pc.is_in(op, pa.array(["c", "u"]))
    lacking = pc.and_(pc.and_(there, pc.greater(at, scn)), absent.is_valid())
    found = rows.select(range(len(NEEDED), rows.num_columns)).filter(lacking).combine_chunks()
    if not found.num_rows:
        return no_keys(schema)
    return key_rows(schema, [pa.concat_arrays(column.chunks) for column in found.columns])
