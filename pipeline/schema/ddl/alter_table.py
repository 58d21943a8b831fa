"""Effects of statements on a captured table as a unit. Its columns get other names, some go, and some come with a
constant in the rows that there were. Or all of its rows go.

The log and the server describe a table's columns before and after a statement (`pipeline.verifier.step`). They don't
say which of the later columns is which of the earlier ones. A removed column and an added one may be the same, with
another name and all of its values. Nor do they say what an added column has in the rows that there were. Only the
statement says that. Tidemark reads little of it, and only what is certain. That is the names in RENAME COLUMN, CHANGE
and DROP, and the columns in ADD whose default is a constant (`pipeline.schema.ddl.column_definitions`).

What is not certain can't be left to the next schema. A column that goes, and comes back by another statement, leaves no
trace there, and the rows have NULL in it. So the rows count as changed in three cases. The text may be read in two ways
(`pipeline.schema.ddl.sql_lexer`) that differ in what is renamed or goes. The server may fold a name to that of a column
in a way that isn't known. Or a column of the key goes.

The effect of a statement is applied at once to the schema that was known before it. The verification of the next
schema brings the types, and columns that are NULL in the rows that there were. So the next schema is compared with one
that has its columns under the same names. A restart compares the same, because a checkpoint has the known schemas.

Source: MySQL 9.7 Reference Manual, "ALTER TABLE Statement".
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pipeline.schema.ddl.column_definitions import ConstantColumn, constant_column
from pipeline.schema.ddl.sql_lexer import (
    Lexeme,
    LexemeKind,
    NotRead,
    Reader,
    lowercase_word,
    split_at_commas,
)
from pipeline.schema.ddl.statement_kinds import AltersTable, LoggedStatement, ParsedStatement
from pipeline.schema.ddl.statement_scope import StatementScope, ascii_folded, widely_folded
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
    """What a statement does to columns.

    Some get another name, (old, new), all at the same time. Some go, and some come with a constant in the rows that
    there were.
    """

    renamed: tuple[tuple[str, str], ...] = ()
    dropped: tuple[str, ...] = ()
    added: tuple[ConstantColumn, ...] = ()

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self.renamed or self.dropped or self.added)


@dataclass(frozen=True, slots=True)
class Alteration:
    """A `statement` (its first words) has passed, and `schema` is the table's after it, as far as it's known.

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


def alterations(
    names: StatementScope,
    known: Mapping[TableId, TableSchema],
    statement: LoggedStatement,
    emptied: Mapping[TableId, str],
) -> tuple[Alteration, ...]:
    """What a statement does to tables of these schemas: to their columns, and to those that it's known to empty.

    Only a table that it's certain to mean is altered for certain.
    """
    found = {
        table: Alteration(known[table], what, emptied=True)
        for table, what in emptied.items()
        if table in known
    }
    for written, changes in (told,) if (told := column_changes(statement)) else ():
        table = names.surely_meant(written)
        certain = table in known and is_certain(known[table], changes)
        if certain and (alteration := alteration_of(known[table], changes, "ALTER TABLE")):
            found[table] = replace(alteration, emptied=table in found)
    return tuple(found[table] for table in sorted(found))


def uncertain_columns(
    names: StatementScope,
    known: Mapping[TableId, TableSchema],
    statement: LoggedStatement,
    *,
    failed: bool,
) -> frozenset[TableId]:
    """Returns the tables of these schemas in which a statement may rename or remove a column, if `alterations` can't
    say it for certain.

    Their rows count as changed: what goes may come back empty before anything shows that it was gone.
    """
    found = {each for table in uncertain_tables(statement) for each in names.meant(table)}
    told = column_changes(statement)
    if told is not None and (told[1].renamed or told[1].dropped):
        (table, changes), sure = told, names.surely_meant(told[0])
        of = {each: known[each] for each in names.meant(table) if each in known}
        found |= {each for each, s in of.items() if failed or each != sure or not is_certain(s, changes)}
    return frozenset(found & known.keys())


def shortened_keys(
    names: StatementScope, known: Mapping[TableId, TableSchema], statement: LoggedStatement
) -> frozenset[TableId]:
    """Returns the tables of these schemas of whose key a column goes. It may come back with other values."""
    told = column_changes(statement)
    if told is None:
        return frozenset()
    table = names.surely_meant(told[0])
    return frozenset({table} if table in known and shortens_key(known[table], told[1]) else ())


def column_changes(statement: LoggedStatement) -> tuple[TableId, ColumnChanges] | None:
    """Returns what the statement does to the columns of a table; None if that isn't certain."""
    ways = {_column_changes(way) for way in statement.ways}
    return ways.pop() if len(ways) == 1 else None


def _column_changes(statement: ParsedStatement) -> tuple[TableId, ColumnChanges] | None:
    try:
        return _read_changes(statement)
    except NotRead:
        return None


