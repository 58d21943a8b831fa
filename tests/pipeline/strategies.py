"""Hypothesis strategies for the values that checkpoints are made of."""

from hypothesis import strategies as st

from pipeline.gtid.gtid_set import GtidSet
from pipeline.schema.row_keys import Key
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.snapshot import snapshot
from pipeline.snapshot.checkpoint import Checkpoint, Filling, Mirror, Moving, Ready
from pipeline.types import column_types as t
from tests.pipeline.builders import gtids

# Few and short, so that equal ones come up; what they hold is any text but surrogates, which no server stores.
names = st.sampled_from(["a", "b", "id", "a.b", "naïve", '"', "😀"]) | st.text(
    st.characters(exclude_categories=["Cs"]), min_size=1, max_size=4
)
# Often one of three, so that the parts of a checkpoint are about the same tables.
table_ids = st.sampled_from([TableId("a", "b"), TableId("a", "naïve"), TableId("b", "a.b")]) | st.builds(
    TableId, names, names
)

_labels = st.lists(names, max_size=3).map(tuple)
_digits = st.integers(0, 6)

column_types: st.SearchStrategy[t.ColumnType] = st.one_of(
    st.builds(t.Integer, st.sampled_from([1, 2, 3, 4, 8]), st.booleans()),
    st.builds(t.Decimal, st.integers(30, 65), st.integers(0, 30)),
    st.builds(t.Bit, st.integers(1, 64)),
    *(st.builds(kind, _digits) for kind in (t.Time, t.DateTime, t.Timestamp)),
    st.builds(t.Text, st.sampled_from(["utf8mb4", "latin1"])),
    st.builds(t.FixedBinary, st.integers(0, 255)),
    *(st.builds(kind, _labels) for kind in (t.Enum, t.Set)),
    st.sampled_from(
        [t.Float(), t.Double(), t.Year(), t.Date(), t.Binary(), t.Json(), t.Geometry(), t.Vector()]
    ),
)

_columns = st.lists(
    st.builds(Column, names, column_types, st.booleans()),
    min_size=1,
    max_size=4,
    unique_by=lambda column: column.name,
)


@st.composite
def table_schemas(draw: st.DrawFn, of: st.SearchStrategy[TableId] = table_ids) -> TableSchema:
    """Schemas whose key is some of the columns, in any order, or none."""
    columns = tuple(draw(_columns))
    order = draw(st.permutations(range(len(columns))))
    return TableSchema(draw(of), columns, tuple(order[: draw(st.integers(0, len(columns)))]))


keys: st.SearchStrategy[Key] = st.lists(
    st.integers(-(2**63), 2**64 - 1) | names | st.binary(max_size=4), min_size=1, max_size=3
).map(tuple)

_counts = st.integers(0, 2**40)
progresses = st.builds(snapshot.Progress, _counts, _counts, _counts, _counts, _counts, _counts)
ranges = st.lists(st.builds(snapshot.Range, _counts, st.none() | keys, keys), max_size=3).map(tuple)
requests = st.builds(
    snapshot.Request,
    st.none() | names,
    st.lists(keys, max_size=2).map(tuple),
    st.none() | names,
    st.none() | _counts,
)

table_states: st.SearchStrategy[snapshot.TableSnapshot] = st.one_of(
    st.just(snapshot.SnapshotWaiting()),
    st.builds(snapshot.Chunking, ranges, names, st.booleans(), progresses),
    st.builds(snapshot.Completed, progresses),
    st.builds(snapshot.SnapshotStopped, progresses),
    st.builds(snapshot.SnapshotFailed, names, progresses),
)


@st.composite
def snapshots(draw: st.DrawFn) -> snapshot.Snapshot:
    """Snapshots with a special request for some tables."""
    tables = draw(st.dictionaries(table_ids, table_states, max_size=3))
    asked = {table: draw(requests) for table in tables if draw(st.booleans())}
    verified = st.builds(snapshot.Verification, st.integers(0, 9), st.frozensets(table_ids, max_size=2))
    return snapshot.Snapshot(
        draw(names),
        tables,
        asked,
        draw(st.booleans()),
        draw(st.integers(-3, 3)),
        draw(st.booleans()),
        draw(st.none() | verified),
        draw(_counts),
    )


mirrors: st.SearchStrategy[Mirror] = st.builds(Filling, _counts) | st.builds(Ready, _counts)

gtid_sets: st.SearchStrategy[GtidSet] = st.sets(
    st.tuples(st.sampled_from(["a", "b", "a:tag"]), st.integers(1, 9)), max_size=8
).map(lambda pairs: gtids(",".join(f"{source}:{number}" for source, number in pairs)))


@st.composite
def checkpoints(draw: st.DrawFn) -> Checkpoint:
    """Checkpoints, each schema under its own table's id."""
    known = draw(st.lists(table_schemas(), max_size=3))
    return Checkpoint(
        position=draw(gtid_sets),
        scn=draw(_counts),
        schemas={schema.table: schema for schema in known},
        mirrors=draw(st.dictionaries(table_ids, mirrors, max_size=3)),
        snapshots=tuple(draw(st.lists(snapshots(), max_size=3))),
        signals=tuple(draw(st.lists(names, max_size=3))),
        paused=draw(st.booleans()),
        stopped=draw(st.dictionaries(table_ids, names, max_size=3)),
        moving=draw(st.none() | st.builds(Moving, names, gtid_sets)),
        recapturing=draw(st.dictionaries(table_ids, names, max_size=2)),
    )
