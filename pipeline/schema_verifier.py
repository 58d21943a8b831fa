"""Columns get their names here, and only proven ones.

With full metadata a table map describes itself. With minimal metadata it gives the columns' types without names or
labels, and the schema has to come from the server's information_schema. What is needed then is a proof that this
schema holds at this place in the stream.

**The proof.** Only a statement changes a table. Let K be a GTID set at which the server's schemas held (`Known`).
A schema holds once every transaction of K has passed, until a statement passes that touches the table: what K holds
had made the schema what it is. While transactions of K are still to come, one of them may be such a statement, and
the schema is `Awaited`. There the checkpoint helps: it has the schema by which the table was last verified. If that
one equals the server's, the statement would have to have an opposite, so the schema is taken to hold; at the first
statement that touches the table it is `Awaited` again. If they differ, it can't be known on which side of the
checkpoint the statement was. A statement that isn't in K proves nothing but that the schema has gone.

Where the proof is missing the table is stopped, with the reason, and its further images are dropped under that name;
nothing is guessed. Which tables a statement touches is decided on the safe side, by the identifiers in it.

Images of one table map have the columns that the map says; a schema that doesn't fit the map proves nothing.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import assert_never

import pyarrow as pa

from pipeline.gtid import Gtid, GtidSet
from pipeline.identifiers import identifiers
from pipeline.labels import NoLabel, enum_texts, set_texts
from pipeline.messages import (
    ChangesVerified,
    CreationRead,
    LogAdvanced,
    LogRead,
    ReadingPaused,
    SchemaChanged,
    SchemaVerified,
    StatementRead,
    TableChanges,
    TableImages,
    TableStopped,
    ToSchemaVerifier,
)
from pipeline.schema import Column, TableId, TableSchema
from pipeline.signals import Tables
from pipeline.tablemap import FullMetadata, MinimalMetadata, TableMap
from pipeline.types import ColumnType, Enum, Set

# Statements that begin with one of these change no table's columns. TRUNCATE empties a table, and that is told.
_HARMLESS = frozenset({"analyze", "check", "flush", "grant", "optimize", "repair", "revoke", "truncate"})

# A statement that means a whole database has one of these in it.
_OF_DATABASES = frozenset({"database", "schema"})


@dataclass(frozen=True, slots=True)
class Unproven:
    """No schema is proven; a map with full metadata brings one."""


@dataclass(frozen=True, slots=True)
class Awaited:
    """The server's schema will hold once all of `Known.at` has passed."""

    schema: TableSchema


@dataclass(frozen=True, slots=True)
class Holding:
    """This schema holds; no table map has been held against it yet."""

    schema: TableSchema


@dataclass(frozen=True, slots=True)
class Verified:
    """This schema holds, and this map fits it."""

    schema: TableSchema
    map: TableMap


@dataclass(frozen=True, slots=True)
class Stopped:
    """The table's changes can't be given any more."""


Capturable = Unproven | Awaited | Holding | Verified
TableState = Capturable | Stopped
FromVerifier = ChangesVerified | SchemaVerified | SchemaChanged | TableStopped | LogAdvanced | ReadingPaused


@dataclass(frozen=True, slots=True)
class Known:
    """The schemas that the server gave, and a GTID set that it had executed while they held.

    Who reads them reads them before the set and behind it, and again until both are equal.
    """

    schemas: Mapping[TableId, TableSchema]
    at: GtidSet


@dataclass(frozen=True, slots=True)
class State:
    """What's known of each table. `to_come`: the transactions of `known.at` that haven't passed."""

    captured: Tables
    known: Known
    to_come: GtidSet
    tables: Mapping[TableId, TableState] = field(default_factory=dict)


def started(
    captured: Tables,
    known: Known,
    position: GtidSet,
    schemas: Mapping[TableId, TableSchema],
    stopped: Iterable[TableId],
) -> State:
    """The state at the checkpoint with this position, its `schemas` and its `stopped` tables."""
    to_come = known.at - position
    tables: dict[TableId, TableState] = dict.fromkeys(schemas, Unproven())
    for table, schema in known.schemas.items():
        proven = not to_come or schemas.get(table) == schema
        tables[table] = Holding(schema) if proven else Awaited(schema)
    ended: dict[TableId, TableState] = dict.fromkeys(stopped, Stopped())
    return State(captured, known, to_come, {**tables, **ended})


def step(state: State, message: ToSchemaVerifier) -> tuple[State, tuple[FromVerifier, ...]]:
    """The state after the message, and what the coordinator is told, in this order."""
    match message:
        case LogRead():
            return _slice_read(state, message)
        case StatementRead(gtid, _, database, statement, end):
            touched = touches(state, database, statement)
            changed = frozenset() if _is_harmless(statement) else touched
            state = _passed(_statement_passed(state, changed, gtid), GtidSet().with_gtid(gtid))
            return state, (SchemaChanged(gtid, touched, statement, end),)
        case CreationRead(database, statement):
            return _created(state, touches(state, database, statement)), ()
        case LogAdvanced() | ReadingPaused():
            return state, (message,)
        case _:
            assert_never(message)


# Statements


def touches(state: State, database: str, statement: str) -> frozenset[TableId]:
    """The captured tables that a statement may be about: those that it names, and those of a database that it's about.

    Names of tables that were met are compared without regard to case, since servers differ in that. A table that
    wasn't met can only be told by the name; so where the patterns match any name in the default database, words that
    name no table are among the result. Text that couldn't be read may name any table.
    """
    named = set(identifiers(statement))
    folded = {identifier.name.casefold() for identifier in named}
    whole = bool(folded & _OF_DATABASES)
    unreadable = "\N{REPLACEMENT CHARACTER}" in statement
    met = {
        table
        for table in state.tables
        if unreadable or table.name.casefold() in folded or (whole and table.database.casefold() in folded)
    }
    unmet = {TableId(identifier.qualifier or database, identifier.name) for identifier in named}
    return frozenset(met | {table for table in unmet if state.captured.match(table)})


