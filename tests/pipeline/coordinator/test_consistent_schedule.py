"""Consistent snapshots: the stream goes to where the transactions were opened, stands there, and goes on."""

from dataclasses import replace
from typing import Any

import pytest

from pipeline.config.settings import SnapshotMode
from pipeline.coordinator import resume
from pipeline.coordinator import step as coordinator
from pipeline.coordinator.consistent_state import Approaching, ConsistentPhase, Nowhere, Opening, Standing
from pipeline.coordinator.state import Overlapping, Pausing, WindowMode
from pipeline.messages.binlog import LogAdvanced, PauseReading, ReadingPaused, ResumeReading
from pipeline.messages.chunks import (
    ChunkRead,
    ChunkSchemaChanged,
    CloseTransactions,
    OpenTransactions,
    PlanTable,
    ReadChunk,
    TransactionsOpened,
)
from pipeline.messages.inboxes import ToWatermarkCoordinator
from pipeline.messages.journal import Append, AppendRows, JournalFull, JournalHasSpace
from pipeline.messages.signals import SignalReceived
from pipeline.schema.table_filter import TableFilter
from pipeline.signals.signal import PauseSnapshot, ResumeSnapshot, StopSnapshot
from pipeline.snapshot.checkpoint import Checkpoint, Filling, Ready
from pipeline.snapshot.snapshot import (
    Chunking,
    Completed,
    Progress,
    Snapshot,
    SnapshotFailed,
    SnapshotWaiting,
)
from tests.pipeline.builders import (
    ITEMS,
    LIMITS,
    ORDERS,
    gtids,
    insert,
    part,
    passed,
    place,
    planned,
    read,
    table,
    wrote,
)

EMPTY = Checkpoint(gtids("a:1-5"), scn=7, schemas={each.table: each for each in (ORDERS, ITEMS)})
MODE = Overlapping(4)
OPENED = TransactionsOpened(1, place(30), gtids("a:1-6"))


class Stream:
    """A coordinator whose new tables are to be read consistently; the stream is at place 10."""

    def __init__(self, checkpoint: Checkpoint = EMPTY, mode: WindowMode = MODE) -> None:
        self.state, self.orders = coordinator.start(checkpoint, LIMITS, mode, SnapshotMode.CONSISTENT)

    def give(self, *messages: ToWatermarkCoordinator) -> list[type]:
        """The orders that follow from these messages, by their types, without what goes to the journal."""
        self.orders = ()
        for message in messages:
            self.state, orders = coordinator.step(self.state, message)
            self.orders = (*self.orders, *orders)
        return self.kinds

    @property
    def kinds(self) -> list[type]:
        return [type(order) for order in self.orders if not isinstance(order, Append)]

    def order(self, kind: type) -> Any:
        [order] = [order for order in self.orders if isinstance(order, kind)]
        return order

    def standing(self) -> "Stream":
        """The stream, standing where the transactions were opened, with both tables being planned."""
        self.give(OPENED, passed(30, wrote("a:6", insert(1))))
        assert self.give(ReadingPaused()) == [PlanTable, PlanTable]
        return self

    def stand(self) -> ConsistentPhase:
        return self.state.stand

    @property
    def snapshot(self) -> Snapshot:
        [snapshot] = [each for each in self.state.checkpoint.snapshots if each.consistent]
        return snapshot


def chunk(order: ReadChunk, *keys: int) -> ChunkRead:
    """The chunk, as it's read in a transaction that was opened at OPENED."""
    return replace(read(order, *keys, low="a:1-6", high=30), high=OPENED.at)


