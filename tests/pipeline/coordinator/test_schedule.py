"""The schedule: how many plans and chunks are asked for, which, and when the reader is paused for them."""

from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.coordinator.chunk_size import ChunkLimits
from pipeline.coordinator.state import Flowing, Order, Overlapping, Pausing, Planning, Strained
from pipeline.coordinator.window import Reconciling
from pipeline.messages.binlog import LogAdvanced, PauseReading, ReadingPaused, ResumeReading
from pipeline.messages.changes import TableStopped
from pipeline.messages.chunks import (
    ChunkFailed,
    PlanFailed,
    PlanTable,
    ReadChunk,
    SourceOverloaded,
    SourceRecovered,
)
from pipeline.messages.inboxes import ToWatermarkCoordinator
from pipeline.messages.journal import JournalFull, JournalHasSpace
from pipeline.messages.signals import SignalReceived
from pipeline.signals.signal import PauseSnapshot, ResumeSnapshot
from pipeline.snapshot.snapshot import Chunking, Completed, SnapshotWaiting
from tests.pipeline import mutations
from tests.pipeline.builders import (
    ITEMS,
    LIMITS,
    ORDERS,
    ROW,
    USERS,
    Capture,
    execute,
    gtids,
    of,
    part,
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


@given(st.integers(1, 4), st.integers(1, 3), st.integers(0, 9), st.lists(st.integers(0, 9999), max_size=80))
@settings(max_examples=100)
def test_no_run_of_answers_asks_for_more_than_is_allowed(
    most: int, connections: int, memory: int, choices: list[int]
) -> None:
    limits = replace(remembering(memory), connections=connections)
    capture = Capture(*ALL, mode=Overlapping(most), limits=limits)
    waiting = of(PlanTable, capture.give(execute("s1", *ALL), execute("s2", *ALL)))
    chunks: list[ReadChunk] = []
    passed_to = 10
    for number, (choice, kind) in enumerate((divmod(choice, 6) for choice in choices), start=6):
        message: ToWatermarkCoordinator
        if kind == 0 and waiting:
            plan = waiting.pop(choice % len(waiting))
            schema = next(schema for schema in ALL if schema.table == plan.table)
            message = planned(schema, splits=(3, 6)[: choice % 3])
        elif kind in {1, 2} and chunks:
            order = chunks.pop(choice % len(chunks))
            keys = range(choice % (order.limit + 1))
            message = read(order, *keys, low=str(order.asked_at), high=passed_to + choice % 2)
        elif kind == 3 and chunks:
            message = ChunkFailed(chunks.pop(choice % len(chunks)).chunk, "so")
        elif kind == 4:
            passed_to += 1
            message = LogAdvanced(place(passed_to))
        else:
            message = statement(f"a:{number}", passed_to, ALL[choice % 3])
        orders = capture.give(message)
        waiting += of(PlanTable, orders)
        chunks += of(ReadChunk, orders)
        planning = [run for run in capture.state.runs.values() if isinstance(run, Planning)]
        assert len(planning) == len(waiting)
        assert len(capture.state.open) + len(planning) <= most
        assert {order.chunk for order in chunks} == capture.state.asked.keys()
        assert len(chunks) <= connections
        assert not of(ReadChunk, orders) or held(capture) <= limits.memory or alone(capture)


def held(capture: Capture) -> int:
    """The bytes of the rows that wait, and of those that may come."""
    state = capture.state
    waiting = [window for window in state.open if isinstance(window, Reconciling)]
    sizes = [state.sizes[w.order.schema.table].bytes(len(w.rows), state.limits) for w in waiting]
    return sum(state.asked.values()) + sum(sizes)


def alone(capture: Capture) -> bool:
    """Whether one chunk is all that was asked for, and nothing waits."""
    return len(capture.state.asked) == len(capture.state.open) == 1


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
    asked = of(ReadChunk, capture.give(planned(ORDERS)))
    assert [order.chunk.snapshot for order in asked] == ["s1"]
    (first,) = asked
    assert capture.table(ORDERS, "s2") == SnapshotWaiting()
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


# While the journal has no room


def test_while_the_journal_has_no_room_the_reader_is_paused_and_nothing_is_asked_for() -> None:
    capture = Capture(ITEMS, ORDERS)
    capture.give(JournalFull("so"))
    assert gates(capture) == ["pause"]
    assert Capture.plans(capture.give(execute("s1", ORDERS))) == []
    # What's on its way goes on into the journal.
    capture.give(passed(20, wrote("a:6", update(1))), ReadingPaused(), LogAdvanced(place(30)))
    assert capture.stream == ["orders a:6"]
    assert gates(capture) == ["pause"]
    orders = capture.give(JournalHasSpace())
    assert gates(capture) == ["pause", "resume"]
    assert Capture.plans(orders) == [ORDERS.table]


def test_chunks_that_were_asked_for_before_the_room_ended_wait_in_their_windows() -> None:
    capture = Capture(ORDERS)
    capture.give(execute("s1", ORDERS))
    order = Capture.chunk(capture.give(planned(ORDERS)))
    capture.give(JournalFull("so"), ReadingPaused())
    assert capture.give(read(order, 1, 2, high=30)) == ()
    assert capture.open == ["orders reconciling"]
    capture.give(JournalHasSpace(), passed(30, wrote("a:6", update(1))))
    assert capture.stream == ["orders a:6", "orders rows 2"]


def test_a_reader_without_room_stays_paused_within_a_transaction() -> None:
    capture = Capture(ORDERS)
    capture.give(part("a:6", update(1)), JournalFull("so"), ReadingPaused())
    assert gates(capture) == ["pause"]
    capture.give(JournalHasSpace())
    assert gates(capture) == ["pause", "resume"]


@pytest.mark.parametrize("within", [False, True])
def test_the_reader_does_not_wait_for_chunks_that_it_does_not_stand_for(within: bool) -> None:
    capture = Capture(ORDERS)
    capture.give(execute("s1", ORDERS))
    capture.give(planned(ORDERS))
    if within:
        capture.give(part("a:6", update(1)))
    capture.give(JournalFull("so"), ReadingPaused(), JournalHasSpace())
    assert gates(capture)[-2:] == ["pause", "resume"]
    assert capture.open == ["orders reading"]


def test_a_pause_for_want_of_room_that_is_over_before_it_comes_is_ended_when_it_does() -> None:
    capture = Capture(ORDERS)
    capture.give(JournalFull("so"), JournalHasSpace())
    assert gates(capture) == ["pause"]
    capture.give(ReadingPaused())
    assert gates(capture) == ["pause", "resume"]


def test_in_the_classic_way_no_chunk_is_asked_for_without_room() -> None:
    capture = pausing()
    capture.give(JournalFull("so"), ReadingPaused())
    assert gates(capture) == ["pause"]
    capture.give(JournalHasSpace())
    assert gates(capture) == ["pause", "chunk"]


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


# How much


def chunks(orders: Iterable[Order]) -> list[tuple[str, int]]:
    """The chunks asked for in these orders: the table and the number of its range."""
    return [(order.chunk.table.name, order.range) for order in of(ReadChunk, orders)]


SPLIT = planned(ORDERS, end=9, splits=[2, 4, 6])


def test_no_more_chunks_are_asked_for_than_connections() -> None:
    capture = Capture(ORDERS, mode=Overlapping(9), limits=replace(LIMITS, connections=2))
    capture.give(execute("s1", ORDERS))
    asked = capture.give(SPLIT)
    assert chunks(asked) == [("orders", 0), ("orders", 1)]
    first, _ = of(ReadChunk, asked)
    assert chunks(capture.give(read(first, 1, high=30))) == [("orders", 2)]


@broken_by(mutations.dropped_chunks_have_no_connection, mutations.answers_to_dropped_chunks_free_nothing)
def test_a_chunk_that_was_dropped_has_its_connection_until_it_is_answered() -> None:
    capture = Capture(ORDERS, mode=Overlapping(9), limits=replace(LIMITS, connections=1))
    dropped = capture.begin(ORDERS)
    assert Capture.plans(capture.give(statement("a:6", 20, ORDERS))) == []
    assert Capture.plans(capture.give(read(dropped, 1))) == [ORDERS.table]
    assert len(of(ReadChunk, capture.give(planned(ORDERS)))) == 1


def remembering(rows: float) -> ChunkLimits:
    """Limits with room for so many rows, and chunks of two."""
    return replace(LIMITS, chunk_bytes=2 * ROW, memory=round(rows * ROW))


@broken_by(mutations.chunks_that_may_come_take_no_memory)
def test_no_more_rows_are_asked_for_than_there_is_memory_for() -> None:
    capture = Capture(ORDERS, mode=Overlapping(9), limits=remembering(5.9))
    capture.give(execute("s1", ORDERS))
    assert chunks(capture.give(SPLIT)) == [("orders", 0), ("orders", 1)]


@broken_by(mutations.rows_that_wait_take_no_memory)
def test_rows_that_wait_take_memory_until_they_are_emitted() -> None:
    capture = Capture(ORDERS, mode=Overlapping(9), limits=remembering(4))
    capture.give(execute("s1", ORDERS))
    first, second = of(ReadChunk, capture.give(SPLIT))
    assert chunks(capture.give(read(first, 1, 2, high=30), read(second, 3, high=30))) == []
    assert chunks(capture.give(LogAdvanced(place(29)))) == []
    assert chunks(capture.give(LogAdvanced(place(30)))) == [("orders", 0), ("orders", 2)]


@broken_by(mutations.memory_is_kept_for_one_chunk_alone_too)
def test_one_chunk_is_asked_for_however_little_memory_there_is() -> None:
    capture = Capture(ORDERS, mode=Overlapping(9), limits=remembering(0.1))
    capture.give(execute("s1", ORDERS))
    asked = capture.give(SPLIT)
    assert chunks(asked) == [("orders", 0)]
    assert chunks(capture.give(read(Capture.chunk(asked), 1, 2, high=30))) == []
    assert len(chunks(capture.give(LogAdvanced(place(30))))) == 1


def test_a_chunk_has_as_many_rows_as_the_one_before_would_have_had_in_time() -> None:
    capture = Capture(ORDERS)
    second = Capture.chunk(capture.give(read(capture.begin(ORDERS), 1, 2, took=500)))
    assert second.limit == 4
    assert Capture.chunk(capture.give(read(second, 3, 4, 5, 6, took=4000))).limit == 2


def test_a_chunk_has_as_many_rows_as_were_asked_for() -> None:
    capture = Capture(ORDERS)
    capture.give(execute("s1", ORDERS, chunk_rows=3))
    first = Capture.chunk(capture.give(planned(ORDERS)))
    assert first.limit == 3
    assert Capture.chunk(capture.give(read(first, 1, 2, 3, took=1))).limit == 3


@broken_by(mutations.strain_is_not_heeded)
def test_nothing_is_asked_for_while_the_source_is_strained_and_what_was_closes() -> None:
    capture = Capture(ORDERS, ITEMS)
    order = capture.begin(ORDERS)
    capture.give(SourceOverloaded("41 threads are running, and the most is 40"))
    assert capture.state.source == Strained("41 threads are running, and the most is 40")
    orders = capture.give(read(order, 1, 2), execute("s2", ITEMS))
    assert of(ReadChunk, orders) == [] and Capture.plans(orders) == []
    assert capture.stream == ["orders rows 1 2"]
    eased = capture.give(SourceRecovered())
    assert Capture.chunk(eased).after == (2,)
    assert Capture.plans(eased) == [ITEMS.table]


# Whose turn it is


@broken_by(mutations.the_first_table_takes_all)
def test_the_table_with_the_fewest_windows_gets_the_next_chunk() -> None:
    capture = Capture(ORDERS, ITEMS, mode=Overlapping(9), limits=replace(LIMITS, connections=2))
    capture.give(execute("s1", ORDERS, ITEMS))
    items, other_items = of(ReadChunk, capture.give(planned(ITEMS, splits=[2, 4, 6])))
    capture.give(planned(ORDERS, splits=[2, 4, 6]))
    assert chunks(capture.give(read(items, 1, high=30))) == [("orders", 0)]
    assert chunks(capture.give(read(other_items, 3, high=30))) == [("orders", 1)]


def test_the_range_with_the_fewest_windows_gets_the_next_chunk() -> None:
    capture = Capture(ORDERS, mode=Overlapping(9), limits=replace(LIMITS, connections=1))
    capture.give(execute("s1", ORDERS))
    first = Capture.chunk(capture.give(planned(ORDERS, splits=[4])))
    second = Capture.chunk(capture.give(read(first, 1, 2, high=30)))
    assert (first.range, second.range) == (0, 1)
    assert Capture.chunk(capture.give(read(second, 5, 6, high=30))).range == 0


@broken_by(mutations.every_table_is_begun)
def test_no_more_tables_are_under_way_than_connections() -> None:
    capture = Capture(*ALL, limits=replace(LIMITS, connections=2))
    assert Capture.plans(capture.give(execute("s1", *ALL))) == [ITEMS.table, ORDERS.table]
    first, _ = of(ReadChunk, capture.give(planned(ITEMS), planned(ORDERS)))
    assert Capture.plans(capture.give(read(first, 1, high=30))) == [USERS.table]


@broken_by(mutations.priorities_are_not_heeded)
def test_a_higher_priority_comes_first_and_then_the_older_one() -> None:
    capture = Capture(*ALL)
    capture.give(PAUSE, execute("s1", USERS), execute("s2", ORDERS), execute("s3", ITEMS, priority=1))
    assert Capture.plans(capture.give(RESUME)) == [ITEMS.table, USERS.table, ORDERS.table]


@broken_by(mutations.priorities_are_not_heeded)
def test_a_table_of_a_higher_priority_is_begun_though_others_are_under_way() -> None:
    capture = Capture(*ALL, limits=replace(LIMITS, connections=1))
    capture.give(execute("s1", ORDERS))
    order = Capture.chunk(capture.give(planned(ORDERS, splits=[4]), execute("s2", ITEMS, priority=1)))
    assert Capture.plans(capture.give(read(order, 1, 2))) == [ITEMS.table]
    assert chunks(capture.give(planned(ITEMS))) == []
    assert chunks(capture.give(LogAdvanced(place(20)))) == []


@broken_by(mutations.a_table_changes_snapshots_half_way)
def test_a_table_that_is_under_way_stays_with_its_snapshot() -> None:
    capture = Capture(ORDERS)
    order = capture.begin(ORDERS)
    capture.give(execute("s2", ORDERS, priority=1), read(order, 1, 2))
    assert capture.table(ORDERS, "s2") == SnapshotWaiting()
    state = capture.table(ORDERS, "s1")
    assert isinstance(state, Chunking) and state.progress.rows == 2


def test_a_plan_for_another_snapshot_is_not_taken() -> None:
    capture = Capture(ORDERS)
    capture.give(execute("s1", ORDERS), execute("s2", ORDERS, priority=1))
    assert Capture.plans(capture.give(planned(ORDERS))) == [ORDERS.table]
    assert Capture.chunk(capture.give(planned(ORDERS))).chunk.snapshot == "s2"


# Blocking snapshots


@broken_by(mutations.a_blocking_snapshot_blocks_nothing)
def test_a_blocking_snapshot_has_the_reader_paused_for_each_chunk() -> None:
    capture = Capture(ORDERS)
    capture.give(execute("s1", ORDERS, blocking=True), planned(ORDERS))
    assert gates(capture) == ["pause"]
    order = Capture.chunk(capture.give(ReadingPaused()))
    capture.give(read(order, 1, 2, high=30))
    assert gates(capture) == ["pause", "chunk", "resume"]
    capture.give(LogAdvanced(place(30)))
    assert gates(capture) == ["pause", "chunk", "resume", "pause"]


@broken_by(mutations.others_go_on_beside_a_blocking_snapshot)
def test_nothing_else_is_read_while_a_snapshot_blocks_and_goes_on_unpaused_behind_it() -> None:
    capture = Capture(ORDERS, ITEMS)
    capture.give(execute("s1", ORDERS, blocking=True), execute("s2", ITEMS))
    assert Capture.plans(capture.orders) == [ORDERS.table]
    capture.give(planned(ORDERS))
    order = Capture.chunk(capture.give(ReadingPaused()))
    last = capture.give(read(order, 1))
    assert gates(capture) == ["pause", "chunk", "resume"]
    assert Capture.plans(last + capture.give(LogAdvanced(place(20)))) == [ITEMS.table]
    assert chunks(capture.give(planned(ITEMS))) == [("items", 0)]
    assert gates(capture) == ["pause", "chunk", "resume", "chunk"]


def test_a_blocking_snapshot_waits_for_the_one_before() -> None:
    capture = Capture(ORDERS, ITEMS)
    order = capture.begin(ORDERS)
    capture.give(execute("s2", ITEMS, blocking=True))
    assert Capture.plans(capture.give(read(order, 1))) == [ITEMS.table]
    capture.give(planned(ITEMS))
    assert gates(capture) == ["chunk", "pause"]


@broken_by(mutations.tables_that_stand_still_are_under_way)
def test_a_blocking_snapshot_does_not_wait_for_tables_that_stand_still_for_it() -> None:
    capture = Capture(ORDERS, ITEMS, limits=ChunkLimits(2, connections=1))
    order = capture.begin(ORDERS)
    capture.give(execute("s2", ITEMS, blocking=True, priority=1))
    assert Capture.plans(capture.give(read(order, 1, 2))) == [ITEMS.table]


def test_a_pause_for_a_blocking_snapshot_that_was_stopped_ends() -> None:
    capture = Capture(ORDERS, ITEMS)
    capture.give(execute("s1", ORDERS, blocking=True), planned(ORDERS), stop("s2", ORDERS))
    capture.give(execute("s3", ITEMS), ReadingPaused(), planned(ITEMS))
    assert gates(capture) == ["pause", "resume", "chunk"]
    assert capture.state.gate == Flowing()


def test_blocking_snapshots_come_one_after_the_other() -> None:
    capture = Capture(ORDERS, ITEMS)
    capture.give(execute("s1", ORDERS, blocking=True), execute("s2", ITEMS, blocking=True), planned(ORDERS))
    order = Capture.chunk(capture.give(ReadingPaused()))
    assert Capture.plans(capture.give(read(order, 1))) == [ITEMS.table]
    capture.give(planned(ITEMS))
    assert gates(capture) == ["pause", "chunk", "resume", "pause"]
    capture.give(read(Capture.chunk(capture.give(ReadingPaused())), 1))
    assert isinstance(capture.table(ITEMS, "s2"), Completed)
    assert capture.state.gate == Flowing()
