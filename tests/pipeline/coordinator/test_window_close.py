"""Closing: each range's windows in their order, and ranges and tables on their own."""

from pipeline.messages.binlog import LogAdvanced
from pipeline.messages.chunks import ReadChunk
from pipeline.snapshot.checkpoint import Filling, Ready
from pipeline.snapshot.snapshot import Chunking, Completed, Progress, Range, SnapshotWaiting
from tests.pipeline import mutations
from tests.pipeline.builders import ORDERS, Capture, execute, of, place, planned, read
from tests.pipeline.mutations import broken_by


def two_ranges() -> tuple[Capture, ReadChunk, ReadChunk]:
    """A snapshot of ORDERS in the ranges through 4 and through 9, and the orders for their first chunks."""
    capture = Capture(ORDERS)
    capture.give(execute("s1", ORDERS))
    first, second = of(ReadChunk, capture.give(planned(ORDERS, end=9, splits=[4])))
    return capture, first, second


def ranges(capture: Capture) -> tuple[Range, ...]:
    """The ranges of ORDERS that are left."""
    state = capture.table(ORDERS)
    return state.ranges if isinstance(state, Chunking) else ()


def test_each_range_begins_where_the_one_before_ends() -> None:
    capture, first, second = two_ranges()
    assert [(order.range, order.after, order.end) for order in (first, second)] == [
        (0, None, (4,)),
        (1, (4,), (9,)),
    ]
    assert ranges(capture) == (Range(0, None, (4,)), Range(1, (4,), (9,)))


@broken_by(mutations.ranges_wait_for_each_other)
def test_ranges_close_independently() -> None:
    capture, first, second = two_ranges()
    capture.give(read(first, 1, 2, high=30), read(second, 5, 6, high=20), LogAdvanced(place(20)))
    assert capture.stream == ["orders rows 5 6"]
    assert ranges(capture) == (Range(0, None, (4,)), Range(1, (6,), (9,)))
    capture.give(LogAdvanced(place(30)))
    assert capture.stream == ["orders rows 5 6", "orders rows 1 2"]
    assert ranges(capture) == (Range(0, (2,), (4,)), Range(1, (6,), (9,)))


@broken_by(mutations.the_first_range_done_completes_the_table)
def test_a_range_that_is_done_leaves_and_the_table_completes_with_the_last_one() -> None:
    capture, first, second = two_ranges()
    capture.give(read(second, 5, high=10))
    assert ranges(capture) == (Range(0, None, (4,)),)
    state = capture.table(ORDERS)
    assert isinstance(state, Chunking) and (state.progress.ranges, state.progress.ranges_done) == (2, 1)
    capture.give(read(first, 1, high=10))
    assert capture.table(ORDERS) == Completed(Progress(2, 2, 0, 7, ranges=2, ranges_done=2))


@broken_by(mutations.a_plan_begins_again)
def test_a_restart_goes_on_with_each_range_by_itself() -> None:
    before, first, second = two_ranges()
    before.give(read(second, 5, 6, high=10), read(first, 1, 2, high=30))
    after = Capture(checkpoint=before.checkpoint)
    again = of(ReadChunk, after.give(planned(ORDERS, end=None)))
    assert [(order.range, order.after, order.end) for order in again] == [
        (0, None, (4,)),
        (1, (6,), (9,)),
    ]


@broken_by(mutations.an_empty_table_is_complete_at_once)
def test_a_table_that_was_found_empty_is_complete_once_the_stream_is_there() -> None:
    capture = Capture(ORDERS)
    capture.give(execute("s1", ORDERS), planned(ORDERS, end=None, high=30), LogAdvanced(place(29)))
    assert capture.table(ORDERS) == SnapshotWaiting()
    assert capture.checkpoint.mirrors == {ORDERS.table: Filling(0)}
    capture.give(LogAdvanced(place(30)))
    assert capture.table(ORDERS) == Completed(Progress())
    assert capture.checkpoint.mirrors == {ORDERS.table: Ready(0)}
