"""`make bench-merge`: what a mirror is brought up to date with, and what else it could be.

A mirror of ten million rows and eleven columns, whose files have its rows in the order of their keys, as a first
snapshot leaves them; and a changelog with changes of half of them, scattered, and with changes of its youngest rows.
What's measured merges the same changes into a copy of that mirror, all in one JVM that has merged before; a time is
believed when the rows and a sum over them are right. The peer is Delta's MERGE as it comes, which writes each file anew
in which it finds a key. Beside it are what could be better: deletion vectors; a mirror in parts by the hash of its key
(buckets); fewer and more changes at once; and what the product does, which reads but the key.

Then comes the price of a mirror without deletion vectors (copy-on-write): the product's merge into such a mirror beside
its merge into one with them, in seconds and in what it writes. Then as many changes are merged into a mirror of five
times the rows. Some ten minutes on a quiet machine with two cores, without a server.

Last, what readers pay for changes that aren't merged (`reads`): the live view just before a merge is due by the default
settings, beside a plain Delta table of the same rows. The two are read in turns. Before each turn a segment comes, as
it does five times a second beside a service, so that the reader finds a version that it doesn't know.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

import numpy as np
from pyspark.sql import DataFrame, Row, SparkSession

from actors.lake.delta.delta_table import DeltaTable
from actors.lake.live_view import live_view
from bench._command import command_line
from bench._commits import plain_spark
from bench._lake import linked
from bench._pending import PendingLake
from bench._report import Figure, Peer, say, told
from deploy.toolchain.parts import locate
from pipeline.lake.live_view import MirrorPosition, last_changes
from pipeline.lake.mirrors.merge import Merge
from pipeline.lake.tables.columns import META_COLUMNS, SEGMENT, columns
from pipeline.lake.tables.paths import location
from pipeline.lake.tables.properties import VECTORS
from pipeline.lake.tables.spark_sql import quoted, table_at
from pipeline.lake.tables.statements import begin_sql, create_sql
from pipeline.lake.tables.tier import Tier
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.types.column_types import Decimal, Double, Integer, Text, Timestamp

_ROWS: Final = 10_000_000
_FILES: Final = 40
# What the JVM merges first, to have compiled its code.
_PRACTICE: Final = 20

_INT, _TEXT = Integer(4, unsigned=False), Text("utf8mb4")
_SCHEMA: Final = TableSchema(
    TableId("bench", "eleven"),
    tuple(
        Column(name, type_, name != "id")
        for name, type_ in (
            ("id", Integer(8, unsigned=False)),
            ("customer", _INT),
            ("status", _TEXT),
            ("total", Decimal(12, 2)),
            ("quantity", _INT),
            ("name", _TEXT),
            ("note", _TEXT),
            ("placed", Timestamp(6)),
            ("paid", Timestamp(6)),
            ("stars", _INT),
            ("weight", Double()),
        )
    ),
    (0,),
)
# A row by its key; what a change makes of it differs in `customer` alone.
_VALUES: Final = {
    "customer": "CAST(id % 100003 AS INT)",
    "status": "CASE id % 3 WHEN 0 THEN 'placed' WHEN 1 THEN 'paid' ELSE 'sent' END",
    "total": "CAST((id * 7919 % 1000000) / 100 AS DECIMAL(12,2))",
    "quantity": "CAST(id % 9 AS INT)",
    "name": "substr(sha2(CAST(id AS STRING), 256), 1, 20)",
    "note": "substr(sha2(CAST(-id AS STRING), 256), 1, 40)",
    "placed": "timestamp_micros(1700000000000000 + id * 1000003)",
    "paid": "timestamp_micros(1700000500000000 + id * 1000003)",
    "stars": "CAST(id % 5 AS INT)",
    "weight": "id / 7",
}
_LARGER: Final = 5
# How often the live view and the plain table are read, the first times uncounted.
_TURNS: Final = 7
_UNCOUNTED: Final = 2
# How many times as long as the plain table's a read of the live view may take.
_ALLOWED: Final = 1.5
_BUCKETS: Final = 16
_BUCKET: Final = f"pmod(hash(`id`), {_BUCKETS})"


@dataclass(frozen=True, slots=True)
class Changes:
    """Those of a segment: of so many rows, of which each is `step` keys behind the one before."""

    name: str
    segment: int
    number: int
    first: int
    step: int


@dataclass(frozen=True, slots=True)
class Merged:
    """What a merge took (s), and the files that it wrote into the mirror's folder (MiB), its log left out."""

    changes: Changes
    seconds: float
    written: float

    @property
    def rate(self) -> float:
        """Changes a second."""
        return self.changes.number / self.seconds


