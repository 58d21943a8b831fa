"""Changes that the server itself couldn't write into its log: it says so there, by an INCIDENT event.

A statement on a MyISAM table does that, where its rows are more than max_binlog_stmt_cache_size: it changes the table,
and the log has none of its rows.
"""

from pathlib import Path

import pymysql
import pytest

from deploy.toolchain.mysql_server import FULL_METADATA, GTIDS, GTIDS_56, MysqlServer
from pipeline.config.settings import SnapshotMode
from pipeline.schema.table_schema import TableId
from tests.servers.journal_oracle import unequal
from tests.servers.mysql import MysqlFactory
from tests.servers.service import Running, pipeline, running

TOO_MANY = "INSERT INTO d.m VALUES (2, REPEAT('x', 100)), (3, REPEAT('y', 100000))"
STATEMENTS = "max_binlog_stmt_cache_size"


@pytest.fixture(params=["9.7", "5.6"])
def server(
    request: pytest.FixtureRequest, mysql_factory: MysqlFactory, mysql56_factory: MysqlFactory
) -> MysqlServer:
    server = (
        mysql56_factory(GTIDS_56) if request.param == "5.6" else mysql_factory({**GTIDS, **FULL_METADATA})
    )
    server.sql(
        "CREATE DATABASE d",
        "CREATE TABLE d.m (id INT PRIMARY KEY, v LONGTEXT) ENGINE=MyISAM",
        "CREATE TABLE d.t (id INT PRIMARY KEY, v LONGTEXT)",
        "CREATE TABLE d.keyless (v INT)",
        *(f"INSERT INTO d.{name} VALUES (1, 'a')" for name in "mt"),
        f"SET GLOBAL {STATEMENTS} = 4096",
        "SET GLOBAL binlog_stmt_cache_size = 4096",
    )
    return server


async def test_tables_are_read_again_where_the_server_lost_changes(
    server: MysqlServer, tmp_path: Path
) -> None:
    settings = pipeline(server, tmp_path, "d", mode=SnapshotMode.INITIAL)
    async with running(settings) as service:
        await service.completed("initial-0")
        server.sql("INSERT INTO d.t VALUES (2, 'b')", "INSERT INTO d.keyless VALUES (1)")
        await service.caught_up(server)
        with pytest.raises(pymysql.err.OperationalError, match=STATEMENTS):
            server.sql(TOO_MANY)
        reason = await service.until(lambda: keyless(service), "the one without a key has stopped")
        assert f"raise {STATEMENTS}" in reason
        server.sql("INSERT INTO d.t VALUES (3, 'c')", "INSERT INTO d.m VALUES (4, 'd')")
        await service.caught_up(server)
        await service.until(lambda: differences(server, tmp_path) == [], "they're equal")
        await service.stop()
    async with running(settings) as service:
        server.sql("UPDATE d.t SET v = 'e'")
        await service.caught_up(server)
        assert set(service.status()["stopped"]) == {"d.keyless"}
        await service.stop()
    assert differences(server, tmp_path) == []


async def test_a_file_that_was_removed_from_the_middle_of_the_log_has_tables_read_again(
    server: MysqlServer, tmp_path: Path
) -> None:
    settings = pipeline(server, tmp_path, "d", mode=SnapshotMode.INITIAL)
    async with running(settings) as service:
        await service.completed("initial-0")
        await service.caught_up(server)
        await service.stop()
    removed = server.rotate_binlog()
    server.sql("UPDATE d.t SET v = 'lost'", "INSERT INTO d.t VALUES (2, 'lost')")
    server.rotate_binlog()
    server.sql("INSERT INTO d.t VALUES (3, 'c')")
    server.stop()
    remove_log(server, removed)
    server.start()
    async with running(settings) as service:
        await service.caught_up(server)
        await service.until(lambda: differences(server, tmp_path) == [], "they're equal")
        await service.stop()
    async with running(settings) as service:
        await service.begun()
        begun = {table: mirror.since for table, mirror in service.checkpoint().mirrors.items()}
        server.sql("INSERT INTO d.t VALUES (4, 'd')")
        await service.caught_up(server)
        mirrors = service.checkpoint().mirrors
        assert {
            table: mirror.since for table, mirror in mirrors.items()
        } == begun  # it isn't lost a second time
        await service.stop()
    assert differences(server, tmp_path) == []


def remove_log(server: MysqlServer, file: str) -> None:
    """Removes a file of a stopped server's log, and its line in the index."""
    (server.data / file).unlink()
    [index] = server.data.glob("*.index")
    lines = [line for line in index.read_text().splitlines(keepends=True) if not line.strip().endswith(file)]
    index.write_text("".join(lines))


def keyless(service: Running) -> str:
    reason: str = service.status().get("stopped", {}).get("d.keyless", "")
    return reason


def differences(server: MysqlServer, folder: Path) -> list[str]:
    return [str(each) for each in unequal(server, folder / "journal", TableId("d", "m"), TableId("d", "t"))]
