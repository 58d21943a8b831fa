"""The schedule: which chunk is asked for next, and when the stream is paused for it.

Both are for the moments between two transactions. Within one nothing is asked for: its rows that have gone by would
be in no window, and it isn't in the position that a low watermark is held against. A pause that was ordered before
and comes within a transaction is of no use either, so that reading goes on, and it's ordered again behind the end.

What's asked for is asked for *at* the stream's position, and whoever answers must see all that had passed there. That
holds for plans too: a row that a plan doesn't see, though it has passed, would be beyond its end and in no range.

**Whose turn it is.** Tables of a snapshot with a higher priority come first. Among equals that table gets the next
chunk which has the fewest windows open, and of it the range with the fewest, so that no large table keeps small ones
waiting. There are no more tables under way at once than connections, since more couldn't be read: otherwise a thousand
tables would all be begun and none be done for long, and the checkpoint would hold the ranges of them all.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import assert_never

from pipeline.coordinator_state import (
    Flowing,
    FoundEmpty,
    Order,
    Overlapping,
    Paused,
    PauseOrdered,
    Pausing,
    Planned,
    Planning,
    State,
    Strained,
    Within,
    is_reading,
    range_of,
    table_of,
    turns,
    with_run,
)
from pipeline.messages import PauseReading, PlanTable, ReadChunk, ResumeReading
from pipeline.schema import TableId
from pipeline.snapshot import ChunkId, Chunking, Range, Snapshot
from pipeline.window import Reading


@dataclass(frozen=True, slots=True)
class _Turn:
    """A table of this snapshot is to get on."""

    snapshot: Snapshot
    table: TableId


@dataclass(frozen=True, slots=True)
class _Plan(_Turn):
    """By being planned."""


@dataclass(frozen=True, slots=True)
class _Chunk(_Turn):
    """By a chunk of this range."""

    run: Planned
    range: Range


def scheduled(state: State) -> tuple[State, tuple[Order, ...]]:
    """Ask for as many plans and chunks as the mode allows now."""
    if isinstance(state.place, Within):
        return _within(state)
    match state.mode:
        case Overlapping(most):
            return _overlapping(state, most)
        case Pausing():
            return _pausing(state)
        case _:
            assert_never(state.mode)


def _within(state: State) -> tuple[State, tuple[Order, ...]]:
    if isinstance(state.gate, Paused):
        return replace(state, gate=Flowing()), (ResumeReading(),)
    return state, ()


def _overlapping(state: State, most: int) -> tuple[State, tuple[Order, ...]]:
    orders: list[Order] = []
    while len(state.open) + _planning(state) < most and (turn := next(_turns(state), None)) is not None:
        state, order = _asked(state, turn)
        orders.append(order)
    return state, tuple(orders)


def _pausing(state: State) -> tuple[State, tuple[Order, ...]]:
    turn = None if state.open or _planning(state) else next(_turns(state), None)
    plans: tuple[Order, ...] = ()
    if isinstance(turn, _Plan):
        state, plan = _asked(state, turn)
        plans = (plan,)
    match state.gate:
        case Flowing() if isinstance(turn, _Chunk):
            return replace(state, gate=PauseOrdered()), (PauseReading(),)
        case Paused() if isinstance(turn, _Chunk):
            state, order = _asked(state, turn)
            return state, (order,)
        case Paused() if not any(isinstance(window, Reading) for window in state.open):
            return replace(state, gate=Flowing()), (*plans, ResumeReading())
        case Flowing() | PauseOrdered() | Paused():
            return state, plans
        case _:
            assert_never(state.gate)


def _planning(state: State) -> int:
    return sum(isinstance(run, Planning) for run in state.runs.values())


def _turns(state: State) -> Iterator[_Turn]:
    """What can be asked for now, in the order of its urgency."""
    checkpoint, limits = state.checkpoint, state.limits
    if checkpoint.paused or isinstance(state.source, Strained):
        return
    wanted = turns(checkpoint)
    free = sum(isinstance(window, Reading) for window in state.open) < limits.connections
    open_on = Counter(map(table_of, state.open))
    for snapshot, table in _by_urgency(wanted, open_on):
        match state.runs.get(table):
            case None if _under_way(state, wanted, snapshot.priority) < limits.connections:
                yield _Plan(snapshot, table)
            case Planned() as run if free:
                yield from _chunks(state, snapshot, run)
            case None | Planned() | Planning() | FoundEmpty():
                pass


def _by_urgency(wanted: dict[TableId, Snapshot], open_on: Counter[TableId]) -> list[tuple[Snapshot, TableId]]:
    tables = sorted(wanted, key=lambda table: (-wanted[table].priority, open_on[table]))
    return [(wanted[table], table) for table in tables]


def _under_way(state: State, wanted: dict[TableId, Snapshot], priority: int) -> int:
    """How many tables of this priority or a higher one are planned, or have something left to ask for."""
    return sum(
        bool(run.ranges) if isinstance(run, Planned) else True
        for table, run in state.runs.items()
        if table not in wanted or wanted[table].priority >= priority
    )


def _chunks(state: State, snapshot: Snapshot, run: Planned) -> Iterator[_Chunk]:
    table, open_on = run.schema.table, Counter(map(range_of, state.open))
    for each in sorted(run.ranges, key=lambda each: open_on[table, each.number]):
        if not is_reading(state, table, each.number):
            yield _Chunk(snapshot, table, run, each)


def _asked(state: State, turn: _Turn) -> tuple[State, PlanTable | ReadChunk]:
    snapshot, table = turn.snapshot, turn.table
    request = snapshot.request(table)
    if not isinstance(turn, _Chunk):
        ranges = 0 if isinstance(snapshot.tables[table], Chunking) else state.limits.ranges
        return with_run(state, table, Planning(snapshot.id)), PlanTable(
            table, request, ranges, state.checkpoint.position
        )
    order = ReadChunk(
        chunk=ChunkId(snapshot.id, table, state.chunks + 1),
        schema=turn.run.schema,
        walk=turn.run.walk,
        request=request,
        range=turn.range.number,
        after=turn.range.done,
        end=turn.range.end,
        limit=request.chunk_rows or state.limits.chunk_rows,
        asked_at=state.checkpoint.position,
    )
    return replace(state, open=(*state.open, Reading(order)), chunks=state.chunks + 1), order
