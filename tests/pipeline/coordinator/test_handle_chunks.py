"""What the selector has found: under which schema it counts, what it fills, and what begins anew."""

from dataclasses import replace

import pytest

from pipeline.coordinator.state import FoundEmpty, Planned, Unsettled
from pipeline.messages.binlog import LogAdvanced, ReadingPaused
from pipeline.messages.changes import SchemaVerified
from pipeline.messages.chunks import ChunkSchemaChanged, PlanFailed, ReadChunk
from pipeline.schema.table_schema import Column, TableSchema
from pipeline.snapshot.checkpoint import Checkpoint, Filling, Mirror, Ready
from pipeline.snapshot.chunk_index import ChunkIndex
from pipeline.snapshot.snapshot import Chunking, Completed, Progress, Range, SnapshotFailed, SnapshotWaiting
from pipeline.types.column_types import Enum
from pipeline.types.enum_labels import UNKNOWN
from tests.pipeline import mutations
from tests.pipeline.builders import (
    ITEMS,
    ORDERS,
    Capture,
    altered,
    execute,
    gtids,
    insert,
    of,
    passed,
    place,
    planned,
    read,
    some,
    statement,
    stop,
    wrote,
)
from tests.pipeline.mutations import broken_by


def labelled(*labels: str) -> TableSchema:
    """The orders with an ENUM of these labels."""
    return replace(ORDERS, columns=(*ORDERS.columns, Column("status", Enum(labels), nullable=True)))


SURROGATE = ChunkIndex("by_value", (1,), (False,), (None,))


def holding(schema: TableSchema, mirror: Mirror | None) -> Capture:
    """A coordinator at SCN 7 that knows this table, and the state of its mirror."""
    mirrors = {} if mirror is None else {schema.table: mirror}
    checkpoint = Checkpoint(gtids("a:1-5"), 7, schemas={schema.table: schema}, mirrors=mirrors)
    return Capture(checkpoint=checkpoint)


# Schemas


@broken_by(mutations.any_schema_will_do)
def test_a_plan_under_a_schema_that_the_stream_has_not_come_to_waits() -> None:
    capture = Capture(ORDERS)
    assert of(ReadChunk, capture.give(execute("s1", ORDERS), planned(altered(ORDERS), high=30))) == []
    assert isinstance(capture.state.runs[ORDERS.table], Unsettled)
    assert capture.table(ORDERS) == SnapshotWaiting()
    capture.give(statement("a:6", 20, ORDERS), planned(altered(ORDERS), high=30))
    assert isinstance(capture.state.runs[ORDERS.table], Unsettled)
    assert Capture.plans(capture.give(SchemaVerified(altered(ORDERS)))) == [ORDERS.table]
    assert Capture.chunk(capture.give(planned(altered(ORDERS)))).schema == altered(ORDERS)


@broken_by(mutations.an_outdated_chunk_fails_its_table)
def test_an_outdated_chunk_lets_the_stream_come_to_what_outdated_it() -> None:
    capture = Capture(ORDERS)
    capture.give(execute("s1", ORDERS, blocking=True), planned(ORDERS))
    order = Capture.chunk(capture.give(ReadingPaused()))
    capture.give(ChunkSchemaChanged(order.chunk))
    assert (capture.open, capture.state.runs) == (
        [],
        {ORDERS.table: Unsettled("the table was altered", None)},
    )
    assert type(capture.state.gate).__name__ == "Flowing"
    assert isinstance(capture.table(ORDERS), Chunking)
    assert Capture.plans(capture.give(statement("a:6", 20, ORDERS))) == [ORDERS.table]


def test_an_outdated_chunk_that_was_dropped_changes_nothing() -> None:
    capture = Capture(ORDERS)
    order = capture.begin(ORDERS)
    capture.give(statement("a:6", 20, ORDERS), planned(ORDERS))
    before = capture.state.runs
    assert isinstance(before[ORDERS.table], Planned)
    capture.give(ChunkSchemaChanged(order.chunk))
    assert capture.state.runs == before


def test_a_table_that_the_source_and_the_log_tell_differently_for_good_stops_by_name() -> None:
    capture = Capture(ORDERS, ITEMS)
    capture.give(execute("s1", ORDERS, ITEMS), planned(altered(ORDERS), high=30))
    capture.give(LogAdvanced(place(29)))
    assert capture.checkpoint.stopped == {}
    capture.give(LogAdvanced(place(30)))
    reason = capture.checkpoint.stopped[ORDERS.table]
    assert "the source and the log say different things of it" in reason
    assert ITEMS.table not in capture.checkpoint.stopped


