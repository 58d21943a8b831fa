"""The schedule: which chunk the coordinator orders next, and when it pauses the stream for a chunk.

Both happen only between two transactions. Within one nothing is ordered. The rows that have already passed would be in
no window, and the transaction isn't in the position with which a low watermark is compared. A pause that was ordered
before and comes within a transaction is useless too. So reading continues, and the pause is ordered again after the
end.

The coordinator orders everything *at* the stream's position, and the answer must see all that had passed there. That
holds for plans too: a row that passed but that a plan doesn't see would be beyond the plan's end and in no range.

**While the journal has no room** (`pipeline.journal.quota`) nothing is ordered either, and the stream is paused
wherever it is, also within a transaction.

**Whose turn it is.** Tables of a snapshot with a higher priority come first. Among equals the table with the fewest
open windows gets the next chunk, and of its ranges the one with the fewest. So no large table delays small ones. At
most as many tables are under way at once as there are connections, because more couldn't be read. Otherwise a thousand
tables would all begin, none would end for long, and the checkpoint would hold the ranges of them all.

Rows that are read again (`pipeline.coordinator.reselect`, `pipeline.coordinator.verification.repair`) come before all
of that. They are few, and one order of them at a time takes no chunk's turn.

**How much.** At most as many chunks are ordered as there are connections: another one would only be a window that opens
too early. And no more than the memory has room for, together with the waiting rows (`pipeline.coordinator.chunk_size`).

**While the source isn't ready for chunks** (`SourceOverloaded.unready`) no chunk keeps the stream paused, because that
may last for hours. Slices touch the open windows in every mode, so the proof of a window holds for one that the pause
was meant for, too (`pipeline.coordinator.window`). Only a consistent snapshot keeps its pause: its chunks never wait.

**A blocking snapshot** is read as with `watermark = "pause"`, and nothing else is ordered during its turn. Its tables
without a primary key come first (`pipeline.coordinator.halted.table_scan`).
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import assert_never

from pipeline.config.settings import MOST_WINDOWS
from pipeline.coordinator import reselect
from pipeline.coordinator.chunk_size import ChunkSize
from pipeline.coordinator.consistent_state import (
    ApproachingPosition,
    AtPosition,
    NoPosition,
    OpeningTransactions,
)
from pipeline.coordinator.halted import consistent_schedule, table_scan
from pipeline.coordinator.state import (
    FoundEmpty,
    InScan,
    InTransaction,
    NoScan,
    OpeningScan,
    Order,
    Overlapping,
    PauseOrdered,
    PauseReached,
    Pausing,
    Planned,
    Planning,
    ReaderRunning,
    SchemaDiffers,
    State,
    is_reading,
    range_of,
    snapshot_windows,
    window_table,
)
from pipeline.coordinator.verification import repair
from pipeline.coordinator.window import Reading, Reconciling
from pipeline.messages.binlog import PauseReading, ResumeReading
from pipeline.messages.chunks import PlanTable, ReadChunk
from pipeline.messages.journal import Full
from pipeline.schema.table_schema import TableId
from pipeline.snapshot.checkpoint import is_keyless
from pipeline.snapshot.snapshot import ChunkId, Chunking, Range, Snapshot
from pipeline.snapshot.turns import table_turns


@dataclass(frozen=True, slots=True)
class _Plan:
    """An order to plan a table of this snapshot."""

    snapshot: Snapshot
    table: TableId


@dataclass(frozen=True, slots=True)
class _Chunk:
    """An order to read the next chunk of this range of a table: `rows`, which may take the `expected` bytes."""

    snapshot: Snapshot
    table: TableId
    plan: Planned
    range: Range
    rows: int
    expected: int


def order_reads(state: State) -> tuple[State, tuple[Order, ...]]:
    """Orders as many plans and chunks as the mode allows now."""
    if isinstance(state.room, Full):
        return _pause_for_room(state)
    if isinstance(state.phase, InTransaction):
        return _resume_within_transaction(state)
    if isinstance(state.phase, InScan):
        return table_scan.order_rows(state)
    if not isinstance(state.scan, NoScan):
        state, orders = _advance_scan(state)
        if not isinstance(state.scan, NoScan):
            return state, orders
        state, others = order_reads(state)
        return state, (*orders, *others)
    state, orders = consistent_schedule.advance_consistent_snapshot(state)
    match state.consistent_position:
        case NoPosition() if table_scan.can_open(state):
            state, resumed = _end_pause(state)
            state, others = _advance_scan(state)
            others = (*resumed, *others)
        case NoPosition():
            state, others = _order_regular_reads(state)
        case AtPosition():
            state, others = _order_overlapping(state, MOST_WINDOWS)
        case OpeningTransactions() | ApproachingPosition():
            state, others = _end_pause(state)
        case _:
            assert_never(state.consistent_position)
    return state, (*orders, *others)


def _advance_scan(state: State) -> tuple[State, tuple[Order, ...]]:
    """Continues with a scan that is under way, or opens one. Nothing else is ordered meanwhile."""
    state, orders = table_scan.advance_scan(state)
    if isinstance(state.scan, OpeningScan):
        state, resumed = _end_pause(state)
        return state, (*orders, *resumed)
    return state, orders


def _order_regular_reads(state: State) -> tuple[State, tuple[Order, ...]]:
    """Orders what belongs to no consistent snapshot."""
    state, unread = reselect.order_reselect(state)
    state, repaired = repair.order_repair(state)
    state, postponed = reselect.order_reselect(state, postponed=True)
    again: tuple[Order, ...] = (*unread, *repaired, *postponed)
    match state.mode:
        case Pausing():
            state, orders = _order_in_pause(state, next(_turns(state), None))
            return state, (*again, *orders)
        case Overlapping(most):
            turn = next(_turns(state), None)
            if turn is not None and turn.snapshot.blocking:
                state, orders = _order_in_pause(state, turn)
                return state, (*again, *orders)
            state, resumed = _end_pause(state)
            state, orders = (
                _order_overlapping(state, most) if isinstance(state.reader, ReaderRunning) else (state, ())
            )
            return state, (*again, *resumed, *orders)
        case _:
            assert_never(state.mode)


def _resume_within_transaction(state: State) -> tuple[State, tuple[Order, ...]]:
    """Orders nothing within a transaction, and resumes reading so that its end comes, unless a chunk needs the
    pause."""
    if isinstance(state.reader, PauseReached) and not _needs_pause(state):
        return replace(state, reader=ReaderRunning()), (ResumeReading(),)
    return state, ()


def _pause_for_room(state: State) -> tuple[State, tuple[Order, ...]]:
    if isinstance(state.reader, ReaderRunning):
        return replace(state, reader=PauseOrdered()), (PauseReading(),)
    return state, ()


def _end_pause(state: State) -> tuple[State, tuple[Order, ...]]:
    """Returns the state without an unneeded pause, of a blocking snapshot or for lack of room."""
    return (state, ()) if isinstance(state.reader, ReaderRunning) else _order_in_pause(state, None)


def _order_overlapping(state: State, most: int) -> tuple[State, tuple[Order, ...]]:
    orders: list[Order] = []
    while (
        len(snapshot_windows(state)) + len(state.planning) < most
        and (turn := next(_turns(state), None)) is not None
    ):
        state, order = _place_order(state, turn)
        orders.append(order)
    return state, tuple(orders)


def _order_in_pause(state: State, turn: _Plan | _Chunk | None) -> tuple[State, tuple[Order, ...]]:
    """Reads one window at a time in a pause of the stream, which lasts only while chunks are read."""
    plans: tuple[Order, ...] = ()
    if snapshot_windows(state) or state.planning:
        turn = None
    if isinstance(turn, _Plan):
        state, plan = _place_order(state, turn)
        plans = (plan,)
    match state.reader:
        case ReaderRunning() if isinstance(turn, _Chunk):
            return replace(state, reader=PauseOrdered()), (PauseReading(),)
        case PauseReached() if isinstance(turn, _Chunk):
            state, order = _place_order(state, turn)
            return state, (order,)
        case PauseReached() if not _needs_pause(state):
            return replace(state, reader=ReaderRunning()), (*plans, ResumeReading())
        case ReaderRunning() | PauseOrdered() | PauseReached():
            return state, plans
        case _:
            assert_never(state.reader)


def _needs_pause(state: State) -> bool:
    """Returns whether a chunk is being read that needs the stream paused. One that waits for its source doesn't."""
    reading = {
        window.order.chunk.snapshot for window in snapshot_windows(state) if isinstance(window, Reading)
    }
    waits = state.overloaded is not None and state.overloaded.unready is not None
    paused = not waits and isinstance(state.mode, Pausing)
    return any(
        paused or (each.blocking and not waits) or each.consistent
        for each in state.checkpoint.snapshots
        if each.id in reading
    )


