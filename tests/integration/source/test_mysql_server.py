"""The servers that the other tests rely on are what they claim to be."""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from itertools import count
from pathlib import Path

import pymysql
import pytest

from deploy.toolchain.cache import REPOSITORY, ToolchainError
from deploy.toolchain.mysql_server import (
    FULL_METADATA,
    GTIDS,
    GTIDS_56,
    SMALL_AND_QUICK,
    SMALL_AND_QUICK_56,
    MysqlServer,
)
from deploy.toolchain.parts import Parts
from tests.servers.mysql import MysqlFactory, parts56
from tests.servers.mysql_lender import Lender
from tests.servers.stopped import stop

Lent = AbstractContextManager[MysqlServer]


def test_the_sessions_server_has_gtids_and_full_metadata(mysql: MysqlServer) -> None:
    rows = mysql.sql("SELECT @@gtid_mode, @@enforce_gtid_consistency, @@binlog_row_metadata, @@binlog_format")
    assert rows == [("ON", "ON", "FULL", "ROW")]


def test_the_old_server_has_gtids_and_no_row_metadata(mysql56: MysqlServer) -> None:
    rows = mysql56.sql("SELECT @@version, @@gtid_mode, @@enforce_gtid_consistency, @@binlog_format")
    assert rows == [("5.6.24-log", "ON", 1, "ROW")]
    assert not mysql56.sql("SHOW GLOBAL VARIABLES LIKE 'binlog_row_metadata'")


def test_each_server_has_a_uuid_and_an_id_of_its_own(mysql: MysqlServer, mysql_factory: MysqlFactory) -> None:
    other = mysql_factory({})
    [mine] = mysql.sql("SELECT @@server_uuid, @@server_id, @@port")
    [theirs] = other.sql("SELECT @@server_uuid, @@server_id, @@port")
    assert mine == (mysql.uuid, mysql.server_id, mysql.port)
    assert not set(mine) & set(theirs)


def test_a_new_server_has_executed_nothing(parts: Parts, tmp_path: Path) -> None:
    with MysqlServer(parts.mysql, tmp_path / "mysql", {**SMALL_AND_QUICK, **GTIDS}) as server:
        assert server.executed() == ""
        server.sql("CREATE DATABASE a")
        assert server.executed() == f"{server.uuid}:1"


def test_options_that_a_data_directory_is_born_with_hold(mysql_factory: MysqlFactory) -> None:
    server = mysql_factory({"lower_case_table_names": "1"})
    assert server.sql("SELECT @@lower_case_table_names") == [(1,)]


def test_committed_rows_survive_a_kill(mysql_factory: MysqlFactory) -> None:
    server = mysql_factory(GTIDS)
    server.sql(
        "CREATE DATABASE a", "CREATE TABLE a.t (id INT PRIMARY KEY)", "INSERT INTO a.t VALUES (1), (2)"
    )
    before, first = server.executed(), server.pid
    server.kill()
    server.start()
    assert server.pid != first
    assert server.sql("SELECT id FROM a.t ORDER BY id") == [(1,), (2,)]
    assert server.executed() == before
    server.stop()
    server.start()
    assert server.executed() == before


def test_a_server_that_cannot_start_says_why(mysql_factory: MysqlFactory) -> None:
    with pytest.raises(ToolchainError, match="unknown variable 'no_such_option=1'"):
        mysql_factory({"no_such_option": "1"})


def test_the_capture_user_may_only_read_and_follow(mysql: MysqlServer, database: str) -> None:
    mysql.sql(f"CREATE TABLE {database}.t (id INT PRIMARY KEY)", f"INSERT INTO {database}.t VALUES (7)")
    account = mysql.create_capture_user(database)
    with closing(mysql.connect(account, database)) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT id FROM t")
        assert cursor.fetchall() == ((7,),)
        assert cursor.execute("SHOW BINARY LOG STATUS") == 1
        with pytest.raises(pymysql.OperationalError, match="INSERT command denied"):
            cursor.execute("INSERT INTO t VALUES (8)")
        with pytest.raises(pymysql.OperationalError, match="Access denied"):
            cursor.execute("FLUSH TABLES WITH READ LOCK")
        with pytest.raises(pymysql.OperationalError, match="denied"):
            cursor.execute("SELECT * FROM mysql.user")


def test_the_general_log_shows_what_clients_sent(mysql_factory: MysqlFactory) -> None:
    server = mysql_factory({"general_log": "ON"})
    server.sql("SELECT 'one\nstatement on two lines'")
    assert [command.text for command in server.logged() if command.kind == "Query"][-1] == (
        "SELECT 'one\nstatement on two lines'"
    )


