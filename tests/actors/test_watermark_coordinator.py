"""The WatermarkCoordinator: its reports on windows; its decisions are tested with `pipeline.coordinator.step`."""

import math
import time
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from actors.runtime.actor import Sender
from actors.runtime.mailbox import Mailbox
from actors.runtime.metrics import Metrics
from actors.watermark_coordinator import CoordinatorPorts, WatermarkCoordinator
from pipeline import metrics as catalogue
from pipeline.config.column_protection import UNPROTECTED
from pipeline.coordinator.state import Overlapping
from pipeline.messages.binlog import LogAdvanced, PauseReading
from pipeline.messages.changes import MirrorInvalidated, TableStopped
from pipeline.messages.chunks import ChunkFailed, PlanTable, ReadChunk, SourceOverloaded, SourceRecovered
from pipeline.messages.inboxes import ToChunkSelector, ToWatermarkCoordinator
from pipeline.messages.journal import DifferencesReported, JournalFull, JournalHasSpace
from pipeline.messages.signals import SignalReceived
from pipeline.messages.topology import EDGES, ActorName, inbox
from pipeline.schema.table_filter import ALL_TABLES, TableFilter
from pipeline.schema.table_schema import TableId
from pipeline.signals.signal import VerifyTables
from pipeline.snapshot.checkpoint import Checkpoint, Mirror, Ready
from pipeline.snapshot.snapshot import (
    DROPPED,
    LEFT_OUT,
    WHOLE_TABLE,
    Progress,
    Snapshot,
    SnapshotFailed,
    SnapshotWaiting,
    TableSnapshot,
)
from tests.pipeline.builders import (
    ITEMS,
    LIMITS,
    ORDERS,
    USERS,
    altered,
    execute,
    gtids,
    place,
    planned,
    read,
    statement,
    stop,
)

TABLE = {"table": str(ORDERS.table)}


def outlet(receiver: ActorName) -> Sender[ToChunkSelector]:
    """The way from the coordinator to that actor, which leaves everything in its mailbox."""
    (edge,) = (e for e in EDGES if e.sender is ActorName.WATERMARK_COORDINATOR and e.receiver is receiver)
    return Sender(edge, Mailbox(inbox(receiver)))


class House:
    """A coordinator of chunks of two rows, and the ways to the selector and to the reader."""

    def __init__(
        self,
        checkpoint: Checkpoint | None = None,
        captured: TableFilter = ALL_TABLES,
        metrics: Metrics | None = None,
    ) -> None:
        self.metrics = metrics or Metrics()
        self.orders, self.reader = outlet(ActorName.CHUNK_SELECTOR), outlet(ActorName.BINLOG_READER)
        checkpoint = checkpoint or Checkpoint(gtids("a:1-5"), schemas={ORDERS.table: ORDERS})
        ports = CoordinatorPorts(
            self.reader,  # type: ignore[arg-type]
            self.orders,
            outlet(ActorName.JOURNAL_WRITER),  # type: ignore[arg-type]
        )
        mailbox: Mailbox[ToWatermarkCoordinator] = Mailbox(inbox(ActorName.WATERMARK_COORDINATOR))
        self.coordinator = WatermarkCoordinator(
            mailbox,
            self.metrics,
            checkpoint,
            LIMITS,
            Overlapping(4),
            ports,
            protection=UNPROTECTED,
            captured=captured,
        )

    async def first_chunk(self) -> ReadChunk:
        """Have the table snapshotted: the order for its first chunk."""
        await self.coordinator.handle(LogAdvanced(place(10)))
        await self.coordinator.handle(execute("s1", ORDERS))
        assert await self.orders.mailbox.get() == PlanTable(
            ORDERS.table, WHOLE_TABLE, LIMITS.ranges, gtids("a:1-5")
        )
        await self.coordinator.handle(planned(ORDERS))
        order = await self.orders.mailbox.get()
        assert isinstance(order, ReadChunk)
        return order

    def tables(self) -> dict[str, float]:
        """How many tables are in each state of a snapshot."""
        states = ("waiting", "chunking", "completed", "stopped", "failed")
        return {
            state: count
            for state in states
            if (count := self.metrics.value(catalogue.SNAPSHOT_TABLES, state=state))
        }

    def timed(self, phase: str) -> float | None:
        """How many chunks have been timed in this phase."""
        return self.metrics.registry.get_sample_value(f"{catalogue.PHASE.name}_count", {"phase": phase})

    def windows_timed(self) -> float | None:
        """How many windows have been timed to their end."""
        return self.metrics.registry.get_sample_value(f"{catalogue.WINDOW.name}_count")


