"""A scan: all rows of a table without a primary key, in one transaction, while the stream stands still.

Nothing tells the rows of such a table apart. So it can't be read in chunks, and no change can supersede a row that was
read. The table is a bag, and its changes are a sum. Hence a scan reads the whole table as it is at one position of the
stream. The stream stops there until all rows are in it. Only a snapshot that was requested as blocking scans tables,
because the log waits meanwhile. The scan takes no lock, and needs no moment at which the whole source is quiet.

**Symbols.** The moments of a scan, in the order of time:

- A: the stream's position when the coordinator orders the transaction (`OpenScan`).
- L, the low watermark: a GTID set that the ChunkSelector reads just before V, as for a window.
- V: the view of the transaction. All rows are read in it. Just after V was made the transaction opens the table.
- H, the high watermark: the end of the server's log, which the ChunkSelector reads just after V was made. The rows are
  read later, but what they are was settled at V.
- E: the position in the stream at which the rows are emitted.

**Claim:** *the rows of V are those of the source's table at E.*

**Assumptions.**

1. A ⊆ L, as for a window (`_take_opening` checks it).
2. What L holds had committed before V was made, so V has it. `pipeline.snapshot.watermark` has the argument: the
   executed set without the transactions that a thread still owns, since either may be ahead of the other.
3. What V has was in the log before H was read, because a server writes a transaction to its log before it commits.
4. The stream has passed H at E, which is between two transactions (`_begin_scan`). It stays at E until the last row is
   emitted: any message of the log ends the scan (`ENDING`).
5. From the table's opening to the transaction's end the name means the same table: the server lets no other session
   alter, rename or drop it. A statement that did so before, after V, is in the log before H: 6 excludes it.
6. No transaction that passed between A and E and isn't in L changed the table (`touch_scan`). No statement passed there
   that may have altered it (`drop_windows`).

**Proof.** Suppose that a transaction T changed the table, and only one of V and the stream up to E has it.

1. V has T, and the stream lacks it. By 3 T was in the log before H was read. By 4 the stream has passed H: a
   contradiction.
2. The stream has T, and V lacks it. By 2 T isn't in L. By 1 T isn't in A. So T passed between A and E: 6 excludes it.

So both have the same transactions of this table. A bag is the sum of its changes in any order. So both have the same
rows. Transactions of other tables don't matter: that is why one busy source can be scanned. If the table itself changed
on the way from A to E, outside of L, the transaction is closed and another one opened. From L to H that is a few round
trips. A table that changes within each of MOST_TRIES such moments fails by name, and its changes still stream.

**All or nothing.** The rows go to the journal as those of a large transaction do (`AppendRows`): to files that no entry
names. The Append that completes the table's snapshot names all of them at once. Before that nothing has happened. A
crash, a lost connection, a signal or a message of the log discards what was read (`Append.withdrawn`). Then the scan
begins again, if it is still wanted. So no reader sees a part of a table, and no row twice.

**In the stream.** First comes a row that says that all rows of the table come now (`ChunkPart.begins_scan`, `t`). The
sum of the table's changes begins there. The rows (`r`) follow, each chunk with an SCN of its own. Then the log
continues. So the sum is the source's table at each later transaction boundary. It's right whatever the sum was before.
If a statement changes the rows and the log doesn't have that, the table stops by name (`Checkpoint.scanned`).

**What waits for a scan.** InnoDB keeps row versions for V, so the source purges nothing meanwhile. A statement that
alters the table waits for the scan's end, and so does everything after that statement, as for any SELECT. The signals
`stop-snapshot` and `pause-snapshot` end a scan at once. Other signals take effect at its end.
"""

from dataclasses import replace
from typing import Final, assert_never

import numpy as np
import pyarrow as pa

