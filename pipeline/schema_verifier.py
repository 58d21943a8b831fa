"""Columns get their names here, and only proven ones.

With full metadata a table map describes itself. With minimal metadata it gives the columns' types without names or
labels, and without any (before MySQL 8.0.1) not even the types wholly; then the schema has to come from the server's
information_schema (`pipeline.completion`). What is needed is a proof that this schema holds at this place in the
stream.

**The proof.** Only a statement changes a table. Let K be a GTID set at which the server's schemas held (`Known`).
A schema holds once every transaction of K has passed, until a statement passes that touches the table: what K holds
had made the schema what it is. While transactions of K are still to come, one of them may be such a statement, and
the schema is `Awaited`. There the checkpoint helps: it has the schema by which the table was last verified. If that
one equals the server's, the statement would have to have an opposite, so the schema is taken to hold; at the first
statement that touches the table it is `Awaited` again. If they differ, it can't be known on which side of the
checkpoint the statement was. A statement that isn't in K proves nothing but that the schema has gone.

Where the proof is missing the table is stopped, with the reason, and its further images are dropped under that name;
nothing is guessed. Which tables a statement touches is decided on the safe side (`pipeline.ddl`).

**Rows that change without an event.** A statement that does so (`pipeline.unlogged`) stops the tables that it means.
That's told before the statement's own passing, since a checkpoint between the two must not have the statement behind
it and the table still going on.

**Tables that the checkpoint doesn't know** are told as soon as their schema is proven: those of the server's schemas
at the start, or once nothing is to come, and any other with its first map. So a table that is created while the log
is being read, and that stays empty, can be asked for from the next start on. A table that the checkpoint knows and
that isn't captured any more is stopped, since it would have a gap if it were captured again.

Images of one table map have the columns that the map says; a schema that doesn't fit the map proves nothing.

**What stops a table in mid-stream.** Rows that the reader couldn't decode, a value without a label, a column of the
key that the log leaves out: none of the table's images of that slice or part is passed on. Of a transaction that
comes in parts, earlier parts may have been; the coordinator sees to it that they don't come to anything.

**Absent columns** are bits where the log is read, since only names last: the table may be altered later. A row image
without all columns is told from the others by the names of those that it lacks.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import assert_never

import pyarrow as pa

from pipeline import ddl
from pipeline.completion import completed, difference, self_described
from pipeline.errors import Definite
from pipeline.gtid import Gtid, GtidSet
from pipeline.images import CHANGE_FIELDS
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
    TableUnreadable,
    ToSchemaVerifier,
    TransactionPartRead,
    TransactionPartVerified,
)
from pipeline.schema import TableId, TableSchema
from pipeline.signals import Tables
from pipeline.tablemap import FullMetadata, MinimalMetadata, NoMetadata, TableMap

_UNLOGGED = (
    "{what} ({gtid}) changed its rows, and the log doesn't tell which; it stays stopped in this journal: to have it "
    "again, capture it with a journal and a lake of its own, and snapshot it there"
)
_LEFT_OUT = (
    "the configuration doesn't capture it any more, so that its changes are missing from here on; it stays stopped in "
    "this journal: to have it again, capture it with a journal and a lake of its own, and snapshot it there"
)
_REMEDY = (
    "set binlog_row_metadata=FULL on the source; before MySQL 8.0.1, alter captured tables while capture is stopped "
    "and has caught up"
)
_KEY_ABSENT = (
    "the log has rows of it without {columns} of its primary key, so that they can't be told apart; set "
    "binlog_row_image=FULL on the source"
)


class KeyAbsent(Definite):
    """The log leaves out a column of the primary key."""


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
News = SchemaVerified | TableStopped
FromVerifier = (
    ChangesVerified
    | TransactionPartVerified
    | SchemaVerified
    | SchemaChanged
    | TableStopped
    | LogAdvanced
    | ReadingPaused
)


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
) -> tuple[State, tuple[News, ...]]:
    """The state at the checkpoint with this position, its `schemas` and its `stopped` tables, and what's new there."""
    to_come = known.at - position
    tables: dict[TableId, TableState] = dict.fromkeys(schemas, Unproven())
    for table, schema in known.schemas.items():
        proven = not to_come or schemas.get(table) == schema
        tables[table] = Holding(schema) if proven else Awaited(schema)
    ended: dict[TableId, TableState] = dict.fromkeys(stopped, Stopped())
    left = [table for table in schemas if table not in ended and not captured.match(table)]
    tables |= ended | dict.fromkeys(left, Stopped())
    unheard = [s.schema for t, s in tables.items() if isinstance(s, Holding) and t not in schemas]
    news: list[News] = [TableStopped(table, _LEFT_OUT) for table in left]
    news += [SchemaVerified(schema) for schema in unheard]
    return State(captured, known, to_come, tables), tuple(news)


def step(state: State, message: ToSchemaVerifier) -> tuple[State, tuple[FromVerifier, ...]]:
    """The state after the message, and what the coordinator is told, in this order."""
    match message:
        case LogRead():
            return _slice_read(state, message)
        case TransactionPartRead(gtid, commit_time, tables):
            state, news, changes = _tables_read(state, tables)
            return state, (*news, TransactionPartVerified(gtid, commit_time, changes))
        case StatementRead():
            return _statement_read(state, message)
        case CreationRead(database, statement):
            return _created(state, ddl.touched(state.captured, state.tables, database, statement)), ()
        case LogAdvanced() | ReadingPaused():
            return state, (message,)
        case _:
            assert_never(message)


