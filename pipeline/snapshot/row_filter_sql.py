"""Which rows a request selects, as a condition of SQL with bound values.

A signal's words reach the server as values only. The names of columns are the schema's own, quoted, and the words of
SQL are this module's. A text from outside can select other rows than were meant, and do nothing else.

Each value means on the server what its text would mean there. An exact decimal isn't compared as a float, and a date is
a date on every version of the server. A FLOAT or DOUBLE is compared by the value that is kept (`column + 0e0`). One
with digits would round what it is compared with (`pipeline.source.rounding`), and pass over rows. The walk's own bounds
say where in the index to look.

Sources: MySQL 9.7 Reference Manual, "Comparison Functions and Operators", "Type Conversion in Expression Evaluation",
"String Comparison Functions and Operators".
"""

from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import assert_never

from pipeline.schema.row_keys import Key
from pipeline.schema.table_schema import TableSchema
from pipeline.snapshot import row_filter
from pipeline.snapshot.row_filter_parser import parse_filter
from pipeline.snapshot.snapshot import Request
from pipeline.source.parameters import AS_TEXT, Fragment, compared_name, comparison, placeholder
from pipeline.source.rounding import Roundings
from pipeline.source.statement import quote_name
from pipeline.types.column_types import ColumnType, Double, Float, Time


def requested_condition(schema: TableSchema, request: Request, roundings: Roundings = ()) -> Fragment | None:
    """Returns the condition that the requested rows satisfy; None if all are.

    `roundings`: of each of the table's columns, or nothing if none rounds. Raises InvalidRowFilter if the condition
    doesn't fit this table.
    """
    conditions = [keys_condition(schema, request.keys, roundings)] if request.keys else []
    if request.condition is not None:
        conditions.append(
            filter_sql(schema, row_filter.check_filter(parse_filter(request.condition), schema))
        )
    return _join([_group(each) for each in conditions], " AND ") if conditions else None


def filter_sql(schema: TableSchema, condition: row_filter.Condition) -> Fragment:
    """A condition that `check_filter` returned, as SQL and the parameters that belong in it."""
    kinds = {column.name: column.type for column in schema.columns}

    def compared(column: str) -> str:
        kept = isinstance(kinds[column], Float | Double)
        return f"{quote_name(column)} + 0e0" if kept else quote_name(column)

    def of(part: row_filter.Condition) -> Fragment:
        match part:
            case row_filter.Compare(column, operator, value):
                bound = _bound(kinds[column], value)
                return f"{compared(column)} {operator} {bound[0]}", bound[1]
            case row_filter.In(column, values, negated):
                listed = _join([_bound(kinds[column], value) for value in values], ", ")
                return f"{compared(column)} {_not(negated)}IN ({listed[0]})", listed[1]
            case row_filter.Between(column, low, high, negated):
                both = _join([_bound(kinds[column], low), _bound(kinds[column], high)], " AND ")
                return f"{compared(column)} {_not(negated)}BETWEEN {both[0]}", both[1]
            case row_filter.Like(column, pattern, escape, negated):
                return f"{quote_name(column)} {_not(negated)}LIKE %s ESCAPE %s", (pattern, escape)
            case row_filter.IsNull(column, negated):
                return f"{quote_name(column)} IS {_not(negated)}NULL", ()
            case row_filter.Not(inner):
                sql, parameters = of(inner)
                return f"NOT ({sql})", parameters
            case row_filter.And(parts):
                return _join([_group(of(each)) for each in parts], " AND ")
            case row_filter.Or(parts):
                return _join([_group(of(each)) for each in parts], " OR ")
            case _:
                assert_never(part)

    return of(condition)


def keys_condition(schema: TableSchema, keys: Sequence[Key], roundings: Roundings) -> Fragment:
    """That a row has one of these primary keys. Raises InvalidRowFilter where they're none of this table."""
    columns = schema.key_columns
    if any(len(key) != len(columns) for key in keys):
        raise row_filter.InvalidRowFilter(
            f"the primary key of {schema.table} has the parts {', '.join(schema.key_names)}"
        )
    rounded = [roundings[index] if roundings else None for index in schema.key]
    if len(columns) == 1 and not any(rounded):
        [column] = columns
        name = compared_name(quote_name(column.name), column.type)
        places = ", ".join(placeholder(name, column.type, part, None) for (part,) in keys)
        return f"{name} IN ({places})", tuple(part for (part,) in keys)
    rows = [
        _join(
            [
                comparison(quote_name(column.name), column.type, "=", part, None, rounds)
                for column, part, rounds in zip(columns, key, rounded, strict=True)
            ],
            " AND ",
        )
        for key in keys
    ]
    return _join([_group(row) for row in rows], " OR ")


def _bound(kind: ColumnType, value: row_filter.Literal) -> Fragment:
    match value:
        case None:
            return "NULL", ()
        case bool():
            return "%s", (int(value),)
        case int() if not -(2**63) <= value < 2**64:
            return _bound(kind, Decimal(value))
        case str() if isinstance(kind, Time):
            return f"CAST({AS_TEXT} AS TIME(6))", (value,)
        case int() | float() | str() | bytes():
            return "%s", (value,)
        case Decimal():
            digits, scale = _size(value)
            return f"CAST({AS_TEXT} AS DECIMAL({digits}, {scale}))", (f"{value:f}",)
        case datetime():
            return f"CAST({AS_TEXT} AS DATETIME(6))", (value.isoformat(" "),)
        case date():
            return f"CAST({AS_TEXT} AS DATE)", (value.isoformat(),)
        case _:
            assert_never(value)


def _size(value: Decimal) -> tuple[int, int]:
    """Returns how many digits an exact decimal has when written out, and how many after its point."""
    whole, _, fraction = f"{abs(value):f}".partition(".")
    return len(whole) + len(fraction), len(fraction)


def _join(parts: Sequence[Fragment], separator: str) -> Fragment:
    return separator.join(sql for sql, _ in parts), tuple(value for _, values in parts for value in values)


def _group(fragment: Fragment) -> Fragment:
    return f"({fragment[0]})", fragment[1]


def _not(negated: bool) -> str:
    return "NOT " if negated else ""
