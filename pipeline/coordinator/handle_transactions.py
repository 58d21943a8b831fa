"""Handles transactions of the log: the position advances, keys touch the open windows, and signals take effect.

Rows of the signal table (`ChangesVerified.signals`) take effect with their transactions, and in the segment with these:
once, however often the log is read again. Of the watermarks among them only the one after a SELECT counts. The writer
of the one before has waited for its commit (`pipeline.snapshot.watermark`).

**What a window keeps while its chunk is being read** is bounded. It keeps the keys of all passing transactions, because
it doesn't know yet which of them are in the low watermark. It keeps the transactions that touched one, and no others.
If that takes more than a chunk may, the coordinator drops the window and orders the chunk again with half its rows. The
answer to the first order finds no window. No writer can prolong that endlessly. As long as no chunk of the table comes,
its orders only shrink. At most as many orders are out at once as there are connections, and each halves the next ones
at most once. An order for a single row is never dropped. So the number of useless orders is at most the connections
times the halvings of a chunk's rows. Rows that are read by their keys aren't ordered with fewer rows either. Of
these, and of an order for a single row, the window keeps only the last change of each key.
"""

from dataclasses import dataclass, replace

import pyarrow as pa

from pipeline.coordinator import reselect
from pipeline.coordinator import window as windows
from pipeline.coordinator.chunk_size import halve
from pipeline.coordinator.halted.table_scan import touch_scan
from pipeline.coordinator.handle_schemas import invalidate_mirrors, single_transaction
from pipeline.coordinator.handle_signals import signal_row_received
from pipeline.coordinator.partial_rows import ImageMasks, PartialRows, classify_images, has_partial_images
from pipeline.coordinator.snapshots.table_snapshots import stop_table
from pipeline.coordinator.state import (
    BetweenTransactions,
    InTransaction,
    State,
    require_between_transactions,
    size_of,
    window_table,
    with_checkpoint,
    with_size,
)
from pipeline.coordinator.window import Reading, SliceKeys, Window
from pipeline.errors import InvariantBroken
from pipeline.gtid.transactions import Transactions
from pipeline.gtid.witness import add_transactions
from pipeline.messages.binlog import LogAdvanced
from pipeline.messages.changes import ChangesVerified, TransactionPartVerified
from pipeline.messages.chunks import ReadChunk
from pipeline.messages.journal import ChangePart
from pipeline.messages.row_images import TableChanges
from pipeline.messages.signals import SignalOutcome
from pipeline.schema.row_keys import ambiguous_keys, key_tokens
from pipeline.schema.table_schema import TableId
from pipeline.signals.signal import SourceSignal
from pipeline.snapshot.reselect_keys import key_rows
from pipeline.snapshot.watermark import CLOSE_MARKER, OPEN_MARKER

_PARTLY_SUMMED = (
    "the log has a row of it without some columns (binlog_row_image), and without a primary key it can't be read "
    "again, so that its changes don't add up to its rows; set binlog_row_image=FULL on the source and in its sessions, "
    "and have a blocking snapshot read its rows after a recapture"
)


def changes_verified(state: State, message: ChangesVerified) -> tuple[State, tuple[ChangePart, ...]]:
    """Handles a slice of complete transactions."""
    transactions, checkpoint = message.transactions, state.checkpoint
    if isinstance(state.phase, InTransaction) and transactions.gtid(0) != state.phase.gtid:
        raise InvariantBroken(f"{transactions.gtid(0)} passed within {state.phase.gtid}, which hadn't ended")
    tables = _without_stopped(state, message.tables)
    after = touch_windows(
        replace(state, stream=message.end, phase=BetweenTransactions()), tables, transactions
    )
    passed = with_checkpoint(
        after,
        position=transactions.added_to(checkpoint.position) | message.covered,
        scn=checkpoint.scn + len(transactions),
        witnesses=add_transactions(checkpoint.witnesses, transactions),
        prepared=message.prepared,
        log_end=message.end,
    )
    return invalidate_mirrors(passed, message.restarted), _change_parts(
        state, _without_stopped(after, tables), transactions
    )


def transaction_part_verified(
    state: State, message: TransactionPartVerified
) -> tuple[State, tuple[ChangePart, ...]]:
    """Handles a part of a transaction."""
    phase = state.phase if isinstance(state.phase, InTransaction) else InTransaction(message.gtid)
    if phase.gtid != message.gtid:
        raise InvariantBroken(f"rows of {message.gtid} came within {phase.gtid}, which hadn't ended")
    transaction = single_transaction(message)
    tables = _without_stopped(state, message.tables)
    passed = touch_windows(replace(state, phase=phase), tables, transaction)
    return passed, _change_parts(state, _without_stopped(passed, tables), transaction)


