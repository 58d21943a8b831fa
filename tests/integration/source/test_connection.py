"""The source asked by SQL on a real server: sessions, failures and watermarks."""

import asyncio
from contextlib import suppress
from dataclasses import replace
from pathlib import Path, PurePath

import pytest

from actors.snapshot.connection_pool import SourcePool
from actors.source.connection import KeptSource, Source
from actors.source.errors import AccessDenied, StatementOutdated
from deploy.toolchain.mysql_server import GTIDS, GTIDS_56, Account, MysqlServer
from pipeline.config.settings import SourceSettings, TlsMode, TlsSettings
from pipeline.errors import Definite, Transient
from pipeline.gtid.gtid_set import GtidSet
from pipeline.schema.table_schema import TableId
from pipeline.source.statement import Statement
from tests.servers.mysql import MysqlFactory
from tests.servers.source import ask, connected, process_list, select, settings


async def test_a_session_is_read_only_and_tells_alike_everywhere(mysql: MysqlServer) -> None:
    async with connected(mysql) as source:
        [told] = await ask(
            source,
            "SELECT @@SESSION.time_zone, @@SESSION.sql_mode, @@SESSION.autocommit,"
            " @@SESSION.transaction_read_only, @@SESSION.transaction_isolation, @@SESSION.lock_wait_timeout,"
            " @@SESSION.max_execution_time, @@SESSION.character_set_results, @@SESSION.character_set_client,"
            " @@SESSION.information_schema_stats_expiry",
        )
        assert told == ("+00:00", "", 1, 1, "REPEATABLE-READ", 30, 30_000, None, "utf8mb4", 0)
    [unchanged] = mysql.sql("SELECT @@GLOBAL.sql_mode <> '', @@GLOBAL.transaction_read_only")
    assert unchanged == (1, 0)


async def test_the_end_of_a_transaction_ends_no_connection(either: tuple[MysqlServer, str]) -> None:
    """Where the server's default has it so."""
    server, _ = either
    server.sql("SET GLOBAL completion_type = 'RELEASE'")
    try:
        async with connected(server) as source:
            for _ in range(2):
                await source.begin()
                await source.leave()
            assert await ask(source, "SELECT 1") == [(1,)]
    finally:
        server.sql("SET GLOBAL completion_type = DEFAULT")


async def test_nothing_can_be_written_even_with_the_right_to(mysql: MysqlServer, database: str) -> None:
    mysql.sql(f"CREATE TABLE {database}.t (id INT PRIMARY KEY)")
    mysql.sql("CREATE USER mighty", f"GRANT ALL ON {database}.* TO mighty")
    source = await Source.connect(settings(mysql, Account("mighty", "")))
    with pytest.raises(Definite, match="READ ONLY transaction"):
        await ask(source, f"INSERT INTO {database}.t VALUES (1)")
    source.close()


async def test_a_file_of_this_machine_is_never_sent(mysql_factory: MysqlFactory) -> None:
    server = mysql_factory({"local_infile": "ON"})
    server.sql("CREATE DATABASE d", "CREATE TABLE d.t (line TEXT)", "CREATE USER u", "GRANT ALL ON *.* TO u")
    source = await Source.connect(settings(server, Account("u", "")))
    await ask(source, "SET SESSION TRANSACTION READ WRITE")
    with pytest.raises(Definite, match="Loading local data is disabled"):
        await ask(source, "LOAD DATA LOCAL INFILE '/etc/hostname' INTO TABLE d.t")
    source.close()


@pytest.mark.parametrize("mode", TlsMode)
async def test_login_with_and_without_tls(mysql_factory: MysqlFactory, mode: TlsMode) -> None:
    server = mysql_factory(GTIDS)
    tls = TlsSettings(mode)
    if mode is TlsMode.VERIFY:  # the server's own authority certifies no name, so this one is refused
        with pytest.raises(Definite, match=r"certificate can't be trusted.*source\.tls"):
            async with connected(server, tls=TlsSettings(mode, PurePath(server.data / "ca.pem"))):
                pass
        return
    async with connected(server, tls=tls) as source:
        [(_, cipher)] = await ask(source, "SHOW SESSION STATUS LIKE 'Ssl_cipher'")
        assert bool(cipher) == (mode is TlsMode.REQUIRED)


