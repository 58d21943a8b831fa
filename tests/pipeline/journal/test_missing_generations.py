"""A consumer that comes late: which tables it can't take yet."""

from dataclasses import replace

from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.gtid_set import GtidSet
from pipeline.journal.entry import SealedChunk
from pipeline.journal.missing_generations import incomplete_generations, lost_by, scans_before
from pipeline.schema.table_schema import TableId
from pipeline.snapshot.checkpoint import Checkpoint, Filling, Mirror, Ready
from pipeline.snapshot.snapshot import ChunkId, Completed, Progress, Snapshot, SnapshotWaiting, TableSnapshot
from tests.actors.segments import ITEMS
from tests.pipeline.lake.stream.entries import entry

A, B, C, D, E = (TableId("shop", name) for name in "abcde")
BEGINNING = 100


def checkpoint(mirrors: dict[TableId, Mirror]) -> Checkpoint:
    schemas = {table: replace(ITEMS, table=table) for table in (A, B, C, D)}
    return Checkpoint(GtidSet(), scn=200, schemas=schemas, mirrors=mirrors, stopped={D: "why"})


def test_a_generation_that_began_before_the_journal_does_lacks_rows() -> None:
    now = checkpoint({A: Filling(99), B: Ready(0), C: Filling(100)})
    assert incomplete_generations({A, B, C}, now, BEGINNING) == {A: 99, B: 0}
    assert incomplete_generations({A}, now, BEGINNING) == {A: 99}


def test_a_table_without_a_mirror_or_that_is_stopped_or_not_captured_is_not_waited_for() -> None:
    now = checkpoint({D: Ready(0), E: Ready(0)})
    assert incomplete_generations({A, D, E}, now, BEGINNING) == {}


def test_in_a_whole_journal_nothing_is_lacked() -> None:
    assert incomplete_generations({A}, checkpoint({A: Ready(0)}), 0) == {}


def scanned(*tables: TableId, **snapshots: TableSnapshot) -> Checkpoint:
    """A checkpoint where these tables have been scanned, and A has these snapshots."""
    those = tuple(Snapshot(name, {A: state}) for name, state in snapshots.items())
    return replace(checkpoint({}), scanned=frozenset(tables), snapshots=those)


def test_a_scan_from_before_the_journal_is_lost_until_there_is_another() -> None:
    done = Completed(Progress())
    first = replace(entry(5), checkpoint=scanned(A, B, s1=done))
    assert scans_before({A, C}, first) == {A: {"s1"}}
    # The journal begins with the scan.
    chunk = SealedChunk(ChunkId("s1", A, 1), GtidSet(), Coordinates("binlog.000001", 4), 0)
    assert scans_before({A}, replace(first, chunks=(chunk,))) == {}
    lost = scans_before({A}, first)
    for still in (scanned(A, s1=done), scanned(A), scanned(A, s1=done, s2=SnapshotWaiting())):
        assert lost_by(lost, still) == lost
    assert lost_by(lost, scanned(A, s1=done, s2=done)) == {}
    assert lost_by(lost, scanned(s1=done)) == {}, "its rows aren't known at all any more"
