"""The coordinator's state, and the small changes of it that its rules are made of."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar

from pipeline.config.settings import SnapshotMode
from pipeline.coordinator.chunk_size import ChunkLimits, ChunkSize
from pipeline.coordinator.consistent_state import ConsistentPhase, Nowhere
from pipeline.coordinator.reselect_keys import UnknownRows
from pipeline.coordinator.window import Reading, Window
from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.gtid_set import Gtid
from pipeline.messages.binlog import PauseReading, ResumeReading
from pipeline.messages.chunks import CloseTransactions, OpenTransactions, PlanTable, ReadChunk, ReselectRows
from pipeline.messages.journal import Append, AppendRows, HasSpace, Room
from pipeline.messages.signals import SignalOutcome
from pipeline.schema.table_schema import TableId, TableSchema
from pipeline.snapshot.checkpoint import Checkpoint, Filling, Mirror, Ready
from pipeline.snapshot.chunk_index import ChunkIndex
from pipeline.snapshot.snapshot import (
    ChunkId,
    Chunking,
    Completed,
    Range,
    Snapshot,
    SnapshotFailed,
    SnapshotWaiting,
    TableSnapshot,
    progress,
)
from pipeline.snapshot.watermark import High, StreamPosition

# How many ended snapshots the checkpoint remembers.
SNAPSHOTS_REMEMBERED = 10


@dataclass(frozen=True, slots=True)
class Overlapping:
    """The stream flows on while chunks are read, and up to `most` windows are open at once."""

    most: int


@dataclass(frozen=True, slots=True)
class Pausing:
    """The classic way: the stream is paused while a chunk is read, one window at a time."""


WindowMode = Overlapping | Pausing


@dataclass(frozen=True, slots=True)
class Planning:
    """The table's plan for this snapshot is asked for. `stale`: the answer can't be used, since a statement passed."""

    wire: ClassVar[str] = "planning"

    snapshot: str
    stale: bool = False


@dataclass(frozen=True, slots=True)
class Planned:
    """Chunks can be asked for: the next one of each range begins behind its `done`, which is read and not emitted yet.

    Ranges that are read to their end have left.
    """

    wire: ClassVar[str] = "planned"

    schema: TableSchema
    walk: ChunkIndex
    ranges: tuple[Range, ...]


@dataclass(frozen=True, slots=True)
class Unsettled:
    """The table has another schema at the source than in the stream: it's planned again once the stream is there.

    `reason`: how the source differs. Once the stream has passed `high`, it has all that the source showed, so that it
    would have come to the statement that changed the table. `high` is None in a consistent snapshot.
    """

    reason: str
    high: High | None

    wire: ClassVar[str] = "unsettled"


@dataclass(frozen=True, slots=True)
class FoundEmpty:
    """This snapshot's plan found no rows: its table is complete once the stream has passed this high watermark."""

    wire: ClassVar[str] = "foundempty"

    snapshot: str
    high: High


TableRun = Planning | Planned | Unsettled | FoundEmpty


@dataclass(frozen=True, slots=True)
class Flowing:
    """The reader reads."""


@dataclass(frozen=True, slots=True)
class PauseOrdered:
    """The reader was told to pause; slices may still come."""


@dataclass(frozen=True, slots=True)
class Paused:
    """The reader has paused, and every slice that it read has passed here."""


Gate = Flowing | PauseOrdered | Paused


@dataclass(frozen=True, slots=True)
class Eased:
    """The source has room for chunks."""


@dataclass(frozen=True, slots=True)
class Strained:
    """The source has enough to do, for this reason."""

    reason: str


SourceLoad = Eased | Strained


@dataclass(frozen=True, slots=True)
class BetweenTransactions:
    """The stream is between two transactions."""


@dataclass(frozen=True, slots=True)
class InTransaction:
    """The stream is inside this transaction: rows of it have gone out, and it hasn't passed.

    `answers` to signals and `stopped` tables have come since, and go out with its end.
    """

    gtid: Gtid
    answers: tuple[SignalOutcome, ...] = ()
    stopped: frozenset[TableId] = frozenset()


StreamPlace = BetweenTransactions | InTransaction


@dataclass(frozen=True, slots=True)
class State:
    """All that the coordinator knows.

    `unasked`: how tables that are new are snapshotted without a signal. `stream`: where the last transaction ended in
    the log, None before the stream's first event. `place`: what the stream is in now. `runs`: the tables whose snapshot
    is under way in this run. `open`: the open windows in the order asked. `asked`: the chunks that haven't come, and
    the bytes that each may bring, whether or not its window is still open. `sizes`: what's known of chunks, by table.
    `stand`: where the stream stands for a consistent snapshot. `source`: whether it has room for chunks. `markers`: the
    ids of marker rows that have passed, as far as a watermark may still be among them. `chunks`: how many chunks were
    asked for in this run. `unread`: the rows that are to be read again and haven't been asked for, those that wait
    longest first, and `rereading` what's asked for of them and hasn't come.
    """

    limits: ChunkLimits
    mode: WindowMode
    checkpoint: Checkpoint
    unasked: SnapshotMode = SnapshotMode.NO_DATA
    stream: Coordinates | None = None
    place: StreamPlace = BetweenTransactions()
    runs: dict[TableId, TableRun] = field(default_factory=dict)
    open: tuple[Window, ...] = ()
    asked: dict[ChunkId, int] = field(default_factory=dict)
    sizes: dict[TableId, ChunkSize] = field(default_factory=dict)
    gate: Gate = Flowing()
    stand: ConsistentPhase = field(default_factory=Nowhere)
    source: SourceLoad = Eased()
    room: Room = field(default_factory=HasSpace)
    markers: frozenset[str] = frozenset()
    chunks: int = 0
    unread: dict[TableId, tuple[UnknownRows, ...]] = field(default_factory=dict)
    rereading: ChunkId | None = None

    @property
    def passed(self) -> StreamPosition:
        """What has passed of the stream."""
        return StreamPosition(self.stream, self.checkpoint.position, self.markers)


