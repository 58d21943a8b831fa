"""A state with snapshots of one table, for the tests of what becomes of them."""

from pipeline.coordinator.state import Overlapping, State
from pipeline.schema.table_schema import TableSchema
from pipeline.snapshot.checkpoint import Checkpoint, Mirror
from pipeline.snapshot.snapshot import Chunking, Progress, Range, Snapshot, TableSnapshot
from tests.pipeline.builders import LIMITS, ORDERS, gtids

UNDER_WAY = Chunking((Range(0, (2,), (9,)),), "walk", first=True, progress=Progress(chunks=1, rows=2))


def holding(*states: TableSnapshot, mirrors: dict[TableSchema, Mirror] | None = None) -> State:
    """A state with a snapshot s1, s2, … for each of these states of ORDERS."""
    snapshots = tuple(Snapshot(f"s{i}", {ORDERS.table: state}) for i, state in enumerate(states, start=1))
    known = {schema.table: mirror for schema, mirror in (mirrors or {}).items()}
    return State(LIMITS, Overlapping(4), Checkpoint(gtids(""), mirrors=known, snapshots=snapshots))