@pytest.mark.parametrize("closed", [True, False])
async def test_a_window_is_timed_from_its_order_to_its_end(closed: bool) -> None:
    began = time.time()
    house = House()
    order = await house.first_chunk()
    assert house.metrics.value(catalogue.WINDOWS_OPEN) == 1
    assert began <= house.metrics.value(catalogue.OLDEST_WINDOW) <= time.time()
    assert house.windows_timed() == 0
    await house.coordinator.handle(read(order, 1) if closed else statement("a:6", 20, ORDERS))
    assert house.metrics.value(catalogue.WINDOWS_OPEN) == 0
    assert math.isnan(house.metrics.value(catalogue.OLDEST_WINDOW))
    # What a statement ends before its rows have come has neither waited for the stream nor been handed on.
    assert house.timed("wait") == house.timed("emit") == (1 if closed else None)
    assert house.windows_timed() == 1
    assert house.metrics.value(catalogue.CHUNKS, outcome="emitted", **TABLE) == closed


async def test_progress_is_measured_and_told() -> None:
    house = House()
    order = await house.first_chunk()
    (window,) = house.coordinator.status()["windows"]
    assert (window["snapshot"], window["table"], window["range"]) == ("s1", str(ORDERS.table), order.range)
    await house.coordinator.handle(read(order, 1))
    (table,) = house.coordinator.status()["snapshots"][0]["tables"]
    assert (table["rows"], table["ranges"], table["ranges_done"]) == (1, 1, 1)
    for gauge, value in (
        (catalogue.ROWS_DONE, 1),
        (catalogue.ROWS_EXPECTED, table["expected"]),
        (catalogue.RANGES, 1),
        (catalogue.RANGES_DONE, 1),
    ):
        assert house.metrics.value(gauge, **TABLE) == value


async def test_how_snapshots_stand_is_counted_over_all_tables_by_the_last_of_each() -> None:
    house = House()
    assert house.tables() == {}
    order = await house.first_chunk()
    assert house.tables() == {"chunking": 1}
    await house.coordinator.handle(ChunkFailed(order.chunk, "it can't be read"))
    assert house.tables() == {"failed": 1}
    assert house.metrics.value(catalogue.CHUNKS, outcome="failed", **TABLE) == 1
    await house.coordinator.handle(execute("s2", ORDERS))
    assert house.tables() == {"waiting": 1}


async def test_a_verification_hides_no_snapshot() -> None:
    mirrors: dict[TableId, Mirror] = {ORDERS.table: Ready(2)}
    house = House(Checkpoint(gtids("a:1-5"), scn=7, schemas={ORDERS.table: ORDERS}, mirrors=mirrors))
    order = await house.first_chunk()
    await house.coordinator.handle(ChunkFailed(order.chunk, "it can't be read"))
    await house.coordinator.handle(SignalReceived(VerifyTables("v1")))
    assert [each["id"] for each in house.coordinator.status()["snapshots"]] == ["s1", "v1"]
    assert house.tables() == {"failed": 1}


async def verified(*, repair: bool = False) -> tuple[House, ReadChunk]:
    """A coordinator of a table with a complete mirror, and the order for the first chunk of its verification."""
    mirrors: dict[TableId, Mirror] = {ORDERS.table: Ready(2)}
    house = House(Checkpoint(gtids("a:1-5"), scn=7, schemas={ORDERS.table: ORDERS}, mirrors=mirrors))
    await house.coordinator.handle(LogAdvanced(place(10)))
    await house.coordinator.handle(SignalReceived(VerifyTables("v1", repair=repair)))
    await house.orders.mailbox.get()
    await house.coordinator.handle(planned(ORDERS))
    order = await house.orders.mailbox.get()
    assert isinstance(order, ReadChunk)
    return house, order


