"""The coordinator: makes one ordered stream of the log and the chunks.

`step` takes the state and a message, and returns the next state and the orders. It alone decides where each row enters
the stream. `pipeline.coordinator.window` defines the stream and its slices, and proves the rule of one window.

**The way of a snapshot.** A snapshot reads tables, each in chunks:

1. The coordinator orders the table's *plan* of the ChunkSelector (`PlanTable`). The answer (`TablePlanned`) has the
   table's schema at the source, and its walk (the index along which it is read). It also has the keys that divide it
   into ranges.
2. `order_reads` opens windows: for each it orders the next chunk of a range (`ReadChunk`). The order has the stream's
   position, A, as `ordered_at`. Several windows are open at once, but only one chunk of a range is being read.
3. While the log passes, each slice's keys touch the open windows of their tables (`window.pass_keys`).
4. The chunk comes with its watermarks L and H (`ChunkRead`), and `window.take_chunk` puts it into its window.
5. Once the stream has passed H, `close_windows` emits the untouched rows. It moves the range's progress (`done`, the
   key up to which its rows are in the stream). After the last chunk of the last range the table is complete.
   A window closes later if the journal still writes the rows of the one before (`ChunksFlushed`).

**What a message does.** Unless it is a part of a transaction (below), the stream is between two transactions after it:

    the log advances     its keys touch the open windows, and its changes are appended. Windows whose high
                         watermark has passed close: their rows are appended after these changes
    a chunk has come     its window has its watermarks now, and closes at once on an idle source
    a statement passed   the open windows of the tables that it may have changed are dropped, and these tables
                         are planned again. Emitted rows stay emitted. Other tables aren't concerned
    a signal came        snapshots begin, stop, pause or resume

**What goes out.** `Append` brings the journal these changes and rows, and with them the *checkpoint*: the durable part
of the state. It has the position, the snapshots' progress, and the last SCN. The *SCN* numbers what is in the stream:
each transaction and each chunk gets the next one. A restart drops all else (plans, open windows) and orders it again.

**A transaction larger than a slice** comes in parts. Between the first part and the end the state's phase is
`InTransaction`. Its rows go to the journal at once (`AppendRows`), which holds them until the end. Their keys touch the
open windows under its GTID, as in a slice. Everything else waits for the end: no window closes, no chunk is ordered,
and the position stays. Changes of the checkpoint (a signal, a schema, a stopped table) go out with the Append that ends
it. So for every rule the transaction passes as a unit, at its end. Its SCN stays the next one, because nothing else
takes a number. If a table stops within it, the journal discards the rows that it has of that table (`withdrawn`). If a
mirror begins within it, no part of the transaction counts for that mirror (`begun_scn`).

**A table without a primary key** is read all at once, while the stream stands still
(`pipeline.coordinator.halted.table_scan`). Then the phase is `InScan`, and everything waits for the last row, as within
a transaction. A message that may move the stream ends the scan first.

**Rows that are read again.** The log may have only a part of a row. If the rest is unknown, the row is read again by
its key (`pipeline.coordinator.reselect`), in a separate window. So are rows that a verification found to differ
(`pipeline.coordinator.verification.repair`).

**Many windows at once.** Each range of a table proceeds by itself. Its chunks are ordered one after the other, because
each begins where the one before ended. They close in that order too, so that one key, `done`, describes the range's
progress. Ranges and tables don't wait for each other. A window doesn't wait for the order of the next chunk either. So
a lagging stream costs latency and no throughput.

**A table begins again** when its new plan has another walk than the one that found its ranges: keys of two walks don't
compare. Or the schema has another primary key, which tells the rows apart differently. Only the schema and the walk are
compared, so only a statement that changed one of them makes a table begin again, and only once.

**Mirrors.** The checkpoint also has each table's mirror: the lake's table that equals the source's. A mirror has
generations. Each begins empty at an SCN (`since`), and nothing up to that SCN counts for it.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import assert_never

import pyarrow as pa

from pipeline.config.column_protection import UNPROTECTED, Protection
from pipeline.config.settings import MOST_WINDOWS, SnapshotMode
from pipeline.coordinator import (
    handle_chunks,
    handle_schemas,
    handle_transactions,
    reselect,
    resume,
)
from pipeline.coordinator import window as windows
from pipeline.coordinator.chunk_size import ChunkLimits
from pipeline.coordinator.consistent_state import AtPosition
from pipeline.coordinator.halted import consistent_schedule, table_scan
from pipeline.coordinator.handle_signals import signal_received
from pipeline.coordinator.schedule import order_reads
from pipeline.coordinator.snapshots.ended_snapshots import forget_old_snapshots
from pipeline.coordinator.snapshots.table_snapshots import end_table, stop_table
from pipeline.coordinator.state import (
    BetweenTransactions,
    FoundEmpty,
    InScan,
    InTransaction,
    Order,
    Overlapping,
    PauseReached,
    Planned,
    State,
    UnwrittenChunks,
    WindowMode,
    range_of,
    window_table,
    with_checkpoint,
    with_table,
    without_plan,
)
from pipeline.coordinator.verification import comparability, repair
from pipeline.coordinator.window import Reconciling, Window
from pipeline.errors import InvariantBroken
from pipeline.messages import binlog, changes, chunks, journal, signals
from pipeline.messages.inboxes import ToWatermarkCoordinator
from pipeline.messages.message_size import of_part
from pipeline.schema.ddl.alter_table import Altered
from pipeline.schema.table_filter import ALL_TABLES, TableFilter
from pipeline.schema.table_schema import TableId
from pipeline.snapshot.checkpoint import Checkpoint
from pipeline.snapshot.reselect_keys import NO_KEYS
from pipeline.snapshot.snapshot import Chunking, Progress, advance_range
from pipeline.snapshot.turns import snapshot_of


def start(
    checkpoint: Checkpoint,
    limits: ChunkLimits,
    mode: WindowMode,
    snapshot_mode: SnapshotMode = SnapshotMode.NO_DATA,
    unread: Mapping[TableId, pa.RecordBatch | None] = NO_KEYS,
    *,
    has_lake: bool = True,
    protection: Protection = UNPROTECTED,
    captured: TableFilter = ALL_TABLES,
) -> tuple[State, tuple[Order, ...]]:
    """Returns the state after a start from a checkpoint, and the first orders. Snapshots continue where they were.

    `snapshot_mode`: how new tables are snapshotted without a signal. `unread`: for each table of the checkpoint with
    rows to read again, their keys as the journal has them (`reselect`), or None. `has_lake`: whether there is a lake to
    verify. `protection`: the columns that no signal may compare. `captured`: the tables that the configuration
    captures.
    """
    if isinstance(mode, Overlapping) and not 1 <= mode.most <= MOST_WINDOWS:
        raise ValueError(f"the number of windows must be from 1 to {MOST_WINDOWS}, not {mode.most}")
    checkpoint = resume.begin_snapshot(resume.restart_consistent_snapshots(checkpoint), snapshot_mode)
    begun = State(
        limits, mode, checkpoint, snapshot_mode, has_lake=has_lake, protection=protection, captured=captured
    )
    state = comparability.end_outdated(None, begun)
    state, orders = order_reads(reselect.restore_keys(state, unread))
    state = forget_old_snapshots(_skip_begun_scn(state))
    return state, (journal.Append((), state.checkpoint), *orders)


def step(state: State, message: ToWatermarkCoordinator) -> tuple[State, tuple[Order, ...]]:
    """Returns the next state and the orders for a message. Raises InvariantBroken if a sender broke its protocol."""
    if isinstance(state.phase, InScan) and isinstance(message, table_scan.ENDING):
        return _step_after_scan(state, message)
    if isinstance(message, changes.SchemaChanged):  # the verifier need not know which tables have stopped
        message = message.without(state.checkpoint.stopped)
    taken, parts, answers = _handle(state, message)
    altered = handle_schemas.journaled_alterations(state.checkpoint.scn, taken.checkpoint, message)
    match taken.phase:
        case InScan() if not table_scan.is_wanted(taken):
            abandoned, closed = table_scan.abandon_scan(taken)
            after, orders = _append(state, abandoned, (), answers, (), ())
            return after, (*closed, *orders)
        case (InTransaction() | InScan()) as phase:
            comparable = comparability.end_outdated(state.checkpoint, taken)
            return _hold_until_end(comparable, phase, parts, answers, altered)
        case BetweenTransactions():
            statements = handle_schemas.statement_parts(state.checkpoint.scn + 1, message)
            return _append(state, taken, parts, answers, altered, statements)
        case _:
            assert_never(taken.phase)


def _step_after_scan(state: State, message: ToWatermarkCoordinator) -> tuple[State, tuple[Order, ...]]:
    """Returns the same as `step` for a message that ends a scan. What was held until its end goes out first."""
    abandoned, closed = table_scan.abandon_scan(state)
    ended, orders = _append(state, abandoned, (), (), (), (), orders_reads=False)
    after, more = step(ended, message)
    return after, (*closed, *orders, *more)


def _skip_begun_scn(state: State) -> State:
    """Returns the state with an SCN at which no mirror begins, so that each mirror's next generation is a new one.

    That generation may have another schema. It may begin within a transaction, whose SCN is the next one: at that SCN,
    or before it if the table was emptied.
    """
    scn = state.checkpoint.scn
    begun = any(mirror.since == scn for mirror in state.checkpoint.mirrors.values())
    return with_checkpoint(state, scn=scn + 1) if begun else state


def _hold_until_end(
    taken: State,
    phase: InTransaction | InScan,
    parts: tuple[journal.ChangePart | journal.ChunkPart, ...],
    answers: tuple[signals.SignalOutcome, ...],
    altered: tuple[Altered, ...],
) -> tuple[State, tuple[Order, ...]]:
    """Sends rows at once, and holds everything else until the end of the transaction or the scan.

    No schema comes within a scan (`table_scan.ENDING`).
    """
    phase = replace(phase, answers=(*phase.answers, *answers))
    if isinstance(phase, InTransaction):
        phase = replace(phase, altered=(*phase.altered, *altered))
    after, orders = order_reads(replace(taken, phase=phase))
    return after, (journal.AppendRows(parts), *orders) if parts else orders


def _append(
    state: State,
    taken: State,
    parts: tuple[journal.ChangePart | journal.ChunkPart, ...],
    answers: tuple[signals.SignalOutcome, ...],
    altered: tuple[Altered, ...],
    statements: tuple[journal.StatementPart, ...],
    *,
    orders_reads: bool = True,
) -> tuple[State, tuple[Order, ...]]:
    """Closes the windows that can close, orders reads, and appends the changes, then the rows of the closed windows.

    `state` is before the message, and `taken` after it. `parts`: the changes that it brought. `altered` and
    `statements`: what lake and topics get of a statement. There is no Append if nothing durable has changed.
    """
    # The message may show that a table contradicts the log, or that a verification can't compare its rows any more.
    taken = comparability.end_outdated(state.checkpoint, handle_chunks.stop_contradicted_tables(taken))
    emitted, rows = close_windows(taken)
    after, orders = order_reads(emitted) if orders_reads else (emitted, ())
    after = reselect.mark_unread(after)  # the checkpoint says which tables have rows to read again
    held = not isinstance(state.phase, BetweenTransactions)  # mirrors may have begun since the last Append
    if held or after.checkpoint.mirrors is not state.checkpoint.mirrors:
        after = _skip_begun_scn(after)
    if held or after.checkpoint.snapshots is not state.checkpoint.snapshots:
        after = forget_old_snapshots(after)
    withdrawn: frozenset[TableId] = frozenset()
    if isinstance(state.phase, InTransaction):  # and it ends here
        with_it = taken.checkpoint.stopped.keys() - state.checkpoint.stopped.keys()
        answers, withdrawn = (*state.phase.answers, *answers), state.phase.stopped | with_it
        altered = (*state.phase.altered, *altered)
    if isinstance(state.phase, InScan):  # and it ends here
        answers, withdrawn = (*state.phase.answers, *answers), table_scan.withdrawn_tables(state, taken)
    elif after.checkpoint is state.checkpoint and not answers:
        return after, orders
    append = journal.Append((*parts, *rows), after.checkpoint, answers, withdrawn, altered, statements)
    return after, (append, *orders)


def _handle(
    state: State, message: ToWatermarkCoordinator
) -> tuple[State, tuple[journal.ChangePart | journal.ChunkPart, ...], tuple[signals.SignalOutcome, ...]]:
    """Returns the state after the message, the changes that it brings, and the answers to signals."""
    match message:
        case changes.ChangesVerified():
            after, parts = handle_transactions.changes_verified(state, message)
            after, answers = handle_transactions.apply_signal_rows(after, message.signals)
            return after, parts, answers
        case changes.TransactionPartVerified():
            after, parts = handle_transactions.transaction_part_verified(state, message)
            return after, parts, ()
        case binlog.LogAdvanced():
            return handle_transactions.log_advanced(state, message), (), ()
        case changes.SchemaChanged():
            after = handle_schemas.schema_changed(state, message)
            return after, handle_schemas.emptying_changes(after, message), ()
        case changes.SchemasVerified():
            return handle_schemas.schemas_verified(state, message), (), ()
        case changes.MirrorInvalidated():
            return handle_schemas.mirror_invalidated(state, message), (), ()
        case journal.MirrorDataExpired():
            return handle_schemas.mirror_data_expired(state, message), (), ()
        case changes.TableStopped(table, reason):
            return stop_table(state, table, reason), (), ()
        case changes.EnginesSurveyed(unknown):
            return with_checkpoint(state, unknown_engines=unknown), (), ()
        case changes.ForeignKeysFollowed(keys):
            return with_checkpoint(state, foreign_keys=keys), (), ()
        case signals.SignalReceived(signal, former_id):
            after, answer = signal_received(state, signal, former_id)
            return after, (), (answer,)
        case chunks.TablePlanned():
            return handle_chunks.table_planned(state, message), (), ()
        case chunks.PlanFailed():
            return handle_chunks.plan_failed(state, message), (), ()
        case chunks.ChunkRead():
            return handle_chunks.chunk_read(state, message), (), ()
        case chunks.ChunkFailed():
            return handle_chunks.chunk_failed(state, message), (), ()
        case chunks.ChunkSchemaChanged():
            return handle_chunks.chunk_schema_changed(state, message), (), ()
        case chunks.ScanOpened() | chunks.ScanRead() | chunks.ScanFailed():
            after, rows = table_scan.take_answer(state, message)
            return after, rows, ()
        case chunks.TransactionsOpened():
            return consistent_schedule.transactions_opened(state, message), (), ()
        case journal.DifferencesReported():
            return repair.differences_reported(state, message), (), ()
        case binlog.ReadingPaused():
            return replace(state, reader=PauseReached()), (), ()
        case chunks.SourceOverloaded():
            return replace(state, overloaded=message), (), ()
        case chunks.SourceRecovered():
            return replace(state, overloaded=None), (), ()
        case journal.JournalFull() | journal.JournalHasSpace() | journal.ChunksFlushed():
            return _with_journal(state, message), (), ()
        case _:
            assert_never(message)


def _with_journal(
    state: State, message: journal.JournalFull | journal.JournalHasSpace | journal.ChunksFlushed
) -> State:
    """Returns the state with what the journal reports of its room and its writing."""
    match message:
        case journal.JournalFull(reason):
            return replace(state, room=journal.Full(reason))
        case journal.JournalHasSpace():
            return replace(state, room=journal.HasSpace())
        case journal.ChunksFlushed(scn) if scn >= state.unwritten.scn:
            return replace(state, unwritten=UnwrittenChunks())
        case journal.ChunksFlushed():  # a later chunk isn't written yet
            return state
        case _:
            assert_never(message)


# Windows close: rows of chunks enter the stream


def close_windows(state: State) -> tuple[State, tuple[journal.ChunkPart, ...]]:
    """Closes all windows that can close, in the order in which they were opened.

    A window of a range (`range_of`) stays open while an earlier one of the same range does. What closes may end a
    snapshot or a repair of its table, which drops the table's windows. Those don't close any more.

    A segment can't be sealed before the rows in it are written. So while the journal writes a chunk, the next one stays
    in its window, and changes go before it. If these take the stream away from a consistent snapshot's position, its
    chunks are of another one than the stream, and are read again.
    """
    position = state.consistent_position
    left_position = isinstance(position, AtPosition) and not position.holds(state.passed)
    parts: list[journal.ChunkPart] = []
    still_open: list[Window] = []
    held: set[tuple[TableId, int]] = set()
    for window in state.windows:
        if not _is_open(state, window):
            continue
        free = range_of(window) not in held
        free = free and not left_position and state.unwritten.bytes < state.limits.unwritten
        if free and isinstance(window, Reconciling) and windows.can_close(window, state.passed):
            state, part = _emit(state, window)
            if len(part.rows) or part.gone:
                parts.append(part)
                unwritten = state.unwritten.bytes + of_part(part)
                state = replace(state, unwritten=UnwrittenChunks(unwritten, part.scn))
        else:
            held.add(range_of(window))
            still_open.append(window)
    windows_left = tuple(window for window in still_open if _is_open(state, window))
    state = _forget_markers(_complete_empty_tables(replace(state, windows=windows_left)))
    return state, tuple(parts)


def _is_open(state: State, window: Window) -> bool:
    return any(each is window for each in state.windows)


def _complete_empty_tables(state: State) -> State:
    """Completes the tables whose plan found no rows, once the stream has passed their high watermark."""
    for table, plan in state.plans.items():
        if not isinstance(plan, FoundEmpty):
            continue
        snapshot = snapshot_of(state.checkpoint, table)
        if snapshot is None or snapshot.id != plan.snapshot:
            # Another table's turn has come since then. Its own plan decides.
            state = without_plan(state, table)
        elif state.passed.has(plan.high):
            state = end_table(state, snapshot, table, snapshot.read_whole(Progress()))
    return state


def _emit(state: State, window: Reconciling) -> tuple[State, journal.ChunkPart]:
    """Returns the state with the window's range advanced, and the untouched rows with the next SCN, for the journal."""
    order, table, scn = window.order, window_table(window), state.checkpoint.scn + 1
    if order.schema != state.checkpoint.schemas.get(table):
        raise InvariantBroken(f"a window of {table} is open under a schema that doesn't hold any more")
    rows = windows.untouched_rows(window)
    emitted = with_checkpoint(state, scn=scn)
    part = journal.ChunkPart(
        order.chunk, order.schema, rows, window.low, window.high, scn, first=False, at=state.stream
    )
    match order:
        case chunks.ReadChunk():
            return _advance_snapshot(emitted, window, order, part)
        case chunks.ReselectRows():
            return emitted, part
        case chunks.RepairRows():
            gone = windows.gone_keys(window)
            repaired = repair.batch_emitted(emitted, len(rows) + len(gone))
            return repaired, replace(part, verifies=order.checks, gone=gone)
        case _:
            assert_never(order)


