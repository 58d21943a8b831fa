"""A stream that is behind costs a snapshot time and not throughput: its windows wait, and others open meanwhile.

What holds the log back is a proxy before the dump connection (`tests.servers.delay`); SELECTs aren't held back.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from deploy.toolchain.mysql_server import MysqlServer
from pipeline.schema import TableId
from tests.servers.delay import HELD, DelayedLog
from tests.servers.journal_oracle import entries, unequal
from tests.servers.service import Running, pipeline, running

ROWS: Final = 2_000
CHUNK_ROWS: Final = 50
CHUNKS: Final = ROWS // CHUNK_ROWS
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
    """The service, its source behind the proxy, from its first segment on."""
    settings = pipeline(server, folder, table.database, **snapshot)
    source = replace(settings.source, port=proxy.port, read_timeout_s=120.0)
    async with running(replace(settings, source=source)) as service:
        await service.begun()
        yield service


def waiting(service: Running) -> int:
    """How many windows have their chunk, and wait for the log."""
    return sum(window["state"] == "reconciling" for window in service.status().get("windows", ()))


def blocked(server: MysqlServer) -> int:
    """How many statements wait for a table that somebody has locked."""
    waits = (
        "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE STATE = 'Waiting for table metadata lock'"
    )
    return int(server.sql(waits)[0][0])


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


@pytest.mark.parametrize(
    "behind_s", [pytest.param(1.0, id="1 s"), pytest.param(30.0, id="30 s", marks=pytest.mark.full)]
)
async def test_a_snapshot_takes_as_many_delays_as_its_chunks_fill_windows(
    mysql: MysqlServer, table: TableId, proxy: DelayedLog, tmp_path: Path, behind_s: float
) -> None:
    clock = asyncio.get_running_loop().time
    async with through(proxy, mysql, table, tmp_path, windows=WINDOWS) as service:
        proxy.delay_s = behind_s
        await asyncio.to_thread(mysql.sql, "UPDATE t SET v = 1 WHERE id % 7 = 0", database=table.database)
        began = clock()
        await service.execute("s", chunk_rows=CHUNK_ROWS)
        await service.until(lambda: waiting(service) == WINDOWS, "all windows wait for the log")
        await service.completed("s")
        took = clock() - began
        await service.caught_up(mysql)
        await service.stop()
    assert unequal(mysql, tmp_path / "journal", table) == []
    # One window at a time would take a delay for each chunk.
    rounds = -(-CHUNKS // WINDOWS)
    assert behind_s < took < (rounds + 1) * behind_s + CHUNKS * 0.2
    emitted = [chunk.chunk.number for entry in entries(tmp_path / "journal") for chunk in entry.chunks]
    assert len(set(emitted)) == len(emitted) == CHUNKS
