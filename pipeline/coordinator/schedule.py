"""The schedule: which chunk is asked for next, and when the stream is paused for it.

Both are for the moments between two transactions. Within one nothing is asked for: its rows that have gone by would
be in no window, and it isn't in the position that a low watermark is held against. A pause that was ordered before
and comes within a transaction is of no use either, so that reading goes on, and it's ordered again behind the end.

What's asked for is asked for *at* the stream's position, and whoever answers must see all that had passed there. That
holds for plans too: a row that a plan doesn't see, though it has passed, would be beyond its end and in no range.

**While the journal has no room** (`pipeline.journal.quota`) nothing is asked for either, and the stream is paused
wherever it is, within a transaction too.

**Whose turn it is.** Tables of a snapshot with a higher priority come first. Among equals that table gets the next
chunk which has the fewest windows open, and of it the range with the fewest, so that no large table keeps small ones
waiting. There are no more tables under way at once than connections, since more couldn't be read: otherwise a thousand
tables would all be begun and none be done for long, and the checkpoint would hold the ranges of them all.

Rows that are read again (`pipeline.coordinator.reselect`) come before all of that. They're few, and one order of them
at a time takes no chunk's turn.

**How much.** There are no more chunks asked for than connections, since another one would only be a window that opens
early; and no more than the memory has room for, together with the rows that wait (`pipeline.coordinator.chunk_size`).

**A blocking snapshot** is read as in the classic mode, and nothing else is asked for while it's its turn.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import assert_never

from pipeline.config.settings import MOST_WINDOWS
from pipeline.coordinator import consistent_schedule, reselect
from pipeline.coordinator.chunk_size import ChunkSize
from pipeline.coordinator.consistent_state import Approaching, Nowhere, Opening, Standing
from pipeline.coordinator.state import (
    Flowing,
    FoundEmpty,
    InTransaction,
    Order,
    Overlapping,
    Paused,
    PauseOrdered,
    Pausing,
    Planned,
    Planning,
    State,
    Strained,
    Unsettled,
    is_reading,
    of_snapshots,
    range_of,
    turns,
    window_table,
    with_run,
)
from pipeline.coordinator.window import Reading, Reconciling
from pipeline.messages.binlog import PauseReading, ResumeReading
from pipeline.messages.chunks import PlanTable, ReadChunk
from pipeline.messages.journal import Full
from pipeline.schema.table_schema import TableId
from pipeline.snapshot.snapshot import ChunkId, Chunking, Range, Snapshot


@dataclass(frozen=True, slots=True)
class _Plan:
    """A table of this snapshot is to be planned."""

    snapshot: Snapshot
    table: TableId


@dataclass(frozen=True, slots=True)
class _Chunk:
    """The next chunk of this range of a table is to be asked for: `rows`, which may take the `expected` bytes."""

    snapshot: Snapshot
    table: TableId
    run: Planned
    range: Range
    rows: int
    expected: int


def scheduled(state: State) -> tuple[State, tuple[Order, ...]]:
    """Ask for as many plans and chunks as the mode allows now."""
    if isinstance(state.room, Full):
        return _waiting_for_room(state)
    if isinstance(state.place, InTransaction):
        return _within(state)
    state, orders = consistent_schedule.stood(state)
    match state.stand:
        case Nowhere():
            state, others = _of_others(state)
        case Standing():
            state, others = _overlapping(state, MOST_WINDOWS)
        case Opening() | Approaching():
            state, others = _resumed(state)
        case _:
            assert_never(state.stand)
    return state, (*orders, *others)


def _of_others(state: State) -> tuple[State, tuple[Order, ...]]:
    """Ask for what isn't of a consistent snapshot."""
    state, again = reselect.order_reselect(state)
    match state.mode:
        case Pausing():
            state, orders = _pausing(state, next(_turns(state), None))
            return state, (*again, *orders)
        case Overlapping(most):
            turn = next(_turns(state), None)
            if turn is not None and turn.snapshot.blocking:
                state, orders = _pausing(state, turn)
                return state, (*again, *orders)
            state, resumed = _resumed(state)
            state, orders = _overlapping(state, most) if isinstance(state.gate, Flowing) else (state, ())
            return state, (*again, *resumed, *orders)
        case _:
            assert_never(state.mode)


def _within(state: State) -> tuple[State, tuple[Order, ...]]:
    """Nothing is asked for within a transaction, and its end has to come; but no earlier than what it stands for."""
    if isinstance(state.gate, Paused) and not _stands(state):
        return replace(state, gate=Flowing()), (ResumeReading(),)
    return state, ()


def _waiting_for_room(state: State) -> tuple[State, tuple[Order, ...]]:
    if isinstance(state.gate, Flowing):
        return replace(state, gate=PauseOrdered()), (PauseReading(),)
    return state, ()


def _resumed(state: State) -> tuple[State, tuple[Order, ...]]:
    """The state without a pause that's left over, of a blocking snapshot or for want of room."""
    return (state, ()) if isinstance(state.gate, Flowing) else _pausing(state, None)


def _overlapping(state: State, most: int) -> tuple[State, tuple[Order, ...]]:
    orders: list[Order] = []
    while (
        len(of_snapshots(state)) + _planning(state) < most and (turn := next(_turns(state), None)) is not None
    ):
        state, order = _asked(state, turn)
        orders.append(order)
    return state, tuple(orders)


