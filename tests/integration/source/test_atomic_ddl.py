"""What the server says of tables whose DDL isn't atomic: MySQL shows a statement's work before its log has it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from actors.source import gtid_history
from actors.source.connection import Source
from actors.source.preflight import preflight, query_tables
from actors.source.watermark_table import SignalTable
from deploy.toolchain.mysql_server import GTIDS, MysqlServer
from pipeline.gtid.gtid_set import GtidSet
from pipeline.schema.table_schema import TableId
from tests.servers.awaiting import until
from tests.servers.mysql import MysqlFactory
from tests.servers.service import pipeline
from tests.servers.source import connected, process_list

T, OTHER = TableId("d", "t"), TableId("d", "other")
ALTERATIONS: Final = {
    "MyISAM": ("MyISAM", "MODIFY a INT AFTER b"),
    "to InnoDB": ("MyISAM", "MODIFY a INT AFTER b, ENGINE = InnoDB"),
    "from InnoDB": ("InnoDB", "MODIFY a INT AFTER b, ENGINE = MyISAM"),
}


def create(server: MysqlServer, engine: str) -> None:
    """Two columns of one type, which an ALTER TABLE can exchange; and a table that no session alters."""
    server.sql(
        "CREATE DATABASE d",
        f"CREATE TABLE d.t (id INT PRIMARY KEY, a INT, b INT) ENGINE = {engine}",
        "CREATE TABLE d.other (id INT PRIMARY KEY) ENGINE = MyISAM",
    )


async def columns(source: Source) -> list[str]:
    """The names of T's columns in order; none if there's no T."""
    found = (await source.describe([T])).get(T)
    return [] if found is None else [column.name for column in found.schema.columns]


@asynccontextmanager
async def working(server: MysqlServer, statement: str, shows: list[str]) -> AsyncIterator[None]:
    """The server shows T as the statement makes it, and has not executed it: it waits for an acknowledgement."""
    async with connected(server, "d") as source:
        server.sql(
            "SET GLOBAL rpl_semi_sync_source_timeout = 3600000",
            "SET GLOBAL rpl_semi_sync_source_wait_no_replica = ON",
            "SET GLOBAL rpl_semi_sync_source_enabled = ON",
        )
        work = asyncio.create_task(asyncio.to_thread(server.sql, statement))
        try:
            await until(lambda: waits_for_acknowledgement(server), "it's in the log")
            assert await columns(source) == shows
            yield
        finally:
            server.sql("SET GLOBAL rpl_semi_sync_source_enabled = OFF")
            await work


def waits_for_acknowledgement(server: MysqlServer) -> bool:
    """Whether a session waits for a replica that has its transaction."""
    return any("semi-sync" in (connection.state or "") for connection in process_list(server))


@pytest.mark.parametrize(("engine", "alteration"), ALTERATIONS.values(), ids=ALTERATIONS.keys())
async def test_a_table_that_shows_what_is_not_executed_is_not_settled(
    mysql_factory: MysqlFactory, tmp_path: Path, engine: str, alteration: str
) -> None:
    server = mysql_factory({**GTIDS, "plugin_load_add": "semisync_source.so"})
    create(server, engine)
    capture = pipeline(server, tmp_path, "d")
    async with working(server, f"ALTER TABLE d.t {alteration}", ["id", "b", "a"]):
        assert (await preflight(capture)).known.unsettled == {T}
        answer = await query_tables(capture.source, server.uuid, frozenset({T, OTHER}))
        assert answer.tables == answer.schemas.keys() == {OTHER}
    assert not (await preflight(capture)).known.unsettled
    assert (await query_tables(capture.source, server.uuid, frozenset({T, OTHER}))).tables == {T, OTHER}


async def test_a_table_that_a_start_sees_the_second_time_as_it_is_not_executed_is_not_settled(
    mysql_factory: MysqlFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks as it did the first time. Yet a statement that the set has lies in between, and is being undone."""
    server = mysql_factory({**GTIDS, "plugin_load_add": "semisync_source.so"})
    create(server, "MyISAM")
    visible, begun = gtid_history.visible_transactions, asyncio.Event()
    async with AsyncExitStack() as stack:

        async def between(source: Source, markers: SignalTable | None) -> GtidSet:
            if begun.is_set():
                return await visible(source, markers)
            begun.set()
            server.sql("ALTER TABLE d.t MODIFY a INT AFTER b")
            at = await visible(source, markers)
            undone = working(server, "ALTER TABLE d.t MODIFY b INT AFTER a", ["id", "a", "b"])
            await stack.enter_async_context(undone)
            return at

        monkeypatch.setattr(gtid_history, "visible_transactions", between)
        assert (await preflight(pipeline(server, tmp_path, "d"))).known.unsettled == {T}


async def test_what_a_start_sees_of_a_quiet_server_holds_at_once(
    mysql_factory: MysqlFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = mysql_factory(GTIDS)
    create(server, "InnoDB")
    assert (await preflight(pipeline(server, tmp_path, "d"))).known.end is None
    visible = gtid_history.visible_transactions

    async def busy(source: Source, markers: SignalTable | None) -> GtidSet:
        at = await visible(source, markers)
        server.sql("INSERT INTO d.other VALUES (1)")
        return at

    monkeypatch.setattr(gtid_history, "visible_transactions", busy)
    assert (await preflight(pipeline(server, tmp_path, "d"))).known.end is not None


async def test_a_table_that_is_gone_before_its_drop_is_executed_is_not_settled(
    mysql_factory: MysqlFactory, tmp_path: Path
) -> None:
    server = mysql_factory({**GTIDS, "plugin_load_add": "semisync_source.so"})
    create(server, "MyISAM")
    capture = pipeline(server, tmp_path, "d")
    async with working(server, "DROP TABLE d.t", []):
        assert (await query_tables(capture.source, server.uuid, frozenset({T, OTHER}))).tables == {OTHER}
    answer = await query_tables(capture.source, server.uuid, frozenset({T, OTHER}))
    assert answer.tables == {T, OTHER} and answer.schemas.keys() == {OTHER}
