"""Handles messages of the log: the position advances, keys touch the open windows, statements and signals take effect.

Rows of the signal table (`ChangesVerified.signals`) take effect with their transactions, and in the segment with these:
once, however often the log is read again. Of the watermarks among them only the one after a SELECT counts. The writer
of the one before has waited for its commit (`pipeline.snapshot.watermark`).

**What a window keeps while its chunk is being read** is bounded. It keeps the keys of all passing transactions, because
it doesn't know yet which of them are in the low watermark. If the keys take more than a chunk may, the coordinator
drops the window and orders the chunk again with half its rows. The answer to the first order finds no window. No writer
can prolong that endlessly. As long as no chunk of the table comes, its orders only shrink. At most as many orders are
out at once as there are connections, and each halves the next ones at most once. An order for a single row is never
dropped. So the number of useless orders is at most the connections times the halvings of a chunk's rows.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from pipeline.config.settings import SnapshotMode
from pipeline.coordinator import reselect
from pipeline.coordinator import window as windows
from pipeline.coordinator.chunk_size import halve
from pipeline.coordinator.handle_signals import signal_row_received
from pipeline.coordinator.partial_rows import ImageMasks, PartialRows, classify_images, has_partial_images
from pipeline.coordinator.reselect_keys import key_rows
from pipeline.coordinator.resume import begin_snapshot
from pipeline.coordinator.state import (
    BetweenTransactions,
    InTransaction,
    SchemaDiffers,
    State,
    awaits_snapshot,
    drop_windows,
    end_table,
    forget_unknown_rows,
    size_of,
    snapshot_of,
    stays_incomplete,
    stop_table,
    window_table,
    with_checkpoint,
    with_mirror,
    with_size,
    with_snapshot,
    with_table,
)
from pipeline.coordinator.window import PassedKeys, Reading, Window
from pipeline.errors import InvariantBroken
from pipeline.gtid.transactions import Transactions
from pipeline.gtid.witness import Witness, add_transactions, with_witnesses
from pipeline.messages.binlog import LogAdvanced
from pipeline.messages.changes import (
    ChangesVerified,
    CreationStatements,
    MirrorInvalidated,
    SchemaChanged,
    SchemaVerified,
    TransactionPartVerified,
)
from pipeline.messages.chunks import ReadChunk
from pipeline.messages.journal import ChangePart, MirrorDataExpired, StatementPart
from pipeline.messages.row_images import CHANGE_FIELDS, ImageKind, TableChanges
from pipeline.messages.signals import SignalOutcome
from pipeline.schema.ddl.alter_table import Alteration
from pipeline.schema.row_keys import ambiguous_keys, tokens
from pipeline.schema.table_schema import TableId
from pipeline.signals.signal import SourceSignal
from pipeline.snapshot.checkpoint import Checkpoint, Filling, Ready
from pipeline.snapshot.snapshot import Completed, Snapshot, SnapshotStopped, SnapshotWaiting, progress
from pipeline.snapshot.watermark import CLOSE_MARKER, OPEN_MARKER

_EXTENDED = "a column was added with a value for rows that had been read before"
_ALTERED = "a statement has altered it, or created it again, since a snapshot of it failed"
_GONE = "the lake needs all of its rows again: it lacks some, or lake.types has changed"

# Transactions


def changes_verified(state: State, message: ChangesVerified) -> tuple[State, tuple[ChangePart, ...]]:
    """Handles a slice of complete transactions."""
    run, checkpoint = message.transactions, state.checkpoint
    if isinstance(state.place, InTransaction) and run.gtid(0) != state.place.gtid:
        raise InvariantBroken(f"{run.gtid(0)} passed within {state.place.gtid}, which hadn't ended")
    tables = _without_stopped(state, message.tables)
    after = touch_windows(replace(state, stream=message.end, place=BetweenTransactions()), tables, run)
    passed = with_checkpoint(
        after,
        position=run.added_to(checkpoint.position) | message.covered,
        scn=checkpoint.scn + len(run),
        witnesses=add_transactions(checkpoint.witnesses, run),
        prepared=message.prepared,
    )
    return _invalidate_mirrors(passed, message.restarted), _change_parts(
        state, _without_stopped(after, tables), run
    )


def transaction_part_verified(
    state: State, message: TransactionPartVerified
) -> tuple[State, tuple[ChangePart, ...]]:
    """Handles a part of a transaction."""
    place = state.place if isinstance(state.place, InTransaction) else InTransaction(message.gtid)
    if place.gtid != message.gtid:
        raise InvariantBroken(f"rows of {message.gtid} came within {place.gtid}, which hadn't ended")
    transaction = _single_transaction(message)
    tables = _without_stopped(state, message.tables)
    passed = touch_windows(replace(state, place=place), tables, transaction)
    return passed, _change_parts(state, _without_stopped(passed, tables), transaction)


def _without_stopped(state: State, tables: tuple[TableChanges, ...]) -> tuple[TableChanges, ...]:
    """Returns the changes without those of tables that stopped here. The verifier doesn't know that they stopped."""
    stopped = state.checkpoint.stopped
    return tuple(each for each in tables if each.schema.table not in stopped) if stopped else tables


