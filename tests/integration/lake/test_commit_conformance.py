"""Commits of each way beside other writers' at the same moment: each reader sees the same table, and none is lost.

Tidemark writes a commit itself, has Delta's classes make it in its own JVM, or asks a Spark Connect server. The others
that write are statements of Spark's and delta-rs. Those that read are Spark, delta-rs and DuckDB.

    make conformance PYSPARK=4.1.1 DELTA=4.3.0      holds another pair against it
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from threading import Event
from typing import Any, Final

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from actors.lake.delta.delta_table import DeltaTable, _module
from actors.lake.delta.lake_table import LakeTable, PlaceFiles, TableOpener, is_conflict
from actors.lake.delta.table_opener import delta_tables
from actors.lake.spark.spark_session import Spark
from actors.lake.transaction_log.delta_log import read_version
from actors.lake.transaction_log.own_log import OwnLog
from pipeline.lake.files import parquet_files
from pipeline.lake.files.parquet_files import Stored
from tests.servers.at_work import at_work
from tests.servers.duckdb_engine import engine
from tests.servers.spark_connect import connect_within

NO_INTERVAL: Final = "'delta.checkpointInterval' = '2147483647'"
# At most so many appends beside each statement: a slow one would have hundreds, each a file for those that follow.
BESIDE: Final = 40


class Way(StrEnum):
    """How a commit comes about, and who is its writer then."""

    OWN = "Tidemark"
    DELTA = "Delta's classes"
    CONNECT = "Spark Connect"

    @property
    def engine(self) -> str:
        return "Tidemark" if self is Way.OWN else "Apache-Spark"


class Written:
    """A Delta table with a column of numbers, and who has written each of its versions.

    `opener`: makes the commits, by default `delta`.
    """

    def __init__(
        self, spark: Spark, folder: Path, way: Way = Way.OWN, opener: TableOpener | None = None
    ) -> None:
        self.session = spark.session
        self.folder = folder / "table"
        self.way = way
        self.log = self.folder / "_delta_log"
        self.name = f"delta.`{self.folder}`"
        self.delta = DeltaTable(spark.session, str(self.folder))
        self.table: LakeTable = self.delta if opener is None else opener(str(self.folder))
        self._files = 0

    def create(self, properties: str = NO_INTERVAL) -> None:
        self.sql(f"CREATE TABLE {self.name} (n BIGINT) USING delta TBLPROPERTIES ({properties})")

    def sql(self, text: str) -> Any:
        """Another writer's statement, in the JVM that Tidemark's commits come from."""
        return self.session.sql(text)

    def gives_up(self, text: str) -> bool:
        """Whether another writer's statement is given up, as another commit came in between."""
        try:
            self.sql(text)
        except Exception as error:
            if not is_conflict(error):
                raise
            return True
        return False

    def place(self, *numbers: int, foreign: Callable[[], object] = lambda: None) -> PlaceFiles:
        """What places a file of these numbers. Meanwhile the other writer does `foreign`."""

        def placed(folder: str, _columns: Mapping[str, Stored]) -> Sequence[str]:
            foreign()
            self._files += 1
            file = Path(folder, f"{self._files}-{numbers[0]}.parquet")
            pq.write_table(pa.table({"n": pa.array(numbers, pa.int64())}), file)
            bounds = [parquet_files.Bounds("n", min(numbers), max(numbers), 0)]
            told = parquet_files.stats(len(numbers), bounds)
            return [parquet_files.add(file.name, file.stat().st_size, 1_700_000_000_000, told)]

        return placed

    def append(self, segment: int, *numbers: int) -> int | None:
        return self.append_placed(segment, self.place(*numbers), {"after": segment})

    def append_placed(
        self, segment: int, place: PlaceFiles, marks: Mapping[str, int] | None = None
    ) -> int | None:
        return self.table.append(place, "us", range(segment, segment + 1), marks or {}, "{}")

    def engines(self) -> list[str]:
        """Who has written each version."""
        found = []
        for path in sorted(self.log.glob("*.json")):
            told = json.loads(path.read_text().splitlines()[0])["commitInfo"]
            found.append(told.get("engineInfo", told.get("clientVersion", "")).partition("/")[0])
        return found

    def applications(self) -> Mapping[str, int]:
        """How far each application is."""
        snapshot = self.table.snapshot()
        assert snapshot is not None
        return snapshot.applications

    def numbers(self) -> list[int]:
        """The rows, which Spark, delta-rs and DuckDB must find alike."""
        spark = sorted(row[0] for row in self.session.read.format("delta").load(str(self.folder)).collect())
        rust = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(str(self.folder)))
        assert pa.table(rust.execute("SELECT n FROM t ORDER BY n"))["n"].to_pylist() == spark
        with engine() as duck:
            found = duck.execute(f"SELECT n FROM delta_scan('{self.folder}') ORDER BY n").fetchall()
        assert [row[0] for row in found] == spark
        return spark

    def is_sound(self) -> None:
        """The newest version's checksum is what the log comes to, as Delta counts it."""
        jvm: Any = self.session.sparkContext._jvm
        jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
        snapshot = self.delta._log().unsafeVolatileSnapshot()
        assert snapshot.checksumOpt().isDefined()
        assert snapshot.validateChecksum(_module(jvm.scala.collection.immutable, "Map$").empty())
        told = read_version(str(self.folder))
        assert told is not None
        assert told.files == snapshot.numOfFiles()