def _without_stopped(state: State, tables: tuple[TableChanges, ...]) -> tuple[TableChanges, ...]:
    """Returns the changes without those of stopped tables. The verifier need not know that they stopped."""
    stopped = state.checkpoint.stopped
    return tuple(each for each in tables if each.schema.table not in stopped) if stopped else tables


def _change_parts(
    state: State, tables: tuple[TableChanges, ...], transactions: Transactions
) -> tuple[ChangePart, ...]:
    return tuple(ChangePart(changes, transactions, state.checkpoint.scn + 1) for changes in tables)


@dataclass(frozen=True, slots=True)
class KeyedChanges:
    """Changes with their keys' tokens. `masks`: which images are partial; None if all are complete."""

    changes: TableChanges
    tokens: pa.Array
    masks: ImageMasks | None


def touch_windows(state: State, tables: tuple[TableChanges, ...], transactions: Transactions) -> State:
    """Returns the state after these changes have touched the windows of their tables; unknown rows are to be read
    again.

    A table with a mirror stops if the mirror couldn't tell the rows of these changes apart. One whose changes add up to
    its rows stops if the log has only a part of a row.
    """
    state = touch_scan(state, tables, transactions)
    for changes in tables:
        table = changes.schema.table
        opened = any(window_table(window) == table for window in state.windows)
        mirrored = table in state.checkpoint.mirrors
        if mirrored and (why := ambiguous_keys(changes.schema, changes.rows)):
            state = stop_table(state, table, why)
            continue
        if table in state.checkpoint.scanned and has_partial_images(changes):
            state = stop_table(state, table, _PARTLY_SUMMED)
            continue
        if not opened and not (mirrored and has_partial_images(changes)):
            continue
        keys = with_tokens(state, changes)
        if opened:
            state = _touch_table(state, table, slice_keys(keys, transactions))
        if mirrored and keys.masks is not None:
            state = _request_unknown_rows(state, keys, keys.masks, len(transactions))
    return state


def with_tokens(state: State, changes: TableChanges) -> KeyedChanges:
    """Returns the changes with the data that both windows and rows to read again need."""
    keys = key_tokens(changes.rows, changes.schema.key)
    if not has_partial_images(changes):
        return KeyedChanges(changes, keys, None)
    return KeyedChanges(
        changes, keys, classify_images(changes, keys, reselect.moving_columns(state, changes.schema.table))
    )


def slice_keys(keyed: KeyedChanges, transactions: Transactions) -> SliceKeys:
    """Returns the keys of the changes. Every image counts, so an update has both its old and its new key."""
    images, keys, masks = keyed.changes.images, keyed.tokens, keyed.masks
    transaction = images.column("transaction").to_numpy()
    if masks is None:
        return SliceKeys.of(transactions, transaction, keys)
    partial = pa.array(masks.partial)
    absent = images.column("absent").filter(partial)
    rows = PartialRows(keys.filter(partial), absent, keyed.changes.rows.filter(partial))
    decisive = keys.filter(pa.array(masks.decisive))
    return SliceKeys.of(transactions, transaction[masks.decisive], decisive, rows)


def _request_unknown_rows(state: State, keyed: KeyedChanges, masks: ImageMasks, number: int) -> State:
    """Returns the state with the rows that these changes leave unknown, which are to be read again."""
    schema, unknown = keyed.changes.schema, pa.array(masks.unknown)
    rows = keyed.changes.rows.select(list(schema.key)).filter(unknown)
    return reselect.request_reselect(state, schema.table, key_rows(schema, rows.columns), number)


def _touch_table(state: State, table: TableId, keys: SliceKeys) -> State:
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
    return isinstance(window, Reading) and window.kept_bytes > most and windows.can_be_smaller(window.order)


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


# Progress of the log


def log_advanced(state: State, message: LogAdvanced) -> State:
    """Handles progress of the log: it is read up to this position, and everything before has passed."""
    require_between_transactions(state, f"the log's advance to {message.end}")
    position = state.checkpoint.position
    prepared = message.prepared
    state = replace(state, stream=message.end)
    if message.covered <= position and prepared == state.checkpoint.prepared:
        return state
    return with_checkpoint(state, position=position | message.covered, prepared=prepared, log_end=message.end)