Order = (
    PlanTable
    | ReadChunk
    | ReselectRows
    | OpenTransactions
    | CloseTransactions
    | PauseReading
    | ResumeReading
    | AppendRows
    | Append
)


def fail_table(state: State, table: TableId, reason: str) -> State:
    """The table's snapshot, if one is under way, has failed for this reason."""
    snapshot = snapshot_of(state.checkpoint, table)
    if snapshot is None:
        return dropped(state, {table})
    was = snapshot.tables[table]
    return table_ended(state, snapshot, table, SnapshotFailed(f"{reason}{_left(was)}", progress(was)))


def _left(state: TableSnapshot) -> str:
    """What wasn't read, for the reason of a failure."""
    if not isinstance(state, Chunking):
        return ""
    ranges = (
        f"after {each.done} through {each.end}" if each.done else f"through {each.end}"
        for each in state.ranges
    )
    return f" (not read: {', '.join(ranges)})"


def table_ended(state: State, snapshot: Snapshot, table: TableId, ended: TableSnapshot) -> State:
    """The table's snapshot has come to its end; a mirror of which it has read all rows is ready to be merged into.

    One that it has read in part lacks rows. The next snapshot, whenever it comes, begins another generation.
    """
    was, mirror = snapshot.tables[table], state.checkpoint.mirrors.get(table)
    state = with_table(dropped(state, {table}), snapshot, table, ended)
    match mirror, ended:
        case Filling(since), Completed() if _filled(was) or snapshot.request(table).whole:
            return with_mirror(state, table, Ready(since))
        case Filling(), _ if _filled(was) and to_be_filled(state.checkpoint, table):
            # The next snapshot reads all rows, and they go into a mirror that has none of these.
            return with_mirror(state, table, Filling(state.checkpoint.scn))
        case _:
            return state


def _filled(was: TableSnapshot) -> bool:
    return isinstance(was, Chunking) and was.first


def to_be_filled(checkpoint: Checkpoint, table: TableId) -> bool:
    """Whether a snapshot fills the table's mirror, or will from its beginning."""
    return any(
        _filled(snapshot.tables[table])
        or (isinstance(snapshot.tables[table], SnapshotWaiting) and snapshot.request(table).whole)
        for snapshot, other in unended(checkpoint)
        if other == table
    )


def given_up(checkpoint: Checkpoint, table: TableId) -> bool:
    """Whether the table's mirror lacks rows, and no snapshot is going to bring them."""
    return isinstance(checkpoint.mirrors.get(table), Filling) and not to_be_filled(checkpoint, table)


def with_mirror(state: State, table: TableId, mirror: Mirror) -> State:
    """The state with another state of the table's mirror."""
    return checkpointed(state, mirrors={**state.checkpoint.mirrors, table: mirror})


def begun_anew(state: State, snapshot: Snapshot, table: TableId) -> State:
    """The table's snapshot begins anew, since what its keys are keys of has changed; so does the mirror it fills."""
    if _filled(snapshot.tables[table]):
        state = with_mirror(state, table, Filling(state.checkpoint.scn))
    return with_table(dropped(state, {table}), snapshot, table, SnapshotWaiting())


def dropped(state: State, tables: Iterable[TableId]) -> State:
    """Forget the open windows and plans of these tables; a plan on its way is stale when it comes.

    Rows that were being read again are to be asked for once more.
    """
    gone, unread = frozenset(tables), dict(state.unread)
    for window in reversed(state.open):
        if isinstance(window.order, ReselectRows) and (table := window_table(window)) in gone:
            unread[table] = (UnknownRows(window.order.since, window.order.keys), *unread.get(table, ()))
    runs: dict[TableId, TableRun] = {
        table: replace(run, stale=True) if table in gone and isinstance(run, Planning) else run
        for table, run in state.runs.items()
        if table not in gone or isinstance(run, Planning)
    }
    still_open = tuple(w for w in state.open if window_table(w) not in gone)
    return replace(state, runs=runs, open=still_open, unread=unread)


