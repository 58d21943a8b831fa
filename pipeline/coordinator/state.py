"""The coordinator's state, and the small changes of it that the rules of the coordinator use."""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final

import pyarrow as pa

from pipeline.config.column_protection import UNPROTECTED, Protection
from pipeline.config.settings import SnapshotMode
from pipeline.coordinator.chunk_size import ChunkLimits, ChunkSize
from pipeline.coordinator.consistent_state import ConsistentPhase, NoPosition
from pipeline.coordinator.window import Reading, Window
from pipeline.errors import InvariantBroken
from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.gtid_set import Gtid
from pipeline.gtid.transactions import Transactions
from pipeline.messages.binlog import PauseReading, ResumeReading
from pipeline.messages.chunks import (
    CloseScan,
    CloseTransactions,
    OpenScan,
    OpenTransactions,
    PlanTable,
    ReadByKeys,
    ReadChunk,
    ReadScan,
    ReselectRows,
    ScanOpened,
    SourceOverloaded,
)
from pipeline.messages.journal import Append, AppendRows, HasSpace, Room
from pipeline.messages.signals import SignalOutcome
from pipeline.schema.ddl.alter_table import Altered
from pipeline.schema.table_schema import TableId, TableSchema
from pipeline.snapshot.checkpoint import (
    Checkpoint,
    Filling,
    Mirror,
    Ready,
    awaits_snapshot,
    stays_incomplete,
)
from pipeline.snapshot.chunk_index import ChunkIndex
from pipeline.snapshot.reselect_keys import UnknownRows, rereads_rows
from pipeline.snapshot.snapshot import (
    ChunkId,
    Chunking,
    Completed,
    Range,
    Snapshot,
    SnapshotFailed,
    SnapshotStopped,
    SnapshotWaiting,
    TableSnapshot,
    Unfinished,
    progress,
)
from pipeline.snapshot.watermark import High, StreamPosition

# How many ended snapshots the checkpoint keeps, and how many ended verifications, beyond those that say why a mirror
# lacks rows.
SNAPSHOTS_REMEMBERED = 10

# Before the keys of what a failed snapshot has not read.
_NOT_READ: Final = " (not read: "


@dataclass(frozen=True, slots=True)
class Overlapping:
    """The stream continues while chunks are read, and up to `most` windows are open at once."""

    most: int


@dataclass(frozen=True, slots=True)
class Pausing:
    """The stream pauses while a chunk is read, one window at a time (`watermark = "pause"`)."""


WindowMode = Overlapping | Pausing


@dataclass(frozen=True, slots=True)
class Planning:
    """The coordinator has ordered the table's plan for this snapshot."""

    wire: ClassVar[str] = "planning"

    snapshot: str


@dataclass(frozen=True, slots=True)
class PlanningOutdated:
    """The coordinator has ordered the table's plan, and can't use the answer, because a statement passed."""

    wire: ClassVar[str] = "planning"


PlanOrdered = Planning | PlanningOutdated


@dataclass(frozen=True, slots=True)
class Planned:
    """The coordinator can order chunks. The next chunk of each range begins after its `done`, which is read and not
    emitted yet.

    Ranges that are read to their end are removed.
    """

    wire: ClassVar[str] = "planned"

    schema: TableSchema
    walk: ChunkIndex
    ranges: tuple[Range, ...]


@dataclass(frozen=True, slots=True)
class SchemaDiffers:
    """The table has another schema at the source than in the stream. It's planned again once the stream has the same
    schema.

    `reason`: how the source differs. Once the stream has passed `high`, it has everything that the source showed, so
    the statement that changed the table must have come. `high` is None in a consistent snapshot.
    """

    reason: str
    high: High | None

    wire: ClassVar[str] = "unsettled"


@dataclass(frozen=True, slots=True)
class FoundEmpty:
    """This snapshot's plan found no rows. The table is complete once the stream has passed this high watermark."""

    wire: ClassVar[str] = "foundempty"

    snapshot: str
    high: High


TablePlan = Planned | SchemaDiffers | FoundEmpty


@dataclass(frozen=True, slots=True)
class ReaderRunning:
    """The reader reads."""


