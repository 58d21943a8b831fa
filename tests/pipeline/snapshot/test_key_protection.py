"""No protected key is in what is stored of a snapshot, and a start from that begins the table's snapshot again."""

from dataclasses import replace

from hypothesis import given

from pipeline.config.column_protection import UNPROTECTED, Protection, ProtectionRule, Treatment
from pipeline.config.secret import Secret
from pipeline.coordinator import step as coordinator
from pipeline.coordinator.state import Overlapping
from pipeline.messages.chunks import NotDivided, PlanTable, ReadChunk, TablePlanned
from pipeline.schema.table_filter import ALL_TABLES
from pipeline.snapshot import checkpoint as checkpoints
from pipeline.snapshot.checkpoint import Checkpoint, Filling
from pipeline.snapshot.key_protection import conceal_keys, restarts_at_start
from pipeline.snapshot.snapshot import Chunking, Progress, Range, Snapshot, SnapshotWaiting
from tests.pipeline.builders import ITEMS, LIMITS, ORDERS, gtids, of, primary_index
from tests.pipeline.strategies import checkpoints as any_checkpoint

HASHED = Protection(Secret("s" * 16), (ProtectionRule(ALL_TABLES, ("id",), Treatment.HASH, required=False),))
RANGES = (Range(0, (4711,), (5000,)), Range(2, None, (815,)))
CHUNKING = Chunking(
    RANGES, primary_index(ORDERS).version(ORDERS), True, Progress(rows=7, ranges=3, ranges_done=1)
)
UNDER_WAY = Checkpoint(
    gtids("a:1-5"),
    scn=7,
    schemas={ORDERS.table: ORDERS},
    mirrors={ORDERS.table: Filling(2)},
    snapshots=(Snapshot("s", {ORDERS.table: CHUNKING}),),
)


def test_a_snapshot_keeps_its_counts_and_loses_its_keys() -> None:
    concealed = conceal_keys(UNDER_WAY, HASHED)
    text = str(checkpoints.to_json(concealed))
    for key in ("4711", "5000", "815"):
        assert key in str(checkpoints.to_json(UNDER_WAY)) and key not in text
    (snapshot,) = concealed.snapshots
    state = snapshot.tables[ORDERS.table]
    assert isinstance(state, Chunking)
    assert state.progress == CHUNKING.progress
    assert [each.number for each in state.ranges] == [0, 2]


@given(any_checkpoint())
def test_without_rules_all_stays(checkpoint: Checkpoint) -> None:
    assert conceal_keys(checkpoint, UNPROTECTED) is checkpoint
    assert restarts_at_start(checkpoint, UNPROTECTED) == frozenset()


def test_a_start_begins_the_snapshot_again_in_another_generation() -> None:
    concealed = conceal_keys(UNDER_WAY, HASHED)
    state, orders = coordinator.start(concealed, LIMITS, Overlapping(4), protection=HASHED)
    (plan,) = of(PlanTable, orders)
    assert of(ReadChunk, orders) == []
    planned = TablePlanned(ORDERS, primary_index(ORDERS), NotDivided(), gtids("a:1-5"))
    assert plan.table == ORDERS.table
    state, orders = coordinator.step(state, planned)
    (snapshot,) = state.checkpoint.snapshots
    assert snapshot.tables == {ORDERS.table: SnapshotWaiting()}
    mirror = state.checkpoint.mirrors[ORDERS.table]
    assert isinstance(mirror, Filling) and mirror.since > 2
    assert [each.table for each in of(PlanTable, orders)] == [ORDERS.table]
    assert of(ReadChunk, orders) == []


def test_rows_to_read_again_by_keys_begin_their_table_again() -> None:
    """The journal has only the keys' hashes."""
    several = replace(
        UNDER_WAY,
        schemas={ORDERS.table: ORDERS, ITEMS.table: ITEMS},
        unread={ORDERS.table: 5, ITEMS.table: 5},
    )
    assert restarts_at_start(several, HASHED) == {ORDERS.table, ITEMS.table}
    assert restarts_at_start(replace(several, unread={}), HASHED) == frozenset()
