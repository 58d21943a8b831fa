"""Handles the ChunkSelector's answers: plans and chunks, and failures of both.

Each order has one answer. An answer counts only if its order is still valid. If a chunk's window was dropped, or a
statement made a plan stale, the answer is discarded, and only makes room for another order.

A chunk's answer names its order. A plan's answer doesn't have to: of a table one plan at most is under way
(`State.planning`). It stays there until its answer comes, whatever else the coordinator learns of the table meanwhile,
and only then is another one ordered.

A plan counts under the schema that holds in the stream, so no chunk of another schema is ever ordered. If the source is
ahead, the table waits until the stream has the same schema (`SchemaDiffers`). That is at the statement that changed it,
or when its new schema is verified. If neither comes, the table stops (`stop_contradicted_tables`), so that it doesn't
wait endlessly. A consistent snapshot leaves its position instead, and tries another one. If a table differs at
`MOST_POSITIONS` of them and no statement comes on the way, it stops too.
"""

from dataclasses import replace
from typing import Final

from pipeline.coordinator import reselect
from pipeline.coordinator import window as windows
from pipeline.coordinator.chunk_size import ChunkSize, resize
from pipeline.coordinator.snapshots.table_snapshots import fail_table, restart_table, stop_table
from pipeline.coordinator.state import (
    FoundEmpty,
    Planned,
    Planning,
    SchemaDiffers,
    State,
    drop_windows,
    size_of,
    with_plan,
    with_size,
    with_table,
)
from pipeline.coordinator.verification import repair
from pipeline.coordinator.window import Reading
from pipeline.messages.chunks import (
    ChunkFailed,
    ChunkRead,
    ChunkSchemaChanged,
    PlanFailed,
    ReadByKeys,
    RepairRows,
    ReselectRows,
    TablePlanned,
    TableRanges,
    WithoutRows,
)
from pipeline.schema.compatibility import difference, schemas_agree
from pipeline.schema.row_keys import ambiguous_keys
from pipeline.schema.table_schema import TableId, TableSchema
from pipeline.snapshot.checkpoint import Filling
from pipeline.snapshot.snapshot import DROPPED, ChunkId, Chunking, Progress, Range, Snapshot, advance_range
from pipeline.snapshot.turns import snapshot_of

# At how many positions of consistent snapshots a table may differ without a statement. A statement that passes the
# source while the transactions are open explains the first one, and comes before the next one.
MOST_POSITIONS: Final = 5

_CONTRADICTED = (
    "the source and the log contradict each other about it, and no statement has come that explains why: {reason}; "
    "if it was altered with sql_log_bin = 0, or is read at another server (snapshot.source), make the two equal"
)
_NOT_AGAIN = (
    "its changes lack columns (binlog_row_image), and rows whose values they leave out can't be read again: {reason}; "
    "set binlog_row_image = FULL"
)


def table_planned(state: State, message: TablePlanned) -> State:
    """Begins, continues or restarts a table's snapshot. It restarts if the walk has changed."""
    table = message.schema.table
    state, snapshot = _take_plan_order(state, table)
    if snapshot is None:
        return state
    schema = state.checkpoint.schemas.get(table)
    if schema is None or not schemas_agree(message.schema, schema):
        return _await_statement(state, table, _schema_differs(snapshot, message, schema))
    message = replace(message, schema=schema)
    match snapshot.tables[table], message.ranges:
        case Chunking(ranges, walk_version), _:
            if walk_version != message.walk.version(schema):
                return restart_table(state, snapshot, table)
            return with_plan(state, table, Planned(schema, message.walk, ranges))
        case _, TableRanges() as divided:
            return _begin_table(state, snapshot, message, divided)
        case _, WithoutRows():
            return with_plan(state, table, FoundEmpty(snapshot.id, message.high))
        case _:  # it was ordered while chunks were read, and is ordered again now that they begin again
            return state


def _take_plan_order(state: State, table: TableId) -> tuple[State, Snapshot | None]:
    """Returns the state in which the table's plan has come, and the snapshot that waited for it.

    None: its order isn't valid any more.
    """
    snapshot = snapshot_of(state.checkpoint, table)
    waited = snapshot is not None and state.planning.get(table) == Planning(snapshot.id)
    planning = {t: each for t, each in state.planning.items() if t != table}
    return replace(state, planning=planning), snapshot if waited else None


def _schema_differs(snapshot: Snapshot, message: TablePlanned, schema: TableSchema | None) -> SchemaDiffers:
    """Another snapshot's plan may come while the stream is stopped, or is to stop, for a consistent one."""
    reason = "the log doesn't have it" if schema is None else difference(message.schema, schema)
    return SchemaDiffers(reason, None if snapshot.consistent else message.high)


def _await_statement(state: State, table: TableId, differs: SchemaDiffers) -> State:
    """Waits until the stream has the statement that changed the table. Nothing of it is ordered before that."""
    state = with_plan(state, table, differs)
    if differs.high is not None or not _is_proven(state, table):
        return state
    positions = state.contradictions.get(table, 0) + 1
    if positions == MOST_POSITIONS:
        return stop_table(state, table, _CONTRADICTED.format(reason=differs.reason))
    return replace(state, contradictions={**state.contradictions, table: positions})