async def test_the_log_of_a_failed_snapshot_has_no_key_and_the_status_has_what_was_not_read() -> None:
    house = House()
    order = await house.first_chunk()
    with capture_logs() as logs:
        await house.coordinator.handle(ChunkFailed(order.chunk, "it can't be read"))
    (told,) = logs
    assert (told["event"], told["reason"]) == ("the table's snapshot failed", "it can't be read")
    (table,) = house.coordinator.status()["snapshots"][0]["tables"]
    assert table["reason"] == "it can't be read (not read: through (9,))"


@pytest.mark.parametrize("repairs", [False, True])
async def test_a_verification_is_no_progress_of_a_snapshot_and_has_its_own_words(repairs: bool) -> None:
    with capture_logs() as logs:
        house, order = await verified(repair=repairs)
        await house.coordinator.handle(read(order, 1))
        if repairs:
            await house.coordinator.handle(DifferencesReported("v1", ORDERS.table, 1, None, last=True))
    assert house.metrics.value(catalogue.CHUNKS, outcome="emitted", **TABLE) == 1
    for gauge in (catalogue.ROWS_DONE, catalogue.ROWS_EXPECTED, catalogue.RANGES, catalogue.RANGES_DONE):
        assert not house.metrics.value(gauge, **TABLE)
    told = [(each["event"], each.get("rows")) for each in logs]
    assert told == [
        ("the table's verification has begun", None),
        ("all rows to verify are in the journal", 1),
        *([("all rows to repair are in the journal", 0)] if repairs else []),
    ]


@pytest.mark.parametrize(
    ("stopped", "event"),
    [(True, "the table's verification was stopped"), (False, "the table's verification failed")],
)
async def test_a_verification_that_ends_early_lacks_no_rows_of_the_lake(stopped: bool, event: str) -> None:
    house, order = await verified()
    with capture_logs() as logs:
        await house.coordinator.handle(
            stop("st", ORDERS) if stopped else ChunkFailed(order.chunk, "it can't be read")
        )
    (told,) = logs
    assert (told["event"], told["log_level"]) == (event, "info" if stopped else "warning")


async def test_tables_that_have_stopped_are_counted_also_after_a_start() -> None:
    house = House()
    assert house.metrics.value(catalogue.STOPPED_TABLES, part="capture") == 0
    await house.coordinator.handle(TableStopped(ORDERS.table, "its rows can't be decoded"))
    again = House(Checkpoint(gtids("a:1-5"), schemas={ORDERS.table: ORDERS}, stopped={ORDERS.table: "so"}))
    for each in (house, again):
        assert each.metrics.value(catalogue.STOPPED_TABLES, part="capture") == 1
        assert each.metrics.value(catalogue.TABLE_STOPPED, part="capture", **TABLE) == 1


async def test_a_table_that_the_configuration_leaves_out_does_not_count_as_stopped() -> None:
    stopped = {ORDERS.table: "it was left out", ITEMS.table: "its rows can't be decoded"}
    house = House(Checkpoint(gtids("a:1-5"), stopped=stopped), TableFilter((r"shop\.items",)))
    assert house.metrics.value(catalogue.STOPPED_TABLES, part="capture") == 1
    assert house.metrics.value(catalogue.TABLE_STOPPED, part="capture", table=str(ITEMS.table)) == 1
    assert not house.metrics.value(catalogue.TABLE_STOPPED, part="capture", **TABLE)
    assert set(house.coordinator.status()["stopped"]) == {str(ORDERS.table), str(ITEMS.table)}


