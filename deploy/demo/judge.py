"""The verdict: rows, changes, freshness, and what was asked of the source, each printed with what was compared.

What MySQL holds is taken in a way that shares nothing with Tidemark: the server itself writes each table to a file.
Spark reads the lake. `deploy.oracle` compares the two, as it does for the chaos runs and the random histories.
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from actors.lake.live_view import live_view
from actors.lake.spark import spark_session
from deploy.demo.shop import DATABASE
from deploy.demo.topics import read_topic, untrue_topic
from deploy.demo.view import View
from deploy.oracle.changes import tally_of, untrue_changes, written
from deploy.oracle.forms import forms
from deploy.oracle.source import source_table
from deploy.oracle.tables import unequal_rows
from deploy.toolchain.mysql_server import Account, LoggedCommand, MysqlServer
from deploy.toolchain.parts import Parts
from pipeline.config.settings import SparkSettings
from pipeline.lake.tables.paths import location
from pipeline.lake.tables.tier import Tier
from pipeline.schema.table_schema import TableId

# What a changelog says of a change, beside its key.
_CHANGE = ("__scn", "__ordinal", "__op", "version", "op_no", "__segment", "__commit_time")
KEYS = {"orders": ("id",), "order_items": ("order_id", "line"), "customers": ("name",)}

# How long (s) before the end the freshness counts as that of a service that's left alone.
LAST_S = 10

# What may reach the source from our account: questions, settings of the own session, and the dump. A statement may
# stand in a comment that only servers of some version or later execute.
_ALLOWED_KINDS = {
    "Connect",
    "Quit",
    "Binlog Dump",
    "Binlog Dump GTID",
    "Register Replica",
    "Ping",
    "Init DB",
    "Close stmt",
}
_ALLOWED_STATEMENTS = re.compile(
    r"(/\*!\d+ )?"
    r"((EXPLAIN FORMAT=TRADITIONAL )?SELECT|SHOW|SET (SESSION|NAMES|AUTOCOMMIT|@)|SET @"
    r"|COMMIT|ROLLBACK|START TRANSACTION READ ONLY|KILL)\b",
    re.IGNORECASE,
)
_NOT_JUST_READING = re.compile(
    r"\b(FOR UPDATE|FOR SHARE|LOCK IN SHARE MODE|INTO OUTFILE|GLOBAL\s*=)\b", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was compared: what, how much of it, and the differences found (none if it's right)."""

    what: str
    compared: int
    differences: Sequence[str]

    def __str__(self) -> str:
        verdict = "equal" if not self.differences else f"{len(self.differences)} or more DIFFERENCES"
        return f"{self.what}: {self.compared:,} compared, {verdict}"


def judge(
    server: MysqlServer,
    account: Account,
    parts: Parts,
    folder: Path,
    view: View,
    brokers: str | None = None,
    reread: Collection[str] = (),
) -> bool:
    """Compare everything, print what was compared, and return whether all of it is right.

    `brokers`: where the topics are, if there are any. `reread`: the customers that a repair may have read again.
    """
    with view.stage("reading all of MySQL and all of the lake, and comparing them"):
        # The rows of whole tables are shuffled here, which takes more pieces than there are cores.
        settings = SparkSettings("local[2]", parts.jars, "2g", {"spark.sql.shuffle.partitions": "16"})
        running = spark_session.start_local(settings, folder / "judge")
        spark = running.session
        tally = pq.read_table(folder / "tally.parquet")
        findings: list[Finding] = []
        lake = str(folder / "lake")
        ages: list[Ages] = []
        for table, key in KEYS.items():
            id_ = TableId(DATABASE, table)
            findings.append(same_rows(server, id_, live_view(spark, lake, id_).toArrow(), key))
            findings.append(_no_key_twice(id_, _read(spark, lake, id_, Tier.MIRROR), key))
            changelog = _changes(spark, lake, id_).select(*_CHANGE, *key).toArrow()
            findings.append(same_changes(id_, changelog, key, tally))
            ages.append(_ages(changelog, _landed(spark, lake, id_)))
        findings.append(reads_only(server.logged(), account))
        running.stop()
    if brokers is not None:
        with view.stage("reading all topics, and comparing them"):
            findings += same_topics(server, brokers, tally, reread)
    view.say("")
    for finding in findings:
        view.say(f"  {finding}")
        for difference in finding.differences:
            view.say(f"      {difference}")
    view.say("\n  freshness of changes, from the commit in MySQL to readable in the lake")
    for line in _freshness(ages):
        view.say(f"      {line}")
    view.say(f"\nlook at it yourself:\n{_line_of_pyspark(parts, lake)}")
    return not any(finding.differences for finding in findings)


def same_rows(server: MysqlServer, table: TableId, lake: pa.Table, key: Sequence[str]) -> Finding:
    """Every row of the source's table against every row of the lake's."""
    source = source_table(server, table)
    return Finding(f"rows of {table}", len(source), unequal_rows(str(table), forms(lake), source, key))


def same_changes(table: TableId, changelog: pa.Table, key: Sequence[str], tally: pa.Table) -> Finding:
    """The changelog against the writer's tally: each change once, in its order."""
    lines = zip(*(column.to_pylist() for column in tally.columns), strict=True)
    found = written(changelog, key)
    return Finding(
        f"changes of {table}", len(found), untrue_changes(str(table), found, tally_of(table, lines))
    )


