"""Whose turn it is: the first snapshot in which a table hasn't ended."""

import itertools
from collections.abc import Iterable

from pipeline.snapshot.checkpoint import Checkpoint
from pipeline.snapshot.snapshot import (
    Chunking,
    Completed,
    Progress,
    Range,
    Snapshot,
    SnapshotWaiting,
    TableSnapshot,
)
from pipeline.snapshot.turns import snapshot_of, table_turns, unfinished_tables
from tests.pipeline.builders import ITEMS, ORDERS, gtids

UNDER_WAY = Chunking((Range(0, (2,), (9,)),), "walk", first=True, progress=Progress(chunks=1, rows=2))


def of_orders(*states: TableSnapshot, priorities: Iterable[int] = itertools.repeat(0)) -> Checkpoint:
    """A checkpoint with a snapshot s1, s2, … for each of these states of ORDERS."""
    snapshots = [
        Snapshot(f"s{number}", {ORDERS.table: state}, priority=priority)
        for number, (state, priority) in enumerate(zip(states, priorities, strict=False), start=1)
    ]
    return Checkpoint(gtids(""), snapshots=tuple(snapshots))


def ids(snapshot: Snapshot | None) -> str | None:
    return snapshot.id if snapshot else None


def test_the_snapshot_of_a_table_is_the_first_in_which_it_has_not_ended() -> None:
    checkpoint = of_orders(Completed(Progress()), UNDER_WAY, SnapshotWaiting())
    assert ids(snapshot_of(checkpoint, ORDERS.table)) == "s2"
    assert snapshot_of(checkpoint, ITEMS.table) is None
    assert [snapshot.id for snapshot, _ in unfinished_tables(checkpoint)] == ["s2", "s3"]


def test_of_two_waiting_snapshots_the_one_with_the_higher_priority_has_its_turn_first() -> None:
    checkpoint = of_orders(SnapshotWaiting(), SnapshotWaiting(), priorities=(0, 1))
    assert ids(snapshot_of(checkpoint, ORDERS.table)) == "s2"
    assert ids(table_turns(checkpoint)[ORDERS.table]) == "s2"


def test_a_table_under_way_stays_with_its_snapshot_whatever_priority_another_has() -> None:
    checkpoint = of_orders(UNDER_WAY, SnapshotWaiting(), priorities=(0, 1))
    assert ids(snapshot_of(checkpoint, ORDERS.table)) == "s1"
    assert ids(table_turns(checkpoint)[ORDERS.table]) == "s1"
