"""Servers that give the GTIDs which have passed here to other transactions: they are found out, and named."""

import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from actors.runtime.supervisor import ExitCode
from actors.source.connection import Source
from actors.source.witnesses import contradiction
from deploy.toolchain.mysql_server import (
    CAPTURE,
    FULL_METADATA,
    GTIDS,
    GTIDS_56,
    WITHOUT_GTIDS,
    WITHOUT_GTIDS_56,
    MysqlServer,
)
from pipeline.config.settings import Settings, SnapshotMode
from pipeline.gtid import coordinates, file_positions, gtid_set, witness
from pipeline.messages.topology import ActorName as Name
from pipeline.snapshot.checkpoint import Checkpoint
from tests.servers.journal_oracle import entries
from tests.servers.mysql import MysqlFactory
from tests.servers.replicas import begun, caught_up, cluster, listing
from tests.servers.service import Running, pipeline, running
from tests.servers.source import settings as source_settings


@pytest.fixture(params=["9.7", "5.6"])
def server(request: pytest.FixtureRequest) -> MysqlServer:
    """A server with GTIDs and a table."""
    factory: MysqlFactory
    if request.param == "5.6":
        factory = request.getfixturevalue("mysql56_factory")
        server = factory(GTIDS_56)
    else:
        factory = request.getfixturevalue("mysql_factory")
        server = factory({**GTIDS, **FULL_METADATA})
    server.sql("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, v INT)")
    return server


def write(server: MysqlServer, keys: Iterable[int], second: int) -> None:
    """Insert rows, each in a transaction of its own; before MySQL 8.0 the log has whole seconds, and this one."""
    server.sql(
        f"SET TIMESTAMP = {1_700_000_000 + second}", *(f"INSERT INTO d.t VALUES ({k}, 0)" for k in keys)
    )


async def captured(settings: Settings, server: MysqlServer) -> None:
    """All that the server has executed has passed."""
    async with running(settings) as service:
        await service.caught_up(server)
        await service.stop()


async def sealed(service: Running, server: MysqlServer) -> None:
    """All that the server has executed is in the journal: what has passed and isn't sealed never happened."""
    all_of_it = gtid_set.GtidSet.parse(server.executed())
    await service.until(
        lambda: all_of_it <= gtid_set.GtidSet.parse(service.status(Name.JOURNAL_WRITER)["position"] or ""),
        "it's sealed",
    )


async def refused(settings: Settings) -> str:
    """What the service ends with."""
    before = entries(Path(settings.journal.path))
    async with running(settings) as service:
        outcome = await service.end()
    assert outcome.code is ExitCode.DEFINITE
    assert entries(Path(settings.journal.path)) == before
    return outcome.message


@pytest.mark.parametrize("mode", [SnapshotMode.NO_DATA, SnapshotMode.WHEN_NEEDED])
async def test_a_log_that_was_reset_and_has_the_same_gtids_again(
    server: MysqlServer, tmp_path: Path, mode: SnapshotMode
) -> None:
    settings = pipeline(server, tmp_path, "d", mode=mode)
    write(server, range(3), 0)
    await captured(settings, server)
    async with running(settings) as service:  # a server that has the same history is none the worse for it
        await service.caught_up(server)
        await service.stop()
    passed = gtid_set.GtidSet.parse(server.executed())
    server.sql("RESET MASTER" if server.parts.version.startswith("5.6") else "RESET BINARY LOGS AND GTIDS")
    write(server, range(100, 100 + 2 * passed.count()), 5)
    assert passed <= gtid_set.GtidSet.parse(server.executed())
    message = await refused(settings)
    assert (
        f"the source has another history: {server.uuid}:{passed.count()}, which has passed here, was"
        in message
    )
    assert "begin a new journal" in message


async def test_a_volume_that_was_restored(server: MysqlServer, tmp_path: Path) -> None:
    settings = pipeline(server, tmp_path, "d")
    write(server, range(3), 0)
    data, copy = server.folder / "data", tmp_path / "copy"
    server.stop()
    shutil.copytree(data, copy)
    server.start()
    write(server, range(3, 7), 1)
    await captured(settings, server)
    server.stop()
    shutil.rmtree(data)
    copy.rename(data)
    server.start()
    write(server, range(20, 25), 9)
    assert "the source has another history" in await refused(settings)


