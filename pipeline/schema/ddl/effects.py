"""The effects of a statement in the log on the captured tables: whose columns it may change, and whose rows.

`known` are the tables that have ever been in the stream, also those that are gone: a mirror's rows are of one of them.
Where it isn't certain that a name means a table (`pipeline.schema.ddl.statement_scope`), that table's rows may have
changed, and nothing more is concluded.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import assert_never

from pipeline.schema.ddl.statement_kinds import (
    AltersTable,
    CreatesTable,
    DefinesIndex,
    DropsDatabase,
    DropsTables,
    LoggedStatement,
    RebuildsTables,
    RenamesTables,
    ReplacesSpatialReference,
    UnparsedStatement,
)
from pipeline.schema.ddl.statement_scope import StatementScope, identifiers, touched_tables
from pipeline.schema.ddl.unlogged_changes import (
    NONE_EXACT,
    Effect,
    OfDatabase,
    OfTables,
    Unclear,
    UnloggedChange,
    changes_of,
    unlogged_changes,
)
from pipeline.schema.table_schema import TableId
from pipeline.schema.table_traits import Traits


def may_alter(names: StatementScope, statement: LoggedStatement) -> frozenset[TableId]:
    """The captured tables whose columns or key a statement may change, or that it creates.

    A table that's only referred to (LIKE, REFERENCES, a view or a trigger) isn't one of them. One that a MERGE table
    may get into its UNION is: its rows change through that one, and only the server knows.
    """
    found = set(may_merge(names, statement))
    for way in statement.ways:
        match way:
            case CreatesTable(table) | DefinesIndex(table):
                named = {table}
            case DropsTables(tables):
                named = set(tables)
            case RenamesTables(pairs):
                named = {table for pair in pairs for table in pair}
            case AltersTable(table):
                changes = changes_of(way)
                if any(isinstance(change, Unclear) for change in changes):
                    found |= touched_tables(names, statement)
                others = (change.tables for change in changes if isinstance(change, OfTables))
                named = {table}.union(*others)
            case DropsDatabase(name):
                found |= names.of_database(name)
                continue
            case UnparsedStatement():
                found |= touched_tables(names, statement)
                continue
            case _:
                continue
        for each in named:
            found |= names.meant_or_new(each)
    return frozenset(found)


def may_merge(names: StatementScope, statement: LoggedStatement) -> frozenset[TableId]:
    """The known tables that a statement may put into the UNION of a MERGE table."""
    of_table = any(isinstance(way, CreatesTable | AltersTable) for way in statement.ways)
    if of_table and any(each.name.casefold() == "union" for each in identifiers(statement.text)):
        return touched_tables(names, statement) & frozenset(names.known)
    return frozenset()


def may_create(names: StatementScope, statement: LoggedStatement) -> frozenset[TableId]:
    """The known tables that a statement may create, with any engine; with IF NOT EXISTS they may have been there."""
    created = (way.table for way in statement.ways if isinstance(way, CreatesTable))
    return frozenset(known for table in created for known in names.meant(table))


def copied_tables(names: StatementScope, statement: LoggedStatement) -> frozenset[TableId]:
    """The known tables that a statement may copy value by value, as ALGORITHM=COPY does."""
    copied: set[TableId] = set()
    for way in statement.ways:
        match way:
            case AltersTable(table) | DefinesIndex(table) if way.copies:
                copied |= names.meant(table)
            case RebuildsTables(tables):
                copied = copied.union(*map(names.meant, tables))
            case _:
                pass
    return frozenset(copied)


def regenerated_tables(names: StatementScope, statement: LoggedStatement) -> dict[TableId, str]:
    """The known tables in which a statement may change generated columns that follow from none, and what it is.

    A generated column may be DEFAULT(column). It has the new default at once, in all rows, also if it is STORED. Or it
    may use a spatial reference system. Which one it uses isn't known.
    """
    found: dict[TableId, str] = {}
    for way in statement.ways:
        match way:
            case AltersTable(table) if way.sets_default:
                found |= dict.fromkeys(names.meant(table), "ALTER COLUMN … DEFAULT")
            case ReplacesSpatialReference():
                found |= dict.fromkeys(names.known, "another spatial reference system")
            case _:
                pass
    return found


@dataclass(frozen=True, slots=True)
class Unlogged:
    """The effect of a statement on a table's rows that the log doesn't have, and its description for people."""

    what: str
    effect: Effect


def changed_unlogged(
    names: StatementScope,
    statement: LoggedStatement,
    exact: Mapping[TableId, Traits] = NONE_EXACT,
    *,
    failed: bool = False,
) -> dict[TableId, Unlogged]:
    """Returns the known tables whose rows a statement may change without logging it; `exact`: see `unlogged_changes`.

    An unknown table has no rows in Tidemark that could change. If the statement can be read in two ways, only what both
    say is certain. Otherwise the rows count as changed. They also do if the statement `failed`, since it may have ended
    before it reached the table. A creation that isn't certain changes nothing: if the table was there, it's as it was.
    """
    read = unlogged_changes(statement, exact)
    ways = [_effects(names, statement, way) for way in read]
    found: dict[TableId, Unlogged] = {}
    for table, unlogged in (item for way in ways for item in way.items()):
        effects = {way[table].effect if table in way else None for way in ways}
        certain = len(effects) == 1 and not failed
        if certain or unlogged.effect is not Effect.CREATED:
            found[table] = unlogged if certain else Unlogged(unlogged.what, Effect.CHANGED)
    return found


def _effects(
    names: StatementScope, statement: LoggedStatement, changes: frozenset[UnloggedChange]
) -> dict[TableId, Unlogged]:
    """By table; where several things happen to one, its rows are others."""
    found: dict[TableId, Unlogged] = {}
    for change in changes:
        for table, effect in _meant(names, statement, change):
            effects = {effect, found[table].effect if table in found else effect}
            found[table] = Unlogged(change.what, effect if len(effects) == 1 else Effect.CHANGED)
    return found


def _meant(
    names: StatementScope, statement: LoggedStatement, change: UnloggedChange
) -> Iterator[tuple[TableId, Effect]]:
    match change:
        case OfTables(_, tables, Effect.STORED_AGAIN):
            for table in tables:
                yield from (
                    (each, Effect.CHANGED) for each in names.meant(table) & set(names.unknown_engines)
                )
        case OfTables(_, tables, effect):
            for table in tables:
                sure = names.surely_meant(table)
                for each in names.meant(table):
                    yield each, effect if each == sure else Effect.CHANGED
        case OfDatabase(_, name):
            for each in names.of_database(name):
                yield each, Effect.EMPTIED if names.is_database(each.database, name) else Effect.CHANGED
        case Unclear():
            named = touched_tables(names, statement) & frozenset(names.known)
            yield from ((each, Effect.CHANGED) for each in named)
        case _:
            assert_never(change)
