"""A journal and a lake of an earlier version are still read, and say what they said.

`journal_and_lake.zip` was made on real servers (MySQL 9.7, Spark 4.2) by the version before stored names were separated
from the names of classes. Nothing in it is ever written again. It has every type of column, an altered table, snapshots
in every state, deletion vectors, and rows of which some are merged and some aren't. `rows/` is what DuckDB read then.
"""

import json
import zipfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from actors.journal.store import JournalReader, JournalStore
from actors.service.live_view_text import live_view_text
from pipeline.gtid.gtid_set import GtidSet
from pipeline.journal import manifest
from pipeline.lake.reading.sql_dialects import Dialect
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.snapshot import snapshot as snapshots
from pipeline.snapshot.checkpoint import Checkpoint, Filling, Ready
from pipeline.types import column_types as t
from tests.pipeline.builders import primary_index
from tests.servers.delta_rs import execute
from tests.servers.duckdb_engine import engine

SERVER = "3afab407-6159-4f74-aab1-06fae3c9cbd9"
SEGMENTS = 14


def table(name: str, *columns: Column, key: tuple[int, ...] = (0,)) -> TableSchema:
    return TableSchema(TableId("kept", name), columns, key)


INT = t.Integer(4, unsigned=False)
NAME = Column("name", t.Text("utf8mb4"), True)
EVERY_TYPE = table(
    "every_type",
    Column("id", INT, False),
    Column("i8", t.Integer(1, unsigned=False), True),
    Column("i16", t.Integer(2, unsigned=True), True),
    Column("i24", t.Integer(3, unsigned=False), True),
    Column("u64", t.Integer(8, unsigned=True), True),
    Column("dec_", t.Decimal(38, 10), True),
    Column("wide", t.Decimal(65, 30), True),
    Column("f", t.Float(), True),
    Column("d", t.Double(), True),
    Column("b1", t.Bit(1), True),
    Column("b9", t.Bit(9), True),
    Column("y", t.Year(), True),
    Column("day", t.Date(), True),
    Column("t", t.Time(6), True),
    Column("dt", t.DateTime(6), True),
    Column("ts", t.Timestamp(6), True),
    Column("latin", t.Text("latin1"), True),
    Column("txt", t.Text("utf8mb4"), True),
    Column("fixed", t.FixedBinary(8), True),
    Column("bytes", t.Binary(), True),
    Column("e", t.Enum(("small", "ä", "large")), True),
    Column("s", t.Set(("a", "b", "c")), True),
    Column("j", t.Json(), True),
    Column("g", t.Geometry(), True),
    Column("v", t.Vector(), True),
)
LARGE = table(
    "large",
    Column("a", t.Binary(), False),
    Column("b", INT, False),
    Column("filler", t.Text("utf8mb4"), True),
    key=(1, 0),
)
ORDERS = table(
    "orders",
    Column("id", INT, False),
    Column("remark", t.Text("utf8mb4"), True),
    Column("version", INT, False),
    Column("extra", t.Decimal(10, 2), True),
)
LATER = table("later", Column("id", t.Integer(8, unsigned=True), False), NAME)
KEYLESS = table("keyless", Column("id", INT, True), NAME, key=())
GONE_BAD = table("gone_bad", Column("id", INT, False), NAME)

# The digests that files, folders and entries of the journal are named with.
VERSIONS = {
    "00e57897f8df9761": EVERY_TYPE,
    "1884a5a631321bd3": GONE_BAD,
    "29c3a18b7a51c9d6": LARGE,
    "7329e70377948e3d": ORDERS,
    "b5944af1071965fe": LATER,
    "c9daa550f04cd920": KEYLESS,
}
LARGE_WALK = "3ff806598dc95628"

