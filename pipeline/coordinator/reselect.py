"""Reads rows again of which the log has only a part and the rest is unknown (`partial_rows` says which).

The rows are ordered by their primary keys, many at once, and come like a chunk. They come through a window into the
stream, as separate changes (`op` = r), each equal to the source at that position. A row that no longer exists doesn't
come. That's right, because the change that removed it is in the stream.

**Durable.** The keys needn't be stored: the journal has the rows that lack columns. For each table the checkpoint has
the SCN up to which no row is unread (`Checkpoint.unread`). A start finds the other keys in the segments after it. It
takes every row that lacks columns there, whether it had to be read again or not, which is harmless. If a window is
dropped, for example by a statement, its keys wait again.

**Bounded.** One order is out at a time, and its rows are few. Several windows may wait for the stream. If more keys
wait than memory may keep, all of the table is read again: a snapshot of it is requested, and takes its turn. All unread
rows were in the log before it begins. If the table's first snapshot hasn't begun yet, that one will read them. The
mirror that it fills begins after what has passed until now. If the requested snapshot fails or is stopped, the mirror
lacks rows from then on, so that it begins another generation (`end_table`).

A row that can't be read again stops its table by name, because it would be missing for good. That happens if its key
has no value here (a zero date), or if the server refuses the query. The coordinator repeats an order that failed for a
passing reason until it succeeds. The reason may be a lock on one table. So other tables and repairs come first, though
not for ever (`POSTPONED`).

Rows are read again even while snapshots are paused, because they belong to the changes. But nothing is ordered from an
overloaded source, or while the stream is stopped or about to stop for a consistent snapshot.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa

from pipeline.coordinator.snapshots.table_snapshots import with_snapshot
from pipeline.coordinator.state import (
    Planned,
    Planning,
    ReaderRunning,
    SchemaDiffers,
    State,
    begun_scn,
    drop_windows,
    forget_unknown_rows,
    window_table,
    with_checkpoint,
    with_mirror,
)
from pipeline.coordinator.window import Reading
from pipeline.messages.chunks import ReselectRows
from pipeline.schema.row_keys import key_tokens
from pipeline.schema.table_schema import TableId, TableSchema
from pipeline.snapshot.checkpoint import Checkpoint, Filling, stays_incomplete, unused_id
from pipeline.snapshot.reselect_keys import (
    REREAD,
    UnknownRows,
    keys_under,
    listed_after,
    rereading_id,
    rereads_rows,
)
from pipeline.snapshot.snapshot import ChunkId, Chunking, Snapshot, SnapshotWaiting
from pipeline.snapshot.turns import snapshot_of

# The most keys in one order. The server finds each by its index if its optimizer has room for their list: 1.5 MB at
# some 700 bytes for a key of several parts (MySQL 5.7 Reference Manual, `range_optimizer_max_mem_size`).
MOST_KEYS: Final = 2000

# The keys in an order while the size of the table's rows isn't known.
FIRST_KEYS: Final = 100

# How many windows of such rows may wait for the stream.
MOST_OPEN: Final = 16

# How many orders of others may come before rows that couldn't be read.
POSTPONED: Final = 1000

# How many bytes of keys of a table may wait, with the SCN of each.
MOST_KEY_BYTES: Final = 32 << 20


def moving_columns(state: State, table: TableId) -> tuple[str, ...]:
    """Returns the columns whose change may move a row out of what a snapshot still has to read.

    These are the columns of the index along which it walks, if that isn't the primary key. While the plan isn't known,
    or isn't known again, they are all columns outside the primary key. That is also so before the first chunk: a row
    may move beyond the last key, which the server may have answered already.
    """
    snapshot = snapshot_of(state.checkpoint, table)
    if snapshot is None or snapshot.request(table).surrogate is None:
        return ()
    if not isinstance(snapshot.tables[table], Chunking) and state.planning.get(table) != Planning(
        snapshot.id
    ):
        return ()
    plan = state.plans.get(table)
    schema = state.checkpoint.schemas[table]
    indices = plan.walk.columns if isinstance(plan, Planned) else range(len(schema.columns))
    return tuple(schema.columns[index].name for index in indices if index not in schema.key)


def request_reselect(state: State, table: TableId, keys: pa.RecordBatch, transactions: int) -> State:
    """Returns the state in which the rows with these keys are to be read again. So many transactions made them
    unknown."""
    if not len(keys):
        return state
    later = UnknownRows.of(state.checkpoint.scn + 1, keys)
    listed = listed_after(state.unread.get(table, ()), later)
    if sum(each.nbytes for each in listed) <= MOST_KEY_BYTES:
        return replace(state, unread={**state.unread, table: listed})
    return reread_table(forget_unknown_rows(state, table), table, state.checkpoint.scn + transactions)


def reread_table(state: State, table: TableId, scn: int) -> State:
    """Returns the state in which all rows of the table will be read, whatever changed them up to this SCN."""
    snapshot, mirror = snapshot_of(state.checkpoint, table), state.checkpoint.mirrors[table]
    snapshots = state.checkpoint.snapshots
    waits = snapshot is not None and isinstance(snapshot.tables[table], SnapshotWaiting)
    if isinstance(mirror, Filling) and snapshot is not None and waits and snapshot.verification is None:
        return with_mirror(drop_windows(state, {table}), table, Filling(scn))
    will_read = [
        each for each in snapshots if rereads_rows(each) and each.tables.get(table) == SnapshotWaiting()
    ]
    if will_read:  # a plan of it that is on its way may lack the last of these rows
        return drop_windows(state, {table}) if snapshot in will_read else state
    lacks_rows = stays_incomplete(state.checkpoint, table)
    name = unused_id(state.checkpoint, rereading_id(scn, table))
    state = with_snapshot(state, Snapshot(name, {table: SnapshotWaiting()}))
    return with_mirror(state, table, Filling(scn)) if lacks_rows else state


def begin_mirror_again(state: State, snapshot: Snapshot, table: TableId) -> State:
    """Returns the state in which nothing that has passed counts for a mirror that the snapshot will fill, if it is one
    that reads all rows of the table again.

    Its plan is ordered here, so it sees all that has passed. Another snapshot of the table may have been under way when
    rows became unknown whose keys were too many. If it doesn't complete the mirror, the mirror's first rows come with
    this snapshot. A first row completes no earlier change that lacks columns.
    """
    waits = isinstance(snapshot.tables[table], SnapshotWaiting)
    if rereads_rows(snapshot) and waits and isinstance(state.checkpoint.mirrors.get(table), Filling):
        return with_mirror(state, table, Filling(begun_scn(state)))
    return state


def recast_keys(state: State, schema: TableSchema) -> State:
    """Returns the state in which the keys of a table's unread rows have the types of its schema, which is verified.

    A type may have no room for a key whose row was removed before the statement. Then all rows are read again.
    """
    table = schema.table
    if table not in state.unread:
        return state
    listed = keys_under(schema, state.unread[table])
    if listed is None:
        return reread_table(forget_unknown_rows(state, table), table, begun_scn(state))
    return replace(state, unread={**state.unread, table: listed})


def restore_keys(state: State, keys: Mapping[TableId, pa.RecordBatch | None]) -> State:
    """Returns the state at a start, with the keys of the rows after the checkpoint's marks. None: the keys are
    unavailable, or the types of the table's schema have no room for them."""
    for table, since in state.checkpoint.unread.items():
        listed = keys.get(table)
        if table not in state.checkpoint.mirrors or table in state.checkpoint.stopped:
            continue
        if listed is None or listed.nbytes > MOST_KEY_BYTES:
            state = reread_table(state, table, state.checkpoint.scn)
        elif len(listed):
            state = replace(state, unread={**state.unread, table: (UnknownRows.of(since + 1, listed),)})
    return mark_unread(state)


