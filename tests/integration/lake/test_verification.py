"""What verifications read is compared with the lake on a real Spark: each planted corruption is found and named."""

import datetime as dt
import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from decimal import Decimal as Exact
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from actors.lake import maintenance
from actors.lake.delta.table_opener import delta_tables
from actors.lake.files import gathered_changes
from actors.lake.files.mirror_files import MirrorFiles
from actors.lake.filesystem import passing_folder
from actors.lake.lake import Lake
from actors.lake.live_view import FoundView, find_view
from actors.lake.spark.spark_session import Spark
from actors.lake.transaction_log.delta_log import read_version
from actors.lake.verification import comparison
from actors.lake.verification.comparison import _MIRRORED, _ROWS
from actors.lake.verification.lake_verification import LakeVerification
from actors.service.live_view_text import live_view_text
from deploy.demo.tamper import live_files, rewrite
from pipeline.lake.background.work import VerifyRows
from pipeline.lake.batch import LakeTableState, next_batch
from pipeline.lake.files import read_values
from pipeline.lake.live_view import MirrorPosition
from pipeline.lake.reading.sql_dialects import Dialect
from pipeline.lake.tables.paths import findings_path, judgements_path, location
from pipeline.lake.tables.properties import FORGETTING, RESULTS
from pipeline.lake.tables.spark_sql import quoted, table_at
from pipeline.lake.tables.tier import Tier
from pipeline.lake.verification.queries import _PARTS, ComparedTable
from pipeline.lake.verification.row_sums import RowHasher, RowSums
from pipeline.lake.verification.runs import (
    COLUMNS_CHANGED,
    MIRROR_CHANGED,
    ROWS_LOST,
    FindingKind,
    Judgement,
    LakeVerdict,
    VerificationRun,
    runs_of,
)
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.snapshot.checkpoint import Filling, Ready
from pipeline.types import column_types as t
from tests.integration.history import READY, History, Row, Table
from tests.servers.duckdb_engine import engine

INT = t.Integer(8, unsigned=False)
WIDE = TableSchema(
    TableId("shop", "wide"),
    (
        Column("id", INT, False),
        Column("name", t.Text("utf8mb4"), False),
        Column("small", t.Integer(1, unsigned=False), True),
        Column("large", t.Integer(8, unsigned=True), True),
        Column("exact", t.Decimal(38, 30), True),
        Column("float", t.Float(), True),
        Column("double", t.Double(), True),
        Column("zero", t.Double(), True),
        Column("bit", t.Bit(1), True),
        Column("bits", t.Bit(9), True),
        Column("year", t.Year(), True),
        Column("day", t.Date(), True),
        Column("time", t.Time(6), True),
        Column("moment", t.DateTime(6), True),
        Column("instant", t.Timestamp(6), True),
        Column("it's `text`", t.Text("utf8mb4"), True),
        Column("empty", t.Text("utf8mb4"), True),
        Column("raw", t.Binary(), True),
        Column("label", t.Enum(("a", "b")), True),
        Column("labels", t.Set(("a", "b")), True),
        Column("doc", t.Json(), True),
        Column("point", t.Geometry(), True),
        Column("vector", t.Vector(), True),
    ),
    (0, 1),
)
# For each column what the least change of its value is, in Spark's SQL.
LEAST = {
    "small": "small + CAST(1 AS TINYINT)",
    "large": "CAST(large - 1 AS DECIMAL(20,0))",
    "exact": "CAST('0.100000000000000000000000000001' AS DECIMAL(38,30))",
    "float": "CAST(0.10000001 AS FLOAT)",
    "double": "0.30000000000000004D",
    "zero": "0.0D",
    "bit": "NOT bit",
    "bits": "X'01FE'",
    "year": "CAST(year + 1 AS SMALLINT)",
    "day": "date_add(day, 1)",
    "time": "time + 1",
    "moment": "moment + INTERVAL '0.000001' SECOND",
    "instant": "instant + INTERVAL '0.000001' SECOND",
    "it's `text`": "concat(`it's ``text```, ' ')",
    "empty": "NULL",
    "raw": "X'00FF00'",
    "label": "'b'",
    "labels": "'b'",
    "doc": "concat(doc, ' ')",
    "point": "X'00'",
    "vector": "array(CAST(0.0 AS FLOAT), CAST(1.0 AS FLOAT))",
}


def wide(key: int, name: str = "a") -> Row:
    at = dt.datetime(2026, 11, 26, 7, 1, 2, 345678)  # noqa: DTZ001 - a DATETIME has no zone
    return (
        key,
        name,
        5,
        Exact(2**64 - 1),
        Exact("0.1"),
        0.1,
        0.1 + 0.2 - 2**-54,
        -0.0,
        True,
        b"\x01\xff",
        2026,
        at.date(),
        -3_600_000_001,
        at,
        at.replace(tzinfo=dt.UTC),
        "naïve",
        "",
        b"\x00\xff",
        "a",
        "a,b",
        '{"a": 1.0}',
        b"\x00\x00\x00\x00\x01",
        [-0.0, 1.0],
    )


# Of a table with few columns Spark plans the long queries in a fraction of the time.
FEW = TableSchema(TableId("shop", "few"), WIDE.columns[:3], WIDE.key)


def few(key: int, small: int = 5) -> Row:
    return (key, "a", small)


