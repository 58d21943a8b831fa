"""The WatermarkCoordinator: performs what `pipeline.coordinator.step` decides.

Verified changes of the log come from the SchemaVerifier, chunks and plans from the ChunkSelector, signals from the
SignalListener. The journal and the lake report what they lack. Orders to read go to the ChunkSelector, pauses to the
BinlogReader, and the stream (`Append`, `AppendRows`) to the JournalWriter.

It replaces the state at once, before it sends the first order, so a cancellation can't tear the state. It sends the
orders as `step` lists them. If it can't send them all, the supervisor rebuilds capture from the last sealed segment.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Any, assert_never

import pyarrow as pa

from actors.runtime.actor import Actor, Sender
from actors.runtime.mailbox import Mailbox
from actors.runtime.metrics import Metrics
from actors.snapshot.snapshot_metrics import SnapshotMetrics
from pipeline.config.column_protection import Protection
from pipeline.config.settings import SnapshotMode
from pipeline.coordinator import reselect, resume
from pipeline.coordinator import step as coordinator
from pipeline.coordinator.chunk_size import ChunkLimits
from pipeline.coordinator.snapshots import recapture
from pipeline.coordinator.state import InTransaction, Order, SchemaDiffers, WindowMode, range_of
from pipeline.coordinator.window import Reconciling
from pipeline.messages import topology
from pipeline.messages.binlog import PauseReading, ResumeReading
from pipeline.messages.chunks import (
    CloseScan,
    CloseTransactions,
    OpenScan,
    OpenTransactions,
    PlanTable,
    ReadChunk,
    ReadScan,
    RepairRows,
    ReselectRows,
)
from pipeline.messages.inboxes import ToBinlogReader, ToChunkSelector, ToJournalWriter, ToWatermarkCoordinator
from pipeline.messages.journal import Append, AppendRows, Full
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import TableId
from pipeline.snapshot.checkpoint import Checkpoint
from pipeline.snapshot.key_protection import conceal_keys
from pipeline.snapshot.reselect_keys import NO_KEYS
from pipeline.snapshot.snapshot import to_json as snapshot_to_json


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
        ports: CoordinatorPorts,
        snapshot_mode: SnapshotMode = SnapshotMode.NO_DATA,
        unread: Mapping[TableId, pa.RecordBatch | None] = NO_KEYS,
        *,
        has_lake: bool = True,
        protection: Protection,
        captured: TableFilter,
    ) -> None:
        super().__init__(mailbox, metrics)
        self._ports = ports
        self._state, self._first_orders = coordinator.start(
            checkpoint,
            limits,
            mode,
            snapshot_mode,
            unread,
            has_lake=has_lake,
            protection=protection,
            captured=captured,
        )
        self._measured = SnapshotMetrics(metrics, self._state, captured)

    async def begin(self) -> None:
        """Give the orders that follow from the start."""
        self._measured.time_windows(self._state, self._first_orders)
        await self._perform(self._first_orders)

    async def handle(self, message: ToWatermarkCoordinator) -> None:
        """Decide, then perform."""
        before, began = self._state, monotonic()
        self._state, orders = coordinator.step(before, message)
        self._measured.record(message, before, self._state, orders)
        await self._perform(orders)
        self._measured.time_emission(monotonic() - began)

    def status(self) -> dict[str, Any]:
        """Returns the position, the transaction that is passing in parts, the snapshots, and the open windows.

        `runs`: the present work on a table. It is `planning`, `planned` (its chunks are read), `unsettled` (its schema
        at the source isn't the stream's yet) or `foundempty`. The last one says that the table is empty once the stream
        is where that was seen. `unsettled`: how the source differs. `unread`: how many rows of a table are to be read
        again.
        """
        checkpoint, phase, overloaded = self._state.checkpoint, self._state.phase, self._state.overloaded
        return {
            "position": str(checkpoint.position),
            "stream": str(self._state.stream) if self._state.stream else None,
            "within": str(phase.gtid) if isinstance(phase, InTransaction) else None,
            "scn": checkpoint.scn,
            "paused": checkpoint.paused,
            "no_room": self._state.room.reason if isinstance(self._state.room, Full) else None,
            "busy": overloaded and overloaded.reason,
            "captured": [str(table) for table in checkpoint.schemas],
            "consistent": self._state.consistent_position.wire,
            "keyless": [str(table) for table in resume.keyless_tables(checkpoint)],
            "stopped": {str(t): recapture.stop_reason(t, reason) for t, reason in checkpoint.stopped.items()},
            "mirrors": {str(table): mirror.wire for table, mirror in checkpoint.mirrors.items()},
            "unread": {str(table): count for table, count in reselect.unread_keys(self._state).items()},
            "snapshots": [
                snapshot_to_json(snapshot)
                for snapshot in conceal_keys(checkpoint, self._state.protection).snapshots
            ],
            "unsettled": {
                str(table): plan.reason
                for table, plan in self._state.plans.items()
                if isinstance(plan, SchemaDiffers)
            },
            "runs": {
                str(table): plan.wire for table, plan in {**self._state.planning, **self._state.plans}.items()
            },
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
                case PlanTable() | ReadChunk() | ReselectRows() | RepairRows():
                    await self.send(self._ports.selector, order)
                case OpenTransactions() | CloseTransactions():
                    await self.send(self._ports.selector, order)
                case OpenScan() | ReadScan() | CloseScan():
                    await self.send(self._ports.selector, order)
                case PauseReading() | ResumeReading():
                    await self.send(self._ports.reader, order)
                case AppendRows() | Append():
                    await self.send(self._ports.journal, order)
                case _:
                    assert_never(order)
