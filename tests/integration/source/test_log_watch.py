"""A stream that sends heartbeats and not what its server commits: it's noticed, and the reason is named."""

from dataclasses import replace
from pathlib import Path

import pytest

from actors.runtime.supervisor import ExitCode
from actors.source import binlog_dump, log_watch
from deploy.toolchain.mysql_server import (
    FULL_METADATA,
    GTIDS,
    GTIDS_56,
    WITHOUT_GTIDS,
    WITHOUT_GTIDS_56,
    MysqlServer,
)
from pipeline.config.settings import Settings, SignalSettings, SnapshotMode, Watermark
from pipeline.errors import Transient
from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.gtid_set import GtidSet
from pipeline.messages.topology import ActorName as Name
from tests.integration.service.test_without_gtids import COLUMNS, SIGNALS
from tests.servers.mysql import MysqlFactory
from tests.servers.replicas import follow
from tests.servers.service import Running, pipeline, running
from tests.servers.source import settings

OTHER = "11111111-1111-1111-1111-111111111111"


@pytest.fixture(autouse=True)
def looked_at_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """The source's log is looked at often, and the source says often that it has nothing to send."""
    monkeypatch.setattr(log_watch, "LOG_LOOK_EVERY_S", 0.3)
    monkeypatch.setattr(binlog_dump, "_HEARTBEAT_S", 0.5)


def made(server: MysqlServer) -> MysqlServer:
    """The server with a captured table, and nothing of it in another file of the log than the first."""
    server.sql("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, v INT)")
    return server


def insert(server: MysqlServer, first: int, count: int) -> None:
    server.sql(*(f"INSERT INTO d.t VALUES ({key}, 0)" for key in range(first, first + count)))


async def reading(service: Running, server: MysqlServer) -> None:
    """All that the server has executed has passed, and the log comes."""
    await service.caught_up(server)
    await service.until(lambda: service.status(Name.BINLOG_READER).get("log"), "the log comes")


async def ends_by_name(service: Running) -> str:
    """Returns what the service ends with."""
    outcome = await service.end()
    assert outcome.code is ExitCode.DEFINITE
    return outcome.message


def without_gtids(server: MysqlServer, folder: Path) -> Settings:
    """Capture by coordinates in the log, with watermarks in a table."""
    server.sql("CREATE DATABASE tidemark", f"CREATE TABLE tidemark.signals ({COLUMNS})")
    settings = pipeline(server, folder, "d", watermark=Watermark.SIGNAL_TABLE, mode=SnapshotMode.INITIAL)
    server.sql(f"GRANT SELECT, INSERT ON tidemark.signals TO '{settings.source.user}'@'%'")
    return replace(settings, signals=SignalSettings(table=SIGNALS))


@pytest.mark.parametrize("version", ["9.7", "5.6"])
async def test_a_log_that_is_reset_under_the_stream_and_is_shorter_than_before(
    mysql_factory: MysqlFactory, mysql56_factory: MysqlFactory, tmp_path: Path, version: str
) -> None:
    old = version == "5.6"
    server = made(mysql56_factory(GTIDS_56) if old else mysql_factory({**GTIDS, **FULL_METADATA}))
    insert(server, 0, 30)
    async with running(pipeline(server, tmp_path, "d")) as service:
        await reading(service, server)
        executed = GtidSet.parse(server.executed()).count()
        server.sql("RESET MASTER" if old else "RESET BINARY LOGS AND GTIDS")
        insert(server, 1000, 1)
        message = await ends_by_name(service)
    assert f"it hasn't executed {server.uuid}:2-{executed}, which has passed here" in message


@pytest.mark.parametrize("version", ["9.7", "5.6"])
async def test_a_log_of_several_files_that_is_reset_under_the_stream(
    mysql_factory: MysqlFactory,
    mysql56_factory: MysqlFactory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    version: str,
) -> None:
    """The server finds no file after the one that it reads, and ends the connection before a look."""
    monkeypatch.setattr(log_watch, "LOG_LOOK_EVERY_S", 3600)
    old = version == "5.6"
    server = made(mysql56_factory(GTIDS_56) if old else mysql_factory({**GTIDS, **FULL_METADATA}))
    server.rotate_binlog()
    server.rotate_binlog()
    async with running(pipeline(server, tmp_path, "d")) as service:
        await service.begun()
        await reading(service, server)
        executed = GtidSet.parse(server.executed()).count()
        server.sql("RESET MASTER" if old else "RESET BINARY LOGS AND GTIDS")
        insert(server, 1000, 1)
        message = await ends_by_name(service)
    assert f"it hasn't executed {server.uuid}:2-{executed}, which has passed here" in message
    assert "begin a new journal and a new lake (docs/operations.md" in message


