"""SIGKILL of the process, of Spark's JVM and of a cluster's executors at each step: the lake is right afterwards.

The steps are those of a batch, of a MERGE and of maintenance. Each life finds new segments: with changes, columns that
are added and widened, and mirrors that begin anew. When it has been killed, each changelog must have what its mark
says, each change once. At last one comes to the end, and then the mirrors and the live views as well are held against
the source. DuckDB reads them, so that Spark isn't its own judge.
"""

import fcntl
import json
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from itertools import cycle, repeat
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from duckdb import DuckDBPyConnection

from actors.lake.transaction_log.delta_log import read_version
from actors.service.live_view_text import live_view_text
from deploy.toolchain.parts import Parts
from pipeline.config.settings import SparkSettings
from pipeline.errors import Definite
from pipeline.journal.consumer_names import LAKE_CONSUMER
from pipeline.lake.reading.sql_dialects import Dialect
from pipeline.lake.tables.paths import location
from pipeline.lake.tables.tier import Tier
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.snapshot.checkpoint import Filling, Ready
from pipeline.types.column_types import Integer, Text
from tests.chaos.delivery_steps import BATCH, MAINTENANCE, STEPS
from tests.chaos.lake_life import BATCH_SEGMENTS, TRIMMED, Planted, Victim
from tests.integration.history import FILLING, History, Row, Table, random_step
from tests.servers.duckdb_engine import engine
from tests.servers.spark_cluster import SparkCluster

SMALL, LARGE = Integer(4, unsigned=False), Integer(8, unsigned=False)
ORDER: Final = ("__op", "__scn", "__ordinal", "__segment")
WITHIN_S: Final = 600.0
MOST_LIVES: Final = 4
# What a life needs to come to each step: columns that are added, and mirrors that begin anew.
SEGMENTS: Final = 4

Kill = tuple[Victim, str, int]
Life = tuple[Kill, ...]
Named = dict[str, Any]


class Source:
    """Two tables with a key and one without, what they've become, and all that has happened to them."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.history = History(folder / "journal")
        self.some = random.Random(seed)
        self.keyed = [self._table(name, (0,)) for name in ("orders", "customers")]
        self.bag = self._table("bag", ())
        self.changes: dict[TableId, list[Named]] = {id_: [] for id_ in self.history.tables}

    def _table(self, name: str, key: tuple[int, ...]) -> Table:
        columns = (Column("id", LARGE, False), Column("v", Text("utf8mb4"), True))
        return self.history.table(TableSchema(TableId("shop", name), columns, key), FILLING if key else None)

    def go_on(self) -> None:
        """Seal four segments, unless four of them wait that no life has begun to deliver.

        Else the lives that are killed early would leave the later ones a hundred segments, and many more columns.
        """
        known = self.history.store.consumers.known(LAKE_CONSUMER)
        begun = BATCH_SEGMENTS + (0 if known is None else known.segment)
        if self.history.segment - begun < SEGMENTS:
            self.widen()
            self.begin_anew()

    def widen(self) -> None:
        """Seal two segments, the second of which has columns more."""
        self._write()
        self._seal()
        for table in self.keyed:
            self._add_a_column(table)
        self._write()
        self._seal()

    def begin_anew(self) -> None:
        """Seal two segments: mirrors begin anew, and are filled by both."""
        for table in self.keyed:
            self.history.restart(table, table.schema, Filling)
            self.history.chunk(table, [key for key in table.source if key[0] % 2])
        self._write()
        self._seal()
        for table in self.keyed:
            self.history.chunk(table, [key for key in table.source if not key[0] % 2])
            assert table.mirror is not None
            table.mirror = Ready(table.mirror.since)
        self._write()
        self._seal()

    def _write(self) -> None:
        for table in self.keyed:
            for _ in range(3):
                random_step(self.history, table, self.some, partial(row, table))
        self.history.transaction((self.bag, "c", row(self.bag, self.some)))

    def _seal(self) -> None:
        for table in (*self.keyed, self.bag):
            for *order, values in table.changes:
                place = dict(zip(ORDER, (*order, table.segment), strict=True))
                self.changes[table.schema.table].append({**place, **named(table.schema, values)})
        self.history.seal()

    def _add_a_column(self, table: Table) -> None:
        """And have the one that was added before take wider values."""
        wide = tuple(
            replace(column, type=LARGE) if column.type == SMALL else column for column in table.schema.columns
        )
        added = Column(f"c{len(wide)}", SMALL, True)
        table.schema = replace(table.schema, columns=(*wide, added))
        table.source = {key: (*values, None) for key, values in table.source.items()}
        table.rows = {key: (*values, None) for key, values in table.rows.items()}

    def rows(self, table: Table) -> list[Named]:
        """What the lake is to have of it."""
        return [named(table.schema, values) for values in table.rows.values()]

    def changes_end(self, table: Table) -> int:
        """The segment of its last change."""
        return max(int(change["__segment"]) for change in self.changes[table.schema.table])


def row(table: Table, some: random.Random) -> Row:
    numbers = [some.choice([None, some.randint(-9, 9)]) for _ in table.schema.columns[2:]]
    return (some.randint(0, 30), some.choice([None, "a", "ß"]), *numbers)


def named(schema: TableSchema, values: Row) -> Named:
    """What isn't null, by name."""
    return {
        column.name: value for column, value in zip(schema.columns, values, strict=True) if value is not None
    }