def _advance_snapshot(
    state: State, window: Reconciling, order: chunks.ReadChunk, part: journal.ChunkPart
) -> tuple[State, journal.ChunkPart]:
    """Advances the chunk's range to the chunk's last key. The last chunk of the last range ends the table.

    `ChunkPart.first`: the mirror's first rows, which the lake adds without a merge. `verifies`: the lake only compares
    the rows with what it has.
    """
    table, rows = window_table(window), len(part.rows)
    snapshot = snapshot_of(state.checkpoint, table)
    chunking = snapshot.tables[table] if snapshot else None
    if snapshot is None or not isinstance(chunking, Chunking):
        raise InvariantBroken(
            f"a window of {table} is open, but the table's snapshot is in the state {chunking}"
        )
    left, before = advance_range(chunking.ranges, order.range, window.upto), chunking.progress
    counts = replace(
        before,
        chunks=before.chunks + 1,
        rows=before.rows + rows,
        superseded=before.superseded + window.superseded + len(window.rows) - rows,
        ranges_done=before.ranges - len(left),
    )
    part = replace(part, first=chunking.first, verifies=snapshot.verification is not None)
    if left:
        return with_table(state, snapshot, table, replace(chunking, ranges=left, progress=counts)), part
    return end_table(state, snapshot, table, snapshot.read_whole(counts)), part


def _forget_markers(state: State) -> State:
    """Forgets the marker rows that have passed, if no window and no empty table can wait for one."""
    if (
        not state.markers
        or state.windows
        or state.planning
        or any(not isinstance(plan, Planned) for plan in state.plans.values())
    ):
        return state
    return replace(state, markers=frozenset())
