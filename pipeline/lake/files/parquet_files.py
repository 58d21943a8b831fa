"""How a file of the journal becomes a file of a lake table, while no row of it is read.

A file of the journal is immutable Parquet with just the columns of a table. So a lake table can take it as it is, by an
`add` action in a commit of Delta's log. For that each of its columns needs the same name and type in the lake table's
files. Columns of the lake table that the file lacks are null in its rows.

Otherwise the file is rewritten with the names and types of the lake table. That is needed if a column was renamed in
the lake. It is also needed if no other engine takes its name, so that Delta maps it to another one. It is also needed
if the column is wider in the lake than when these rows were captured, or than it has become since. No column of the
file can be lost, because a lake table gets each column before its first rows.

Delta needs the number of rows of a file, since a deletion vector requires it. It leaves files out of a query by the
least and greatest value of a column. The Parquet footer has these for the columns by which queries select rows: the
segment and the SCN of a change, and the key.

Source: Delta Transaction Log Protocol, sections Add File, Per-file Statistics, Column Mapping, Type Widening.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from pipeline.errors import InvariantBroken
from pipeline.lake.tables.column_changes import can_hold, retired_name
from pipeline.lake.tables.spark_sql import SPARK_TYPES, spark_type
from pipeline.schema.spelling import fold_name


@dataclass(frozen=True, slots=True, order=True)
class Day:
    """A date, as days since 1970-01-01. MySQL has dates in the year 0, which Python's own type can't hold."""

    number: int

    @property
    def text(self) -> str | None:
        """Returns it as Delta writes it; None outside of the years 1 to 9999, where engines read it differently."""
        ordinal = self.number + _EPOCH
        return date.fromordinal(ordinal).isoformat() if 1 <= ordinal <= _LAST else None


_EPOCH: Final = date(1970, 1, 1).toordinal()
_LAST: Final = date.max.toordinal()

# A value of a column whose bounds are stated (`pipeline.journal.segment.SegmentTable.stated`).
Ordered = int | Decimal | Day


@dataclass(frozen=True, slots=True)
class Stored:
    """A column of a lake table: its name in the table's files, and its number there (None without column mapping). Its
    type is as Spark's SQL writes it. `parts`: those of a struct.
    """

    name: str
    type: str
    number: int | None = None
    parts: tuple["Stored", ...] = ()


@dataclass(frozen=True, slots=True)
class Link:
    """The lake table can take the file as it is."""


@dataclass(frozen=True, slots=True)
class Rewrite:
    """The file must be rewritten: its columns, in their order, with these names and types."""

    schema: pa.Schema


Fit = Link | Rewrite


def fit(file: pa.Schema, table: Mapping[str, Stored]) -> Fit:
    """Returns how a file comes into a lake table with these columns, by name.

    If a column can't hold the file's values, the column that was set aside within the file's segment holds them. Raises
    InvariantBroken if the table lacks a column of the file.
    """
    there = {fold_name(name): column for name, column in table.items()}
    fields = []
    for field in file:
        column = there.get(fold_name(field.name))
        if column is not None and not can_hold(column.type, spark_type(field.type)):
            column = _set_aside(field, there) or column
        if column is None:
            raise InvariantBroken(
                f"a file came with the column {field.name!r}, which its lake table doesn't have; if somebody has "
                "renamed or dropped it there, give the table that column again"
            )
        same = spark_type(field.type).casefold() == column.type.casefold()
        type_ = _stored_type(column, field.type) if same else stored_arrow(column.type)
        fields.append(pa.field(column.name, type_, field.nullable, _number(column)))
    wanted = pa.schema(fields)
    return Link() if wanted.equals(file) else Rewrite(wanted)


def _stored_type(column: Stored, type_: pa.DataType) -> pa.DataType:
    """Returns the type with the names and numbers that its parts have in the table's files."""
    if not column.parts or not pa.types.is_struct(type_):
        return type_
    pairs = zip(column.parts, type_, strict=True)
    return pa.struct([pa.field(part.name, field.type, True, _number(part)) for part, field in pairs])


def _number(column: Stored) -> dict[str, str] | None:
    return None if column.number is None else {"PARQUET:field_id": str(column.number)}


def _set_aside(field: pa.Field, there: Mapping[str, Stored]) -> Stored | None:
    """Returns the last column of this name that can hold the field's values; None if there is none."""
    name = re.compile(re.escape(fold_name(retired_name(field.name, ""))) + r"(\d+)_*")
    found = [
        (int(match[1]), column)
        for other, column in there.items()
        if (match := name.fullmatch(other)) and can_hold(column.type, spark_type(field.type))
    ]
    return max(found, key=lambda each: each[0])[1] if found else None