async def test_a_failed_snapshot_counts_as_long_as_it_can_be_mended() -> None:
    reasons = {ORDERS.table: LEFT_OUT, ITEMS.table: f"{DROPPED}: the source doesn't show it"}
    failed: dict[TableId, TableSnapshot] = {t: SnapshotFailed(why, Progress()) for t, why in reasons.items()}
    denied: dict[TableId, TableSnapshot] = {USERS.table: SnapshotFailed("SELECT was denied", Progress())}
    checkpoint = Checkpoint(gtids("a:1-5"), stopped={ORDERS.table: LEFT_OUT})
    captured = TableFilter((r"shop\.items", r"shop\.users"))
    house = House(replace(checkpoint, snapshots=(Snapshot("s1", failed),)), captured)
    assert house.tables() == {}
    house = House(replace(checkpoint, snapshots=(Snapshot("s1", {**failed, **denied}),)), captured)
    assert house.tables() == {"failed": 1}


async def test_a_table_that_is_begun_anew_counts_from_nothing_again() -> None:
    house = House()
    order = await house.first_chunk()
    await house.coordinator.handle(read(order, 1, 2))
    assert house.metrics.value(catalogue.ROWS_DONE, **TABLE) == 2
    await house.coordinator.handle(MirrorInvalidated(ORDERS.table, "its key has changed"))
    assert house.metrics.value(catalogue.ROWS_DONE, **TABLE) == 0
    assert house.metrics.value(catalogue.CHUNKS, outcome="emitted", **TABLE) == 1


async def test_since_when_no_snapshot_comes_further_is_told_also_after_a_restart() -> None:
    schemas = {schema.table: schema for schema in (ORDERS, ITEMS)}
    house = House(Checkpoint(gtids("a:1-5"), schemas=schemas))
    assert math.isnan(house.metrics.value(catalogue.SNAPSHOT_PROGRESS))
    order = await house.first_chunk()
    begun = house.metrics.value(catalogue.SNAPSHOT_PROGRESS)
    assert 0 < begun <= time.time()
    await house.coordinator.handle(SourceOverloaded("65 threads run"))
    await house.coordinator.handle(execute("s2", ITEMS))
    assert house.metrics.value(catalogue.SNAPSHOT_PROGRESS) == begun, "a snapshot more is no progress"
    waiting = Snapshot("s1", {ORDERS.table: SnapshotWaiting()})
    checkpoint = Checkpoint(gtids("a:1-5"), schemas=schemas, snapshots=(waiting,))
    House(checkpoint, metrics=house.metrics)
    assert house.metrics.value(catalogue.SNAPSHOT_PROGRESS) == begun, "neither is a restart"
    await house.coordinator.handle(read(order, 1, 2))
    assert house.metrics.value(catalogue.SNAPSHOT_PROGRESS) > begun
    House(Checkpoint(gtids("a:1-5"), schemas=schemas), metrics=house.metrics)
    assert math.isnan(house.metrics.value(catalogue.SNAPSHOT_PROGRESS))


async def test_a_source_that_has_enough_to_do_is_told_of() -> None:
    house = House()
    assert house.coordinator.status()["busy"] is None
    await house.coordinator.handle(SourceOverloaded("65 threads run"))
    assert house.coordinator.status()["busy"] == "65 threads run"
    assert house.metrics.value(catalogue.SOURCE_BUSY) == 1
    await house.coordinator.handle(SourceRecovered())
    assert house.coordinator.status()["busy"] is None
    assert house.metrics.value(catalogue.SOURCE_BUSY) == 0


async def test_a_journal_without_room_is_told_of_and_the_reader_told_to_pause() -> None:
    house = House()
    await house.coordinator.handle(JournalFull("its quota is reached"))
    assert house.coordinator.status()["no_room"] == "its quota is reached"
    assert isinstance(await house.reader.mailbox.get(), PauseReading)
    await house.coordinator.handle(JournalHasSpace())
    assert house.coordinator.status()["no_room"] is None


async def test_a_table_that_waits_for_the_stream_is_told_of() -> None:
    house = House()
    await house.coordinator.handle(execute("s1", ORDERS))
    assert house.coordinator.status()["runs"] == {str(ORDERS.table): "planning"}
    await house.coordinator.handle(planned(altered(ORDERS)))
    assert house.coordinator.status()["runs"] == {str(ORDERS.table): "unsettled"}
