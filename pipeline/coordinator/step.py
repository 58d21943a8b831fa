"""The coordinator: one ordered stream out of the log and the chunks.

`step` takes the state and a message, and returns the next state and the orders that follow. It's the only
place that decides what a row's place in the stream is. A message is a moment between two transactions, so
that everything the window rules ask for can happen there:

    the log goes on      its keys touch the open windows, its changes are appended, and windows whose high
                         watermark has been passed close: their rows are appended behind these changes
    a chunk has come     its window knows its watermarks now, and closes at once on an idle source
    a statement passed   the open windows of the tables that it may have changed are dropped, and these tables
                         planned anew; what was emitted stays done
    a signal came        snapshots begin, stop, pause or resume

**A transaction larger than a slice** comes in parts, and between the first one and its end the state says so
(`InTransaction`). Its rows go straight on to the journal, which keeps them back, and their keys touch the open windows
under its GTID, as they would in a slice. All else waits for its end, which is the next moment between two transactions:
no window closes, nothing is asked for, the position stays, and what changes the checkpoint meanwhile (a signal, a
schema, a table that stops) goes out with the Append that ends it. So for every rule the transaction passes at its end
and as a whole. Its SCN is the next one all the while, since nothing else takes a number.

A table that stops within a transaction has nothing of that transaction in the journal: what had gone on is withdrawn.

A row of which the log has a part is read again where the rest isn't known (`pipeline.coordinator.reselect`), in a
window of its own.

What's durable is in `State.checkpoint`, which goes out with each `Append`; all else (plans, open windows) is
dropped by a restart and asked for again.

**Many windows at once.** A table is divided into ranges, and each range goes on by itself. Its chunks are asked for one
after the other, since each begins where the one before ended, and close in that order, so that `done` says all there
is to say of it. Ranges and tables don't wait for each other, and neither do a window and the next chunk's asking:
that's why a lagging stream costs latency and not throughput.

**A table begins anew** when its walk isn't what it was when its ranges were found: keys of the two don't compare, or
its rows aren't told apart alike. Since plans are compared by nothing but the schema and the walk, it takes a statement
that changed them to begin anew once, and there's no circle without one.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import assert_never

import pyarrow as pa

from pipeline.config.settings import MOST_WINDOWS, SnapshotMode
from pipeline.coordinator import consistent_schedule, handle_chunks, handle_log, reselect, resume
from pipeline.coordinator.chunk_size import ChunkLimits
from pipeline.coordinator.handle_signals import signalled
from pipeline.coordinator.reselect_keys import NOTHING
from pipeline.coordinator.schedule import scheduled
from pipeline.coordinator.state import (
    BetweenTransactions,
    Eased,
    InTransaction,
    Order,
    Overlapping,
    Paused,
    State,
    Strained,
    WindowMode,
    checkpointed,
)
from pipeline.coordinator.window_close import closed
from pipeline.messages.binlog import LogAdvanced, ReadingPaused
from pipeline.messages.changes import (
    ChangesVerified,
    MirrorInvalidated,
    SchemaChanged,
    SchemaVerified,
    TableStopped,
    TransactionPartVerified,
)
from pipeline.messages.chunks import (
    ChunkFailed,
    ChunkRead,
    ChunkSchemaChanged,
    PlanFailed,
    SourceOverloaded,
    SourceRecovered,
    TablePlanned,
    TransactionsOpened,
)
from pipeline.messages.inboxes import ToWatermarkCoordinator
from pipeline.messages.journal import (
    Append,
    AppendRows,
    ChangePart,
    Full,
    HasSpace,
    JournalFull,
    JournalHasSpace,
    MirrorDataExpired,
)
from pipeline.messages.signals import SignalOutcome, SignalReceived
from pipeline.schema.ddl.alter_table import Altered
from pipeline.schema.table_schema import TableId
from pipeline.snapshot.checkpoint import Checkpoint


def start(
    checkpoint: Checkpoint,
    limits: ChunkLimits,
    mode: WindowMode,
    unasked: SnapshotMode = SnapshotMode.NO_DATA,
    unread: Mapping[TableId, pa.RecordBatch | None] = NOTHING,
) -> tuple[State, tuple[Order, ...]]:
    """The state after a start from a checkpoint, and the first orders: snapshots continue where they were.

    `unasked`: how tables that are new are snapshotted without a signal. `unread`: of each table of the checkpoint that
    has rows to be read again, their keys as the journal has them (`rereads`), None where it doesn't.
    """
    if isinstance(mode, Overlapping) and not 1 <= mode.most <= MOST_WINDOWS:
        raise ValueError(f"the number of windows must be from 1 to {MOST_WINDOWS}, not {mode.most}")
    checkpoint = resume.begin_snapshot(resume.again(checkpoint), unasked)
    state, orders = scheduled(reselect.restore_keys(State(limits, mode, checkpoint, unasked), unread))
    state = _numbered(state)
    return state, (Append((), state.checkpoint), *orders)


def step(state: State, message: ToWatermarkCoordinator) -> tuple[State, tuple[Order, ...]]:
    """The next state and the orders that follow from a message. InvariantBroken where a promise was broken."""
    taken, changes, answers = _taken(state, message)
    match taken.place:
        case InTransaction():
            return _held(taken, taken.place, changes, answers)
        case BetweenTransactions():
            alterations = message.alterations if isinstance(message, SchemaChanged) else ()
            altered = tuple(Altered(state.checkpoint.scn + 1, alteration) for alteration in alterations)
            return _appended(state, taken, changes, answers, altered)
        case _:
            assert_never(taken.place)


def _numbered(state: State) -> State:
    """The state with an SCN that no mirror begins behind, so that the next generation of any is another one.

    That one may have another schema, and may come within a transaction, whose own SCN is the next.
    """
    scn = state.checkpoint.scn
    begun = any(mirror.since == scn for mirror in state.checkpoint.mirrors.values())
    return checkpointed(state, scn=scn + 1) if begun else state


def _held(
    taken: State, place: InTransaction, changes: tuple[ChangePart, ...], answers: tuple[SignalOutcome, ...]
) -> tuple[State, tuple[Order, ...]]:
    """Rows go on, and all else waits for the end of the transaction."""
    after, orders = scheduled(replace(taken, place=replace(place, answers=(*place.answers, *answers))))
    return after, (AppendRows(changes), *orders) if changes else orders


def _appended(
    state: State,
    taken: State,
    changes: tuple[ChangePart, ...],
    answers: tuple[SignalOutcome, ...],
    altered: tuple[Altered, ...],
) -> tuple[State, tuple[Order, ...]]:
    emitted, chunks = closed(handle_chunks.contradicted(taken))
    after, orders = scheduled(emitted)
    after = reselect.marked(after)
    if after.checkpoint.mirrors is not state.checkpoint.mirrors:
        after = _numbered(after)
    withdrawn: frozenset[TableId] = frozenset()
    if isinstance(state.place, InTransaction):  # and here it ends
        with_it = taken.checkpoint.stopped.keys() - state.checkpoint.stopped.keys()
        answers, withdrawn = (*state.place.answers, *answers), state.place.stopped | with_it
    if after.checkpoint is state.checkpoint and not answers:
        return after, orders
    append = Append((*changes, *chunks), after.checkpoint, answers, withdrawn, altered)
    return after, (append, *orders)


def _taken(
    state: State, message: ToWatermarkCoordinator
) -> tuple[State, tuple[ChangePart, ...], tuple[SignalOutcome, ...]]:
    match message:
        case ChangesVerified():
            after, changes = handle_log.changes_passed(state, message)
            after, answers = handle_log.rows_signalled(after, message.signals)
            return after, changes, answers
        case TransactionPartVerified():
            after, changes = handle_log.part_passed(state, message)
            return after, changes, ()
        case SchemaChanged():
            after = handle_log.statement_passed(state, message)
            return after, handle_log.emptied(after, message), ()
        case SignalReceived(signal):
            after, answer = signalled(state, signal)
            return after, (), (answer,)
        case LogAdvanced():
            return handle_log.log_advanced(state, message), (), ()
        case ReadingPaused():
            return replace(state, gate=Paused()), (), ()
        case SchemaVerified():
            return handle_log.schema_verified(state, message), (), ()
        case MirrorInvalidated():
            return handle_log.table_restarted(state, message), (), ()
        case TableStopped():
            return handle_log.table_stopped(state, message), (), ()
        case TablePlanned():
            return handle_chunks.table_planned(state, message), (), ()
        case PlanFailed():
            return handle_chunks.plan_failed(state, message), (), ()
        case ChunkRead():
            return handle_chunks.chunk_read(state, message), (), ()
        case ChunkFailed():
            return handle_chunks.chunk_failed(state, message), (), ()
        case ChunkSchemaChanged():
            return handle_chunks.chunk_outdated(state, message), (), ()
        case SourceOverloaded(reason):
            return replace(state, source=Strained(reason)), (), ()
        case SourceRecovered():
            return replace(state, source=Eased()), (), ()
        case JournalFull(reason):
            return replace(state, room=Full(reason)), (), ()
        case JournalHasSpace():
            return replace(state, room=HasSpace()), (), ()
        case TransactionsOpened():
            return consistent_schedule.opened(state, message), (), ()
        case MirrorDataExpired():
            return handle_log.mirrors_lacked(state, message), (), ()
        case _:
            assert_never(message)