def _change_parts(
    state: State, tables: tuple[TableChanges, ...], run: Transactions
) -> tuple[ChangePart, ...]:
    return tuple(ChangePart(changes, run, state.checkpoint.scn + 1) for changes in tables)


@dataclass(frozen=True, slots=True)
class KeyedChanges:
    """Changes with their keys' tokens. `masks`: which images are partial; None if all are complete."""

    changes: TableChanges
    tokens: pa.Array
    masks: ImageMasks | None


def touch_windows(state: State, tables: tuple[TableChanges, ...], run: Transactions) -> State:
    """Returns the state after these changes have touched the windows of their tables; unknown rows are to be read
    again.

    A table with a mirror stops if the mirror couldn't tell the rows of these changes apart.
    """
    for changes in tables:
        table = changes.schema.table
        opened = any(window_table(window) == table for window in state.windows)
        mirrored = table in state.checkpoint.mirrors
        if mirrored and (why := ambiguous_keys(changes.schema, changes.rows)):
            state = stop_table(state, table, why)
            continue
        if not opened and not (mirrored and has_partial_images(changes)):
            continue
        keys = with_tokens(state, changes)
        if opened:
            state = _touch_table(state, table, passed_keys(keys, run))
        if mirrored and keys.masks is not None:
            state = _request_unknown_rows(state, keys, keys.masks, len(run))
    return state


def with_tokens(state: State, changes: TableChanges) -> KeyedChanges:
    """Returns the changes with the data that both windows and rows to read again need."""
    keys = tokens(changes.rows, changes.schema.key)
    if not has_partial_images(changes):
        return KeyedChanges(changes, keys, None)
    return KeyedChanges(
        changes, keys, classify_images(changes, keys, reselect.moving_columns(state, changes.schema.table))
    )


def passed_keys(keyed: KeyedChanges, run: Transactions) -> PassedKeys:
    """Returns the keys of the changes. Every image counts, so an update has both its old and its new key."""
    images, keys, masks = keyed.changes.images, keyed.tokens, keyed.masks
    transaction = images.column("transaction").to_numpy()
    if masks is None:
        return PassedKeys(run, transaction, keys)
    partial = pa.array(masks.partial)
    absent = images.column("absent").filter(partial)
    rows = PartialRows(keys.filter(partial), absent, keyed.changes.rows.filter(partial))
    return PassedKeys(run, transaction[masks.decisive], keys.filter(pa.array(masks.decisive)), rows)


def _request_unknown_rows(state: State, keyed: KeyedChanges, masks: ImageMasks, transactions: int) -> State:
    """Returns the state with the rows that these changes leave unknown, which are to be read again."""
    schema, unknown = keyed.changes.schema, pa.array(masks.unknown)
    rows = keyed.changes.rows.select(list(schema.key)).filter(unknown)
    return reselect.request_reselect(state, schema.table, key_rows(schema, rows.columns), transactions)


def _touch_table(state: State, table: TableId, keys: PassedKeys) -> State:
    still_open: list[Window] = []
    for window in state.windows:
        after = windows.pass_keys(window, keys) if window_table(window) == table else window
        order = after.order
        if isinstance(order, ReadChunk) and exceeds_memory(after, state.limits.chunk_bytes):
            smaller = halve(size_of(state, order), order)
            state = with_size(state, window_table(after), smaller)
        else:
            still_open.append(after)
    return replace(state, windows=tuple(still_open))


def exceeds_memory(window: Window, most: int) -> bool:
    """Returns whether the window's chunk must be ordered again with fewer rows."""
    order = window.order
    fewer = isinstance(order, ReadChunk) and order.limit > 1
    return isinstance(window, Reading) and window.kept > most and fewer


# Rows of the signal table


