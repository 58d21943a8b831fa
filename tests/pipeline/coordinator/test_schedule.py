"""The schedule: how many plans and chunks are ordered, which, and when the reader is paused for them."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.coordinator.chunk_size import ChunkLimits
from pipeline.coordinator.state import Overlapping, PauseReached, Pausing, ReaderRunning, WindowMode
from pipeline.coordinator.window import Reconciling
from pipeline.messages.binlog import LogAdvanced, ReadingPaused, ResumeReading
from pipeline.messages.chunks import (
    ChunkFailed,
    PlanTable,
    ReadChunk,
    SourceOverloaded,
    SourceRecovered,
)
from pipeline.messages.inboxes import ToWatermarkCoordinator
from tests.pipeline.builders import (
    ITEMS,
    LIMITS,
    ORDERS,
    ROW,
    USERS,
    Capture,
    execute,
    insert,
    of,
    passed,
    place,
    planned,
    read,
    statement,
    wrote,
)

ALL = (ITEMS, ORDERS, USERS)


# How many


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
            message = read(order, *keys, low=str(order.ordered_at), high=passed_to + choice % 2)
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
        planning = capture.state.planning
        assert len(planning) == len(waiting)
        assert len(capture.state.windows) + len(planning) <= most
        assert {order.chunk for order in chunks} == capture.state.ordered.keys()
        assert len(chunks) <= connections
        assert not of(ReadChunk, orders) or held(capture) <= limits.memory or alone(capture)


def held(capture: Capture) -> int:
    """The bytes of the rows that wait, and of those that may come."""
    state = capture.state
    waiting = [window for window in state.windows if isinstance(window, Reconciling)]
    sizes = [state.chunk_sizes[w.order.schema.table].bytes(len(w.rows), state.limits) for w in waiting]
    return sum(state.ordered.values()) + sum(sizes)


def alone(capture: Capture) -> bool:
    """Returns whether one chunk is the only order, and nothing waits."""
    return len(capture.state.ordered) == len(capture.state.windows) == 1


def remembering(rows: float) -> ChunkLimits:
    """Limits with room for so many rows, and chunks of two."""
    return replace(LIMITS, chunk_bytes=2 * ROW, memory=round(rows * ROW))


def test_no_chunk_has_more_rows_than_the_bound_from_the_first_one_on() -> None:
    bounded = Capture(ORDERS, limits=replace(LIMITS, chunk_rows=50_000, most_rows=150))
    assert bounded.begin(ORDERS).limit == 150
    pinned = Capture(ORDERS, limits=replace(LIMITS, most_rows=150))
    pinned.give(execute("s1", ORDERS, chunk_rows=1_000))
    ordered = pinned.give(planned(ORDERS))
    assert [order.limit for order in ordered if isinstance(order, ReadChunk)] == [150]
    paced = Capture(ORDERS, limits=replace(LIMITS, chunk_rows=50_000, connections=2))
    paced.give(execute("s1", ORDERS, rows_per_s=301))
    ordered = paced.give(planned(ORDERS))
    assert [order.limit for order in ordered if isinstance(order, ReadChunk)] == [151]


# When the stream is paused


@pytest.mark.parametrize(("mode", "blocking"), [(Pausing(), False), (Overlapping(4), True)])
def test_a_chunk_that_waits_for_its_source_does_not_keep_the_stream_paused(
    mode: WindowMode, *, blocking: bool
) -> None:
    capture = Capture(ORDERS, mode=mode)
    capture.give(execute("s1", ORDERS, blocking=blocking), planned(ORDERS))
    order = capture.chunk(capture.give(ReadingPaused()))
    assert not capture.give(SourceOverloaded("many threads")), "its rows come soon"
    assert isinstance(capture.state.reader, PauseReached)
    assert capture.give(SourceOverloaded("many threads", "takes writes of its own")) == (ResumeReading(),)
    assert isinstance(capture.state.reader, ReaderRunning) and capture.windows == ["orders reading"]
    capture.give(passed(20, wrote("a:6", insert(1))), SourceRecovered(), read(order, 1, 2, high=20))
    assert capture.stream == ["orders a:6", "orders rows 2"]
