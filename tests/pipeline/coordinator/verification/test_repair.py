"""Repairs: the rows that a verification found to differ are read again, then once more to be compared."""

from dataclasses import replace

import pyarrow as pa
import pytest

from pipeline.coordinator.state import Order
from pipeline.journal.change_rows import chunk_table
from pipeline.messages.changes import SchemasVerified
from pipeline.messages.chunks import ChunkFailed, RepairRows, SourceOverloaded, SourceRecovered
from pipeline.messages.journal import ChunkPart, DifferencesReported
from pipeline.messages.signals import SignalAccepted, SignalReceived, SignalRejected
from pipeline.schema.table_filter import TableFilter
from pipeline.signals.signal import PauseSnapshot, ResumeSnapshot, StopSnapshot, VerifyTables
from pipeline.snapshot.checkpoint import Checkpoint, Ready
from pipeline.snapshot.snapshot import (
    Completed,
    Progress,
    Repairing,
    Snapshot,
    SnapshotFailed,
    SnapshotStopped,
    SnapshotWaiting,
    Verification,
    from_json,
    to_json,
)
from tests.pipeline.builders import (
    ITEMS,
    ORDERS,
    Capture,
    altered,
    delete,
    execute,
    gtids,
    insert,
    of,
    passed,
    planned,
    read,
    update,
    wrote,
)

READ = Progress(rows=3)
READY = Checkpoint(
    gtids("a:1-5"),
    scn=7,
    schemas={each.table: each for each in (ORDERS, ITEMS)},
    mirrors={ORDERS.table: Ready(2), ITEMS.table: Ready(2)},
    snapshots=(
        Snapshot(
            "v1",
            {ORDERS.table: Repairing(READ), ITEMS.table: SnapshotWaiting()},
            verification=Verification(7, repairs=True),
        ),
    ),
)


def keys(*values: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(values, pa.int64())], ["id"])


def found(*values: int, batch: int = 1, last: bool = True) -> DifferencesReported:
    return DifferencesReported("v1", ORDERS.table, batch, keys(*values) if values else None, last)


def repairs(orders: tuple[Order, ...]) -> list[RepairRows]:
    return of(RepairRows, orders)


def emitted(capture: Capture) -> list[tuple[bool, list[int], list[int]]]:
    """Whether it's only compared, the rows, and the keys without one, of each chunk."""
    parts = [part for part in capture.parts if isinstance(part, ChunkPart)]
    assert all(part.gone is not None for part in parts)
    return [
        (part.verifies, part.rows["id"].to_pylist(), part.gone["id"].to_pylist() if part.gone else [])
        for part in parts
    ]


@pytest.fixture
def capture() -> Capture:
    return Capture(checkpoint=READY)


def test_a_verification_ends_with_its_repair() -> None:
    capture = Capture(checkpoint=replace(READY, snapshots=()))
    tables = TableFilter((r"shop\.orders",))
    capture.give(SignalReceived(VerifyTables("v1", tables, repair=True)))
    order = capture.chunk(capture.give(planned(ORDERS, 3)))
    capture.give(read(order, 1, low="a:1-5", high=10))
    assert isinstance(capture.table(ORDERS, "v1"), Repairing)
    capture.give(SignalReceived(VerifyTables("v2", tables)))
    assert isinstance(capture.answers[-1], SignalRejected)
    assert not repairs(capture.give(found(last=True)))
    assert isinstance(capture.table(ORDERS, "v1"), Completed)


def test_rows_are_read_again_and_then_compared(capture: Capture) -> None:
    (first,) = repairs(capture.give(found(1, 2, 3)))
    assert not first.checks
    assert not repairs(capture.give(found(1, 2, 3))), "the sink repeats what it has found"
    (second,) = repairs(capture.give(read(first, 1, 3, low="a:1-5", high=10)))
    assert (second.checks, second.keys) == (True, first.keys)
    capture.give(read(second, 1, 3, low="a:1-5", high=10))
    assert emitted(capture) == [(False, [1, 3], [2]), (True, [1, 3], [2])]
    assert capture.table(ORDERS, "v1") == Completed(READ, 1, 3)
    assert not repairs(capture.give(found(1, 2, 3))), "a late report"


def test_what_changes_meanwhile_is_in_the_stream(capture: Capture) -> None:
    """Also if more keys change than were requested, so that the window keeps only those that are left."""
    (first,) = repairs(capture.give(found(1, 2, 3, 4)))
    capture.give(read(first, 1, 2, low="a:1-5", high=30))
    capture.give(passed(20, wrote("a:6", update(1), delete(2), insert(3))))
    (second,) = repairs(capture.give(passed(30, wrote("a:7", *(update(1) for _ in range(9))))))
    capture.give(read(second, 1, 3, low="a:1-7", high=30))
    assert emitted(capture) == [(False, [], [4]), (True, [1, 3], [2, 4])]


def test_keys_that_all_changed_have_nothing_to_compare(capture: Capture) -> None:
    (first,) = repairs(capture.give(found(1)))
    (second,) = repairs(capture.give(read(first, 1, low="a:1-5", high=10)))
    capture.give(read(second, 1, low="a:1-5", high=20), passed(20, wrote("a:6", update(1))))
    assert emitted(capture) == [(False, [1], [])]
    assert capture.table(ORDERS, "v1") == Completed(READ, 1, 0)


