"""What ends and what is dropped: by statements, by failures, by stops; and what is remembered of it."""

from dataclasses import replace

import pyarrow as pa
import pytest

from pipeline.coordinator import state as coordinator_state
from pipeline.coordinator.state import SNAPSHOTS_REMEMBERED, Overlapping, State
from pipeline.lake.verification.runs import runs_of
from pipeline.messages.signals import SignalReceived
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import TableSchema
from pipeline.signals.outcomes import Outcome, SignalState, outcomes_between
from pipeline.signals.signal import VerifyTables
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
from tests.pipeline.builders import (
    ITEMS,
    LIMITS,
    ORDERS,
    Capture,
    execute,
    gtids,
    insert,
    part,
    passed,
    planned,
    read,
    stop,
    wrote,
)

# Failures


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
    assert capture.windows == ["items reading"]
    assert capture.stream == []


# Remembering


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


def test_the_end_of_a_snapshot_that_is_older_than_all_remembered_ones_is_reported() -> None:
    capture = Capture(ORDERS, ITEMS)
    order = capture.begin(ORDERS, signal="long")
    for number in range(SNAPSHOTS_REMEMBERED):
        capture.give(execute(f"s{number}", ITEMS), planned(ITEMS, end=None))
    before = capture.checkpoint
    capture.give(read(order, 9, high=10))
    assert outcomes_between(before, capture.checkpoint) == (SignalState("long", Outcome.DONE, "shop.orders"),)
    for number in range(SNAPSHOTS_REMEMBERED - 1):
        capture.give(execute(f"t{number}", ITEMS), planned(ITEMS, end=None))
    assert capture.checkpoint.snapshots[0].id == "long", "others ended before it"
    capture.give(execute("last", ITEMS), planned(ITEMS, end=None))
    assert len(capture.checkpoint.snapshots) == SNAPSHOTS_REMEMBERED
    assert "long" not in [snapshot.id for snapshot in capture.checkpoint.snapshots]


def test_all_snapshots_that_one_signal_stops_are_reported_as_ended() -> None:
    capture = Capture(ORDERS, ITEMS)
    asked = [f"s{number}" for number in range(SNAPSHOTS_REMEMBERED + 3)]
    capture.give(*(execute(id_, ORDERS) for id_ in asked))
    before = capture.checkpoint
    capture.give(stop("x", ORDERS))
    told = outcomes_between(before, capture.checkpoint)
    assert {state.id: state.outcome for state in told} == dict.fromkeys(asked, Outcome.FAILED)
    capture.give(execute("later", ITEMS), planned(ITEMS, end=None))
    assert len(capture.checkpoint.snapshots) == SNAPSHOTS_REMEMBERED


def test_snapshots_that_end_within_a_transaction_are_remembered_until_its_end() -> None:
    capture = Capture(ORDERS, ITEMS)
    asked = [f"s{number}" for number in range(SNAPSHOTS_REMEMBERED + 1)]
    capture.give(*(execute(id_, ORDERS) for id_ in asked), part("a:6", insert(1, ITEMS)))
    capture.give(stop("x", ORDERS), stop("y", ORDERS), passed(20, wrote("a:6", insert(2, ITEMS))))
    assert [snapshot.id for snapshot in capture.checkpoint.snapshots] == asked
    assert [snapshot.end_number for snapshot in capture.checkpoint.snapshots] == [*range(1, len(asked) + 1)]


def test_snapshots_do_not_supersede_a_verification_whose_rows_the_lake_compares_later() -> None:
    ready = Checkpoint(
        gtids("a:1-5"),
        scn=3,
        schemas={each.table: each for each in (ORDERS, ITEMS)},
        mirrors={ORDERS.table: Ready(2), ITEMS.table: Ready(2)},
    )
    capture = Capture(checkpoint=ready)
    for number in range(SNAPSHOTS_REMEMBERED + 2):
        verify = VerifyTables(f"v{number}", TableFilter((r"shop\.orders",)))
        capture.give(SignalReceived(verify), planned(ORDERS, end=None))
    for number in range(SNAPSHOTS_REMEMBERED + 2):
        capture.give(execute(f"s{number}", ITEMS), planned(ITEMS, end=None))
    last = range(2, SNAPSHOTS_REMEMBERED + 2)
    assert [run.run for run in runs_of(capture.checkpoint)] == [f"v{number}" for number in last]
    assert [s.id for s in capture.checkpoint.snapshots if s.verification is None] == [f"s{n}" for n in last]