def mark_unread(state: State) -> State:
    """Returns the state whose checkpoint says for each table up to where no row is unread."""
    first: dict[TableId, int] = {t: min(each.first for each in listed) for t, listed in state.unread.items()}
    for window in state.windows:
        if isinstance(window.order, ReselectRows):
            since = window.order.since
            first[window_table(window)] = min(since, first.get(window_table(window), since))
    unread = {table: since - 1 for table, since in first.items()}
    return state if unread == state.checkpoint.unread else with_checkpoint(state, unread=unread)


def postpone(state: State, window: Reading) -> State:
    """Returns the state in which the rows of this window, which couldn't be read for now, wait again."""
    order, table = window.order, window_table(window)
    assert isinstance(order, ReselectRows)
    listed = (UnknownRows.of(order.since, order.keys), *state.unread.get(table, ()))
    return replace(
        state,
        windows=tuple(other for other in state.windows if other is not window),
        unread={**state.unread, table: listed},
        postponed={**state.postponed, table: state.chunks + POSTPONED},
    )


def order_reselect(state: State, *, postponed: bool = False) -> tuple[State, tuple[ReselectRows, ...]]:
    """Orders the rows that wait longest, if that is possible now; `postponed`: also if others should come first."""
    if not state.unread or state.reselecting is not None or not isinstance(state.reader, ReaderRunning):
        return state, ()
    if state.overloaded is not None or _open_orders(state) >= MOST_OPEN:
        return state, ()
    readable = [
        table
        for table in state.unread
        if is_schema_settled(state, table) and (postponed or state.chunks >= state.postponed.get(table, 0))
    ]
    if not readable:
        return state, ()
    table = min(readable, key=lambda table: state.unread[table][0].first)
    schema, listed = state.checkpoint.schemas[table], state.unread[table]
    keys, left = _take_oldest(listed, _most_rows(state, table))
    named = key_tokens(keys, range(len(schema.key)))
    order = ReselectRows(
        ChunkId(REREAD, table, state.chunks + 1),
        schema,
        keys,
        named,
        listed[0].first,
        state.checkpoint.position,
    )
    unread = {other: several for other, several in state.unread.items() if other != table}
    return replace(
        state,
        unread=unread | ({table: left} if left else {}),
        reselecting=order.chunk,
        postponed={other: until for other, until in state.postponed.items() if other != table},
        windows=(*state.windows, Reading(order)),
        chunks=state.chunks + 1,
    ), (order,)