# Statements


def _statement_read(state: State, message: StatementRead) -> tuple[State, tuple[FromVerifier, ...]]:
    gtid, statement = message.gtid, message.statement
    touched = ddl.touched(state.captured, state.tables, message.database, statement)
    unlogged = ddl.changed_unlogged(state.captured, state.tables, message.database, statement)
    stops = tuple(
        TableStopped(table, _UNLOGGED.format(what=what, gtid=gtid))
        for table, what in sorted(unlogged.items())
        if not isinstance(state.tables.get(table), Stopped)
    )
    state = _with(state, {stop.table: Stopped() for stop in stops})
    changed = frozenset[TableId]() if ddl.is_harmless(statement) else touched
    state = _statement_passed(state, changed, gtid)
    state, arrived = _passed(state, GtidSet().with_gtid(gtid))
    return state, (*stops, SchemaChanged(gtid, touched, statement, message.end), *arrived)


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


def _passed(state: State, gtids: GtidSet) -> tuple[State, tuple[SchemaVerified, ...]]:
    """The state after these transactions; once none is to come, the server's schemas hold, and that's new."""
    to_come = state.to_come - gtids
    if to_come or not state.to_come:
        return replace(state, to_come=to_come), ()
    arrived = {t: Holding(s.schema) for t, s in state.tables.items() if isinstance(s, Awaited)}
    news = tuple(SchemaVerified(holding.schema) for holding in arrived.values())
    return replace(state, to_come=to_come, tables={**state.tables, **arrived}), news


# Slices, and parts of a transaction


def _slice_read(state: State, message: LogRead) -> tuple[State, tuple[FromVerifier, ...]]:
    after, news, changes = _tables_read(state, message.tables)
    verified = ChangesVerified(message.transactions, changes, message.end)
    if not after.to_come:
        return after, (*news, verified)
    after, arrived = _passed(after, message.transactions.added_to(GtidSet()))
    return after, (*news, verified, *arrived)


def _tables_read(
    state: State, read: Iterable[TableImages | TableUnreadable]
) -> tuple[State, tuple[News, ...], tuple[TableChanges, ...]]:
    """The state after these images, what's new of their tables, and the changes of those that aren't stopped."""
    tables = dict(state.tables)
    news: list[News] = []
    changes: list[TableChanges] = []
    for images in read:
        table = images.table if isinstance(images, TableUnreadable) else images.map.table
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
    return replace(state, tables=tables), tuple(news), tuple(changes)


def _judged(
    state: Capturable, images: TableImages | TableUnreadable
) -> tuple[Verified, TableChanges] | TableStopped:
    if isinstance(images, TableUnreadable):
        return TableStopped(images.table, images.reason)
    table = images.map.table
    verified = _verified(state, images.map)
    if isinstance(verified, str):
        return TableStopped(table, verified)
    try:
        fields = _with_names(verified.schema, images.images)
        rows = completed(verified.schema, images.map, images.rows)
    except Definite as error:
        return TableStopped(table, str(error))
    return verified, TableChanges(verified.schema, fields, rows)


def _verified(state: Capturable, table_map: TableMap) -> Verified | str:
    """The table's state with this map in the stream, or why its schema isn't proven."""
    if isinstance(state, Verified) and state.map == table_map:
        return state
    match table_map.metadata:
        case FullMetadata() as metadata:
            return Verified(self_described(table_map, metadata), table_map)
        case MinimalMetadata() | NoMetadata():
            return _proven(state, table_map)
        case _:
            assert_never(table_map.metadata)


def _proven(state: Capturable, table_map: TableMap) -> Verified | str:
    match state:
        case Unproven() | Awaited():
            return (
                "the log doesn't name its columns, and no schema is proven to hold here, since a statement may have "
                f"changed it; {_REMEDY}"
            )
        case Holding(schema) | Verified(schema):
            differs = difference(schema, table_map)
            return Verified(schema, table_map) if differs is None else f"{differs}; {_REMEDY}"
        case _:
            assert_never(state)


def _with_names(schema: TableSchema, images: pa.RecordBatch) -> pa.RecordBatch:
    """IMAGE_FIELDS as CHANGE_FIELDS. Raises KeyAbsent."""
    *fields, bitmaps = images.columns
    return pa.record_batch([*fields, _absent(schema, bitmaps)], schema=CHANGE_FIELDS)


def _absent(schema: TableSchema, bitmaps: pa.Array) -> pa.Array:
    """Of each row image the names of the absent columns, null where there are none. Raises KeyAbsent."""
    kind = CHANGE_FIELDS.field("absent").type
    if bitmaps.null_count == len(bitmaps):
        return pa.nulls(len(bitmaps), kind)
    encoded = bitmaps.dictionary_encode()
    bits = [int.from_bytes(bitmap, "little") for bitmap in encoded.dictionary.to_pylist()]
    if lacking := [schema.columns[i].name for i in schema.key if any(each >> i & 1 for each in bits)]:
        raise KeyAbsent(_KEY_ABSENT.format(columns=" and ".join(lacking)))
    names = [[column.name for i, column in enumerate(schema.columns) if each >> i & 1] for each in bits]
    return pa.array(names, kind).take(encoded.indices)
