"""Stopped tables begin again by one signal, for any reason of the stop; the journal is the judge."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from actors.http.changes.segment_changes import SegmentChanges
from actors.journal.store import JournalReader
from deploy.toolchain.mysql_server import GTIDS, MysqlServer
from pipeline import metrics as catalogue
from pipeline.journal.changes.place import ReadPlace
from pipeline.messages.signals import SignalAccepted, SignalRejected
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import TableId
from tests.servers.gate import Hold
from tests.servers.journal_oracle import entries, unequal
from tests.servers.mysql import MysqlFactory
from tests.servers.service import Running, pipeline, running

ROWS = ", ".join(f"({key}, {key})" for key in range(1, 401))
# A code that sjis may have, and no character.
NO_CHARACTER = "_sjis x'8540'"


def created(server: MysqlServer, database: str) -> None:
    """A table that's going to stop, and one that never does."""
    for name in ("t", "other"):
        server.sql(
            f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT, s VARCHAR(9) CHARACTER SET sjis)",
            f"INSERT INTO {name} (id, v) VALUES {ROWS}",
            database=database,
        )


async def snapshotted(service: Running) -> None:
    await service.begun()
    await service.execute("s")
    await service.completed("s")


async def stopped(service: Running, table: TableId, *, counts: bool = True) -> str:
    """Why it has stopped, once it has. One that the configuration leaves out doesn't count as stopped."""
    reason: str = await service.until(
        lambda: service.status().get("stopped", {}).get(str(table)), "it's stopped"
    )
    assert rf"tidemark signal CONFIG recapture --tables '{table.database}\.{table.name}'" in reason
    assert gauge(service, table) == counts
    return reason


def gauge(service: Running, table: TableId) -> float:
    """Whether the metric says that it has stopped."""
    return service.assembly.metrics.value(catalogue.TABLE_STOPPED, table=str(table), part="capture")


def noticed(journal: Path) -> tuple[list[TableId], set[TableId]]:
    """The tables of which a reader of the changes learns that they have stopped, and that they begin again.

    A statement that stops a table may have begun it again before, and a segment may end in between.
    """
    reader = JournalReader(str(journal))
    changes = SegmentChanges(reader, ReadPlace(reader.consumers.first()), frozenset())
    notices = [read.notices for read in changes.read(reader.last_segment())]
    return [t for each in notices for t in each.stopped], {t for each in notices for t in each.restarted}


async def recapture(service: Running, id_: str, table: TableId) -> None:
    answer = await service.tell("recapture", id_, rf"{table.database}\.{table.name}")
    assert isinstance(answer, SignalAccepted), answer


async def ended(service: Running, id_: str) -> dict[str, str]:
    """How the snapshot of a recapture has ended, by table."""
    over = {"completed", "failed", "stopped"}

    def told() -> dict[str, str]:
        states = {name: str(table["state"]) for name, table in service.tables(id_).items()}
        return states if states and over.issuperset(states.values()) else {}

    return await service.until(told, f"the end of {id_}")


Stop = Callable[[MysqlServer, str], None]


def undecodable(server: MysqlServer, database: str) -> None:
    server.sql(f"INSERT INTO t VALUES (1000, 1, {NO_CHARACTER})", database=database)


def mended(server: MysqlServer, database: str) -> None:
    server.sql("DELETE FROM t WHERE id = 1000", database=database)


def without_rows(server: MysqlServer, database: str) -> None:
    server.sql("ALTER TABLE t ENGINE=BLACKHOLE", database=database)


def with_rows(server: MysqlServer, database: str) -> None:
    server.sql("ALTER TABLE t ENGINE=InnoDB", f"INSERT INTO t (id, v) VALUES {ROWS}", database=database)


@pytest.mark.parametrize(("stop", "mend"), [(undecodable, mended), (without_rows, with_rows)])
async def test_a_stopped_table_begins_again_while_the_others_go_on(
    mysql: MysqlServer, database: str, tmp_path: Path, stop: Stop, mend: Stop
) -> None:
    created(mysql, database)
    t, other = TableId(database, "t"), TableId(database, "other")
    settings = pipeline(mysql, tmp_path, database, chunk_rows=50)
    async with running(settings) as service:
        await snapshotted(service)
        stop(mysql, database)
        why = await stopped(service, t)
        refused = await service.tell("execute-snapshot", "e", rf"{database}\.t")
        assert refused == SignalRejected("e", f"{t}: it has stopped: {why}")
        mysql.sql(
            "UPDATE t SET v = -1 WHERE id < 9", "UPDATE other SET v = -1 WHERE id < 9", database=database
        )
        mend(mysql, database)
        mysql.sql(
            "DELETE FROM t WHERE id = 300", database=database
        )  # nothing of before may stay in the mirror
        await service.caught_up(mysql)
        await recapture(service, "r", t)
        mysql.sql(
            "UPDATE t SET v = -2 WHERE id = 5", "UPDATE other SET v = -2 WHERE id = 5", database=database
        )
        assert await ended(service, "r") == {"t": "completed"}
        mysql.sql("UPDATE t SET v = -3 WHERE id = 6", "DELETE FROM t WHERE id = 7", database=database)
        await service.caught_up(mysql)
        assert service.status()["stopped"] == {}
        assert gauge(service, t) == 0
        assert "taken before" in str(await service.tell("recapture", "r", rf"{database}\.t"))
        assert service.supervisor.failures == {}  # that capture began again wasn't a failure
        await service.stop()
    assert unequal(mysql, tmp_path / "journal", t, other) == []
    assert noticed(tmp_path / "journal") == ([t], {t})
    async with running(settings) as service:  # and once is enough
        await service.begun()
        mysql.sql("UPDATE t SET v = -4 WHERE id = 6", database=database)
        await service.caught_up(mysql)
        assert service.status()["stopped"] == {}
        await service.stop()
    assert unequal(mysql, tmp_path / "journal", t, other) == []
    assert sum(each.id == "r" for each in entries(tmp_path / "journal")[-1].checkpoint.snapshots) == 1