async def test_a_connection_is_kept_as_long_as_it_is_usable_and_leads_there(mysql: MysqlServer) -> None:
    where = settings(mysql, mysql.create_capture_user())
    kept = KeptSource()
    first = await kept.connect(where)
    assert await kept.connect(where) is first
    first.close()
    second = await kept.connect(where)
    elsewhere = replace(where, read_timeout_s=3.0)
    third = await kept.connect(elsewhere)
    assert len({first, second, third}) == 3
    assert not second.usable
    assert await kept.connect(elsewhere) is third
    kept.close()
    assert not third.usable


async def test_a_wrong_password_may_be_just_being_changed(mysql: MysqlServer) -> None:
    account = mysql.create_capture_user()
    with pytest.raises(AccessDenied, match="Access denied for user 'tidemark'"):
        await Source.connect(settings(mysql, replace(account, password="wrong")))


@pytest.mark.parametrize(
    "locked",
    ["FAILED_LOGIN_ATTEMPTS 1 PASSWORD_LOCK_TIME 1", "ACCOUNT LOCK", "PASSWORD EXPIRE"],
)
async def test_an_account_that_cannot_log_in_may_do_so_later(mysql: MysqlServer, locked: str) -> None:
    mysql.sql(f"CREATE USER barred IDENTIFIED BY 'right' {locked}")
    try:
        for password in ("wrong", "right"):
            with pytest.raises(AccessDenied):
                await Source.connect(settings(mysql, Account("barred", password)))
    finally:
        mysql.sql("DROP USER barred")


async def test_a_database_that_is_gone_outdates_a_statement(either: tuple[MysqlServer, str]) -> None:
    server, database = either
    async with connected(server, database) as source:
        server.sql(f"DROP DATABASE {database}")
        with pytest.raises(StatementOutdated):
            await ask(source, f"SELECT * FROM {database}.t")
    server.sql(f"CREATE DATABASE {database}")


async def test_a_server_that_is_away_is_transient(mysql: MysqlServer) -> None:
    with pytest.raises(Transient, match=r"connecting to 127\.0\.0\.1:1"):
        await Source.connect(settings(mysql, Account("u", ""), port=1))


async def test_a_server_that_is_out_of_service_is_transient(mysql: MysqlServer) -> None:
    """Offline is also what a member makes itself that has left its group."""
    async with connected(mysql) as source:
        mysql.sql("SET GLOBAL offline_mode = ON")
        try:
            with pytest.raises(Transient):
                await source.executed()
            with pytest.raises(Transient, match="offline mode"):
                await Source.connect(source.settings)
        finally:
            mysql.sql("SET GLOBAL offline_mode = OFF")


async def test_a_server_that_finds_no_room_for_temporary_tables_is_transient(
    mysql56_factory: MysqlFactory, tmp_path: Path
) -> None:
    """MySQL 5.6 puts the columns there that it lists."""
    rooms = tmp_path / "rooms"
    rooms.mkdir()
    server = mysql56_factory({**GTIDS_56, "tmpdir": str(rooms)})
    server.sql("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)")
    table = TableId("d", "t")
    async with connected(server, "d") as source:
        assert await source.describe([table])
        rooms.rename(tmp_path / "elsewhere")
        with pytest.raises(Transient, match="Can't create/write to file"):
            await source.describe([table])
        (tmp_path / "elsewhere").rename(rooms)
        assert await source.describe([table])


async def test_a_server_that_says_nothing_is_given_up_in_time() -> None:
    left = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()
        left.set()

    listener = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    with pytest.raises(Transient, match="connecting to"):
        await Source.connect(SourceSettings("127.0.0.1", "u", server_id=7, port=port, connect_timeout_s=0.1))
    await left.wait()
    listener.close()
    await listener.wait_closed()


async def _killed(source: Source, mysql: MysqlServer) -> None:
    [(connection,)] = await ask(source, "SELECT CONNECTION_ID()")
    mysql.sql(f"KILL {connection}")