@pytest.fixture(scope="module")
def connected(spark: Spark, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], TableOpener]]:
    """Opens tables by Spark Connect. The first call starts the server."""
    with ExitStack() as started:
        openers: list[TableOpener] = []

        def opener() -> TableOpener:
            if not openers:
                made = started.enter_context(connect_within(spark, tmp_path_factory.mktemp("connect")))
                openers.append(delta_tables(made.session))
            return openers[0]

        yield opener


@pytest.fixture(
    params=[Way.OWN, *(pytest.param(way, marks=pytest.mark.full) for way in (Way.DELTA, Way.CONNECT))]
)
def written(
    request: pytest.FixtureRequest,
    spark: Spark,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    connected: Callable[[], TableOpener],
) -> Written:
    way: Way = request.param
    if way is Way.DELTA:
        monkeypatch.setattr(OwnLog, "end", lambda *_: None)
    return Written(spark, tmp_path, way, connected() if way is Way.CONNECT else None)


def test_every_reader_sees_the_appends_and_each_checksum_is_right(written: Written) -> None:
    written.create()
    for segment in range(1, 4):
        written.append(segment, segment, 10 * segment)
        written.is_sound()
    assert set(written.engines()[1:]) == {written.way.engine}
    assert written.numbers() == [1, 2, 3, 10, 20, 30]
    before = written.table.version()
    written.append(3, 99)
    assert written.table.version() == before, "it has that"
    assert written.applications() == {"us": 3, "after": 3}
    assert not list(written.log.glob(".*")), "nothing is left in the log"
    assert {path.suffix for path in written.folder.iterdir()} == {"", ".parquet"}, "and nothing beside it"
    history = written.sql(f"DESCRIBE HISTORY {written.name}").where("operation = 'WRITE'").collect()
    rows = [row for row in history if (row["operationMetrics"] or {}).get("numOutputRows") != "0"]
    assert [(row["isBlindAppend"], row["readVersion"]) for row in rows] == [
        (True, row["version"] - 1) for row in rows
    ]
    assert len(rows) == 3
    one = written.sql(f"SELECT n FROM {written.name} WHERE n = 30")
    assert len(one.inputFiles()) == 1, "the statistics are of use"


def test_other_writers_and_tidemark_take_turns(written: Written) -> None:
    """Whatever they commit in between, both know at once what the other one has done."""
    written.create()
    written.append_placed(1, written.place(1, 2))
    written.sql(f"INSERT INTO {written.name} VALUES (100)")
    assert written.table.version() == 2
    written.append_placed(2, written.place(3))
    written.sql(f"ALTER TABLE {written.name} ADD COLUMNS (m INT)")
    seen: list[set[str]] = []
    place = written.place(4)

    def placed(folder: str, there: Mapping[str, Stored]) -> Sequence[str]:
        seen.append(set(there))
        return place(folder, there)

    written.append_placed(3, placed)
    assert seen == [{"n", "m"}]
    written.table.set_transaction("swap", 1)
    assert written.applications() == {"us": 3, "swap": 1}
    written.sql(f"DELETE FROM {written.name} WHERE n = 2")
    written.append_placed(4, written.place(5))
    written.table.checkpoint()
    written.append_placed(5, written.place(6))
    written.sql(f"OPTIMIZE {written.name}")
    written.append_placed(6, written.place(7))
    spark, ours = "Apache-Spark", written.way.engine
    # To set an application's version alone is always left to Spark.
    assert written.engines() == [spark, ours, spark, ours, spark, ours, *[spark] * 2, ours, ours, spark, ours]
    size = written.table.size()
    assert size is not None
    assert size.files == 2
    written.is_sound()
    assert written.numbers() == [1, 3, 4, 5, 6, 7, 100]