def _read_changes(statement: ParsedStatement) -> tuple[TableId, ColumnChanges] | None:
    """Raises NotRead."""
    if not isinstance(statement, AltersTable):
        return None
    renamed = tuple(pair for option in statement.options for pair in renamed_by(Reader(option)))
    dropped = tuple(name for option in statement.options for name in dropped_by(Reader(option)))
    definitions = [each for option in statement.options for each in added_by(Reader(option))]
    added = tuple(column for each in definitions if (column := constant_column(each)) is not None)
    changes = ColumnChanges(renamed, dropped, added)
    return (statement.table, changes) if changes else None


def uncertain_tables(statement: LoggedStatement) -> frozenset[TableId]:
    """Returns the tables, of any name, of which a column may get another name or go, if that isn't certain."""
    unread: set[TableId] = set()
    for way in statement.ways:
        try:
            _read_changes(way)
        except NotRead:
            unread |= {way.table} if isinstance(way, AltersTable) else set()
    ways = {_column_changes(way) for way in statement.ways}
    told = {each[0] for each in ways if each is not None and (each[1].renamed or each[1].dropped)}
    return frozenset(unread | told if len(ways) > 1 else unread)


def is_certain(schema: TableSchema, changes: ColumnChanges) -> bool:
    """Whether it's certain which columns of this schema get other names, and which ones go.

    It isn't if two columns would have one name then: the statement found another schema.
    """
    meant, names = [*(old for old, _ in changes.renamed), *changes.dropped], _ColumnNames(schema)
    found = {name: names.meant(name) for name in meant}
    gone = {found[name] for name in changes.dropped}
    given = {found[old]: new for old, new in changes.renamed}
    stay = [column.name for column in schema.columns if column.name not in gone]
    after = {ascii_folded(given.get(name, name)) for name in stay}
    known = all(column is not None or not names.may_be(name) for name, column in found.items())
    return known and len(after) == len(stay)


def shortens_key(schema: TableSchema, changes: ColumnChanges) -> bool:
    """Whether a column of the key goes, which `alteration_of` doesn't record."""
    names = _ColumnNames(schema)
    return any(names.meant(name) in schema.key_names for name in changes.dropped)


def alteration_of(schema: TableSchema, changes: ColumnChanges, statement: str) -> Alteration | None:
    """Returns the alteration of a table that had this schema, None if it isn't one.

    Columns that the schema doesn't have came since, and don't matter. A removed column of the primary key isn't
    recorded as removed: the rows that it told apart can't stay unchanged. Nor are columns recorded as added if the
    schema has the name of one: then it isn't the schema that the statement found.
    """
    names = _ColumnNames(schema)
    pairs = [(column, new) for old, new in changes.renamed if (column := names.meant(old))]
    gone = [column for name in changes.dropped if (column := names.meant(name))]
    renamed = tuple((old, new) for old, new in pairs if old != new)
    dropped = tuple(column for column in gone if column not in schema.key_names)
    after = _with(schema, dict(renamed), frozenset(dropped))
    there = {column.name.casefold() for column in after.columns}
    added = () if any(each.column.name.casefold() in there for each in changes.added) else changes.added
    if not (done := ColumnChanges(renamed, dropped, added)):
        return None
    columns = (*after.columns, *(each.column for each in added))
    return Alteration(replace(after, columns=columns), statement, done)


class _ColumnNames:
    """A schema's names, each folded once: one statement may name all of a table's 4,096 columns."""

    def __init__(self, schema: TableSchema) -> None:
        names = [column.name for column in schema.columns]
        self._exact = frozenset(names)
        self._folded = {ascii_folded(name): name for name in reversed(names)}
        self._wide = frozenset(map(widely_folded, names))

    def meant(self, name: str) -> str | None:
        """The column that a statement calls so, by any case of ASCII letters; None where that isn't certain of one."""
        return name if name in self._exact else self._folded.get(ascii_folded(name))

    def may_be(self, name: str) -> bool:
        """Whether the server may take this name for that of a column; it doesn't fold all letters as Unicode does."""
        return widely_folded(name) in self._wide


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
        old, new = _column(option), _column(option)
        if old != new:
            yield old, new


def dropped_by(option: Reader) -> Iterator[str]:
    """The column that goes. Raises NotRead."""
    if option.keyword("drop") and lowercase_word(option.next) not in _NO_COLUMN:
        option.keyword("column")
        yield _column(option)


def _column(option: Reader) -> str:
    """A column's name. Before MySQL 8.0 a table's may come before it, and then it isn't read. Raises NotRead."""
    name = option.name()
    if option.sign("."):
        raise NotRead
    return name


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
    """Returns what is before the parenthesis that closes one opened before."""
    depth = 1
    for place, lexeme in enumerate(found):
        if lexeme.kind is LexemeKind.SIGN:
            depth += {"(": 1, ")": -1}.get(lexeme.text, 0)
        if depth == 0:
            return list(found[:place])
    raise NotRead