def _pausing(state: State, turn: _Plan | _Chunk | None) -> tuple[State, tuple[Order, ...]]:
    """One window at a time, in a pause of the stream, which lasts only as long as chunks are read."""
    plans: tuple[Order, ...] = ()
    if of_snapshots(state) or _planning(state):
        turn = None
    if isinstance(turn, _Plan):
        state, plan = _asked(state, turn)
        plans = (plan,)
    match state.gate:
        case Flowing() if isinstance(turn, _Chunk):
            return replace(state, gate=PauseOrdered()), (PauseReading(),)
        case Paused() if isinstance(turn, _Chunk):
            state, order = _asked(state, turn)
            return state, (order,)
        case Paused() if not _stands(state):
            return replace(state, gate=Flowing()), (*plans, ResumeReading())
        case Flowing() | PauseOrdered() | Paused():
            return state, plans
        case _:
            assert_never(state.gate)


def _stands(state: State) -> bool:
    """Whether a chunk is being read for which the stream has to stand."""
    reading = {window.order.chunk.snapshot for window in of_snapshots(state) if isinstance(window, Reading)}
    if isinstance(state.mode, Pausing):
        return bool(reading)
    return any(each.blocking or each.consistent for each in state.checkpoint.snapshots if each.id in reading)


def _planning(state: State) -> int:
    return sum(isinstance(run, Planning) for run in state.runs.values())


# Whose turn it is


def _turns(state: State) -> Iterator[_Plan | _Chunk]:
    """What can be asked for now, in the order of its urgency."""
    checkpoint, limits = state.checkpoint, state.limits
    if checkpoint.paused or isinstance(state.source, Strained) or len(state.asked) >= limits.connections:
        return
    consistent = isinstance(state.stand, Standing)
    under_way = {t: each for t, each in turns(checkpoint).items() if each.consistent is consistent}
    wanted = _without_blocked(under_way)
    open_on = _windows_of_tables(state)
    priorities = {snapshot.priority for snapshot in wanted.values()}
    begins = {each: _under_way(state, wanted, each) < limits.connections for each in priorities}
    for table in sorted(wanted, key=lambda table: (-wanted[table].priority, open_on[table])):
        snapshot = wanted[table]
        match state.runs.get(table):
            case None if begins[snapshot.priority]:
                yield _Plan(snapshot, table)
            case Planned() as run:
                yield from _chunks(state, snapshot, run)
            case None | Planning() | Unsettled() | FoundEmpty():
                pass


def _windows_of_tables(state: State) -> Counter[TableId]:
    return Counter(map(window_table, of_snapshots(state)))


def _without_blocked(wanted: dict[TableId, Snapshot]) -> dict[TableId, Snapshot]:
    """Those of the first snapshot alone, if it's a blocking one, and else all but those of blocking ones."""
    first = next(iter(wanted.values()), None)
    if first is not None and first.blocking:
        return {table: snapshot for table, snapshot in wanted.items() if snapshot is first}
    return {table: snapshot for table, snapshot in wanted.items() if not snapshot.blocking}


def _under_way(state: State, wanted: dict[TableId, Snapshot], priority: int) -> int:
    """How many tables of this priority or a higher one are begun, and have something left to ask for.

    Those that stand still for a blocking snapshot don't count: it would wait for them, as they do for it.
    """
    return sum(
        bool(run.ranges) if isinstance(run, Planned) else True
        for table, run in state.runs.items()
        if table in wanted and wanted[table].priority >= priority
    )


def _chunks(state: State, snapshot: Snapshot, run: Planned) -> Iterator[_Chunk]:
    table = run.schema.table
    rows, expected = _rows(state, snapshot, table)
    if state.asked or of_snapshots(state):
        room = state.limits.memory - _held(state)
        if expected > room:
            return
    open_on = Counter(map(range_of, state.open))
    for each in sorted(run.ranges, key=lambda each: open_on[table, each.number]):
        if not is_reading(state, table, each.number):
            yield _Chunk(snapshot, table, run, each, rows, expected)


# How much


def _rows(state: State, snapshot: Snapshot, table: TableId) -> tuple[int, int]:
    """How many rows the table's next chunk is asked for, and the bytes that these may take."""
    size = state.sizes.get(table) or ChunkSize(snapshot.request(table).chunk_rows or state.limits.chunk_rows)
    return size.rows, size.bytes(size.rows, state.limits)


def _held(state: State) -> int:
    """The bytes of the rows that wait in windows, and of those that may come with what's asked for."""
    waiting = sum(
        state.sizes[window_table(window)].bytes(len(window.rows), state.limits)
        for window in of_snapshots(state)
        if isinstance(window, Reconciling)
    )
    return waiting + sum(state.asked.values())


def _asked(state: State, turn: _Plan | _Chunk) -> tuple[State, PlanTable | ReadChunk]:
    snapshot, table, position = turn.snapshot, turn.table, state.checkpoint.position
    request = snapshot.request(table)
    if isinstance(turn, _Plan):
        ranges = 0 if isinstance(snapshot.tables[table], Chunking) else state.limits.ranges
        return with_run(state, table, Planning(snapshot.id)), PlanTable(table, request, ranges, position)
    order = ReadChunk(
        chunk=ChunkId(snapshot.id, table, state.chunks + 1),
        schema=turn.run.schema,
        walk=turn.run.walk,
        request=request,
        range=turn.range.number,
        after=turn.range.done,
        end=turn.range.end,
        limit=turn.rows,
        asked_at=position,
    )
    opened = replace(state, open=(*state.open, Reading(order)), chunks=state.chunks + 1)
    return replace(opened, asked={**state.asked, order.chunk: turn.expected}), order
