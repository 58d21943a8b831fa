"""Effects of statements on rows that the log doesn't have: DROP, TRUNCATE, RENAME, and some of ALTER TABLE.

With binlog_format=ROW the log has each change of a row, except side effects of DDL. A statement's text says at most
that rows *may* have changed. So this module and `pipeline.schema.ddl.statement_kinds` list what certainly leaves rows
alone: kinds of statements, options of ALTER TABLE, definitions of columns (`pipeline.schema.ddl.column_definitions`)
and engines. Each other statement may have changed the rows of each table that it names.

A column that is added with a constant in the rows that there were changes them all in the same way. The statement says
which (`pipeline.schema.ddl.alter_table`).

If the text can be read in several ways (`pipeline.schema.ddl.sql_lexer`), the effects of all of them count.

MODIFY, CHANGE and CONVERT TO convert values. A mode that isn't strict cuts a value that's too long, and makes a NULL 0.
A strict one lets the statement fail on such values. Then a column's types before and after it say whether its values
are the same (`pipeline.schema.compatibility`). There are two exceptions: what the types don't show
(`pipeline.schema.ddl.column_definitions`), and a table with a generated column, whose values follow from the others.

Source: MySQL 9.7 Reference Manual, "ALTER TABLE Statement", "DROP TABLE Statement", "RENAME TABLE Statement", "TRUNCATE
TABLE Statement", "Implicit Default Handling" (in "Data Type Default Values").
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import chain, pairwise
from typing import assert_never

from pipeline.schema.ddl.alter_table import added_by, dropped_by, renamed_by
from pipeline.schema.ddl.column_definitions import (
    adds_nulls,
    constant_column,
    converts_exactly,
    converts_texts_exactly,
)
from pipeline.schema.ddl.sql_lexer import NAME_KINDS, Lexeme, LexemeKind, NotRead, Reader, lowercase_word
from pipeline.schema.ddl.statement_kinds import (
    AltersTable,
    ChangesNoTable,
    CreatesTable,
    DefinesDatabase,
    DefinesIndex,
    DropsDatabase,
    DropsTables,
    EmptiesTable,
    LoggedStatement,
    ParsedStatement,
    RebuildsTables,
    RenamesTables,
    RepairsTables,
    ReplacesSpatialReference,
    UnparsedStatement,
)
from pipeline.schema.table_schema import TableId
from pipeline.schema.table_traits import Traits

# Engines whose tables keep exactly the rows in the log. CSV doesn't: it keeps six digits of a FLOAT.
LOGGED_ENGINES = frozenset({"innodb", "myisam", "memory", "heap", "archive"})

NONE_EXACT: Mapping[TableId, Traits] = {}

# What ALTER TABLE may be followed by without touching a row, by its first words.
_HARMLESS = frozenset(
    {
        ("alter",), ("drop",), ("order", "by"), ("enable", "keys"), ("disable", "keys"), ("force",),
        ("with", "validation"), ("without", "validation"), ("rename", "column"), ("rename", "index"),
        ("rename", "key"), ("analyze", "partition"), ("check", "partition"), ("optimize", "partition"),
        ("rebuild", "partition"), ("coalesce", "partition"), ("remove", "partitioning"),
        ("upgrade", "partitioning"), ("secondary_load",), ("secondary_unload",),
    }
)  # fmt: skip
# What defines partitions: each row stays, in one or the other, but an engine may be named among them.
_PARTITIONS = frozenset({("add", "partition"), ("reorganize", "partition"), ("partition", "by")})
# What begins an option about a column, and what names a character set.
_OF_COLUMNS = frozenset({"add", "alter", "change", "drop", "modify"})
_CHARSETS = frozenset({"char", "character", "charset", "collate"})
# Options of the table as a whole, each with a value.
_TABLE_OPTIONS = frozenset(
    {
        "algorithm", "auto_increment", "autoextend_size", "avg_row_length", "charset", "checksum", "collate",
        "comment", "compression", "delay_key_write", "encryption", "engine_attribute", "key_block_size", "lock",
        "max_rows", "min_rows", "pack_keys", "password", "row_format", "secondary_engine",
        "secondary_engine_attribute", "stats_auto_recalc", "stats_persistent", "stats_sample_pages", "storage",
        "tablespace",
    }
)  # fmt: skip


class Effect(StrEnum):
    """What a statement makes of a table's rows.

    It takes all, creates the table without any, gives all the same constants, or they may be others. They are
    `STORED_AGAIN` by an engine that keeps what the log has: they're others if the engine before lost some.
    """

    EMPTIED = "emptied"
    CREATED = "created"
    EXTENDED = "extended"
    STORED_AGAIN = "stored anew"
    CHANGED = "changed"


# After these a table has no rows.
WITHOUT_ROWS = frozenset({Effect.EMPTIED, Effect.CREATED})


@dataclass(frozen=True, slots=True)
class OfTables:
    """`what` has this effect on the rows of `tables`, as far as these exist."""

    what: str
    tables: frozenset[TableId]
    effect: Effect = Effect.CHANGED


@dataclass(frozen=True, slots=True)
class OfDatabase:
    """`what` takes away all tables of a database."""

    what: str
    database: str


@dataclass(frozen=True, slots=True)
class Unclear:
    """It may be `what`, of any table that's named in it."""

    what: str