def apply_signal_rows(
    state: State, rows: tuple[SourceSignal, ...]
) -> tuple[State, tuple[SignalOutcome, ...]]:
    """Applies the rows of the signal table: signals take effect or are refused, and a watermark has passed."""
    answers: list[SignalOutcome] = []
    for row in rows:
        if row.type == CLOSE_MARKER:
            state = replace(state, markers=state.markers | {row.id})
        elif row.type != OPEN_MARKER:
            state, answer = signal_row_received(state, row)
            answers.append(answer)
    return state, tuple(answers)


# Statements, schemas, and tables that go


def must_be_between(state: State, what: str) -> None:
    """Raises InvariantBroken if the stream is within a transaction."""
    if isinstance(state.place, InTransaction):
        raise InvariantBroken(f"{what} came within {state.place.gtid}, which hadn't ended")


def schema_changed(state: State, message: SchemaChanged) -> State:
    """Handles a statement: drops windows and plans of tables that it may have changed, and begins some of them
    again."""
    must_be_between(state, f"the statement {message.gtid}")
    checkpoint = state.checkpoint
    if message.gtid in checkpoint.position:
        raise InvariantBroken(
            f"the statement {message.gtid} had passed before: it is in the position {checkpoint.position}"
        )
    witness = Witness(message.gtid, message.commit_time, message.original_time)
    passed = with_checkpoint(
        replace(state, stream=message.end),
        position=checkpoint.position.with_gtid(message.gtid) | message.covered,
        scn=checkpoint.scn + 1,
        witnesses=with_witnesses(checkpoint.witnesses, (witness,)),
        unproven=checkpoint.unproven | (message.tables & checkpoint.schemas.keys()),
        schemas=checkpoint.schemas | {each.schema.table: each.schema for each in message.alterations},
    )
    state = _invalidate_mirrors(drop_windows(passed, message.tables), message.restarted)
    return _invalidate_mirrors(state, tuple(_invalidate_unextended(state, message.alterations)))


def _invalidate_unextended(state: State, alterations: tuple[Alteration, ...]) -> Iterator[MirrorInvalidated]:
    """Returns the tables that get columns with constants in the rows that there were while chunks fill their mirrors.

    Nothing distinguishes the chunks that were read before the statement from later ones, which have the columns.
    """
    for alteration in alterations:
        mirror = state.checkpoint.mirrors.get(alteration.schema.table)
        if alteration.changes.added and isinstance(mirror, Filling) and mirror.since < state.checkpoint.scn:
            yield MirrorInvalidated(alteration.schema.table, False, _EXTENDED)


def emptying_changes(state: State, message: SchemaChanged) -> tuple[ChangePart, ...]:
    """Returns the changes that say that the statement took all rows of its tables.

    Its SCN is that of the mirror's new generation. Nothing up to that SCN counts for it.
    """
    run = _single_transaction(message)
    images = _emptied_image(message)
    schemas = (alteration.schema for alteration in message.alterations if alteration.emptied)
    changes = (
        TableChanges(schema, images, pa.RecordBatch.from_pylist([{}], schema.arrow)) for schema in schemas
    )
    return tuple(ChangePart(each, run, state.checkpoint.scn) for each in changes)


def statement_parts(scn: int, message: object) -> tuple[StatementPart, ...]:
    """Returns what the journal keeps of a statement on the schema, also of one that a slice begins with.

    It has the first SCN that the message takes.
    """
    match message:
        case SchemaChanged(begins=begins, server=server, kept=kept) if kept:
            run = _single_transaction(message)
        case ChangesVerified(transactions=run, creation=CreationStatements(kept, begins, server)):
            pass
        case _:
            return ()
    gtid = run.gtid_texts()[0].as_py()
    committed = int(run.original_time[0]) or int(run.commit_time[0])
    return tuple(StatementPart(scn, gtid, committed, begins, server, each) for each in kept)


def _emptied_image(message: SchemaChanged) -> pa.RecordBatch:
    """Returns the image that stands for all rows of an emptied table."""
    at = message.begins
    source = at and {"file": at.file, "pos": at.offset, "row": 0, "server_id": message.server}
    image = {"kind": int(ImageKind.EMPTIED), "transaction": 0, "ordinal": 0, "source": source}
    return pa.RecordBatch.from_pylist([image], CHANGE_FIELDS)


def _single_transaction(message: TransactionPartVerified | SchemaChanged) -> Transactions:
    run = Transactions.of([(message.gtid, message.commit_time)])
    return replace(run, original_time=np.array([message.original_time], np.int64))


