"""Connections that fall silent, are refused or can't be made: capture notices all of them, and continues."""

import asyncio
import socket
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from actors.binlog_reader import BinlogReader
from actors.chunk_selector import ChunkSelector
from actors.journal_writer import JournalWriter
from actors.runtime.actor import Actor
from actors.runtime.supervisor import ExitCode, RestartLimits
from actors.schema_verifier import SchemaVerifier
from actors.signal_listener import SignalListener
from actors.source import binlog_dump
from actors.source import connection as sources
from actors.source.binlog_dump import BinlogDump
from actors.source.connection import Source
from actors.spark_sink import SparkSink
from actors.watermark_coordinator import WatermarkCoordinator
from deploy.toolchain.mysql_server import FULL_METADATA, GTIDS, MysqlServer
from pipeline.config.settings import Secret
from pipeline.errors import Transient
from pipeline.gtid.gtid_set import GtidSet
from pipeline.messages.topology import ActorName as Name
from pipeline.schema.table_schema import TableId
from tests.servers.awaiting import until
from tests.servers.delay import HELD, DelayedLog
from tests.servers.journal_oracle import unequal
from tests.servers.mysql import MysqlFactory
from tests.servers.service import pipeline, running
from tests.servers.source import ask, connected, connected_with, cut, process_list, settings
from tests.servers.stopped import stop

HUNG_AFTER_S = 15.0


async def test_a_connection_is_asked_for_a_sign_of_life(mysql: MysqlServer) -> None:
    async with connected(mysql) as source:
        line: socket.socket = source._wire._writer.get_extra_info("socket")
        assert line.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert line.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 10_000
        idle, again = (
            line.getsockopt(socket.IPPROTO_TCP, option)
            for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL)
        )
        assert idle + again <= 10


async def test_a_server_that_stands_still_is_noticed_by_who_asks_and_by_who_connects(
    mysql_factory: MysqlFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "_GRACE_S", 0.1)
    server = mysql_factory(GTIDS)
    account = server.create_capture_user()
    async with connected_with(server, account, read_timeout_s=5.0) as source:
        stop(server.pid)
        with pytest.raises(Transient, match="didn't answer in time: SELECT 1"):
            await ask(source, "SELECT 1")
        assert not source.usable
        with pytest.raises(Transient, match=f"didn't answer in time: connecting to .*:{server.port}"):
            await Source.connect(settings(server, account, connect_timeout_s=0.5))


async def test_a_name_that_leads_nowhere_may_lead_somewhere_later(mysql: MysqlServer) -> None:
    nowhere = settings(mysql, mysql.create_capture_user(), host="nowhere.invalid")
    with pytest.raises(Transient, match=r"nowhere\.invalid"):
        await Source.connect(nowhere)


async def test_a_log_that_falls_silent_is_asked_for_anew(mysql_factory: MysqlFactory, tmp_path: Path) -> None:
    server = mysql_factory({**GTIDS, **FULL_METADATA})
    server.sql("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)")
    plain = pipeline(server, tmp_path, "d")
    with DelayedLog(server.port) as proxy:
        async with running(
            replace(plain, source=replace(plain.source, port=proxy.port, read_timeout_s=2.0))
        ) as service:
            await service.until(lambda: service.status(Name.BINLOG_READER).get("log"), "the log has begun")
            proxy.delay_s = HELD
            await service.until(
                lambda: "silent for 2.0 s" in service.supervisor.failures.get(Name.BINLOG_READER, ""),
                "it's noticed",
            )
            server.sql("INSERT INTO d.t VALUES (1)")
            proxy.delay_s = 0
            await service.caught_up(server)
            await service.stop()
    assert unequal(server, tmp_path / "journal", TableId("d", "t")) == []


# Two heartbeats.
SILENCE_S = 1.0


async def unbegun(server: MysqlServer, proxy: DelayedLog) -> tuple[BinlogDump, asyncio.Task[int]]:
    """Returns a log that was requested, and of which nothing has come."""
    account, at = server.create_capture_user(), GtidSet.parse(server.executed())
    proxy.delay_s = HELD
    through = settings(server, account, port=proxy.port, read_timeout_s=SILENCE_S, connect_timeout_s=1.0)
    dump = await BinlogDump.open(through, at, server.uuid)
    return dump, asyncio.create_task(dump.receive())


async def test_a_log_whose_first_byte_comes_late_is_waited_for(mysql_factory: MysqlFactory) -> None:
    server = mysql_factory(GTIDS)
    with DelayedLog(server.port) as proxy, capture_logs() as logs:
        dump, first = await unbegun(server, proxy)
        await until(
            lambda: [e["waited_s"] for e in logs if e["event"] == "waiting for the log to begin"][2:],
            "it's asked for the third time",
        )
        assert not first.done()
        proxy.delay_s = 0
        assert await first
        dump.close()


