"""What a statement in the log means for the captured tables: which it may be about, and of which it changes rows.

`met` are the tables that are known here. Their names are compared without regard to case, since servers differ in
that; a table that wasn't met can be told by the patterns alone.
"""

from collections.abc import Collection, Iterator
from typing import assert_never

from pipeline.identifiers import identifiers
from pipeline.lexemes import word
from pipeline.schema import TableId
from pipeline.signals import Tables
from pipeline.unlogged import OfDatabase, OfTables, Unclear, UnloggedChange, readings, unlogged_changes

# Statements that begin with one of these change no table's columns.
_HARMLESS = frozenset({"analyze", "check", "flush", "grant", "optimize", "repair", "revoke", "truncate"})
# With TEMPORARY behind them these mean a session's own tables, which hide others of the same name and have no rows in
# the log. Up to MySQL 5.7 a log has their DROP when the session ends.
_OF_A_SESSION = frozenset({"create", "drop"})

# A statement that means a whole database has one of these in it.
_OF_DATABASES = frozenset({"database", "schema"})


def is_harmless(statement: str) -> bool:
    """Whether it changes no table's columns, by its first words, in whatever way it's read."""
    return all(_is_harmless(*map(word, reading[:2])) for reading in readings(statement))


def _is_harmless(first: str = "", second: str = "") -> bool:
    return first in _HARMLESS or (first in _OF_A_SESSION and second == "temporary")


def touched(captured: Tables, met: Collection[TableId], database: str, statement: str) -> frozenset[TableId]:
    """The captured tables that a statement may be about: those that it names, and those of a database that it's about.

    This errs on the safe side. Where the patterns match any name in the default database, words that name no table
    are among the result. Text that couldn't be read may name any table.
    """
    named = set(identifiers(statement))
    folded = {identifier.name.casefold() for identifier in named}
    whole = bool(folded & _OF_DATABASES)
    unreadable = "\N{REPLACEMENT CHARACTER}" in statement
    among_met = {
        table
        for table in met
        if unreadable or table.name.casefold() in folded or (whole and table.database.casefold() in folded)
    }
    unmet = {TableId(identifier.qualifier or database, identifier.name) for identifier in named}
    return frozenset(among_met | {table for table in unmet if captured.match(table)})


def changed_unlogged(
    captured: Tables, met: Collection[TableId], database: str, statement: str
) -> dict[TableId, str]:
    """The captured tables whose rows a statement changes without telling the log, each with how it does so.

    This is exact as long as the statement can be read. A table that wasn't met has no rows here to be changed, so it
    counts only if it gets some.
    """
    return {
        table: change.what
        for change in unlogged_changes(database, statement)
        for table in _meant(captured, met, database, statement, change)
    }


def _meant(
    captured: Tables, met: Collection[TableId], database: str, statement: str, change: UnloggedChange
) -> Iterator[TableId]:
    match change:
        case OfTables(_, tables, filled):
            for table in tables | filled:
                known = [table] if table in met else [t for t in met if _folded(t) == _folded(table)]
                yield from known
                if not known and table in filled and captured.match(table):
                    yield table
        case OfDatabase(_, name):
            yield from (table for table in met if table.database.casefold() == name.casefold())
        case Unclear():
            yield from touched(captured, met, database, statement) & frozenset(met)
        case _:
            assert_never(change)


def _folded(table: TableId) -> TableId:
    return TableId(table.database.casefold(), table.name.casefold())