def log_advanced(state: State, message: LogAdvanced) -> State:
    """Handles progress of the log: it is read up to this position, and everything before has passed."""
    must_be_between(state, f"the log's advance to {message.end}")
    position = state.checkpoint.position
    prepared = message.prepared
    state = replace(state, stream=message.end)
    if message.covered <= position and prepared == state.checkpoint.prepared:
        return state
    return with_checkpoint(state, position=position | message.covered, prepared=prepared)


def _invalidate_mirrors(state: State, tables: tuple[MirrorInvalidated, ...]) -> State:
    for each in tables:
        state = mirror_invalidated(state, each)
    return state


def schema_verified(state: State, message: SchemaVerified) -> State:
    """Handles a verified schema, which holds from here on. Chunks that were ordered under another one aren't emitted.

    The checkpoint always gets both: the schema and the generation that the mirror begins for it. A statement may have
    removed the cause for which a snapshot failed: the table was gone, for example, and is there again. So a mirror that
    lacks rows since then begins again.
    """
    schema, state = message.schema, _invalidate_mirrors(state, message.restarted)
    schemas = state.checkpoint.schemas
    if schemas.get(schema.table) != schema or isinstance(state.plans.get(schema.table), SchemaDiffers):
        state = drop_windows(state, {schema.table})
    altered = schema.table in state.checkpoint.unproven
    unproven = state.checkpoint.unproven - {schema.table}
    state = with_checkpoint(state, schemas={**schemas, schema.table: schema}, unproven=unproven)
    if altered and schema.key and _lacks_failed_rows(state.checkpoint, schema.table):
        state = mirror_invalidated(state, MirrorInvalidated(schema.table, False, _ALTERED))
    return replace(state, checkpoint=begin_snapshot(state.checkpoint, state.snapshot_mode))


def _lacks_failed_rows(checkpoint: Checkpoint, table: TableId) -> bool:
    """Returns whether the table's mirror lacks rows because a snapshot failed, and no signal has stopped one since.

    A creation that is certain (`Effect.CREATED`) doesn't need this: it also ends a snapshot that has not failed yet. An
    uncertain one (IF NOT EXISTS) and an ALTER TABLE need it.
    """
    last = [snapshot.tables[table] for snapshot in checkpoint.snapshots if table in snapshot.tables][-1:]
    stopped = any(isinstance(state, SnapshotStopped) for state in last)
    return stays_incomplete(checkpoint, table) and not stopped


def mirror_invalidated(state: State, message: MirrorInvalidated) -> State:
    """Begins a new generation of the table's mirror here, because the mirror's rows are no longer right.

    Without a key the new generation is never complete, even if it is empty now: no later change could be merged.
    """
    table, scn = message.table, state.checkpoint.scn
    schema = state.checkpoint.schemas.get(table)
    emptied = message.emptied and (schema is None or bool(schema.key))
    mirror = state.checkpoint.mirrors.get(table)
    if message.gap and mirror is None and not _gets_mirror(state, table):
        return stop_table(state, table, message.reason)
    state = forget_unknown_rows(drop_windows(state, {table}), table)
    while emptied and (snapshot := snapshot_of(state.checkpoint, table)):
        state = end_table(state, snapshot, table, Completed(progress(snapshot.tables[table])))
    if emptied:
        return state if mirror is None else with_mirror(state, table, Ready(scn))
    if (snapshot := snapshot_of(state.checkpoint, table)) is not None:
        state = with_table(state, snapshot, table, SnapshotWaiting())
    if mirror is None:
        return state
    state = with_mirror(state, table, Filling(scn))
    if awaits_snapshot(state.checkpoint, table):
        return state
    return with_snapshot(state, Snapshot(f"restart-{scn}-{table}", {table: SnapshotWaiting()}))


def _gets_mirror(state: State, table: TableId) -> bool:
    """Returns whether a table without a mirror gets one, and is read, once its schema is verified."""
    schema = state.checkpoint.schemas.get(table)
    return state.snapshot_mode is not SnapshotMode.NO_DATA and (schema is None or bool(schema.key))


def mirror_data_expired(state: State, message: MirrorDataExpired) -> State:
    """Begins generations again whose rows a consumer lacks, unless they have begun again since."""
    mirrors, stopped = state.checkpoint.mirrors, state.checkpoint.stopped
    meant = [
        table
        for table, since in sorted(message.generations.items())
        if table in mirrors and mirrors[table].since == since and table not in stopped
    ]
    return _invalidate_mirrors(state, tuple(MirrorInvalidated(table, False, _GONE) for table in meant))
