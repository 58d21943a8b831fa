"""XA transactions without their rows at commit, and changes that are logged as statements.

None of them ends the pipeline: the tables that they may have changed are read again, and all others continue.
"""

from contextlib import closing
from pathlib import Path

import pytest

from deploy.toolchain.mysql_server import FULL_METADATA, GTIDS, GTIDS_56, MysqlServer
from pipeline.binlog.slice import SliceBound
from pipeline.config.settings import Settings, SnapshotMode
from pipeline.gtid.gtid_set import NO_GTIDS, GtidSet
from pipeline.messages.signals import SignalAccepted
from pipeline.messages.topology import ActorName as Name
from pipeline.schema.table_schema import TableId
from tests.servers.journal_oracle import entries, unequal
from tests.servers.mysql import MysqlFactory
from tests.servers.service import Running, pipeline, running

T, U = TableId("d", "t"), TableId("d", "u")


@pytest.fixture
def server(mysql_factory: MysqlFactory) -> MysqlServer:
    """With two captured tables, and one that isn't."""
    server = mysql_factory({**GTIDS, **FULL_METADATA})
    server.sql(
        "CREATE DATABASE d",
        "CREATE DATABASE elsewhere",
        *(f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT)" for name in ("d.t", "d.u", "elsewhere.t")),
        *(f"INSERT INTO {name} VALUES (1, 0)" for name in ("d.t", "d.u", "elsewhere.t")),
    )
    return server


def prepare(server: MysqlServer, xid: str, *statements: str) -> GtidSet:
    """The first phase, by a client that's gone then; its GTID."""
    before = GtidSet.parse(server.executed())
    server.sql(f"XA START '{xid}'", *statements, f"XA END '{xid}'", f"XA PREPARE '{xid}'")
    return GtidSet.parse(server.executed()) - before


def captured(server: MysqlServer, folder: Path) -> Settings:
    return pipeline(server, folder, "d", mode=SnapshotMode.INITIAL)


async def equal(
    service: Running, server: MysqlServer, settings: Settings, waiting: GtidSet = NO_GTIDS
) -> None:
    """All but what waits has passed, all snapshots have ended, and the mirrors are the source."""
    wanted = GtidSet.parse(server.executed()) - waiting

    def settled() -> bool:
        snapshots = service.status().get("snapshots", [])
        states = {table["state"] for each in snapshots for table in each["tables"]}
        return states <= {"completed"} and wanted <= sealed(service)

    await service.until(settled, "it's settled")
    await service.until(lambda: unequal(server, Path(settings.journal.path), T, U) == [], "they're equal")


def sealed(service: Running) -> GtidSet:
    """Returns the position in the journal."""
    return GtidSet.parse(service.status(Name.JOURNAL_WRITER).get("position") or "")


def begun_anew(settings: Settings) -> set[str]:
    """Returns the tables whose mirrors have begun again."""
    last = entries(Path(settings.journal.path))[-1].checkpoint
    restarts = (each for each in last.snapshots if each.id.startswith("restart-"))
    return {table.name for each in restarts for table in each.tables}


async def test_what_was_prepared_before_the_first_start(server: MysqlServer, tmp_path: Path) -> None:
    settings = captured(server, tmp_path)
    prepare(server, "ours", "INSERT INTO d.t VALUES (2, 0)", "UPDATE d.u SET v = 1")
    prepare(server, "theirs", "UPDATE elsewhere.t SET v = 1")
    async with running(settings) as service:
        await service.completed("initial-0")
        server.sql("XA COMMIT 'ours'")
        await equal(service, server, settings)
        server.sql("XA COMMIT 'theirs'")
        await equal(service, server, settings)
        await service.stop()
    async with running(settings) as service:
        server.sql("INSERT INTO d.t VALUES (3, 0)")
        await equal(service, server, settings)
        await service.stop()


async def test_what_was_prepared_elsewhere_and_forgotten_holds_nothing(
    server: MysqlServer, tmp_path: Path
) -> None:
    settings = captured(server, tmp_path)
    async with running(settings) as service:
        await service.completed("initial-0")
        prepare(server, "theirs", "UPDATE elsewhere.t SET v = 1")
        await service.caught_up(server)
        told = service.status(Name.BINLOG_READER)["prepared_xa"]
        assert [(each["tables"], each["holds_the_position"]) for each in told] == [(["elsewhere.t"], False)]
        assert GtidSet.parse(server.executed()) <= GtidSet.parse(service.status()["position"])
        await service.stop()
    server.sql("INSERT INTO d.t VALUES (2, 0)")
    async with running(settings) as service:
        await equal(service, server, settings)
        server.sql("XA COMMIT 'theirs'")
        await service.caught_up(server)
        assert service.status(Name.BINLOG_READER)["prepared_xa"] == []
        await service.stop()
    assert begun_anew(settings) == set()


