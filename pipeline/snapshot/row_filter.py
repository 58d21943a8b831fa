"""Conditions: which rows of a table a signal requests, in a small part of SQL.

    status = 'open' AND (price >= 9.99 OR `on sale` IS NOT NULL)
    id IN (1, 2, 3)    created BETWEEN DATE'2026-01-01' AND DATE'2026-01-31'    name NOT LIKE 'te\\_st%'

A text is parsed (`pipeline.snapshot.row_filter_parser`) into the tree below, or refused with the position and the
reason. The tree is checked against the table. Only the tree leaves this module. The code that queries the server quotes
names and binds values, so that nothing of a signal's text reaches it as text. What the grammar has means the same as in
MySQL, and everything else is refused. A filter that says something else than its writer thinks is worse than none.

A column comes first and a literal after it. AND binds more strongly than OR, and NOT more strongly than both.

Source: MySQL 9.7 Reference Manual, "Comparison Functions and Operators", "String Comparison Functions and Operators".
"""

import re
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Final, assert_never

from pipeline.schema.spelling import find_column
from pipeline.schema.table_schema import Column, TableSchema
from pipeline.types import column_types as t

# NULL is None. An int, a Decimal and a float are MySQL's exact integers, exact decimals and doubles.
Literal = int | Decimal | float | str | bytes | bool | date | datetime | None


class InvalidRowFilter(ValueError):
    """A text that isn't a condition, or one that isn't about its table, and why."""


class Operator(StrEnum):
    """How a column is compared."""

    EQUAL = "="
    UNEQUAL = "<>"
    LESS = "<"
    AT_MOST = "<="
    GREATER = ">"
    AT_LEAST = ">="
    SAME = "<=>"  # as `=`, and NULL is the same as NULL


@dataclass(frozen=True, slots=True)
class Compare:
    """`column operator value`."""

    column: str
    operator: Operator
    value: Literal


@dataclass(frozen=True, slots=True)
class In:
    """`column [NOT] IN (values)`; there's at least one."""

    column: str
    values: tuple[Literal, ...]
    negated: bool


@dataclass(frozen=True, slots=True)
class Between:
    """`column [NOT] BETWEEN low AND high`."""

    column: str
    low: Literal
    high: Literal
    negated: bool


@dataclass(frozen=True, slots=True)
class Like:
    """`column [NOT] LIKE pattern ESCAPE escape`; `escape` is one character, or "" for none."""

    column: str
    pattern: str
    escape: str
    negated: bool


@dataclass(frozen=True, slots=True)
class IsNull:
    """`column IS [NOT] NULL`."""

    column: str
    negated: bool


@dataclass(frozen=True, slots=True)
class Not:
    """What its part is not; unknown where that's unknown."""

    part: "Condition"


@dataclass(frozen=True, slots=True)
class And:
    """All of at least two parts."""

    parts: tuple["Condition", ...]


@dataclass(frozen=True, slots=True)
class Or:
    """One of at least two parts."""

    parts: tuple["Condition", ...]


Condition = Compare | In | Between | Like | IsNull | Not | And | Or

_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_DATETIME: Final = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d{1,6})?", re.ASCII)
# MySQL's TIME spans 838 hours either way.
TIME: Final = re.compile(r"-?(?:[0-7]?\d?\d|8[0-2]\d|83[0-8]):[0-5]\d:[0-5]\d(?:\.\d{1,6})?", re.ASCII)


def parse_moment(text: str) -> date | None:
    """The date, or date and time, that this text is in MySQL's usual form; None if it's none in the calendar."""
    try:
        if _DATE.fullmatch(text):
            return date.fromisoformat(text)
        return datetime.fromisoformat(text) if _DATETIME.fullmatch(text) else None
    except ValueError:
        return None


def check_filter(condition: Condition, schema: TableSchema) -> Condition:
    """Returns the condition with columns as the table spells them and literals that fit them. Raises InvalidRowFilter.

    Text for a date becomes a date, so that it compares as one on every version of the server.
    """
    match condition:
        case Compare(name, operator, value):
            column = _column(schema, name)
            return Compare(column.name, operator, _fitting(column, value))
        case In(name, values, negated):
            column = _column(schema, name)
            return In(column.name, tuple(_fitting(column, value) for value in values), negated)
        case Between(name, low, high, negated):
            column = _column(schema, name)
            return Between(column.name, _fitting(column, low), _fitting(column, high), negated)
        case Like(name, pattern, escape, negated):
            column = _column(schema, name)
            if not isinstance(column.type, t.Text | t.Enum | t.Set | t.Binary | t.FixedBinary):
                raise InvalidRowFilter(f"column {column.name} is {_word(column)}, and LIKE is for text")
            return Like(column.name, pattern, escape, negated)
        case IsNull(name, negated):
            return IsNull(_column(schema, name).name, negated)
        case Not(part):
            return Not(check_filter(part, schema))
        case And(parts):
            return And(tuple(check_filter(part, schema) for part in parts))
        case Or(parts):
            return Or(tuple(check_filter(part, schema) for part in parts))
        case _:
            assert_never(condition)


def compared_columns(condition: Condition) -> frozenset[str]:
    """Returns the columns that a condition compares."""
    match condition:
        case Compare(name) | In(name) | Between(name) | Like(name) | IsNull(name):
            return frozenset({name})
        case Not(part):
            return compared_columns(part)
        case And(parts) | Or(parts):
            return frozenset[str]().union(*map(compared_columns, parts))
        case _:
            assert_never(condition)


def _column(schema: TableSchema, name: str) -> Column:
    """The server ignores the case of column names."""
    columns = {column.name: column for column in schema.columns}
    found = find_column(name, columns)
    if found is None:
        raise InvalidRowFilter(f"there is no column {name!r}; the table has {', '.join(columns)}")
    return columns[found]


def _fitting(column: Column, value: Literal) -> Literal:
    wanted = _comparable(column.type)
    if value is None and wanted is not None:
        return None
    match column.type, value:
        case (
            (t.Integer() | t.Decimal() | t.Float() | t.Double() | t.Bit() | t.Year()),
            (int() | Decimal() | float()),
        ):
            return value
        case ((t.Text() | t.Enum() | t.Set()), str()):
            return value
        case ((t.FixedBinary() | t.Binary()), (str() | bytes())):
            return value
        case t.Time(), str() if TIME.fullmatch(value):
            return value
        case ((t.Date() | t.DateTime() | t.Timestamp()), date()):
            return value
        case ((t.Date() | t.DateTime() | t.Timestamp()), str()) if (found := parse_moment(value)) is not None:
            return found
        case _:
            only = "it can't be compared, but IS [NOT] NULL will do"
            raise InvalidRowFilter(
                f"column {column.name} is {_word(column)}: "
                + (only if wanted is None else f"it's compared with {wanted}, not with {value!r}")
            )


def _comparable(kind: t.ColumnType) -> str | None:
    """What a column of this type is compared with, in words; None for nothing."""
    match kind:
        case t.Integer() | t.Decimal() | t.Float() | t.Double() | t.Bit() | t.Year():
            return "a number"
        case t.Text() | t.Enum() | t.Set():
            return "text"
        case t.FixedBinary() | t.Binary():
            return "text or hexadecimal"
        case t.Time():
            return "a time as '10:30:00'"
        case t.Date() | t.DateTime() | t.Timestamp():
            return "a date as '2026-01-31', perhaps with a time as '2026-01-31 10:30:00'"
        case t.Json() | t.Geometry() | t.Vector():
            return None
        case _:
            assert_never(kind)


def _word(column: Column) -> str:
    return column.type.wire.upper()