# Whose turn it is


def _turns(state: State) -> Iterator[_Plan | _Chunk]:
    """Returns what can be ordered now, the most urgent first."""
    checkpoint, limits = state.checkpoint, state.limits
    if checkpoint.paused or state.overloaded is not None or len(state.ordered) >= limits.connections:
        return
    consistent = isinstance(state.consistent_position, AtPosition)
    under_way = {t: each for t, each in table_turns(checkpoint).items() if each.consistent is consistent}
    wanted = _unsuspended_tables(under_way)
    wanted = {t: each for t, each in wanted.items() if not (each.blocking and is_keyless(checkpoint, t))}
    open_on = _windows_of_tables(state)
    priorities = {snapshot.priority for snapshot in wanted.values()}
    begins = {each: _tables_under_way(state, wanted, each) < limits.connections for each in priorities}
    for table in sorted(wanted, key=lambda table: (-wanted[table].priority, open_on[table])):
        snapshot = wanted[table]
        match state.plans.get(table):
            case None if table not in state.planning and begins[snapshot.priority]:
                yield _Plan(snapshot, table)
            case Planned() as plan:
                yield from _chunk_turns(state, snapshot, plan)
            case None | SchemaDiffers() | FoundEmpty():
                pass


def _windows_of_tables(state: State) -> Counter[TableId]:
    return Counter(map(window_table, snapshot_windows(state)))