@dataclass(frozen=True, slots=True)
class PauseOrdered:
    """The coordinator has ordered the reader to pause. Slices may still come."""


@dataclass(frozen=True, slots=True)
class PauseReached:
    """The reader has paused, and the coordinator has every slice that it read."""


ReaderState = ReaderRunning | PauseOrdered | PauseReached


@dataclass(frozen=True, slots=True)
class BetweenTransactions:
    """The stream is between two transactions."""


@dataclass(frozen=True, slots=True)
class InTransaction:
    """The stream is inside this transaction: some of its rows are sent, and its end hasn't come.

    `answers` to signals, `stopped` tables and what the journal gets of `altered` tables have come since. The order that
    ends the transaction takes them along.
    """

    gtid: Gtid
    answers: tuple[SignalOutcome, ...] = ()
    stopped: frozenset[TableId] = frozenset()
    altered: tuple[Altered, ...] = ()


@dataclass(frozen=True, slots=True)
class InScan:
    """The stream stands still between two transactions while a table without a key is read (`Scanning`).

    Some of its rows may be sent. `answers`: as of InTransaction.
    """

    answers: tuple[SignalOutcome, ...] = ()


StreamPhase = BetweenTransactions | InTransaction | InScan


@dataclass(frozen=True, slots=True)
class NoScan:
    """No table is scanned. `number` is the last scan's, and `completed` whether it was read to its end.

    So many (`failed`) scans of the same table came to nothing before.
    """

    number: int = 0
    failed: int = 0
    completed: bool = False


@dataclass(frozen=True, slots=True)
class OpeningScan:
    """The transaction for a scan is ordered. It isn't known yet what it sees.

    `touched`: the transactions that have changed the table since. `spoiled`: whether a statement may have altered it.
    """

    order: OpenScan
    snapshot: str
    touched: tuple[Transactions, ...] = ()
    spoiled: bool = False


@dataclass(frozen=True, slots=True)
class ApproachingScan:
    """The transaction is open, and the stream goes to `opened.high`. `spoiled`: the table has changed on that way."""

    order: OpenScan
    snapshot: str
    opened: ScanOpened
    spoiled: bool


@dataclass(frozen=True, slots=True)
class Scanning:
    """The rows are read, while the stream stands still. So many `chunks` of them, with so many `rows`, have come.

    `reading`: whether the next ones are ordered.
    """

    order: OpenScan
    snapshot: str
    opened: ScanOpened
    chunks: int = 0
    rows: int = 0
    reading: bool = False


Scan = NoScan | OpeningScan | ApproachingScan | Scanning


@dataclass(frozen=True, slots=True)
class Repair:
    """The batch of keys that a verification (`run`) repairs. `checks`: they are read again, and are to be compared."""

    run: str
    table: TableId
    batch: int
    keys: pa.RecordBatch
    last: bool
    checks: bool = False


@dataclass(frozen=True, slots=True)
class UnwrittenChunks:
    """Rows of chunks, as far as the journal hasn't reported them: their bytes, and the last one's SCN."""

    bytes: int = 0
    scn: int = 0