async def test_the_end_of_the_log_is_lost_while_capture_runs(
    mysql_factory: MysqlFactory, tmp_path: Path
) -> None:
    """As with sync_binlog = 0: the server comes back without its last transactions, and writes others at once."""
    server = mysql_factory({**GTIDS, **FULL_METADATA})
    server.sql("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, v INT)")
    settings = pipeline(server, tmp_path, "d")
    data, copy = server.folder / "data", tmp_path / "copy"
    server.stop()
    shutil.copytree(data, copy)
    server.start()
    async with running(settings) as service:
        await service.begun()
        write(server, range(3), 0)
        await sealed(service, server)
        port, server.port = server.port, server.port + 1  # nobody gets there until it has written
        server.kill()
        shutil.rmtree(data)
        copy.rename(data)
        server.start()
        write(server, range(20, 25), 9)
        server.stop()
        server.port = port
        server.start()
        outcome = await service.end()
    assert outcome.code is ExitCode.DEFINITE
    assert "the source has another history" in outcome.message


async def test_of_several_sources_each_ones_last_is_looked_at(
    mysql_factory: MysqlFactory, tmp_path: Path
) -> None:
    """A replica that has another transaction of a name than its primary is refused, whatever came behind it."""
    primary, diverged, sound = cluster(mysql_factory, "second", "third")
    settings = listing(tmp_path, primary, diverged, sound)
    async with begun(settings) as service:
        caught_up(primary, diverged)
        diverged.sql("STOP REPLICA", "RESET REPLICA ALL", "SET GLOBAL read_only = OFF")
        own = gtid_set.GtidSet.parse(primary.executed()).count() + 1
        diverged.sql(
            f"SET gtid_next = '{primary.uuid}:{own}'",
            "UPDATE d.t SET v = -1 WHERE id = 7",
            f"SET gtid_next = '{primary.uuid}:tagged:1'",
            "UPDATE d.t SET v = -2 WHERE id = 8",
        )
        primary.sql(
            "UPDATE d.t SET v = 1 WHERE id = 7",
            "SET gtid_next = 'AUTOMATIC:tagged'",
            "UPDATE d.t SET v = 1 WHERE id = 8",
        )
        await service.caught_up(primary)
        await sealed(service, primary)
        caught_up(primary, sound)
        primary.kill()
        await service.until(
            lambda: service.status(Name.BINLOG_READER).get("server") == sound.uuid, "it's the third"
        )
        await service.stop()
    alone = listing(tmp_path, diverged)
    message = await refused(alone)
    assert f"the source has another history: {primary.uuid}:" in message


@pytest.mark.parametrize("version", ["9.7", "5.6"])
async def test_without_gtids_the_last_place_is_looked_at(
    request: pytest.FixtureRequest, version: str
) -> None:
    factory: MysqlFactory = request.getfixturevalue(
        "mysql56_factory" if version == "5.6" else "mysql_factory"
    )
    server = factory(WITHOUT_GTIDS_56 if version == "5.6" else WITHOUT_GTIDS)
    server.sql("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, v INT)")
    server.create_capture_user("d")
    [(file, begins, *_)] = server.sql(log_status(version))
    write(server, [1], 0)
    settings = source_settings(server, CAPTURE)
    source = await Source.connect(settings)
    try:
        end, _ = await source.end_of_log()
        name = file_positions.transaction_at(server.uuid, coordinates.Coordinates(file, int(begins)))
        last = Checkpoint(file_positions.all_before(server.uuid, end), server=server.uuid)
        other = witness.Witness(name, 1_600_000_000_000_000, 0)
        told = await contradiction(source, settings, replace(last, witnesses=(other,)), "journal")
        assert told is not None and f"{name}, which has passed here, was committed at 2020-09-13" in told
        time = told.partition("its transaction of that name at ")[2].partition(";")[0]
        if version == "5.6":
            assert time == "2023-11-14T22:13:20.000000 UTC"
        events = server.sql(f"SHOW BINLOG EVENTS IN '{file}'")
        [at] = [place for _, place, kind, *_ in events if kind == "Table_map"]
        amid = file_positions.transaction_at(server.uuid, coordinates.Coordinates(file, int(at)))
        none = replace(other, gtid=amid)
        told = await contradiction(source, settings, replace(last, witnesses=(none,)), "journal")
        assert told is not None and "no transaction begins at that place of its log" in told
    finally:
        source.close()


def log_status(version: str) -> str:
    return "SHOW MASTER STATUS" if version == "5.6" else "SHOW BINARY LOG STATUS"