async def test_a_killed_connection_is_transient_and_not_used_again(mysql: MysqlServer) -> None:
    async with connected(mysql) as source:
        await _killed(source, mysql)
        with pytest.raises(Transient):
            await source.executed()
        with suppress(Transient):
            await source.executed()
        assert not source.usable


async def test_the_pool_replaces_what_was_lost_and_keeps_to_its_size(mysql: MysqlServer) -> None:
    pool = SourcePool(settings(mysql, mysql.create_capture_user()), 1)
    async with pool.connection() as first:
        second = asyncio.create_task(_identity(pool))
        await asyncio.sleep(0)
        [(mine,)] = await ask(first, "SELECT CONNECTION_ID()")
        assert not second.done()
    assert await second == mine
    async with pool.connection() as kept:
        kept.close()
    assert await _identity(pool) != mine
    pool.close()


async def _identity(pool: SourcePool) -> int:
    async with pool.connection() as source:
        [(connection,)] = await ask(source, "SELECT CONNECTION_ID()")
        return int(connection)


async def test_a_read_that_is_cancelled_closes_its_connection(mysql: MysqlServer) -> None:
    async with connected(mysql) as source:
        query = asyncio.create_task(select(source, Statement("SELECT SLEEP(60)")))
        while "SELECT SLEEP(60)" not in [
            each.statement for each in await asyncio.to_thread(process_list, mysql)
        ]:
            pass
        query.cancel()
        with pytest.raises(asyncio.CancelledError):
            await query
        assert not source.usable


MANY = Statement(
    "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 900)"
    " SELECT i, REPEAT('x', 100000) FROM n"
)


async def test_a_result_that_is_left_before_its_end_leaves_a_new_connection(mysql: MysqlServer) -> None:
    identity = "SELECT CONNECTION_ID(), @@SESSION.transaction_read_only"
    async with connected(mysql) as source:
        [(before, _)] = await ask(source, identity)
        async with source.select(MANY) as result:
            assert await result.rows()
        [(after, read_only)] = await ask(source, identity)
        assert (after != before, read_only) == (True, 1)
        async with source.select(MANY) as result:
            while await result.rows():
                pass
        assert await ask(source, identity) == [(after, 1)]


async def test_who_fails_in_the_midst_of_a_result_leaves_no_connection(mysql: MysqlServer) -> None:
    async with connected(mysql) as source:
        with pytest.raises(ZeroDivisionError):
            async with source.select(MANY):
                raise ZeroDivisionError
        assert not source.usable


async def test_a_select_that_takes_too_long_is_ended_by_the_server(mysql: MysqlServer) -> None:
    tables = ", ".join(f"information_schema.COLLATIONS {name}" for name in "abcd")
    async with connected(mysql, read_timeout_s=1.0) as source:
        with pytest.raises(Transient, match="maximum statement execution time exceeded"):
            await select(source, Statement(f"SELECT COUNT(*) FROM {tables}"))
        assert source.usable


# -- watermarks


async def test_watermarks_are_the_servers(mysql: MysqlServer, database: str) -> None:
    mysql.sql(f"CREATE TABLE {database}.t (id INT PRIMARY KEY)")
    async with connected(mysql) as source:
        assert await source.executed() == GtidSet.parse(mysql.executed())
        [(file, offset, *_, executed)] = mysql.sql("SHOW BINARY LOG STATUS")
        end, told = await source.end_of_log()
        assert (end.file, end.offset, told) == (file, offset, GtidSet.parse(executed))
        mysql.sql(f"INSERT INTO {database}.t VALUES (1)")
        later, more = await source.end_of_log()
        assert later.reaches(end)
        assert (later.offset > end.offset, (more - told).count()) == (True, 1)
        assert await source.executed() == more


async def test_a_server_without_a_log_is_named(mysql_factory: MysqlFactory) -> None:
    async with connected(mysql_factory({"skip_log_bin": "ON"})) as source:
        with pytest.raises(Definite, match="no binary log"):
            await source.end_of_log()