@dataclass(frozen=True, slots=True)
class State:
    """Everything that the coordinator knows.

    `limits`: how large chunks may be. `mode`: whether the stream continues while they are read. `checkpoint`: the
    durable part. A restart drops all that follows it, except the settings. `snapshot_mode`: how new tables are
    snapshotted without a signal. `stream`: where the last transaction ended in the log, None before the stream's first
    event. `phase`: whether the stream is inside a transaction or a scan. `plans`: how far the plan of each table is
    that a snapshot reads now. `planning`: the ordered plans that haven't come, one a table at most. `windows`: the open
    windows in the order in which they were ordered. `ordered`: the ordered chunks that haven't come, and the bytes that
    each may bring, whether or not its window is still open. `chunk_sizes`: by table. `reader`: whether the BinlogReader
    reads or pauses. `consistent_position`: where the stream is for a consistent snapshot. `scan`: how far the scan of a
    table without a key is. `overloaded`: why the source has no room for chunks, None if it has. `room`: whether the
    journal has room. `unwritten`: the chunks' rows that wait there. `markers`: the ids of marker rows that have passed,
    while a watermark may still be among them. `chunks`: how many chunks were ordered since the start. `unread`: the
    rows to read again that aren't ordered yet, the oldest first. `reselecting`: the rows that are ordered by their keys
    and haven't come. `postponed`: tables whose rows couldn't be read again, and the number of `chunks` before which
    other orders come first. `contradictions`: at how many positions of consistent snapshots a table differed at the
    source, since a statement on it passed. `repair`: the batch that is under way
    (`pipeline.coordinator.verification.repair`). `has_lake`: whether the pipeline has a lake. `protection`: the columns
    whose values may not be in the checkpoint.
    """

    limits: ChunkLimits
    mode: WindowMode
    checkpoint: Checkpoint
    snapshot_mode: SnapshotMode = SnapshotMode.NO_DATA
    stream: Coordinates | None = None
    phase: StreamPhase = BetweenTransactions()
    plans: dict[TableId, TablePlan] = field(default_factory=dict)
    planning: dict[TableId, PlanOrdered] = field(default_factory=dict)
    windows: tuple[Window, ...] = ()
    ordered: dict[ChunkId, int] = field(default_factory=dict)
    chunk_sizes: dict[TableId, ChunkSize] = field(default_factory=dict)
    reader: ReaderState = ReaderRunning()
    consistent_position: ConsistentPhase = field(default_factory=NoPosition)
    scan: Scan = NoScan()
    overloaded: SourceOverloaded | None = None
    room: Room = field(default_factory=HasSpace)
    unwritten: UnwrittenChunks = field(default_factory=UnwrittenChunks)
    markers: frozenset[str] = frozenset()
    chunks: int = 0
    unread: dict[TableId, tuple[UnknownRows, ...]] = field(default_factory=dict)
    reselecting: ChunkId | None = None
    postponed: dict[TableId, int] = field(default_factory=dict)
    contradictions: dict[TableId, int] = field(default_factory=dict)
    repair: Repair | None = None
    has_lake: bool = True
    protection: Protection = UNPROTECTED

    @property
    def passed(self) -> StreamPosition:
        """Returns the stream's position: what has passed."""
        checkpoint = self.checkpoint
        return StreamPosition(self.stream, checkpoint.position, self.markers, checkpoint.prepared)


Order = (
    PlanTable
    | ReadChunk
    | ReadByKeys
    | OpenTransactions
    | CloseTransactions
    | OpenScan
    | ReadScan
    | CloseScan
    | PauseReading
    | ResumeReading
    | AppendRows
    | Append
)


def require_between_transactions(state: State, what: str) -> None:
    """Raises InvariantBroken if the stream is within a transaction."""
    if isinstance(state.phase, InTransaction):
        raise InvariantBroken(f"{what} came within {state.phase.gtid}, which hadn't ended")


def stop_table(state: State, table: TableId, reason: str) -> State:
    """Stops the table's capture: its snapshots fail, and an open transaction keeps nothing of it."""
    if isinstance(state.phase, InTransaction):
        state = replace(state, phase=replace(state.phase, stopped=state.phase.stopped | {table}))
    state = with_checkpoint(state, stopped={**state.checkpoint.stopped, table: reason})
    state = forget_unknown_rows(state, table)
    while snapshot_of(state.checkpoint, table):  # also those that wait for the first one
        state = fail_table(state, table, reason)
    for snapshot, other in list(unfinished_tables(state.checkpoint)):  # and those that are being repaired
        if other == table:
            ended = SnapshotFailed(reason, progress(snapshot.tables[table]))
            state = end_table(state, snapshot, table, ended)
    return state


def fail_table(state: State, table: TableId, reason: str) -> State:
    """Marks the table's running snapshot, if it has one, as failed for this reason."""
    snapshot = snapshot_of(state.checkpoint, table)
    if snapshot is None:
        return drop_windows(state, {table})
    was = snapshot.tables[table]
    schema = state.checkpoint.schemas.get(table)
    hidden = schema is not None and state.protection.hides_key(schema)
    unread = "" if hidden else _unread_ranges(was)
    return end_table(state, snapshot, table, SnapshotFailed(f"{reason}{unread}", progress(was)))