from pipeline.coordinator.snapshots.table_snapshots import end_table, fail_table
from pipeline.coordinator.state import (
    ApproachingScan,
    BetweenTransactions,
    InScan,
    NoScan,
    OpeningScan,
    Order,
    PauseOrdered,
    PauseReached,
    ReaderRunning,
    Scanning,
    State,
    with_checkpoint,
)
from pipeline.errors import InvariantBroken
from pipeline.gtid.transactions import Transactions
from pipeline.messages.binlog import LogAdvanced, PauseReading, ResumeReading
from pipeline.messages.changes import (
    ChangesVerified,
    EnginesSurveyed,
    ForeignKeysFollowed,
    MirrorInvalidated,
    SchemaChanged,
    SchemasVerified,
    TableStopped,
    TransactionPartVerified,
)
from pipeline.messages.chunks import CloseScan, OpenScan, ReadScan, ScanFailed, ScanOpened, ScanRead
from pipeline.messages.journal import ChunkPart
from pipeline.messages.row_images import TableChanges
from pipeline.schema.compatibility import difference, schemas_agree
from pipeline.schema.table_schema import TableId, TableSchema
from pipeline.snapshot.checkpoint import Checkpoint, is_keyless
from pipeline.snapshot.snapshot import ChunkId, Completed, Progress, Snapshot
from pipeline.snapshot.turns import table_turns
from pipeline.snapshot.watermark import is_usable_low

# How often a scan is tried before its table's snapshot fails.
MOST_TRIES: Final = 100

# Whatever may move the stream, or the schema of a table in it. It ends a scan.
ENDING: Final = (
    ChangesVerified,
    TransactionPartVerified,
    SchemaChanged,
    SchemasVerified,
    EnginesSurveyed,
    ForeignKeysFollowed,
    MirrorInvalidated,
    TableStopped,
    LogAdvanced,
)

_WRITTEN: Final = "transactions changed it at each moment at which it could have been read"
_UNPROVEN: Final = "a statement may have altered it, and its schema isn't verified in the log since"
_TRIED: Final = (
    "{reason} (tried {tries} times); send the signal again, best when few transactions change the table"
)


def next_scan(checkpoint: Checkpoint) -> tuple[Snapshot, TableId] | None:
    """Returns the table to scan, with its snapshot, or None if it's no such table's turn.

    Its schema may still be unproven. If the table is gone, no proof ever comes. The answer to OpenScan says so.
    """
    if checkpoint.paused or not any(snapshot.blocking for snapshot in checkpoint.snapshots):
        return None
    turns = table_turns(checkpoint)
    first = next(iter(turns.values()), None)
    if first is None or not first.blocking:
        return None
    return next(
        (
            (snapshot, table)
            for table, snapshot in turns.items()
            if snapshot is first and is_keyless(checkpoint, table)
        ),
        None,
    )


def can_open(state: State) -> bool:
    """Returns whether it's a table's turn to be scanned, and the source has room for that."""
    return state.overloaded is None and next_scan(state.checkpoint) is not None


def advance_scan(state: State) -> tuple[State, tuple[Order, ...]]:
    """Returns the next possible state, and its orders."""
    after, orders = _advance_once(state)
    if after.scan is state.scan and after.reader is state.reader:
        return after, orders
    further, more = advance_scan(after)
    return further, (*orders, *more)


def _advance_once(state: State) -> tuple[State, tuple[Order, ...]]:
    match state.scan, state.reader:
        case NoScan() as none, ReaderRunning() if can_open(state):
            return _open_scan(state, none)
        case ((OpeningScan() | ApproachingScan()), _) if not is_wanted(state):
            return _close(state, failed=0)
        case ApproachingScan() as approaching, _ if why := _obstacle(state, approaching):
            return _try_again(state, approaching.order, why)
        case ApproachingScan(opened=opened), ReaderRunning():
            return replace(state, reader=PauseOrdered()), (PauseReading(opened.high),)
        case ApproachingScan() as approaching, PauseReached():
            return _begin_scan(state, approaching)
        case _:
            return state, ()


def _open_scan(state: State, none: NoScan) -> tuple[State, tuple[Order, ...]]:
    turn = next_scan(state.checkpoint)
    assert turn is not None
    snapshot, table = turn
    order = OpenScan(none.number + 1, table, state.checkpoint.position, none.failed)
    return replace(state, scan=OpeningScan(order, snapshot.id)), (order,)


