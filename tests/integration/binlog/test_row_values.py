"""Row images whose columns are many, hidden, generated or changed in place, as a live server logs them."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from deploy.toolchain.mysql_server import MysqlServer
from pipeline.messages.row_images import ImageKind
from tests.integration.logging_session import Session


@pytest.fixture
def session(mysql: MysqlServer, database: str) -> Iterator[Session]:
    with closing(mysql.connect(database=database)) as connection, connection.cursor() as cursor:
        session = Session(mysql, cursor)
        session.run(
            "SET time_zone = '+00:00', sql_mode = 'ALLOW_INVALID_DATES', cte_max_recursion_depth = 100000"
        )
        yield session


def numbers(last: int, columns: str) -> str:
    """A query of that many rows, with n from 1."""
    return f"WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < {last}) SELECT {columns} FROM r"


def test_json_changed_in_place_is_the_servers_own(session: Session) -> None:
    session.run("CREATE TABLE t (id INT PRIMARY KEY, c JSON)")
    session.run(
        """INSERT INTO t VALUES (1, '{"a": "long enough text", "b": [1, 2, {"c": 1.5}], "d": 100000}')"""
    )
    for change in (
        "JSON_SET(c, '$.a', 'short')",
        "JSON_SET(c, '$.b[2].c', 2)",
        "JSON_REPLACE(c, '$.d', NULL)",
        "JSON_REMOVE(c, '$.b[0]')",
        "JSON_SET(c, '$.d', CAST(1.50 AS DECIMAL(4,2)))",
        "JSON_REMOVE(c, '$.a')",
        "JSON_SET(c, '$.a', REPEAT('x', 70000))",
        "JSON_SET(c, '$.a', 1)",
    ):
        (before,) = session.run("SELECT CAST(c AS CHAR) FROM t")
        (updated,) = session.logged(f"UPDATE t SET c = {change}")
        (after,) = session.run("SELECT CAST(c AS CHAR) FROM t")
        assert updated.rows["1"].to_pylist() == [*before, *after], change


def test_more_columns_than_a_byte_counts(session: Session) -> None:
    for count in (249, 250, 251, 252, 300, 1000):
        session.run(f"CREATE TABLE t{count} ({', '.join(f'c{i} INT' for i in range(count))})")
        (inserted,) = session.logged(f"INSERT INTO t{count} VALUES ({', '.join(map(str, range(count)))})")
        assert inserted.rows.to_pylist() == [{str(i): i for i in range(count)}]


def test_text_behind_a_vector_keeps_its_character_set(session: Session) -> None:
    session.run(
        "CREATE TABLE t (v VECTOR(2), a CHAR(200), b VARBINARY(9), c TEXT CHARSET latin1, j JSON, p POINT)"
    )
    (inserted,) = session.logged("INSERT INTO t (a, b, c) VALUES ('naïve', x'FF', 'naïve')")
    assert [column.to_pylist() for column in inserted.rows.columns[1:4]] == [["naïve"], [b"\xff"], ["naïve"]]


def test_generated_and_hidden_columns(session: Session) -> None:
    session.run(
        "CREATE TABLE t (a INT, b INT AS (a + 1) VIRTUAL, c INT AS (a + 2) STORED, d INT INVISIBLE, j JSON,"
        " KEY ((a * 3)), KEY ((CAST(j->'$' AS UNSIGNED ARRAY))))"
    )
    (inserted,) = session.logged("INSERT INTO t (a, d, j) VALUES (10, 20, '[1, 2]')")
    assert inserted.rows.to_pylist() == [{"0": 10, "1": 11, "2": 12, "3": 20, "4": "[1, 2]"}]


def test_events_of_many_rows_and_tables_keep_their_places(session: Session) -> None:
    session.run("CREATE TABLE t (id INT PRIMARY KEY, c VARCHAR(200))")
    session.run("CREATE TABLE u LIKE t")
    rows = numbers(3000, "n, REPEAT(n, 9)")
    t, u = session.logged(
        "BEGIN", f"INSERT INTO t {rows}", f"INSERT INTO u {rows}", "UPDATE t SET c = ''", "COMMIT"
    )
    assert t.rows["0"].to_pylist()[:3000] == u.rows["0"].to_pylist() == list(range(1, 3001))
    assert t.rows["0"].to_pylist()[3000:] == [n for n in range(1, 3001) for _ in range(2)]
    assert (
        t.images["kind"].to_pylist()
        == [ImageKind.INSERT] * 3000 + [ImageKind.UPDATE_BEFORE, ImageKind.UPDATE_AFTER] * 3000
    )
