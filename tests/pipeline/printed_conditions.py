"""Conditions as text that parses to themselves, and that MySQL reads alike."""

from datetime import date, datetime
from decimal import Decimal
from typing import assert_never

from pipeline.snapshot.row_filter import And, Between, Compare, Condition, In, IsNull, Like, Literal, Not, Or


def printed(condition: Condition) -> str:
    """The text."""
    match condition:
        case Compare(column, operator, value):
            return f"{_name(column)} {operator} {printed_literal(value)}"
        case In(column, values, negated):
            listed = ", ".join(map(printed_literal, values))
            return f"{_name(column)} {_not(negated)}IN ({listed})"
        case Between(column, low, high, negated):
            between = f"{printed_literal(low)} AND {printed_literal(high)}"
            return f"{_name(column)} {_not(negated)}BETWEEN {between}"
        case Like(column, pattern, escape, negated):
            like = f"{printed_literal(pattern)} ESCAPE {printed_literal(escape)}"
            return f"{_name(column)} {_not(negated)}LIKE {like}"
        case IsNull(column, negated):
            return f"{_name(column)} IS {_not(negated)}NULL"
        case Not(part):
            return f"NOT {_inner(part)}"
        case And(parts):
            return " AND ".join(map(_inner, parts))
        case Or(parts):
            return " OR ".join(map(_inner, parts))
        case _:
            assert_never(condition)


def printed_literal(value: Literal) -> str:
    """A literal as MySQL's SQL writes it."""
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).upper()
        case int():
            return str(value)
        case Decimal():
            return f"{value:f}" if value.as_tuple().exponent else f"{value:f}."
        case float():
            return f"{value!r}" if "e" in repr(value) else f"{value!r}e0"
        case str():
            escaped = value.replace("\\", "\\\\").replace("'", "''").replace("\0", "\\0")
            return f"'{escaped}'"
        case bytes():
            return f"X'{value.hex()}'"
        case datetime():
            return f"TIMESTAMP'{value.isoformat(' ')}'"
        case date():
            return f"DATE'{value.isoformat()}'"
        case _:
            assert_never(value)


def _inner(condition: Condition) -> str:
    text = printed(condition)
    return f"({text})" if isinstance(condition, And | Or) else text


def _name(column: str) -> str:
    return "`" + column.replace("`", "``") + "`"


def _not(negated: bool) -> str:
    return "NOT " if negated else ""