@pytest.mark.parametrize("mode", [Overlapping(4), Pausing()])
def test_the_stream_goes_to_the_place_stands_there_and_goes_on(mode: WindowMode) -> None:
    stream = Stream(mode=mode)
    assert stream.order(OpenTransactions) == OpenTransactions(1, 0)
    assert stream.give(OPENED) == [PauseReading]
    assert stream.order(PauseReading) == PauseReading(place(30))
    assert stream.give(passed(30, wrote("a:6", insert(1)))) == []
    assert stream.give(ReadingPaused()) == [PlanTable, PlanTable]
    assert stream.stand() == Standing(OpenTransactions(1, 0), place(30))
    assert stream.give(planned(ORDERS, end=9)) == [ReadChunk]
    first = stream.order(ReadChunk)
    assert first.asked_at == gtids("a:1-6") == OPENED.visible
    assert stream.give(planned(ITEMS, end=9)) == [ReadChunk]
    second = stream.order(ReadChunk)
    # Each closes at once, where the stream stands, and the last one lets it go on.
    assert stream.give(chunk(first, 1)) == []
    assert isinstance(stream.snapshot.tables[ORDERS.table], Completed)
    assert stream.give(chunk(second, 3)) == [CloseTransactions, ResumeReading]
    assert stream.stand() == Nowhere(1)
    assert stream.state.checkpoint.mirrors == {ORDERS.table: Ready(7), ITEMS.table: Ready(7)}
    assert stream.give(LogAdvanced(place(40))) == []


@pytest.mark.parametrize(
    "slices",
    [
        [passed(40, wrote("a:6"))],  # beyond the place
        [passed(30, wrote("a:7"))],  # a transaction that may not have been visible
        [],  # not there
    ],
)
def test_where_it_is_not_proven_it_is_tried_again(slices: list[Any]) -> None:
    stream = Stream()
    stream.give(OPENED, *slices)
    assert stream.give(ReadingPaused()) == [CloseTransactions, ResumeReading, OpenTransactions]
    assert stream.order(OpenTransactions) == OpenTransactions(2, 1)
    assert stream.give(OPENED) == []  # of the first try
    assert stream.give(replace(OPENED, number=2, at=place(50))) == [PauseReading]


def test_a_start_begins_anew_what_was_read_somewhere_else() -> None:
    stream = Stream().standing()
    stream.give(planned(ORDERS, end=9), planned(ITEMS, end=9))
    first = next(o for o in stream.orders if isinstance(o, ReadChunk))
    stream.give(chunk(first, 1, 2))
    before = stream.state.checkpoint
    again = Stream(before)
    assert again.order(OpenTransactions) == OpenTransactions(1, 0)
    assert again.state.checkpoint.mirrors == dict.fromkeys(before.mirrors, Filling(before.scn))
    assert set(again.snapshot.tables.values()) == {SnapshotWaiting()}
    assert resume.again(again.state.checkpoint) is again.state.checkpoint  # nothing has been read since


def test_what_has_ended_is_left_as_it_is() -> None:
    over = Snapshot("consistent-7", {ORDERS.table: Completed(Progress())}, consistent=True)
    failed = Snapshot(
        "other",
        {ORDERS.table: SnapshotFailed("so", Progress()), ITEMS.table: SnapshotWaiting()},
        consistent=True,
    )
    checkpoint = replace(EMPTY, snapshots=(over, failed))
    assert resume.again(checkpoint) is checkpoint


def test_a_table_that_was_altered_is_read_at_another_place() -> None:
    stream = Stream().standing()
    stream.give(planned(ORDERS, end=9))
    order = stream.order(ReadChunk)
    assert stream.give(ChunkSchemaChanged(order.chunk)) == [
        CloseTransactions,
        ResumeReading,
        OpenTransactions,
    ]
    assert isinstance(stream.stand(), Opening)
    assert stream.state.open == ()
    assert set(stream.snapshot.tables.values()) == {SnapshotWaiting()}


