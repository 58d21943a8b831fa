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
(`Within`). Its rows go straight on to the journal, which keeps them back, and their keys touch the open windows under
its GTID, as they would in a slice. All else waits for its end, which is the next moment between two transactions: no
window closes, nothing is asked for, the position stays, and what changes the checkpoint meanwhile (a signal, a
schema, a table that stops) goes out with the Append that ends it. So for every rule the transaction passes at its
end and as a whole. Its SCN is the next one all the while, since nothing else takes a number.

A table that stops within a transaction has nothing of that transaction in the journal: what had gone on is withdrawn.

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

from dataclasses import replace
from typing import assert_never

from pipeline import window as windows
from pipeline.checkpoint import Checkpoint, Filling, Ready
from pipeline.closing import closed
from pipeline.coordinator_state import (
    Between,
    Eased,
    FoundEmpty,
    Limits,
    Order,
    Overlapping,
    Paused,
    Planned,
    Planning,
    State,
    Strained,
    WindowMode,
    Within,
    begun_anew,
    checkpointed,
    dropped,
    ended,
    progressed,
    reading,
    snapshot_of,
    table_ended,
    table_of,
    to_be_filled,
    with_mirror,
    with_run,
    with_snapshot,
    with_table,
    without_run,
)
from pipeline.errors import InvariantBroken
from pipeline.keys import Key, tokens
from pipeline.messages import (
    Append,
    AppendRows,
    ChangePart,
    ChangesVerified,
    ChunkFailed,
    ChunkRead,
    LogAdvanced,
    PlanFailed,
    ReadingPaused,
    SchemaChanged,
    SchemaVerified,
    SignalAnswer,
    SignalReceived,
    SourceEased,
    SourceStrained,
    TableChanges,
    TablePlanned,
    TableRestarted,
    TableStopped,
    ToWatermarkCoordinator,
    TransactionPartVerified,
)
from pipeline.requests import signalled
from pipeline.schedule import scheduled
from pipeline.schema import TableId
from pipeline.snapshot import (
    ChunkId,
    Chunking,
    Completed,
    Progress,
    Range,
    Snapshot,
    Waiting,
    progress,
)
from pipeline.topology import MOST_WINDOWS
from pipeline.transactions import Transactions
from pipeline.window import PassedKeys, Window


def start(checkpoint: Checkpoint, limits: Limits, mode: WindowMode) -> tuple[State, tuple[Order, ...]]:
    """The state after a start from a checkpoint, and the first orders: snapshots go on where they were."""
    if isinstance(mode, Overlapping) and not 1 <= mode.most <= MOST_WINDOWS:
        raise ValueError(f"the number of windows must be from 1 to {MOST_WINDOWS}, not {mode.most}")
    state, orders = scheduled(State(limits, mode, checkpoint))
    return state, (Append((), checkpoint), *orders)


def step(state: State, message: ToWatermarkCoordinator) -> tuple[State, tuple[Order, ...]]:
    """The next state and the orders that follow from a message. InvariantBroken where a promise was broken."""
    taken, changes, answers = _taken(state, message)
    match taken.place:
        case Within():
            return _held(taken, taken.place, changes, answers)
        case Between():
            return _appended(state, taken, changes, answers)
        case _:
            assert_never(taken.place)


def _held(
    taken: State, place: Within, changes: tuple[ChangePart, ...], answers: tuple[SignalAnswer, ...]
) -> tuple[State, tuple[Order, ...]]:
    """Rows go on, and all else waits for the end of the transaction."""
    after, orders = scheduled(replace(taken, place=replace(place, answers=(*place.answers, *answers))))
    return after, (AppendRows(changes), *orders) if changes else orders


def _appended(
    state: State, taken: State, changes: tuple[ChangePart, ...], answers: tuple[SignalAnswer, ...]
) -> tuple[State, tuple[Order, ...]]:
    emitted, chunks = closed(taken)
    after, orders = scheduled(emitted)
    withdrawn: frozenset[TableId] = frozenset()
    if isinstance(state.place, Within):  # and here it ends
        answers, withdrawn = (*state.place.answers, *answers), state.place.stopped
    if after.checkpoint is state.checkpoint and not answers:
        return after, orders
    return after, (Append((*changes, *chunks), after.checkpoint, answers, withdrawn), *orders)


