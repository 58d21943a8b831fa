"""What statements make of a captured table as a whole: its columns get other names, some go, all of its rows go.

The log and the server tell a table's columns before a statement and behind it (`pipeline.verifier.step`), and not
which of those behind it are which of those before: a column that's gone and one that has come may be the same one, with
another name and all of its values. Only the statement tells that. What is read of it here is little, and only as far as
it's sure: the names that RENAME COLUMN, CHANGE and DROP have. It may be read in two ways
(`pipeline.schema.ddl.sql_lexer`); where these differ, nothing is told, and a column that's missed later begins the
table's mirror anew (`pipeline.schema.compatibility`).

What a statement tells is taken into account in the schema that was known before it, at once: names only, since types
and new columns are for whoever proves the next schema. So what's compared with that one has its columns by the same
names, and it's the same over a restart, since a checkpoint has the schemas that are known.

Source: MySQL 9.7 Reference Manual, "ALTER TABLE Statement".
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pipeline.schema.ddl.sql_lexer import (
    Lexeme,
    LexemeKind,
    NotRead,
    Reader,
    lowercase_word,
    readings,
    split_at_commas,
)
from pipeline.schema.ddl.statement_kinds import AltersTable, read_statement
from pipeline.schema.table_schema import TableId, TableSchema

# What ADD and DROP are followed by where they aren't about a column; all are reserved words.
_NO_COLUMN = frozenset(
    {
        "check",
        "constraint",
        "foreign",
        "fulltext",
        "index",
        "key",
        "partition",
        "primary",
        "spatial",
        "unique",
    }
)


@dataclass(frozen=True, slots=True)
class ColumnChanges:
    """The columns that get another name, (old, new), all at the same time, and those that go."""

    renamed: tuple[tuple[str, str], ...] = ()
    dropped: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self.renamed or self.dropped)


@dataclass(frozen=True, slots=True)
class Alteration:
    """A `statement` (its first words) has passed, and `schema` is the table's behind it, as far as it's told.

    `changes`: of columns of the schema that was known before; `emptied`: all rows have gone.
    """

    schema: TableSchema
    statement: str
    changes: ColumnChanges = ColumnChanges()
    emptied: bool = False


@dataclass(frozen=True, slots=True)
class Altered:
    """An alteration, and the SCN of its statement."""

    scn: int
    alteration: Alteration


def column_changes(database: str, statement: str) -> tuple[TableId, ColumnChanges] | None:
    """What the statement, run with this default database, does to the columns of a table; None if that isn't sure."""
    ways = {_read(reading, database) for reading in readings(statement)}
    return ways.pop() if len(ways) == 1 else None


def _read(reading: list[Lexeme], database: str) -> tuple[TableId, ColumnChanges] | None:
    statement = read_statement(reading, database)
    if not isinstance(statement, AltersTable):
        return None
    try:
        renamed = tuple(pair for option in statement.options for pair in renamed_by(Reader(option)))
        dropped = tuple(name for option in statement.options for name in dropped_by(Reader(option)))
    except NotRead:
        return None
    changes = ColumnChanges(renamed, dropped)
    return (statement.table, changes) if changes else None


def altered(schema: TableSchema, changes: ColumnChanges, statement: str) -> Alteration | None:
    """The alteration of a table that had this schema, None where it isn't one.

    Columns that the schema doesn't have came since, and don't matter. One of the primary key that goes isn't taken
    for gone: rows that it told apart can't stay as they are.
    """
    try:
        pairs = [(column, new) for old, new in changes.renamed if (column := _named(schema, old))]
        gone = [column for name in changes.dropped if (column := _named(schema, name))]
    except NotRead:
        return None
    renamed = tuple((old, new) for old, new in pairs if old != new)
    dropped = tuple(column for column in gone if column not in schema.key_names)
    if not (done := ColumnChanges(renamed, dropped)):
        return None
    return Alteration(_with(schema, dict(renamed), frozenset(dropped)), statement, done)


def _named(schema: TableSchema, name: str) -> str | None:
    """The column that a statement calls so; names of columns are folded. Raises NotRead where two may be meant."""
    names = [column.name for column in schema.columns if column.name.casefold() == name.casefold()]
    if name in names:
        return name
    if len(names) > 1:
        raise NotRead
    return names[0] if names else None


def _with(schema: TableSchema, names: Mapping[str, str], dropped: frozenset[str]) -> TableSchema:
    left = [i for i, column in enumerate(schema.columns) if column.name not in dropped]
    columns = (schema.columns[i] for i in left)
    return replace(
        schema,
        columns=tuple(replace(column, name=names.get(column.name, column.name)) for column in columns),
        key=tuple(left.index(i) for i in schema.key),
    )


# Options of ALTER TABLE, of which each function takes one


def renamed_by(option: Reader) -> Iterator[tuple[str, str]]:
    """The old name and the new one of a column that is renamed, if only by a letter's case. Raises NotRead."""
    if option.keyword("rename"):
        if option.keyword("column"):
            old = option.name()
            option.expect("to")
            yield old, option.name()
    elif option.keyword("change"):
        option.keyword("column")
        old, new = option.name(), option.name()
        if old != new:
            yield old, new


def dropped_by(option: Reader) -> Iterator[str]:
    """The column that goes. Raises NotRead."""
    if option.keyword("drop") and lowercase_word(option.next) not in _NO_COLUMN:
        option.keyword("column")
        yield option.name()


def added_by(option: Reader) -> Iterator[list[Lexeme]]:
    """The definitions of the columns that come, each from the column's name on. Raises NotRead."""
    if not option.keyword("add") or lowercase_word(option.next) in _NO_COLUMN:
        return
    option.keyword("column")
    if not option.sign("("):
        yield list(option.rest())
        return
    for definition in split_at_commas(_inside(option.rest())):
        if definition and lowercase_word(definition[0]) not in _NO_COLUMN:
            yield definition


def _inside(found: Sequence[Lexeme]) -> list[Lexeme]:
    """What stands before the parenthesis that closes one opened before."""
    depth = 1
    for place, lexeme in enumerate(found):
        if lexeme.kind is LexemeKind.SIGN:
            depth += {"(": 1, ")": -1}.get(lexeme.text, 0)
        if depth == 0:
            return list(found[:place])
    raise NotRead
