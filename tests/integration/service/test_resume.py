"""Where a service begins, and what it snapshots without being asked: on a real server, judged on the journal."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from deploy.toolchain.mysql_server import FULL_METADATA, GTIDS, MysqlServer
from pipeline.config.settings import Settings, SnapshotMode
from pipeline.gtid.gtid_set import GtidSet
from pipeline.messages.signals import SignalAccepted
from pipeline.messages.topology import ActorName as Name
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import TableId
from tests.servers.awaiting import WITHIN_S
from tests.servers.delay import HELD, DelayedLog
from tests.servers.gate import Hold
from tests.servers.journal_oracle import entries, replay, unequal
from tests.servers.mysql import MysqlFactory
from tests.servers.service import Running, pipeline, running

A, B, C = (TableId("shop", name) for name in ("a", "b", "c"))


@pytest.fixture
def server(mysql_factory: MysqlFactory) -> MysqlServer:
    """Two tables with a key and rows, and one without a key."""
    server = mysql_factory({**GTIDS, **FULL_METADATA})
    rows = ", ".join(f"({key}, 0)" for key in range(1, 301))
    server.sql(
        "CREATE DATABASE shop",
        "USE shop",
        *(f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT)" for name in ("a", "b")),
        *(f"INSERT INTO {name} VALUES {rows}" for name in ("a", "b")),
        "CREATE TABLE keyless (v INT)",
        "INSERT INTO keyless VALUES (1)",
    )
    return server


def captured(settings: Settings, *tables: str) -> Settings:
    """The same pipeline with just these tables of the shop."""
    return replace(settings, tables=TableFilter(tuple(rf"shop\.{table}" for table in tables)))


async def ended(service: Running, snapshot: str) -> list[str]:
    """The tables of a snapshot that has completed."""
    await service.completed(snapshot)
    return sorted(service.tables(snapshot))


def snapshots(settings: Settings) -> list[str]:
    """The ids of all snapshots that the journal knows at its end."""
    return [each.id for each in entries(Path(settings.journal.path))[-1].checkpoint.snapshots]


async def test_what_is_new_is_snapshotted_once(server: MysqlServer, tmp_path: Path) -> None:
    settings = pipeline(server, tmp_path, "shop", mode=SnapshotMode.INITIAL)
    journal = tmp_path / "journal"
    async with running(captured(settings, "a", "keyless")) as service:
        assert await ended(service, "initial-0") == ["a"]
        assert service.status()["keyless"] == ["shop.keyless"]
        await service.stop()
    assert unequal(server, journal, A) == []

    # A table that the configuration captures from now on, and one that's created while the service runs.
    server.sql("UPDATE shop.a SET v = 1 WHERE id < 9", "INSERT INTO shop.keyless VALUES (2)")
    async with running(captured(settings, "a", "b", "c", "keyless")) as service:
        await service.until(lambda: len(service.status().get("snapshots", [])) == 2, "the second one")
        later = service.status()["snapshots"][-1]["id"]
        assert await ended(service, later) == ["b"]
        server.sql(
            "CREATE TABLE shop.c (id INT PRIMARY KEY, v INT)", "INSERT INTO shop.c VALUES (1, 1), (2, 2)"
        )
        await service.until(lambda: len(service.status()["snapshots"]) == 3, "the third one")
        last = service.status()["snapshots"][-1]["id"]
        assert await ended(service, last) == ["c"]
        await service.caught_up(server)
        await service.stop()
    assert unequal(server, journal, A, B, C) == []
    assert snapshots(settings) == ["initial-0", later, last]

    # And nothing of it again.
    async with running(captured(settings, "a", "b", "c", "keyless")) as service:
        await service.begun()
        server.sql("UPDATE shop.c SET v = 3")
        await service.caught_up(server)
        await service.stop()
    assert unequal(server, journal, A, B, C) == []
    assert snapshots(settings) == ["initial-0", later, last]


async def test_tables_that_are_created_while_others_are_read_join_their_snapshot(
    server: MysqlServer, tmp_path: Path, hold: Hold
) -> None:
    settings = pipeline(server, tmp_path, "shop", mode=SnapshotMode.INITIAL, chunk_rows=10, connections=1)
    gate = hold("select", 1)
    created = tuple(TableId("shop", f"created{number}") for number in range(3))
    async with running(settings) as service:
        await gate.reached.wait()
        for table in created:
            server.sql(
                f"CREATE TABLE shop.{table.name} (id INT PRIMARY KEY, v INT)",
                f"INSERT INTO shop.{table.name} VALUES (1, 1)",
            )
        names = {table.name for table in created}
        await service.until(lambda: names <= service.tables("initial-0").keys(), "all have joined")
        gate.opened.set()
        await service.completed("initial-0")
        assert service.supervisor.failures == {}
        await service.caught_up(server)
        await service.stop()
    assert unequal(server, tmp_path / "journal", A, B, *created) == []
    assert snapshots(settings) == ["initial-0"]


async def test_a_table_that_was_stopped_stays_so(server: MysqlServer, tmp_path: Path, hold: Hold) -> None:
    settings = pipeline(server, tmp_path, "shop", mode=SnapshotMode.INITIAL, chunk_rows=1)
    gate = hold("select", 1)
    async with running(captured(settings, "a")) as service:
        await gate.reached.wait()
        assert isinstance(await service.tell("stop-snapshot", "s", r"shop\.a"), SignalAccepted)
        gate.opened.set()
        await service.stop()
    async with running(captured(settings, "a")) as service:
        await service.begun()
        server.sql("UPDATE shop.a SET v = 1 WHERE id = 1")
        await service.caught_up(server)
        assert service.tables("initial-0")["a"]["state"] == "stopped"
        await service.stop()
    assert snapshots(settings) == ["initial-0"]


async def test_without_data_there_is_silence(server: MysqlServer, tmp_path: Path) -> None:
    settings = pipeline(server, tmp_path, "shop", mode=SnapshotMode.NO_DATA)
    async with running(settings) as service:
        await service.begun()
        server.sql("UPDATE shop.a SET v = 1 WHERE id = 1")
        await service.caught_up(server)
        await service.stop()
    assert snapshots(settings) == []
    assert [change.key for change in replay(tmp_path / "journal", A).changes] == [(1,)]


async def test_a_new_journal_continues_another_reader_of_the_log(server: MysqlServer, tmp_path: Path) -> None:
    settings = pipeline(server, tmp_path, "shop", mode=SnapshotMode.NO_DATA)
    stopped = server.executed()
    server.sql(
        "UPDATE shop.a SET v = 1 WHERE id = 1",
        "ALTER TABLE shop.a ADD COLUMN w INT",
        "UPDATE shop.a SET w = 2 WHERE id = 2",
    )
    settings = replace(settings, source=replace(settings.source, begin_after=stopped))
    async with running(settings) as service:
        await service.begun()
        server.sql("DELETE FROM shop.a WHERE id = 3")
        await service.caught_up(server)
        await service.stop()
    async with running(settings) as service:
        await service.begun()
        server.sql("DELETE FROM shop.a WHERE id = 4")
        await service.caught_up(server)
        await service.stop()
    changes = replay(tmp_path / "journal", A).changes
    assert [change.key for change in changes] == [(1,), (2,), (3,), (4,)]


async def lost(server: MysqlServer, settings: Settings) -> None:
    """Runs the service until all is snapshotted, and purges later changes from the log."""
    async with running(settings) as service:
        await service.completed("initial-0")
        await service.caught_up(server)
        await service.stop()
    server.sql(
        "UPDATE shop.a SET v = 2 WHERE id < 50",
        "DELETE FROM shop.a WHERE id > 290",
        "INSERT INTO shop.b VALUES (1000, 1)",
        "INSERT INTO shop.keyless VALUES (3)",
    )
    server.purge_binlogs()


async def test_a_purged_log_is_begun_anew_where_it_is_needed(server: MysqlServer, tmp_path: Path) -> None:
    settings = pipeline(server, tmp_path, "shop", mode=SnapshotMode.WHEN_NEEDED)
    await lost(server, settings)
    async with running(settings) as service:
        await service.until(lambda: len(service.status().get("snapshots", [])) == 2, "the new one")
        anew = service.status()["snapshots"][-1]["id"]
        server.sql("UPDATE shop.a SET v = v + 1 WHERE id % 3 = 0", "DELETE FROM shop.b WHERE id = 7")
        assert anew.startswith("anew-")
        assert await ended(service, anew) == ["a", "b"]
        assert "no primary key" in service.status()["stopped"]["shop.keyless"]
        await service.caught_up(server)
        await service.stop()
    assert unequal(server, tmp_path / "journal", A, B) == []
    async with running(settings) as service:  # from here on as ever
        await service.begun()
        server.sql("DELETE FROM shop.a WHERE id = 1")
        await service.caught_up(server)
        await service.stop()
    assert unequal(server, tmp_path / "journal", A, B) == []
    assert snapshots(settings) == ["initial-0", anew]


async def anew_with(service: Running, chunks: int) -> str:
    """Returns the id of the snapshot that began again, once it has so many chunks."""
    await service.until(lambda: len(service.status().get("snapshots", [])) == 2, "the new one")
    anew: str = service.status()["snapshots"][-1]["id"]

    def done() -> bool:
        return sum(int(table["chunks"]) for table in service.tables(anew).values()) >= chunks

    await service.until(done, f"{chunks} chunks")
    return anew


async def test_beginning_anew_survives_a_crash(server: MysqlServer, tmp_path: Path) -> None:
    settings = pipeline(server, tmp_path, "shop", mode=SnapshotMode.WHEN_NEEDED, chunk_rows=10)
    await lost(server, settings)
    async with running(settings) as service:
        anew = await anew_with(service, 0)
    async with running(settings) as service:
        assert await anew_with(service, 3) == anew
    async with running(settings) as service:
        assert await anew_with(service, 3) == anew
        await service.completed(anew)
        await service.caught_up(server)
        await service.stop()
    assert unequal(server, tmp_path / "journal", A, B) == []


async def test_a_purged_log_stops_by_name_where_nothing_is_said(server: MysqlServer, tmp_path: Path) -> None:
    settings = pipeline(server, tmp_path, "shop", mode=SnapshotMode.INITIAL)
    await lost(server, settings)
    before = entries(tmp_path / "journal")
    async with running(settings) as service:
        outcome = await service.end()
    assert "the binlog that we need was purged: " in outcome.message
    assert 'set snapshot.mode = "when_needed"' in outcome.message
    assert entries(tmp_path / "journal") == before


async def test_a_signal_sets_the_position_and_every_table_is_snapshotted_there(
    server: MysqlServer, tmp_path: Path
) -> None:
    settings = pipeline(server, tmp_path, "shop", mode=SnapshotMode.INITIAL)
    with DelayedLog(server.port) as proxy:
        settings = replace(settings, source=replace(settings.source, port=proxy.port))
        async with running(captured(settings, "a", "b")) as service:
            await service.completed("initial-0")
            proxy.delay_s = HELD
            server.sql("UPDATE shop.a SET v = 2 WHERE id < 50", "DELETE FROM shop.b WHERE id > 290")
            skipped = GtidSet.parse(server.executed())
            server.sql("UPDATE shop.a SET v = 3 WHERE id < 30", "DELETE FROM shop.b WHERE id < 3")
            assert await set_position(service, "m1", str(skipped)) == "accepted"
            proxy.delay_s = 0  # what's checked there is read from the log
            await service.until(lambda: service.tables("m1"), "capture has begun anew")
            assert skipped <= GtidSet.parse(service.status()["position"])
            assert await ended(service, "m1") == ["a", "b"]
            # To where the server hasn't been, nothing moves.
            await service.caught_up(server)
            before = service.supervisor.actors[Name.WATERMARK_COORDINATOR]
            beyond = f"{service.status()['position']},{server.uuid}:1-1000000"
            assert await set_position(service, "m2", beyond) == "accepted"
            await service.until(
                lambda: service.supervisor.actors[Name.WATERMARK_COORDINATOR] is not before, "it's judged"
            )
            server.sql("UPDATE shop.a SET v = 4 WHERE id = 1")
            await service.caught_up(server)
            await service.stop()
    assert unequal(server, tmp_path / "journal", A, B) == []
    assert snapshots(settings) == ["initial-0", "m1"]
    story = replay(tmp_path / "journal", A)
    assert {change.row["v"] for change in story.changes} == {3, 4}


async def set_position(service: Running, id_: str, position: str) -> str:
    """How a signal that sets the position is answered."""
    told = {"id": id_, "type": "set-binlog-position", "data": {"gtid_set": position}}
    answer = await service.assembly.requests.ask(json.dumps(told).encode(), WITHIN_S)
    return "accepted" if isinstance(answer, SignalAccepted) else answer.reason


async def test_a_server_with_another_history_stops_by_name(
    server: MysqlServer, mysql_factory: MysqlFactory, tmp_path: Path
) -> None:
    settings = pipeline(server, tmp_path, "shop", mode=SnapshotMode.WHEN_NEEDED)
    await lost(server, settings)
    other = mysql_factory({**GTIDS, **FULL_METADATA})
    other.sql("CREATE DATABASE shop")
    other.purge_binlogs()
    elsewhere = replace(pipeline(other, tmp_path, "shop"), snapshot=settings.snapshot)
    async with running(elsewhere) as service:
        outcome = await service.end()
    assert "the source is a divergent server" in outcome.message