def _unread_ranges(state: TableSnapshot) -> str:
    """Returns the unread part of the table, as text for the reason of a failure."""
    if not isinstance(state, Chunking):
        return ""
    ranges = (
        f"after {each.done} through {each.end}" if each.done else f"through {each.end}"
        for each in state.ranges
    )
    return f"{_NOT_READ}{', '.join(ranges)})"


def without_unread_ranges(failed: SnapshotFailed) -> SnapshotFailed:
    """Returns the failure whose reason doesn't name the unread part of the table, in which there are keys."""
    return replace(failed, reason=failed.reason.partition(_NOT_READ)[0])


def end_table(state: State, snapshot: Snapshot, table: TableId, ended: TableSnapshot) -> State:
    """Ends the table's snapshot. A mirror with all of its rows is ready for merges.

    A partly read mirror lacks rows. The next snapshot, whenever it comes, begins another generation. A complete mirror
    lacks rows too if they were to be read again by this snapshot. It isn't complete any more, and begins again here.
    """
    was, mirror = snapshot.tables[table], state.checkpoint.mirrors.get(table)
    state = with_table(drop_windows(state, {table}), snapshot, table, ended)
    fills = snapshot.fills(table) and not is_keyless(state.checkpoint, table)
    match mirror, ended:
        case Filling(since), Completed() if fills:
            return with_mirror(state, table, Ready(since))
        case Filling(), _ if _fills_mirror(was) and awaits_snapshot(state.checkpoint, table):
            # The next snapshot reads all rows into a mirror that has none of these.
            return with_mirror(state, table, Filling(begun_scn(state)))
        case Filling() | Ready(), SnapshotStopped() | SnapshotFailed() if rereads_rows(snapshot):
            return _without_unknown_rows(state, table)
        case _:
            return state


def _without_unknown_rows(state: State, table: TableId) -> State:
    """Returns the state in which the table's mirror begins again, unless the table has stopped. Another snapshot of it
    begins again, too, because its chunks so far are of the generation before."""
    if table in state.checkpoint.stopped:
        return state
    other = snapshot_of(state.checkpoint, table)
    if other is not None:
        state = with_table(state, other, table, SnapshotWaiting())
    return with_mirror(state, table, Filling(begun_scn(state)))


def _fills_mirror(was: TableSnapshot) -> bool:
    return isinstance(was, Chunking) and was.first


def begun_scn(state: State) -> int:
    """Returns the SCN at which a mirror begins for which nothing counts that has passed.

    Within a transaction that's its own SCN, the next one. So no part of it counts. The snapshot that fills the mirror
    is read after its end.
    """
    within = isinstance(state.phase, InTransaction)
    return state.checkpoint.scn + 1 if within else state.checkpoint.scn


def with_mirror(state: State, table: TableId, mirror: Mirror) -> State:
    """Returns the state with another state of the table's mirror."""
    return with_checkpoint(state, mirrors={**state.checkpoint.mirrors, table: mirror})


def restart_table(state: State, snapshot: Snapshot, table: TableId) -> State:
    """Begins the table's snapshot and its mirror again, because the meaning of its keys has changed."""
    if _fills_mirror(snapshot.tables[table]):
        state = with_mirror(state, table, Filling(begun_scn(state)))
    return with_table(drop_windows(state, {table}), snapshot, table, SnapshotWaiting())


def drop_windows(state: State, tables: Iterable[TableId]) -> State:
    """Removes the open windows and plans of these tables. A plan that is under way is outdated when it comes.

    Rows that were being read again have to be ordered once more. A scan of a table has to be opened again.
    """
    gone, unread = frozenset(tables), dict(state.unread)
    if isinstance(state.scan, OpeningScan | ApproachingScan) and state.scan.order.table in gone:
        state = replace(state, scan=replace(state.scan, spoiled=True))
    for window in reversed(state.windows):
        if isinstance(window.order, ReselectRows) and (table := window_table(window)) in gone:
            rows = UnknownRows.of(window.order.since, window.order.keys)
            unread[table] = (rows, *unread.get(table, ()))
    plans = {table: plan for table, plan in state.plans.items() if table not in gone}
    planning = {t: PlanningOutdated() if t in gone else each for t, each in state.planning.items()}
    still_open = tuple(w for w in state.windows if window_table(w) not in gone)
    return replace(state, plans=plans, planning=planning, windows=still_open, unread=unread)


