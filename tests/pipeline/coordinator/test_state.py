"""What ends and what is dropped: by statements, by failures, by stops; and what is remembered of it."""

from dataclasses import replace

import pyarrow as pa
import pytest

from pipeline.coordinator import state as coordinator_state
from pipeline.coordinator.state import SNAPSHOTS_REMEMBERED, Overlapping, Planning, State
from pipeline.messages.changes import SchemaVerified, TableStopped
from pipeline.messages.chunks import ChunkFailed, PlanFailed
from pipeline.schema.table_schema import TableSchema
from pipeline.snapshot.checkpoint import Checkpoint, Filling, Mirror, Ready
from pipeline.snapshot.snapshot import (
    Chunking,
    Completed,
    Progress,
    Range,
    Snapshot,
    SnapshotFailed,
    SnapshotStopped,
    SnapshotWaiting,
    TableSnapshot,
)
from tests.pipeline import mutations
from tests.pipeline.builders import (
    ITEMS,
    LIMITS,
    ORDERS,
    Capture,
    altered,
    execute,
    gtids,
    planned,
    read,
    statement,
    stop,
)
from tests.pipeline.mutations import broken_by

# Statements


@broken_by(mutations.windows_survive_a_statement)
def test_a_statement_discards_the_windows_of_its_table_and_asks_for_the_plan_anew() -> None:
    capture = Capture(ORDERS)
    second = Capture.chunk(capture.give(read(capture.begin(ORDERS), 1, 2, high=30)))
    assert capture.open == ["orders reconciling", "orders reading"]
    orders = capture.give(statement("a:6", 40, ORDERS))
    assert capture.open == []
    assert Capture.plans(orders) == [ORDERS.table]
    assert capture.stream == []
    capture.give(read(second, 3, high=40))
    assert capture.stream == []


@broken_by(mutations.a_statement_drops_every_window)
def test_a_statement_leaves_other_tables_alone() -> None:
    capture = Capture(ORDERS, ITEMS)
    capture.begin(ORDERS)
    capture.begin(ITEMS, signal="s2")
    orders = capture.give(statement("a:6", 20, ITEMS))
    assert capture.open == ["orders reading"]
    assert Capture.plans(orders) == [ITEMS.table]


@broken_by(mutations.a_plan_begins_again)
def test_a_statement_leaves_done_what_was_done_and_the_rest_is_read_under_the_new_schema() -> None:
    capture = Capture(ORDERS)
    capture.give(read(capture.begin(ORDERS, end=9), 1, 2, high=10), statement("a:6", 20, ORDERS))
    capture.give(SchemaVerified(altered(ORDERS)), planned(ORDERS, end=12))
    order = Capture.chunk(capture.give(planned(altered(ORDERS), end=12)))
    assert (order.schema, order.after, order.end) == (altered(ORDERS), (2,), (9,))
    capture.give(read(order, 3, low="a:1-6", high=20))
    assert capture.stream == ["orders rows 1 2", "orders rows 3"]
    assert capture.checkpoint.schemas[ORDERS.table] == altered(ORDERS)


@broken_by(mutations.stale_plans_are_taken)
def test_a_plan_from_before_a_statement_is_stale_and_another_is_asked_for() -> None:
    capture = Capture(ORDERS)
    asked = capture.give(execute("s1", ORDERS), statement("a:6", 20, ORDERS))
    assert Capture.plans(asked) == [ORDERS.table]
    stale = capture.give(planned(ORDERS))
    assert Capture.plans(stale) == [ORDERS.table]
    assert capture.table(ORDERS) == SnapshotWaiting()
    assert Capture.chunk(capture.give(planned(ORDERS))).asked_at == gtids("a:1-6")


@broken_by(mutations.stale_plans_are_taken)
def test_the_failure_of_a_stale_plan_fails_nothing() -> None:
    capture = Capture(ORDERS)
    capture.give(execute("s1", ORDERS), statement("a:6", 20, ORDERS))
    assert Capture.plans(capture.give(PlanFailed(ORDERS.table, "no such table"))) == [ORDERS.table]
    assert capture.table(ORDERS) == SnapshotWaiting()


@broken_by(mutations.any_key_will_do)
def test_a_changed_primary_key_begins_the_table_anew() -> None:
    capture = Capture(ORDERS, ITEMS)
    capture.give(read(capture.begin(ORDERS), 1, 2, high=10))
    capture.begin(ITEMS, signal="s2")
    rekeyed = replace(ORDERS, key=(1,))
    capture.give(statement("a:6", 20, ORDERS), SchemaVerified(rekeyed), planned(ORDERS))
    assert Capture.plans(capture.give(planned(rekeyed))) == [ORDERS.table]
    assert capture.table(ORDERS) == SnapshotWaiting()
    assert capture.checkpoint.mirrors[ORDERS.table] == Filling(4)
    assert capture.open == ["items reading"]
    order = Capture.chunk(capture.give(planned(rekeyed)))
    assert (order.after, order.schema.key) == (None, (1,))
    begun = capture.table(ORDERS)
    assert isinstance(begun, Chunking) and begun.first


