"""Whoever has committed finds that in the live view, at the versions that it's answered: a real service and Spark."""

import json
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.request import urlopen

import aiomysql
import pymysql
import pytest

from actors.http.changes.client import changes
from actors.lake.live_view import live_view
from actors.lake.read_your_writes import SESSION_TRACK, NotApplied, Written, read_your_writes
from actors.lake.spark.spark_session import Spark
from deploy.demo.service import Service
from deploy.toolchain.mysql_server import MysqlServer
from deploy.toolchain.parts import Parts
from pipeline.errors import Definite
from pipeline.journal.applied.progress import Through
from pipeline.lake.live_view import Versions
from pipeline.schema.table_schema import TableId
from tests.actors.service.command_line import tidemark
from tests.servers.duckdb_engine import engine
from tests.servers.own_writes import OwnWrites
from tests.servers.service_process import configuration
from tests.servers.spark import quick_java
from tests.servers.timed_commits import TimedCommits

WRITERS = 16
COMMITS = int(os.environ.get("TIDEMARK_OWN_WRITES", "10000"))
READS_S = float(os.environ.get("TIDEMARK_OWN_READS_S", "0.05"))


@dataclass(frozen=True)
class Shop:
    """A service that delivers one table, with few changes pending at any time."""

    server: MysqlServer
    config: Path
    table: TableId
    writes: OwnWrites
    service: Service

    @property
    def lake(self) -> str:
        return str(self.config.parent / "lake")


@pytest.fixture
def shop(
    tmp_path: Path, mysql: MysqlServer, parts: Parts, database: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Shop]:
    monkeypatch.setenv("JAVA_HOME", str(parts.java_home))
    monkeypatch.setenv("TIDEMARK__LAKE__MERGE_AFTER_S", "2")
    writes = OwnWrites(TableId(database, "counts"))
    writes.begin(mysql, WRITERS)
    config = configuration(tmp_path, mysql, parts, database, mysql.create_capture_user(database))
    service = Service(config, tmp_path / "journal", tmp_path / "log")
    yield Shop(mysql, config, writes.table, writes, service)
    service.kill()


