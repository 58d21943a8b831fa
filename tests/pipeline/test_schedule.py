"""The schedule: how many plans and chunks are asked for, which, and when the reader is paused for them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.coordinator_state import Flowing, Overlapping, Pausing, Planning
from pipeline.messages import (
    ChunkFailed,
    LogAdvanced,
    PauseReading,
    PlanFailed,
    PlanTable,
    ReadChunk,
    ReadingPaused,
    ResumeReading,
    SignalReceived,
    TableStopped,
    ToWatermarkCoordinator,
)
from pipeline.signals import PauseSnapshot, ResumeSnapshot
from pipeline.snapshot import Completed, Waiting
from tests.pipeline import mutations
from tests.pipeline.builders import (
    ITEMS,
    ORDERS,
    USERS,
    Capture,
    execute,
    gtids,
    of,
    passed,
    place,
    planned,
    read,
    statement,
    stop,
    update,
    wrote,
)
from tests.pipeline.mutations import broken_by

ALL = (ITEMS, ORDERS, USERS)

PAUSE, RESUME = SignalReceived(PauseSnapshot("pause")), SignalReceived(ResumeSnapshot("resume"))


# How many


@broken_by(mutations.windows_are_not_bounded, mutations.plans_are_not_counted)
def test_plans_and_windows_together_are_no_more_than_allowed() -> None:
    capture = Capture(*ALL, mode=Overlapping(2))
    assert Capture.plans(capture.give(execute("s1", *ALL))) == [ITEMS.table, ORDERS.table]
    order = Capture.chunk(capture.give(planned(ITEMS)))
    capture.give(read(order, 1, high=30))
    assert capture.open == ["items reconciling"]
    assert Capture.plans(capture.orders) == [ITEMS.table, ORDERS.table]
    assert Capture.plans(capture.give(LogAdvanced(place(30)))) == [USERS.table]


@given(st.integers(1, 4), st.lists(st.integers(0, 99), max_size=60))
@settings(max_examples=60)
def test_no_run_of_answers_opens_more_windows_than_allowed(most: int, choices: list[int]) -> None:
    capture = Capture(*ALL, mode=Overlapping(most))
    waiting = of(PlanTable, capture.give(execute("s1", *ALL), execute("s2", *ALL)))
    chunks: list[ReadChunk] = []
    passed_to = 10
    for number, choice in enumerate(choices, start=6):
        message: ToWatermarkCoordinator
        if choice % 4 == 0 and waiting:
            plan = waiting.pop(choice % len(waiting))
            message = planned(next(schema for schema in ALL if schema.table == plan.table))
        elif choice % 4 == 1 and chunks:
            order = chunks.pop(choice % len(chunks))
            low, keys = str(order.asked_at), (1, 2)[: choice % 3]
            message = read(order, *keys, low=low, high=passed_to + choice % 2)
        elif choice % 4 == 2:
            passed_to += 1
            message = LogAdvanced(place(passed_to))
        else:
            message = statement(f"a:{number}", passed_to, ALL[choice % 3])
        orders = capture.give(message)
        waiting += of(PlanTable, orders)
        chunks += of(ReadChunk, orders)
        planning = [run for run in capture.state.runs.values() if isinstance(run, Planning)]
        assert len(planning) == len(waiting)
        assert len(capture.open) + len(planning) <= most


@broken_by(mutations.chunks_of_a_table_overlap)
def test_a_chunk_of_a_table_is_asked_for_when_the_one_before_has_come() -> None:
    capture = Capture(ORDERS)
    capture.give(execute("s1", ORDERS))
    asked = of(ReadChunk, capture.give(planned(ORDERS)))
    assert len(asked) == 1
    assert capture.give(LogAdvanced(place(20))) == ()
    assert len(of(ReadChunk, capture.give(read(asked[0], 1, 2, high=30)))) == 1
    assert capture.open == ["orders reconciling", "orders reading"]


@broken_by(mutations.every_chunk_begins_at_the_start)
def test_a_chunk_begins_where_the_one_before_ended() -> None:
    capture = Capture(ORDERS)
    first = capture.begin(ORDERS, end=9)
    second = Capture.chunk(capture.give(read(first, 3, 5, high=30)))
    assert (first.after, first.end, first.limit) == (None, (9,), 2)
    assert (second.after, second.end, second.limit) == ((5,), (9,), 2)


def test_behind_the_last_chunk_nothing_is_asked_for() -> None:
    capture = Capture(ORDERS)
    assert capture.give(read(capture.begin(ORDERS), 1, high=30)) == ()
    assert capture.open == ["orders reconciling"]


@broken_by(mutations.windows_are_not_bounded)
def test_a_lagging_stream_holds_open_as_many_windows_as_allowed() -> None:
    capture = Capture(ORDERS, mode=Overlapping(2))
    second = Capture.chunk(capture.give(read(capture.begin(ORDERS), 1, 2, high=30)))
    assert capture.give(read(second, 3, 4, high=30)) == ()
    assert Capture.chunk(capture.give(LogAdvanced(place(30)))).after == (4,)


@broken_by(mutations.plans_are_not_counted)
def test_a_stale_plan_counts_until_its_answer_comes() -> None:
    capture = Capture(ORDERS, ITEMS, mode=Overlapping(1))
    capture.give(execute("s1", ORDERS, ITEMS))
    assert Capture.plans(capture.give(statement("a:6", 20, ITEMS))) == []
    assert Capture.plans(capture.give(planned(ITEMS))) == [ITEMS.table]


# Which


@broken_by(mutations.the_newest_snapshot_comes_first)
def test_a_table_that_two_snapshots_want_is_taken_for_the_first_and_then_for_the_second() -> None:
    capture = Capture(ORDERS)
    capture.give(execute("s1", ORDERS), execute("s2", ORDERS))
    (first,) = of(ReadChunk, capture.give(planned(ORDERS))) or [None]
    assert first is not None and first.chunk.snapshot == "s1"
    assert capture.table(ORDERS, "s2") == Waiting()
    assert Capture.plans(capture.give(read(first, 1, high=10))) == [ORDERS.table]
    assert Capture.chunk(capture.give(planned(ORDERS))).chunk.snapshot == "s2"


@broken_by(mutations.a_pause_is_not_heeded)
def test_nothing_is_asked_for_while_snapshots_are_paused() -> None:
    capture = Capture(ORDERS, ITEMS)
    order = capture.begin(ORDERS)
    capture.give(PAUSE)
    orders = capture.give(read(order, 1, 2, high=10), execute("s2", ITEMS))
    assert of(ReadChunk, orders) == []
    assert Capture.plans(orders) == []
    assert capture.stream == ["orders rows 1 2"]
    resumed = capture.give(RESUME)
    assert Capture.chunk(resumed).after == (2,)
    assert Capture.plans(resumed) == [ITEMS.table]


@broken_by(mutations.a_pause_is_not_heeded)
def test_snapshots_stay_paused_over_a_restart() -> None:
    before = Capture(ORDERS)
    before.begin(ORDERS)
    before.give(PAUSE)
    after = Capture(checkpoint=before.checkpoint)
    assert Capture.plans(after.first_orders) == []
    assert Capture.plans(after.give(RESUME)) == [ORDERS.table]


# The classic way: the reader is paused while a chunk is read


def pausing() -> Capture:
    """A coordinator in the classic mode that was asked for a snapshot of ORDERS and ITEMS and has planned ORDERS."""
    capture = Capture(ITEMS, ORDERS, mode=Pausing())
    capture.give(execute("s1", ORDERS), execute("s2", ITEMS), planned(ORDERS))
    return capture


def gates(capture: Capture) -> list[str]:
    """The pauses and resumes, and the chunks asked for between them."""
    names = {PauseReading: "pause", ResumeReading: "resume", ReadChunk: "chunk"}
    return [names[type(order)] for order in capture.orders if type(order) in names]


@broken_by(mutations.chunks_are_asked_without_a_pause)
def test_the_reader_is_paused_before_a_chunk_is_asked_for() -> None:
    capture = pausing()
    assert gates(capture) == ["pause"]
    capture.give(LogAdvanced(place(20)))
    assert gates(capture) == ["pause"]
    capture.give(ReadingPaused())
    assert gates(capture) == ["pause", "chunk"]


@broken_by(mutations.the_reader_is_never_resumed, mutations.the_reader_is_resumed_before_the_chunk_is_read)
def test_the_reader_is_resumed_when_the_chunk_is_read() -> None:
    capture = pausing()
    order = Capture.chunk(capture.give(ReadingPaused()))
    assert gates(capture) == ["pause", "chunk"]
    capture.give(read(order, 1, 2, high=30))
    assert gates(capture) == ["pause", "chunk", "resume"]
    capture.give(passed(30, wrote("a:6", update(1))))
    assert capture.stream == ["orders a:6", "orders rows 2"]
    assert gates(capture) == ["pause", "chunk", "resume", "pause"]


@broken_by(mutations.low_is_compared_with_nothing)
def test_what_was_read_before_the_pause_has_passed_when_the_chunk_is_asked_for() -> None:
    capture = pausing()
    capture.give(passed(20, wrote("a:6", update(1))))
    assert Capture.chunk(capture.give(ReadingPaused())).asked_at == gtids("a:1-6")


def test_in_the_classic_way_one_window_is_open_at_a_time() -> None:
    capture = pausing()
    capture.give(read(Capture.chunk(capture.give(ReadingPaused())), 1, 2, high=30))
    assert capture.open == ["orders reconciling"]
    assert capture.give(LogAdvanced(place(20))) == ()


def test_an_idle_source_has_chunk_after_chunk_read_in_one_pause() -> None:
    capture = pausing()
    second = Capture.chunk(capture.give(read(Capture.chunk(capture.give(ReadingPaused())), 1, 2, high=10)))
    capture.give(read(second, 3, high=10))
    assert gates(capture) == ["pause", "chunk", "chunk", "resume"]
    assert isinstance(capture.table(ORDERS), Completed)


@broken_by(mutations.the_reader_is_never_resumed)
def test_the_reader_is_not_kept_paused_while_the_next_table_is_planned() -> None:
    capture = pausing()
    orders = capture.give(read(Capture.chunk(capture.give(ReadingPaused())), 1, high=10))
    assert Capture.plans(orders) == [ITEMS.table]
    assert gates(capture) == ["pause", "chunk", "resume"]
    capture.give(planned(ITEMS), ReadingPaused())
    assert gates(capture) == ["pause", "chunk", "resume", "pause", "chunk"]


# What may come while the reader is paused, or was told to pause, so that the chunk isn't wanted any more.
INTERRUPTIONS = {
    "the table's snapshot is stopped": stop("s3", ORDERS, ITEMS),
    "the table's capture stops": TableStopped(ORDERS.table, "so"),
    "snapshots are paused": PAUSE,
    "a statement passes": statement("a:6", 20, ORDERS),
}


@pytest.mark.parametrize("interruption", INTERRUPTIONS.values(), ids=INTERRUPTIONS.keys())
def test_a_reader_that_was_told_to_pause_in_vain_is_resumed(interruption: ToWatermarkCoordinator) -> None:
    capture = pausing()
    capture.give(interruption, ReadingPaused())
    assert gates(capture) == ["pause", "resume"]
    assert capture.state.gate == Flowing()


@pytest.mark.parametrize("interruption", INTERRUPTIONS.values(), ids=INTERRUPTIONS.keys())
def test_a_reader_that_is_paused_is_resumed_though_its_chunk_is_not_wanted_any_more(
    interruption: ToWatermarkCoordinator,
) -> None:
    capture = pausing()
    order = Capture.chunk(capture.give(ReadingPaused()))
    capture.give(interruption, read(order, 1, 2, high=30))
    assert gates(capture) == ["pause", "chunk", "resume"]
    assert capture.state.gate == Flowing()


def test_a_failed_chunk_does_not_leave_the_reader_paused() -> None:
    capture = pausing()
    order = Capture.chunk(capture.give(ReadingPaused()))
    capture.give(ChunkFailed(order.chunk, "lost connection"), PlanFailed(ITEMS.table, "no SELECT"))
    assert gates(capture) == ["pause", "chunk", "resume"]


def test_without_a_snapshot_the_reader_is_never_paused() -> None:
    capture = Capture(ORDERS, mode=Pausing())
    capture.give(passed(20, wrote("a:6", update(1))), LogAdvanced(place(30)))
    assert gates(capture) == []
