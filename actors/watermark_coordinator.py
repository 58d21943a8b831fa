"""The WatermarkCoordinator: performs what `pipeline.coordinator.step` decides.

The state is replaced in one go before the first order leaves, so that a cancellation can't tear it. The orders go out
in the order given; if that's cut short, the supervisor rebuilds all of capture from the last sealed segment, so that
nothing half done is ever mended in place.
"""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from time import monotonic, time
from typing import Any, assert_never, get_args

import pyarrow as pa
import structlog

from actors.runtime.actor import Actor, Sender
from actors.runtime.mailbox import Mailbox
from actors.runtime.measuring import contain_errors
from actors.runtime.metrics import Metrics
from pipeline import metrics as catalogue
from pipeline.config.settings import SnapshotMode
from pipeline.coordinator import recapture, reselect, resume
from pipeline.coordinator import step as coordinator
from pipeline.coordinator.chunk_size import ChunkLimits
from pipeline.coordinator.reselect_keys import NOTHING
from pipeline.coordinator.state import (
    InTransaction,
    Order,
    SchemaDiffers,
    SourceAtLimit,
    State,
    WindowMode,
    range_of,
)
from pipeline.coordinator.window import Reconciling
from pipeline.messages import topology
from pipeline.messages.binlog import PauseReading, ResumeReading
from pipeline.messages.chunks import (
    ChunkFailed,
    ChunkRead,
    CloseTransactions,
    OpenTransactions,
    PlanTable,
    ReadChunk,
    ReselectRows,
)
from pipeline.messages.inboxes import ToBinlogReader, ToChunkSelector, ToJournalWriter, ToWatermarkCoordinator
from pipeline.messages.journal import Append, AppendRows, Full
from pipeline.schema.table_schema import TableId
from pipeline.snapshot.checkpoint import Checkpoint
from pipeline.snapshot.snapshot import (
    ChunkId,
    Chunking,
    Completed,
    Progress,
    Snapshot,
    SnapshotFailed,
    SnapshotStopped,
    SnapshotWaiting,
    TableSnapshot,
    progress,
)
from pipeline.snapshot.snapshot import to_json as snapshot_to_json

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class CoordinatorPorts:
    """Where the coordinator's orders go."""

    reader: Sender[ToBinlogReader]
    selector: Sender[ToChunkSelector]
    journal: Sender[ToJournalWriter]


