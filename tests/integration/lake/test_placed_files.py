"""What Delta does with files that it hasn't written: it reads, skips, rewrites and removes them like its own."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame

from actors.lake.delta import delta_table
from actors.lake.delta.delta_table import DeltaTable, _module
from actors.lake.files.file_placement import LakeFiles
from actors.lake.spark.spark_session import Spark
from actors.lake.transaction_log.own_log import OwnLog
from pipeline.journal.entry import FileKind
from pipeline.lake.batch import Piece
from pipeline.lake.tables.columns import LakeColumn, columns, ddl
from pipeline.lake.tables.tier import Tier
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.types.column_types import Integer, Text
from tests.integration.history import FILLING, History

INT = Integer(4, unsigned=False)
COLUMNS = (Column("id", INT, False), Column("n", INT, True), Column("note", Text("utf8mb4"), True))
ITEMS = TableSchema(TableId("shop", "items"), COLUMNS, (0,))


class Placed:
    """A Delta table that's given the files of a journal, segment by segment."""

    def __init__(self, spark: Spark, folder: Path) -> None:
        self.session = spark.session
        self.folder = folder / "table"
        self.name = f"delta.`{self.folder}`"
        self.history = History(folder / "journal")
        self.table = DeltaTable(spark.session, str(self.folder))
        self.files = LakeFiles(self.history.store)

    def create(
        self, of: tuple[LakeColumn, ...], properties: str = "'delta.checkpointInterval' = '4'"
    ) -> None:
        self.sql(f"CREATE TABLE {self.name} ({ddl(of)}) USING delta TBLPROPERTIES ({properties})")

    def sql(self, text: str) -> DataFrame:
        return self.session.sql(text)

    def append(self, tier: Tier) -> None:
        """Seal, and append what was sealed."""
        number = self.history.seal()
        entry = self.history.store.entry(number)
        kind = FileKind.CHANGES if tier is Tier.CHANGELOG else FileKind.ROWS
        pieces = [
            Piece(number, place, file.path, entry.schemas[file.version], file.rows, file.bytes, file.absent)
            for place, file in enumerate(entry.files)
            if file.kind is kind
        ]
        committed = self.table.append(
            lambda folder, there: self.files.place(folder, tier, pieces, there),
            "us",
            range(number, number + 1),
            {},
            "{}",
        )
        assert committed is not None
        self.files.sync_commit(str(self.folder), committed)

    def rows(self, where: str = "true", at: int | None = None) -> list[tuple[Any, ...]]:
        version = "" if at is None else f" VERSION AS OF {at}"
        found = self.sql(f"SELECT * FROM {self.name}{version} WHERE {where}").toArrow().to_pylist()
        return sorted((tuple(row.values()) for row in found), key=repr)

    def is_sound(self) -> None:
        """What the log says of itself is what it comes to, as Delta counts it."""
        jvm: Any = self.session.sparkContext._jvm
        jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
        snapshot = self.table._log().unsafeVolatileSnapshot()
        assert snapshot.validateChecksum(_module(jvm.scala.collection.immutable, "Map$").empty())
        assert snapshot.checksumOpt().get().setTransactions().isDefined()
        found = self.table.snapshot()
        assert found is not None
        assert found.applications["us"] == self.history.segment


@pytest.fixture(params=["own commits", pytest.param("Delta's commits", marks=pytest.mark.full)])
def placed(
    spark: Spark, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Placed]:
    if request.param == "Delta's commits":
        monkeypatch.setattr(OwnLog, "end", lambda *_: None)
    made = Placed(spark, tmp_path)
    with closing(made.history.store):
        yield made


def test_a_segment_that_is_not_asked_for_is_not_read(placed: Placed) -> None:
    items = placed.history.table(ITEMS)
    placed.create(columns(ITEMS, Tier.CHANGELOG))
    for number in range(1, 7):  # there are checkpoints among them
        placed.history.transaction((items, "u", (number, None, f"segment {number}")))
        placed.append(Tier.CHANGELOG)
    for where, files in (("__segment > 4", 2), ("__scn <= 1", 1), ("id = 3", 1), ("true", 6)):
        read = placed.sql(f"SELECT * FROM {placed.name} WHERE {where}")
        assert len(read.inputFiles()) == files, where
        assert read.count() == files, where
    placed.is_sound()


@pytest.mark.full
@pytest.mark.parametrize("placed", ["Delta's commits"], indirect=True)  # of its own the JVM holds nothing
def test_of_a_long_log_only_what_is_behind_the_checkpoint_is_held(
    placed: Placed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delta_table, "_LOOK_EVERY", 5)
    items = placed.history.table(ITEMS)
    placed.create(columns(ITEMS, Tier.CHANGELOG))
    for number in range(1, 11):
        placed.history.transaction((items, "u", (number, None, None)))
        placed.append(Tier.CHANGELOG)
    segment = placed.table._log().unsafeVolatileSnapshot().logSegment()
    assert segment.version() == 10
    assert segment.deltas().length() == 2


def chunks(placed: Placed, properties: str) -> None:
    """Two files of rows, 1 to 5 and 6 to 9, in a mirror."""
    items = placed.history.table(ITEMS, FILLING)
    placed.create(columns(ITEMS, Tier.MIRROR), properties)
    items.source = {(key,): (key, -key, None) for key in range(1, 10)}
    for keys in (range(1, 6), range(6, 10)):
        placed.history.chunk(items, [(key,) for key in keys])
        placed.append(Tier.MIRROR)


