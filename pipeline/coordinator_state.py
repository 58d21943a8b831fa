"""The coordinator's state, and the small changes of it that its rules are made of."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from pipeline.checkpoint import Checkpoint, Mirror
from pipeline.gtid import Gtid
from pipeline.keys import Key
from pipeline.messages import (
    Append,
    AppendRows,
    ChunkId,
    PauseReading,
    PlanTable,
    ReadChunk,
    ResumeReading,
    SignalAnswer,
)
from pipeline.schema import TableId, TableSchema
from pipeline.snapshot import Chunking, Completed, Failed, Snapshot, TableState, Waiting, progress
from pipeline.watermark import Coordinates
from pipeline.window import Reading, Window

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
    """The table's plan is asked for. `stale`: a statement passed since, so that the answer can't be used."""

    stale: bool = False


@dataclass(frozen=True, slots=True)
class Planned:
    """Chunks can be asked for: the next one begins behind `after`."""

    schema: TableSchema
    after: Key | None


@dataclass(frozen=True, slots=True)
class Exhausted:
    """The last chunk has been read; its window is still open."""


Run = Planning | Planned | Exhausted


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
class Between:
    """The stream is between two transactions."""


@dataclass(frozen=True, slots=True)
class Within:
    """The stream is inside this transaction: rows of it have gone out, and it hasn't passed.

    `answers` to signals and `stopped` tables have come since, and go out with its end.
    """

    gtid: Gtid
    answers: tuple[SignalAnswer, ...] = ()
    stopped: frozenset[TableId] = frozenset()


Place = Between | Within


@dataclass(frozen=True, slots=True)
class State:
    """All that the coordinator knows.

    `chunk_rows`: rows asked for in a chunk. `stream`: where the last transaction ended in the log, None before the
    stream's first event. `place`: what the stream is in now. `runs`: the tables whose snapshot is under way in this
    run. `open`: the open windows in the order asked. `chunks`: how many chunks were asked for in this run.
    """

    chunk_rows: int
    mode: WindowMode
    checkpoint: Checkpoint
    stream: Coordinates | None = None
    place: Place = Between()
    runs: dict[TableId, Run] = field(default_factory=dict)
    open: tuple[Window, ...] = ()
    gate: Gate = Flowing()
    chunks: int = 0


Order = PlanTable | ReadChunk | PauseReading | ResumeReading | AppendRows | Append


def ended(state: State, table: TableId, reason: str) -> State:
    """The table's snapshot, if one is under way, has failed for this reason."""
    snapshot = snapshot_of(state.checkpoint, table)
    if snapshot is None:
        return dropped(state, {table})
    return table_ended(state, snapshot, table, Failed(reason, progress(snapshot.tables[table])))


def table_ended(state: State, snapshot: Snapshot, table: TableId, ended: TableState) -> State:
    """The table's snapshot has come to its end; a mirror that it was filling is ready to be merged into."""
    was = snapshot.tables[table]
    state = with_table(dropped(state, {table}), snapshot, table, ended)
    filling = isinstance(was, Chunking) and was.first
    if not filling and not (isinstance(ended, Completed) and table not in state.checkpoint.mirrors):
        return state
    return checkpointed(state, mirrors={**state.checkpoint.mirrors, table: Mirror.READY})


def dropped(state: State, tables: Iterable[TableId]) -> State:
    """Forget the open windows and plans of these tables; a plan on its way is stale when it comes."""
    gone = frozenset(tables)
    runs: dict[TableId, Run] = {
        table: Planning(stale=True) if table in gone else run
        for table, run in state.runs.items()
        if table not in gone or isinstance(run, Planning)
    }
    return replace(state, runs=runs, open=tuple(w for w in state.open if table_of(w) not in gone))


def with_table(state: State, snapshot: Snapshot, table: TableId, table_state: TableState) -> State:
    """The state with another state of one table in a snapshot."""
    changed = replace(snapshot, tables={**snapshot.tables, table: table_state})
    snapshots = tuple(changed if s.id == snapshot.id else s for s in state.checkpoint.snapshots)
    return checkpointed(state, snapshots=remembered(snapshots))


def remembered(snapshots: tuple[Snapshot, ...]) -> tuple[Snapshot, ...]:
    """The snapshots without those that ended long ago."""
    forgotten = [snapshot.id for snapshot in snapshots if snapshot.ended][:-SNAPSHOTS_REMEMBERED]
    return tuple(snapshot for snapshot in snapshots if snapshot.id not in forgotten)


def with_run(state: State, table: TableId, run: Run) -> State:
    """The state with another run of a table."""
    return replace(state, runs={**state.runs, table: run})


def without_run(state: State, table: TableId) -> State:
    """The state in which a table has no run, so that its plan is asked for if it's wanted."""
    return replace(state, runs={t: run for t, run in state.runs.items() if t != table})


def checkpointed(state: State, **changes: object) -> State:
    """The state with these changes of its checkpoint."""
    return replace(state, checkpoint=replace(state.checkpoint, **changes))  # type: ignore[arg-type]


def snapshot_of(checkpoint: Checkpoint, table: TableId) -> Snapshot | None:
    """The first snapshot in which this table isn't ended."""
    return next((s for s, t in unended(checkpoint) if t == table), None)


def unended(checkpoint: Checkpoint) -> Iterator[tuple[Snapshot, TableId]]:
    """The tables of all snapshots that wait or are under way, in order."""
    for snapshot in checkpoint.snapshots:
        for table, state in snapshot.tables.items():
            if isinstance(state, Waiting | Chunking):
                yield snapshot, table


def reading(state: State, chunk: ChunkId) -> Reading | None:
    """The window whose chunk is being read, or None if it was dropped since."""
    return next((w for w in state.open if isinstance(w, Reading) and w.order.chunk == chunk), None)


def is_reading(state: State, table: TableId) -> bool:
    """Whether a chunk of the table is being read."""
    return any(isinstance(w, Reading) and table_of(w) == table for w in state.open)


def table_of(window: Window) -> TableId:
    """The table that a window is open on."""
    return window.order.chunk.table
