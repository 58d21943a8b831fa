"""What a program commits is known from its own connection, by both drivers, against a real server."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import aiomysql
import pymysql
import pytest
from pymysql.constants import CLIENT
from pymysql.cursors import SSCursor

from actors.source.session_tracker import SESSION_TRACK, TRACK_GTIDS, SessionTracker
from deploy.toolchain.mysql_server import GTIDS, MysqlServer
from pipeline.errors import Definite
from pipeline.gtid.gtid_set import GtidSet
from tests.servers.executed import executed
from tests.servers.mysql import MysqlFactory

SETTINGS: dict[str, Any] = {"user": "root", "client_flag": SESSION_TRACK | CLIENT.MULTI_STATEMENTS}


@pytest.fixture
def server(mysql_factory: MysqlFactory) -> MysqlServer:
    server = mysql_factory(GTIDS)
    server.sql(
        "CREATE DATABASE d",
        "CREATE TABLE d.t (id INT PRIMARY KEY AUTO_INCREMENT, v VARBINARY(40))",
        "CREATE PROCEDURE d.two() BEGIN INSERT INTO t (v) VALUES ('p'); SELECT 1; INSERT INTO t (v) VALUES ('q'); END",
    )
    return server


@pytest.fixture
def connection(server: MysqlServer) -> "Iterator[pymysql.Connection[Any]]":
    with closing(
        pymysql.connect(unix_socket=str(server.socket), autocommit=True, database="d", **SETTINGS)
    ) as connection:
        with connection.cursor() as cursor:
            cursor.execute(TRACK_GTIDS)
        yield connection


def insert(value: str) -> str:
    return f"INSERT INTO t (v) VALUES ('{value}')"


def test_all_ways_to_commit_are_seen(server: MysqlServer, connection: "pymysql.Connection[Any]") -> None:
    tracker, before = SessionTracker(connection), executed(server)
    tracker.begin()
    with connection.cursor() as cursor:
        cursor.execute(insert("alone"))
        cursor.executemany("INSERT INTO t (v) VALUES (%s)", [("x",), ("y",)])
        cursor.execute(f"{insert('one')}; {insert('two')}; SELECT 1")
        while cursor.nextset():
            pass
        cursor.execute("CALL two()")
        while cursor.nextset():
            pass
        cursor.execute("CREATE TABLE other (id INT PRIMARY KEY)")
    connection.begin()
    with connection.cursor() as cursor:
        cursor.execute(insert("in a transaction"))
        assert tracker.committed == executed(server) - before
    connection.commit()
    with connection.cursor() as cursor:
        cursor.execute("SET SESSION gtid_next = 'AUTOMATIC:app'")
        cursor.execute(insert("tagged"))
        cursor.execute("SET SESSION gtid_next = 'AUTOMATIC'")
    assert tracker.committed == executed(server) - before
    assert (tracker.committed.count(), ":app:" in str(tracker.committed)) == (9, True)
    tracker.end()
    with connection.cursor() as cursor:
        cursor.execute(insert("later"))
    assert tracker.committed.count() == 9


def test_what_is_rolled_back_read_or_written_by_others_is_not(
    server: MysqlServer, connection: "pymysql.Connection[Any]"
) -> None:
    tracker = SessionTracker(connection)
    tracker.begin()
    connection.begin()
    with connection.cursor() as cursor:
        cursor.execute(insert("gone"))
    connection.rollback()
    server.sql("INSERT INTO d.t (v) VALUES (REPEAT('\\0', 40))")
    for kind in (pymysql.cursors.Cursor, SSCursor):
        with connection.cursor(kind) as cursor:
            # Its rows begin like an OK packet.
            cursor.execute("SELECT '', v, v, v FROM t")
            assert len(cursor.fetchall()) == 1
    with pytest.raises(pymysql.err.ProgrammingError), connection.cursor() as cursor:
        cursor.execute("INSERT INTO nothing VALUES (1)")
    assert not tracker.committed


def test_one_within_another_sees_its_own_part(
    server: MysqlServer, connection: "pymysql.Connection[Any]"
) -> None:
    outer, inner, before = SessionTracker(connection), SessionTracker(connection), executed(server)
    outer.begin()
    with connection.cursor() as cursor:
        cursor.execute(insert("outer"))
        inner.begin()
        cursor.execute(insert("inner"))
        inner.end()
        cursor.execute(insert("outer again"))
    outer.end()
    assert (outer.committed.count(), inner.committed.count()) == (3, 1)
    assert inner.committed <= outer.committed == executed(server) - before
    assert "_read_packet" not in vars(connection)


def test_a_connection_that_is_told_nothing_is_refused(server: MysqlServer) -> None:
    with (
        closing(server.connect()) as connection,
        pytest.raises(Definite, match="connect with client_flag=SESSION_TRACK"),
    ):
        SessionTracker(connection)


def test_a_connection_that_is_made_again_says_so(connection: "pymysql.Connection[Any]") -> None:
    """The new session reports nothing: an empty set would say that nothing was committed."""
    outer, inner, later = (SessionTracker(connection) for _ in range(3))
    outer.begin()
    inner.begin()
    connection.close()
    connection.connect()
    with connection.cursor() as cursor:
        cursor.execute(insert("unseen"))
        inner.end()
        for tracker in (outer, inner):
            with pytest.raises(Definite, match="the connection was made again"):
                _ = tracker.committed
        cursor.execute(TRACK_GTIDS)
        later.begin()
        cursor.execute(insert("seen"))
    later.end()
    connection.close()
    connection.connect()
    assert later.committed.count() == 1, "it had ended"


async def test_aiomysql_is_followed_as_well(server: MysqlServer) -> None:
    connection = await aiomysql.connect(unix_socket=str(server.socket), autocommit=False, db="d", **SETTINGS)
    tracker, before = SessionTracker(connection), executed(server)
    async with connection.cursor() as cursor:
        await cursor.execute(TRACK_GTIDS)
        tracker.begin()
        await cursor.execute(insert("one"))
        await cursor.execute("SELECT '', v, v FROM t")
        assert await cursor.fetchall() == (("", b"one", b"one"),)
        assert tracker.committed == GtidSet()
    await connection.commit()
    assert tracker.committed == executed(server) - before != GtidSet()
    async with connection.cursor() as cursor:
        await cursor.execute("CALL two()")
        while await cursor.nextset():
            pass
    await connection.commit()
    tracker.end()
    assert tracker.committed == executed(server) - before
    tracker.begin()
    connection.close()
    await connection.ping()
    with pytest.raises(Definite, match="the connection was made again"):
        _ = tracker.committed
    connection.close()