def test_a_statement_about_no_captured_table_only_passes() -> None:
    capture = Capture(ORDERS)
    capture.begin(ORDERS)
    capture.give(statement("a:6", 20))
    assert capture.open == ["orders reading"]
    assert capture.checkpoint.position == gtids("a:1-6")


# Failures


@broken_by(mutations.a_failed_chunk_is_skipped, mutations.a_failure_ends_every_table)
def test_a_failed_chunk_fails_its_table_by_name_and_others_go_on() -> None:
    capture = Capture(ORDERS, ITEMS)
    order = capture.begin(ORDERS)
    capture.begin(ITEMS, signal="s2")
    capture.give(ChunkFailed(order.chunk, "lost connection"))
    assert capture.table(ORDERS) == SnapshotFailed(
        "lost connection (not read: through (9,))", Progress(expected=7, ranges=1)
    )
    assert capture.open == ["items reading"]


@broken_by(mutations.windows_survive_an_end)
def test_a_failed_chunk_takes_the_open_windows_of_its_table_with_it() -> None:
    capture = Capture(ORDERS)
    second = Capture.chunk(capture.give(read(capture.begin(ORDERS), 1, 2, high=30)))
    capture.give(ChunkFailed(second.chunk, "lost connection"))
    assert capture.open == []


def test_a_chunk_whose_keys_have_no_value_stops_its_table_since_its_rows_cannot_be_told_apart() -> None:
    capture = Capture(ORDERS, ITEMS)
    order = capture.begin(ORDERS)
    capture.begin(ITEMS, signal="s2")
    chunk = read(order, 1, 2, high=10)
    without_values = chunk.rows.set_column(0, "id", pa.array([1, None], pa.int64()))
    capture.give(replace(chunk, rows=without_values))
    failed = capture.table(ORDERS)
    assert isinstance(failed, SnapshotFailed) and failed.reason.startswith(
        "id of its primary key has a zero or partial date"
    )
    [why] = capture.checkpoint.stopped.values()
    assert failed.reason.startswith(why)
    assert capture.open == ["items reading"]
    assert capture.stream == []


@broken_by(mutations.a_failed_plan_is_asked_again, mutations.a_failure_ends_every_table)
def test_a_failed_plan_fails_its_table_by_name_and_others_go_on() -> None:
    capture = Capture(ORDERS, ITEMS)
    capture.give(execute("s1", ORDERS, ITEMS))
    capture.give(PlanFailed(ITEMS.table, "no SELECT"), planned(ORDERS))
    assert capture.table(ITEMS) == SnapshotFailed("no SELECT", Progress())
    assert capture.open == ["orders reading"]


@broken_by(mutations.any_failure_ends_its_table)
def test_the_failure_of_a_chunk_that_a_statement_had_dropped_fails_nothing() -> None:
    capture = Capture(ORDERS)
    order = capture.begin(ORDERS)
    capture.give(statement("a:6", 20, ORDERS), ChunkFailed(order.chunk, "unknown column"))
    assert isinstance(capture.table(ORDERS), Chunking)


@broken_by(mutations.windows_survive_an_end)
def test_the_answers_to_a_dropped_chunk_are_ignored() -> None:
    capture = Capture(ORDERS)
    order = capture.begin(ORDERS)
    capture.give(stop("s2", ORDERS))
    assert capture.open == []
    before = capture.checkpoint
    assert capture.give(read(order, 1, 2, high=10), ChunkFailed(order.chunk, "lost connection")) == ()
    assert capture.checkpoint is before


def test_a_stopped_table_fails_by_name_and_stays_stopped_over_a_restart() -> None:
    capture = Capture(ORDERS, ITEMS)
    capture.begin(ORDERS)
    capture.begin(ITEMS, signal="s2")
    capture.give(TableStopped(ORDERS.table, "its row images are partial"))
    failed = capture.table(ORDERS)
    assert failed == SnapshotFailed(
        "its row images are partial (not read: through (9,))", Progress(0, 0, 0, 7, 1)
    )
    assert capture.checkpoint.stopped == {ORDERS.table: "its row images are partial"}
    assert capture.open == ["items reading"]
    assert Capture.plans(Capture(checkpoint=capture.checkpoint).first_orders) == [ITEMS.table]


def test_a_stopped_table_fails_in_every_snapshot_that_wants_it() -> None:
    capture = Capture(ORDERS)
    capture.begin(ORDERS)
    capture.give(execute("s2", ORDERS))
    orders = capture.give(TableStopped(ORDERS.table, "its row images are partial"))
    assert Capture.plans(orders) == []
    assert capture.table(ORDERS, "s2") == SnapshotFailed("its row images are partial", Progress())


# Remembering


