"""What a statement in the log is, by its text: what it does, and to which tables.

Nothing here says what became of rows. A statement is known if all of it that names tables can be read. Each kind that
changes no table is listed by its first words. Everything else is `UnparsedStatement`: it may be about any table that it
names.

Source: MySQL 9.7 Reference Manual, "SQL Statements"; "The MEMORY Storage Engine" for what a server logs by itself after
a restart (`DELETE FROM` before MySQL 8.0, `TRUNCATE TABLE` since).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from pipeline.schema.ddl.sql_lexer import (
    Lexeme,
    LexemeKind,
    NotRead,
    Reader,
    lowercase_word,
    readings,
    split_at_commas,
)
from pipeline.schema.table_schema import TableId


@dataclass(frozen=True, slots=True)
class ChangesNoTable:
    """It changes neither rows nor columns of any table."""


@dataclass(frozen=True, slots=True)
class CreatesTable:
    """It creates the table, whose rows are in the log; with `if_not_exists` the table may have been there.

    `filled`: the statement itself brings rows, which the log doesn't have.
    """

    table: TableId
    if_not_exists: bool = False
    filled: bool = False


@dataclass(frozen=True, slots=True)
class DefinesIndex:
    """It adds or removes an index of the table; no row changes. `copies`: whether it may copy them all."""

    table: TableId
    copies: bool = True


@dataclass(frozen=True, slots=True)
class EmptiesTable:
    """It takes all rows of the table."""

    table: TableId


@dataclass(frozen=True, slots=True)
class RepairsTables:
    """It takes from tables what it can't read of them."""

    tables: frozenset[TableId]


@dataclass(frozen=True, slots=True)
class RebuildsTables:
    """It makes the tables' files again, with the same rows; it may copy these value by value."""

    tables: frozenset[TableId]


@dataclass(frozen=True, slots=True)
class DropsTables:
    """It takes tables away, in this order; with `if_exists` as far as they exist."""

    tables: tuple[TableId, ...]
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropsDatabase:
    """It takes a database away with all its tables."""

    database: str


@dataclass(frozen=True, slots=True)
class DefinesDatabase:
    """It creates a database (`created`), or gives it other options; no table changes."""

    database: str
    created: bool


@dataclass(frozen=True, slots=True)
class ReplacesSpatialReference:
    """It gives a spatial reference system another definition, or takes it away. What follows from it may change."""


@dataclass(frozen=True, slots=True)
class RenamesTables:
    """Pairs of old name and new name, in their order."""

    pairs: tuple[tuple[TableId, TableId], ...]


@dataclass(frozen=True, slots=True)
class AltersTable:
    """ALTER TABLE with these options; with `ignore` (before MySQL 5.7) it drops rows that hinder it."""

    table: TableId
    database: str
    ignore: bool
    options: tuple[tuple[Lexeme, ...], ...]

    @property
    def copies(self) -> bool:
        """Whether it may copy the rows value by value. What is about partitions moves them as they are."""
        of_partitions = [lowercase_word(each) for option in self.options[:1] for each in option[1:2]]
        return of_partitions != ["partition"] and not any(map(_in_place, self.options))

    @property
    def sets_default(self) -> bool:
        """Whether an option gives a column another default, or takes it away, and is no definition of a column."""
        words = (list(map(lowercase_word, option)) for option in self.options)
        return any(each[:1] == ["alter"] and "default" in each for each in words)


@dataclass(frozen=True, slots=True)
class UnparsedStatement:
    """It begins with `what`, and may do anything to any table that it names."""

    what: str


ParsedStatement = (
    ChangesNoTable
    | CreatesTable
    | DefinesIndex
    | EmptiesTable
    | RepairsTables
    | RebuildsTables
    | DropsTables
    | DropsDatabase
    | DefinesDatabase
    | ReplacesSpatialReference
    | RenamesTables
    | AltersTable
    | UnparsedStatement
)


@dataclass(frozen=True, slots=True)
class LoggedStatement:
    """A statement of the log, run with this default database, in each `way` in which a server may have read it."""

    database: str
    text: str = field(repr=False)  # it may hold a password
    ways: tuple[ParsedStatement, ...]


# Statements that change no table, by their first word.
_ADMINISTRATIVE = frozenset(
    {
        "analyze",
        "begin",
        "check",
        "commit",
        "flush",
        "grant",
        "install",
        "revoke",
        "set",
        "uninstall",
    }
)
# Percona Server before 8.0 runs another statement after `SET STATEMENT … FOR`.
_SET_STATEMENT: Final = ["set", "statement"]
# What CREATE, ALTER and DROP may be about besides tables and indexes; SPATIAL REFERENCE SYSTEM, UNDO TABLESPACE,
# LOGFILE GROUP and RESOURCE GROUP by their first word.
_NO_TABLES = frozenset(
    {
        "event", "function", "library", "logfile", "procedure", "resource", "role", "server", "tablespace", "trigger",
        "undo", "user", "view",
    }
)  # fmt: skip
# The server's own DELETE names a table and its database, of 64 characters each, which may all be doubled.
_LONGEST_EMPTYING: Final = 1000
# What follows ALTER DATABASE where that names no database.
_DATABASE_OPTIONS = frozenset({"character", "charset", "collate", "default", "encryption", "read"})