def test_a_repair_that_ends_drops_the_chunks_of_its_table_and_they_are_read_again(capture: Capture) -> None:
    (first,) = repairs(capture.give(found(1)))
    (second,) = repairs(capture.give(read(first, 1, low="a:1-5", high=10)))
    capture.give(execute("s1", ORDERS))
    earlier = capture.chunk(capture.give(planned(ORDERS, 9)))
    later = capture.chunk(capture.give(read(earlier, 1, 2, low="a:1-5", high=40)))
    assert capture.windows[1:] == ["orders reconciling", "orders reading"]
    orders = capture.give(read(second, 1, low="a:1-5", high=10))
    assert isinstance(capture.table(ORDERS, "v1"), Completed)
    assert capture.plans(orders) == [ORDERS.table]
    assert capture.windows == []
    capture.give(read(later, 3, low="a:1-5", high=10))
    again = capture.chunk(capture.give(planned(ORDERS, 9)))
    assert again.after is None
    capture.give(read(again, 1, low="a:1-5", high=10))
    assert isinstance(capture.table(ORDERS), Completed)


def test_batches_follow_each_other(capture: Capture) -> None:
    (first,) = repairs(capture.give(found(1, last=False)))
    (second,) = repairs(capture.give(read(first, 1, low="a:1-5", high=10)))
    assert not repairs(capture.give(found(2, batch=2))), "the first one isn't over"
    capture.give(read(second, 1, low="a:1-5", high=10))
    assert capture.table(ORDERS, "v1") == Repairing(READ, 1, 1)
    (third,) = repairs(capture.give(found(2, batch=2)))
    assert third.keys == keys(2)


def test_a_start_repeats_the_batch(capture: Capture) -> None:
    (first,) = repairs(capture.give(found(1, 2)))
    capture.give(read(first, 1, low="a:1-5", high=10))
    again = Capture(checkpoint=capture.checkpoint)
    assert not repairs(again.first_orders), "until the sink has reported it"
    (first,) = repairs(again.give(found(1, 2)))
    assert not first.checks


def test_nothing_is_read_while_the_source_is_busy_or_snapshots_are_paused(capture: Capture) -> None:
    assert not repairs(capture.give(SourceOverloaded("many threads"), found(1)))
    assert not repairs(capture.give(SignalReceived(PauseSnapshot("p")), SourceRecovered()))
    assert repairs(capture.give(SignalReceived(ResumeSnapshot("r"))))


def test_another_schema_ends_it(capture: Capture) -> None:
    (order,) = repairs(capture.give(found(1)))
    capture.give(SchemasVerified((altered(ORDERS),)))
    assert isinstance(capture.table(ORDERS, "v1"), SnapshotFailed)
    assert not repairs(capture.give(read(order, 1, low="a:1-5", high=10))), "an answer that is late"
    assert not capture.parts


def test_rows_that_cant_be_read_end_it(capture: Capture) -> None:
    (order,) = repairs(capture.give(found(1)))
    capture.give(ChunkFailed(order.chunk, "so"))
    ended = capture.table(ORDERS, "v1")
    assert isinstance(ended, SnapshotFailed)
    assert "so" in ended.reason
    assert not capture.checkpoint.stopped


def test_keys_that_the_lake_cant_read_end_it(capture: Capture) -> None:
    unread = replace(found(), reason="so")
    (first,) = repairs(capture.give(found(1)))
    capture.give(unread)
    assert isinstance(capture.table(ORDERS, "v1"), Repairing), "an earlier report had them"
    (second,) = repairs(capture.give(read(first, 1, low="a:1-5", high=10)))
    assert second.keys == first.keys
    again = Capture(checkpoint=READY)
    again.give(unread)
    ended = again.table(ORDERS, "v1")
    assert isinstance(ended, SnapshotFailed)
    assert ended.reason == "what it found can't be read in the lake: so; verify the table again"
    assert not repairs(again.give(found(1))), "it has ended"


def test_a_signal_stops_it(capture: Capture) -> None:
    capture.give(found(1), SignalReceived(StopSnapshot("s", TableFilter((r"shop\.orders",)))))
    assert isinstance(capture.answers[-1], SignalAccepted)
    assert isinstance(capture.table(ORDERS, "v1"), SnapshotStopped)


def test_a_key_without_a_row_is_a_deletion_in_the_journal(capture: Capture) -> None:
    (first,) = repairs(capture.give(found(1, 2)))
    (second,) = repairs(capture.give(read(first, 1, low="a:1-5", high=10)))
    capture.give(read(second, 1, low="a:1-5", high=10))
    changes, compared = (
        chunk_table(5, part).to_pylist() for part in capture.parts if isinstance(part, ChunkPart)
    )
    told = [(row["__op"], row["__ordinal"], row["__absent"], row["id"], row["value"]) for row in changes]
    assert told == [("d", 0, ["value"], 2, None), ("r", 1, None, 1, None)]
    assert {row["__chunk"] for row in compared} == {"v1 repaired"}


@pytest.mark.parametrize("state", [Repairing(READ, 2, 9), Completed(READ, 2, 9), Completed(READ)])
def test_the_checkpoint_keeps_it(state: Repairing | Completed) -> None:
    snapshot = Snapshot("v1", {ORDERS.table: state}, verification=Verification(7, repairs=True))
    assert from_json(to_json(snapshot)) == snapshot
