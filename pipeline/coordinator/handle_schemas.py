"""Handles statements and schemas, and tables whose mirrors have to begin again because of them."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from pipeline.config.settings import SnapshotMode
from pipeline.coordinator.reselect import recast_keys
from pipeline.coordinator.resume import begin_snapshot
from pipeline.coordinator.snapshots.table_snapshots import end_table, stop_table, with_snapshot
from pipeline.coordinator.state import (
    SchemaDiffers,
    State,
    begun_scn,
    drop_windows,
    forget_unknown_rows,
    require_between_transactions,
    with_checkpoint,
    with_mirror,
    with_table,
)
from pipeline.errors import InvariantBroken
from pipeline.gtid.transactions import Transactions
from pipeline.gtid.witness import Witness, with_witnesses
from pipeline.messages.changes import (
    ChangesVerified,
    CreationStatements,
    MirrorInvalidated,
    SchemaChanged,
    SchemasVerified,
    TransactionPartVerified,
)
from pipeline.messages.journal import ChangePart, MirrorDataExpired, StatementPart
from pipeline.messages.row_images import IMAGE_FIELDS, ImageKind, TableChanges
from pipeline.schema.ddl.alter_table import Alteration, Altered
from pipeline.schema.table_schema import TableId, TableSchema
from pipeline.snapshot.checkpoint import (
    Checkpoint,
    Filling,
    Ready,
    awaits_snapshot,
    stays_incomplete,
    unused_id,
)
from pipeline.snapshot.snapshot import Completed, Snapshot, SnapshotStopped, SnapshotWaiting, progress
from pipeline.snapshot.turns import snapshot_of

_EXTENDED = "a column was added with a value for rows that had been read before"
_NO_SUM = (
    "{reason}; without a primary key it can't be read again by itself, and its changes don't add up to its rows; give "
    "it one, or have a blocking snapshot read its rows afterwards"
)
_ALTERED = "a statement has altered it, or created it again, since a snapshot of it failed"
_GONE = "the lake needs all of its rows again: it lacks some, or lake.types has changed"


def schema_changed(state: State, message: SchemaChanged) -> State:
    """Handles a statement: drops windows and plans of tables that it may have changed, and begins some of them
    again."""
    require_between_transactions(state, f"the statement {message.gtid}")
    checkpoint = state.checkpoint
    if message.gtid in checkpoint.position:
        raise InvariantBroken(
            f"the statement {message.gtid} had passed before: it is in the position {checkpoint.position}"
        )
    witness = Witness(message.gtid, message.commit_time, message.original_time)
    unexplained = {table: n for table, n in state.contradictions.items() if table not in message.tables}
    passed = with_checkpoint(
        replace(state, stream=message.end, contradictions=unexplained),
        position=checkpoint.position.with_gtid(message.gtid) | message.covered,
        scn=checkpoint.scn + 1,
        witnesses=with_witnesses(checkpoint.witnesses, (witness,)),
        log_end=message.end,
        unproven=checkpoint.unproven | (message.tables & checkpoint.schemas.keys()),
        schemas=checkpoint.schemas | {each.schema.table: each.schema for each in message.alterations},
    )
    state = invalidate_mirrors(drop_windows(passed, message.tables), message.restarted)
    return invalidate_mirrors(state, tuple(_invalidate_unextended(state, message.alterations)))


def _invalidate_unextended(state: State, alterations: tuple[Alteration, ...]) -> Iterator[MirrorInvalidated]:
    """Returns the tables that get columns with constants in the rows that there were while chunks fill their mirrors.

    Nothing distinguishes the chunks that were read before the statement from later ones, which have the columns. A
    table without a key has no mirror that could get them.
    """
    for alteration in alterations:
        table, checkpoint = alteration.schema.table, state.checkpoint
        mirror = checkpoint.mirrors.get(table)
        filled = isinstance(mirror, Filling) and mirror.since < checkpoint.scn
        if alteration.changes.added and (filled or table in checkpoint.scanned):
            yield MirrorInvalidated(table, _EXTENDED)


def emptying_changes(state: State, message: SchemaChanged) -> tuple[ChangePart, ...]:
    """Returns the changes that say that the statement took all rows of its tables.

    Its SCN is that of the mirror's new generation. Nothing up to that SCN counts for it.
    """
    transactions = single_transaction(message)
    images = _emptied_image(message)
    schemas = (alteration.schema for alteration in message.alterations if alteration.emptied)
    changes = (
        TableChanges.unshared(schema, images, pa.RecordBatch.from_pylist([{}], schema.arrow))
        for schema in schemas
    )
    return tuple(ChangePart(each, transactions, state.checkpoint.scn) for each in changes)


def statement_parts(scn: int, message: object) -> tuple[StatementPart, ...]:
    """Returns what the journal keeps of a statement on the schema, also of one that a slice begins with.

    It has the first SCN that the message takes.
    """
    match message:
        case SchemaChanged(begins=begins, server=server, kept=kept) if kept:
            transactions = single_transaction(message)
        case ChangesVerified(transactions=transactions, creation=CreationStatements(kept, begins, server)):
            pass
        case _:
            return ()
    gtid = transactions.gtid_texts()[0].as_py()
    committed = int(transactions.original_time[0]) or int(transactions.commit_time[0])
    return tuple(StatementPart(scn, gtid, committed, begins, server, each) for each in kept)


def journaled_alterations(scn: int, after: Checkpoint, message: object) -> tuple[Altered, ...]:
    """Returns what the journal keeps of a message's effects on tables; `scn`: the last one before the message.

    A table that a statement emptied may get a schema that its mirror's generation can't have, so that the next one
    begins. The table is still empty then. Without this, readers of the journal would have to take that for a generation
    that was read again, whose rows may have changed in any way.
    """
    match message:
        case SchemaChanged(alterations=alterations):
            return tuple(Altered(scn + 1, alteration) for alteration in alterations)
        case SchemasVerified(schemas, restarted):
            emptied = {each.table for each in restarted if each.emptied}
            emptied = {table for table in emptied if after.mirrors.get(table) == Ready(scn)}
            still_empty = (each for each in schemas if each.table in emptied)
            return tuple(Altered(scn, Alteration(each, "CREATE TABLE", emptied=True)) for each in still_empty)
        case _:
            return ()


def _emptied_image(message: SchemaChanged) -> pa.RecordBatch:
    """Returns the image that stands for all rows of an emptied table."""
    at = message.begins
    source = at and {"file": at.file, "pos": at.offset, "row": 0, "server_id": message.server}
    image = {"kind": int(ImageKind.EMPTIED), "transaction": 0, "ordinal": 0, "source": source}
    return pa.RecordBatch.from_pylist([image], IMAGE_FIELDS)


def single_transaction(message: TransactionPartVerified | SchemaChanged) -> Transactions:
    """Returns the one transaction that the message is about."""
    transactions = Transactions.of([(message.gtid, message.commit_time)])
    return replace(transactions, original_time=np.array([message.original_time], np.int64))


def invalidate_mirrors(state: State, tables: tuple[MirrorInvalidated, ...]) -> State:
    """Begins a new generation of each of these tables' mirrors here."""
    for each in tables:
        state = mirror_invalidated(state, each)
    return state