SNAPSHOTS = (
    snapshots.Snapshot(
        "s1",
        {
            EVERY_TYPE.table: snapshots.Completed(snapshots.Progress(1, 8, 0, 8, 1, 1)),
            ORDERS.table: snapshots.Completed(snapshots.Progress(3, 60, 0, 60, 1, 1)),
        },
    ),
    snapshots.Snapshot(
        "s2",
        {
            KEYLESS.table: snapshots.SnapshotFailed(
                "it has no primary key, so its rows can't be read in chunks (its changes still stream)",
                snapshots.Progress(),
            ),
            LARGE.table: snapshots.Chunking(
                (
                    snapshots.Range(0, (27, b"\x00\x1b"), (374, b"\x01v")),
                    snapshots.Range(1, (402, b"\x01\x92"), (749, b"\x02\xed")),
                    snapshots.Range(2, (749, b"\x02\xed"), (1124, b"\x04d")),
                    snapshots.Range(3, (1124, b"\x04d"), (1499, b"\x05\xdb")),
                ),
                LARGE_WALK,
                first=True,
                progress=snapshots.Progress(8, 56, 0, 1500, 4, 0),
            ),
            LATER.table: snapshots.Completed(snapshots.Progress(1, 2, 0, 2, 1, 1)),
        },
        {LARGE.table: snapshots.Request(chunk_rows=7)},
    ),
    snapshots.Snapshot(
        "s3",
        {ORDERS.table: snapshots.SnapshotWaiting()},
        {ORDERS.table: snapshots.Request(condition="id < 10")},
        priority=3,
    ),
    snapshots.Snapshot(
        "s4",
        {
            EVERY_TYPE.table: snapshots.SnapshotWaiting(),
            LATER.table: snapshots.SnapshotStopped(snapshots.Progress()),
        },
        {EVERY_TYPE.table: snapshots.Request(keys=((1,), (2,)))},
    ),
)
CHECKPOINT = Checkpoint(
    position=GtidSet.parse(f"{SERVER}:1-28"),
    scn=26,
    schemas={schema.table: schema for schema in VERSIONS.values()},
    mirrors={
        EVERY_TYPE.table: Ready(0),
        ORDERS.table: Ready(0),
        LARGE.table: Filling(16),
        LATER.table: Ready(16),
    },
    snapshots=SNAPSHOTS,
    signals=("s1", "s2", "p1", "s3", "s4", "x1"),
    paused=True,
    stopped={
        GONE_BAD.table: f"ALTER TABLE … ENGINE=BLACKHOLE ({SERVER}:27): it doesn't keep its rows any more; it stays "
        "stopped in this journal: to have it again, capture it with a journal and a lake of its own, and snapshot it "
        "there"
    },
    unproven=frozenset({GONE_BAD.table}),
    server=SERVER,
)


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """The folder of `journal` and `lake`."""
    with zipfile.ZipFile(Path(__file__).parent / "journal_and_lake.zip") as archive:
        archive.extractall(tmp_path)
    return tmp_path


def lost(written: Any, told: Any, where: str = "") -> list[str]:
    """Returns what was written and doesn't read back equal; additions since then are allowed."""
    if isinstance(written, dict) and isinstance(told, dict):
        return [
            found for key, value in written.items() for found in lost(value, told.get(key), f"{where}/{key}")
        ]
    if isinstance(written, list) and isinstance(told, list) and len(written) == len(told):
        pairs = zip(written, told, strict=True)
        return [found for at, (one, other) in enumerate(pairs) for found in lost(one, other, f"{where}/{at}")]
    return [] if written == told else [f"{where}: {written!r} became {told!r}"]


def test_a_kept_checkpoint_is_the_same_value(kept: Path) -> None:
    assert JournalReader(kept / "journal").entry(SEGMENTS).checkpoint == CHECKPOINT


def test_a_kept_schema_has_its_digest(kept: Path) -> None:
    entry = JournalReader(kept / "journal").entry(SEGMENTS)
    assert entry.schemas == VERSIONS
    assert {schema.version: schema for schema in VERSIONS.values()} == VERSIONS
    assert primary_index(LARGE).version(LARGE) == LARGE_WALK


def test_a_kept_entry_is_written_with_the_same_words(kept: Path) -> None:
    reader = JournalReader(kept / "journal")
    for entry in reader.entries(0, SEGMENTS):
        (path,) = (kept / "journal" / "manifest").glob(f"{entry.segment:012}-*.json")
        written = json.loads(path.read_text())["entry"]
        assert lost(written, json.loads(manifest.to_json(entry, reader.identity.id))["entry"]) == []


def test_a_kept_journal_goes_on(kept: Path) -> None:
    with closing(JournalStore.open_single_writer(kept / "journal", "kept")) as store:
        recovered = store.recover()
        assert recovered is not None
        assert recovered.checkpoint == CHECKPOINT
        for entry in store.entries(0, SEGMENTS):
            for file in entry.files:
                assert pq.read_metadata(store.path(entry, file)).num_rows == file.rows


@pytest.mark.parametrize("schema", [EVERY_TYPE, ORDERS, LARGE], ids=lambda schema: str(schema.table))
def test_a_kept_lake_has_the_same_live_view(kept: Path, schema: TableSchema) -> None:
    text = live_view_text(str(kept / "lake"), str(schema.table), Dialect.DUCKDB)
    with closing(engine()) as connection:
        rows = connection.sql(text).to_arrow_table().to_pylist()
    by_delta_rs = execute(live_view_text(str(kept / "lake"), str(schema.table), Dialect.DELTA_RS)).to_pylist()
    assert sorted(map(repr, by_delta_rs)) == sorted(map(repr, rows))
    said = (kept / "rows" / f"{schema.table.name}.txt").read_text(encoding="utf-8")
    assert sorted(map(repr, rows)) == said.split("\n")


def test_what_is_lost_is_found() -> None:
    assert lost({"a": [1, {"b": 2}]}, {"a": [1, {"b": 2, "c": 3}], "d": 4}) == []
    assert lost({"a": [1, {"b": 2}]}, {"a": [1, {"c": 2}]}) == ["/a/1/b: 2 became None"]
    assert lost({"state": "waiting"}, {"state": "pending"}) == ["/state: 'waiting' became 'pending'"]
