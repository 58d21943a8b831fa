"""The queries of an incremental snapshot: a table in primary key order, chunk after chunk.

The server alone orders keys, by each column's own collation. A chunk is the next rows after a key, up to the frozen
end. For a composite key that's a lexicographic comparison, and its form decides how it runs: MySQL doesn't use an
index for `(a, b) > (x, y)`, but the range optimizer turns

    a >= x AND (a > x OR (a = x AND (b > y OR (b = y AND c > z))))

into one range on the primary key that begins exactly behind (x, y, z), so a chunk reads its own rows and no others.
A hint keeps the optimizer from another index and a sort; where the key is a unique index that the server takes for
the missing primary one, the hint names nothing, and the optimizer is on its own.

Each parameter is given the column's own type, where by the manual the comparison might be made in another one: a
DECIMAL with a string as DOUBLE, for one, which takes neighbours for equal. A text parameter is a literal, which is
weaker than a column (coercibility 4 against 2): it's converted to the column's character set and compared by the
column's collation.

Sources: MySQL 9.7 Reference Manual, "Range Optimization", "Type Conversion in Expression Evaluation", "Collation
Coercibility in Expressions".
"""

from collections.abc import Collection
from typing import Final, assert_never

from pipeline.keys import Key
from pipeline.schema import TableSchema
from pipeline.statement import Statement, quoted, quoted_table
from pipeline.types import (
    Binary,
    Bit,
    ColumnType,
    Date,
    DateTime,
    Decimal,
    Double,
    Enum,
    FixedBinary,
    Float,
    Geometry,
    Integer,
    Json,
    Set,
    Text,
    Time,
    Timestamp,
    Vector,
    Year,
)

# The character sets that lose nothing on the way to Unicode and back (an integration test tries every byte). In the
# others two keys can print alike, or a key can print as one that sorts elsewhere: rows would be skipped.
EXACT_CHARSETS: Final = frozenset(
    {
        "ascii",
        "cp850",
        "cp852",
        "cp866",
        "keybcs2",
        "koi8r",
        "koi8u",
        "latin1",
        "latin2",
        "latin5",
        "latin7",
        "macce",
        "macroman",
        "ucs2",
        "utf16",
        "utf16le",
        "utf32",
        "utf8mb3",
        "utf8mb4",
    }
)


def refusal(schema: TableSchema, prefixed: Collection[str] = ()) -> str | None:
    """Why this table can't be read in chunks, or None if it can.

    `prefixed`: columns of which the primary key holds just the beginning, as information_schema tells.
    """
    if not schema.key:
        return f"{schema.table} has no primary key to walk along; its changes still stream"
    for index in schema.key:
        column = schema.columns[index]
        why = "is in it with a prefix only" if column.name in prefixed else _unfit(column.type)
        if why:
            return (
                f"column {column.name} of the primary key of {schema.table} {why}; its changes still stream"
            )
    return None


def chunk(schema: TableSchema, after: Key | None, end: Key, limit: int) -> Statement:
    """The next `limit` rows with `after` < key <= `end`, in key order; all columns, in the table's order."""
    upper, upper_parameters = _beyond(schema, end, "<", "<=")
    conditions, parameters = [upper], upper_parameters
    if after is not None:
        lower, lower_parameters = _beyond(schema, after, ">", ">")
        conditions, parameters = [lower, upper], lower_parameters + upper_parameters
    columns = ", ".join(quoted(column.name) for column in schema.columns)
    order = ", ".join(quoted(name) for name in schema.key_names)
    where = " AND ".join(conditions)
    return Statement(f"{_select(schema, columns)} WHERE {where} ORDER BY {order} LIMIT {limit:d}", parameters)


def last_key(schema: TableSchema) -> Statement:
    """The key of the table's last row in key order: one row, or none for an empty table."""
    columns = ", ".join(quoted(name) for name in schema.key_names)
    order = ", ".join(f"{quoted(name)} DESC" for name in schema.key_names)
    return Statement(f"{_select(schema, columns)} ORDER BY {order} LIMIT 1")


def _select(schema: TableSchema, columns: str) -> str:
    return f"SELECT /*+ INDEX(t PRIMARY) */ {columns} FROM {quoted_table(schema.table)} t"  # noqa: S608 - quoted names


def _beyond(schema: TableSchema, key: Key, strict: str, last: str) -> tuple[str, Key]:
    """The condition that a row's key is beyond this one; `last` compares where all but the last part are equal."""
    names = [quoted(name) for name in schema.key_names]
    values = [_parameter(schema.columns[index].type) for index in schema.key]
    condition, parameters = f"{names[-1]} {last} {values[-1]}", key[-1:]
    for part in reversed(range(len(names) - 1)):
        name, value = names[part], values[part]
        condition = f"({name} {strict} {value} OR ({name} = {value} AND {condition}))"
        parameters = (key[part], key[part], *parameters)
    if len(names) > 1:
        condition = f"({names[0]} {strict}= {values[0]} AND {condition})"
        parameters = (key[0], *parameters)
    return condition, parameters


def _parameter(kind: ColumnType) -> str:
    match kind:
        case Decimal(precision, scale):
            return f"CAST(%s AS DECIMAL({precision}, {scale}))"
        case Date():
            return "CAST(%s AS DATE)"
        case Time(digits):
            return f"CAST(%s AS TIME({digits}))"
        case DateTime(digits) | Timestamp(digits):
            return f"CAST(%s AS DATETIME({digits}))"
        case _:
            return "%s"


def _unfit(kind: ColumnType) -> str | None:
    """Why a key can't be walked along a column of this type."""
    match kind:
        case Integer() | Decimal() | Year() | Date() | Time() | DateTime() | Timestamp() | FixedBinary():
            return None
        case Binary():
            return None
        case Text(charset):
            return (
                None
                if charset in EXACT_CHARSETS
                else f"has the character set {charset}, not all of which is Unicode"
            )
        case Enum() | Set():
            return "is an ENUM or SET, which the server orders by number and prints by label"
        case Float() | Double():
            return "is a FLOAT or DOUBLE, whose printed values needn't compare equal to themselves"
        case Bit():
            return "is a BIT"
        case Json() | Geometry() | Vector():
            return f"is a {type(kind).__name__.upper()}"
        case _:
            assert_never(kind)