def _taken(
    state: State, message: ToWatermarkCoordinator
) -> tuple[State, tuple[ChangePart, ...], tuple[SignalAnswer, ...]]:
    match message:
        case ChangesVerified():
            passed, changes = _changes_passed(state, message)
            return passed, changes, ()
        case TransactionPartVerified():
            passed, changes = _part_passed(state, message)
            return passed, changes, ()
        case SignalReceived(signal):
            requested, answer = signalled(state, signal)
            return requested, (), (answer,)
        case SchemaChanged():
            return _statement_passed(state, message), (), ()
        case LogAdvanced(end):
            _must_be_between(state, f"the log's advance to {end}")
            return replace(state, stream=end), (), ()
        case ReadingPaused():
            return replace(state, gate=Paused()), (), ()
        case SchemaVerified(schema):
            return checkpointed(state, schemas={**state.checkpoint.schemas, schema.table: schema}), (), ()
        case TableRestarted():
            return _table_restarted(state, message), (), ()
        case TableStopped():
            return _table_stopped(state, message), (), ()
        case TablePlanned():
            return _table_planned(state, message), (), ()
        case PlanFailed(table, reason):
            return _plan_failed(state, table, reason), (), ()
        case ChunkRead():
            return _chunk_read(state, message), (), ()
        case ChunkFailed(chunk, reason):
            return _chunk_failed(state, chunk, reason), (), ()
        case SourceStrained(reason):
            return replace(state, source=Strained(reason)), (), ()
        case SourceEased():
            return replace(state, source=Eased()), (), ()
        case _:
            assert_never(message)


# The log goes on


def _changes_passed(state: State, message: ChangesVerified) -> tuple[State, tuple[ChangePart, ...]]:
    run, checkpoint = message.transactions, state.checkpoint
    if isinstance(state.place, Within) and run.gtid(0) != state.place.gtid:
        raise InvariantBroken(f"{run.gtid(0)} passed within {state.place.gtid}, which hadn't ended")
    passed = checkpointed(
        replace(state, stream=message.end, place=Between(), open=_touched(state.open, message.tables, run)),
        position=run.added_to(checkpoint.position),
        scn=checkpoint.scn + len(run),
    )
    return passed, _change_parts(state, message.tables, run)


def _part_passed(state: State, message: TransactionPartVerified) -> tuple[State, tuple[ChangePart, ...]]:
    place = state.place if isinstance(state.place, Within) else Within(message.gtid)
    if place.gtid != message.gtid:
        raise InvariantBroken(f"rows of {message.gtid} came within {place.gtid}, which hadn't ended")
    transaction = Transactions.of([(message.gtid, message.commit_time)])
    touched = _touched(state.open, message.tables, transaction)
    return replace(state, place=place, open=touched), _change_parts(state, message.tables, transaction)


def _change_parts(
    state: State, tables: tuple[TableChanges, ...], run: Transactions
) -> tuple[ChangePart, ...]:
    return tuple(ChangePart(changes, run, state.checkpoint.scn + 1) for changes in tables)


def _touched(
    open_windows: tuple[Window, ...], tables: tuple[TableChanges, ...], run: Transactions
) -> tuple[Window, ...]:
    waiting = {table_of(window) for window in open_windows}
    passed = [
        (changes.schema.table, _keys(changes, run)) for changes in tables if changes.schema.table in waiting
    ]
    for table, keys in passed:
        open_windows = tuple(
            windows.keys_passed(window, keys) if table_of(window) == table else window
            for window in open_windows
        )
    return open_windows


def _keys(changes: TableChanges, run: Transactions) -> PassedKeys:
    # Every image counts, so that an update gives both its old and its new key.
    transaction = changes.images.column("transaction").to_numpy()
    return PassedKeys(run, transaction, tokens(changes.rows, changes.schema.key))


def _must_be_between(state: State, what: str) -> None:
    if isinstance(state.place, Within):
        raise InvariantBroken(f"{what} came within {state.place.gtid}, which hadn't ended")


def _statement_passed(state: State, message: SchemaChanged) -> State:
    _must_be_between(state, f"the statement {message.gtid}")
    checkpoint = state.checkpoint
    if message.gtid in checkpoint.position:
        raise InvariantBroken(
            f"the statement {message.gtid} had passed before: it is in the position {checkpoint.position}"
        )
    passed = checkpointed(
        replace(state, stream=message.end),
        position=checkpoint.position.with_gtid(message.gtid),
        scn=checkpoint.scn + 1,
    )
    return dropped(passed, message.tables)


