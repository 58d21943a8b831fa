"""What the metrics and the log report of the coordinator's windows, snapshots and stopped tables."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from time import monotonic, time
from typing import assert_never, get_args

import structlog

from actors.runtime.measuring import contain_errors
from actors.runtime.metrics import Metrics
from pipeline import metrics as catalogue
from pipeline.coordinator import reselect
from pipeline.coordinator.snapshots import recapture
from pipeline.coordinator.state import Order, State
from pipeline.messages.chunks import ChunkFailed, ChunkRead, ReadByKeys, ReadChunk, ScanRead
from pipeline.messages.inboxes import ToWatermarkCoordinator
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import TableId
from pipeline.snapshot import reselect_keys
from pipeline.snapshot.checkpoint import Checkpoint
from pipeline.snapshot.snapshot import (
    ChunkId,
    Chunking,
    Completed,
    Progress,
    Repairing,
    Snapshot,
    SnapshotFailed,
    SnapshotStopped,
    SnapshotWaiting,
    TableSnapshot,
    is_dropped,
    progress,
    reason_without_keys,
)

log = structlog.get_logger()


class SnapshotMetrics:
    """Derives the metrics from the coordinator's messages, and from its state before and after each.

    `captured`: the tables that the configuration captures. Others have stopped because it leaves them out, and aren't
    counted. Nor are those whose snapshot failed because a statement has dropped them: nobody can mend that.
    """

    def __init__(self, metrics: Metrics, state: State, captured: TableFilter) -> None:
        self._metrics = metrics
        self._captured = captured
        # When the chunk of each open window was ordered, and when it came (s, monotonic).
        self._ordered: dict[ChunkId, float] = {}
        self._came: dict[ChunkId, float] = {}
        self._closed = 0  # windows whose rows go out with the orders at hand
        # When a table last came further (s since the epoch), also under an earlier coordinator.
        self._progress = metrics.value(catalogue.SNAPSHOT_PROGRESS) or math.nan
        self._report_stopped(state.checkpoint)
        self._report_snapshots((), state.checkpoint.snapshots)

    def record(
        self, message: ToWatermarkCoordinator, before: State, now: State, orders: tuple[Order, ...]
    ) -> None:
        """Records what a message has changed, before its orders go out."""
        self._count_message(message)
        self.time_windows(now, orders)
        self._report_state(before, now)
        _log_changes(before.checkpoint, now.checkpoint)

    @contain_errors
    def time_windows(self, state: State, orders: tuple[Order, ...]) -> None:
        """Times the windows from their orders until they aren't open any more."""
        now = monotonic()
        ordered = self._ordered | {
            order.chunk: now for order in orders if isinstance(order, ReadChunk | ReadByKeys)
        }
        still_open = {window.order.chunk for window in state.windows}
        self._ordered = {chunk: at for chunk, at in ordered.items() if chunk in still_open}
        came, self._came = self._came, {c: at for c, at in self._came.items() if c in still_open}
        ended = [at for chunk, at in ordered.items() if chunk not in still_open]
        waited = [at for chunk, at in came.items() if chunk not in still_open]
        self._closed = len(waited)
        for at in ended:
            self._metrics.observe(catalogue.WINDOW, now - at)
        for at in waited:
            self._metrics.observe(catalogue.PHASE, now - at, phase="wait")
        self._metrics.set(catalogue.WINDOWS_OPEN, len(still_open))
        oldest_s = min(self._ordered.values(), default=math.nan)
        self._metrics.set(catalogue.OLDEST_WINDOW, time() - (now - oldest_s))

    @contain_errors
    def time_emission(self, seconds: float) -> None:
        """Records how long the last message took until its orders were out, for each window that it closed."""
        for _ in range(self._closed):
            self._metrics.observe(catalogue.PHASE, seconds, phase="emit")

    @contain_errors
    def _count_message(self, message: ToWatermarkCoordinator) -> None:
        match message:
            case ChunkRead(chunk, _, rows):
                reread = chunk.snapshot == reselect_keys.REREAD
                counter = catalogue.ROWS_READ_AGAIN if reread else catalogue.SNAPSHOT_ROWS
                self._metrics.count(counter, rows.num_rows, table=str(chunk.table))
                if chunk in self._ordered:  # else its window has ended before it came
                    self._came[chunk] = monotonic()
            case ScanRead(chunk, _, rows):
                self._metrics.count(catalogue.SNAPSHOT_ROWS, rows.num_rows, table=str(chunk.table))
            case ChunkFailed(chunk):
                self._metrics.count(catalogue.CHUNKS, table=str(chunk.table), outcome="failed")
            case _:
                pass

    @contain_errors
    def _report_state(self, before: State, now: State) -> None:
        self._metrics.set(catalogue.SOURCE_BUSY, now.overloaded is not None)
        if now.unread is not before.unread or now.windows is not before.windows:
            self._report_unread(reselect.unread_keys(before), reselect.unread_keys(now))
        if now.checkpoint.stopped is not before.checkpoint.stopped:
            self._report_stopped(now.checkpoint)
        if now.checkpoint.snapshots is not before.checkpoint.snapshots:
            self._report_snapshots(before.checkpoint.snapshots, now.checkpoint.snapshots)

    @contain_errors
    def _report_unread(self, was: Mapping[TableId, int], now: Mapping[TableId, int]) -> None:
        for table in was.keys() | now.keys():
            self._metrics.set(catalogue.ROWS_UNREAD, now.get(table, 0), table=str(table))

    @contain_errors
    def _report_stopped(self, checkpoint: Checkpoint) -> None:
        stopped = [table for table in checkpoint.stopped if self._captured.match(table)]
        self._metrics.set(catalogue.STOPPED_TABLES, len(stopped), part="capture")
        # A table that was recaptured since the previous coordinator reported it is no longer among them.
        told: dict[tuple[str, ...], float] = {(str(table), "capture"): 1 for table in stopped}
        self._metrics.replace(catalogue.TABLE_STOPPED, told, part="capture")

    @contain_errors
    def _report_snapshots(self, was: tuple[Snapshot, ...], now: tuple[Snapshot, ...]) -> None:
        snapshots = (snapshot for snapshot in now if snapshot.verification is None)
        latest = {table: state for snapshot in snapshots for table, state in snapshot.tables.items()}
        tables = Counter(
            type(state)
            for table, state in latest.items()
            if self._captured.match(table) and not is_dropped(state)
        )
        for kind in get_args(TableSnapshot):
            self._metrics.set(catalogue.SNAPSHOT_TABLES, tables[kind], state=kind.wire)
        if all(snapshot.ended for snapshot in now):
            self._progress = math.nan
        elif math.isnan(self._progress) or _came_further(was, now):
            self._progress = time()
        self._metrics.set(catalogue.SNAPSHOT_PROGRESS, self._progress)
        for snapshot, table, before, state in _table_states(was, now):
            if progress(before) != progress(state):
                self._count_chunks(str(table), progress(before), progress(state))
                if snapshot.verification is None:
                    self._report_progress(str(table), progress(state))

    @contain_errors
    def _count_chunks(self, table: str, was: Progress, now: Progress) -> None:
        if now.chunks < was.chunks:  # it has begun again
            was = Progress()
        self._metrics.count(catalogue.CHUNKS, now.chunks - was.chunks, table=table, outcome="emitted")
        self._metrics.count(catalogue.ROWS_GIVEN_UP, now.superseded - was.superseded, table=table)

    @contain_errors
    def _report_progress(self, table: str, now: Progress) -> None:
        for gauge, count in (
            (catalogue.ROWS_DONE, now.rows),
            (catalogue.ROWS_EXPECTED, now.expected),
            (catalogue.RANGES, now.ranges),
            (catalogue.RANGES_DONE, now.ranges_done),
        ):
            self._metrics.set(gauge, count, table=table)