def unread_keys(state: State) -> dict[TableId, int]:
    """Returns how many keys of each table are to be read again, or are being read."""
    counts = {table: sum(map(len, listed)) for table, listed in state.unread.items()}
    for window in state.windows:
        if isinstance(window.order, ReselectRows):
            counts[window_table(window)] = counts.get(window_table(window), 0) + len(window.order.keys)
    return counts


def _open_orders(state: State) -> int:
    return sum(isinstance(window.order, ReselectRows) for window in state.windows)


def is_schema_settled(state: State, table: TableId) -> bool:
    """Returns whether the table's schema is verified in the stream, and the source isn't ahead of it."""
    checkpoint: Checkpoint = state.checkpoint
    unsettled = isinstance(state.plans.get(table), SchemaDiffers)
    return table in checkpoint.schemas and table not in checkpoint.unproven and not unsettled


def _most_rows(state: State, table: TableId) -> int:
    """Returns how many rows one order has, so that they take no more memory than a chunk may."""
    size = state.chunk_sizes.get(table)
    if size is None or size.row_bytes is None:
        return FIRST_KEYS
    return round(min(max(state.limits.chunk_bytes / max(size.row_bytes, 1), 1), MOST_KEYS))


def _take_oldest(
    listed: tuple[UnknownRows, ...], room: int
) -> tuple[pa.RecordBatch, tuple[UnknownRows, ...]]:
    """Returns the keys that wait longest, each once, as many as there is room for, and the rest."""
    taken: list[pa.RecordBatch] = []
    while listed and room:
        first, *others = listed
        taken.append(first.keys.slice(0, room))
        rest = first.after(room)
        room -= len(taken[-1])
        listed = (*((rest,) if len(rest) else ()), *others)
    keys = pa.concat_batches(taken)
    each = key_tokens(keys, range(keys.num_columns)).dictionary_encode().indices.to_numpy()
    _, once = np.unique(each, return_index=True)
    return keys.take(pa.array(np.sort(once))), listed