def schemas_verified(state: State, message: SchemasVerified) -> State:
    """Handles verified schemas, which hold from here on. Chunks that were ordered under others aren't emitted.

    The checkpoint always gets both: a schema and the generation that the mirror begins for it. A statement may have
    removed the cause for which a snapshot failed: the table was gone, for example, and is there again. So a mirror that
    lacks rows since then begins again.

    What doesn't concern a table by itself is done once: there may be thousands of schemas.
    """
    keyed = {schema.table for schema in message.schemas if schema.key}
    state = with_checkpoint(state, scanned=state.checkpoint.scanned - keyed)
    state = invalidate_mirrors(state, message.restarted)
    state = drop_windows(state, _outdated_plans(state, message.schemas))
    unproven = state.checkpoint.unproven
    verified = {schema.table: schema for schema in message.schemas}
    state = with_checkpoint(
        state, schemas={**state.checkpoint.schemas, **verified}, unproven=unproven - verified.keys()
    )
    for schema in message.schemas:
        state = recast_keys(state, schema)
    for table in sorted(keyed & unproven):
        if _lacks_failed_rows(state.checkpoint, table):
            state = mirror_invalidated(state, MirrorInvalidated(table, _ALTERED))
    return replace(state, checkpoint=begin_snapshot(state.checkpoint, state.snapshot_mode))