async def test_a_table_that_was_left_out_is_begun_again_once_it_is_captured(
    mysql: MysqlServer, database: str, tmp_path: Path
) -> None:
    created(mysql, database)
    t, other = TableId(database, "t"), TableId(database, "other")
    settings = pipeline(mysql, tmp_path, database)
    narrow = replace(settings, tables=TableFilter((rf"{database}\.other",)))
    async with running(settings) as service:
        await snapshotted(service)
        await service.stop()
    async with running(narrow) as service:
        assert "the configuration doesn't capture it any more" in await stopped(service, t, counts=False)
        await recapture(service, "early", t)  # and the configuration still doesn't
        assert await ended(service, "early") == {"t": "failed"}
        assert "the configuration doesn't capture it" in service.tables("early")["t"]["reason"]
        assert list(service.status()["stopped"]) == [str(t)]
        mysql.sql("UPDATE t SET v = -1 WHERE id < 9", database=database)
        await service.caught_up(mysql)
        await service.stop()
    async with running(settings) as service:
        await stopped(service, t)
        await recapture(service, "r", t)
        assert await ended(service, "r") == {"t": "completed"}
        await service.caught_up(mysql)
        await service.stop()
    assert unequal(mysql, tmp_path / "journal", t, other) == []


async def test_what_the_source_has_no_more_fails_by_name_and_what_is_not_mended_stops_again(
    mysql: MysqlServer, database: str, tmp_path: Path
) -> None:
    created(mysql, database)
    t, other = TableId(database, "t"), TableId(database, "other")
    async with running(pipeline(mysql, tmp_path, database)) as service:
        await snapshotted(service)
        undecodable(mysql, database)
        await stopped(service, t)
        await recapture(service, "unmended", t)
        assert await ended(service, "unmended") == {"t": "failed"}  # a chunk met the row
        assert service.status()["stopped"] == {}
        mysql.sql("UPDATE t SET v = -1 WHERE id = 1000", database=database)
        assert "sjis" in await stopped(service, t)
        mysql.sql("DROP TABLE t", database=database)
        await service.caught_up(mysql)
        await recapture(service, "gone", t)
        assert await ended(service, "gone") == {"t": "failed"}
        assert "the source doesn't show it" in service.tables("gone")["t"]["reason"]
        await stopped(service, t)
        refused = await service.tell("recapture", "odd", rf"{database}\.u")
        assert isinstance(refused, SignalRejected)
        await service.stop()
    assert unequal(mysql, tmp_path / "journal", other) == []


async def test_a_table_that_has_not_stopped_is_begun_again_in_the_midst_of_its_snapshot(
    mysql: MysqlServer, database: str, tmp_path: Path, hold: Hold
) -> None:
    created(mysql, database)
    t, other = TableId(database, "t"), TableId(database, "other")
    gate = hold("select", 3)
    async with running(pipeline(mysql, tmp_path, database, chunk_rows=20)) as service:
        await service.begun()
        await service.execute("s")
        await gate.reached.wait()
        await recapture(service, "r", t)
        gate.opened.set()
        assert await ended(service, "r") == {"t": "completed"}
        await service.completed("s")
        await service.caught_up(mysql)
        await service.stop()
    assert unequal(mysql, tmp_path / "journal", t, other) == []


async def test_while_snapshots_are_paused_it_waits_and_a_crash_at_any_moment_loses_nothing(
    mysql: MysqlServer, database: str, tmp_path: Path
) -> None:
    created(mysql, database)
    t, other = TableId(database, "t"), TableId(database, "other")
    settings = pipeline(mysql, tmp_path, database, chunk_rows=50)
    async with running(settings) as service:
        await snapshotted(service)
        undecodable(mysql, database)
        await stopped(service, t)
        mended(mysql, database)
        await service.tell("pause-snapshot", "p")
        await service.caught_up(mysql)
        await recapture(service, "r", t)
    # It came right after the answer, whether the start that recaptures has come or not.
    async with running(settings) as service:
        await service.until(lambda: service.tables("r"), "the recapture")
        assert service.tables("r")["t"]["state"] == "waiting"
        assert service.status()["stopped"] == {}
        mysql.sql("UPDATE t SET v = -1 WHERE id < 9", database=database)
        await service.caught_up(mysql)
    async with running(settings) as service:
        await service.begun()
        await service.tell("resume-snapshot", "q")
        assert await ended(service, "r") == {"t": "completed"}
        await service.caught_up(mysql)
        await service.stop()
    assert unequal(mysql, tmp_path / "journal", t, other) == []


