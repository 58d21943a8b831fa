"""Statements that change rows which the log doesn't tell: DROP, TRUNCATE, RENAME, and some of what ALTER TABLE does.

With binlog_format=ROW each change of a row is in the log, but for what DDL does to rows as a side effect. Such a
statement is read here closely enough to say which tables it means, by their names and the default database, and what
it makes of their rows; nothing else is made of it. What begins like one and can't be read to its end is `Unclear`.

Where the text can be read in more ways than one (`pipeline.lexemes`), what it does is what it does in any of them.

MODIFY, CHANGE and CONVERT TO convert values, and what comes of them goes by the server's mode: a value that's too long
is cut, and a NULL is made 0, where it isn't strict. Where it is, the statement fails on such values, so that it passed
because there were none; then a column's old type and its new one say whether its values are the same
(`pipeline.evolution`), but for what the types don't show: spaces at the end (CHAR), digits of a FLOAT(m,n), and values
that the column itself makes.

Source: MySQL 9.7 Reference Manual, "ALTER TABLE Statement", "DROP TABLE Statement", "RENAME TABLE Statement",
"TRUNCATE TABLE Statement", "Implicit Default Handling" (in "Data Type Default Values").
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from pipeline.alterations import added_by, dropped_by, renamed_by
from pipeline.lexemes import Kind, Lexeme, NotRead, Reader, parts, readings, word
from pipeline.schema import TableId

# Words of a column's definition that give rows a value.
_MAKE_VALUES = frozenset({"as", "auto_increment", "generated", "primary", "serial"})
# Types that say nothing of spaces or zero bytes at a value's end, and those whose digits in parentheses round a value.
_PADDED = frozenset({"char", "character", "nchar", "national", "binary"})
_ROUNDED = frozenset({"float", "double", "real"})
# Engines that forget what they are given.
_FORGETFUL = frozenset({"blackhole", "example"})


class Effect(StrEnum):
    """What a statement makes of a table's rows: it takes them all, they are others, or there won't be any more."""

    EMPTIED = "emptied"
    CHANGED = "changed"
    LOST = "lost"


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
    database: str, statement: str, *, strict: bool = False
) -> tuple[frozenset[UnloggedChange], ...]:
    """What the statement, run with this default database, does to rows without telling the log, as each reads it."""
    return tuple(
        frozenset(_changes(Reader(reading), database, strict and "ignore" not in map(word, reading[:3])))
        for reading in readings(statement)
    )


def _changes(reader: Reader, database: str, strict: bool) -> Iterator[UnloggedChange]:
    what = _verb(reader)
    if what is None:
        return
    try:
        match what:
            case "TRUNCATE TABLE":
                yield OfTables(what, frozenset({_last_table(reader, database)}), Effect.EMPTIED)
            case "RENAME TABLE":
                yield from _renamed(reader, database, what)
            case "DROP TABLE":
                yield _dropped(reader, database, what)
            case "DROP DATABASE":
                _if_exists(reader)
                name = reader.name()
                reader.end()
                yield OfDatabase(what, name)
            case _:
                yield from _altered(reader, database, strict)
    except NotRead:
        yield Unclear(what)


def _verb(reader: Reader) -> str | None:
    """Take the words that such a statement begins with; None if it's another one."""
    if reader.keyword("truncate"):
        reader.keyword("table")
        return "TRUNCATE TABLE"
    if reader.keyword("rename"):
        return "RENAME TABLE" if reader.keyword("table", "tables") else None
    if reader.keyword("drop"):
        if reader.keyword("database", "schema"):
            return "DROP DATABASE"
        return "DROP TABLE" if reader.keyword("table", "tables") else None
    if reader.keyword("alter"):
        reader.keyword("online", "offline", "ignore")  # of servers before 5.7
        return "ALTER TABLE" if reader.keyword("table") else None
    return None


def _last_table(reader: Reader, database: str) -> TableId:
    table = reader.table(database)
    reader.end()
    return table


def _if_exists(reader: Reader) -> None:
    if reader.keyword("if"):
        reader.expect("exists")


def _dropped(reader: Reader, database: str, what: str) -> OfTables:
    _if_exists(reader)
    tables = {reader.table(database)}
    while reader.sign(","):
        tables.add(reader.table(database))
    reader.keyword("restrict", "cascade")
    reader.end()
    return OfTables(what, frozenset(tables), Effect.EMPTIED)


def _renamed(reader: Reader, database: str, what: str) -> Iterator[OfTables]:
    """A table that has lost its name has no rows; one that has got it has other rows than before."""
    old, new = set[TableId](), set[TableId]()
    while True:
        old.add(reader.table(database))
        reader.expect("to")
        new.add(reader.table(database))
        if not reader.sign(","):
            break
    reader.end()
    yield OfTables(what, frozenset(old - new), Effect.EMPTIED)
    yield OfTables(what, frozenset(new))


