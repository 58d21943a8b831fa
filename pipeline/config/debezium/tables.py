"""Converts Debezium's lists of regular expressions for tables to a list of ours.

Debezium's are Java's, separated by commas (a comma after a backslash belongs to an expression), and match complete
names in any case. Ours are RE2's, which have no look-around, back references or possessive repetitions. A list of
databases and a list of tables mean the tables that both match. The conversion is possible if an expression shows which
databases it means.

Source: Debezium 3.6, `RelationalTableFilters`, `Strings.listOf`, `Predicates.includes`.
"""

import re
from collections.abc import Iterable
from typing import Final

from pipeline.schema.table_filter import TableFilter

_SEPARATOR: Final = re.compile(r"(?<!\\),")
# An expression that begins with a database's plain name, and a dot: itself, or what stands for any character.
_OF_ONE_DATABASE: Final = re.compile(r"([\w-]+)(\\\.|\[\.\]|\.)(.+)", re.DOTALL)
_REPEATED: Final = re.compile(r"[*+?{]")
_PLAIN: Final = re.compile(r"[\w-]+")
# A class of characters through its last one, and an expression with such a class within another one, or with &&.
_CLASS: Final = r"\[\^?(?:\\.|[^\]\\\[&]|&(?!&))*"
_JAVAS_CLASS: Final = re.compile(rf"(?:[^\\\[]|\\.|{_CLASS}\])*{_CLASS}(?:\[|&&)", re.DOTALL)


class NotOurs(ValueError):
    """The lists can't be said here; `name` is that of the property that's in the way."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(why)
        self.name = name


def captured(databases: str | None, tables: str | None) -> tuple[str, ...]:
    """Expressions over `database.table` for both lists, each None where it isn't given. Raises NotOurs."""
    of_databases, of_tables = listed_expressions(databases), listed_expressions(tables)
    for name, items in (("database.include.list", of_databases), ("table.include.list", of_tables)):
        if wrong := javas_class(items):
            raise NotOurs(name, wrong)
    if not of_tables:
        name, found = "database.include.list", [rf"(?:{item})\..*" for item in of_databases] or [".*"]
    else:
        name, found = "table.include.list", _of_both(of_databases, of_tables)
    try:
        return TableFilter(tuple(f"(?i){item}" if item != ".*" else item for item in found)).patterns
    except ValueError as error:
        raise NotOurs(name, str(error)) from error


def listed_expressions(given: str | None) -> list[str]:
    """The expressions of a list that commas separate, unless there is a backslash before one."""
    parts = (part.strip().replace("\\,", ",") for part in _SEPARATOR.split(given or ""))
    return [part for part in parts if part]


def javas_class(expressions: Iterable[str]) -> str | None:
    """Returns what is wrong with an expression that would mean something else as RE2's; None if nothing is.

    Java's `[a-z&&[^b]]` and `[a-d[m-p]]` are other classes of characters in RE2, and no mistakes.
    """
    for each in expressions:
        if _JAVAS_CLASS.match(each):
            return f"{each!r} has a class of characters that Java alone reads so ([a&&b], [a[b]]); write it otherwise"
    return None


def _of_both(databases: list[str], tables: list[str]) -> list[str]:
    """Returns the tables that are in these databases, if the list has any."""
    if not databases:
        return tables
    if not all(map(_PLAIN.fullmatch, databases)):
        raise NotOurs(
            "database.include.list",
            "with table.include.list as well it has to name databases without expressions",
        )
    names = {database.lower() for database in databases}
    divided = [_divided(table, names) for table in tables]
    found = [rf"{database}\.{rest}" for database, rest in divided if database.lower() in names]
    if not found:
        raise NotOurs("table.include.list", "it names no table of the databases of database.include.list")
    return found


def _divided(table: str, databases: set[str]) -> tuple[str, str]:
    """Returns the database with which an expression begins, and the expression for its tables. Raises NotOurs.

    The expression's dot may also match a character of another database's name. So the rest must be plain. Otherwise it
    must have no certain dot, and no database of the list may continue the name. Then the expression means the same in
    these databases with a literal dot.
    """
    begin = _OF_ONE_DATABASE.fullmatch(table)
    if begin is not None and "|" not in table:
        database, dot, rest = begin.groups()
        if dot != "." or _PLAIN.fullmatch(rest):
            return database, rest
        if rest in ("*", "+"):
            rest = ".+"
        elsewhere = any(name != database.lower() and name.startswith(database.lower()) for name in databases)
        if not (elsewhere or _REPEATED.match(rest) or "\\." in rest or "[.]" in rest):
            return database, rest
    raise NotOurs(
        "table.include.list",
        f"{table!r} doesn't begin with a database's name, so that what it has in common with database.include.list "
        "can't be said; write it out, and remove database.include.list",
    )