def _outdated_plans(state: State, schemas: tuple[TableSchema, ...]) -> frozenset[TableId]:
    """Returns those of these tables whose chunks and plans are of another schema, or show another one."""
    now = state.checkpoint.schemas
    return frozenset(
        each.table
        for each in schemas
        if now.get(each.table) != each or isinstance(state.plans.get(each.table), SchemaDiffers)
    )


def _lacks_failed_rows(checkpoint: Checkpoint, table: TableId) -> bool:
    """Returns whether the table's mirror lacks rows because a snapshot failed, and no signal has stopped one since.

    A creation that is certain (`Effect.CREATED`) doesn't need this: it also ends a snapshot that has not failed yet. An
    uncertain one (IF NOT EXISTS) and an ALTER TABLE need it.
    """
    reads = [snapshot for snapshot in checkpoint.snapshots if snapshot.verification is None]
    last = [snapshot.tables[table] for snapshot in reads if table in snapshot.tables][-1:]
    stopped = any(isinstance(state, SnapshotStopped) for state in last)
    return stays_incomplete(checkpoint, table) and not stopped


def mirror_invalidated(state: State, message: MirrorInvalidated) -> State:
    """Begins a new generation of the table's mirror here, because the mirror's rows are no longer right.

    Of a transaction that comes in parts either all counts or nothing. An emptied table has had no row in it until now.
    Without a key the new generation is never complete, even if it is empty now: no later change could be merged. A
    table whose changes added up to its rows stops, unless it is empty now. A table that has stopped stays as it was:
    the verifier need not know that it has, and its changes would be missing from another generation.
    """
    table, scn = message.table, state.checkpoint.scn
    if table in state.checkpoint.stopped:
        return state
    schema = state.checkpoint.schemas.get(table)
    emptied = message.emptied and (schema is None or bool(schema.key))
    mirror = state.checkpoint.mirrors.get(table)
    if message.gap and mirror is None and not _gets_mirror(state, table):
        return stop_table(state, table, message.reason)
    if not message.emptied and table in state.checkpoint.scanned:
        return stop_table(state, table, _NO_SUM.format(reason=message.reason))
    state = forget_unknown_rows(drop_windows(state, {table}), table)
    while emptied and (snapshot := snapshot_of(state.checkpoint, table)):
        state = end_table(state, snapshot, table, Completed(progress(snapshot.tables[table])))
    if emptied:
        return state if mirror is None else with_mirror(state, table, Ready(scn))
    if (snapshot := snapshot_of(state.checkpoint, table)) is not None:
        state = with_table(state, snapshot, table, SnapshotWaiting())
    if mirror is None:
        return state
    state = with_mirror(state, table, Filling(begun_scn(state)))
    if awaits_snapshot(state.checkpoint, table):
        return state
    name = unused_id(state.checkpoint, f"restart-{scn}-{table}")
    return with_snapshot(state, Snapshot(name, {table: SnapshotWaiting()}))


def _gets_mirror(state: State, table: TableId) -> bool:
    """Returns whether a table without a mirror gets one, and is read, once its schema is verified."""
    schema = state.checkpoint.schemas.get(table)
    return state.snapshot_mode is not SnapshotMode.NO_DATA and (schema is None or bool(schema.key))


def mirror_data_expired(state: State, message: MirrorDataExpired) -> State:
    """Begins generations again whose rows a consumer lacks, unless they have begun again since."""
    mirrors = state.checkpoint.mirrors
    meant = [
        table
        for table, since in sorted(message.generations.items())
        if table in mirrors and mirrors[table].since == since
    ]
    return invalidate_mirrors(state, tuple(MirrorInvalidated(table, _GONE) for table in meant))
