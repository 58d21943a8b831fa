"""The servers that the other tests rely on are what they claim to be."""

import os
import select
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pymysql
import pytest

from deploy.toolchain.cache import REPOSITORY, ToolchainError
from deploy.toolchain.mysql_server import GTIDS, MysqlServer
from tests.servers.mysql import MysqlFactory


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


def test_a_new_server_has_executed_nothing(mysql_factory: MysqlFactory) -> None:
    server = mysql_factory(GTIDS)
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
