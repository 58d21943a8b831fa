"""The source's address leads to another server than before, while the stream of the first one continues."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from actors import chunk_selector
from actors.snapshot.connection_pool import SourcePool
from actors.source import log_watch
from actors.source.binlog_dump import BinlogDump
from actors.source.connection import Source
from actors.source.errors import AnotherServer
from actors.source.preflight import query_tables
from deploy.toolchain.mysql_server import MysqlServer
from pipeline import metrics as catalogue
from pipeline.config.settings import SourceSettings
from pipeline.errors import Backoff
from pipeline.gtid.gtid_set import GtidSet
from pipeline.messages.topology import ActorName as Name
from pipeline.schema.table_schema import TableId
from tests.servers.delay import DelayedLog
from tests.servers.journal_oracle import unequal
from tests.servers.mysql import MysqlFactory
from tests.servers.replicas import caught_up, replicated
from tests.servers.selector import bench
from tests.servers.service import pipeline, running
from tests.servers.source import cut, settings

T = TableId("d", "t")


@pytest.fixture(autouse=True)
def without_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """It's tried again soon."""
    monkeypatch.setattr(chunk_selector, "SELECT_BACKOFF", Backoff(0.001, 10.0))


async def _asked(source: SourceSettings, server: str) -> None:
    await query_tables(source, server, frozenset({T}))


async def _followed(source: SourceSettings, server: str) -> None:
    (await BinlogDump.open(source, GtidSet(), server)).close()


async def _pooled(source: SourceSettings, server: str) -> None:
    async with SourcePool(source, 1, server).connection() as connection:
        assert connection.server == server
        connection.close()


@pytest.mark.parametrize("work", [_asked, _followed, _pooled])
async def test_nothing_is_asked_of_another_server(
    mysql: MysqlServer,
    work: Callable[[SourceSettings, str], Awaitable[None]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = settings(mysql, mysql.create_capture_user("d"))
    await work(source, mysql.uuid)
    asked: list[object] = []
    monkeypatch.setattr(Source, "ask", lambda _self, statement: asked.append(statement))
    other = "00000000-0000-0000-0000-000000000000"
    with pytest.raises(AnotherServer, match=f"led to the server {other}, and now leads to {mysql.uuid}"):
        await work(source, other)
    assert not asked


async def test_no_chunk_comes_from_another_server(mysql_factory: MysqlFactory) -> None:
    first, other = replicated(mysql_factory)
    first.sql("CREATE DATABASE d", "CREATE TABLE d.t (a INT PRIMARY KEY)", "INSERT INTO d.t VALUES (1), (9)")
    with DelayedLog(first.port) as proxy:
        async with bench(first, "d", port=proxy.port) as selector:
            plan = await selector.plan(T)
            chunk = selector.chunk(plan, None, (9,), 10)
            assert (await selector.read(chunk)).rows["a"].to_pylist() == [1, 9]
            caught_up(first, other)
            proxy.leads_to = other.port
            assert (await selector.read(chunk)).rows["a"].to_pylist() == [
                1,
                9,
            ]  # it had its connection before
            cut(first)
            await selector.order(chunk)
            with pytest.raises(AnotherServer, match=f"led to the server {first.uuid}, and now leads to"):
                await selector.answer()
            selector.task = asyncio.create_task(asyncio.sleep(0))  # it has ended as it should


async def test_capture_goes_on_with_the_server_that_has_taken_over(
    mysql_factory: MysqlFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_watch, "LOG_LOOK_EVERY_S", 3600.0)  # who reads the log would notice it as well
    first, other = replicated(mysql_factory)
    first.sql("CREATE DATABASE d", "CREATE TABLE d.t (a INT PRIMARY KEY)", "INSERT INTO d.t VALUES (1), (9)")
    plain = pipeline(first, tmp_path, "d")
    caught_up(first, other)
    with DelayedLog(first.port) as proxy:
        source = replace(plain.source, port=proxy.port)
        async with running(replace(plain, source=source)) as service:
            await service.begun()
            proxy.leads_to = other.port  # the stream continues from the first one
            await service.execute("s")
            await service.completed("s")
            metrics = service.assembly.metrics
            assert metrics.value(catalogue.ERRORS, actor=Name.CHUNK_SELECTOR, kind="transient") == 1
            first.sql("INSERT INTO d.t VALUES (5)")
            await service.caught_up(first)
            await service.stop()
    assert unequal(first, tmp_path / "journal", T) == []