class Verified:
    """A journal, and the lake that is fed from it and compared with it."""

    def __init__(self, spark: Spark, folder: Path, schema: TableSchema = WIDE) -> None:
        self.session = spark.session
        self.root = str(folder / "lake")
        self.history = History(folder / "journal")
        self.table = self.history.table(schema, READY)
        self.lake = Lake(self.session, self.root, self.history.store)
        self.state = LakeTableState()
        self.segment = 0
        self.differing: set[int] = set()
        self.differing_keys: set[Row] = set()

    def deliver(self) -> None:
        self.history.seal()
        while self.segment < self.history.segment:
            batch = next_batch(self.history.store.entries(self.segment, self.history.segment))
            self.state = self.lake.deliver(self.id, self.state, batch)
            self.segment = batch.through

    @property
    def id(self) -> TableId:
        return self.table.schema.table

    def merge(self) -> None:
        found = self.lake.find(self.id)
        reached = MirrorPosition(found.generation or 0, found.merged, found.partial)
        self.lake.merge(self.id, reached, self.segment, "position")

    def complete(self) -> None:
        """Shows readers the newest generation."""
        generation = self.lake.find(self.id).generation
        assert generation is not None
        self.lake.generations.complete(self.id, generation, self.segment, "position")

    def verify_all(self, run: str, *, repairs: bool = False) -> Judgement:
        """Verifies the table from its beginning to its end, in two chunks."""
        self.history.begin_verification(run, self.table, repairs=repairs)
        keys = sorted(self.table.source)
        half = len(keys) // 2
        for chunk in (keys[:half], keys[half:]):
            self.history.verify(run, self.table, chunk)
        self.deliver()
        self.differing = self.differing_parts(run)
        self.differing_keys = self.keys_with_other_sums(run)
        return self.end(run, len(keys))

    def verify_at_once(self, run: str, *, repairs: bool = False) -> Judgement:
        """Verifies the table in one chunk."""
        self.history.begin_verification(run, self.table, repairs=repairs)
        self.history.verify(run, self.table, sorted(self.table.source))
        return self.end(run, len(self.table.source))

    def differing_parts(self, run: str) -> set[int]:
        """The parts that the first query finds, when all of a verification's rows are there."""
        (mine,) = self._of(run)
        compared = self._comparison(self._view)
        compared._read_rows(self._view, compared._files, [mine])
        found = self.session.sql(self._compared.compared_parts(_ROWS, mine.since)).collect()
        assert sum(row["rows"] for row in found) == self.session.table(_ROWS).count()
        return {row["part"] for row in found if row["differs"]}

    def keys_with_other_sums(self, run: str) -> set[Row]:
        """The keys of which the two sides have other sums, as this process reads their files."""
        view, (mine,) = self._view, self._of(run)
        compared = self._comparison(view)
        names = ", ".join(map(quoted, view.schema.key_names))
        there = self.session.sql(f"SELECT {names} FROM {table_at(self._mirror)}").toArrow().to_pylist()
        keys = sorted({tuple(key.values()) for key in there} | set(self.table.source))
        columns = [pa.array(part) for part in zip(*keys, strict=True)]
        with passing_folder(compared._held.changed_folder(self.id)) as folder:
            sums = compared._divide(view, mine, columns, folder)
            assert sums == [RowSums(), RowSums()], "each key is one that has changed here"
            read, mirrored = (
                sums_by_key(view.schema, pq.read_table(f"{folder}/{name}").columns[first:])
                for name, first in ((_ROWS, 1), (_MIRRORED, 0))
            )
        return {key for key in keys if read.get(key) != mirrored.get(key)}

    def parts(self, keys: Iterable[tuple[int, str]]) -> set[int]:
        """The parts of the table that these keys belong to."""
        rows = self.session.createDataFrame(list(keys), "id BIGINT, name STRING")
        return {row[0] for row in rows.selectExpr(f"pmod({self._compared._key_hash}, {_PARTS})").collect()}

    def _comparison(self, view: FoundView) -> comparison.Comparison:
        verification, work = self.lake.verification, VerifyRows(self.id, (), self.segment, "", 0, None)
        held, tables = verification._held, verification._tables
        files = held.files(self.id, self.segment)
        return comparison.Comparison(self.session, self.root, tables, held, work, view, files)

    @property
    def _view(self) -> FoundView:
        view = find_view(self.session, self.root, self.id)
        assert view is not None
        return view

    @property
    def _compared(self) -> ComparedTable:
        view = self._view
        return ComparedTable(self.root, view.schema, view.reached, view.at)

    def end(self, run: str, rows: int) -> Judgement:
        self.history.end_verification(run, self.table, rows)
        self.deliver()
        (judged,) = self.compare(run)
        return judged

    def repair(self, run: str, most: int) -> Judgement:
        """Repairs what a verification has found, in batches of so many keys, as the coordinator does."""
        last = False
        while not last:
            awaiting = next(each for each in self._runs() if each.run == run)
            keys, last = self.lake.verification.keys_to_repair(awaiting, most)
            assert keys is not None
            self.history.repair(run, self.table, keys, last=last)
            self.deliver()
        (judged,) = self.compare(f"{run} repaired")
        return judged

    def _runs(self) -> tuple[VerificationRun, ...]:
        return runs_of(self.history.store.entry(self.segment).checkpoint)

    def _of(self, run: str) -> tuple[VerificationRun, ...]:
        return tuple(each for each in self._runs() if each.run == run and each.table == self.id)

    def compare(self, run: str, through: int | None = None) -> tuple[Judgement, ...]:
        """Does what the background work does."""
        work = VerifyRows(self.id, self._of(run), through or self.segment, "the position", 0, None)
        return self.lake.verification.verify(work)

    def version(self) -> int:
        """Returns the mirror's newest version."""
        newest = self.session.sql(f"DESCRIBE HISTORY {table_at(self._mirror)} LIMIT 1").first()
        assert newest is not None
        return int(newest["version"])

    def sql(self, statement: str) -> None:
        """Changes the mirror behind Tidemark's back."""
        self.session.sql(statement.replace("MIRROR", table_at(self._mirror)))

    def append(self, query: str) -> None:
        """Adds rows to the mirror behind Tidemark's back. They have the table's columns only."""
        rows = self.session.sql(query.replace("MIRROR", table_at(self._mirror)))
        rows.write.format("delta").mode("append").save(self._mirror)

    @property
    def _mirror(self) -> str:
        return location(self.root, self.id, Tier.MIRROR)

    def found(self, run: str) -> set[tuple[Any, ...]]:
        found = self.session.sql(f"SELECT * FROM {table_at(findings_path(self.root))} WHERE run = '{run}'")
        return {
            (
                row["kind"],
                tuple(json.loads(row["key"]).values()) if row["kind"] != "unjudged" else row["key"],
                *(row["columns"] or ()),
            )
            for row in found.collect()
        }


