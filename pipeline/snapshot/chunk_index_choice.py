"""Finds the walk: the index that a table's chunks follow, or the reason why there is none.

An index can be walked if it has each row once and no two rows at one position. That is so if it's unique, none of its
columns can be NULL, and each column is in it completely and unchanged. The server decides its order, but its keys have
to leave and return unchanged (pipeline/source/parameters.py). Some types can't.

The primary key tells rows apart, whichever index is walked, so a table needs one. Without one, the server takes its
first unique index without NULLs for it, here and in the log.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import assert_never

from pipeline.errors import Definite, Transient
from pipeline.schema.table_schema import TableSchema
from pipeline.snapshot.chunk_index import ChunkIndex
from pipeline.source.information_schema import IndexPart, TableDescription
from pipeline.types import column_types as t

Indexes = Mapping[str, Sequence[IndexPart]]


def choose_index(described: TableDescription, indexes: Indexes, surrogate: str | None) -> ChunkIndex:
    """The walk along the table's key, or along the unique index or column that `surrogate` names.

    Raises Definite where there's none to walk along, and Transient where the two arguments aren't of one moment.
    """
    schema = described.schema
    names = {column.name for column in schema.columns}
    if any(part.column not in names for parts in indexes.values() for part in parts if part.column):
        raise Transient(f"{schema.table} is being altered")
    if not schema.key:
        raise Definite(f"{schema.table} has no primary key to walk along; its changes still stream")
    for column in schema.key_columns:
        if why := _unfit(column.type):
            raise _refusal(schema, f"column {column.name} of the primary key", why)
    if surrogate is None:
        if described.prefixed:
            prefixed = f"column {described.prefixed[0]} of the primary key"
            raise _refusal(schema, prefixed, "is in it with a prefix only")
        return _primary(schema, indexes)
    return _surrogate(schema, indexes, surrogate)


def _primary(schema: TableSchema, indexes: Indexes) -> ChunkIndex:
    for name, parts in indexes.items():
        if tuple(part.column for part in parts) == schema.key_names and not any(_faults(schema, parts)):
            return _along(schema, name, parts)
    raise Transient(f"{schema.table} is being altered")


def _surrogate(schema: TableSchema, indexes: Indexes, wanted: str) -> ChunkIndex:
    named = [name for name in indexes if name.casefold() == wanted.casefold()]
    of_column = [
        name
        for name, (first, *more) in indexes.items()
        if not more and first.column and first.column.casefold() == wanted.casefold()
    ]
    found = named or of_column
    if not found:
        raise Definite(
            f"{schema.table} has no unique index that is called {wanted!r} or is over the one column {wanted!r}"
            " and can be seen by statements; name one as surrogate-key"
        )
    fit = [name for name in found if not any(_faults(schema, indexes[name]))]
    if not fit:
        faults = "; ".join(_faults(schema, indexes[found[0]]))
        raise Definite(f"the index {found[0]} of {schema.table} can't be a surrogate-key: {faults}")
    return _along(schema, fit[0], indexes[fit[0]])


def _along(schema: TableSchema, name: str, parts: Sequence[IndexPart]) -> ChunkIndex:
    places = {column.name: index for index, column in enumerate(schema.columns)}
    return ChunkIndex(
        name,
        tuple(places[part.column] for part in parts if part.column is not None),
        tuple(part.descending for part in parts),
        tuple(part.collation for part in parts),
    )


def _faults(schema: TableSchema, parts: Sequence[IndexPart]) -> Iterator[str]:
    """Why rows can't be walked along this index."""
    kinds = {column.name: column.type for column in schema.columns}
    for part in parts:
        if part.column is None:
            yield "a part of it is an expression"
        elif part.nullable:
            yield f"its column {part.column} may be NULL, and any number of rows have that"
        elif part.prefixed:
            yield f"its column {part.column} is in it with a prefix only"
        elif why := _unfit(kinds[part.column]):
            yield f"its column {part.column} {why}"


def _unfit(kind: t.ColumnType) -> str | None:
    """Why a key can't hold a column of this type."""
    match kind:
        case t.Integer() | t.Decimal() | t.Float() | t.Double() | t.Bit() | t.Year():
            return None
        case t.Date() | t.Time() | t.DateTime() | t.Timestamp():
            return None
        case t.Text() | t.FixedBinary() | t.Binary():
            return None
        case t.Enum(labels) | t.Set(labels):
            # The text of their keys tells rows apart.
            return "has an empty label, which reads like the value 0" if "" in labels else None
        case t.Json() | t.Geometry() | t.Vector():
            return f"is a {kind.wire.upper()}"
        case _:
            assert_never(kind)


def _refusal(schema: TableSchema, what: str, why: str) -> Definite:
    return Definite(f"{what} of {schema.table} {why}; its changes still stream")
