"""The statements that define captured tables and their databases, as messages of Debezium's schema-change topic.

Debezium sends one message for each table of a statement that drops or renames several. A statement that defines
anything else (users, rights, views, routines, triggers) has no message, and neither has TRUNCATE TABLE.

Source: Debezium 3.6, "Schema change topic", and its messages (`tests/integration/kafka/test_schema_changes.py`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from pipeline.schema.ddl.sql_lexer import (
    NotRead,
    Reader,
    lowercase_word,
    text_without_ends,
    texts_at_commas,
)
from pipeline.schema.ddl.statement_kinds import (
    AltersTable,
    CreatesTable,
    DefinesDatabase,
    DefinesIndex,
    DropsDatabase,
    DropsTables,
    LoggedStatement,
    ParsedStatement,
    RenamesTables,
    UnparsedStatement,
)
from pipeline.schema.ddl.statement_scope import StatementScope, touched_tables
from pipeline.schema.table_schema import TableId


class SchemaObject(StrEnum):
    """What a statement defines or drops: a table, an index, a database, or the options of a database."""

    TABLE = "table"
    DROPPED_TABLE = "dropped_table"
    INDEX = "index"
    DATABASE = "database"
    DATABASE_OPTIONS = "database_options"


@dataclass(frozen=True, slots=True)
class SchemaStatement:
    """A statement, or the part of one that concerns one table: the content of one message.

    `tables`: those that it concerns, of a renamed one the old name and the new one; none if it concerns a database.
    `named`: the names of all captured tables of the whole statement.
    """

    what: SchemaObject
    database: str
    tables: tuple[TableId, ...]
    named: tuple[str, ...]
    text: str = field(repr=False)


# The statements that become messages although they can't be read, by their first words.
_OF_TABLES: Final = frozenset({"CREATE TABLE", "ALTER TABLE", "DROP TABLE", "RENAME TABLE"})


def schema_statements(names: StatementScope, statement: LoggedStatement) -> tuple[SchemaStatement, ...]:
    """Returns the messages that a statement becomes, in its order; none if it doesn't concern us.

    If its readings differ, or none is certain, it becomes one message.
    """
    text = text_without_ends(statement.text)
    first, *others = dict.fromkeys(_parts(names, statement.text, text, way) for way in statement.ways)
    if first is not None and not others:
        return first
    touched = touched_tables(names, statement)
    known = touched & frozenset(names.known)
    if not touched:
        return ()
    tables = tuple(sorted(known or touched))
    return (SchemaStatement(SchemaObject.TABLE, tables[0].database, tables, _names(sorted(known)), text),)


def _parts(
    names: StatementScope, whole: str, text: str, way: ParsedStatement
) -> tuple[SchemaStatement, ...] | None:
    """Returns None for a statement on tables that can't be read. `whole`: its text with the comments around it."""
    match way:
        case CreatesTable(table) | DefinesIndex(table):
            what = SchemaObject.INDEX if isinstance(way, DefinesIndex) else SchemaObject.TABLE
            return _of_table(names, what, (table,), text)
        case AltersTable(table):
            try:
                new = _new_name(way)
            except NotRead:
                return None
            return _of_table(names, SchemaObject.TABLE, (table,) if new == table else (table, new), text)
        case DropsTables(tables, if_exists):
            return tuple(
                _dropped([each for each in tables if _is_captured(names, each)], if_exists=if_exists)
            )
        case RenamesTables(pairs):
            return tuple(_renamed(names, pairs, whole))
        case DropsDatabase(name):
            return _of_database(names, SchemaObject.DATABASE, name, text)
        case DefinesDatabase(name, created):
            what = SchemaObject.DATABASE if created else SchemaObject.DATABASE_OPTIONS
            return _of_database(names, what, name, text)
        case UnparsedStatement(words):
            return None if words in _OF_TABLES else ()
        case _:
            return ()


def _is_captured(names: StatementScope, table: TableId) -> bool:
    """Whether this name means a captured table, also in another spelling if the server folds names."""
    return names.captured.match(table) or any(map(names.captured.match, names.meant(table)))


def _of_table(
    names: StatementScope, what: SchemaObject, tables: tuple[TableId, ...], text: str
) -> tuple[SchemaStatement, ...]:
    if not any(_is_captured(names, table) for table in tables):
        return ()
    *_, last = tables
    return (SchemaStatement(what, last.database, tables, (last.name,), text),)


def _of_database(
    names: StatementScope, what: SchemaObject, name: str, text: str
) -> tuple[SchemaStatement, ...]:
    return (SchemaStatement(what, name, (), (), text),) if names.captured.may_match_in(name) else ()


def _new_name(statement: AltersTable) -> TableId:
    """The table's name after the statement. Raises NotRead."""
    for option in statement.options:
        reader = Reader(option, statement.database)
        if reader.keyword("rename") and lowercase_word(reader.next) not in ("column", "index", "key"):
            if not reader.keyword("to", "as"):
                reader.sign("=")
            return reader.table()
    return statement.table


def _dropped(tables: Sequence[TableId], *, if_exists: bool) -> Iterator[SchemaStatement]:
    begin = "DROP TABLE IF EXISTS " if if_exists else "DROP TABLE "
    for table in tables:
        text = begin + table.quoted
        yield SchemaStatement(SchemaObject.DROPPED_TABLE, table.database, (table,), _names(tables), text)


def _renamed(
    names: StatementScope, pairs: Sequence[tuple[TableId, TableId]], statement: str
) -> Iterator[SchemaStatement]:
    """Each pair has the text that it has in the statement, with RENAME TABLE before it."""
    whole = [any(_is_captured(names, table) for table in pair) for pair in pairs]
    named = _names([new for (_, new), ours in zip(pairs, whole, strict=True) if ours])
    first, *others = texts_at_commas(statement)
    texts = [first, *(f"RENAME TABLE {each}" for each in others)]
    for (old, new), text, ours in zip(pairs, texts, whole, strict=True):
        if ours:
            yield SchemaStatement(SchemaObject.TABLE, new.database, (old, new), named, text)


def _names(tables: Sequence[TableId]) -> tuple[str, ...]:
    return tuple(table.name for table in tables)