def test_ends_of_a_checkpoint_from_before_they_were_numbered_count_as_the_latest() -> None:
    ended = [
        Snapshot(f"s{number}", {ORDERS.table: Completed(Progress())})
        for number in range(SNAPSHOTS_REMEMBERED)
    ]
    capture = Capture(
        checkpoint=Checkpoint(gtids("a:1-5"), snapshots=(Snapshot("numbered", {}, end_number=7), *ended))
    )
    assert [snapshot.end_number for snapshot in capture.checkpoint.snapshots] == list(range(8, 18))


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
def test_a_mirror_that_was_being_filled_is_ready_only_if_all_was_read(ended: TableSnapshot) -> None:
    state = holding(UNDER_WAY, mirrors={ORDERS: Filling(3)})
    (snapshot,) = state.checkpoint.snapshots
    after = coordinator_state.end_table(state, snapshot, ORDERS.table, ended).checkpoint
    completed = isinstance(ended, Completed)
    assert after.mirrors == {ORDERS.table: Ready(3) if completed else Filling(3)}
    assert after.snapshots == (Snapshot("s1", {ORDERS.table: ended}),)


def test_a_mirror_that_a_snapshot_along_another_index_completes_stays_the_same_generation() -> None:
    """Its rows come as changes: none of those before another generation would count."""
    capture = Capture(ORDERS)
    capture.give(execute("s1", ORDERS, surrogate="value"), planned(ORDERS))
    begun = capture.checkpoint.mirrors[ORDERS.table]
    capture.give(passed(20, wrote("a:6", insert(1))))
    capture.give(execute("s2", ORDERS))
    assert capture.checkpoint.mirrors[ORDERS.table] == begun


@pytest.mark.parametrize("ended", [SnapshotStopped(Progress()), SnapshotFailed("so", Progress())])
def test_a_table_whose_snapshot_never_began_has_no_mirror(ended: TableSnapshot) -> None:
    state = holding(SnapshotWaiting())
    (snapshot,) = state.checkpoint.snapshots
    assert coordinator_state.end_table(state, snapshot, ORDERS.table, ended).checkpoint.mirrors == {}


def test_a_failure_of_a_table_without_a_snapshot_changes_nothing_durable() -> None:
    before = holding(Completed(Progress()))
    assert coordinator_state.fail_table(before, ORDERS.table, "so") == before


def test_the_snapshot_of_a_table_is_the_first_in_which_it_has_not_ended() -> None:
    checkpoint = holding(Completed(Progress()), UNDER_WAY, SnapshotWaiting()).checkpoint
    found = coordinator_state.snapshot_of(checkpoint, ORDERS.table)
    assert found is not None and found.id == "s2"
    assert coordinator_state.snapshot_of(checkpoint, ITEMS.table) is None
    assert [snapshot.id for snapshot, _ in coordinator_state.unfinished_tables(checkpoint)] == ["s2", "s3"]


def test_one_snapshot_of_a_table_changes_and_the_others_stay() -> None:
    state = holding(Completed(Progress()), UNDER_WAY, SnapshotWaiting())
    second = state.checkpoint.snapshots[1]
    after = coordinator_state.with_table(state, second, ORDERS.table, SnapshotStopped(Progress()))
    states = [snapshot.tables[ORDERS.table] for snapshot in after.checkpoint.snapshots]
    assert states == [Completed(Progress()), SnapshotStopped(Progress()), SnapshotWaiting()]
