"""How a file of the journal becomes a file of a lake table, without a row of it being looked at.

A file of the journal is immutable Parquet with just the columns of a table. So a lake table can take it as it is, by an
`add` action in a commit of Delta's log, if each of its columns is called in the lake table's files what it's called
here, and is of the same type. Columns of the lake table that the file doesn't have are null in its rows.

Where that isn't so, the file is written anew with the names and types that the lake table wants: a column was renamed
in the lake, or has a name that no other engine would take, so that Delta maps it to another one; or it's wider there
than it was when these rows were captured, or than it has become since. What the file has and the lake table hasn't
would be lost, and can't be: a lake table is given all columns before their first rows.

Delta wants to be told how many rows a file has (a deletion vector doesn't do without), and leaves files out of a query
by the least and greatest value of a column. These are in the Parquet footer, for the columns by which somebody
asks for some rows only: the segment and the SCN of a change, and the key.

Source: Delta Transaction Log Protocol, sections Add File, Per-file Statistics, Column Mapping, Type Widening.
"""

import datetime as dt
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from itertools import groupby

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.errors import InvariantBroken
from pipeline.lake_tables import SPARK_TYPES, spark_type


@dataclass(frozen=True, slots=True)
class Stored:
    """A column of a lake table: its name in the table's files, its number there (None without column mapping), and its
    type as Spark's SQL writes it.
    """

    name: str
    type: str
    number: int | None = None


@dataclass(frozen=True, slots=True)
class AsItIs:
    """The lake table can take the file as it is."""


@dataclass(frozen=True, slots=True)
class Rewritten:
    """The file is to be written anew: its columns, in their order, with these names and types."""

    schema: pa.Schema


Fit = AsItIs | Rewritten


def fit(file: pa.Schema, table: Mapping[str, Stored]) -> Fit:
    """How a file comes into a lake table with these columns, by name.

    Raises InvariantBroken where the table lacks a column of the file.
    """
    there = {name.lower(): column for name, column in table.items()}
    fields = []
    for field in file:
        column = there.get(field.name.lower())
        if column is None:
            raise InvariantBroken(
                f"a file came with the column {field.name!r}, which its lake table doesn't have"
            )
        same = spark_type(field.type).casefold() == column.type.casefold()
        number = None if column.number is None else {"PARQUET:field_id": str(column.number)}
        fields.append(
            pa.field(column.name, field.type if same else _arrow(column.type), field.nullable, number)
        )
    wanted = pa.schema(fields)
    return AsItIs() if wanted.equals(file) else Rewritten(wanted)


def stated_in(footer: pq.FileMetaData) -> list[str]:
    """The columns of which a footer says the least and greatest value (`pipeline.journal.SegmentTable.stated`)."""
    first = footer.row_group(0) if footer.num_row_groups else None
    chunks = [] if first is None else [first.column(column) for column in range(first.num_columns)]
    return [_name(chunk) for chunk in chunks if chunk.statistics is not None]


def stats(footer: pq.FileMetaData) -> str:
    """What Delta is told about a file's rows, in JSON: how many they are, and what the footer says of columns."""
    ranges = {name: list(chunks) for name, chunks in groupby(sorted(_chunks(footer), key=_name), key=_name)}
    has = {name: chunks for name, chunks in ranges.items() if all(c.statistics is not None for c in chunks)}
    known = {name: [c.statistics for c in chunks if c.statistics.has_min_max] for name, chunks in has.items()}
    return json.dumps(
        {
            "numRecords": footer.num_rows,
            "minValues": {
                name: _told(min(c.min for c in chunks)) for name, chunks in known.items() if chunks
            },
            "maxValues": {
                name: _told(max(c.max for c in chunks)) for name, chunks in known.items() if chunks
            },
            "nullCount": {name: sum(c.statistics.null_count for c in chunks) for name, chunks in has.items()},
        }
    )


def add(path: str, size: int, modified_ms: int, told: str) -> str:
    """The action that makes a file part of a lake table, as a line of Delta's log.

    `path` is relative to the table and has no character that a URL would write otherwise, `size` in bytes,
    `modified_ms` in ms since the epoch, `told` as `stats` tells it.
    """
    return json.dumps(
        {
            "add": {
                "path": path,
                "partitionValues": {},
                "size": size,
                "modificationTime": modified_ms,
                "dataChange": True,
                "stats": told,
            }
        }
    )


def _chunks(footer: pq.FileMetaData) -> Iterator[pq.ColumnChunkMetaData]:
    for group in range(footer.num_row_groups):
        row_group = footer.row_group(group)
        for column in range(footer.num_columns):
            yield row_group.column(column)


def _name(chunk: pq.ColumnChunkMetaData) -> str:
    name: str = chunk.path_in_schema
    return name


def _told(value: int | Decimal | dt.date) -> int | str:
    return value.isoformat() if isinstance(value, dt.date) else int(value)


_ARROW_TYPES = {name: type_ for type_, name in SPARK_TYPES.items()}
_DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)")
_ARRAY = re.compile(r"ARRAY<(.+)>")


def _arrow(spark: str) -> pa.DataType:
    """The canonical Arrow type that has this name in Spark's SQL."""
    name = spark.upper()
    if decimal := _DECIMAL.fullmatch(name):
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    if array := _ARRAY.fullmatch(name):
        return pa.list_(_arrow(array[1]))
    return _ARROW_TYPES[name]
