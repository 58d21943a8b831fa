"""The selector's answers: under which schema they count, what they fill, and what begins again."""

from dataclasses import replace

import pytest

from pipeline.coordinator.handle_chunks import MOST_POSITIONS
from pipeline.coordinator.snapshots.table_snapshots import with_snapshot
from pipeline.coordinator.state import SchemaDiffers
from pipeline.messages.binlog import LogAdvanced, ReadingPaused
from pipeline.messages.changes import SchemasVerified
from pipeline.messages.chunks import ChunkSchemaChanged, OpenTransactions, TransactionsOpened
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.snapshot.checkpoint import Checkpoint, Filling, Mirror
from pipeline.snapshot.snapshot import Completed, Snapshot, SnapshotWaiting
from pipeline.types.column_types import Enum
from pipeline.types.enum_labels import UNKNOWN_CHARACTER
from tests.pipeline.builders import (
    ITEMS,
    ORDERS,
    Capture,
    altered,
    execute,
    gtids,
    of,
    place,
    planned,
    statement,
)


def labelled(*labels: str) -> TableSchema:
    """The orders with an ENUM of these labels."""
    return replace(ORDERS, columns=(*ORDERS.columns, Column("status", Enum(labels), nullable=True)))


# Schemas


def test_a_label_that_the_server_does_not_tell_is_the_logs() -> None:
    """The server shows a question mark for an emoji."""
    log, server = labelled("😀", "b"), labelled(UNKNOWN_CHARACTER, "b")
    capture = Capture(log)
    order = Capture.chunk(capture.give(execute("s1", log), planned(server)))
    assert order.schema == log
    other = Capture(log)
    other.give(execute("s1", log), planned(labelled(UNKNOWN_CHARACTER, "c"), high=30))
    assert isinstance(other.state.plans[log.table], SchemaDiffers)


# Schemas in a consistent snapshot


def consistent() -> Capture:
    """A coordinator with a consistent snapshot of the orders, and another one that waits for its end."""
    asked = Snapshot("c", {ORDERS.table: SnapshotWaiting()}, consistent=True, priority=1001)
    other = Snapshot("s1", {ITEMS.table: SnapshotWaiting()})
    schemas = {each.table: each for each in (ORDERS, ITEMS)}
    mirrors: dict[TableId, Mirror] = dict.fromkeys(schemas, Filling(0))
    begin_at = Checkpoint(gtids("a:1-5"), scn=7, schemas=schemas, mirrors=mirrors, snapshots=(asked, other))
    return Capture(checkpoint=begin_at)


def go_to_position(capture: Capture, offset: int) -> None:
    """The transactions are opened where the stream will be, and it stops there."""
    order = of(OpenTransactions, capture.orders)[-1]
    seen = capture.checkpoint.position
    capture.give(TransactionsOpened(order.number, place(offset), seen))
    capture.give(LogAdvanced(place(offset)), ReadingPaused())


@pytest.mark.parametrize("in_chunk", [False, True], ids=["its plan", "its chunk"])
def test_a_table_that_differs_at_each_position_stops_and_others_are_read(in_chunk: bool) -> None:
    capture = consistent()
    for tries in range(1, MOST_POSITIONS + 1):
        assert ORDERS.table not in capture.checkpoint.stopped
        go_to_position(capture, 10 + tries)
        if in_chunk:
            order = Capture.chunk(capture.give(planned(ORDERS)))
            capture.give(ChunkSchemaChanged(order.chunk, "there's no index u"))
        else:
            capture.give(planned(altered(ORDERS)))
    assert "the source and the log contradict each other" in capture.checkpoint.stopped[ORDERS.table]
    assert Capture.plans(capture.orders)[-1] == ITEMS.table
    assert len(of(OpenTransactions, capture.orders)) == MOST_POSITIONS


def test_a_table_that_statements_alter_again_and_again_does_not_stop() -> None:
    """Each passes the source while the transactions are open, and the stream after that."""
    capture = consistent()
    for tries in range(MOST_POSITIONS):
        go_to_position(capture, 20 + 10 * tries)
        capture.give(planned(altered(ORDERS)))
        capture.give(statement(f"a:{6 + tries}", 25 + 10 * tries, ORDERS), SchemasVerified((ORDERS,)))
    assert not capture.checkpoint.stopped
    assert not capture.state.contradictions


def test_a_table_whose_schema_is_unproven_does_not_stop() -> None:
    capture = consistent()
    capture.give(statement("a:6", 15, ORDERS))
    for tries in range(MOST_POSITIONS):
        go_to_position(capture, 20 + tries)
        capture.give(planned(altered(ORDERS)))
    assert not capture.checkpoint.stopped


def test_another_snapshots_table_that_differs_stops_once_the_stream_has_passed_what_it_showed() -> None:
    capture = Capture(ORDERS, ITEMS)
    assert Capture.plans(capture.give(execute("s1", ITEMS))) == [ITEMS.table]
    asked = Snapshot("c", {ORDERS.table: SnapshotWaiting()}, consistent=True, priority=1001)
    capture.state = with_snapshot(capture.state, asked)
    assert of(OpenTransactions, capture.give(LogAdvanced(place(20))))
    capture.give(planned(altered(ITEMS), high=40))
    go_to_position(capture, 30)
    assert isinstance(capture.state.plans[ITEMS.table], SchemaDiffers)
    assert not capture.checkpoint.stopped
    capture.give(planned(ORDERS, end=None, high=30))
    assert isinstance(capture.table(ORDERS, "c"), Completed)
    capture.give(LogAdvanced(place(40)))
    assert "the source and the log contradict each other" in capture.checkpoint.stopped[ITEMS.table]