def _table_restarted(state: State, message: TableRestarted) -> State:
    table = message.table
    state, mirror = dropped(state, {table}), state.checkpoint.mirrors.get(table)
    while message.emptied and (snapshot := snapshot_of(state.checkpoint, table)):
        state = table_ended(state, snapshot, table, Completed(progress(snapshot.tables[table])))
    if message.emptied:
        return state if mirror is None else with_mirror(state, table, Ready(state.checkpoint.scn))
    if (snapshot := snapshot_of(state.checkpoint, table)) is not None:
        state = with_table(state, snapshot, table, Waiting())
    if mirror is None:
        return state
    scn = state.checkpoint.scn
    state = with_mirror(state, table, Filling(scn))
    if to_be_filled(state.checkpoint, table):
        return state
    return with_snapshot(state, Snapshot(f"restart-{scn}-{table}", {table: Waiting()}))


def _table_stopped(state: State, message: TableStopped) -> State:
    if isinstance(state.place, Within):
        state = replace(state, place=replace(state.place, stopped=state.place.stopped | {message.table}))
    stopped = checkpointed(state, stopped={**state.checkpoint.stopped, message.table: message.reason})
    while snapshot_of(stopped.checkpoint, message.table):  # also those that wait for the first one
        stopped = ended(stopped, message.table, message.reason)
    return stopped


# Plans and chunks come in


def _table_planned(state: State, message: TablePlanned) -> State:
    table = message.schema.table
    run, snapshot = state.runs.get(table), snapshot_of(state.checkpoint, table)
    state = without_run(state, table)
    if snapshot is None or run != Planning(snapshot.id):
        return state
    match snapshot.tables[table]:
        case Chunking(ranges, walk_version):
            if walk_version != message.walk.version(message.schema):
                return begun_anew(state, snapshot, table)
            return with_run(state, table, Planned(message.schema, message.walk, ranges))
        case _ if message.end is None:
            return with_run(state, table, FoundEmpty(message.high))
        case _:
            return _table_begun(state, snapshot, message, message.end)


def _table_begun(state: State, snapshot: Snapshot, message: TablePlanned, end: Key) -> State:
    table, request = message.schema.table, snapshot.request(message.schema.table)
    ends = (*message.splits, end)
    begins = (None, *message.splits)
    ranges = tuple(Range(number, *keys) for number, keys in enumerate(zip(begins, ends, strict=True)))
    mirror = state.checkpoint.mirrors.get(table)
    first = request.whole and request.surrogate is None and not isinstance(mirror, Ready)
    if first and mirror is None:
        state = with_mirror(state, table, Filling(0))
    counts = Progress(expected=message.expected, ranges=len(ranges))
    begun = Chunking(ranges, message.walk.version(message.schema), first, counts)
    run = Planned(message.schema, message.walk, ranges)
    return with_run(with_table(state, snapshot, table, begun), table, run)


def _plan_failed(state: State, table: TableId, reason: str) -> State:
    run, snapshot = state.runs.get(table), snapshot_of(state.checkpoint, table)
    state = without_run(state, table)
    return ended(state, table, reason) if snapshot is not None and run == Planning(snapshot.id) else state


def _chunk_read(state: State, message: ChunkRead) -> State:
    window = reading(state, message.chunk)
    if window is None:  # dropped since: by a statement, a stop, or a failure of its table
        return state
    schema = window.order.schema
    if nameless := [name for name in schema.key_names if message.rows.column(name).null_count]:
        return ended(
            state,
            schema.table,
            f"{' and '.join(nameless)} of its primary key has a zero or partial date, which has no value in the lake, "
            "so that its rows can't be told apart; its changes still stream",
        )
    reconciling = windows.chunk_read(window, message)
    opened = replace(state, open=tuple(reconciling if w is window else w for w in state.open))
    run = state.runs[schema.table]
    assert isinstance(run, Planned)  # the window would have been dropped with it
    left = progressed(run.ranges, window.order.range, message.upto)
    return with_run(opened, schema.table, replace(run, ranges=left))


def _chunk_failed(state: State, chunk: ChunkId, reason: str) -> State:
    return state if reading(state, chunk) is None else ended(state, chunk.table, reason)
