"""Samples of the source while chunks are read: it reports an overload, and the end of it."""

import asyncio
from contextlib import ExitStack, closing

import pytest
from pymysql.connections import Connection
from pymysql.cursors import Cursor

from actors.snapshot import load_watch
from actors.snapshot.load_watch import SourceWatch
from deploy.toolchain.mysql_server import GTIDS, MysqlServer
from pipeline.config.settings import ServerSettings
from pipeline.gtid.gtid_set import GtidSet
from pipeline.messages.chunks import ChunkRead, PlanTable, SourceOverloaded, SourceRecovered
from pipeline.schema.table_schema import TableId
from pipeline.snapshot.snapshot import WHOLE_TABLE
from pipeline.source.throttle import SourceLimits
from tests.servers.awaiting import WITHIN_S, until
from tests.servers.mysql import MysqlFactory
from tests.servers.selector import bench
from tests.servers.source import connected, process_list


async def test_the_least_rights_suffice_to_look(mysql: MysqlServer, database: str) -> None:
    async with connected(mysql, database) as source:
        load = await source.load()
    assert load.threads_running >= 1 and load.replica_lag_s == 0.0


async def test_of_a_replica_is_asked_only_where_it_matters(mysql_factory: MysqlFactory) -> None:
    server = mysql_factory(GTIDS)
    server.sql("SET GLOBAL general_log = ON")
    async with connected(server) as source:
        await source.load(lag=False)
        assert not [command for command in server.logged() if "REPLICA STATUS" in command.text]
        await source.load()
    assert [command for command in server.logged() if "REPLICA STATUS" in command.text]


async def test_threads_that_run_strain_the_source_until_they_end(
    mysql_factory: MysqlFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load_watch, "LOOK_S", 0.02)
    server = mysql_factory(GTIDS)
    server.sql("CREATE DATABASE d", "CREATE TABLE d.t (a INT PRIMARY KEY)", "INSERT INTO d.t VALUES (1)")
    order = PlanTable(TableId("d", "t"), WHOLE_TABLE, 1, GtidSet())
    with ExitStack() as ends:
        sleepers = [ends.enter_context(closing(server.connect())) for _ in range(4)]
        sleeping = [asyncio.create_task(asyncio.to_thread(sleep, sleeper)) for sleeper in sleepers]

        def at_it() -> int:
            return sum(each.state == "User sleep" for each in process_list(server))

        await until(lambda: at_it() == len(sleepers), "all of them sleep")
        async with bench(server, "d", bounds=SourceLimits(threads_running=3)) as running:
            told: list[object] = []
            while not (strained := [each for each in told if isinstance(each, SourceOverloaded)]):
                await running.order(order)
                told.append(await running.answer())
            assert "threads run on it (most_threads_running = 3)" in str(strained[0].overload)
            assert running.selector.status()["source"]["strained"] is not None
            for sleeper in sleepers:
                server.sql(f"KILL QUERY {sleeper.thread_id()}")  # type: ignore[no-untyped-call]
            while await running.answer() != SourceRecovered():
                pass
            assert running.selector.status()["source"]["strained"] is None
        await asyncio.gather(*sleeping)


def sleep(connection: "Connection[Cursor]") -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT SLEEP(3600)")


async def test_rows_that_come_too_fast_wait_for_their_time(mysql: MysqlServer, database: str) -> None:
    rows = ", ".join(f"({i})" for i in range(300))
    mysql.sql("CREATE TABLE t (a INT PRIMARY KEY)", f"INSERT INTO t VALUES {rows}", database=database)
    async with bench(mysql, database, bounds=SourceLimits(rows_per_s=200)) as running:
        order = running.chunk(await running.plan(TableId(database, "t")), None, (299,), 1000)
        clock = asyncio.get_running_loop().time
        begun = clock()
        told: list[object] = []
        for _ in range(3):
            await running.order(order)
            while not isinstance(answer := await running.answer(), ChunkRead):
                told.append(answer)
            while running.selector.status()["source"]["strained"]:
                told.append(await running.answer())
        # The rows of a second, fewer than a chunk's, are saved up before, and the last chunk's aren't waited for.
        assert clock() - begun >= (2 * 300 - 200) / 200
    assert SourceRecovered() in told and any(isinstance(each, SourceOverloaded) for each in told)