async def test_what_was_prepared_here_and_purged_has_its_tables_read_anew(
    server: MysqlServer, tmp_path: Path
) -> None:
    settings = captured(server, tmp_path)
    async with running(settings) as service:
        await service.completed("initial-0")
        waiting = prepare(server, "ours", "INSERT INTO d.t VALUES (2, 0)")
        server.sql("INSERT INTO d.u VALUES (3, 0)")
        await service.until(
            lambda: any(each["holds_the_position"] for each in _prepared(service)), "it holds the position"
        )
        await equal(service, server, settings, waiting)
        await service.stop()
    server.purge_binlogs()
    async with running(settings) as service:
        await equal(service, server, settings)
        server.sql("XA COMMIT 'ours'", "INSERT INTO d.u VALUES (4, 0)")
        await equal(service, server, settings)
        await service.stop()
    assert begun_anew(settings) == {"t"}


async def test_what_is_prepared_by_a_name_that_the_log_never_ended(
    server: MysqlServer, tmp_path: Path
) -> None:
    settings = captured(server, tmp_path)
    async with running(settings) as service:
        await service.completed("initial-0")
        prepare(server, "ours", "INSERT INTO d.t VALUES (2, 0)")
        server.sql("SET sql_log_bin = 0", "XA ROLLBACK 'ours'")
        prepare(server, "ours", "INSERT INTO d.t VALUES (2, 1)")
        server.sql("XA COMMIT 'ours'", "INSERT INTO d.u VALUES (3, 0)")
        await equal(service, server, settings)
        await service.stop()
    server.purge_binlogs()
    async with running(settings) as service:
        server.sql("INSERT INTO d.u VALUES (4, 0)")
        await equal(service, server, settings)
        await service.stop()
    assert begun_anew(settings) == set()


def _prepared(service: Running) -> list[dict[str, bool]]:
    told: list[dict[str, bool]] = service.status(Name.BINLOG_READER).get("prepared_xa", [])
    return told


@pytest.mark.parametrize("end", ["COMMIT 'ours'", "ROLLBACK 'ours'"])
async def test_between_its_phases_a_restart_costs_nothing(
    server: MysqlServer, tmp_path: Path, end: str
) -> None:
    settings = captured(server, tmp_path)
    async with running(settings) as service:
        await service.completed("initial-0")
        waiting = prepare(server, "ours", "INSERT INTO d.t VALUES (2, 0)")
        server.sql("INSERT INTO d.u VALUES (3, 0)")
        await equal(service, server, settings, waiting)
        await service.stop()
    async with running(settings) as service:
        server.sql(f"XA {end}")
        await equal(service, server, settings)
        await service.stop()
    assert begun_anew(settings) == set()


