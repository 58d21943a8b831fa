"""A lagging stream costs a snapshot time and not throughput: its windows wait, and others open meanwhile.

A proxy before the dump connection holds the log back (`tests.servers.delay`); SELECTs aren't held back.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Any, Final

import pytest

from actors.source import binlog_dump
from deploy.toolchain.mysql_server import MysqlServer
from pipeline.schema.table_schema import TableId
from tests.servers.delay import HELD, DelayedLog
from tests.servers.journal_oracle import entries, unequal
from tests.servers.service import Running, pipeline, running
from tests.servers.source import process_list, waits_for_lock

ROWS: Final = 1_990  # so that the last chunk isn't full, and no other one has to show that it was the last
CHUNK_ROWS: Final = 50
CHUNKS: Final = -(-ROWS // CHUNK_ROWS)
WINDOWS: Final = 16


@pytest.fixture
def table(mysql: MysqlServer, database: str) -> TableId:
    rows = ", ".join(f"({key}, 0)" for key in range(1, ROWS + 1))
    mysql.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)", f"INSERT INTO t VALUES {rows}", database=database)
    return TableId(database, "t")


@pytest.fixture
def proxy(mysql: MysqlServer) -> Iterator[DelayedLog]:
    with DelayedLog(mysql.port) as proxy:
        yield proxy


@asynccontextmanager
async def through(
    proxy: DelayedLog, server: MysqlServer, table: TableId, folder: Path, **snapshot: Any
) -> AsyncIterator[Running]:
    """Runs the service, its source behind the proxy, from its first segment."""
    settings = pipeline(server, folder, table.database, **snapshot)
    source = replace(settings.source, port=proxy.port, read_timeout_s=120.0)
    async with running(replace(settings, source=source)) as service:
        await service.begun()
        yield service


def waiting(service: Running) -> int:
    """How many windows have their chunk, and wait for the log."""
    return sum(window["state"] == "reconciling" for window in service.status().get("windows", ()))


def blocked(server: MysqlServer) -> int:
    """Returns how many statements wait for a table that another session has locked."""
    return sum(map(waits_for_lock, process_list(server)))


async def test_windows_open_while_the_log_is_held_and_all_close(
    mysql: MysqlServer, table: TableId, proxy: DelayedLog, tmp_path: Path
) -> None:
    async with through(proxy, mysql, table, tmp_path, windows=WINDOWS) as service:
        proxy.delay_s = HELD
        # In the log and in what the chunks see, but not in the stream: it's in the low watermarks and touches nothing.
        mysql.sql("UPDATE t SET v = 1 WHERE id % 7 = 0", database=table.database)
        await service.execute("s", chunk_rows=CHUNK_ROWS)
        await service.until(lambda: waiting(service) == WINDOWS, "all windows wait for the log")
        assert service.tables("s")["t"]["rows"] == 0
        # Behind their chunks' high watermarks: it isn't theirs any more.
        mysql.sql("UPDATE t SET v = v + 2 WHERE id % 5 = 0", database=table.database)
        assert proxy.held_bytes > 0
        with closing(mysql.connect(database=table.database)) as writer, writer.cursor() as cursor:
            cursor.execute("LOCK TABLES t WRITE")
            proxy.delay_s = 0
            # The next chunks have low watermarks and no rows yet: what changes now is touched in their windows.
            await service.until(lambda: blocked(mysql), "a chunk waits for the table")
            for statement in (
                "DELETE FROM t WHERE id % 11 = 0",
                "INSERT INTO t SELECT id, 9 FROM (SELECT 11 * 13 * n AS id FROM (SELECT 1 AS n UNION SELECT 2) a) b",
                "UPDATE t SET id = id + 100000 WHERE id % 17 = 0",
                "UPDATE t SET v = v + 4",
            ):
                cursor.execute(statement)
            cursor.execute("UNLOCK TABLES")
        await service.completed("s")
        assert service.tables("s")["t"]["given_up"] > 0
        await service.caught_up(mysql)
        assert service.status()["windows"] == []
        await service.stop()
    assert unequal(mysql, tmp_path / "journal", table) == []


async def test_a_snapshot_takes_as_many_delays_as_its_chunks_fill_windows(
    mysql: MysqlServer, table: TableId, proxy: DelayedLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stream lags far, and the log always has something that hasn't come."""
    monkeypatch.setattr(binlog_dump, "_HEARTBEAT_S", 60.0)  # only these writes come
    async with through(proxy, mysql, table, tmp_path, windows=WINDOWS) as service:
        await service.caught_up(mysql)
        proxy.delay_s = HELD
        await held(service, proxy, mysql, table)
        await service.execute("s", chunk_rows=CHUNK_ROWS)
        for done in range(0, CHUNKS, WINDOWS):
            filled = min(WINDOWS, CHUNKS - done)
            # One window at a time would take a delay for each chunk.
            await service.until(lambda: stands(service) == (done, filled), "windows wait for the log")  # noqa: B023
            before = monotonic()
            await held(service, proxy, mysql, table)
            proxy.let_go(before)
        await service.completed("s")
        proxy.delay_s = 0
        await service.caught_up(mysql)
        await service.stop()
    assert unequal(mysql, tmp_path / "journal", table) == []
    emitted = [chunk.chunk.number for entry in entries(tmp_path / "journal") for chunk in entry.chunks]
    assert len(set(emitted)) == len(emitted) == CHUNKS


def stands(service: Running) -> tuple[int, int]:
    """How many chunks are done, and how many windows wait for the log."""
    return service.tables("s")["t"]["chunks"], waiting(service)


async def held(service: Running, proxy: DelayedLog, server: MysqlServer, table: TableId) -> None:
    """Write a transaction, until the proxy holds all of it."""
    before, places = proxy.held_bytes, [end_of_log(server)]
    server.sql("UPDATE t SET v = v + 1 WHERE id = 7", database=table.database)
    places.append(end_of_log(server))
    # On its way each event is some bytes longer than in the log, all five together less than the last one is long.
    await service.until(lambda: proxy.held_bytes - before >= places[1] - places[0], "it's held")


def end_of_log(server: MysqlServer) -> int:
    """How long the log's last file is."""
    return int(server.sql("SHOW BINARY LOG STATUS")[0][1])