def sums_by_key(schema: TableSchema, rows: list[pa.ChunkedArray]) -> dict[Row, RowSums]:
    found: dict[Row, RowSums] = {}
    hasher = RowHasher(schema, [pa.nulls(0, schema.arrow.field(place).type) for place in schema.key])
    (whole,) = pa.table(rows, schema.arrow.names).combine_chunks().to_batches()
    for at in range(len(whole)):
        row = whole.slice(at, 1)
        key = tuple(row.column(place)[0].as_py() for place in schema.key)
        found[key] = found.get(key, RowSums()) + hasher.sum(row.columns, None)[0]
    return found


def merged_few(spark: Spark, folder: Path) -> Verified:
    """A table of three columns with five rows, which the mirror has."""
    verified = Verified(spark, folder, FEW)
    verified.history.transaction(*((verified.table, "c", few(key)) for key in range(5)))
    verified.deliver()
    verified.merge()
    return verified


@pytest.fixture
def verified(spark: Spark, tmp_path: Path) -> Iterator[Verified]:
    made = Verified(spark, tmp_path)
    yield made
    made.history.store.close()


@pytest.fixture
def narrow(spark: Spark, tmp_path: Path) -> Iterator[Verified]:
    """As `verified`, of few columns."""
    made = Verified(spark, tmp_path, FEW)
    yield made
    made.history.store.close()


# How many rows of each side Spark gets, whenever the sums of the others are equal; None if it reads both sides itself.
Compared = list[tuple[int, int] | None]


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> Compared:
    """What Spark compares in the first query."""
    found: Compared = []
    judge = comparison._have_equal_parts

    def counted(session: SparkSession, query: str, rows: int) -> bool:
        counts = session.table(_ROWS).count(), session.table(_MIRRORED).count() if _MIRRORED in query else 0
        found.append(counts if _MIRRORED in query else None)
        return judge(session, query, rows)

    monkeypatch.setattr(comparison, "_have_equal_parts", counted)
    return found


@pytest.mark.full
def test_a_repair_that_mended_nothing_is_found(spark: Spark, tmp_path: Path) -> None:
    """Rows that are missing, different, twice and too many are compared once more, key by key."""
    verified = merged_few(spark, tmp_path)
    history, table = verified.history, verified.table
    history.begin_verification("v", table, repairs=True)
    history.end_verification("v", table, 0)
    keys = pa.RecordBatch.from_pydict({"id": [0, 1, 2, 3, 9], "name": ["a"] * 5})
    history.repair("v", table, keys)
    verified.deliver()
    verified.merge()
    verified.sql("UPDATE MIRROR SET small = 6 WHERE id = 0")
    verified.sql("DELETE FROM MIRROR WHERE id = 1")
    verified.sql("INSERT INTO MIRROR SELECT * FROM MIRROR WHERE id = 2")
    verified.sql("UPDATE MIRROR SET id = 9 WHERE id = 4")
    (judged,) = verified.compare("v repaired")
    assert judged.verdict is LakeVerdict.DIFFERENT
    assert verified.found("v repaired") == {
        ("different", (0, "a"), "small"),
        ("missing", (1, "a")),
        ("duplicate", (2, "a")),
        ("extra", (9, "a")),
    }
    history.store.close()


def test_verifications_that_ended_together_are_judged_each_by_itself(spark: Spark, tmp_path: Path) -> None:
    """A failure of the sink leaves several behind. One of them lacks a row that it has read."""
    verified = merged_few(spark, tmp_path)
    history, table = verified.history, verified.table
    for run, rows in (("whole", 5), ("lacking", 6)):
        history.begin_verification(run, table)
        history.verify(run, table, sorted(table.source))
        history.end_verification(run, table, rows)
    verified.deliver()
    work = VerifyRows(verified.id, verified._runs(), verified.segment, "the position", 0, None)
    assert {
        judged.run: (judged.verdict, judged.reason) for judged in verified.lake.verification.verify(work)
    } == {
        "whole": (LakeVerdict.EQUAL, ""),
        "lacking": (LakeVerdict.UNJUDGED, ROWS_LOST),
    }
    history.store.close()