def forget_unknown_rows(state: State, table: TableId) -> State:
    """Returns the state in which no row of the table waits to be read again."""
    still_open = (
        w for w in state.windows if not (isinstance(w.order, ReselectRows) and window_table(w) == table)
    )
    unread = {other: listed for other, listed in state.unread.items() if other != table}
    return replace(state, windows=tuple(still_open), unread=unread)


def with_table(state: State, snapshot: Snapshot, table: TableId, table_state: TableSnapshot) -> State:
    """Returns the state with another state of one table in a snapshot. When the table ends, its orders are removed."""
    requests = snapshot.requests
    if not isinstance(table_state, SnapshotWaiting | Chunking):
        requests = {other: request for other, request in requests.items() if other != table}
    changed = replace(snapshot, tables={**snapshot.tables, table: table_state}, requests=requests)
    snapshots = tuple(changed if s.id == snapshot.id else s for s in state.checkpoint.snapshots)
    return with_checkpoint(state, snapshots=snapshots)


def with_snapshot(state: State, snapshot: Snapshot) -> State:
    """Returns the state with one more snapshot.

    If it is the first snapshot of a table, the table has a mirror from here on. Earlier changes don't count for that
    mirror: another key may have told their rows apart. The same holds for a table whose mirror lacks rows, because the
    snapshot that filled it failed or was stopped.
    """
    mirrors = state.checkpoint.mirrors
    first = [
        table
        for table, waiting in snapshot.tables.items()
        if isinstance(waiting, SnapshotWaiting)
        and snapshot.fills(table)
        and not is_keyless(state.checkpoint, table)
        and (table not in mirrors or stays_incomplete(state.checkpoint, table))
    ]
    begun = {**mirrors, **dict.fromkeys(first, Filling(begun_scn(state)))}
    return with_checkpoint(state, snapshots=(*state.checkpoint.snapshots, snapshot), mirrors=begun)


def unused_id(checkpoint: Checkpoint, wanted: str) -> str:
    """Returns this id for a snapshot, or a similar one if a snapshot or a signal has it."""
    used = {*checkpoint.signals, *(snapshot.id for snapshot in checkpoint.snapshots)}
    return wanted if wanted not in used else unused_id(checkpoint, f"{wanted}-again")


def is_keyless(checkpoint: Checkpoint, table: TableId) -> bool:
    """Returns whether the table has no primary key, so that its rows can only be read all at once (a scan)."""
    schema = checkpoint.schemas.get(table)
    return schema is not None and not schema.key


def forget_old_snapshots(state: State) -> State:
    """Returns the state without the snapshots that ended long ago, in which the ends since are numbered.

    What has ended since stays, however much it is: no checkpoint has its end yet. The ends of verifications count by
    themselves, because the lake compares their rows later. A snapshot that a signal stopped stays while a mirror lacks
    rows because of that. So no statement begins the mirror again.
    """
    before = state.checkpoint.snapshots
    known = max((snapshot.end_number for snapshot in before), default=0)
    snapshots = _number_ends(before, known)
    old = {snapshot.id for snapshot in _beyond_remembered(snapshots) if snapshot.end_number <= known}
    if old:
        last = {table: snapshot.id for snapshot in snapshots for table in snapshot.tables}
        mirrors = state.checkpoint.mirrors
        snapshots = tuple(s for s in snapshots if s.id not in old or _explains_lack(s, last, mirrors))
    return state if snapshots == before else with_checkpoint(state, snapshots=snapshots)


def _number_ends(snapshots: tuple[Snapshot, ...], known: int) -> tuple[Snapshot, ...]:
    """Returns the snapshots with the numbers of their ends. So many (`known`) are given, and 0 is that of no end."""
    numbers = itertools.count(known + 1)
    return tuple(
        replace(snapshot, end_number=next(numbers) if snapshot.ended else 0)
        if snapshot.ended is not (snapshot.end_number > 0)
        else snapshot
        for snapshot in snapshots
    )