@broken_by(mutations.snapshots_are_remembered_for_ever)
def test_the_last_snapshots_that_ended_are_remembered_and_no_more() -> None:
    capture = Capture(ORDERS)
    for number in range(SNAPSHOTS_REMEMBERED + 3):
        capture.give(execute(f"s{number}", ORDERS), planned(ORDERS, end=None))
    remembered = [snapshot.id for snapshot in capture.checkpoint.snapshots]
    assert remembered == [f"s{number}" for number in range(3, SNAPSHOTS_REMEMBERED + 3)]


def test_a_snapshot_that_has_not_ended_is_remembered_however_many_ended_after_it() -> None:
    capture = Capture(ORDERS, ITEMS)
    capture.begin(ORDERS, signal="long")
    for number in range(SNAPSHOTS_REMEMBERED + 3):
        capture.give(execute(f"s{number}", ITEMS), planned(ITEMS, end=None))
    assert capture.checkpoint.snapshots[0].id == "long"
    assert len(capture.checkpoint.snapshots) == SNAPSHOTS_REMEMBERED + 1


# The small changes by themselves

UNDER_WAY = Chunking((Range(0, (2,), (9,)),), "walk", first=True, progress=Progress(chunks=1, rows=2))


def holding(*states: TableSnapshot, mirrors: dict[TableSchema, Mirror] | None = None) -> State:
    """A state with a snapshot s1, s2, … for each of these states of ORDERS."""
    snapshots = tuple(Snapshot(f"s{i}", {ORDERS.table: state}) for i, state in enumerate(states, start=1))
    known = {schema.table: mirror for schema, mirror in (mirrors or {}).items()}
    return State(LIMITS, Overlapping(4), Checkpoint(gtids(""), mirrors=known, snapshots=snapshots))


@pytest.mark.parametrize(
    "ended", [Completed(Progress()), SnapshotStopped(Progress()), SnapshotFailed("so", Progress())]
)
def test_a_mirror_that_was_being_filled_is_ready_however_the_snapshot_ended(ended: TableSnapshot) -> None:
    state = holding(UNDER_WAY, mirrors={ORDERS: Filling(3)})
    (snapshot,) = state.checkpoint.snapshots
    after = coordinator_state.table_ended(state, snapshot, ORDERS.table, ended).checkpoint
    assert after.mirrors == {ORDERS.table: Ready(3)}
    assert after.snapshots == (Snapshot("s1", {ORDERS.table: ended}),)


@pytest.mark.parametrize("ended", [SnapshotStopped(Progress()), SnapshotFailed("so", Progress())])
def test_a_table_whose_snapshot_never_began_has_no_mirror(ended: TableSnapshot) -> None:
    state = holding(SnapshotWaiting())
    (snapshot,) = state.checkpoint.snapshots
    assert coordinator_state.table_ended(state, snapshot, ORDERS.table, ended).checkpoint.mirrors == {}


def test_a_failure_keeps_the_counts() -> None:
    state = coordinator_state.fail_table(holding(UNDER_WAY), ORDERS.table, "so")
    failed = SnapshotFailed("so (not read: behind (2,) through (9,))", UNDER_WAY.progress)
    assert state.checkpoint.snapshots[0].tables == {ORDERS.table: failed}


def test_a_failure_of_a_table_without_a_snapshot_changes_nothing_durable() -> None:
    before = holding(Completed(Progress()))
    assert coordinator_state.fail_table(before, ORDERS.table, "so") == before


def test_a_plan_that_is_on_its_way_when_its_table_is_dropped_becomes_stale() -> None:
    state = coordinator_state.with_run(holding(SnapshotWaiting()), ORDERS.table, Planning("s1"))
    assert coordinator_state.dropped(state, {ITEMS.table}) == state
    assert coordinator_state.dropped(state, {ORDERS.table}).runs == {ORDERS.table: Planning("s1", stale=True)}


def test_the_snapshot_of_a_table_is_the_first_in_which_it_has_not_ended() -> None:
    checkpoint = holding(Completed(Progress()), UNDER_WAY, SnapshotWaiting()).checkpoint
    found = coordinator_state.snapshot_of(checkpoint, ORDERS.table)
    assert found is not None and found.id == "s2"
    assert coordinator_state.snapshot_of(checkpoint, ITEMS.table) is None
    assert [snapshot.id for snapshot, _ in coordinator_state.unended(checkpoint)] == ["s2", "s3"]


def test_one_snapshot_of_a_table_changes_and_the_others_stay() -> None:
    state = holding(Completed(Progress()), UNDER_WAY, SnapshotWaiting())
    second = state.checkpoint.snapshots[1]
    after = coordinator_state.with_table(state, second, ORDERS.table, SnapshotStopped(Progress()))
    states = [snapshot.tables[ORDERS.table] for snapshot in after.checkpoint.snapshots]
    assert states == [Completed(Progress()), SnapshotStopped(Progress()), SnapshotWaiting()]