class Lived(NamedTuple):
    """What came of a life: the kills whose steps weren't come to, and the live views that were read on the cluster, by
    the names of their tables.
    """

    left: Life
    views: dict[str, list[Named]]


class Lives:
    """One life after the other, in as few processes as can be."""

    def __init__(
        self,
        folder: Path,
        spark: SparkSettings,
        planted: Planted | None,
        cluster: SparkCluster | None,
        *,
        maintained: bool,
    ) -> None:
        self.folder = folder
        self.lake = str(folder / "lake")
        self.maintained = maintained
        self._cluster = cluster
        self._told = {
            "journal": str(folder / "journal"),
            "lake": self.lake,
            "master": "local[2]" if cluster is None else cluster.master,
            "conf": {**spark.conf, **({} if cluster is None else cluster.conf)},
            "planted": planted,
            "maintained": maintained,
        }
        self._process: subprocess.Popen[str] | None = None

    def live(self, kills: Sequence[Kill]) -> Lived:
        """Live until everything is delivered and merged, or until somebody is killed."""
        if self._process is None:
            command = [sys.executable, "-m", "tests.chaos.lake_life", json.dumps(self._told)]
            with (self.folder / "log").open("ab") as log:
                self._process = subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
                )
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        workers = () if self._cluster is None else self._cluster.workers
        print(json.dumps({"kills": kills, "workers": workers}), file=process.stdin, flush=True)
        if line := process.stdout.readline():
            answer = json.loads(line)
            assert answer["programs"] == [], "an executor has begun a program: a Python?"
            return Lived(
                tuple((Victim(victim), step, n) for victim, step, n in answer["left"]), answer["views"]
            )
        self._process = None
        with process:
            words = (self.folder / "log").read_text()[-3000:]
            assert process.wait(WITHIN_S) == -signal.SIGKILL, words
            assert Victim.PROCESS in {victim for victim, *_ in kills}, words
        # Its JVM notices, but may still commit until it has ended.
        with (self.folder / "journal" / "spark" / "lock").open("ab") as lock:
            fcntl.lockf(lock, fcntl.LOCK_EX)
        return Lived((), {})

    def end(self) -> None:
        if self._process is not None:
            with self._process as process:
                process.kill()


@contextmanager
def lives(
    folder: Path,
    spark: SparkSettings,
    planted: Planted | None = None,
    cluster: SparkCluster | None = None,
    *,
    maintained: bool = False,
) -> Iterator[Lives]:
    made = Lives(folder, spark, planted, cluster, maintained=maintained)
    try:
        yield made
    finally:
        made.end()


def wrong_changes(source: Source, each: Lives, connection: DuckDBPyConnection) -> list[str]:
    """What's wrong with the changelogs, each as far as it says that it is."""
    wrong = []
    for table in (*source.keyed, source.bag):
        path = location(each.lake, table.schema.table, Tier.CHANGELOG)
        if (log := read_version(path)) is None:
            continue
        through = log.mark("changes")
        told = [change for change in source.changes[table.schema.table] if change["__segment"] <= through]
        there = read(connection, f"SELECT * FROM delta_scan('file://{path}')")
        if each.maintained and table.schema.table.name == TRIMMED:
            begins = min((change["__segment"] for change in there), default=through + 1)
            mirror = read_version(location(each.lake, table.schema.table, Tier.MIRROR))
            merged = 0 if mirror is None else mirror.merged
            gone = [change for change in told if change["__segment"] < begins]
            wrong += [f"{path}: {c} is missing, and wasn't merged" for c in gone if c["__segment"] > merged]
            told = [change for change in told if change["__segment"] >= begins]
        wrong += differences(path, there, told)
    return wrong