def is_wanted(state: State) -> bool:
    """Returns whether the scan that is under way is the next one. Raises InvariantBroken if there is none."""
    if isinstance(state.scan, NoScan):
        raise InvariantBroken("no table is scanned")
    turn = next_scan(state.checkpoint)
    return turn is not None and (turn[0].id, turn[1]) == (state.scan.snapshot, state.scan.order.table)


def touch_scan(state: State, tables: tuple[TableChanges, ...], transactions: Transactions) -> State:
    """Returns the state after transactions have passed that may have changed the table that is to be scanned."""
    scan = state.scan
    if not isinstance(scan, OpeningScan | ApproachingScan):
        return state
    for changes in tables:
        if changes.schema.table != scan.order.table:
            continue
        touched = transactions.taken(np.unique(changes.images.column("transaction").to_numpy()))
        if isinstance(scan, OpeningScan):
            scan = replace(scan, touched=(*scan.touched, touched))
        else:
            scan = replace(scan, spoiled=scan.spoiled or touched.any_outside(scan.opened.low))
    return replace(state, scan=scan)


def take_answer(
    state: State, message: ScanOpened | ScanRead | ScanFailed
) -> tuple[State, tuple[ChunkPart, ...]]:
    """Returns the state after an answer of the ChunkSelector, and the rows that it brings.

    An answer of an earlier scan changes nothing. Raises InvariantBroken if a low watermark isn't usable.
    """
    match message:
        case ScanOpened():
            return _take_opening(state, message), ()
        case ScanRead():
            return _take_rows(state, message)
        case ScanFailed():
            return _scan_failed(state, message), ()
        case _:
            assert_never(message)


def _take_opening(state: State, message: ScanOpened) -> State:
    """Returns the state with the transaction, if it is still wanted."""
    scan = state.scan
    if not isinstance(scan, OpeningScan) or scan.order.number != message.number:
        return state
    if not is_usable_low(message.low, scan.order.ordered_at):
        raise InvariantBroken(
            f"the scan of {scan.order.table} doesn't see what had passed when it was ordered"
        )
    spoiled = scan.spoiled or any(touched.any_outside(message.low) for touched in scan.touched)
    return replace(state, scan=ApproachingScan(scan.order, scan.snapshot, message, spoiled))


def _obstacle(state: State, scan: ApproachingScan) -> str | None:
    """Returns why the transaction can't be used, or None if it may still be."""
    if scan.spoiled:
        return _WRITTEN
    if isinstance(state.reader, PauseReached):
        if not state.passed.has(scan.opened.high):
            return "the stream stopped before the end of the log that the scan saw"
        if scan.order.table in state.checkpoint.unproven:
            return _UNPROVEN
        schema = state.checkpoint.schemas[scan.order.table]
        if not schemas_agree(scan.opened.schema, schema):
            return f"the source and the log differ: {difference(scan.opened.schema, schema)}"
    return None


def _begin_scan(state: State, scan: ApproachingScan) -> tuple[State, tuple[Order, ...]]:
    """Begins to read. The stream stands still from here on."""
    scanning = Scanning(scan.order, scan.snapshot, scan.opened)
    return order_rows(replace(state, scan=scanning, phase=InScan()))


def order_rows(state: State) -> tuple[State, tuple[Order, ...]]:
    """Orders the next rows of the scan, if none are ordered and the source isn't overloaded.

    Chunks may wait for a source that isn't ready, perhaps another server. The open transaction can still be read.
    """
    scan = state.scan
    overloaded = state.overloaded is not None and state.overloaded.overload is not None
    if not isinstance(scan, Scanning) or scan.reading or overloaded:
        return state, ()
    table, number = scan.order.table, state.chunks + 1
    snapshot = _snapshot(state, scan)
    order = ReadScan(
        ChunkId(snapshot.id, table, number),
        scan.order.number,
        state.checkpoint.schemas[table],
        snapshot.request(table).rows_per_s,
    )
    return replace(state, scan=replace(scan, reading=True), chunks=number), (order,)