def test_purged_binlogs_are_gone(mysql_factory: MysqlFactory) -> None:
    server = mysql_factory(GTIDS)
    server.sql("CREATE DATABASE a")
    server.purge_binlogs()
    assert server.sql("SELECT @@gtid_purged") == [(f"{server.uuid}:1",)]
    assert len(server.sql("SHOW BINARY LOGS")) == 1


@pytest.fixture(params=["9.7", "5.6"])
def lend(request: pytest.FixtureRequest, parts: Parts, tmp_path: Path) -> Iterator[Callable[[], Lent]]:
    """Lends a server for a while, for which no other test asks meanwhile."""
    old = request.param == "5.6"
    numbers = count()
    of, options = (parts56(parts), GTIDS_56) if old else (parts.mysql, {**GTIDS, **FULL_METADATA})
    small = SMALL_AND_QUICK_56 if old else SMALL_AND_QUICK

    @contextmanager
    def lent() -> Iterator[MysqlServer]:
        with lender.lending(lambda: of, small) as lend:
            yield lend(options)

    with closing(Lender(lambda: tmp_path / str(next(numbers)))) as lender:
        yield lent


def told(server: MysqlServer) -> dict[str, object]:
    """What a test may ask of its server."""
    questions = [
        "SHOW GLOBAL VARIABLES",
        "SHOW DATABASES",
        "SELECT * FROM mysql.user",
        "SHOW BINARY LOGS",
        "SELECT DISTINCT user FROM information_schema.processlist ORDER BY user",
    ]
    return {question: server.sql(question) for question in questions}


def test_a_server_that_is_lent_again_is_as_empty_as_a_new_one(lend: Callable[[], Lent]) -> None:
    with lend() as server:
        first, pid = told(server), server.pid
        account = server.create_capture_user("d")
        server.sql(
            "CREATE DATABASE `d``_`",
            "USE `d``_`",
            "CREATE TABLE t (id INT PRIMARY KEY)",
            "CREATE TABLE u (id INT PRIMARY KEY, FOREIGN KEY (id) REFERENCES t (id))",
            "FLUSH BINARY LOGS",
            "SET GLOBAL time_zone = '+01:00', max_connections = 7, init_connect = 'DO 1', read_only = ON",
            "SET GLOBAL binlog_checksum = NONE",
            "SET GLOBAL general_log = ON",
            "PURGE BINARY LOGS BEFORE NOW()",
        )
        asleep, locking = server.connect(account), server.connect()
        locking.cursor().execute("FLUSH TABLES WITH READ LOCK")
    with lend() as server:
        assert server.pid == pid
        assert told(server) == first
        assert server.executed() == ""
        assert server.logged() == []
    for connection in (asleep, locking):
        with pytest.raises(pymysql.OperationalError):
            connection.ping(reconnect=False)


def prepare(server: MysqlServer) -> None:
    server.sql("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)")
    server.sql("XA START 'x'", "INSERT INTO d.t VALUES (1)", "XA END 'x'", "XA PREPARE 'x'")


def restart(server: MysqlServer) -> None:
    server.kill()
    server.start()


def leave_a_file(server: MysqlServer) -> None:
    server.sql(f"SELECT 1 INTO OUTFILE '{server.data / 'rows'}'")


def kill(server: MysqlServer) -> None:
    os.kill(server.pid, signal.SIGKILL)
    os.waitid(os.P_PID, server.pid, os.WEXITED | os.WNOWAIT)


@pytest.mark.parametrize(
    ("lend", "leave"),
    [
        ("9.7", prepare),
        # The other ones on the server that starts in no time.
        ("5.6", restart),
        ("5.6", leave_a_file),
        ("5.6", kill),
        ("5.6", MysqlServer.stop),
        ("5.6", lambda server: stop(server.pid)),
    ],
    indirect=["lend"],
)
def test_a_server_that_cannot_be_emptied_is_lent_to_no_other_test(
    lend: Callable[[], Lent], leave: Callable[[MysqlServer], None]
) -> None:
    with lend() as server:
        leave(server)
    with lend() as other:
        assert other.uuid != server.uuid
        assert other.executed() == ""


ORPHAN = """
import sys
from pathlib import Path
from deploy.toolchain.mysql_server import MysqlServer
from deploy.toolchain.parts import locate
server = MysqlServer(locate().mysql, Path(sys.argv[1]))
server.start()
print(server.pid, flush=True)
sys.stdin.read()
"""


def test_no_server_outlives_a_parent_that_is_killed(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", ORPHAN, tmp_path / "orphan"],
        cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as parent:  # fmt: skip
        assert parent.stdout is not None
        server = os.pidfd_open(int(parent.stdout.readline()))
        parent.send_signal(signal.SIGKILL)
    try:
        ended, _, _ = select.select([server], [], [], 60)
        assert ended
    finally:
        os.close(server)