def wrong_at_the_end(source: Source, each: Lives, connection: DuckDBPyConnection) -> list[str]:
    """What's wrong with the lake when everything is delivered and merged."""
    wrong = wrong_changes(source, each, connection)
    for table in (*source.keyed, source.bag):
        path = location(each.lake, table.schema.table, Tier.CHANGELOG)
        log = read_version(path)
        assert log is not None
        there = len(list(Path(path).glob("*.parquet*")))
        if there != log.files and not each.maintained:  # else some are left of compaction
            wrong.append(f"{path}: {there} files are there, and {log.files} are named")
        if log.mark("changes") < source.changes_end(table):
            wrong.append(f"{path}: its last changes are missing")
    for table in source.keyed:
        rows = source.rows(table)
        path = location(each.lake, table.schema.table, Tier.MIRROR)
        wrong += differences(path, read(connection, f"SELECT * FROM delta_scan('file://{path}')"), rows)
        try:
            view = live_view_text(each.lake, str(table.schema.table), Dialect.DUCKDB)
        except Definite as none:
            wrong.append(f"view of {table.schema.table}: {none}")
        else:
            wrong += differences(f"view of {table.schema.table}", read(connection, view), rows)
    return wrong


def differences(what: str, there: list[Named], expected: list[Named]) -> list[str]:
    """Rows, as often as they're too many or missing."""
    found, due = (Counter(repr(sorted(row.items())) for row in rows) for rows in (there, expected))
    return [
        *(f"{what}: {row} isn't the source's" for row in (found - due).elements()),
        *(f"{what}: {row} is missing" for row in (due - found).elements()),
    ]


def read(connection: DuckDBPyConnection, query: str) -> list[Named]:
    """The rows, as `plain` has them."""
    return list(map(plain, connection.sql(query).to_arrow_table().to_pylist()))


def plain(row: Named) -> Named:
    """Without nulls; of our own columns those that say which change it is."""
    return {
        name: value
        for name, value in row.items()
        if value is not None and (name in ORDER or not name.startswith("__"))
    }


def survive(source: Source, each: Lives, killed: Sequence[Life], *, by_halves: bool = False) -> list[str]:
    """What's wrong with the lake behind each kill, and when a last life has come to its end.

    `by_halves`: each life finds only the one or the other half of what else each finds.
    """
    wrong: list[str] = []
    news = cycle((source.widen, source.begin_anew) if by_halves else (source.go_on,))
    with closing(source.history.store), closing(engine()) as connection:
        for life in killed:
            until_killed(news, each, life)
            wrong += wrong_changes(source, each, connection)
        next(news)()
        return wrong + wrong_views(source, each.live(())) + wrong_at_the_end(source, each, connection)


def until_killed(news: Iterator[Callable[[], None]], each: Lives, kills: Life) -> Lived:
    """Live with news until all steps have been come to.

    A life at its end has nothing left that leads to a step: a merge isn't due where a swap brought all changes. So the
    next one finds news again, and the mirrors of the one before complete.
    """
    lived = Lived(kills, {})
    for _ in range(MOST_LIVES):
        next(news)()
        lived = each.live(lived.left)
        if not lived.left:
            return lived
    raise AssertionError(f"steps weren't come to in {MOST_LIVES} lives: {lived.left}")


def wrong_views(source: Source, lived: Lived) -> list[str]:
    """What's wrong with the live views that were read on the cluster."""
    wrong = []
    for table, rows in lived.views.items():
        expected = source.rows(source.history.tables[TableId("shop", table)])
        wrong += differences(f"view of {table} on the cluster", list(map(plain, rows)), expected)
    return wrong


# Before and behind commits, and in a MERGE. Those in the even places find columns that are added, and the others
# mirrors that begin anew. `make test-full` kills at each step.
QUICK: tuple[Life, ...] = (
    ((Victim.JVM, "changes placed, not committed", 1),),
    ((Victim.PROCESS, "rows placed, not committed", 1),),
    ((Victim.JVM, "merging", 1),),
    ((Victim.PROCESS, "changes committed", 2),),
)
QUICK_MAINTENANCE: tuple[Life, ...] = (
    ((Victim.JVM, "compacting a mirror", 1),),
    ((Victim.PROCESS, "trimmed", 1),),
)
OF_EXECUTORS = (
    "changes committed",
    "mirror begun",
    "not merging",
    "merging",
    "merge committed, view not followed",
)


