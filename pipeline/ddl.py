"""What a statement in the log means for the captured tables: which it may be about, and of which it changes rows.

`met` are the tables that are known here. Their names are compared without regard to case, since servers differ in
that; a table that wasn't met can be told by the patterns alone.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import assert_never

from pipeline.alterations import Alteration, altered, column_changes
from pipeline.identifiers import identifiers
from pipeline.lexemes import readings, word
from pipeline.schema import TableId, TableSchema
from pipeline.table_patterns import Tables
from pipeline.unlogged import (
    Effect,
    OfDatabase,
    OfTables,
    Unclear,
    UnloggedChange,
    unlogged_changes,
)

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


@dataclass(frozen=True, slots=True)
class Unlogged:
    """What a statement makes of a table's rows without telling the log, and how it's told to people."""

    what: str
    effect: Effect


def changed_unlogged(
    captured: Tables, met: Collection[TableId], database: str, statement: str, *, strict: bool = False
) -> dict[TableId, Unlogged]:
    """The captured tables whose rows a statement changes without telling the log; `strict`: see `StatementRead`.

    This is exact as long as the statement can be read. A table that wasn't met has no rows here to be changed. Where
    the statement can be read in two ways, only what it is in each of them is sure, and else the rows are others.
    """
    read = unlogged_changes(database, statement, strict=strict)
    ways = [_effects(captured, met, database, statement, way) for way in read]
    found: dict[TableId, Unlogged] = {}
    for table, unlogged in (item for way in ways for item in way.items()):
        effects = {way[table].effect if table in way else None for way in ways}
        sure = len(effects) == 1 or unlogged.effect is Effect.LOST
        if table not in found or found[table].effect is not Effect.LOST:
            found[table] = unlogged if sure else Unlogged(unlogged.what, Effect.CHANGED)
    return found


def _effects(
    captured: Tables,
    met: Collection[TableId],
    database: str,
    statement: str,
    changes: frozenset[UnloggedChange],
) -> dict[TableId, Unlogged]:
    """By table; where several things happen to one, its rows are others, unless they're lost."""
    found: dict[TableId, Unlogged] = {}
    for change in changes:
        for table, effect in _meant(captured, met, database, statement, change):
            effects = {effect, found[table].effect if table in found else effect}
            several = Effect.LOST if Effect.LOST in effects else Effect.CHANGED
            found[table] = Unlogged(change.what, effect if len(effects) == 1 else several)
    return found


def _meant(
    captured: Tables, met: Collection[TableId], database: str, statement: str, change: UnloggedChange
) -> Iterator[tuple[TableId, Effect]]:
    match change:
        case OfTables(_, tables, effect):
            for table in tables:
                known = [table] if table in met else [t for t in met if _folded(t) == _folded(table)]
                yield from ((each, effect) for each in known)
        case OfDatabase(_, name):
            yield from ((t, Effect.EMPTIED) for t in met if t.database.casefold() == name.casefold())
        case Unclear():
            named = touched(captured, met, database, statement) & frozenset(met)
            yield from ((t, Effect.CHANGED) for t in named)
        case _:
            assert_never(change)


def alterations(
    known: Mapping[TableId, TableSchema], database: str, statement: str, emptied: Mapping[TableId, str]
) -> tuple[Alteration, ...]:
    """What a statement does to tables of these schemas: to their columns, and to those that it's known to empty."""
    found = {
        table: Alteration(known[table], what, emptied=True)
        for table, what in emptied.items()
        if table in known
    }
    for table, changes in (told,) if (told := column_changes(database, statement)) else ():
        of = table if table in known else next((t for t in known if _folded(t) == _folded(table)), table)
        if of in known and (alteration := altered(known[of], changes, "ALTER TABLE")):
            found[of] = replace(alteration, emptied=of in found)
    return tuple(found[table] for table in sorted(found))


def _folded(table: TableId) -> TableId:
    return TableId(table.database.casefold(), table.name.casefold())