class WatermarkCoordinator(Actor[ToWatermarkCoordinator]):
    """Owns the state of the windows and of the snapshots, pause and resume."""

    name = topology.ActorName.WATERMARK_COORDINATOR

    def __init__(
        self,
        mailbox: Mailbox[ToWatermarkCoordinator],
        metrics: Metrics,
        checkpoint: Checkpoint,
        limits: ChunkLimits,
        mode: WindowMode,
        outlets: CoordinatorPorts,
        snapshot_mode: SnapshotMode = SnapshotMode.NO_DATA,
        unread: Mapping[TableId, pa.RecordBatch | None] = NOTHING,
    ) -> None:
        super().__init__(mailbox, metrics)
        self._outlets = outlets
        # When the chunk of each open window was ordered, and when it came (s, monotonic).
        self._ordered: dict[ChunkId, float] = {}
        self._came: dict[ChunkId, float] = {}
        self._state, self._first_orders = coordinator.start(checkpoint, limits, mode, snapshot_mode, unread)
        self._handed_on = 0  # windows whose rows go out with the orders at hand
        self._measure_start()

    async def begin(self) -> None:
        """Give the orders that follow from the start."""
        self._measure_windows(self._first_orders, monotonic())
        await self._perform(self._first_orders)

    async def handle(self, message: ToWatermarkCoordinator) -> None:
        """Decide, then perform."""
        before, began = self._state, monotonic()
        self._state, orders = coordinator.step(before, message)
        self._measure_message(message)
        self._measure_windows(orders, monotonic())
        self._measure_state(before)
        _tell(before.checkpoint, self._state.checkpoint)
        await self._perform(orders)
        self._measure_emitted(monotonic() - began)

    def status(self) -> dict[str, Any]:
        """Returns the position, the transaction that is passing in parts, the snapshots, and the open windows.

        `runs`: the present work on a table: `planning`, `planned` (its chunks are read), `unsettled` (its schema at the
        source isn't the stream's yet) or `foundempty` (it's empty once the stream is where that was seen). `unsettled`:
        how the source differs. `unread`: how many rows of a table are to be read again.
        """
        checkpoint, place = self._state.checkpoint, self._state.place
        return {
            "position": str(checkpoint.position),
            "stream": str(self._state.stream) if self._state.stream else None,
            "within": str(place.gtid) if isinstance(place, InTransaction) else None,
            "scn": checkpoint.scn,
            "paused": checkpoint.paused,
            "no_room": self._state.room.reason if isinstance(self._state.room, Full) else None,
            "busy": self._state.source.reason if isinstance(self._state.source, SourceAtLimit) else None,
            "captured": [str(table) for table in checkpoint.schemas],
            "consistent": self._state.consistent_position.wire,
            "keyless": [str(table) for table in resume.keyless_tables(checkpoint)],
            "stopped": {str(t): recapture.stop_reason(t, reason) for t, reason in checkpoint.stopped.items()},
            "mirrors": {str(table): mirror.wire for table, mirror in checkpoint.mirrors.items()},
            "unread": {str(table): count for table, count in reselect.unread_keys(self._state).items()},
            "snapshots": [snapshot_to_json(snapshot) for snapshot in checkpoint.snapshots],
            "unsettled": {
                str(table): run.reason
                for table, run in self._state.runs.items()
                if isinstance(run, SchemaDiffers)
            },
            "runs": {str(table): run.wire for table, run in self._state.runs.items()},
            "windows": [
                {
                    "chunk": str(window.order.chunk),
                    "snapshot": window.order.chunk.snapshot,
                    "table": str(window.order.chunk.table),
                    "range": range_of(window)[1],
                    "state": window.wire,
                    "rows": window.rows.num_rows if isinstance(window, Reconciling) else 0,
                }
                for window in self._state.windows
            ],
        }

    async def _perform(self, orders: tuple[Order, ...]) -> None:
        for order in orders:
            match order:
                case PlanTable() | ReadChunk() | ReselectRows() | OpenTransactions() | CloseTransactions():
                    await self.send(self._outlets.selector, order)
                case PauseReading() | ResumeReading():
                    await self.send(self._outlets.reader, order)
                case AppendRows() | Append():
                    await self.send(self._outlets.journal, order)
                case _:
                    assert_never(order)

    @contain_errors
    def _measure_start(self) -> None:
        self._measure_stopped()
        self._measure_snapshots({}, self._state.checkpoint.snapshots)

    @contain_errors
    def _measure_message(self, message: ToWatermarkCoordinator) -> None:
        match message:
            case ChunkRead(chunk, _, rows):
                reread = chunk.snapshot == reselect.REREAD
                counter = catalogue.ROWS_READ_AGAIN if reread else catalogue.SNAPSHOT_ROWS
                self.metrics.count(counter, rows.num_rows, table=str(chunk.table))
                if chunk in self._ordered:  # else its window has ended before it came
                    self._came[chunk] = monotonic()
            case ChunkFailed(chunk):
                self.metrics.count(catalogue.CHUNKS, table=str(chunk.table), outcome="failed")
            case _:
                pass

    @contain_errors
    def _measure_windows(self, orders: tuple[Order, ...], now: float) -> None:
        """Time the windows from their orders until they aren't open any more."""
        ordered = self._ordered | {
            order.chunk: now for order in orders if isinstance(order, ReadChunk | ReselectRows)
        }
        still_open = {window.order.chunk for window in self._state.windows}
        self._ordered = {chunk: at for chunk, at in ordered.items() if chunk in still_open}
        came, self._came = self._came, {c: at for c, at in self._came.items() if c in still_open}
        ended = [at for chunk, at in ordered.items() if chunk not in still_open]
        waited = [at for chunk, at in came.items() if chunk not in still_open]
        self._handed_on = len(waited)
        for at in ended:
            self.metrics.observe(catalogue.WINDOW, now - at)
        for at in waited:
            self.metrics.observe(catalogue.PHASE, now - at, phase="wait")
        self.metrics.set(catalogue.WINDOWS_OPEN, len(still_open))
        oldest_s = min(self._ordered.values(), default=math.nan)
        self.metrics.set(catalogue.OLDEST_WINDOW, time() - (now - oldest_s))

    @contain_errors
    def _measure_emitted(self, took: float) -> None:
        for _ in range(self._handed_on):
            self.metrics.observe(catalogue.PHASE, took, phase="emit")

    @contain_errors
    def _measure_state(self, before: State) -> None:
        """Tell what has changed of the rest."""
        now = self._state
        self.metrics.set(catalogue.SOURCE_BUSY, isinstance(now.source, SourceAtLimit))
        if now.unread is not before.unread or now.windows is not before.windows:
            self._measure_unread(reselect.unread_keys(before), reselect.unread_keys(now))
        if now.checkpoint.stopped is not before.checkpoint.stopped:
            self._measure_stopped()
        if now.checkpoint.snapshots is not before.checkpoint.snapshots:
            was = {snapshot.id: snapshot for snapshot in before.checkpoint.snapshots}
            self._measure_snapshots(was, now.checkpoint.snapshots)

    @contain_errors
    def _measure_unread(self, was: dict[TableId, int], now: dict[TableId, int]) -> None:
        for table in was.keys() | now.keys():
            self.metrics.set(catalogue.ROWS_UNREAD, now.get(table, 0), table=str(table))

    @contain_errors
    def _measure_stopped(self) -> None:
        stopped = self._state.checkpoint.stopped
        self.metrics.set(catalogue.STOPPED_TABLES, len(stopped), part="capture")
        # A table that was recaptured since the previous coordinator reported it is no longer among them.
        told: dict[tuple[str, ...], float] = {(str(table), "capture"): 1 for table in stopped}
        self.metrics.replace(catalogue.TABLE_STOPPED, told, part="capture")

    @contain_errors
    def _measure_snapshots(self, was: dict[str, Snapshot], now: tuple[Snapshot, ...]) -> None:
        latest = {table: state for snapshot in now for table, state in snapshot.tables.items()}
        tables = Counter(type(state) for state in latest.values())
        for kind in get_args(TableSnapshot):
            self.metrics.set(catalogue.SNAPSHOT_TABLES, tables[kind], state=kind.wire)
        self._measure_progress(was, now)

    @contain_errors
    def _measure_progress(self, was: dict[str, Snapshot], now: tuple[Snapshot, ...]) -> None:
        for snapshot in now:
            earlier = was[snapshot.id].tables if snapshot.id in was else {}
            for table, state in snapshot.tables.items():
                # A table that was created meanwhile has joined a snapshot that was under way.
                begun = progress(earlier.get(table, SnapshotWaiting()))
                if begun != progress(state):
                    self._measure_table(str(table), begun, progress(state))

    @contain_errors
    def _measure_table(self, name: str, begun: Progress, done: Progress) -> None:
        if done.chunks < begun.chunks:  # it has begun again
            begun = Progress()
        self.metrics.count(catalogue.CHUNKS, done.chunks - begun.chunks, table=name, outcome="emitted")
        self.metrics.count(catalogue.ROWS_GIVEN_UP, done.superseded - begun.superseded, table=name)
        for gauge, count in (
            (catalogue.ROWS_DONE, done.rows),
            (catalogue.ROWS_EXPECTED, done.expected),
            (catalogue.RANGES, done.ranges),
            (catalogue.RANGES_DONE, done.ranges_done),
        ):
            self.metrics.set(gauge, count, table=name)


