"""What is snapshotted: a table on a server of the benchmark's own, its writers, and what it costs the server."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import astuple, dataclass
from typing import Final

import pymysql
from pymysql.constants import CR, ER

from bench._logs import DATABASE, ELEVEN, server
from bench._processes import processor_s
from deploy.toolchain.mysql_server import MysqlServer
from deploy.toolchain.parts import Parts

TABLE: Final = ELEVEN.name

# The table and what else the server needs fit, so that nobody who reads it waits for a disk.
_BUFFER_POOL: Final = "2G"

_FILLING: Final = 2
_AT_ONCE: Final = 100_000
_FILL: Final = f"""INSERT INTO {TABLE} SELECT {ELEVEN.values.replace("%", "%%")} FROM (
    SELECT %s + a.n * 1000 + b.n AS n FROM numbers AS a, numbers AS b WHERE a.n < {_AT_ONCE // 1000}
) AS r WHERE n < %s"""

_WRITERS: Final = 4
# Transactions of one row at an even pace, until it's killed; what is late is made up for.
_WRITE: Final = f"""CREATE PROCEDURE write_evenly(number_of_rows BIGINT, pause DOUBLE) BEGIN
    DECLARE due DOUBLE DEFAULT UNIX_TIMESTAMP(SYSDATE(6));
    DECLARE n BIGINT;
    WHILE TRUE DO
        SET n = FLOOR(RAND() * number_of_rows), due = due + pause;
        UPDATE {TABLE} SET customer = customer + 1 WHERE id = n;
        DO SLEEP(GREATEST(0, due - UNIX_TIMESTAMP(SYSDATE(6))));
    END WHILE;
END"""

# What ends a statement that is killed: its own error, or that of the connection that goes with it.
_KILLED: Final = frozenset({ER.QUERY_INTERRUPTED, CR.CR_SERVER_LOST})


@contextmanager
def filled_server(parts: Parts, rows: int, buffer_pool: str = _BUFFER_POOL) -> Iterator[MysqlServer]:
    """A server whose table of eleven columns has that many rows, which aren't in its log, and whose disk is at rest."""
    with server(parts, {"innodb_buffer_pool_size": buffer_pool}) as mysql:
        _fill(mysql, rows)
        mysql.sql(_WRITE, f"ANALYZE NO_WRITE_TO_BINLOG TABLE {TABLE}", database=DATABASE)
        mysql.sql("SET GLOBAL innodb_max_dirty_pages_pct = 0")
        while (counters := _counters(mysql))["Innodb_buffer_pool_pages_dirty"] > 0.01 * counters[
            "Innodb_buffer_pool_pages_data"
        ]:
            time.sleep(0.1)
        mysql.sql("SET GLOBAL innodb_max_dirty_pages_pct = DEFAULT")
        yield mysql


def _fill(mysql: MysqlServer, rows: int) -> None:
    def fill(first: int) -> None:
        with closing(mysql.connect(database=DATABASE)) as connection, connection.cursor() as cursor:
            cursor.execute("SET SESSION sql_log_bin = OFF, unique_checks = OFF")
            cursor.execute(_FILL, (first, min(first + _AT_ONCE, rows)))

    with ThreadPoolExecutor(_FILLING) as sessions:
        list(sessions.map(fill, range(0, rows, _AT_ONCE)))


@contextmanager
def writers(
    mysql: MysqlServer, rows: int, transactions_per_s: int, procedure: str = "write_evenly"
) -> Iterator[None]:
    """Meanwhile so many transactions a second each change one of the table's first rows; none if it's 0.

    They run inside the server, so that no client has a share of the processors.
    """
    with (
        ThreadPoolExecutor(_WRITERS) as running,
        closing(mysql.connect()) as killing,
        killing.cursor() as cursor,
    ):
        connections = [mysql.connect(database=DATABASE) for _ in range(_WRITERS if transactions_per_s else 0)]
        written = [
            running.submit(_write, each, procedure, rows, _WRITERS / transactions_per_s)
            for each in connections
        ]
        try:
            yield
        finally:
            for each in connections:
                number: int = each.thread_id()  # type: ignore[no-untyped-call]
                cursor.execute(f"KILL {number}")
            for ended in written:
                ended.result()


def _write(
    connection: "pymysql.Connection[pymysql.cursors.Cursor]", procedure: str, rows: int, pause_s: float
) -> None:
    try:
        with connection.cursor() as cursor:
            cursor.execute(f"CALL {procedure}(%s, %s)", (rows, pause_s))
    except pymysql.Error as error:
        if error.args[0] not in _KILLED:
            raise
    finally:
        connection.close()


@dataclass(frozen=True, slots=True)
class Cost:
    """What a server has done: statements of clients, rows that its engine gave them, bytes sent, processor time."""

    statements: float
    examined: float
    sent: float
    processor_s: float

    def __sub__(self, before: "Cost") -> "Cost":
        return Cost(*(now - then for now, then in zip(astuple(self), astuple(before), strict=True)))


class Meter:
    """Reads what a server has done so far, over a connection of its own."""

    def __init__(self, connection: "pymysql.Connection[pymysql.cursors.Cursor]", pid: int) -> None:
        self._connection = connection
        self._pid = pid

    def cost(self) -> Cost:
        """All of it since the server's start; the reading itself is one statement and some kilobytes."""
        with self._connection.cursor() as cursor:
            cursor.execute(
                "SHOW GLOBAL STATUS WHERE Variable_name IN ('Questions', 'Innodb_rows_read', 'Bytes_sent')"
            )
            counters = {name: float(value) for name, value in cursor.fetchall()}
        return Cost(
            counters["Questions"],
            counters["Innodb_rows_read"],
            counters["Bytes_sent"],
            processor_s(self._pid),
        )


def _counters(mysql: MysqlServer) -> dict[str, float]:
    rows = mysql.sql("SHOW GLOBAL STATUS LIKE 'Innodb\\_buffer\\_pool\\_pages\\_d%'")
    return {name: float(value) for name, value in rows}