def test_a_table_whose_schema_is_yet_to_be_proven_is_waited_for() -> None:
    capture = Capture(ORDERS)
    capture.give(execute("s1", ORDERS), statement("a:6", 20, ORDERS), planned(ORDERS))
    capture.give(planned(altered(ORDERS), high=30), LogAdvanced(place(40)))
    assert capture.checkpoint.stopped == {}
    assert Capture.plans(capture.give(SchemaVerified(altered(ORDERS)))) == [ORDERS.table]


def test_a_chunk_that_is_outdated_though_no_statement_came_stops_its_table() -> None:
    capture = Capture(ORDERS)
    order = capture.begin(ORDERS)
    capture.give(ChunkSchemaChanged(order.chunk, "there's no index u", place(30)))
    capture.give(LogAdvanced(place(30)))
    assert "there's no index u" in capture.checkpoint.stopped[ORDERS.table]


def test_a_label_that_the_server_does_not_tell_is_the_logs() -> None:
    """The server shows a question mark for an emoji."""
    log, server = labelled("😀", "b"), labelled(UNKNOWN, "b")
    capture = Capture(log)
    order = Capture.chunk(capture.give(execute("s1", log), planned(server)))
    assert order.schema == log
    other = Capture(log)
    other.give(execute("s1", log), planned(labelled(UNKNOWN, "c"), high=30))
    assert isinstance(other.state.runs[log.table], Unsettled)


# What is filled


@pytest.mark.parametrize(
    ("mirror", "asked", "first"),
    [
        (None, {}, True),
        (Filling(3), {}, True),  # begun without a signal, or anew
        (Ready(3), {}, False),
        (None, {"filters": some(ORDERS)}, False),
        (Filling(3), {"filters": some(ORDERS)}, False),
        (None, {"surrogate": "by_value"}, False),  # a row may be read twice
        (Filling(3), {"surrogate": "by_value"}, False),
        (None, {"chunk_rows": 5}, True),
    ],
)
def test_rows_go_straight_to_the_mirror_where_it_is_empty_and_each_comes_once(
    mirror: Mirror | None, asked: dict[str, object], first: bool
) -> None:
    capture = holding(ORDERS, mirror)
    capture.give(execute("s1", ORDERS, **asked), planned(ORDERS))
    state = capture.table(ORDERS)
    assert isinstance(state, Chunking) and state.first == first
    begun = {} if mirror is None and "filters" in asked else {ORDERS.table: mirror or Filling(7)}
    assert capture.checkpoint.mirrors == begun


@pytest.mark.parametrize("mirror", [None, Filling(3)])
def test_a_mirror_is_ready_when_a_snapshot_along_a_surrogate_key_is_complete(mirror: Mirror | None) -> None:
    capture = holding(ORDERS, mirror)
    capture.give(execute("s1", ORDERS, surrogate="by_value"))
    capture.give(read(Capture.chunk(capture.give(planned(ORDERS))), 1))
    assert capture.checkpoint.mirrors == {ORDERS.table: Ready(3 if mirror else 7)}


@broken_by(mutations.a_part_of_a_table_makes_a_mirror)
def test_a_snapshot_of_some_rows_makes_no_mirror() -> None:
    capture = Capture(ORDERS, ITEMS)
    capture.give(execute("s1", ORDERS, filters=some(ORDERS)), execute("s2", ITEMS, filters=some(ITEMS)))
    capture.give(read(Capture.chunk(capture.give(planned(ORDERS))), 1), planned(ITEMS, end=None))
    assert isinstance(capture.table(ORDERS), Completed)
    assert isinstance(capture.table(ITEMS, "s2"), Completed)
    assert capture.checkpoint.mirrors == {}


def test_a_mirror_that_was_to_be_filled_is_ready_when_its_snapshot_ends_before_it_began() -> None:
    capture = holding(ORDERS, Filling(3))
    capture.give(execute("s1", ORDERS), execute("s2", ORDERS), stop("s3", ORDERS))
    assert capture.checkpoint.mirrors == {ORDERS.table: Ready(3)}


def test_a_mirror_that_another_snapshot_fills_is_not_ready_when_one_ends() -> None:
    capture = holding(ORDERS, Filling(3))
    capture.give(execute("s1", ORDERS), execute("s2", ORDERS), PlanFailed(ORDERS.table, "so"))
    assert isinstance(capture.table(ORDERS), SnapshotFailed)
    assert capture.checkpoint.mirrors == {ORDERS.table: Filling(3)}