async def test_a_snapshot_may_have_a_rate_of_its_own() -> None:
    watch = SourceWatch(ServerSettings("127.0.0.1", "never_asked"), SourceLimits())
    reported: asyncio.Queue[SourceOverloaded | SourceRecovered] = asyncio.Queue()
    async with asyncio.TaskGroup() as tasks:
        watching = tasks.create_task(watch.run(reported.put))
        for rows_per_s in (0, 1000):
            watch.ordered()
            watch.carried_out(300, rows_per_s)
        overloaded = await reported.get()
        assert isinstance(overloaded, SourceOverloaded) and overloaded.overload and not overloaded.unready
        assert overloaded.overload.endswith("(rows_per_s = 1000)"), "only its own rows count"
        assert int(overloaded.overload.split()[0]) <= 300
        assert await reported.get() == SourceRecovered()
        watching.cancel()


async def test_rows_of_a_fast_snapshot_are_not_paid_at_the_rate_of_a_slow_one() -> None:
    watch = SourceWatch(ServerSettings("127.0.0.1", "never_asked"), SourceLimits())
    reported: asyncio.Queue[SourceOverloaded | SourceRecovered] = asyncio.Queue()
    async with asyncio.TaskGroup() as tasks:
        watching = tasks.create_task(watch.run(reported.put))
        for rows, rows_per_s in ((25_000, 100_000), (1, 10)):
            watch.ordered()
            watch.carried_out(rows, rows_per_s)
        async with asyncio.timeout(WITHIN_S):  # 25,000 rows at ten a second take longer than half an hour
            assert isinstance(await reported.get(), SourceOverloaded)
            assert await reported.get() == SourceRecovered()
        watching.cancel()


async def test_an_overloaded_source_that_is_not_ready_either_is_reported_once_more() -> None:
    """Otherwise the stream would stay paused for chunks that wait for hours."""
    watch = SourceWatch(ServerSettings("127.0.0.1", "never_asked"), SourceLimits(rows_per_s=1))
    reported: asyncio.Queue[SourceOverloaded | SourceRecovered] = asyncio.Queue()
    async with asyncio.TaskGroup() as tasks:
        watching = tasks.create_task(watch.run(reported.put))
        watch.ordered()
        watch.carried_out(3600)
        overloaded = await reported.get()
        assert isinstance(overloaded, SourceOverloaded) and not overloaded.unready
        watch.waits("s/d.t/1", "it takes writes of its own")
        both = await reported.get()
        assert isinstance(both, SourceOverloaded) and both.overload
        assert both.unready == watch.status()["strained"] == "it takes writes of its own"
        watch.waits("s/d.t/1", None)
        again = await reported.get()
        assert isinstance(again, SourceOverloaded) and again.overload and not again.unready
        watching.cancel()


async def test_limits_hold_while_the_source_is_not_ready() -> None:
    """A scan reads on meanwhile."""
    watch = SourceWatch(ServerSettings("127.0.0.1", "never_asked"), SourceLimits(rows_per_s=1))
    reported: asyncio.Queue[SourceOverloaded | SourceRecovered] = asyncio.Queue()
    async with asyncio.TaskGroup() as tasks:
        watching = tasks.create_task(watch.run(reported.put))
        watch.ordered()
        watch.waits("s/d.t/1", "it takes writes of its own")
        assert await reported.get() == SourceOverloaded(None, "it takes writes of its own")
        watch.ordered()
        watch.carried_out(3600)
        async with asyncio.timeout(WITHIN_S):
            both = await reported.get()
        assert isinstance(both, SourceOverloaded) and both.overload and both.unready
        watching.cancel()


async def test_a_replica_that_does_not_apply_strains(mysql_factory: MysqlFactory) -> None:
    server = mysql_factory(GTIDS)
    server.sql(
        "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = 1, SOURCE_USER = 'nobody'"
    )
    async with connected(server) as source:
        assert (await source.load()).replica_lag_s is None