def test_a_foreign_commit_just_before_is_followed(written: Written) -> None:
    """An OPTIMIZE, a DELETE and an append of delta-rs, each when the files are placed and not committed."""
    written.create()
    for segment in range(1, 4):
        written.append_placed(segment, written.place(segment))

    def rust() -> None:
        deltalake.write_deltalake(
            str(written.folder), pa.table({"n": pa.array([7], pa.int64())}), mode="append"
        )

    for segment, foreign in enumerate(
        (
            lambda: written.sql(f"OPTIMIZE {written.name}"),
            lambda: written.sql(f"DELETE FROM {written.name} WHERE n = 2"),
            rust,
        ),
        start=4,
    ):
        version = written.table.version()
        assert version is not None
        written.append_placed(10 * segment, written.place(10 * segment, foreign=foreign))
        assert written.table.version() == version + 2
        written.append_placed(10 * segment + 1, written.place(segment))
        assert written.table.version() == version + 3, "and it continues"
    assert written.numbers() == [1, 3, 4, 5, 6, 7, 40, 50, 60]
    written.is_sound()


ADDS_A_COLUMN: Final = "ALTER TABLE {name} ADD COLUMNS (m INT)"
ASKS_FOR_VECTORS: Final = "ALTER TABLE {name} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"


@pytest.mark.parametrize(
    ("written", "foreign", "told"),
    [
        (Way.OWN, ADDS_A_COLUMN, "another writer has changed its metaData, in version 2 of "),
        pytest.param(
            Way.OWN,
            ASKS_FOR_VECTORS,
            "another writer has changed its (metaData|protocol), in version 2 of ",
            marks=pytest.mark.full,
        ),
        pytest.param(
            Way.DELTA,
            ADDS_A_COLUMN,
            r"io\.delta\.exceptions\.MetadataChangedException",
            marks=pytest.mark.full,
        ),
    ],
    indirect=["written"],
)
def test_a_foreign_change_of_the_table_gives_the_append_up(written: Written, foreign: str, told: str) -> None:
    """By Spark Connect the transaction begins after it. Delta lets an append pass a wish for deletion vectors."""
    written.create()
    written.append_placed(1, written.place(1))
    with pytest.raises(Exception, match=told) as raised:
        written.append_placed(
            2, written.place(2, foreign=lambda: written.sql(foreign.format(name=written.name)))
        )
    assert is_conflict(raised.value)
    assert written.numbers() == [1]
    written.append_placed(2, written.place(3))
    assert written.numbers() == [1, 3]
    written.is_sound()


def test_of_writers_at_the_same_moment_none_loses_a_commit(written: Written) -> None:
    """Delta may give up a DELETE, since there are rows by now that it hasn't looked at, but no append."""
    written.create()
    appended = 0

    def append(over: Event) -> None:
        nonlocal appended
        last = appended + BESIDE
        while appended < last and not over.is_set():
            appended += 1
            written.append_placed(appended, written.place(appended))

    for statement in (
        f"INSERT INTO {written.name} VALUES (-1), (-2)",
        f"DELETE FROM {written.name} WHERE n = -2",
        f"OPTIMIZE {written.name}",
    ):
        before = appended
        with at_work([append]):
            gave_up = written.gives_up(statement)
        assert appended > before, "an append began beside it"
        if gave_up:
            assert statement.startswith("DELETE")
            written.sql(statement)
    written.append_placed(appended + 1, written.place(appended + 1))
    assert written.numbers() == [-1, *range(1, appended + 2)]
    written.is_sound()