@pytest.mark.full
def test_rows_are_deleted_and_merged_by_deletion_vectors_files_compacted_and_removed(placed: Placed) -> None:
    chunks(placed, "'delta.enableDeletionVectors' = 'true'")
    before = {path.name for path in placed.folder.glob("*.parquet")}
    assert len(before) == 2
    placed.sql(f"DELETE FROM {placed.name} WHERE id = 2")
    placed.sql(
        f"MERGE INTO {placed.name} AS m USING (SELECT 7 AS id, 70 AS n UNION ALL SELECT 20, 200) AS c "
        "ON m.id = c.id WHEN MATCHED THEN UPDATE SET n = c.n WHEN NOT MATCHED THEN INSERT (id, n) VALUES (id, n)"
    )
    logged = [
        json.loads(line)
        for path in sorted((placed.folder / "_delta_log").glob("*.json"))
        for line in path.read_text().splitlines()
    ]
    marked = {entry["add"]["path"] for entry in logged if entry.get("add", {}).get("deletionVector")}
    assert marked == before, "they'd have been written anew without deletion vectors"
    expected = sorted([(k, -k, None) for k in (1, 3, 4, 5, 6, 8, 9)] + [(7, 70, None), (20, 200, None)])
    assert sorted(placed.rows()) == expected
    placed.is_sound()
    (placed.folder / "000000000099-0000-leftover.parquet").write_bytes(b"never committed")
    placed.sql(f"OPTIMIZE {placed.name}")
    assert sorted(placed.rows()) == expected
    assert len(placed.rows(at=2)) == 9
    unchecked = "spark.databricks.delta.retentionDurationCheck.enabled"
    placed.session.conf.set(unchecked, "false")
    placed.sql(f"VACUUM {placed.name} RETAIN 0 HOURS")
    placed.session.conf.unset(unchecked)
    left = {path.name for path in placed.folder.glob("*.parquet")}
    assert len(left) == 1
    assert not left & before
    assert sorted(placed.rows()) == expected
    entry = placed.history.store.entry(1)
    assert placed.history.store.path(entry, entry.files[0]).exists(), (
        "the journal has a name of its own for it"
    )
    placed.is_sound()


def test_files_go_on_to_fit_when_columns_are_renamed_added_and_widened(placed: Placed) -> None:
    chunks(placed, "'delta.enableDeletionVectors' = 'true'")
    items = placed.history.tables[ITEMS.table]
    placed.sql(
        f"ALTER TABLE {placed.name} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name', "
        "'delta.enableTypeWidening' = 'true')"
    )
    placed.sql(f"ALTER TABLE {placed.name} RENAME COLUMN note TO `a, (note)`")
    placed.sql(f"ALTER TABLE {placed.name} ADD COLUMNS (`more;` INT)")
    placed.sql(f"ALTER TABLE {placed.name} ALTER COLUMN n TYPE BIGINT")
    wide = Column("n", Integer(8, unsigned=False), True)
    id_, narrow, _ = COLUMNS
    note, more = Column("a, (note)", Text("utf8mb4"), True), Column("more;", INT, True)
    for schema, row in (
        (TableSchema(ITEMS.table, (id_, wide, note, more), (0,)), (30, 2**40, "x", 1)),
        (TableSchema(ITEMS.table, (more, id_, narrow), (0,)), (2, 31, 3)),  # another order, and one less
    ):
        items.schema = schema
        items.source[items.key(row)] = row
        placed.history.chunk(items, [items.key(row)])
        placed.append(Tier.MIRROR)
    assert placed.rows("id >= 9") == [(30, 2**40, "x", 1), (31, 3, None, 2), (9, -9, None, None)]
    read = placed.sql(f"SELECT * FROM {placed.name} WHERE id >= 30")
    assert len(read.inputFiles()) == 2
    placed.sql(f"UPDATE {placed.name} SET `a, (note)` = 'y' WHERE id > 30")
    assert placed.rows("id >= 30") == [(30, 2**40, "x", 1), (31, 3, "y", 2)]
    placed.is_sound()


def test_another_writer_of_the_table_is_no_conflict(placed: Placed, monkeypatch: pytest.MonkeyPatch) -> None:
    chunks(placed, "'delta.enableDeletionVectors' = 'true'")
    items = placed.history.tables[ITEMS.table]
    items.source[10,] = (10, -10, None)
    placed.history.chunk(items, [(10,)])
    place = placed.files.place

    def meanwhile(*arguments: Any) -> list[str]:
        placed.sql(f"OPTIMIZE {placed.name}")
        placed.sql(f"DELETE FROM {placed.name} WHERE id = 1")
        return place(*arguments)

    monkeypatch.setattr(placed.files, "place", meanwhile)
    placed.append(Tier.MIRROR)
    assert sorted(row[0] for row in placed.rows()) == list(range(2, 11))
    placed.is_sound()


@pytest.mark.full
def test_a_wide_table(placed: Placed) -> None:
    wide = TableSchema(
        ITEMS.table, (COLUMNS[0], *(Column(f"c{i}", Text("utf8mb4"), True) for i in range(59))), (0,)
    )
    items = placed.history.table(wide, FILLING)
    placed.create(columns(wide, Tier.CHANGELOG))
    row = (1, *(None if i % 7 == 0 else f"value {i}" for i in range(59)))
    placed.history.transaction((items, "c", row))
    placed.append(Tier.CHANGELOG)
    ((*meta, last),) = [(*found[:8], found[8:]) for found in placed.rows()]
    assert last == row
    assert meta[-1] == 1
