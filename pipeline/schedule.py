"""The schedule: which chunk is asked for next, and when the stream is paused for it.

Both are for the moments between two transactions. Within one nothing is asked for: its rows that have gone by would
be in no window, and it isn't in the position that a low watermark is held against. A pause that was ordered before
and comes within a transaction is of no use either, so that reading goes on, and it's ordered again behind the end.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import assert_never

from pipeline.checkpoint import Checkpoint
from pipeline.coordinator_state import (
    Exhausted,
    Flowing,
    Order,
    Overlapping,
    Paused,
    PauseOrdered,
    Pausing,
    Planned,
    Planning,
    State,
    Within,
    is_reading,
    unended,
    with_run,
)
from pipeline.keys import Key
from pipeline.messages import ChunkId, PauseReading, PlanTable, ReadChunk, ResumeReading
from pipeline.schema import TableId, TableSchema
from pipeline.snapshot import Chunking, Snapshot
from pipeline.window import Reading


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
    for snapshot, table in _wanted(state.checkpoint):
        planning = sum(isinstance(run, Planning) for run in state.runs.values())
        if len(state.open) + planning >= most:
            break
        match state.runs.get(table):
            case None:
                state = with_run(state, table, Planning())
                orders.append(PlanTable(table))
            case Planned(schema, after) if not is_reading(state, table):
                state, order = _asked(state, snapshot, schema, after)
                orders.append(order)
            case Planned() | Planning() | Exhausted():
                pass
    return state, tuple(orders)


def _pausing(state: State) -> tuple[State, tuple[Order, ...]]:
    wanted = next(_wanted(state.checkpoint), None)
    run = state.runs.get(wanted[1]) if wanted else None
    plans: tuple[Order, ...] = ()
    if wanted and run is None and not state.open:
        state, plans = with_run(state, wanted[1], Planning()), (PlanTable(wanted[1]),)
    readable = wanted is not None and isinstance(run, Planned) and not state.open
    match state.gate:
        case Flowing() if readable:
            return replace(state, gate=PauseOrdered()), (PauseReading(),)
        case Paused() if readable:
            assert wanted is not None and isinstance(run, Planned)
            state, order = _asked(state, wanted[0], run.schema, run.after)
            return state, (order,)
        case Paused() if not any(isinstance(window, Reading) for window in state.open):
            return replace(state, gate=Flowing()), (*plans, ResumeReading())
        case Flowing() | PauseOrdered() | Paused():
            return state, plans
        case _:
            assert_never(state.gate)


def _asked(
    state: State, snapshot: Snapshot, schema: TableSchema, after: Key | None
) -> tuple[State, ReadChunk]:
    chunking = snapshot.tables[schema.table]
    assert isinstance(chunking, Chunking)
    chunk = ChunkId(snapshot.id, schema.table, state.chunks + 1)
    order = ReadChunk(chunk, schema, after, chunking.end, state.chunk_rows, state.checkpoint.position)
    return replace(state, open=(*state.open, Reading(order)), chunks=state.chunks + 1), order


def _wanted(checkpoint: Checkpoint) -> Iterator[tuple[Snapshot, TableId]]:
    """The tables whose snapshot should get on, in order; a table that two snapshots want waits for the first."""
    if checkpoint.paused:
        return
    seen: set[TableId] = set()
    for snapshot, table in unended(checkpoint):
        if table not in seen:
            seen.add(table)
            yield snapshot, table