@contain_errors
def _tell(before: Checkpoint, now: Checkpoint) -> None:
    """Log which tables were stopped, and which tables' snapshots have begun or ended."""
    if now.stopped is not before.stopped:
        for table in now.stopped.keys() - before.stopped.keys():
            reason = recapture.stop_reason(table, now.stopped[table])
            log.error("the table was stopped", table=str(table), part="capture", reason=reason)
    if now.snapshots is not before.snapshots:
        was = {
            (snapshot.id, table): type(state)
            for snapshot in before.snapshots
            for table, state in snapshot.tables.items()
        }
        for snapshot in now.snapshots:
            for table, state in snapshot.tables.items():
                if was.get((snapshot.id, table)) is not type(state):
                    _tell_state(snapshot.id, str(table), state)


@contain_errors
def _tell_state(id_: str, table: str, state: TableSnapshot) -> None:
    match state:
        case SnapshotWaiting():
            pass
        case Chunking():
            log.info("the table's snapshot has begun", id=id_, table=table)
        case Completed(done):
            log.info("the table's snapshot is complete", id=id_, table=table, rows=done.rows)
        case SnapshotStopped():
            log.info("the table's snapshot was stopped", id=id_, table=table)
        case SnapshotFailed(reason):
            log.error("the table's snapshot failed", id=id_, table=table, reason=reason)
        case _:
            assert_never(state)