async def test_a_log_that_the_server_has_no_thread_for_is_given_up(mysql_factory: MysqlFactory) -> None:
    server = mysql_factory(GTIDS)
    with DelayedLog(server.port) as proxy:
        dump, first = await unbegun(server, proxy)
        [thread] = await until(
            lambda: [each.id for each in process_list(server) if each.command == "Binlog Dump GTID"],
            "the server has a thread for it",
        )
        server.sql(f"KILL {thread}")
        with pytest.raises(Transient, match="the server has no thread for it any more"):
            await first
        dump.close()


async def test_a_log_that_was_sent_and_never_comes_is_given_up(
    mysql_factory: MysqlFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binlog_dump, "_ON_THE_WAY_S", 2 * SILENCE_S)
    server = mysql_factory(GTIDS)
    with DelayedLog(server.port) as proxy:
        dump, first = await unbegun(server, proxy)
        with pytest.raises(Transient, match=r"the server says of its thread: .* has sent all"):
            await first
        dump.close()


async def test_a_server_that_stands_still_before_the_first_byte_is_noticed(
    mysql_factory: MysqlFactory,
) -> None:
    server = mysql_factory(GTIDS)
    with DelayedLog(server.port) as proxy:
        dump, first = await unbegun(server, proxy)
        stop(server.pid)
        with pytest.raises(Transient, match="didn't answer in time"):
            await first
        dump.close()


async def test_capture_begins_though_the_log_comes_late(mysql_factory: MysqlFactory, tmp_path: Path) -> None:
    server = mysql_factory({**GTIDS, **FULL_METADATA})
    server.sql("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)")
    plain = pipeline(server, tmp_path, "d")
    with DelayedLog(server.port, 3 * SILENCE_S) as proxy:
        source = replace(plain.source, port=proxy.port, read_timeout_s=SILENCE_S)
        async with running(replace(plain, source=source)) as service:
            await service.until(
                lambda: (
                    not service.supervisor.failures.get(Name.BINLOG_READER)
                    and service.status(Name.BINLOG_READER).get("log")
                ),
                "the log has begun to come",
            )
            assert not service.supervisor.failures.get(Name.BINLOG_READER)
            server.sql("INSERT INTO d.t VALUES (1)")
            await service.caught_up(server)
            await service.stop()
    assert unequal(server, tmp_path / "journal", TableId("d", "t")) == []


@pytest.mark.parametrize(
    "actor",
    [
        BinlogReader,
        SchemaVerifier,
        WatermarkCoordinator,
        ChunkSelector,
        JournalWriter,
        SignalListener,
        SparkSink,
    ],
)
def test_an_actor_that_hangs_is_found_in_time(actor: type[Actor[object]]) -> None:
    assert actor.patience + RestartLimits().look_every_s < HUNG_AFTER_S


async def test_a_password_may_be_changed_while_capture_runs(
    mysql_factory: MysqlFactory, tmp_path: Path
) -> None:
    server = mysql_factory({**GTIDS, **FULL_METADATA})
    server.sql("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)", "INSERT INTO d.t VALUES (1)")
    plain = pipeline(server, tmp_path, "d")
    file = tmp_path / "password"
    file.write_text(f"{plain.source.password.value}\n")
    source = replace(plain.source, password=Secret("read anew", file))
    async with running(replace(plain, source=source)) as service:
        await service.begun()
        server.sql(f"ALTER USER '{source.user}'@'%' IDENTIFIED BY 'the new one'")
        cut(server)
        await service.until(
            lambda: "Access denied" in service.supervisor.failures.get(Name.BINLOG_READER, ""), "it's refused"
        )
        file.write_text("the new one\n")
        await service.execute("s")
        await service.completed("s")
        await service.caught_up(server)
        await service.stop()
    assert unequal(server, tmp_path / "journal", TableId("d", "t")) == []


async def test_a_log_that_is_purged_while_nobody_reads_it_stops_by_name(
    mysql_factory: MysqlFactory, tmp_path: Path
) -> None:
    server = mysql_factory({**GTIDS, **FULL_METADATA})
    server.sql("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)")
    plain = pipeline(server, tmp_path, "d")
    with DelayedLog(server.port) as proxy:
        async with running(replace(plain, source=replace(plain.source, port=proxy.port))) as service:
            await service.begun()
            await service.caught_up(server)
            passed = GtidSet.parse(server.executed())
            proxy.leads_to = 1  # where no server listens
            cut(server)
            server.sql("INSERT INTO d.t VALUES (1)")
            server.purge_binlogs()
            proxy.leads_to = server.port
            outcome = await service.end()
    assert outcome.code is ExitCode.DEFINITE
    gone = GtidSet.parse(server.executed()) - passed
    assert f"the binlog that we need was purged: {gone}; " in outcome.message