class Bench:
    """A mirror of so many rows and its changelog, which stay as they are: each merge has copies of them."""

    def __init__(self, spark: SparkSession, folder: Path, rows: int) -> None:
        self._spark = spark
        self._root = str(folder / "lake")
        self._copy = str(folder / "copy")
        self._buckets = str(folder / "buckets")
        self._rows = rows
        some = rows // 20
        self.half = Changes("half of the rows, scattered", 1, rows // 2, 1, 2)
        self.some = Changes("a twentieth, scattered", 2, some, 7, 20)
        self.few = Changes("a thousandth, scattered", 3, rows // 1000, 7, 1000)
        self.young = Changes("the youngest twentieth", 4, some, rows - some, 1)
        self.fewest = Changes("a ten-thousandth, scattered", 5, rows // 10_000, 7, 10_000)
        self.more = Changes("a hundredth, scattered", 6, rows // 100, 7, 100)
        self.as_many = Changes("as many as a hundredth of a fifth, scattered", 7, rows // 500, 7, 500)
        self._customers = self._prepare()

    def merge(self, changes: Changes) -> Merged:
        """By MERGE as it comes."""
        mirror = table_at(self._mirror(self._copied()))
        self._spark.sql(f"ALTER TABLE {mirror} SET TBLPROPERTIES ('{VECTORS}' = 'false')")
        return self._measured(changes, lambda merge: self._spark.sql(merge.statement()))

    def vectors(self, changes: Changes) -> Merged:
        """By MERGE with deletion vectors."""
        self._copied()
        return self._measured(changes, lambda merge: self._spark.sql(merge.statement()))

    def buckets(self, changes: Changes) -> Merged:
        """By MERGE with deletion vectors, into a mirror in parts."""
        self._copied(self._buckets)
        return self._measured(changes, lambda merge: self._spark.sql(_by_bucket(merge)))

    def done(self, changes: Changes) -> Merged:
        """As the product does."""
        delta = DeltaTable(self._spark, self._mirror(self._copied()))
        return self._measured(changes, lambda merge: delta.merge(merge, "bench", "{}"))

    def rewritten(self, changes: Changes) -> Merged:
        """As the product does without deletion vectors."""
        delta = DeltaTable(self._spark, self._mirror(self._copied()))
        self._spark.sql(f"ALTER TABLE {table_at(delta.path)} SET TBLPROPERTIES ('{VECTORS}' = 'false')")
        return self._measured(changes, lambda merge: delta.merge(merge, "bench", "{}"))

    def remove(self) -> None:
        """Remove its files."""
        for path in (self._root, self._copy, self._buckets):
            shutil.rmtree(path, ignore_errors=True)

    def _measured(self, changes: Changes, does: Callable[[Merge], object]) -> Merged:
        before = self._files()
        began = time.perf_counter()
        reached = MirrorPosition(0, changes.segment - 1)
        does(Merge(self._copy, _SCHEMA, reached, changes.segment, changes.number))
        took = time.perf_counter() - began
        assert self._counted(self._copy) == (self._rows, self._customers + changes.number)
        written = sum(size for path, size in self._files().items() if path not in before) / (1 << 20)
        say(f"  {changes.name}: {changes.number:,} in {took:.1f} s, {written:.0f} MiB written")
        return Merged(changes, took, written)

    def _files(self) -> dict[Path, int]:
        """The sizes of the copy's files, those of vectors too."""
        files = Path(self._mirror(self._copy)).glob("[!_]*")
        return {file: file.stat().st_size for file in files if file.is_file()}

    def _counted(self, root: str) -> tuple[int, int]:
        row = self._spark.sql(f"SELECT count(*), sum(customer) FROM {table_at(self._mirror(root))}").first()
        assert row is not None
        return int(row[0]), int(row[1])

    def _mirror(self, root: str) -> str:
        return location(root, _SCHEMA.table, Tier.MIRROR)

    def _copied(self, mirror: str | None = None) -> str:
        shutil.rmtree(self._copy, ignore_errors=True)
        changelogs = (location(root, _SCHEMA.table, Tier.CHANGELOG) for root in (self._root, self._copy))
        linked(*map(Path, changelogs))
        linked(Path(mirror or self._mirror(self._root)), Path(self._mirror(self._copy)))
        return self._copy

    def _prepare(self) -> int:
        """Write the mirror, its changelog and a mirror in buckets; the sum over the mirror."""
        mirror, changelog = self._mirror(self._root), location(self._root, _SCHEMA.table, Tier.CHANGELOG)
        self._spark.sql(begin_sql(mirror, Tier.MIRROR, columns(_SCHEMA, Tier.MIRROR), {}))
        _append(mirror, self._spark.range(0, self._rows, 1, _FILES).selectExpr("id", *_values()))
        self._spark.sql(create_sql(changelog, Tier.CHANGELOG, columns(_SCHEMA, Tier.CHANGELOG), {}))
        for each in (self.half, self.some, self.few, self.young, self.fewest, self.more, self.as_many):
            told = {"__op": "'u'", "__scn": "id + 1", "__ordinal": "0", "__segment": each.segment}
            meta = [f"CAST({told.get(c.name, 'NULL')} AS {c.type}) AS {c.name}" for c in META_COLUMNS]
            keys = self._spark.range(each.number).selectExpr(f"{each.first} + id * {each.step} AS id")
            _append(changelog, keys.selectExpr(*meta, "id", *_values(customer=f"{_VALUES['customer']} + 1")))
        self._spark.sql(
            f"CREATE TABLE {table_at(self._buckets)} USING delta PARTITIONED BY (bucket) "
            "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true') AS "
            f"SELECT /*+ REPARTITION({_BUCKETS}, bucket) */ *, {_BUCKET} AS bucket FROM {table_at(mirror)}"
        )
        return self._counted(self._root)[1]


def main() -> None:
    """Measure all of it, or what's named."""
    wanted = command_line(__doc__, _PARTS)
    parts = locate()
    os.environ["JAVA_HOME"] = str(parts.java_home)
    with (
        told("merge") as figures,
        tempfile.TemporaryDirectory(prefix="tidemark-bench-") as folder,
        plain_spark(parts, Path(folder) / "spark") as spark,
    ):
        for name in wanted.names:
            say(name)
            figures.extend(_PARTS[name](spark.session, Path(folder), wanted.scale))


def _merges(session: SparkSession, folder: Path, scale: float) -> Iterator[Figure]:
    """Merges, into mirrors of two sizes."""
    rows = int(_ROWS * scale)
    say("practice")
    list(_figures(Bench(session, folder / "practice", rows // _PRACTICE)))
    say("writing a mirror and its changes")
    bench = Bench(session, folder / "bench", rows)
    yield from _figures(bench)
    few = bench.done(bench.more)
    bench.remove()
    say("writing a mirror of five times the rows")
    large = Bench(session, folder / "large", _LARGER * rows)
    yield Figure(
        f"{few.changes.number:,} changes into {_LARGER} times the rows",
        large.done(large.as_many).seconds,
        "s",
        Peer("into the rows", few.seconds),
    )
    large.remove()


def _reads(session: SparkSession, folder: Path, scale: float) -> Iterator[Figure]:
    """Reads of the live view, beside those of a plain table."""
    rows, path = int(_ROWS * scale), str(folder / "plain")
    wheres = {"all rows": "true", "one key": f"id = {rows // 3}"}
    turns: dict[str, list[tuple[float, float]]] = {what: [] for what in wheres}
    say("writing a mirror with pending changes")
    with closing(PendingLake(session, folder / "pending", _SCHEMA)) as lake:
        each = lake.write(rows, scale, _TURNS * len(wheres) + 1)

        def change() -> None:
            lake.change(np.random.default_rng(8), rows, each)  # the same rows each time, with the same values

        def view() -> DataFrame:
            return live_view(session, lake.settings.path, _SCHEMA.table)

        def plain() -> DataFrame:
            return session.read.format("delta").load(path)

        change()
        _append(path, view().repartitionByRange(_FILES, "id").sortWithinPartitions("id"))
        for _ in range(_TURNS):
            for what, where in wheres.items():
                change()
                turns[what].append(_in_turn(view, plain, where))
    for what, each_turn in turns.items():
        yield from _paid(what, each_turn[_UNCOUNTED:])


def _in_turn(
    view: Callable[[], DataFrame], plain: Callable[[], DataFrame], where: str
) -> tuple[float, float]:
    """Seconds of a read of the live view, and of the same read of the plain table."""
    took, found = zip(*(_read(table, where) for table in (view, plain)), strict=True)
    assert found[0] == found[1], found
    say(f"  {where}: {took[0]:.2f} s, and {took[1]:.2f} s of the plain table")
    return took[0], took[1]


def _read(table: Callable[[], DataFrame], where: str) -> tuple[float, Row | None]:
    """Seconds of a read, and the number of rows and a sum over all of their columns."""
    began = time.perf_counter()
    names = ", ".join(quoted(column.name) for column in _SCHEMA.columns)
    found = table().where(where).selectExpr("count(*)", f"bit_xor(xxhash64({names}))").first()
    return time.perf_counter() - began, found


def _paid(what: str, turns: Sequence[tuple[float, float]]) -> Iterator[Figure]:
    """What readers pay for the changes that aren't merged."""
    view, plain = (median(each) for each in zip(*turns, strict=True))
    yield Figure(f"live view before its merge, {what}", view, "s", Peer("plain Delta table", plain))
    times = median(ours / theirs for ours, theirs in turns)
    yield Figure(f"live view before its merge, {what}", times, "times", Peer("allowed", _ALLOWED))


_PARTS: Final = {"merges": _merges, "reads": _reads}


def _figures(bench: Bench) -> Iterator[Figure]:
    for changes, ways in (
        (bench.half, {"MERGE, deletion vectors": bench.vectors, "and buckets": bench.buckets}),
        (bench.some, {}),
        (bench.more, {}),
        (bench.few, {}),
        (bench.fewest, {}),
        (bench.young, {"MERGE, deletion vectors": bench.vectors}),
    ):
        plain = Peer("plain MERGE", bench.merge(changes).rate)
        for way, measured in ways.items():
            yield Figure(f"{changes.name}: {way}", measured(changes).rate, "changes/s", plain)
        done = bench.done(changes)
        yield Figure(f"{changes.name}: as it's done", done.rate, "changes/s", plain)
        yield from _price(done, bench.rewritten(changes))


def _price(with_vectors: Merged, without: Merged) -> Iterator[Figure]:
    """What a merge without deletion vectors costs, beside one with them."""
    name = f"{without.changes.name}: without vectors"
    yield Figure(name, without.seconds, "s", Peer("with them", with_vectors.seconds))
    yield Figure(f"{name}, written", without.written, "MiB", Peer("with them", with_vectors.written))


def _append(path: str, rows: DataFrame) -> None:
    rows.write.format("delta").mode("append").save(path)


def _values(**other: str) -> list[str]:
    return [f"{value} AS {name}" for name, value in {**_VALUES, **other}.items()]


def _by_bucket(merge: Merge) -> str:
    where = f"{merge.reached.condition()} AND {quoted(SEGMENT)} <= {merge.through}"
    changelog = table_at(location(merge.lake, _SCHEMA.table, Tier.CHANGELOG))
    names = (quoted(column.name) for column in _SCHEMA.columns)
    return f"""MERGE INTO {table_at(location(merge.lake, _SCHEMA.table, Tier.MIRROR))} AS m
USING (SELECT *, {_BUCKET} AS bucket FROM ({last_changes(_SCHEMA, changelog, merge.reached, where)})) AS c
ON m.bucket = c.bucket AND m.id = c.id
WHEN MATCHED THEN UPDATE SET {", ".join(f"{name} = c.{name}" for name in names)}"""


if __name__ == "__main__":
    main()
