"""The demo's judge must be able to say no: it reports each kind of error that a lake could have."""

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from actors.lake.spark_session import Spark
from deploy.demo.judge import reads_only
from deploy.demo.verify import export, history, same_rows
from deploy.toolchain.mysql_server import Account, LoggedCommand, MysqlServer

CHANGES = "__scn LONG, __ordinal INT, __op STRING, id LONG, version INT, op_no LONG"
TALLY = "op STRING, key STRING, version LONG, op_no LONG"

# The life of two keys: written, written, deleted, brought back; and moved to another key.
LIFE = [("u", "1", 2, 4), ("d", "1", 2, 4), ("c", "1", 3, 9), ("d", "2", 1, 0), ("u", "7", 1, 12)]


def changelog(session: SparkSession, life: list[tuple[str, str, int, int]]) -> DataFrame:
    rows = [(scn, 0, op, int(key), version, op_no) for scn, (op, key, version, op_no) in enumerate(life)]
    return session.createDataFrame(rows, CHANGES)


def test_a_changelog_as_the_tally_has_it_is_right(spark: Spark) -> None:
    found = history(
        "t", changelog(spark.session, LIFE), ["id"], spark.session.createDataFrame(LIFE[::-1], TALLY)
    )
    assert not found.differences
    assert found.compared == len(LIFE)


@pytest.mark.parametrize(
    ("life", "told"),
    [
        (LIFE[:-1], "missing from the changelog"),
        ([*LIFE, LIFE[-1]], "too much in the changelog"),
        ([LIFE[0], LIFE[2], LIFE[1], *LIFE[3:]], "a key goes back in time"),
    ],
    ids=["a change is missing", "a change is there twice", "a key goes back in time"],
)
def test_a_wrong_changelog_is_told(spark: Spark, life: list[tuple[str, str, int, int]], told: str) -> None:
    found = history("t", changelog(spark.session, life), ["id"], spark.session.createDataFrame(LIFE, TALLY))
    assert any(difference.startswith(told) for difference in found.differences), found.differences


def test_rows_are_compared_with_what_the_server_writes(
    spark: Spark, mysql: MysqlServer, database: str, tmp_path: Path
) -> None:
    tmp_path.chmod(0o777)
    mysql.sql(
        "CREATE TABLE t (id BIGINT PRIMARY KEY, s TEXT, d DECIMAL(9, 2), at DATETIME(3))",
        "INSERT INTO t VALUES (1, NULL, 1.5, '2024-01-02 03:04:05.678'), (2, '', NULL, NULL), (3, 'tab\\t🎁', 0, NULL)",
        database=database,
    )
    exported = export(mysql, database, "t", tmp_path)
    names = "id LONG, s STRING, d DECIMAL(9, 2), at TIMESTAMP_NTZ"
    rows = spark.session.createDataFrame(
        [(1, None, None, None), (2, "", None, None), (3, "tab\t🎁", None, None)], names
    )
    right = rows.selectExpr(
        "id",
        "s",
        "CASE id WHEN 1 THEN 1.50BD WHEN 3 THEN 0.00BD END AS d",
        "CASE id WHEN 1 THEN TIMESTAMP_NTZ'2024-01-02 03:04:05.678' END AS at",
    )
    right = spark.session.createDataFrame(right.collect(), names)
    assert not same_rows(spark.session, "t", exported, right).differences
    stale = same_rows(spark.session, "t", exported, right.where("id < 3"))
    assert [d.partition(":")[0] for d in stale.differences] == ["only in MySQL"]
    twice = same_rows(spark.session, "t", exported, right.unionAll(right.where("id = 2")))
    assert [d.partition(":")[0] for d in twice.differences] == ["only in the lake"]
    blank = same_rows(spark.session, "t", exported, right.selectExpr("id", "coalesce(s, '') AS s", "d", "at"))
    assert len(blank.differences) == 2


@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO t VALUES (1)",
        "SELECT 1 FOR UPDATE",
        "LOCK TABLES t READ",
        "SET GLOBAL x = 1",
        "FLUSH TABLES",
    ],
)
def test_a_command_that_does_more_than_read_is_told(text: str) -> None:
    ours, theirs = Account("tidemark", ""), LoggedCommand(8, "Query", "DELETE FROM t")
    log = [
        LoggedCommand(7, "Connect", "tidemark@127.0.0.1 on using TCP/IP"),
        LoggedCommand(8, "Connect", "writer@127.0.0.1 on shop using TCP/IP"),
        LoggedCommand(7, "Query", "SELECT @@GLOBAL.gtid_executed"),
        theirs,
    ]
    assert not reads_only(log, ours).differences
    assert reads_only([*log, LoggedCommand(7, "Query", text)], ours).differences == (f"Query: {text}",)
