"""A file's rows with the columns of a stream. An executor has to import no more than this to make them."""

from typing import Final

import pyarrow as pa

from pipeline.schema.table_schema import TableId

# The column that says in a stream of several tables whose row it is.
TABLE: Final = "__table"


def own_fields(wanted: pa.Schema, table: TableId, *, several: bool) -> list[pa.Field]:
    """Returns the columns of a stream that a table's files have; of several tables, without the meta columns."""
    if not several:
        return list(wanted)
    index = wanted.get_field_index(table.database)
    database = wanted.field(index).type if index >= 0 else None
    if database is None or not pa.types.is_struct(database):
        return []
    place = database.get_field_index(table.name)
    own = database.field(place).type if place >= 0 else None
    return list(own) if own is not None and pa.types.is_struct(own) else []


def read_columns(file: pa.Schema, wanted: pa.Schema, table: TableId, *, several: bool) -> list[str]:
    """Returns the columns of a file that a stream needs."""
    names = {field.name for field in own_fields(wanted, table, several=several)}
    names |= {field.name for field in wanted if not (several and pa.types.is_struct(field.type))}
    return [name for name in file.names if name in names]


def shape_rows(rows: pa.RecordBatch, wanted: pa.Schema, table: TableId, *, several: bool) -> pa.RecordBatch:
    """Returns a file's rows with the columns of a stream. What the file lacks is null, and what is narrower is cast."""
    arrays = []
    for field in wanted:
        if several and field.name == TABLE:
            arrays.append(pa.repeat(pa.scalar(str(table), field.type), rows.num_rows))
        elif several and pa.types.is_struct(field.type):
            arrays.append(_database(rows, field, table))
        else:
            arrays.append(_column(rows, field))
    return pa.RecordBatch.from_arrays(arrays, schema=wanted)


def _database(rows: pa.RecordBatch, field: pa.Field, table: TableId) -> pa.Array:
    if field.name != table.database:
        return pa.nulls(rows.num_rows, field.type)
    return _struct_of(
        rows.num_rows,
        field.type,
        [
            _struct_of(rows.num_rows, inner.type, [_column(rows, each) for each in inner.type])
            if inner.name == table.name
            else pa.nulls(rows.num_rows, inner.type)
            for inner in field.type
        ],
    )


def _struct_of(count: int, type_: pa.DataType, arrays: list[pa.Array]) -> pa.Array:
    if not arrays:
        return pa.nulls(count, type_)
    return pa.StructArray.from_arrays(arrays, fields=list(type_))


def _column(rows: pa.RecordBatch, field: pa.Field) -> pa.Array:
    index = rows.schema.get_field_index(field.name)
    if index < 0:
        return pa.nulls(rows.num_rows, field.type)
    column = rows.column(index)
    return column if column.type == field.type else column.cast(field.type)