UnloggedChange = OfTables | OfDatabase | Unclear


def unlogged_changes(
    statement: LoggedStatement, exact: Mapping[TableId, Traits] = NONE_EXACT
) -> tuple[frozenset[UnloggedChange], ...]:
    """Returns the statement's unlogged effects on rows, for each way to read it.

    `exact`: the tables, as they were before the statement, for which strict mode accepts no value that doesn't fit.
    """
    return tuple(frozenset(changes_of(way, exact)) for way in statement.ways)


def changes_of(
    statement: ParsedStatement, exact: Mapping[TableId, Traits] = NONE_EXACT
) -> tuple[UnloggedChange, ...]:
    """Returns the unlogged effects of a statement that has been read; see `unlogged_changes`."""
    try:
        return tuple(_changes(statement, exact))
    except NotRead:
        return (Unclear("ALTER TABLE"),)


def _changes(statement: ParsedStatement, exact: Mapping[TableId, Traits]) -> Iterator[UnloggedChange]:
    match statement:
        case CreatesTable(table, filled=True):
            yield OfTables("CREATE TABLE … SELECT", frozenset({table}))
        case ChangesNoTable() | DefinesIndex() | DefinesDatabase() | CreatesTable(if_not_exists=True):
            pass
        case RebuildsTables() | ReplacesSpatialReference():
            pass
        case CreatesTable(table):
            yield OfTables("CREATE TABLE", frozenset({table}), Effect.CREATED)
        case EmptiesTable(table):
            yield OfTables("TRUNCATE TABLE", frozenset({table}), Effect.EMPTIED)
        case RepairsTables(tables):
            yield OfTables("REPAIR TABLE", tables)
        case DropsTables(tables):
            yield OfTables("DROP TABLE", frozenset(tables), Effect.EMPTIED)
        case DropsDatabase(database):
            yield OfDatabase("DROP DATABASE", database)
        case RenamesTables(pairs):
            # In their order: a name that was given away has no table, unless it's given again. Then it has other rows.
            there = {name: given for pair in pairs for name, given in zip(pair, (False, True), strict=True)}
            gone = frozenset(name for name, given in there.items() if not given)
            yield OfTables("RENAME TABLE", gone, Effect.EMPTIED)
            yield OfTables("RENAME TABLE", frozenset(there) - gone)
        case AltersTable():
            yield from _altered_by_name(statement, exact.get(statement.table))
        case UnparsedStatement(what):
            yield Unclear(what)
        case _:
            assert_never(statement)


# ALTER TABLE


def _altered_by_name(statement: AltersTable, before: Traits | None) -> Iterator[UnloggedChange]:
    """The changes of a statement that may rename its table; the old name has no rows then, whatever else it does.

    Raises NotRead.
    """
    changes, renamed = list(_altered(statement, before)), frozenset({statement.table})
    gone = any(
        isinstance(c, OfTables) and c.effect is Effect.EMPTIED and renamed <= c.tables for c in changes
    )
    for change in changes:
        if gone and isinstance(change, OfTables) and change.effect is not Effect.EMPTIED:
            yield replace(change, tables=change.tables - renamed)
        else:
            yield change


def _altered(statement: AltersTable, before: Traits | None) -> Iterator[UnloggedChange]:
    """`before`: the table's, if its conversions are exact. Raises NotRead."""
    if (
        before is not None and before.generated
    ):  # a value that follows from one of another type may be another one
        before = None
    if before is not None and any(map(_sets_charset, statement.options)):
        before = replace(before, charset="")
    table, options = frozenset({statement.table}), tuple(_options(statement.options))
    if statement.ignore:
        yield OfTables("ALTER IGNORE TABLE", table)
    for option in options:
        yield from _option(Reader(option, statement.database), table, before)
    renamed = [pair for option in options for pair in renamed_by(Reader(option))]
    respelled = {old.casefold() for old, new in renamed if old.casefold() == new.casefold()}
    taken = {old for old, _ in renamed} | {name for option in options for name in dropped_by(Reader(option))}
    given = {new for _, new in renamed} | {
        added[0].text for option in options for added in added_by(Reader(option)) if added
    }
    if ({name.casefold() for name in taken} & {name.casefold() for name in given}) - respelled:
        yield OfTables("ALTER TABLE that gives a column's name to another", table)