def _in_place(found: Sequence[Lexeme]) -> bool:
    """Whether a statement says ALGORITHM=INPLACE or INSTANT, so that it fails where the server would have to copy."""
    words = [lowercase_word(lexeme) for lexeme in found if lexeme != (LexemeKind.SIGN, "=")]
    return any(pair in (("algorithm", "inplace"), ("algorithm", "instant")) for pair in pairwise(words))


def parse_logged(
    database: str, text: str, *, thread_specific: bool = False, escapes: bool | None = None
) -> LoggedStatement:
    """Parses a statement of the log that was run with this default database.

    `escapes`: whether a backslash escapes in its strings. If that isn't known (None), it is read in both ways.
    `thread_specific`: a name in it may mean a temporary table of its session, which hides the table of this name. So
    nothing is certain of a TRUNCATE or an ALTER. A creation and a drop of temporary tables say so themselves.
    """
    ways = dict.fromkeys(read_statement(reading, database) for reading in readings(text, escapes=escapes))
    if thread_specific:
        ways = dict.fromkeys(map(_of_hidden_table, ways))
    return LoggedStatement(database, text, tuple(ways))


def _of_hidden_table(way: ParsedStatement) -> ParsedStatement:
    match way:
        case EmptiesTable():
            return UnparsedStatement("TRUNCATE TABLE")
        case AltersTable():
            return UnparsedStatement("ALTER TABLE")
        case _:
            return way


def read_statement(reading: Sequence[Lexeme], database: str) -> ParsedStatement:
    """The statement that is read like this, run with this default database."""
    if reading and reading[-1] == (LexemeKind.SIGN, ";"):
        reading = reading[:-1]
    if not reading:
        return ChangesNoTable()
    reader = Reader(reading, database)
    first = lowercase_word(reader.next)
    try:
        if first in _ADMINISTRATIVE and list(map(lowercase_word, reading[:2])) != _SET_STATEMENT:
            return ChangesNoTable()
        match first:
            case "create":
                return _create(reader)
            case "alter":
                return _alter(reader)
            case "drop":
                return _drop(reader)
            case "rename":
                return _rename(reader)
            case "truncate":
                return _truncate(reader)
            case "repair":
                return _repair(reader)
            case "optimize":
                return _optimize(reader)
            case _:
                return UnparsedStatement(reading[0].text)
    except NotRead:
        return UnparsedStatement(_first_words(reading))


def emptied_memory_table(statement: str) -> TableId | None:
    """Returns the MEMORY table that a server before MySQL 8.0 reports like this after a restart emptied it.

    A session's statement may have any length, and isn't read if it is longer than the server's own.
    """
    if len(statement) > _LONGEST_EMPTYING:
        return None
    meant = [_deleted_from(reading) for reading in readings(statement)]
    return meant[0] if len(meant) == 1 else None


def has_query(creation: str, *, escapes: bool | None) -> bool:
    """Whether a CREATE TABLE takes its rows from a query, in any way to read it; `escapes`: see `parse_logged`."""
    ways = parse_logged("", creation, escapes=escapes).ways
    return any(isinstance(way, CreatesTable) and way.filled for way in ways)


def _deleted_from(reading: Sequence[Lexeme]) -> TableId | None:
    reader = Reader(reading)
    if not (reader.keyword("delete") and reader.keyword("from")):
        return None
    try:
        table = reader.table()
        reader.end()
    except NotRead:
        return None
    return table


def _first_words(reading: Sequence[Lexeme]) -> str:
    first, second = (
        lowercase_word(lexeme).upper() for lexeme in (*reading[:2], Lexeme(LexemeKind.SIGN, ""))[:2]
    )
    match first, second:
        case "TRUNCATE", _:
            return "TRUNCATE TABLE"
        case "ALTER", "ONLINE" | "OFFLINE" | "IGNORE":
            return "ALTER TABLE"
        case "ALTER" | "CREATE" | "DROP" | "RENAME" | "REPAIR", "TABLE" | "TABLES":
            return f"{first} TABLE"
        case "DROP", "DATABASE" | "SCHEMA":
            return "DROP DATABASE"
        case _:
            return first


def _create(reader: Reader) -> ParsedStatement:
    reader.expect("create")
    replaces = reader.keyword("or")
    if replaces:
        reader.expect("replace")
    if reader.keyword("temporary"):
        # It hides another table of this name from its session only, and the log has no row of it.
        return ChangesNoTable()
    if reader.keyword("table"):
        exists = _if("not", reader)
        return CreatesTable(reader.table(), exists, _has_rows(reader.rest()))
    if reader.keyword("database", "schema"):
        _if("not", reader)
        return DefinesDatabase(reader.name(), created=True)
    return _of_index(reader, replaces=replaces) or _of_others(reader)