# ALTER TABLE


def _altered(reader: Reader, database: str, strict: bool) -> Iterator[UnloggedChange]:
    table = frozenset({reader.table(database)})
    options = list(parts(reader.rest()))
    for option in options:
        yield from _option(Reader(option), table, database, strict)
    renamed = [pair for option in options for pair in renamed_by(Reader(option))]
    respelled = {old.casefold() for old, new in renamed if old.casefold() == new.casefold()}
    taken = {old for old, _ in renamed} | {name for option in options for name in dropped_by(Reader(option))}
    given = {new for _, new in renamed} | {
        added[0].text for option in options for added in added_by(Reader(option)) if added
    }
    if ({name.casefold() for name in taken} & {name.casefold() for name in given}) - respelled:
        yield OfTables("ALTER TABLE that gives a column's name to another", table)


def _option(
    reader: Reader, table: frozenset[TableId], database: str, strict: bool
) -> Iterator[UnloggedChange]:
    words = [word(lexeme) for lexeme in reader.rest() if lexeme != (Kind.SIGN, "=")]
    for setting, engine in pairwise(words):
        if setting == "engine" and engine in _FORGETFUL:
            yield OfTables(f"ALTER TABLE … ENGINE={engine.upper()}", table, Effect.LOST)
    match words[:2]:
        case ["rename", "column" | "index" | "key"]:
            pass
        case ["rename", _]:
            reader.keyword("rename")
            if not reader.keyword("to", "as"):
                reader.sign("=")
            what, new = "ALTER TABLE … RENAME", frozenset({reader.table(database)})
            yield OfTables(what, table - new, Effect.EMPTIED)
            yield OfTables(what, new)
        case ["exchange", "partition"]:
            while not reader.keyword("with"):
                reader.name()
            reader.expect("table")
            yield OfTables("ALTER TABLE … EXCHANGE PARTITION", table | {reader.table(database)})
        case ["truncate" | "drop" as verb, "partition"]:
            yield OfTables(f"ALTER TABLE … {verb.upper()} PARTITION", table)
        case ["discard" | "import" as verb, "partition" | "tablespace" as of]:
            yield OfTables(f"ALTER TABLE … {verb.upper()} {of.upper()}", table)
        case ["modify" | "change" as verb, *_]:
            if not strict or _converts(reader, verb):
                yield OfTables(f"ALTER TABLE … {verb.upper()}", table)
        case ["convert", "to", *_]:
            if not strict:
                yield OfTables("ALTER TABLE … CONVERT TO", table)
        case ["add", _]:
            if any(_fills(definition) for definition in added_by(reader)):
                yield OfTables("ALTER TABLE … ADD COLUMN with a value for the rows that there were", table)
        case _:
            pass


def _converts(option: Reader, verb: str) -> bool:
    """Whether a definition that strict mode let pass may still have changed values, beyond what types show."""
    option.expect(verb)
    option.keyword("column")
    if verb == "change":
        option.name()
    definition = list(option.rest())
    words = _behind_name(definition)
    bare = (Kind.SIGN, "(") not in definition[2:4]
    return (
        not _MAKE_VALUES.isdisjoint(words)
        or not _PADDED.isdisjoint(words[:1])
        or (words[:1] == ["timestamp"] and "null" not in words)
        or (not bare and not _ROUNDED.isdisjoint(words[:1]))
    )


def _fills(definition: Sequence[Lexeme]) -> bool:
    """Whether rows get something else than NULL in a column that's added like that; yes, if in doubt."""
    words = _behind_name(definition)
    pairs = set(zip(words, [*words[1:], ""], strict=True))
    return (
        not _MAKE_VALUES.isdisjoint(words)
        or ("not", "null") in pairs
        or any(before == "default" and after != "null" for before, after in pairs)
        or any(before != "unique" and after == "key" for before, after in pairs)
        or (words[:1] == ["timestamp"] and "null" not in words)  # explicit_defaults_for_timestamp may be OFF
    )


def _behind_name(definition: Sequence[Lexeme]) -> list[str]:
    """The words of a column's definition that are in no parentheses, without its name and its place."""
    words: list[str] = []
    depth = 0
    for lexeme in definition[1:]:
        if lexeme.kind is Kind.SIGN:
            depth += {"(": 1, ")": -1}.get(lexeme.text, 0)
        if depth == 0 and word(lexeme) in ("after", "partition"):
            break
        if depth == 0 and words[-1:] != ["column_format"]:
            words.append(word(lexeme))
    return words