def at_each(steps: Iterable[str]) -> tuple[Life, ...]:
    """At each step one of the two dies when it's come to first, and the other the second time."""
    return tuple(
        ((victim, step, 1 + (number + other) % 2),)
        for number, step in enumerate(steps)
        for other, victim in enumerate((Victim.JVM, Victim.PROCESS))
    )


@pytest.mark.parametrize(
    ("killed", "seed"),
    [
        pytest.param(QUICK, 0, id="some", marks=pytest.mark.full),
        pytest.param(at_each(BATCH), 1, id="each", marks=pytest.mark.full),
    ],
)
def test_killed_at_a_step_of_a_batch(
    tmp_path: Path, spark_settings: SparkSettings, killed: Sequence[Life], seed: int
) -> None:
    with lives(tmp_path, spark_settings) as each:
        assert survive(Source(tmp_path, seed), each, killed, by_halves=killed is QUICK) == []


@pytest.mark.parametrize(
    "killed",
    [
        pytest.param(QUICK_MAINTENANCE, id="some", marks=pytest.mark.full),
        pytest.param(at_each(MAINTENANCE), id="each", marks=pytest.mark.full),
    ],
)
def test_killed_at_a_step_of_maintenance(
    tmp_path: Path, spark_settings: SparkSettings, killed: Sequence[Life]
) -> None:
    with lives(tmp_path, spark_settings, maintained=True) as each:
        assert survive(Source(tmp_path, 2), each, killed) == []


@pytest.mark.parametrize(
    ("steps", "maintained"),
    [
        pytest.param(OF_EXECUTORS, False, id="some", marks=pytest.mark.full),
        pytest.param(tuple(STEPS), True, id="each", marks=pytest.mark.full),
    ],
)
def test_an_executor_is_killed_at_a_step(
    tmp_path: Path,
    spark_settings: SparkSettings,
    spark_cluster: SparkCluster,
    steps: Sequence[str],
    *,
    maintained: bool,
) -> None:
    source = Source(tmp_path, 3)
    with (
        lives(tmp_path, spark_settings, cluster=spark_cluster, maintained=maintained) as each,
        closing(source.history.store),
        closing(engine()) as connection,
    ):
        source.go_on()  # else there'd be no mirror whose schema changes
        kills = tuple((Victim.EXECUTOR, step, 1) for step in steps)
        lived = until_killed(repeat(source.go_on), each, kills)
        assert wrong_views(source, lived) + wrong_at_the_end(source, each, connection) == []


@pytest.mark.full
def test_a_worker_is_killed_with_all_that_it_runs(
    tmp_path: Path, spark_settings: SparkSettings, parts: Parts
) -> None:
    source = Source(tmp_path, 4)
    with (
        SparkCluster(parts.java_home, tmp_path / "cluster") as cluster,
        lives(tmp_path, spark_settings, cluster=cluster) as each,
        closing(source.history.store),
        closing(engine()) as connection,
    ):
        for step in ("mirror begun", "merging", "changes committed"):
            first, _ = cluster.workers
            lived = until_killed(repeat(source.go_on), each, ((Victim.WORKER, step, 1),))
            assert wrong_views(source, lived) + wrong_at_the_end(source, each, connection) == []
            cluster.mend(first)


PLANTED = [
    (Planted.NO_MARK, "batch delivered, progress not recorded", "isn't the source's"),
    (Planted.MARK_FIRST, "changes placed, not committed", "is missing"),
    (Planted.RANDOM_NAME, "changes placed, not committed", "files are there"),
    (Planted.TRIMMED_TOO_FAR, "trimmed", "is missing"),
]


@pytest.mark.full
@pytest.mark.parametrize(("planted", "step", "noticed"), PLANTED)
def test_what_is_planted_is_noticed(
    tmp_path: Path, spark_settings: SparkSettings, planted: Planted, step: str, noticed: str
) -> None:
    maintained = step in MAINTENANCE
    source, kills = Source(tmp_path, 6), [((Victim.PROCESS, step, 1),)]
    with lives(tmp_path, spark_settings, planted, maintained=maintained) as each:
        if maintained:  # only a mirror that is complete merges, and what it has still to merge is trimmed
            source.go_on()
            each.live(())
        wrong = survive(source, each, kills, by_halves=maintained)
    assert any(noticed in each for each in wrong), wrong