def _is_proven(state: State, table: TableId) -> bool:
    return table in state.checkpoint.schemas and table not in state.checkpoint.unproven


def stop_contradicted_tables(state: State) -> State:
    """Stops the tables for which the source and the log permanently contradict each other.

    The stream has passed all that the source showed. A statement that had changed the table would have come by then.
    """
    for table, plan in state.plans.items():
        if (
            isinstance(plan, SchemaDiffers)
            and plan.high is not None
            and _is_proven(state, table)
            and state.passed.has(plan.high)
        ):
            reason = _CONTRADICTED.format(reason=plan.reason)
            state = stop_table(state, table, reason)
    return state


def _begin_table(state: State, snapshot: Snapshot, message: TablePlanned, divided: TableRanges) -> State:
    table, request = message.schema.table, snapshot.request(message.schema.table)
    begins, ends = (None, *divided.splits), (*divided.splits, divided.end)
    ranges = tuple(Range(number, *keys) for number, keys in enumerate(zip(begins, ends, strict=True)))
    filling = isinstance(state.checkpoint.mirrors.get(table), Filling)
    first = filling and snapshot.fills(table) and request.surrogate is None
    known = state.chunk_sizes.get(table)
    size = ChunkSize(request.chunk_rows or state.limits.chunk_rows, known.row_bytes if known else None)
    counts = Progress(expected=divided.expected, ranges=len(ranges))
    chunking = Chunking(ranges, message.walk.version(message.schema), first, counts)
    begun = with_table(with_size(state, table, size), snapshot, table, chunking)
    return with_plan(begun, table, Planned(message.schema, message.walk, ranges))


def plan_failed(state: State, message: PlanFailed) -> State:
    """Fails the table's snapshot, if it waited for the plan."""
    table, reason = message.table, message.reason
    state, snapshot = _take_plan_order(state, table)
    if snapshot is None:
        return state
    # Without a statement the user may have lost a right.
    dropped = message.gone and table in state.checkpoint.unproven
    return fail_table(state, table, f"{DROPPED}: {reason}" if dropped else reason)


def chunk_read(state: State, message: ChunkRead) -> State:
    """Gives the chunk's window its rows and watermarks. The next chunk of its range can then be ordered."""
    state = _forget_order(state, message.chunk)
    window = _reading_window(state, message.chunk)
    if window is None:  # dropped since: by a statement, a stop, or a failure of its table
        return state
    if isinstance(window.order, ReadByKeys):
        return _measure_rows(_with_chunk(state, window, message), message)
    order, table = window.order, window.order.schema.table
    if why := ambiguous_keys(order.schema, message.rows):
        # As if the stream brought such a row: readers must not take the other rows for the complete table.
        return stop_table(state, table, why)
    plan = state.plans[table]
    assert isinstance(plan, Planned)  # otherwise the window would have been dropped
    state = _with_chunk(state, window, message)
    state = with_size(state, table, resize(size_of(state, order), order, message, state.limits))
    return with_plan(
        state, table, replace(plan, ranges=advance_range(plan.ranges, order.range, message.upto))
    )


def _measure_rows(state: State, read: ChunkRead) -> State:
    """Returns the state with the size of the table's rows, measured on rows that have come."""
    table, rows = read.chunk.table, len(read.rows)
    if not rows:
        return state
    known = state.chunk_sizes.get(table)
    row_bytes = max(read.bytes, read.rows.nbytes) / rows
    return with_size(state, table, ChunkSize(known.rows if known else state.limits.chunk_rows, row_bytes))


def _reading_window(state: State, chunk: ChunkId) -> Reading | None:
    """Returns the window whose chunk is being read, or None if it was dropped."""
    return next((w for w in state.windows if isinstance(w, Reading) and w.order.chunk == chunk), None)


def _with_chunk(state: State, window: Reading, message: ChunkRead) -> State:
    reconciling = windows.take_chunk(window, message)
    return replace(state, windows=tuple(reconciling if w is window else w for w in state.windows))


def chunk_failed(state: State, message: ChunkFailed) -> State:
    """Fails the table's snapshot, if it waited for the chunk. Rows that are read again wait, or stop its capture."""
    window, table = _reading_window(state, message.chunk), message.chunk.table
    state = _forget_order(state, message.chunk)
    if window is None:
        return state
    if message.again:
        return reselect.postpone(state, window)
    if isinstance(window.order, ReselectRows):
        return stop_table(state, table, _NOT_AGAIN.format(reason=message.reason))
    if isinstance(window.order, RepairRows):
        return repair.repair_failed(state, message.reason)
    return fail_table(state, table, message.reason)


def chunk_schema_changed(state: State, message: ChunkSchemaChanged) -> State:
    """Drops the table's windows, and waits for the statement that changed it."""
    table, wanted = message.chunk.table, _reading_window(state, message.chunk) is not None
    state = _forget_order(state, message.chunk)
    if not wanted:
        return state
    return _await_statement(drop_windows(state, {table}), table, SchemaDiffers(message.reason, message.high))


def _forget_order(state: State, chunk: ChunkId) -> State:
    if state.reselecting == chunk:
        return replace(state, reselecting=None)
    return replace(state, ordered={other: size for other, size in state.ordered.items() if other != chunk})