def same_topics(
    server: MysqlServer, brokers: str, tally: pa.Table, reread: Collection[str]
) -> Iterator[Finding]:
    """Each table's topic against the tally and the source: each change once, in order, and the rows at the end."""
    for table, key in KEYS.items():
        topic = read_topic(brokers, table, key, reread if table == "customers" else ())
        yield Finding(str(topic), topic.messages, untrue_topic(topic, server, tally))


def reads_only(logged: list[LoggedCommand], account: Account) -> Finding:
    """Every command that our account sent to the server, by the server's general log, against an allow-list."""
    commands = []
    whose: dict[int, bool] = {}  # a server that was started again begins again with its connections' numbers
    for command in logged:
        if command.kind == "Connect":
            whose[command.connection] = command.text.startswith(f"{account.user}@")
        if whose.get(command.connection):
            commands.append(command)
        if (
            "mysqld, Version: " in command.text and " started with:" in command.text
        ):  # its log's head, behind this
            whose.clear()
    wrong = tuple(f"{c.kind}: {c.text}" for c in commands if not _only_reads(c))
    return Finding(f"commands from {account.user!r} in the server's general log", len(commands), wrong[:5])


def _only_reads(command: LoggedCommand) -> bool:
    if command.kind in _ALLOWED_KINDS:
        return True
    # What is run by newer servers only stands in a comment that begins with their version.
    statement = re.sub(r"^/\*!\d+ ", "", command.text).lstrip("( \n")
    return bool(_ALLOWED_STATEMENTS.match(statement)) and not _NOT_JUST_READING.search(statement)


def _no_key_twice(table: TableId, rows: DataFrame, key: tuple[str, ...]) -> Finding:
    keys = rows.select(*key).toArrow()
    times = keys.group_by(list(key)).aggregate([([], "count_all")])
    twice = times.filter(pc.field("count_all") > 1).slice(0, 5).to_pylist()
    return Finding(f"keys of the mirror of {table}", keys.num_rows, tuple(f"twice: {row}" for row in twice))


@dataclass(frozen=True, slots=True)
class Ages:
    """When changes were committed in MySQL (s), and how old (s) each was when a Delta commit made it readable."""

    committed: npt.NDArray[np.float64]
    ages: npt.NDArray[np.float64]


def _freshness(tables: Sequence[Ages]) -> Iterator[str]:
    """Percentiles over all changes: from the commit in MySQL to the Delta commit that made it readable."""
    committed = np.concatenate([each.committed for each in tables])
    ages = np.concatenate([each.ages for each in tables])
    last = committed > committed.max(initial=0.0) - LAST_S
    yield _percentiles("all of them, Spark's cold start and the kill included", ages)
    yield _percentiles(f"those of the last {LAST_S} seconds", ages[last])


def _percentiles(which: str, ages: npt.NDArray[np.float64]) -> str:
    if not len(ages):
        return f"{which}: no change was captured"
    middle, high = np.quantile(ages, [0.5, 0.99])
    return f"{which}: p50 {middle:.2f} s, p99 {high:.2f} s, over {len(ages):,} changes"


def _landed(spark: SparkSession, lake: str, table: TableId) -> Mapping[int, float]:
    """By the last segment that a Delta commit has brought, when it did (s)."""
    commits = spark.sql(f"DESCRIBE HISTORY delta.`{location(lake, table, Tier.CHANGELOG)}`")
    told = (
        (row["timestamp"], json.loads(row["userMetadata"] or "{}").get("segment"))
        for row in commits.collect()
    )
    return {int(segment): at.timestamp() for at, segment in told if segment is not None}


def _ages(changelog: pa.Table, landed: Mapping[int, float]) -> Ages:
    """The ages of a changelog's changes; a commit brings the segments after the one before it."""
    changes = changelog.filter(pc.field("__commit_time").is_valid())
    committed = changes["__commit_time"].cast(pa.int64()).to_numpy() / 1e6
    through = np.array(sorted(landed), np.int64)
    commit = np.searchsorted(through, changes["__segment"].to_numpy())
    readable = commit < len(through)
    at = np.array([landed[segment] for segment in through.tolist()])[commit[readable]]
    return Ages(committed[readable], at - committed[readable])


def _changes(spark: SparkSession, lake: str, table: TableId) -> DataFrame:
    """The changelog without what each update found, which it has beside topics, and without what a repair read."""
    return _read(spark, lake, table, Tier.CHANGELOG).where("__op NOT IN ('b', 'r')")


def _read(spark: SparkSession, lake: str, table: TableId, tier: Tier) -> DataFrame:
    return spark.read.format("delta").load(location(lake, table, tier))


def _line_of_pyspark(parts: Parts, lake: str) -> str:
    packages = ",".join(map(str, parts.jars))
    return (
        f"  .venv/bin/pyspark --jars {packages} \\\n"
        "    --conf spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension \\\n"
        "    --conf spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog\n"
        f"  >>> from actors.lake.live_view import live_view; from pipeline.schema.table_schema import TableId\n"
        f"  >>> live_view(spark, '{lake}', TableId('{DATABASE}', 'orders')).groupBy('status').count().show()"
    )
