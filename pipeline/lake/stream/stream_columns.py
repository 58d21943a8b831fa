"""The columns of a stream, and how the rows of a file get them.

A stream of one table has the changelog's columns. A stream of several tables has the changelog's meta columns after the
table's name, and then a struct for each database. It holds a struct for each table: `shop.orders.id` is a column. In a
row all but the table's own struct are null.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import pyarrow as pa

from pipeline.config.validation import Mistake
from pipeline.lake.stream.source_options import WrongOption
from pipeline.lake.stream.table_rows import TABLE, own_fields
from pipeline.lake.tables.columns import META_COLUMNS, LakeColumn, columns, ddl
from pipeline.lake.tables.spark_sql import quoted, spark_type
from pipeline.lake.tables.tier import Tier
from pipeline.schema.spelling import fold_name
from pipeline.schema.table_schema import TableId, TableSchema

_NAME: Final = LakeColumn(TABLE, "STRING")


def stream_ddl(schemas: Mapping[TableId, TableSchema], *, several: bool) -> str:
    """Returns the columns of a stream as Spark's DDL. Raises Definite if a table's columns can't be named so."""
    if not several:
        (schema,) = schemas.values()
        return ddl(columns(schema, Tier.CHANGELOG))
    databases: dict[str, dict[str, str]] = {}
    for table, schema in schemas.items():
        columns(schema, Tier.CHANGELOG)  # the same names are refused as in the lake
        databases.setdefault(table.database, {})[table.name] = _struct(columns(schema, Tier.MIRROR))
    taken = [*(column.name for column in (_NAME, *META_COLUMNS)), *databases]
    _check_distinct(taken)
    for tables in databases.values():
        _check_distinct(tables)
    own = (
        LakeColumn(name, _struct(LakeColumn(*item) for item in tables.items()))
        for name, tables in databases.items()
    )
    return ddl((_NAME, *META_COLUMNS, *own))


def check_wanted(wanted: pa.Schema, schemas: Mapping[TableId, TableSchema], *, several: bool) -> None:
    """Checks that a schema that the user gave names columns that there are, with types that hold them.

    Raises WrongOption.
    """
    meta = {column.name: column.type for column in META_COLUMNS}
    mistakes = []
    for name, type_ in _meta_fields(wanted, several):
        if name in meta and spark_type(type_) != meta[name]:
            mistakes.append(Mistake("schema", f"{name} is {meta[name]}", "give it this type"))
    for table, schema in schemas.items():
        there = {column.name for column in columns(schema, Tier.CHANGELOG)}
        for field in own_fields(wanted, table, several=several):
            if field.name not in there:
                own = ", ".join(column.name for column in schema.columns)
                mistakes.append(Mistake("schema", f"{table} has no column {field.name!r}", f"it has {own}"))
    mistakes += [
        Mistake("schema", f"{name!r} is no table of the option tables", "leave it out")
        for name in _foreign(wanted, schemas, several)
    ]
    if mistakes:
        raise WrongOption(*mistakes)


def _meta_fields(wanted: pa.Schema, several: bool) -> Iterable[tuple[str, pa.DataType]]:
    return ((field.name, field.type) for field in wanted if not (several and pa.types.is_struct(field.type)))


def _foreign(wanted: pa.Schema, schemas: Mapping[TableId, TableSchema], several: bool) -> list[str]:
    """Returns what a schema of several tables has besides them."""
    if not several:
        return []
    meta = {_NAME.name, *(column.name for column in META_COLUMNS)}
    found = []
    for field in wanted:
        if not pa.types.is_struct(field.type):
            found += [field.name] if field.name not in meta else []
            continue
        for inner in field.type:
            known = TableId(field.name, inner.name) in schemas and pa.types.is_struct(inner.type)
            found += [] if known else [f"{field.name}.{inner.name}"]
    return found


def _struct(of: Iterable[LakeColumn]) -> str:
    fields = ", ".join(f"{quoted(column.name)}: {column.type}" for column in of)
    return f"STRUCT<{fields}>"


def _check_distinct(names: Iterable[str]) -> None:
    seen: dict[str, str] = {}
    for name in names:
        folded = fold_name(name)
        if folded in seen:
            wrong = f"Spark takes the columns {seen[folded]!r} and {name!r} for one"
            raise WrongOption(Mistake("tables", wrong, "read one of the tables in a stream of its own"))
        seen[folded] = name