def _came_further(was: tuple[Snapshot, ...], now: tuple[Snapshot, ...]) -> bool:
    """Returns whether a table of a snapshot that was known is in another state. A snapshot more is no progress."""
    earlier = {snapshot.id: snapshot.tables for snapshot in was}
    return any(
        earlier[snapshot.id].get(table) not in (None, state)
        for snapshot in now
        if snapshot.id in earlier
        for table, state in snapshot.tables.items()
    )


def _table_states(
    was: tuple[Snapshot, ...], now: tuple[Snapshot, ...]
) -> Iterator[tuple[Snapshot, TableId, TableSnapshot, TableSnapshot]]:
    """Returns each table's state in each snapshot, after the state that it was in. One that has joined has waited."""
    earlier = {snapshot.id: snapshot.tables for snapshot in was}
    for snapshot in now:
        for table, state in snapshot.tables.items():
            yield snapshot, table, earlier.get(snapshot.id, {}).get(table, SnapshotWaiting()), state


@contain_errors
def _log_changes(before: Checkpoint, now: Checkpoint) -> None:
    """Logs which tables were stopped, and which tables' snapshots and verifications have begun or ended."""
    for table in now.stopped.keys() - before.stopped.keys():
        reason = recapture.stop_reason(table, now.stopped[table])
        log.error("the table was stopped", table=str(table), part="capture", reason=reason)
    if now.snapshots is not before.snapshots:
        for snapshot, table, was, state in _table_states(before.snapshots, now.snapshots):
            if type(was) is not type(state):
                if snapshot.verification is None:
                    _log_snapshot(snapshot.id, str(table), state)
                else:
                    _log_verification(snapshot.id, str(table), state, repairs=snapshot.verification.repairs)


@contain_errors
def _log_verification(id_: str, table: str, state: TableSnapshot, *, repairs: bool) -> None:
    match state:
        case SnapshotWaiting():
            pass
        case Chunking():
            log.info("the table's verification has begun", id=id_, table=table)
        case Completed(reread=rows) if repairs:
            log.info("all rows to repair are in the journal", id=id_, table=table, rows=rows)
        case Repairing(done) | Completed(done):
            log.info("all rows to verify are in the journal", id=id_, table=table, rows=done.rows)
        case SnapshotStopped():
            log.info("the table's verification was stopped", id=id_, table=table)
        case SnapshotFailed(reason):
            log.warning(
                "the table's verification failed", id=id_, table=table, reason=reason_without_keys(reason)
            )
        case _:
            assert_never(state)


@contain_errors
def _log_snapshot(id_: str, table: str, state: TableSnapshot) -> None:
    match state:
        case SnapshotWaiting() | Repairing():  # only a verification repairs
            pass
        case Chunking():
            log.info("the table's snapshot has begun", id=id_, table=table)
        case Completed(done):
            log.info("the table's snapshot is complete", id=id_, table=table, rows=done.rows)
        case SnapshotStopped():
            log.info("the table's snapshot was stopped", id=id_, table=table)
        case SnapshotFailed(reason):
            log.error("the table's snapshot failed", id=id_, table=table, reason=reason_without_keys(reason))
        case _:
            assert_never(state)