async def test_where_the_log_names_no_columns_the_schema_is_asked_for_again(
    mysql_factory: MysqlFactory, tmp_path: Path
) -> None:
    server = mysql_factory({**GTIDS})  # binlog_row_metadata=MINIMAL, the default
    server.sql("CREATE DATABASE shop")
    created(server, "shop")
    t, other = TableId("shop", "t"), TableId("shop", "other")
    settings = pipeline(server, tmp_path, "shop")
    async with running(settings) as service:
        await snapshotted(service)
        await service.stop()
    # No query could have come between these statements.
    server.sql(
        "ALTER TABLE t ADD COLUMN w INT",
        "UPDATE t SET w = 1 WHERE id = 1",
        "ALTER TABLE t DROP COLUMN v",
        database="shop",
    )
    async with running(settings) as service:
        await service.begun()
        await service.caught_up(server)
        await recapture(service, "r", t)  # whether it has stopped or not
        assert await ended(service, "r") == {"t": "completed"}
        server.sql("UPDATE t SET w = 2 WHERE id = 2", database="shop")
        await service.caught_up(server)
        assert service.status()["stopped"] == {}
        await service.stop()
    assert unequal(server, tmp_path / "journal", t, other) == []


async def test_a_table_that_a_merge_table_has_in_its_union_is_begun_again_without_it(
    either: tuple[MysqlServer, str], tmp_path: Path
) -> None:
    server, database = either
    columns = "(id INT PRIMARY KEY, v INT)"
    for name in ("free", "early", "late"):
        server.sql(
            f"CREATE TABLE {name} {columns} ENGINE=MyISAM",
            f"INSERT INTO {name} VALUES (1, 1)",
            database=database,
        )
    free, early, late = (TableId(database, name) for name in ("free", "early", "late"))
    merge = "CREATE TABLE _{name} {columns} ENGINE=MERGE UNION=({name}) INSERT_METHOD=LAST"
    server.sql(merge.format(name="early", columns=columns), database=database)
    settings = replace(pipeline(server, tmp_path, database), tables=TableFilter((rf"{database}\.[^_].*",)))
    async with running(settings) as service:
        await service.begun()
        assert f"the MERGE table {database}._early has it in its UNION" in await stopped(service, early)
        await service.execute("s", rf"{database}\.(free|late)")
        await service.completed("s")
        server.sql(
            merge.format(name="late", columns=columns), "INSERT INTO _late VALUES (2, 2)", database=database
        )
        assert f"the MERGE table {database}._late has it in its UNION" in await stopped(service, late)
        server.sql("INSERT INTO free VALUES (2, 2)", "DELETE FROM _early WHERE id = 1", database=database)
        server.sql("DROP TABLE _early", "ALTER TABLE late ENGINE=InnoDB", database=database)
        server.sql("INSERT INTO late VALUES (3, 3)", "INSERT INTO early VALUES (3, 3)", database=database)
        await service.caught_up(server)
        for table in (early, late):
            await recapture(service, f"r-{table.name}", table)
            assert await ended(service, f"r-{table.name}") == {table.name: "completed"}
        await service.caught_up(server)
        assert service.status()["stopped"] == {}
        await service.stop()
    assert unequal(server, tmp_path / "journal", free, early, late) == []


async def test_a_table_that_the_user_may_not_see_stops_by_name_until_it_may(
    mysql_factory: MysqlFactory, tmp_path: Path
) -> None:
    """The log doesn't name its columns. All others waited for the server's answer with each of its rows."""
    server = mysql_factory(dict(GTIDS))
    server.sql("CREATE DATABASE shop", "CREATE DATABASE vault")
    created(server, "shop")
    created(server, "vault")
    t, hidden = TableId("shop", "t"), TableId("vault", "t")
    settings = replace(pipeline(server, tmp_path, "shop"), tables=TableFilter((".*",)))
    async with running(settings) as service:
        await snapshotted(service)
        server.sql("UPDATE vault.t SET v = -1 WHERE id < 9", "UPDATE shop.t SET v = -1 WHERE id < 9")
        assert "the server doesn't show it" in await stopped(service, hidden)
        server.sql("UPDATE vault.t SET v = -2 WHERE id < 9", "UPDATE shop.t SET v = -2 WHERE id < 9")
        await service.caught_up(server)
        assert service.status()["stopped"].keys() == {str(hidden)}
        assert service.assembly.metrics.value(catalogue.TABLE_RESTARTS, table=str(hidden)) == 0
        server.create_capture_user("vault")
        await recapture(service, "r", hidden)
        assert await ended(service, "r") == {"t": "completed"}
        server.sql("UPDATE vault.t SET v = -3 WHERE id < 9")
        await service.caught_up(server)
        await service.stop()
    assert unequal(server, tmp_path / "journal", t, hidden) == []