@pytest.mark.parametrize("steps", range(3))
def test_a_pause_or_a_stop_lets_the_stream_go_on(steps: int) -> None:
    for signal in (PauseSnapshot("p"), StopSnapshot("s", TableFilter((".*",)))):
        stream = Stream()
        if steps == 1:
            stream.give(OPENED)
        elif steps == 2:
            stream.standing()
        told = stream.give(SignalReceived(signal))
        if steps == 1:  # the reader is on its way to its pause
            assert told == []
            told = stream.give(passed(30, wrote("a:6")), ReadingPaused())
        assert CloseTransactions in told
        assert (ResumeReading in told) == (steps > 0)
        assert isinstance(stream.stand(), Nowhere)
        assert stream.give(OPENED, LogAdvanced(place(60))) == []
    stream = Stream().standing()
    stream.give(SignalReceived(PauseSnapshot("p")))
    assert stream.give(SignalReceived(ResumeSnapshot("r"))) == [OpenTransactions]
    assert stream.order(OpenTransactions).number == 2


def test_it_waits_for_a_table_that_another_snapshot_has_begun() -> None:
    chunking = Chunking((), "v", True, Progress())
    other = Snapshot("s", {ORDERS.table: chunking})
    asked = Snapshot(
        "consistent-7",
        {ORDERS.table: SnapshotWaiting(), ITEMS.table: SnapshotWaiting()},
        consistent=True,
        priority=1001,
    )
    stream = Stream(
        replace(EMPTY, snapshots=(other, asked), mirrors=dict.fromkeys(EMPTY.schemas, Filling(0)))
    )
    assert OpenTransactions not in stream.kinds


def test_tables_without_a_key_do_not_hinder_it() -> None:
    keyless = table("keyless", "a", key=())
    stream = Stream(replace(EMPTY, schemas={**EMPTY.schemas, keyless.table: keyless}))
    assert set(stream.snapshot.tables) == {ORDERS.table, ITEMS.table}


def test_it_holds_only_there_and_with_all_of_it_executed() -> None:
    there = Approaching(OpenTransactions(1, 0), OPENED)
    state = Stream().state
    at = replace(state, stream=place(30), checkpoint=replace(EMPTY, position=gtids("a:1-6")))
    assert there.holds(at.passed)
    assert there.holds(replace(at, checkpoint=EMPTY).passed)
    assert not there.holds(replace(at, stream=place(29)).passed)
    assert not there.holds(replace(at, stream=place(31)).passed)
    assert not there.holds(replace(at, stream=None).passed)
    assert not there.holds(replace(at, checkpoint=replace(EMPTY, position=gtids("a:1-6,b:1"))).passed)


def test_the_stream_does_not_wait_for_a_quiet_moment_where_it_was_paused_for_want_of_room() -> None:
    stream = Stream()
    assert stream.give(JournalFull("so"), ReadingPaused()) == [PauseReading]
    assert stream.give(JournalHasSpace()) == [ResumeReading]
    assert stream.stand() == Opening(OpenTransactions(1, 0))
    assert stream.give(OPENED) == [PauseReading]


def test_transactions_that_were_opened_while_the_stream_was_paused_elsewhere_are_of_no_use() -> None:
    stream = Stream()
    assert stream.give(JournalFull("so"), ReadingPaused(), OPENED) == [PauseReading]
    assert stream.give(JournalHasSpace()) == [CloseTransactions, ResumeReading, OpenTransactions]


def test_images_that_come_behind_the_pause_have_the_stream_look_for_another_place() -> None:
    """They had waited for the proof of their table's schema, which a pause doesn't wait for."""
    stream = Stream().standing()
    assert stream.give(passed(40, wrote("a:7", insert(2)))) == [
        CloseTransactions,
        ResumeReading,
        OpenTransactions,
    ]
    assert stream.stand() == Opening(OpenTransactions(2, 1))
    assert all(isinstance(state, SnapshotWaiting) for state in stream.snapshot.tables.values())


def test_a_transaction_in_parts_behind_the_pause_does_so_as_well() -> None:
    stream = Stream().standing()
    assert stream.give(part("a:7", insert(2))) == [AppendRows, ResumeReading], "its end has to come"
    assert stream.give(passed(40, wrote("a:7", insert(3)))) == [CloseTransactions, OpenTransactions]
