"""Verifications: their rows are no changes, and they end where nothing can be compared any more."""

from dataclasses import replace

import pytest

from pipeline.coordinator.verification.comparability import INCOMPLETE, end_outdated, refusal
from pipeline.messages.changes import MirrorInvalidated, SchemasVerified
from pipeline.messages.chunks import PlanFailed
from pipeline.messages.journal import ChunkPart
from pipeline.messages.signals import SignalAccepted, SignalReceived, SignalRejected
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import TableSchema
from pipeline.signals.signal import Filter, VerifyTables
from pipeline.snapshot.checkpoint import Checkpoint, Filling, Ready
from pipeline.snapshot.snapshot import (
    DROPPED,
    Completed,
    Progress,
    Request,
    Snapshot,
    SnapshotFailed,
    SnapshotWaiting,
    Verification,
)
from tests.pipeline.builders import (
    ITEMS,
    ORDERS,
    Capture,
    altered,
    gtids,
    part,
    passed,
    planned,
    read,
    statement,
    update,
    wrote,
)

READY = Checkpoint(
    gtids("a:1-5"),
    scn=7,
    schemas={each.table: each for each in (ORDERS, ITEMS)},
    mirrors={ORDERS.table: Ready(2), ITEMS.table: Ready(2)},
)


def verify(id_: str, *schemas: TableSchema, **asked: object) -> SignalReceived:
    tables = TableFilter(tuple(f"shop\\.{schema.table.name}" for schema in schemas))
    return SignalReceived(VerifyTables(id_, tables, **asked))  # type: ignore[arg-type]


@pytest.fixture
def capture() -> Capture:
    return Capture(checkpoint=READY)


def test_the_rows_that_no_change_touched_are_to_be_compared(capture: Capture) -> None:
    capture.give(verify("v1", ORDERS))
    assert capture.answers[-1] == SignalAccepted("v1", "verification of shop.orders")
    order = capture.chunk(capture.give(planned(ORDERS, 3)))
    capture.give(passed(20, wrote("a:6", update(1))))
    capture.give(read(order, 1, 2, low="a:1-5", high=15))
    (part,) = [part for part in capture.parts if isinstance(part, ChunkPart)]
    assert (part.verifies, part.first, part.rows["id"].to_pylist()) == (True, False, [2])
    capture.give(read(capture.chunk(capture.orders[-1:]), 3, low="a:1-6", high=20))
    assert isinstance(capture.table(ORDERS, "v1"), Completed)
    assert capture.checkpoint.mirrors == READY.mirrors
    (snapshot,) = capture.checkpoint.snapshots
    assert snapshot.verification == Verification(since=7)


def test_a_condition_is_remembered_to_the_end(capture: Capture) -> None:
    filters = (Filter(TableFilter((r"shop\.orders",)), "id > 3"),)
    capture.give(verify("v1", ORDERS, ITEMS, filters=filters, rows_per_s=9))
    (snapshot,) = capture.checkpoint.snapshots
    assert snapshot.request(ITEMS.table) == Request(rows_per_s=9)
    assert snapshot.verification == Verification(7, narrowed=frozenset({ORDERS.table}))


def test_a_mirror_that_isnt_complete_is_refused() -> None:
    filling = replace(READY, mirrors={ORDERS.table: Filling(2), ITEMS.table: Ready(2)})
    capture = Capture(checkpoint=filling)
    capture.give(verify("v1", ORDERS))
    assert capture.answers[-1] == SignalRejected("v1", f"shop.orders: {INCOMPLETE}")
    capture.give(verify("v2", ORDERS, ITEMS))
    assert isinstance(capture.table(ORDERS, "v2"), SnapshotFailed)
    assert isinstance(capture.table(ITEMS, "v2"), SnapshotWaiting)


def test_a_table_is_verified_once_at_a_time(capture: Capture) -> None:
    capture.give(verify("v1", ORDERS), verify("v2", ORDERS))
    reason = "shop.orders: it is being verified already, by v1"
    assert capture.answers[-1] == SignalRejected("v2", reason, busy=True)
    assert refusal(capture.checkpoint, ITEMS.table) is None


def test_of_a_dropped_table_the_reason_says_so(capture: Capture) -> None:
    gone = PlanFailed(ORDERS.table, "it doesn't exist", gone=True)
    capture.give(verify("v1", ORDERS), gone)
    assert capture.table(ORDERS, "v1") == SnapshotFailed("it doesn't exist", Progress()), "a right was lost"
    capture.give(statement("a:6", 20, ORDERS), verify("v2", ORDERS), gone)
    assert capture.table(ORDERS, "v2") == SnapshotFailed(f"{DROPPED}: it doesn't exist", Progress())


def test_another_mirror_ends_it(capture: Capture) -> None:
    capture.give(verify("v1", ORDERS, ITEMS))
    capture.give(MirrorInvalidated(ORDERS.table, "so"))
    ended = capture.table(ORDERS, "v1")
    assert isinstance(ended, SnapshotFailed)
    assert "begun again" in ended.reason
    assert isinstance(capture.table(ITEMS, "v1"), SnapshotWaiting)
    (again,) = [s for s in capture.checkpoint.snapshots if s.id != "v1"]
    assert again.fills(ORDERS.table), "whose snapshot isn't the verification's"


def test_other_columns_end_it(capture: Capture) -> None:
    capture.give(verify("v1", ORDERS, ITEMS))
    capture.give(SchemasVerified((altered(ORDERS),)))
    ended = capture.table(ORDERS, "v1")
    assert isinstance(ended, SnapshotFailed)
    assert "columns" in ended.reason
    assert isinstance(capture.table(ITEMS, "v1"), SnapshotWaiting)


def test_what_comes_within_a_transaction_ends_it_too(capture: Capture) -> None:
    capture.give(verify("v1", ORDERS, ITEMS), part("a:6", update(1, schema=ITEMS)))
    capture.give(MirrorInvalidated(ORDERS.table, "so"), SchemasVerified((altered(ITEMS),)))
    capture.give(passed(20, wrote("a:6", update(1, schema=altered(ITEMS)))))
    (begun, columns) = (capture.table(schema, "v1") for schema in (ORDERS, ITEMS))
    assert isinstance(begun, SnapshotFailed) and "begun again" in begun.reason
    assert isinstance(columns, SnapshotFailed) and "columns" in columns.reason


def test_a_start_ends_what_cant_be_compared_any_more() -> None:
    waiting = Snapshot("v1", {ORDERS.table: SnapshotWaiting()}, verification=Verification(7))
    begun = replace(READY, snapshots=(waiting,), mirrors={**READY.mirrors, ORDERS.table: Filling(7)})
    assert isinstance(Capture(checkpoint=begun).table(ORDERS, "v1"), SnapshotFailed)
    state = Capture(checkpoint=replace(READY, snapshots=(waiting,))).state
    assert end_outdated(None, state) is state


def test_a_pipeline_without_a_lake_verifies_nothing() -> None:
    bare = Capture(checkpoint=READY)
    bare.state = replace(bare.state, has_lake=False)
    bare.give(verify("v1", ORDERS))
    answer = bare.answers[-1]
    assert isinstance(answer, SignalRejected)
    assert "no lake" in answer.reason
    assert not bare.checkpoint.snapshots