def _is_harmless(statement: str) -> bool:
    first = next(identifiers(statement), None)
    return first is not None and first.name.casefold() in _HARMLESS


def _statement_passed(state: State, tables: frozenset[TableId], gtid: Gtid) -> State:
    """A schema that the server gave afterwards is the one to expect; otherwise nothing is known any more."""
    changed: dict[TableId, TableState] = {}
    for table in tables & state.tables.keys():
        schema = state.known.schemas.get(table)
        changed[table] = Awaited(schema) if schema is not None and gtid in state.to_come else Unproven()
    return _with(state, changed)


def _created(state: State, tables: frozenset[TableId]) -> State:
    return _with(state, dict.fromkeys(tables & state.tables.keys(), Unproven()))


def _with(state: State, changed: Mapping[TableId, TableState]) -> State:
    """The state with these tables changed, but for those that are stopped: that's for good."""
    stopped = {table: s for table, s in state.tables.items() if isinstance(s, Stopped)}
    return replace(state, tables={**state.tables, **changed, **stopped})


def _passed(state: State, gtids: GtidSet) -> State:
    """The state after these transactions; once none is to come, the server's schemas hold."""
    if not state.to_come:
        return state
    to_come = state.to_come - gtids
    if to_come:
        return replace(state, to_come=to_come)
    holding = {table: _arrived(s) for table, s in state.tables.items()}
    return replace(state, to_come=to_come, tables=holding)


def _arrived(state: TableState) -> TableState:
    return Holding(state.schema) if isinstance(state, Awaited) else state


# Slices


def _slice_read(state: State, message: LogRead) -> tuple[State, tuple[FromVerifier, ...]]:
    tables = dict(state.tables)
    news: list[SchemaVerified | TableStopped] = []
    changes: list[TableChanges] = []
    for images in message.tables:
        table = images.map.table
        before = tables.get(table, Unproven())
        if isinstance(before, Stopped):
            continue
        judged = _judged(before, images)
        if isinstance(judged, TableStopped):
            tables[table] = Stopped()
            news.append(judged)
            changes = [c for c in changes if c.schema.table != table]
            continue
        tables[table], change = judged
        changes.append(change)
        if not isinstance(before, Verified) or before.schema != change.schema:
            news.append(SchemaVerified(change.schema))
    after = replace(state, tables=tables)
    if after.to_come:
        after = _passed(after, message.transactions.added_to(GtidSet()))
    return after, (*news, ChangesVerified(message.transactions, tuple(changes), message.end))


def _judged(state: Capturable, images: TableImages) -> tuple[Verified, TableChanges] | TableStopped:
    table = images.map.table
    verified = _verified(state, images.map)
    if isinstance(verified, str):
        return TableStopped(table, verified)
    try:
        rows = _labelled(verified.schema, images.rows)
    except NoLabel as error:
        return TableStopped(table, str(error))
    return verified, TableChanges(verified.schema, images.images, rows)


def _verified(state: Capturable, table_map: TableMap) -> Verified | str:
    """The table's state with this map in the stream, or why its schema isn't proven."""
    if isinstance(state, Verified) and state.map == table_map:
        return state
    match table_map.metadata:
        case FullMetadata(names, key):
            columns = zip(names, table_map.types, table_map.nullable, strict=True)
            schema = TableSchema(table_map.table, tuple(Column(*column) for column in columns), key)
            return Verified(schema, table_map)
        case MinimalMetadata():
            return _proven(state, table_map)
        case _:
            assert_never(table_map.metadata)


def _proven(state: Capturable, table_map: TableMap) -> Verified | str:
    match state:
        case Unproven() | Awaited():
            return (
                "the log doesn't name its columns, and no schema is proven to hold here, since a statement may have "
                "changed it; set binlog_row_metadata=FULL on the source"
            )
        case Holding(schema) | Verified(schema):
            difference = _difference(schema, table_map)
            return Verified(schema, table_map) if difference is None else difference
        case _:
            assert_never(state)


def _difference(schema: TableSchema, table_map: TableMap) -> str | None:
    """How the known schema differs from what the log says, as far as it says it; None if it fits."""
    if len(schema.columns) != len(table_map.types):
        return f"the log has {len(table_map.types)} columns, and the server's schema {len(schema.columns)}"
    for column, kind, nullable in zip(schema.columns, table_map.types, table_map.nullable, strict=True):
        if _without_labels(column.type) != _without_labels(kind) or column.nullable != nullable:
            return (
                f"the log has {kind}, nullable={nullable}, where the server's schema has {column}; "
                "set binlog_row_metadata=FULL on the source"
            )
    return None


def _without_labels(kind: ColumnType) -> ColumnType:
    match kind:
        case Enum():
            return Enum(())
        case Set():
            return Set(())
        case _:
            return kind


def _labelled(schema: TableSchema, rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows under the schema's names, ENUM and SET as texts. Raises NoLabel."""
    return pa.record_batch(list(_texts(schema, rows)), schema=schema.arrow)


def _texts(schema: TableSchema, rows: pa.RecordBatch) -> Iterator[pa.Array]:
    for column, values in zip(schema.columns, rows.columns, strict=True):
        match column.type:
            case Enum(labels):
                yield enum_texts(values, labels)
            case Set(labels):
                yield set_texts(values, labels)
            case _:
                yield values