async def test_a_log_that_is_reset_under_the_stream_and_is_longer_than_before(
    mysql56_factory: MysqlFactory, tmp_path: Path
) -> None:
    """MySQL 5.6 never notices it. A newer server ends the connection."""
    server = made(mysql56_factory(GTIDS_56))
    settings = pipeline(server, tmp_path, "d")
    server.sql("SET TIMESTAMP = 1700000000", "INSERT INTO d.t VALUES (1, 0)")
    async with running(settings) as service:
        await reading(service, server)
        executed = GtidSet.parse(server.executed()).count()
        server.sql("RESET MASTER")
        insert(server, 1000, 30)
        message = await ends_by_name(service)
    assert f"the source has another history: {server.uuid}:{executed}, which has passed here" in message


async def test_without_gtids_a_log_that_is_reset_under_the_stream(
    mysql_factory: MysqlFactory, tmp_path: Path
) -> None:
    server = made(mysql_factory({**WITHOUT_GTIDS, **FULL_METADATA}))
    settings = without_gtids(server, tmp_path)
    insert(server, 0, 30)
    async with running(settings) as service:
        await service.completed("initial-0")
        server.sql("RESET BINARY LOGS AND GTIDS")
        message = await ends_by_name(service)
    assert "the log was reset (RESET MASTER)" in message


async def test_a_server_that_becomes_a_replica_and_does_not_log_what_it_receives(
    mysql_factory: MysqlFactory, tmp_path: Path
) -> None:
    server = made(mysql_factory({**GTIDS, **FULL_METADATA, "log_replica_updates": "OFF"}))
    primary = made(mysql_factory({**GTIDS, **FULL_METADATA}))
    primary.create_capture_user()
    primary.sql("RESET BINARY LOGS AND GTIDS")
    async with running(pipeline(server, tmp_path, "d")) as service:
        await reading(service, server)
        follow(server, primary)
        insert(primary, 0, 1)
        message = await ends_by_name(service)
    assert f"the binlog that we need was purged: {primary.uuid}:1" in message
    assert server.sql("SELECT id FROM d.t") == [(0,)]


@pytest.mark.parametrize("version", ["9.7", "5.6"])
async def test_without_gtids_a_server_that_becomes_a_replica_and_does_not_log_what_it_receives(
    mysql_factory: MysqlFactory, mysql56_factory: MysqlFactory, tmp_path: Path, version: str
) -> None:
    """As a primary to which another one succeeds: 5.6 logs no updates by itself."""
    old = version == "5.6"
    server = made(
        mysql56_factory(WITHOUT_GTIDS_56)
        if old
        else mysql_factory({**WITHOUT_GTIDS, **FULL_METADATA, "log_replica_updates": "OFF"})
    )
    settings = without_gtids(server, tmp_path)
    async with running(settings) as service:
        await service.completed("initial-0")
        source, replica = ("MASTER", "SLAVE") if old else ("REPLICATION SOURCE", "REPLICA")
        word = source.split()[-1]
        server.sql(
            f"CHANGE {source} TO {word}_HOST = '127.0.0.1', {word}_PORT = 1, {word}_USER = 'nobody'",
            f"START {replica}",
        )
        message = await ends_by_name(service)
    assert ("log_slave_updates" if old else "log_replica_updates") + " is OFF and has to be ON" in message


async def test_a_stream_in_a_file_from_before_a_restart_with_another_name_of_the_log(
    mysql_factory: MysqlFactory,
) -> None:
    server = mysql_factory({**GTIDS, **FULL_METADATA})
    server.rotate_binlog()
    read = Coordinates(server.rotate_binlog(), 157)
    server.stop()
    server.options |= {"log_bin": "other", "log_bin_index": "binlog.index"}
    server.start()
    assert server.sql("SHOW BINARY LOG STATUS")[0][0] == "other.000001"
    source = settings(server, server.create_capture_user())
    watch = log_watch.ReadLogWatch(source, server.uuid, lambda: (read, False, 1))
    await watch.look()
    await watch.look()
    server.purge_binlogs()
    with pytest.raises(Transient, match=f"it was read up to {read}: it was reset"):
        await watch.look()


async def test_transactions_that_were_loaded_and_not_logged(
    mysql_factory: MysqlFactory, tmp_path: Path
) -> None:
    """As a dump of another server does it that was made with its GTIDs."""
    server = made(mysql_factory({**GTIDS, **FULL_METADATA}))
    async with running(pipeline(server, tmp_path, "d")) as service:
        await reading(service, server)
        server.sql(
            "SET sql_log_bin = 0", "INSERT INTO d.t VALUES (1, 0)", f"SET GLOBAL gtid_purged = '+{OTHER}:1-9'"
        )
        message = await ends_by_name(service)
    assert f"the binlog that we need was purged: {OTHER}:1-9" in message