def with_table(state: State, snapshot: Snapshot, table: TableId, table_state: TableSnapshot) -> State:
    """The state with another state of one table in a snapshot; what was asked for of it is forgotten with its end."""
    requests = snapshot.requests
    if not isinstance(table_state, SnapshotWaiting | Chunking):
        requests = {other: request for other, request in requests.items() if other != table}
    changed = replace(snapshot, tables={**snapshot.tables, table: table_state}, requests=requests)
    snapshots = tuple(changed if s.id == snapshot.id else s for s in state.checkpoint.snapshots)
    return checkpointed(state, snapshots=remembered(snapshots))


def with_snapshot(state: State, snapshot: Snapshot) -> State:
    """The state with one more snapshot.

    A table that it's the first one of has a mirror from here on, in which nothing of before counts: its changes until
    here may be of rows that were told apart by another key. So has one whose mirror lacks rows, since the snapshot that
    filled it failed or was stopped.
    """
    mirrors, scn = state.checkpoint.mirrors, state.checkpoint.scn
    first = [
        table
        for table, waiting in snapshot.tables.items()
        if isinstance(waiting, SnapshotWaiting)
        and snapshot.request(table).whole
        and (table not in mirrors or given_up(state.checkpoint, table))
    ]
    return checkpointed(
        state,
        snapshots=remembered((*state.checkpoint.snapshots, snapshot)),
        mirrors={**mirrors, **dict.fromkeys(first, Filling(scn))},
    )


def remembered(snapshots: tuple[Snapshot, ...]) -> tuple[Snapshot, ...]:
    """The snapshots without those that ended long ago."""
    forgotten = [snapshot.id for snapshot in snapshots if snapshot.ended][:-SNAPSHOTS_REMEMBERED]
    return tuple(snapshot for snapshot in snapshots if snapshot.id not in forgotten)


def with_run(state: State, table: TableId, run: TableRun) -> State:
    """The state with another run of a table."""
    return replace(state, runs={**state.runs, table: run})


def without_run(state: State, table: TableId) -> State:
    """The state in which a table has no run, so that its plan is asked for if it's wanted."""
    return replace(state, runs={t: run for t, run in state.runs.items() if t != table})


def checkpointed(state: State, **changes: object) -> State:
    """The state with these changes of its checkpoint."""
    return replace(state, checkpoint=replace(state.checkpoint, **changes))  # type: ignore[arg-type]


def snapshot_of(checkpoint: Checkpoint, table: TableId) -> Snapshot | None:
    """The snapshot whose turn it is to take this table.

    A table that's under way stays with its snapshot, even if one comes that would be before it.
    """
    wanting = [
        s for s in by_priority(checkpoint) if isinstance(s.tables.get(table), SnapshotWaiting | Chunking)
    ]
    under_way = (snapshot for snapshot in wanting if isinstance(snapshot.tables[table], Chunking))
    return next(under_way, wanting[0] if wanting else None)


def turns(checkpoint: Checkpoint) -> dict[TableId, Snapshot]:
    """Each table that a snapshot is to take, with its `snapshot_of`, in the order in which they're to be taken."""
    turns: dict[TableId, Snapshot] = {}
    for snapshot, table in unended(checkpoint):
        if table not in turns or isinstance(snapshot.tables[table], Chunking):
            turns[table] = snapshot
    return turns


def unended(checkpoint: Checkpoint) -> Iterator[tuple[Snapshot, TableId]]:
    """The tables of all snapshots that wait or are under way, in the snapshots' order."""
    for snapshot in by_priority(checkpoint):
        for table, state in snapshot.tables.items():
            if isinstance(state, SnapshotWaiting | Chunking):
                yield snapshot, table


def by_priority(checkpoint: Checkpoint) -> list[Snapshot]:
    """The snapshots, those of a higher priority first and then the older ones."""
    return sorted(checkpoint.snapshots, key=lambda snapshot: -snapshot.priority)


def size_of(state: State, order: ReadChunk) -> ChunkSize:
    """What's known of chunks of the order's table."""
    return state.sizes.get(order.schema.table, ChunkSize(order.limit))


def with_size(state: State, table: TableId, size: ChunkSize) -> State:
    """The state in which that's known of the table's chunks."""
    return replace(state, sizes={**state.sizes, table: size})


def reading(state: State, chunk: ChunkId) -> Reading | None:
    """The window whose chunk is being read, or None if it was dropped since."""
    return next((w for w in state.open if isinstance(w, Reading) and w.order.chunk == chunk), None)


def is_reading(state: State, table: TableId, number: int) -> bool:
    """Whether a chunk of the table's range with this number is being read."""
    return any(isinstance(w, Reading) and range_of(w) == (table, number) for w in state.open)


def of_snapshots(state: State) -> tuple[Window, ...]:
    """The open windows that aren't of rows that are read again."""
    return tuple(window for window in state.open if isinstance(window.order, ReadChunk))


def window_table(window: Window) -> TableId:
    """The table that a window is open on."""
    return window.order.chunk.table


def range_of(window: Window) -> tuple[TableId, int]:
    """The table and the number of its range that a window is open on; rows that are read again have one alone."""
    order = window.order
    return window_table(window), order.range if isinstance(order, ReadChunk) else -order.chunk.number