def numbered(columns: pa.Schema) -> pa.Schema:
    """Returns columns with names that say their places alone.

    Spark finds the columns of a Parquet file by their names, and takes some that differ for one.
    """
    return pa.schema([field.with_name(f"c{place}") for place, field in enumerate(columns)])


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a footer has about the values of a column, or of a part of them.

    It has the least and the greatest, None if all are null, and the number of nulls.
    """

    column: str
    least: Ordered | None
    greatest: Ordered | None
    nulls: int


def stats(rows: int, said: Iterable[Bounds]) -> str:
    """Returns Delta's statistics of a file, in JSON: the number of its rows, and what its footer has about columns.

    A bound that engines read differently is left out, so that no query leaves out the file.
    """
    least: dict[str, Ordered] = {}
    greatest: dict[str, Ordered] = {}
    nulls: dict[str, int] = {}
    for each in said:
        name = each.column
        nulls[name] = nulls.get(name, 0) + each.nulls
        if each.least is not None and each.greatest is not None:
            least[name] = min(least.get(name, each.least), each.least)
            greatest[name] = max(greatest.get(name, each.greatest), each.greatest)
    told = {name: (_plain(least[name]), _plain(greatest[name])) for name in least}
    told = {name: bounds for name, bounds in told.items() if None not in bounds}
    return json.dumps(
        {
            "numRecords": rows,
            "minValues": {name: bounds[0] for name, bounds in told.items()},
            "maxValues": {name: bounds[1] for name, bounds in told.items()},
            "nullCount": nulls,
        }
    )


def wide_stats(told: str, rows: int, hidden: int) -> str:
    """Returns a file's statistics for when a deletion vector hides more of its `rows`; `hidden`: how many were before.

    The bounds stay right, but no row need have them any more. For a column of nulls only, the number of nulls becomes
    that of all rows in the file. Any other number but zero tells nothing then.
    """
    # Bounds are copied as they are written: a number with many digits is no float of Python's.
    said = dict(_members(told))
    said["numRecords"] = str(rows)
    if said.get("tightBounds", "true") == "true":
        said["nullCount"] = json.dumps(
            _wide_nulls(json.loads(said.get("nullCount", "{}")), rows - hidden, rows)
        )
    said["tightBounds"] = "false"
    return f"{{{','.join(f'{json.dumps(name)}:{text}' for name, text in said.items())}}}"


def _members(text: str) -> Iterator[tuple[str, str]]:
    """Yields the members of an object in JSON, each value as it is written."""
    decoder, at = json.JSONDecoder(), _ahead(text, 0, "{")
    while text[at] != "}":
        name, end = decoder.raw_decode(text, at)
        begin = _ahead(text, end, ":")
        _, end = decoder.raw_decode(text, begin)
        yield name, text[begin:end]
        at = _ahead(text, end, ",")


def _ahead(text: str, at: int, sign: str) -> int:
    """Returns the place of what comes after a sign and space."""
    while text[at].isspace() or text[at] == sign:
        at += 1
    return at


def _wide_nulls(nulls: Mapping[str, Any], shown: int, rows: int) -> dict[str, Any]:
    return {
        name: _wide_nulls(number, shown, rows)
        if isinstance(number, Mapping)
        else rows
        if number == shown
        else number
        for name, number in nulls.items()
    }


def add(path: str, size: int, modified_ms: int, told: str) -> str:
    """Returns the action that makes a file part of a lake table, as a line of Delta's log.

    `path` is relative to the table and has no character that a URL would write otherwise. `size` is in bytes,
    `modified_ms` in ms since the epoch, and `told` as `stats` returns it.
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


def _plain(value: Ordered) -> int | str | None:
    return value.text if isinstance(value, Day) else int(value)


_ARROW_TYPES = {name: type_ for type_, name in SPARK_TYPES.items()}
_DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)")
_ARRAY = re.compile(r"ARRAY<(.+)>")


def stored_arrow(spark: str) -> pa.DataType:
    """Returns the canonical Arrow type that has this name in Spark's SQL."""
    name = spark.upper()
    if decimal := _DECIMAL.fullmatch(name):
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    if array := _ARRAY.fullmatch(name):
        return pa.list_(stored_arrow(array[1]))
    return _ARROW_TYPES[name]