def test_what_had_passed_before_a_table_was_first_asked_for_is_not_in_its_mirror() -> None:
    capture = Capture(ORDERS, ITEMS)
    capture.give(passed(20, wrote("a:6", insert(1))), execute("s1", ORDERS, ITEMS, filters=some(ITEMS)))
    assert capture.checkpoint.mirrors == {ORDERS.table: Filling(1)}


# Empty tables


def test_an_empty_table_is_planned_again_behind_a_statement() -> None:
    capture = Capture(ORDERS)
    capture.give(execute("s1", ORDERS), planned(ORDERS, end=None, high=30))
    assert capture.state.runs == {ORDERS.table: FoundEmpty("s1", place(30))}
    assert Capture.plans(capture.give(statement("a:6", 30, ORDERS))) == [ORDERS.table]
    assert capture.table(ORDERS) == SnapshotWaiting()


@broken_by(mutations.an_empty_plan_is_anybodys)
def test_a_table_that_was_found_empty_is_looked_at_again_for_a_snapshot_that_comes_before_it_now() -> None:
    capture = Capture(ORDERS)
    capture.give(execute("s1", ORDERS), planned(ORDERS, end=None, high=30))
    assert Capture.plans(capture.give(execute("s2", ORDERS, priority=1))) == [ORDERS.table]
    capture.give(LogAdvanced(place(30)))
    assert capture.table(ORDERS, "s1") == capture.table(ORDERS, "s2") == SnapshotWaiting()


# Anew


# ORDERS, its key renamed.
REKEYED = replace(ORDERS, columns=(replace(ORDERS.columns[0], name="number"), *ORDERS.columns[1:]))


def rekeyed(capture: Capture) -> list[ReadChunk]:
    """ORDERS becomes REKEYED, is verified and planned: the chunks that are asked for then."""
    capture.give(statement("a:6", 20, ORDERS), SchemaVerified(REKEYED), planned(ORDERS), planned(REKEYED))
    return of(ReadChunk, capture.give(planned(REKEYED)))


@broken_by(mutations.any_key_will_do, mutations.a_mirror_has_one_generation)
def test_a_table_with_another_key_is_read_anew_into_a_new_generation() -> None:
    capture = Capture(ORDERS)
    capture.give(read(capture.begin(ORDERS), 1, 2))
    assert [(order.after, order.range, order.limit) for order in rekeyed(capture)] == [(None, 0, 2)]
    state = capture.table(ORDERS)
    assert isinstance(state, Chunking)
    assert (state.ranges, state.first, state.progress) == (
        (Range(0, None, (9,)),),
        True,
        Progress(expected=7, ranges=1),
    )
    assert capture.checkpoint.mirrors == {ORDERS.table: Filling(3)}


def test_a_table_with_another_key_of_which_some_rows_are_read_keeps_its_mirror() -> None:
    capture = holding(ORDERS, Ready(3))
    capture.give(execute("s1", ORDERS, filters=some(ORDERS)))
    capture.give(read(Capture.chunk(capture.give(planned(ORDERS))), 1, 2))
    assert [order.after for order in rekeyed(capture)] == [None]
    assert capture.checkpoint.mirrors == {ORDERS.table: Ready(3)}


def test_a_table_whose_index_has_changed_is_read_anew_though_its_key_has_not() -> None:
    capture = Capture(ORDERS)
    capture.give(execute("s1", ORDERS, surrogate="by_value"))
    order = Capture.chunk(capture.give(replace(planned(ORDERS), walk=SURROGATE)))
    capture.give(read(order, 1, 2), statement("a:6", 20, ORDERS))
    turned = replace(planned(ORDERS), walk=replace(SURROGATE, descending=(True,)))
    assert Capture.plans(capture.give(turned)) == [ORDERS.table]
    assert capture.table(ORDERS) == SnapshotWaiting()


def test_a_table_that_is_read_anew_is_not_read_anew_again_without_a_statement() -> None:
    capture = Capture(ORDERS)
    capture.give(read(capture.begin(ORDERS), 1, 2))
    (order,) = rekeyed(capture)
    capture.give(read(order, 1, 2, low="a:1-6"), LogAdvanced(place(50)))
    after = Capture(checkpoint=capture.checkpoint)
    assert Capture.chunk(after.give(planned(REKEYED, end=None))).after == (2,)
