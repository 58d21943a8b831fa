"""The coordinator's state, and the small changes of it that the rules of the coordinator use."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import ClassVar

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
from pipeline.schema.table_filter import ALL_TABLES, TableFilter
from pipeline.schema.table_schema import TableId, TableSchema
from pipeline.snapshot.checkpoint import Checkpoint, Mirror
from pipeline.snapshot.chunk_index import ChunkIndex
from pipeline.snapshot.reselect_keys import UnknownRows
from pipeline.snapshot.snapshot import ChunkId, Chunking, Range, Snapshot, SnapshotWaiting, TableSnapshot
from pipeline.snapshot.watermark import High, StreamPosition


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
    whose values may not be in the checkpoint. `captured`: the tables that the configuration captures.
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
    captured: TableFilter = ALL_TABLES

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


def with_plan(state: State, table: TableId, plan: TablePlan) -> State:
    """Returns the state with another plan of a table."""
    return replace(state, plans={**state.plans, table: plan})


def without_plan(state: State, table: TableId) -> State:
    """Returns the state in which a table has no plan, so that the schedule plans it again if a snapshot wants it."""
    return replace(state, plans={t: plan for t, plan in state.plans.items() if t != table})


def with_checkpoint(state: State, **changes: object) -> State:
    """Returns the state with these changes of its checkpoint."""
    return replace(state, checkpoint=replace(state.checkpoint, **changes))  # type: ignore[arg-type]


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