def _has_rows(definition: Sequence[Lexeme]) -> bool:
    """Whether CREATE TABLE … has a query: SELECT, TABLE or VALUES, which are no names unless they are quoted.

    A partition has VALUES LESS THAN or VALUES IN.
    """
    words = [lowercase_word(lexeme) for lexeme in definition]
    following = zip(words, [*words[1:], ""], strict=True)
    return any(
        word in ("select", "table") or (word == "values" and then not in ("less", "in"))
        for word, then in following
    )


def _alter(reader: Reader) -> ParsedStatement:
    reader.expect("alter")
    reader.keyword("online", "offline")  # before MySQL 5.7
    ignore = reader.keyword("ignore")
    if reader.keyword("table"):
        table = reader.table()
        options = (tuple(option) for option in split_at_commas(reader.rest()))
        return AltersTable(table, reader.database, ignore, tuple(options))
    if reader.keyword("instance"):
        return ChangesNoTable()
    if reader.keyword("database", "schema"):
        return _altered_database(reader)
    return _of_others(reader)


def _altered_database(reader: Reader) -> ParsedStatement:
    """The default database is altered if the statement names none. Raises NotRead."""
    if "upgrade" in map(lowercase_word, reader.rest()):
        raise NotRead
    named = lowercase_word(reader.next) not in _DATABASE_OPTIONS
    return DefinesDatabase(reader.name() if named else reader.database, created=False)


def _drop(reader: Reader) -> ParsedStatement:
    reader.expect("drop")
    if reader.keyword("temporary"):
        return ChangesNoTable()
    if reader.keyword("table", "tables"):
        exists = _if("", reader)
        tables = _table_list(reader)
        reader.keyword("restrict", "cascade")
        reader.end()
        return DropsTables(tables, exists)
    if reader.keyword("database", "schema"):
        _if("", reader)
        name = reader.name()
        reader.end()
        return DropsDatabase(name)
    return _of_index(reader, replaces=True) or _of_others(reader)


def _rename(reader: Reader) -> ParsedStatement:
    reader.expect("rename")
    if reader.keyword("user"):
        return ChangesNoTable()
    reader.expect("table", "tables")
    pairs: list[tuple[TableId, TableId]] = []
    while not pairs or reader.sign(","):
        old = reader.table()
        reader.expect("to")
        pairs.append((old, reader.table()))
    reader.end()
    return RenamesTables(tuple(pairs))


def _truncate(reader: Reader) -> ParsedStatement:
    reader.expect("truncate")
    reader.keyword("table")
    table = reader.table()
    reader.end()
    return EmptiesTable(table)


def _repair(reader: Reader) -> ParsedStatement:
    reader.expect("repair")
    reader.keyword("no_write_to_binlog", "local")
    reader.expect("table", "tables")
    tables = _table_list(reader)
    while reader.keyword("quick", "extended", "use_frm"):
        pass
    reader.end()
    return RepairsTables(frozenset(tables))


def _optimize(reader: Reader) -> ParsedStatement:
    reader.expect("optimize")
    reader.keyword("no_write_to_binlog", "local")
    reader.expect("table", "tables")
    tables = _table_list(reader)
    reader.end()
    return RebuildsTables(frozenset(tables))


def _table_list(reader: Reader) -> tuple[TableId, ...]:
    tables = [reader.table()]
    while reader.sign(","):
        tables.append(reader.table())
    return tuple(tables)


def _if(not_: str, reader: Reader) -> bool:
    """Whether IF [NOT] EXISTS was next. Raises NotRead."""
    if not reader.keyword("if"):
        return False
    if not_:
        reader.expect(not_)
    reader.expect("exists")
    return True


def _of_index(reader: Reader, *, replaces: bool) -> ParsedStatement | None:
    """An added or removed index, of the table that ON names; None if it's no index, nor a spatial reference system.

    `replaces`: whether it takes away one that there is.
    """
    reader.keyword("online", "offline")  # before MySQL 5.7
    if reader.keyword("spatial"):
        if reader.keyword("reference"):
            return ReplacesSpatialReference() if replaces else ChangesNoTable()
    else:
        reader.keyword("unique", "fulltext")
    if not reader.keyword("index"):
        return None
    reader.name()
    if reader.keyword("using"):
        reader.name()
    reader.expect("on")
    return DefinesIndex(reader.table(), copies=not _in_place(reader.rest()))


def _of_others(reader: Reader) -> ParsedStatement:
    """What's no table and no index. Raises NotRead."""
    while True:
        if reader.keyword("algorithm"):
            reader.sign("=")
            reader.name()
        elif reader.keyword("definer"):
            reader.sign("=")
            _user(reader)
        elif reader.keyword("sql"):
            reader.expect("security")
            reader.name()
        elif not reader.keyword("aggregate", "json", "relational", "duality", "materialized"):
            break
    reader.expect(*_NO_TABLES)
    return ChangesNoTable()


def _user(reader: Reader) -> None:
    reader.value()
    if reader.sign("("):
        reader.expect_sign(")")
    if reader.sign("@"):
        reader.value()