async def test_one_with_more_rows_than_may_wait(
    server: MysqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeline.binlog.stream.SliceBound", lambda: SliceBound(bytes=1000, held=2000))
    settings = captured(server, tmp_path)
    rows = ", ".join(f"({key}, 0)" for key in range(10, 600))
    async with running(settings) as service:
        await service.completed("initial-0")
        prepare(server, "ours", f"INSERT INTO d.t VALUES {rows}")
        server.sql("XA COMMIT 'ours'")
        await equal(service, server, settings)
        server.sql("XA START 'o'", "DELETE FROM d.t WHERE id > 50", "XA END 'o'", "XA COMMIT 'o' ONE PHASE")
        await equal(service, server, settings)
        await service.stop()
    assert begun_anew(settings) == {"t"}


async def test_one_with_more_rows_than_a_slice_has(
    server: MysqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They come in parts at its commit, also in another run than before."""
    monkeypatch.setattr("pipeline.binlog.stream.SliceBound", lambda: SliceBound(bytes=1000))
    settings = captured(server, tmp_path)
    rows = ", ".join(f"({key}, 0)" for key in range(10, 600))
    async with running(settings) as service:
        await service.completed("initial-0")
        prepare(server, "ours", f"INSERT INTO d.t VALUES {rows}")
        server.sql("INSERT INTO d.u VALUES (2, 0)", "XA COMMIT 'ours'")
        await equal(service, server, settings)
        waiting = prepare(server, "later", "DELETE FROM d.t WHERE id > 50", "UPDATE d.t SET v = 1")
        server.sql("INSERT INTO d.u VALUES (3, 0)")
        await service.until(lambda: GtidSet.parse(server.executed()) - waiting <= sealed(service), "it waits")
        await service.drop()
    async with running(settings) as service:
        server.sql("XA COMMIT 'later'")
        await equal(service, server, settings)
        await service.stop()
    assert begun_anew(settings) == set()


async def test_what_an_old_server_commits_behind_its_crash_is_not_in_its_log(
    mysql56_factory: MysqlFactory, tmp_path: Path
) -> None:
    server = mysql56_factory(GTIDS_56)
    server.sql(
        "CREATE DATABASE d",
        *(f"CREATE TABLE d.{name} (id INT PRIMARY KEY, v INT)" for name in ("t", "u")),
        "INSERT INTO d.t VALUES (1, 0)",
    )
    with closing(server.connect()) as connection, connection.cursor() as cursor:
        for statement in ("XA START 'x'", "INSERT INTO d.t VALUES (2, 0)", "XA END 'x'", "XA PREPARE 'x'"):
            cursor.execute(statement)
        server.kill()
    server.start()
    settings = captured(server, tmp_path)
    async with running(settings) as service:
        await service.completed("initial-0")
        before = server.executed()
        server.sql("XA COMMIT 'x'", "INSERT INTO d.u VALUES (1, 0)")
        logged = GtidSet.parse(server.executed()) - GtidSet.parse(before)
        assert logged.count() == 1, "it's the INSERT"
        await service.until(lambda: unequal(server, Path(settings.journal.path), U) == [], "u is equal")
        assert unequal(server, Path(settings.journal.path), T) != []
        assert isinstance(await service.tell("execute-snapshot", "again", "d.t"), SignalAccepted)
        await service.completed("again")
        await equal(service, server, settings)
        await service.stop()


async def test_a_session_that_logs_statements(server: MysqlServer, tmp_path: Path) -> None:
    settings = captured(server, tmp_path)
    async with running(settings) as service:
        await service.completed("initial-0")
        server.sql(
            "SET SESSION binlog_format = 'STATEMENT'",
            "UPDATE d.t SET v = v + 1",
            "UPDATE elsewhere.t SET v = v + 1",
        )
        await equal(service, server, settings)
        await service.stop()
    assert begun_anew(settings) == {"t", "u"}


@pytest.mark.parametrize("version", ["9.7", "5.6"])
async def test_a_load_data_of_a_session_that_logs_statements(
    mysql_factory: MysqlFactory, mysql56_factory: MysqlFactory, tmp_path: Path, version: str
) -> None:
    """It says in which databases it changed something. A table without a key can't be read again, and stops."""
    server = mysql56_factory(GTIDS_56) if version == "5.6" else mysql_factory(GTIDS)
    names = ("d.t (id INT PRIMARY KEY, v INT)", "d.loose (v INT)", "elsewhere.t (v INT)")
    server.sql("CREATE DATABASE d", "CREATE DATABASE elsewhere", *(f"CREATE TABLE {each}" for each in names))
    (tmp_path / "rows").write_text("9\n")
    load = f"LOAD DATA INFILE '{tmp_path / 'rows'}' INTO TABLE "
    settings = captured(server, tmp_path)
    async with running(settings) as service:
        await service.completed("initial-0")
        server.sql("SET SESSION binlog_format = 'STATEMENT'", f"{load} elsewhere.t", f"{load} elsewhere.t")
        loaded = GtidSet.parse(server.executed())
        await service.until(lambda: loaded <= sealed(service), "it's sealed")
        assert service.status()["stopped"] == {}
        assert begun_anew(settings) == set()
        server.sql("SET SESSION binlog_format = 'STATEMENT'", f"{load} d.t (id)")
        await service.until(lambda: "d.loose" in service.status()["stopped"], "it stops by name")
        await service.until(lambda: begun_anew(settings) == {"t"}, "the other one is read again")
        await service.until(
            lambda: unequal(server, Path(settings.journal.path), T) == [], "the row has come that was loaded"
        )
        await service.stop()