@pytest.mark.full
def test_a_verification_with_the_id_of_an_earlier_one_has_a_result_of_its_own(
    spark: Spark, tmp_path: Path
) -> None:
    """Capture remembers an id for a thousand signals."""
    verified = merged_few(spark, tmp_path)
    assert verified.verify_at_once("again").verdict is LakeVerdict.EQUAL
    for small, found in ((6, {FindingKind.DIFFERENT: 1}), (5, {}), (6, {FindingKind.DIFFERENT: 1})):
        verified.history.snapshots = ()
        verified.sql(f"UPDATE MIRROR SET small = {small} WHERE id = 0")
        judged = verified.verify_at_once("again", repairs=True)
        assert (judged.found, judged.verdict is LakeVerdict.DIFFERENT) == (found, bool(found))
        run = next(each for each in verified._runs() if each.run == "again")
        keys, _ = verified.lake.verification.keys_to_repair(run)
        assert (0 if keys is None else len(keys)) == len(found)
    verified.history.store.close()


@pytest.mark.full
def test_old_results_and_findings_go_except_those_of_known_verifications(
    spark: Spark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed sink finds the result of one that the checkpoint knows, and makes no second one."""
    monkeypatch.setattr(maintenance, "MANY_RESULTS", 4)
    verified = merged_few(spark, tmp_path)
    verified.sql("UPDATE MIRROR SET small = 6 WHERE id = 0")
    results, found = table_at(judgements_path(verified.root)), table_at(findings_path(verified.root))
    judged = {run: verified.verify_at_once(run) for run in ("old", "known", "new")}

    def runs(table: str) -> list[str]:
        return sorted(row["run"] for row in spark.session.sql(f"SELECT run FROM {table}").collect())

    verified.lake.upkeep.trim_results(["known"])
    for table in (results, found):
        spark.session.sql(f"UPDATE {table} SET `at` = `at` - INTERVAL 100 DAYS WHERE run <> 'new'")
        assert runs(table) == ["known", "new", "old"], "few files stay as they are"
    judged["last"] = verified.verify_at_once("last")
    monkeypatch.setattr(maintenance, "MANY_RESULTS", 2)
    monkeypatch.setitem(RESULTS, FORGETTING, "interval 0 seconds")
    verified.lake.upkeep.trim_results(["known"])
    for table in (results, found):
        assert runs(table) == ["known", "last", "new"]
        described = spark.session.sql(f"DESCRIBE DETAIL {table}").first()
        assert described is not None and described["numFiles"] == 1
        assert RESULTS.items() <= described["properties"].items()

    again = Lake(spark.session, verified.root, verified.history.store)
    verified.lake = again
    (known,) = verified.compare("known")
    assert replace(known, at=judged["known"].at) == judged["known"], "the moment was moved above"
    assert verified.verify_at_once("after").found == {FindingKind.DIFFERENT: 1}
    assert runs(results) == ["after", "known", "last", "new"]
    again.upkeep._tables(judgements_path(verified.root)).checkpoint()
    log = read_version(judgements_path(verified.root))
    assert log is not None and not log.applications
    verified.history.store.close()


# A row differs in one of these ways by the rest of its key, and one row in 29 is right.
WAYS = (*LEAST, "older", "missing", "duplicate", "key", "extra", "generation", "former")


@pytest.mark.parametrize(
    ("rows", "repairs"),
    [
        pytest.param(29, False, id="each"),
        pytest.param(1040, True, id="a thousand, and repaired", marks=pytest.mark.full),
    ],
)
def test_corruptions_are_found_named_and_repaired(
    verified: Verified, compared: Compared, rows: int, repairs: bool
) -> None:
    history, table = verified.history, verified.table
    before = [key for key in range(rows) if way(key) == "generation"]
    before += [2 * rows + key for key in range(rows) if way(key) == "former"]
    history.transaction(*((table, "c", named(key, 4)) for key in before))
    verified.deliver()
    verified.merge()
    former = verified.version()
    history.restart(table, WIDE, Ready)
    history.transaction(*((table, "c", named(key)) for key in range(rows)))
    verified.deliver()
    verified.complete()
    verified.merge()
    history.transaction(*((table, "u", named(key, 6)) for key in range(rows) if way(key) == "older"))
    verified.deliver()
    verified.merge()
    expected = plant(verified, former, rows)
    assert len(expected) >= rows * 28 // 29
    judged = verified.verify_all("many", repairs=repairs)
    assert judged.verdict is LakeVerdict.DIFFERENT
    assert verified.differing == verified.parts(key for _, key, *_ in expected)
    assert verified.differing_keys == {key for _, key, *_ in expected}
    assert compared == [], "the sums differ"
    assert verified.found("many") == expected
    assert {kind.value: count for kind, count in judged.found.items()} == Counter(
        kind for kind, *_ in expected
    )
    if not repairs:  # test_verify_command.py has five rows repaired, of all four kinds of findings
        return
    again = verified.repair("many", 400)
    assert (again.verdict, again.rows) == (LakeVerdict.EQUAL, len(expected))
    verified.merge()
    assert verified.verify_all("mended").verdict is LakeVerdict.EQUAL


def named(key: int, value: int = 5) -> Row:
    """The row with this key, which has a value in the column `small`."""
    row = wide(key, "a" if key % 2 else "ä")
    return (*row[:2], value, *row[3:])


def way(key: int) -> str | None:
    """How the row with this key differs; None if it doesn't."""
    at = key % (len(WAYS) + 1)
    return WAYS[at] if at < len(WAYS) else None


def plant(verified: Verified, former: int, rows: int) -> set[tuple[Any, ...]]:
    """Changes rows of the mirror behind Tidemark's back. Returns what a verification has to find.

    `former`: a version of the mirror with the rows of the generation before.
    """
    places = {name: f"id % {len(WAYS) + 1} = {at} AND id < {rows}" for at, name in enumerate(WAYS)}
    least = {
        column: f"CASE WHEN {places[column]} THEN {value} ELSE {quoted(column)} END"
        for column, value in LEAST.items()
    }
    small = f"CASE WHEN {places['older']} THEN CAST(5 AS TINYINT) ELSE {least.pop('small')} END"
    rewrite_mirror(verified, least)
    # By MySQL's collation it stays the same key.
    key = f"CASE WHEN {places['key']} THEN upper(name) ELSE name END"
    verified.sql(f"UPDATE MIRROR SET small = {small}, name = {key}")
    verified.sql(f"DELETE FROM MIRROR WHERE {places['missing']} OR {places['generation']}")
    names = ", ".join(quoted(column.name) for column in WIDE.columns)
    moved = names.replace("`id`", f"`id` + {rows} AS `id`", 1)
    verified.append(
        f"SELECT {names} FROM MIRROR VERSION AS OF {former} "
        f"UNION ALL SELECT {names} FROM MIRROR WHERE {places['duplicate']} "
        f"UNION ALL SELECT {moved} FROM MIRROR WHERE {places['extra']}"
    )
    found: set[tuple[Any, ...]] = set()
    for id_, name, *_ in map(named, range(rows)):
        match way(id_):
            case None:
                pass
            case "missing" | "duplicate" as kind:
                found.add((kind, (id_, name)))
            case "key":
                found |= {("missing", (id_, name)), ("extra", (id_, name.upper()))}
            case "extra":
                found.add(("extra", (id_ + rows, name)))
            case "former":
                found.add(("extra", (id_ + 2 * rows, named(id_ + 2 * rows)[1])))
            case "older" | "generation":
                found.add(("different", (id_, name), "small"))
            case str(column):
                found.add(("different", (id_, name), column))
    return found


def rewrite_mirror(verified: Verified, values: Mapping[str, str]) -> None:
    """Gives columns other values in the mirror's files, as a failing disk does: Delta's log stays as it is."""
    snapshot = delta_tables(verified.session)(verified._mirror).snapshot()
    assert snapshot is not None
    stored = {name: column.name for name, column in snapshot.columns.items()}
    for path in live_files(Path(verified._mirror)):
        there = verified.session.read.parquet(str(path))
        logical = there.select(*(there[quoted(stored[name])].alias(name) for name in WIDE.arrow.names))
        told = logical.selectExpr(*(f"{value} AS {quoted(name)}" for name, value in values.items())).toArrow()
        rewrite(path, partial(with_columns, {stored[name]: told[name] for name in values}))


def with_columns(columns: Mapping[str, pa.ChunkedArray], rows: pa.Table) -> pa.Table:
    """Rows with other values in some columns."""
    for name, values in columns.items():
        place = rows.schema.get_field_index(name)
        rows = rows.set_column(place, rows.schema.field(place).with_type(values.type), values)
    return rows


def test_changes_and_merges_after_a_chunk_are_no_findings(narrow: Verified) -> None:
    began = time.time()
    history, table = narrow.history, narrow.table
    history.transaction(*((table, "c", few(key)) for key in range(8)))
    narrow.deliver()
    narrow.merge()
    history.begin_verification("v", table)
    history.verify("v", table, [(key, "a") for key in range(5)])
    history.transaction((table, "u", few(0, 6)), (table, "d", few(1)), (table, "c", few(9)))
    history.transaction((table, "d", few(2)), (table, "c", few(2)))
    narrow.deliver()
    history.transaction((table, "d", few(2)))
    narrow.deliver()
    narrow.merge()
    narrow.sql(
        "UPDATE MIRROR SET small = 9 WHERE id = 0"
    )  # it has changed after its chunk: this run can't see it
    narrow.sql("UPDATE MIRROR SET small = 9 WHERE id = 4")
    assert narrow.compare("v") == ()
    assert narrow.compare("v") == (), "as after a kill"
    history.verify("v", table, [(key, "a") for key in range(5, 10)])
    ended = narrow.end("v", 9)
    assert ended.found == {"different": 1}
    assert narrow.found("v") == {("different", (4, "a"), "small")}
    (judged,) = narrow.compare("v")
    assert judged.found == {"different": 1}, "a result that was found before a restart"
    assert began < ended.at <= judged.at < time.time()
    verifying = Path(narrow.root) / "_tidemark" / "verifying"
    assert not [path for path in verifying.rglob("*") if path.is_file()], "nothing is left beside the lake"


def test_what_isnt_delivered_yet_isnt_compared(narrow: Verified, monkeypatch: pytest.MonkeyPatch) -> None:
    history, table = narrow.history, narrow.table
    history.transaction((table, "c", few(1)))
    history.begin_verification("v", table)
    narrow.deliver()
    before = narrow.segment
    history.transaction((table, "c", few(2)))
    history.verify("v", table, [(1, "a"), (2, "a")])
    history.seal()
    batch = next_batch(history.store.entries(before, history.segment))
    narrow.lake.verification.hold(narrow.id, batch.tables[narrow.id].verified)
    assert narrow.compare("v", through=before) == ()
    assert narrow.lake.verification.holds(narrow.id)
    history.transaction((table, "u", few(2, 6)), (table, "c", few(3)))
    narrow.deliver()
    with monkeypatch.context() as one_query:
        one_query.delattr(LakeVerification, "_search")
        assert narrow.end("v", 2).verdict is LakeVerdict.EQUAL
    narrow.merge()
    narrow.sql("UPDATE MIRROR SET small = 9 WHERE id = 3")
    history.begin_verification("w", table)
    history.verify("w", table, [(1, "a"), (2, "a"), (3, "a")])
    assert narrow.end("w", 3).verdict is LakeVerdict.DIFFERENT
    assert narrow.found("w") == {("different", (3, "a"), "small")}


# Every type and width of MySQL's, and each form that Spark has for a number with a point in Parquet.
EVERY = TableSchema(
    TableId("shop", "every"),
    (
        *WIDE.columns,
        *(Column(f"i{size}", t.Integer(size, unsigned=False), True) for size in (1, 2, 3, 4)),
        *(Column(f"u{size}", t.Integer(size, unsigned=True), True) for size in (1, 2, 3, 4)),
        *(Column(f"d{size}", t.Decimal(size, 2), True) for size in (9, 18, 19, 65)),
        Column("fixed", t.FixedBinary(3), True),
        Column("text", t.Text("latin1"), True),
    ),
    WIDE.key,
)


def every(key: int) -> Row:
    """Zeros, the least and the greatest, and no value at all."""
    if key % 4 == 0:
        return (*wide(key)[:2], *[None] * (len(EVERY.columns) - 2))
    sign = key % 4 - 2
    numbers = [sign * (256**size // 2 - 1) for size in (1, 2, 3, 4)]
    unsigned = [256**size - 1 if sign else 0 for size in (1, 2, 3, 4)]
    exact = [Exact(sign * (10**size - 1)).scaleb(-2) for size in (9, 18, 19)]
    row = list(wide(key))
    row[LAST_DAY] = dt.date(1 if sign < 0 else 9999, 12, 31)
    moment = dt.datetime(1 if sign < 0 else 9999, 1, 1, 0, 0, 0, key)  # noqa: DTZ001 - a DATETIME has no zone
    row[LAST_DAY + 2] = moment
    return (*row, *numbers, *unsigned, *exact, f"{sign * 10**60}.00", bytes([key, 0, 255]), "ÿ" * key)


LAST_DAY = [column.name for column in WIDE.columns].index("day")


def test_each_type_is_equal_however_its_file_came(
    spark: Spark, tmp_path: Path, compared: Compared, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal's files, those that a merge writes, and those that a compaction writes."""
    made = Verified(spark, tmp_path, EVERY)
    monkeypatch.delattr(LakeVerification, "_search")
    for run, brings in (("filled", 0), ("merged", 1), ("compacted", 2)):
        rows = range(20 * brings, 20 * brings + 20)
        made.history.transaction(*((made.table, "c", every(key)) for key in rows))
        made.deliver()
        if brings:
            made.merge()
        if brings == 2:
            made.sql("OPTIMIZE MIRROR")
        assert made.verify_at_once(run).verdict is LakeVerdict.EQUAL
    assert compared == [(20, 0), (0, 0), (0, 0)]
    made.history.store.close()


@pytest.mark.full
def test_old_files_have_fewer_columns_and_narrower_ones(
    narrow: Verified, compared: Compared, monkeypatch: pytest.MonkeyPatch
) -> None:
    history, table = narrow.history, narrow.table
    history.transaction(*((table, "c", few(key)) for key in range(4)))
    narrow.deliver()
    narrow.merge()
    wider = replace(FEW.columns[2], type=t.Integer(8, unsigned=False))
    add_column(table, TableSchema(FEW.table, (*FEW.columns[:2], wider, Column("more", INT, True)), FEW.key))
    history.transaction((table, "c", (*few(7), 7)), (table, "u", (*few(1, 1 << 40), 8)))
    narrow.deliver()
    narrow.merge()
    with monkeypatch.context() as one_query:
        one_query.delattr(LakeVerification, "_search")
        assert narrow.verify_at_once("v").verdict is LakeVerdict.EQUAL
    assert compared == [(0, 0)]
    narrow.sql("UPDATE MIRROR SET more = 0 WHERE id = 2")
    assert narrow.verify_at_once("w").found == {"different": 1}
    assert compared == [(0, 0)]


@pytest.mark.full
def test_among_keys_that_changed_before_their_chunk_nothing_differs_unseen(
    narrow: Verified, compared: Compared
) -> None:
    """All other rows have equal sums, and Spark compares these few."""
    history, table = narrow.history, narrow.table
    history.transaction(*((table, "c", few(key)) for key in range(20)))
    narrow.deliver()
    planted = {
        "": {},
        "UPDATE MIRROR SET small = 9 WHERE id = 0": {"different": 1},
        "DELETE FROM MIRROR WHERE id = 2": {"missing": 1},
    }
    for at, (statement, found) in enumerate(planted.items()):
        history.begin_verification(f"v{at}", table)
        history.transaction(*((table, "u", few(key, 10 + at)) for key in range(3)))
        history.verify(f"v{at}", table, sorted(table.source))
        narrow.deliver()
        narrow.merge()
        if statement:
            narrow.sql(statement)
        assert narrow.end(f"v{at}", 20).found == found
    assert compared == [(3, 3), (3, 3), (3, 2)]


@pytest.mark.full
def test_spark_reads_both_sides_where_only_it_can(
    narrow: Verified, compared: Compared, monkeypatch: pytest.MonkeyPatch
) -> None:
    history, table = narrow.history, narrow.table
    monkeypatch.delattr(LakeVerification, "_search")
    history.transaction(*((table, "c", few(key)) for key in range(6)))
    narrow.deliver()
    narrow.merge()
    history.transaction((table, "u", few(0, 6)))
    narrow.deliver()
    with monkeypatch.context() as many_keys:
        many_keys.setattr(gathered_changes, "MOST_CHANGED_BYTES", 64)
        assert narrow.verify_at_once("many keys").verdict is LakeVerdict.EQUAL
        many_keys.setattr(gathered_changes, "MOST_CHANGED_BYTES", 256)
        assert narrow.verify_at_once("few keys").verdict is LakeVerdict.EQUAL
    narrow.merge()
    hidden = MirrorFiles.hidden_rows
    with monkeypatch.context() as other_form:
        other_form.setattr(MirrorFiles, "hidden_rows", lambda *_: None)
        assert narrow.verify_at_once("a form of vectors").verdict is LakeVerdict.EQUAL
        other_form.setattr(MirrorFiles, "hidden_rows", hidden)
        other_form.setattr(read_values, "_OTHER_CALENDAR", b"org.apache.spark.")
        assert narrow.verify_at_once("a form of values").verdict is LakeVerdict.EQUAL
    assert compared == [None, (1, 1), None, None]


@pytest.mark.parametrize(
    "at", [pytest.param(4, id="size"), pytest.param(-1, id="checksum", marks=pytest.mark.full)]
)
def test_a_mirror_that_no_reader_opens_is_not_equal(narrow: Verified, at: int) -> None:
    """Delta checks the size and the checksum of a deletion vector, and refuses the mirror.

    The file's version comes first, in one byte. The vector's size comes next.
    """
    history, table = narrow.history, narrow.table
    for op, small in (("c", 5), ("u", 6)):
        history.transaction(*((table, op, few(key, small)) for key in range(3 if op == "c" else 1)))
        narrow.deliver()
        narrow.merge()
    (vectors,) = Path(narrow._mirror).rglob("deletion_vector_*.bin")
    damaged = bytearray(vectors.read_bytes())
    damaged[at] ^= 1
    vectors.write_bytes(damaged)
    vectors.with_name(f".{vectors.name}.crc").unlink(missing_ok=True)
    with pytest.raises((PySparkException, Py4JJavaError), match="DELTA_DELETION_VECTOR"):
        narrow.verify_at_once("v")


@pytest.mark.full
def test_spark_reads_both_sides_if_a_changed_key_is_wider_than_its_column_is_now(
    narrow: Verified, compared: Compared
) -> None:
    """It was deleted before the column became narrower, and the mirror still has it."""
    history, table = narrow.history, narrow.table
    history.transaction(*((table, "c", few(key)) for key in (0, 1, 1 << 40)))
    narrow.deliver()
    narrow.merge()
    history.transaction((table, "d", few(1 << 40)))
    table.close_version()
    id_ = replace(FEW.columns[0], type=t.Integer(4, unsigned=False))
    table.schema = replace(FEW, columns=(id_, *FEW.columns[1:]))
    history.transaction((table, "u", few(0, 6)))
    narrow.deliver()
    assert narrow.verify_at_once("v").verdict is LakeVerdict.EQUAL
    assert compared == [None]


def test_one_query_shows_equality_whatever_is_merged(
    narrow: Verified, compared: Compared, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Changes that aren't merged came before the verification, after rows that it read, and to keys that it didn't."""
    history, table = narrow.history, narrow.table
    history.transaction(*((table, "c", few(key)) for key in range(8)))
    narrow.deliver()
    narrow.merge()
    history.transaction((table, "u", few(0, 6)), (table, "d", few(1)), (table, "c", few(8)))
    history.begin_verification("v", table)
    history.verify("v", table, [(key, "a") for key in (0, *range(2, 9))])
    history.transaction((table, "u", few(2, 6)), (table, "d", few(3)), (table, "c", few(9)))
    history.transaction((table, "d", few(4)), (table, "c", few(4)))
    narrow.deliver()
    assert narrow.differing_parts("v") == set()
    partial = replace(narrow._compared, reached=replace(narrow._compared.reached, partial=True))
    assert not any(
        row["differs"]
        for row in narrow.session.sql(partial.compared_parts(_ROWS, narrow._of("v")[0].since)).collect()
    )
    frozen = replace(narrow._compared, reached=replace(narrow._compared.reached, frozen=True))
    found = narrow.session.sql(frozen.compared_parts(_ROWS, narrow._of("v")[0].since)).collect()
    lacks = narrow.parts((key, "a") for key in (0, 1, 8))
    assert {row["part"] for row in found if row["differs"]} == lacks, "a frozen mirror as of then"
    with monkeypatch.context() as one_query:
        one_query.delattr(LakeVerification, "_search")
        assert narrow.end("v", 8).verdict is LakeVerdict.EQUAL
    assert compared == [(5, 5)], (
        "0 to 4 and 8, but 1 has no row that was verified, and the mirror never had 8"
    )


def test_what_cant_be_judged_has_a_reason(narrow: Verified) -> None:
    history, table = narrow.history, narrow.table
    history.transaction((table, "c", few(1)))
    history.begin_verification("columns", table)
    history.verify("columns", table, [(1, "a")])
    narrow.deliver()
    wider = TableSchema(FEW.table, (*FEW.columns, Column("more", INT, True)), FEW.key)
    add_column(table, wider)
    history.transaction((table, "c", (*few(2), 7)))
    judged = narrow.end("columns", 1)
    assert (judged.verdict, judged.reason) == (LakeVerdict.UNJUDGED, COLUMNS_CHANGED)
    history.begin_verification("lost", table)
    judged = narrow.end("lost", 2)
    assert (judged.verdict, judged.reason) == (LakeVerdict.UNJUDGED, ROWS_LOST)
    history.begin_verification("mirror", table)
    history.verify("mirror", table, [(2, "a")])
    narrow.deliver()
    history.transaction((table, "c", (*few(3), 7)))
    history.restart(table, wider, Ready)
    history.transaction((table, "c", (*few(4), 7)))
    narrow.deliver()
    narrow.complete()
    judged = narrow.end("mirror", 1)
    assert (judged.verdict, judged.reason) == (LakeVerdict.UNJUDGED, MIRROR_CHANGED)


def test_a_statement_without_a_change_after_it_keeps_no_table_from_being_judged(narrow: Verified) -> None:
    history, table = narrow.history, narrow.table
    history.transaction((table, "c", few(1)), (table, "c", few(2)))
    narrow.deliver()
    add_column(table, TableSchema(FEW.table, (*FEW.columns, Column("more", INT, True)), FEW.key))
    assert narrow.verify_at_once("v").verdict is LakeVerdict.EQUAL
    history.transaction((table, "u", (*few(1), 7)))
    narrow.deliver()
    assert narrow.verify_at_once("w").verdict is LakeVerdict.EQUAL


def test_a_mirror_that_begins_again_in_the_segment_of_verified_rows_is_not_compared(narrow: Verified) -> None:
    """The mirror is frozen as of the segment before, and readers don't see what changed before the rows were read."""
    history, table = narrow.history, narrow.table
    history.transaction((table, "c", few(1)), (table, "c", few(2)))
    narrow.deliver()
    history.begin_verification("v", table)
    history.transaction((table, "u", few(1, 6)), (table, "c", few(3)))
    history.verify("v", table, sorted(table.source))
    history.restart(table, FEW, Filling)
    judged = narrow.end("v", 3)
    assert (judged.verdict, judged.found, judged.reason) == (LakeVerdict.UNJUDGED, {}, MIRROR_CHANGED)


def add_column(table: Table, schema: TableSchema) -> None:
    """Gives the table a column more, as a statement does."""
    table.close_version()
    table.schema = schema
    for rows in (table.source, table.rows):
        rows.update({key: (*row, None) for key, row in rows.items()})


@pytest.mark.parametrize(
    ("folder", "matched"),
    [
        ("[ab]", "a"),
        *(
            pytest.param(*pair, marks=pytest.mark.full)
            for pair in (("{a,b}", "a"), ("a*", "ab"), ("a?", "ab"))
        ),
    ],
)
def test_a_path_is_one_name_and_no_pattern(spark: Spark, tmp_path: Path, folder: str, matched: str) -> None:
    """Beside the journal and the lake are others, which the path would match as a pattern."""
    other, made = (Verified(spark, tmp_path / path, FEW) for path in (matched, folder))
    with closing(other.history.store), closing(made.history.store):
        for each, value in ((other, 6), (made, 7)):
            each.history.transaction(*((each.table, "c", few(key, value)) for key in range(4)))
            each.deliver()
            each.merge()
            each.history.transaction((each.table, "u", few(1, value + 10)))
        other.deliver()
        assert made.verify_all("v").verdict is LakeVerdict.EQUAL
        made.history.begin_verification("w", made.table)
        for half in ([(0, "a"), (1, "a")], [(2, "a"), (3, "a")]):
            made.history.verify("w", made.table, half)
            made.deliver()
            made.compare("w")
        assert made.end("w", 4).verdict is LakeVerdict.EQUAL
    for each in (other, made):
        with closing(engine()) as duck:
            query = live_view_text(each.root, "shop.few", Dialect.DUCKDB)
            assert sorted(duck.execute(query).fetchall()) == sorted(each.table.source.values())
        changelog = DeltaTable(location(each.root, each.id, Tier.CHANGELOG)).to_pyarrow_table()
        assert len(changelog) == 5