def _take_rows(state: State, message: ScanRead) -> tuple[State, tuple[ChunkPart, ...]]:
    """Returns the state with the next rows of the scan, and what they are in the stream. The last ones complete the
    table's snapshot."""
    scan = state.scan
    if not isinstance(scan, Scanning) or scan.order.number != message.number:
        return state, ()
    parts: list[ChunkPart] = []
    rows, scn = message.rows, state.checkpoint.scn + scan.chunks + 1
    if not scan.chunks:
        none = pa.RecordBatch.from_pylist([], message.rows.schema)
        parts.append(replace(_part(state, scan, message.chunk, none, scn), begins_scan=True))
        scn += 1
    if len(rows):
        parts.append(_part(state, scan, message.chunk, rows, scn))
    scan = replace(scan, chunks=scan.chunks + len(parts), rows=scan.rows + len(rows), reading=False)
    if not message.last:
        return replace(state, scan=scan), tuple(parts)
    done = Progress(chunks=scan.chunks - 1, rows=scan.rows, ranges=1, ranges_done=1)
    ended = replace(_left(state, failed=0), scan=NoScan(message.number, completed=True))
    table, checkpoint = scan.order.table, state.checkpoint
    ended = with_checkpoint(ended, scn=checkpoint.scn + scan.chunks, scanned=checkpoint.scanned | {table})
    return end_table(ended, _snapshot(state, scan), table, Completed(done)), tuple(parts)


def _part(state: State, scan: Scanning, chunk: ChunkId, rows: pa.RecordBatch, scn: int) -> ChunkPart:
    schema: TableSchema = state.checkpoint.schemas[scan.order.table]
    opened = scan.opened
    return ChunkPart(chunk, schema, rows, opened.low, opened.high, scn, first=False, at=state.stream)


def _snapshot(state: State, scan: Scanning) -> Snapshot:
    return next(each for each in state.checkpoint.snapshots if each.id == scan.snapshot)


def _scan_failed(state: State, message: ScanFailed) -> State:
    """Tries the scan again, or fails the table's snapshot."""
    scan = state.scan
    if isinstance(scan, NoScan) or scan.order.number != message.number:
        return state
    if message.again:
        return _count_try(state, scan.order, message.reason)
    return fail_table(_left(state, failed=0), scan.order.table, message.reason)


def _try_again(state: State, order: OpenScan, why: str) -> tuple[State, tuple[Order, ...]]:
    """Closes the transaction, so that another one is opened, or fails the table's snapshot after many tries."""
    closed, orders = _close(state, failed=0)
    return _count_try(replace(state, reader=closed.reader), order, why), orders


def _count_try(state: State, order: OpenScan, why: str) -> State:
    tries = order.failed + 1
    if tries < MOST_TRIES:
        return _left(state, failed=tries)
    return fail_table(_left(state, failed=0), order.table, _TRIED.format(reason=why, tries=tries))


def _close(state: State, failed: int) -> tuple[State, tuple[Order, ...]]:
    """Leaves the scan, and lets the stream continue."""
    resumed = (ResumeReading(),) if isinstance(state.reader, PauseReached) else ()
    reader = ReaderRunning() if resumed else state.reader
    return replace(_left(state, failed), reader=reader), (CloseScan(), *resumed)


def _left(state: State, failed: int) -> State:
    assert not isinstance(state.scan, NoScan)
    phase = BetweenTransactions() if isinstance(state.phase, InScan) else state.phase
    return replace(state, scan=NoScan(state.scan.order.number, failed), phase=phase)


def abandon_scan(state: State) -> tuple[State, tuple[Order, ...]]:
    """Ends the scan, whose rows don't count. It begins again if it's still wanted."""
    assert not isinstance(state.scan, NoScan)
    return _close(state, state.scan.order.failed)


def withdrawn_tables(before: State, after: State) -> frozenset[TableId]:
    """Returns the table of which the journal may have rows of a scan, if this one ended before all of them came."""
    if not isinstance(before.scan, Scanning) or (isinstance(after.scan, NoScan) and after.scan.completed):
        return frozenset()
    return frozenset({before.scan.order.table})