def _unsuspended_tables(wanted: dict[TableId, Snapshot]) -> dict[TableId, Snapshot]:
    """Returns only the tables of the first snapshot if it is blocking, otherwise those of all that aren't blocking."""
    first = next(iter(wanted.values()), None)
    if first is not None and first.blocking:
        return {table: snapshot for table, snapshot in wanted.items() if snapshot is first}
    return {table: snapshot for table, snapshot in wanted.items() if not snapshot.blocking}


def _tables_under_way(state: State, wanted: dict[TableId, Snapshot], priority: int) -> int:
    """Returns how many tables of this priority or a higher one have begun and have something left to order.

    Those that a blocking snapshot suspends don't count: it would wait for them, and they wait for it.
    """
    begun = {t for t, plan in state.plans.items() if not isinstance(plan, Planned) or plan.ranges}
    under_way = begun | state.planning.keys()
    return sum(table in wanted and wanted[table].priority >= priority for table in under_way)


def _chunk_turns(state: State, snapshot: Snapshot, plan: Planned) -> Iterator[_Chunk]:
    table = plan.schema.table
    rows, expected = _chunk_rows(state, snapshot, table)
    if state.ordered or snapshot_windows(state):
        room = state.limits.memory - _bytes_waiting(state)
        if expected > room:
            return
    open_on = Counter(map(range_of, state.windows))
    for each in sorted(plan.ranges, key=lambda each: open_on[table, each.number]):
        if not is_reading(state, table, each.number):
            yield _Chunk(snapshot, table, plan, each, rows, expected)


# How much


def _chunk_rows(state: State, snapshot: Snapshot, table: TableId) -> tuple[int, int]:
    """Returns how many rows the table's next chunk may have, and the bytes that these may take."""
    request, limits = snapshot.request(table), state.limits
    size = state.chunk_sizes.get(table) or ChunkSize(request.chunk_rows or limits.chunk_rows)
    rows = limits.bound_rows(size.rows)
    if request.rows_per_s:  # all connections together read a second's rows
        rows = min(rows, -(-request.rows_per_s // limits.connections))
    return rows, size.bytes(rows, state.limits)


def _bytes_waiting(state: State) -> int:
    """Returns the bytes of the rows that wait in windows, and of those that ordered chunks may bring."""
    waiting = sum(
        state.chunk_sizes[window_table(window)].bytes(len(window.rows), state.limits)
        for window in snapshot_windows(state)
        if isinstance(window, Reconciling)
    )
    return waiting + sum(state.ordered.values())


def _place_order(state: State, turn: _Plan | _Chunk) -> tuple[State, PlanTable | ReadChunk]:
    snapshot, table, position = turn.snapshot, turn.table, state.checkpoint.position
    request = snapshot.request(table)
    if isinstance(turn, _Plan):
        ranges = 0 if isinstance(snapshot.tables[table], Chunking) else state.limits.ranges
        state = reselect.begin_mirror_again(state, snapshot, table)
        state = replace(state, planning={**state.planning, table: Planning(snapshot.id)})
        return state, PlanTable(table, request, ranges, position)
    order = ReadChunk(
        chunk=ChunkId(snapshot.id, table, state.chunks + 1),
        schema=turn.plan.schema,
        walk=turn.plan.walk,
        request=request,
        range=turn.range.number,
        after=turn.range.done,
        end=turn.range.end,
        limit=turn.rows,
        ordered_at=position,
    )
    opened = replace(state, windows=(*state.windows, Reading(order)), chunks=state.chunks + 1)
    return replace(opened, ordered={**state.ordered, order.chunk: turn.expected}), order