def test_each_writer_finds_its_own_write_at_the_answered_versions(
    shop: Shop, parts: Parts, spark: Spark, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JDK_JAVA_OPTIONS", quick_java(parts))
    shop.service.start()
    shop.writes.write(shop.server, shop.service.url, WRITERS, 4)
    assert len(shop.writes.written) == WRITERS * 4
    assert shop.writes.misses(shop.lake) == []
    # The judge finds what is planted: versions from before these commits. A writer's first one may be in the snapshot.
    changelog = min(write.at.changelog for write in shop.writes.written)
    mirror = min(write.at.mirror or 0 for write in shop.writes.written)
    later = [write for write in shop.writes.written if write.n > 1]
    planted = [replace(write, at=Versions(mirror, changelog - 1)) for write in later[:3]]
    assert OwnWrites(shop.table, planted).misses(shop.lake) == planted

    with (
        closing(
            pymysql.connect(unix_socket=str(shop.server.socket), user="root", client_flag=SESSION_TRACK)
        ) as connection,
        read_your_writes(connection, shop.service.url) as written,
    ):
        assert (written.gtid_set, written.versions(shop.table)) == ("", None)
        for key in (77, 78):
            with connection.cursor() as cursor:
                cursor.execute(f"INSERT INTO {shop.table} VALUES ({key}, 99, 1)")
            connection.commit()
            view = live_view(spark.session, shop.lake, shop.table, at=written)
            assert view.where(f"id = {key}").count() == 1
        answered_by_the_command(shop, written)
        refusals_are_raised(shop, written)
    the_lake_and_the_changes_after_it_are_the_source(shop, spark)


def answered_by_the_command(shop: Shop, written: Written) -> None:
    """`tidemark wait` exits with what the answer is, and `tidemark sql --gtid` reads at it."""
    done = tidemark("wait", shop.config, "--gtid", written.gtid_set, "--tables", str(shop.table))
    assert done.exit_code == 0, done.output
    told = json.loads(done.output)
    assert (told["through"], set(told["tables"])) == ("lake", {str(shop.table)})
    query = tidemark("sql", shop.config, str(shop.table), "--dialect", "duckdb", "--gtid", written.gtid_set)
    versions = told["tables"][str(shop.table)]
    assert f"version := {versions['changelog']}" in query.output, query.output
    with closing(engine()) as duckdb:
        assert {77, 78} <= {key for key, *_ in duckdb.execute(query.output).fetchall()}
    never = tidemark("wait", shop.config, "--gtid", f"{shop.server.uuid}:999999999")
    assert (never.exit_code, "hasn't executed" in never.output) == (2, True), never.output
    wrong = tidemark("wait", shop.config, "--gtid", "7")
    assert (wrong.exit_code, "gtid_set: " in wrong.output) == (2, True), wrong.output


def the_lake_and_the_changes_after_it_are_the_source(shop: Shop, spark: Spark) -> None:
    """Amid writes a consumer reads the lake where `/bootstrap` says, and continues from there: no change twice."""
    half = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(count_up, shop, half)
        assert half.wait(60)
        with urlopen(f"{shop.service.url}/bootstrap?tables={shop.table}") as answer:
            found = json.load(answer)
        writing.result()
    versions = Versions(**found["tables"][str(shop.table)])
    rows = {key: n for key, _, n in live_view(spark.session, shop.lake, shop.table, at=versions).collect()}
    begun = rows.copy()
    end = shop.server.executed()
    for batch in changes(shop.service.url, found["checkpoint"], tables=[str(shop.table)], through=end):
        for op, key, n in zip(
            *(batch.rows.column(name).to_pylist() for name in ("__op", "id", "n")), strict=True
        ):
            assert n == rows.get(key, -1) + 1 if op == "u" else key not in rows, (op, key, n)
            rows[key] = n
    assert rows == dict(shop.server.sql(f"SELECT id, n FROM {shop.table}"))
    assert rows != begun, "nothing came from the relay"


def count_up(shop: Shop, half: threading.Event) -> None:
    """Inserts rows, and raises a count each time by one."""
    try:
        for n in range(60):
            shop.server.sql(
                "BEGIN",
                f"INSERT INTO {shop.table} VALUES ({90_000_000 + n}, 99, 0)",
                f"UPDATE {shop.table} SET n = n + 1 WHERE id = 78",
                "COMMIT",
            )
            if n == 30:
                half.set()
    finally:
        half.set()


def refusals_are_raised(shop: Shop, written: Written) -> None:
    with pytest.raises(Definite, match="isn't captured"):
        written.wait(TableId("other", "t"))
    with pytest.raises(Definite, match=r"through: the configuration has no \[kafka\]"):
        written.wait(through=Through.KAFKA)
    gone = Written(written._tracker, "http://127.0.0.1:1", None, None)
    with pytest.raises(NotApplied, match="doesn't answer"):
        gone.wait(shop.table)


@pytest.mark.full
async def test_aiomysql_reads_its_own_writes(shop: Shop, spark: Spark) -> None:
    shop.service.start()
    connection = await aiomysql.connect(
        unix_socket=str(shop.server.socket), user="root", client_flag=SESSION_TRACK
    )
    async with read_your_writes(connection, shop.service.url) as written:
        async with connection.cursor() as cursor:
            await cursor.execute(f"INSERT INTO {shop.table} VALUES (77, 99, 1)")
        await connection.commit()
    view = live_view(spark.session, shop.lake, shop.table, at=written)
    assert view.where("id = 77").count() == 1
    connection.close()


@pytest.mark.full
def test_ten_thousand_commits_miss_nothing(shop: Shop, tmp_path: Path) -> None:
    shop.service.program = ("-m", "tests.servers.timed_commits", str(tmp_path / "commits"))
    shop.service.start()
    # The wait for the first snapshot isn't what's measured.
    there = ("--gtid", shop.server.executed(), "--tables", str(shop.table), "--timeout", "120")
    assert tidemark("wait", shop.config, *there).exit_code == 0
    began = time.monotonic()
    shop.writes.write(shop.server, shop.service.url, WRITERS, COMMITS // WRITERS, reads_s=READS_S)
    seconds = time.monotonic() - began
    beyond = shop.writes.beyond_delivery(shop.lake, TimedCommits(tmp_path / "commits", shop.table))
    median, late = beyond[len(beyond) // 2], beyond[len(beyond) * 99 // 100]
    print(  # noqa: T201 - what is measured
        f"{len(beyond)} commits in {seconds:.0f} s; beyond delivery p50 {1000 * median:.1f} ms, "
        f"p99 {1000 * late:.1f} ms, most {1000 * beyond[-1]:.1f} ms; "
        f"{len({write.at for write in shop.writes.written})} versions"
    )
    assert len(beyond) == COMMITS // WRITERS * WRITERS
    assert shop.writes.misses(shop.lake) == []