def _sets_charset(option: Sequence[Lexeme]) -> bool:
    """Whether an option may give the table another character set, which a column has whose definition names none."""
    words = list(map(lowercase_word, option))
    return not (_OF_COLUMNS & set(words[:1]) or _CHARSETS.isdisjoint(words))


def _options(options: Sequence[Sequence[Lexeme]]) -> Iterator[Sequence[Lexeme]]:
    """Each with the names that it lists: partitions, after which nothing else comes, or columns to order rows by."""
    ordering = False
    for number, option in enumerate(options):
        words = list(map(lowercase_word, option[:2]))
        if words[1:] == ["partition"]:
            yield tuple(chain.from_iterable(options[number:]))
            return
        is_column = bool(option) and option[0].kind in NAME_KINDS and words[1:] in ([], ["asc"], ["desc"])
        if not (ordering and is_column and len(option) < 3):
            yield option
            ordering = words == ["order", "by"]


def _option(reader: Reader, table: frozenset[TableId], before: Traits | None) -> Iterator[UnloggedChange]:
    """Raises NotRead."""
    words = [lowercase_word(lexeme) for lexeme in reader.rest() if lexeme != (LexemeKind.SIGN, "=")]
    match words[:2]:
        case ["exchange", "partition"]:
            while not reader.keyword("with"):
                reader.name()
            reader.expect("table")
            yield OfTables("ALTER TABLE … EXCHANGE PARTITION", table | {reader.table()})
        case ["truncate" | "drop" | "repair" as verb, "partition"]:
            yield OfTables(f"ALTER TABLE … {verb.upper()} PARTITION", table)
        case ["discard" | "import" as verb, "partition" | "tablespace" as of]:
            yield OfTables(f"ALTER TABLE … {verb.upper()} {of.upper()}", table)
        case first if tuple(first) in _PARTITIONS:
            yield from _engines(words, table)
        case first if not first or {tuple(first), tuple(first[:1])} & _HARMLESS:
            pass
        case ["rename", _]:
            reader.keyword("rename")
            if not reader.keyword("to", "as"):
                reader.sign("=")
            what, new = "ALTER TABLE … RENAME", frozenset({reader.table()})
            yield OfTables(what, table - new, Effect.EMPTIED)
            yield OfTables(what, new)
        case ["modify" | "change" as verb, *_]:
            reader.expect(verb)
            reader.keyword("column")
            old = reader.name() if verb == "change" else reader.next.text
            if before is None or not converts_exactly(reader.rest(), old, before):
                yield OfTables(f"ALTER TABLE … {verb.upper()}", table)
        case ["convert", "to"]:
            reader.expect("convert")
            reader.expect("to")
            if before is None or not converts_texts_exactly(reader.rest(), before):
                yield OfTables("ALTER TABLE … CONVERT TO", table)
        case ["add", _]:
            if unknown := [definition for definition in added_by(reader) if not adds_nulls(definition)]:
                constant = all(constant_column(definition) is not None for definition in unknown)
                effect = Effect.EXTENDED if constant else Effect.CHANGED
                yield OfTables(
                    "ALTER TABLE … ADD COLUMN with a value for the rows that there were", table, effect
                )
        case _:
            yield from _table_options(reader, table)


def _table_options(reader: Reader, table: frozenset[TableId]) -> Iterator[OfTables]:
    """Options of the table as a whole, which need no commas between them, and partitions after them."""
    while reader.next.text:
        if lowercase_word(reader.next) in ("partition", "remove"):
            yield from _engines(
                [lowercase_word(each) for each in reader.rest() if each != (LexemeKind.SIGN, "=")], table
            )
            return
        if reader.keyword("engine"):
            reader.sign("=")
            yield _of_engine(reader.name(), table)
            continue
        reader.keyword("default")
        if reader.keyword("data", "index"):
            known = reader.keyword("directory")
        elif reader.keyword("character", "char"):
            known = reader.keyword("set")
        else:
            known = reader.keyword(*_TABLE_OPTIONS)
        if not known:
            yield OfTables("ALTER TABLE", table)
            return
        reader.sign("=")
        reader.value()


def _engines(words: list[str], table: frozenset[TableId]) -> Iterator[OfTables]:
    """The engines that partitions are defined with."""
    for setting, engine in pairwise(words):
        if setting == "engine":
            yield _of_engine(engine, table)


def _of_engine(engine: str, table: frozenset[TableId]) -> OfTables:
    effect = Effect.STORED_AGAIN if engine.casefold() in LOGGED_ENGINES else Effect.CHANGED
    return OfTables(f"ALTER TABLE … ENGINE={engine.upper()}", table, effect)