def _beyond_remembered(snapshots: tuple[Snapshot, ...]) -> Iterator[Snapshot]:
    """Yields the ended snapshots, and the ended verifications, except the last ones that ended."""
    by_end = sorted((snapshot for snapshot in snapshots if snapshot.ended), key=lambda each: each.end_number)
    yield from [each for each in by_end if each.verification is None][:-SNAPSHOTS_REMEMBERED]
    yield from [each for each in by_end if each.verification is not None][:-SNAPSHOTS_REMEMBERED]


def _explains_lack(ended: Snapshot, last: Mapping[TableId, str], mirrors: Mapping[TableId, Mirror]) -> bool:
    """Returns whether a mirror lacks rows because of it; `last`: the id of each table's last snapshot."""
    return any(
        isinstance(state, SnapshotStopped)
        and isinstance(mirrors.get(table), Filling)
        and last[table] == ended.id
        for table, state in ended.tables.items()
    )


def with_plan(state: State, table: TableId, plan: TablePlan) -> State:
    """Returns the state with another plan of a table."""
    return replace(state, plans={**state.plans, table: plan})


def without_plan(state: State, table: TableId) -> State:
    """Returns the state in which a table has no plan, so that the schedule plans it again if a snapshot wants it."""
    return replace(state, plans={t: plan for t, plan in state.plans.items() if t != table})


def with_checkpoint(state: State, **changes: object) -> State:
    """Returns the state with these changes of its checkpoint."""
    return replace(state, checkpoint=replace(state.checkpoint, **changes))  # type: ignore[arg-type]


def snapshot_of(checkpoint: Checkpoint, table: TableId) -> Snapshot | None:
    """Returns the snapshot that reads this table next or now.

    A table that is under way stays with its snapshot, even if another one would come before it.
    """
    wanting = [
        s for s in by_priority(checkpoint) if isinstance(s.tables.get(table), SnapshotWaiting | Chunking)
    ]
    under_way = (snapshot for snapshot in wanting if isinstance(snapshot.tables[table], Chunking))
    return next(under_way, wanting[0] if wanting else None)


def table_turns(checkpoint: Checkpoint) -> dict[TableId, Snapshot]:
    """Returns each table that a snapshot will read, with its `snapshot_of`, in the order of their turns."""
    turns: dict[TableId, Snapshot] = {}
    for snapshot, table in unfinished_tables(checkpoint):
        state = snapshot.tables[table]
        if isinstance(state, Chunking) or (isinstance(state, SnapshotWaiting) and table not in turns):
            turns[table] = snapshot
    return turns


def unfinished_tables(checkpoint: Checkpoint) -> Iterator[tuple[Snapshot, TableId]]:
    """Returns the tables of all waiting and running snapshots, in the snapshots' order."""
    for snapshot in by_priority(checkpoint):
        for table, state in snapshot.tables.items():
            if isinstance(state, Unfinished):
                yield snapshot, table


def by_priority(checkpoint: Checkpoint) -> list[Snapshot]:
    """Returns the snapshots, higher priorities first, then older ones."""
    return sorted(checkpoint.snapshots, key=lambda snapshot: -snapshot.priority)


def size_of(state: State, order: ReadChunk) -> ChunkSize:
    """Returns the chunk size of the order's table."""
    return state.chunk_sizes.get(order.schema.table, ChunkSize(order.limit))


def with_size(state: State, table: TableId, size: ChunkSize) -> State:
    """Returns the state with this chunk size of the table."""
    return replace(state, chunk_sizes={**state.chunk_sizes, table: size})


def is_reading(state: State, table: TableId, number: int) -> bool:
    """Returns whether a chunk of the table's range with this number is being read."""
    return any(isinstance(w, Reading) and range_of(w) == (table, number) for w in state.windows)


def snapshot_windows(state: State) -> tuple[Window, ...]:
    """Returns the open windows of snapshots, without those of rows that are read again."""
    return tuple(window for window in state.windows if isinstance(window.order, ReadChunk))


def window_table(window: Window) -> TableId:
    """Returns the table of a window."""
    return window.order.chunk.table


def range_of(window: Window) -> tuple[TableId, int]:
    """Returns the table and the number of the range of a window. Rows that are read again have a range of their own."""
    order = window.order
    return window_table(window), order.range if isinstance(order, ReadChunk) else -order.chunk.number
