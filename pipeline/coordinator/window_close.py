"""Closes windows: rows of chunks enter the stream, and the progress of ranges advances.

A window closes between two transactions, once the stream has passed its high watermark and all earlier windows of its
range have closed. So one key, `done`, describes the progress of a range.
"""

from dataclasses import replace

from pipeline.coordinator import window as windows
from pipeline.coordinator.state import (
    FoundEmpty,
    Planned,
    State,
    end_table,
    range_of,
    snapshot_of,
    window_table,
    with_checkpoint,
    with_table,
    without_run,
)
from pipeline.coordinator.window import Reconciling, Window
from pipeline.errors import InvariantBroken
from pipeline.messages.chunks import ReselectRows
from pipeline.messages.journal import ChunkPart
from pipeline.schema.table_schema import TableId
from pipeline.snapshot.snapshot import Chunking, Completed, Progress, advance_range


def close_windows(state: State) -> tuple[State, tuple[ChunkPart, ...]]:
    """Closes all windows that can close, in the order of their orders, and the windows of a range strictly one after
    the other."""
    parts: list[ChunkPart] = []
    still_open: list[Window] = []
    held: set[tuple[TableId, int]] = set()
    for window in state.windows:
        free = range_of(window) not in held
        if free and isinstance(window, Reconciling) and windows.can_close(window, state.passed):
            state, part = _emit(state, window)
            parts.append(part)
        else:
            held.add(range_of(window))
            still_open.append(window)
    state = _forget_markers(_complete_empty_tables(replace(state, windows=tuple(still_open))))
    return state, tuple(part for part in parts if part.rows.num_rows)


def _complete_empty_tables(state: State) -> State:
    """Completes the tables whose plan found no rows, once the stream has passed their high watermark."""
    for table, run in state.runs.items():
        if not isinstance(run, FoundEmpty):
            continue
        snapshot = snapshot_of(state.checkpoint, table)
        if snapshot is None or snapshot.id != run.snapshot:
            # Another table's turn has come since then. Its own plan decides.
            state = without_run(state, table)
        elif state.passed.has(run.high):
            state = end_table(state, snapshot, table, Completed(Progress()))
    return state


def _emit(state: State, window: Reconciling) -> tuple[State, ChunkPart]:
    order = window.order
    table, schema = window_table(window), order.schema
    if schema != state.checkpoint.schemas.get(table):
        raise InvariantBroken(f"a window of {table} is open under a schema that doesn't hold any more")
    if isinstance(order, ReselectRows):
        scn = state.checkpoint.scn + 1
        part = ChunkPart(
            order.chunk,
            schema,
            windows.untouched_rows(window),
            window.low,
            window.high,
            scn,
            first=False,
            at=state.stream,
        )
        return with_checkpoint(state, scn=scn), part
    snapshot = snapshot_of(state.checkpoint, table)
    chunking = snapshot.tables[table] if snapshot else None
    if snapshot is None or not isinstance(chunking, Chunking):
        raise InvariantBroken(
            f"a window of {table} is open, but the table's snapshot is in the state {chunking}"
        )
    rows = windows.untouched_rows(window)
    left = advance_range(chunking.ranges, order.range, window.upto)
    counts = replace(
        chunking.progress,
        chunks=chunking.progress.chunks + 1,
        rows=chunking.progress.rows + rows.num_rows,
        superseded=chunking.progress.superseded + window.superseded + len(window.rows) - len(rows),
        ranges_done=chunking.progress.ranges - len(left),
    )
    scn = state.checkpoint.scn + 1
    part = ChunkPart(order.chunk, schema, rows, window.low, window.high, scn, chunking.first, state.stream)
    emitted = with_checkpoint(state, scn=scn)
    if not left:
        return end_table(emitted, snapshot, table, Completed(counts)), part
    return with_table(emitted, snapshot, table, replace(chunking, ranges=left, progress=counts)), part


def _forget_markers(state: State) -> State:
    """Removes marker rows for which no window and no empty table can wait."""
    if not state.markers or state.windows or any(not isinstance(run, Planned) for run in state.runs.values()):
        return state
    return replace(state, markers=frozenset())
