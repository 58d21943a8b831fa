"""What the source notices of a snapshot: reads with the least rights, and nothing that anybody waits for."""

import threading
from contextlib import AbstractContextManager, closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from deploy.demo.judge import reads_only
from deploy.toolchain.mysql_server import CAPTURE, FULL_METADATA, GTIDS, Account, MysqlServer
from pipeline.config.settings import Watermark
from pipeline.schema.table_schema import TableId
from tests.servers import at_work, delay, journal_oracle, mysql
from tests.servers.service import pipeline, running
from tests.servers.source import settings as source_settings

ROWS: Final = 1_000
TABLE: Final = TableId("shop", "t")
PARALLEL: Final[dict[str, Any]] = {"windows": 16, "connections": 4, "ranges": 8}


@pytest.fixture
def server(mysql_factory: mysql.MysqlFactory) -> MysqlServer:
    """A server that has no user for capture yet, with a table on it."""
    server = mysql_factory({**GTIDS, **FULL_METADATA})
    rows = ", ".join(f"({key}, 0)" for key in range(1, ROWS + 1))
    server.sql(
        "CREATE DATABASE shop",
        "USE shop",
        "CREATE TABLE t (id INT PRIMARY KEY, v INT)",
        f"INSERT INTO t VALUES {rows}",
        "ANALYZE TABLE t",
    )
    return server


@pytest.mark.usefixtures("small_ranges")
@pytest.mark.parametrize("watermark", [Watermark.GTID, Watermark.PAUSE])
async def test_only_reads_reach_the_source(server: MysqlServer, tmp_path: Path, watermark: Watermark) -> None:
    server.sql("SET GLOBAL general_log = ON")
    settings = pipeline(server, tmp_path, "shop", **{**PARALLEL, "watermark": watermark})
    for round_ in range(2):
        async with running(settings) as service:
            await service.begun()
            server.sql(
                f"INSERT INTO shop.t (id) VALUES ({ROWS + 1 + round_})",
                f"ALTER TABLE shop.t ADD COLUMN c{round_} INT",
                f"UPDATE shop.t SET c{round_} = 1 WHERE id = 1",
            )
            await service.execute(f"s{round_}", chunk_rows=25)
            await service.completed(f"s{round_}")
            await service.caught_up(server)
            await service.stop()
    finding = reads_only(server.logged(), CAPTURE)
    assert finding.differences == ()
    assert finding.compared > 2 * ROWS / 25


@pytest.mark.usefixtures("small_ranges")
async def test_the_least_grants_suffice(server: MysqlServer, tmp_path: Path) -> None:
    least = Account("least", "least")
    server.sql(
        f"CREATE USER '{least.user}'@'%' IDENTIFIED BY '{least.password}'",
        f"GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO '{least.user}'@'%'",
        f"GRANT SELECT ON shop.t TO '{least.user}'@'%'",
    )
    settings = replace(pipeline(server, tmp_path, "shop", **PARALLEL), source=source_settings(server, least))
    async with running(settings) as service:
        await service.begun()
        await service.execute("s", chunk_rows=25)
        server.sql("UPDATE shop.t SET v = 1 WHERE id % 7 = 0", "DELETE FROM shop.t WHERE id % 11 = 0")
        await service.completed("s")
        await service.caught_up(server)
        await service.stop()
    assert [grant for (grant,) in server.sql(f"SHOW GRANTS FOR '{least.user}'@'%'")] == [
        f"GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO `{least.user}`@`%`",
        f"GRANT SELECT ON `shop`.`t` TO `{least.user}`@`%`",
    ]
    assert journal_oracle.unequal(server, tmp_path / "journal", TABLE) == []


async def test_open_windows_keep_no_statement_waiting(server: MysqlServer, tmp_path: Path) -> None:
    settings = pipeline(server, tmp_path, "shop", **PARALLEL)
    with delay.DelayedLog(server.port) as proxy:
        source = replace(settings.source, port=proxy.port, read_timeout_s=120.0)
        async with running(replace(settings, source=source)) as service:
            await service.begun()
            proxy.delay_s = delay.HELD
            server.sql("UPDATE shop.t SET v = 1 WHERE id = 1")
            await service.execute("s", chunk_rows=25)
            waiting = PARALLEL["windows"]
            await service.until(lambda: len(service.status()["windows"]) == waiting, "the windows are open")
            # Each of these needs the table for itself, and stops trying after a second.
            server.sql(
                "SET SESSION lock_wait_timeout = 1, innodb_lock_wait_timeout = 1",
                "ALTER TABLE shop.t ADD COLUMN c INT",
                "LOCK TABLES shop.t WRITE",
                "UPDATE shop.t SET c = 1",
                "UNLOCK TABLES",
            )
            proxy.delay_s = 0
            await service.completed("s")
            await service.caught_up(server)
            await service.stop()
    assert journal_oracle.unequal(server, tmp_path / "journal", TABLE) == []


def counting(server: MysqlServer, key: int) -> AbstractContextManager[object]:
    """Runs a session that counts up one row endlessly, each time in its own transaction."""

    def count(stop: threading.Event) -> None:
        with closing(server.connect(database="shop")) as connection, connection.cursor() as cursor:
            while not stop.is_set():
                cursor.execute(f"UPDATE t SET v = v + 1 WHERE id = {key}")

    return at_work.at_work([count])


@pytest.mark.usefixtures("small_ranges")
@pytest.mark.parametrize("watermark", [Watermark.GTID, Watermark.PAUSE])
async def test_an_endless_writer_on_one_row_stops_nothing(
    server: MysqlServer, tmp_path: Path, watermark: Watermark
) -> None:
    settings = pipeline(server, tmp_path, "shop", **{**PARALLEL, "watermark": watermark})
    async with running(settings) as service:
        await service.begun()
        with counting(server, key=500):
            await service.execute("s", chunk_rows=25)
            await service.completed("s")
            # The count may supersede it, and not the rows beside it.
            table = service.tables("s")["t"]
            assert table["rows"] in (ROWS - 1, ROWS)
            assert table["rows"] + table["given_up"] == ROWS
        await service.caught_up(server)
        await service.stop()
    assert journal_oracle.unequal(server, tmp_path / "journal", TABLE) == []
