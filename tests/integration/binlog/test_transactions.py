"""Transactions of every make, from a real server through the reader: what they leave is what the server has."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from deploy.toolchain.mysql_server import FULL_METADATA, GTIDS, MysqlServer
from pipeline import metrics as catalogue
from pipeline.gtid.gtid_set import GtidSet
from pipeline.messages.binlog import CreateTableSelectRead, TransactionPartRead, TransactionsRead
from pipeline.messages.row_images import ImageKind, TableImages
from tests.integration.binlog.test_binlog_reader import Following, following
from tests.servers.mysql import MysqlFactory

Row = tuple[Any, ...]

TABLES = (
    "CREATE TABLE a (id INT PRIMARY KEY, v LONGBLOB)",
    "CREATE TABLE b (id INT PRIMARY KEY, v LONGBLOB)",
    "CREATE DATABASE other",
    "CREATE TABLE other.c (id INT PRIMARY KEY, v LONGBLOB)",
)


class Copy:
    """The captured tables as the log's images make them; a part's rows wait for its transaction's end."""

    def __init__(self, follow: Following) -> None:
        self.follow = follow
        self.tables: dict[str, dict[int, Row]] = {}
        self.parts = 0
        self._images: list[tuple[int, int, str, int, Row]] = []

    async def through(self, executed: GtidSet) -> None:
        """Take what comes until all of this has passed."""
        while not executed <= self.follow.position:
            message = await self.follow.next(object)
            if isinstance(message, TransactionsRead | TransactionPartRead):
                self._take(message)

    def _take(self, message: TransactionsRead | TransactionPartRead) -> None:
        for table in message.tables:
            assert isinstance(table, TableImages)
            for image, row in zip(table.images.to_pylist(), table.rows.to_pylist(), strict=True):
                self._images.append(
                    (
                        image["transaction"],
                        image["ordinal"],
                        table.map.table.name,
                        image["kind"],
                        tuple(row.values()),
                    )
                )
        if isinstance(message, TransactionPartRead):
            self.parts += 1
            return
        places = [(transaction, ordinal) for transaction, ordinal, *_ in self._images]
        assert len(places) == len(set(places))
        for _, _, table_name, kind, row in sorted(self._images, key=lambda image: image[:2]):
            rows = self.tables.setdefault(table_name, {})
            if kind in (ImageKind.INSERT, ImageKind.UPDATE_AFTER):
                assert row[0] not in rows
                rows[row[0]] = row
            else:
                assert rows.pop(row[0]) == row
        self._images = []


@asynccontextmanager
async def copying(server: MysqlServer) -> AsyncIterator[Copy]:
    """A copy of the database `shop`; at the end it's held against the server's own."""
    server.sql("CREATE DATABASE shop")
    server.sql(*TABLES, database="shop")
    async with following(server, "shop") as follow:
        copy = Copy(follow)
        yield copy
        await copy.through(GtidSet.parse(server.executed()))
        names = [name for (name,) in server.sql("SHOW TABLES", database="shop")]
        for name in names:
            assert copy.tables.get(name, {}) == {
                row[0]: row for row in server.sql(f"SELECT * FROM shop.{name}")
            }
        assert set(copy.tables) <= set(names)


MANY = (
    "INSERT INTO {table} WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r WHERE i < {count})"
    " SELECT i, {value} FROM r"
)
DEEP = "SET SESSION cte_max_recursion_depth = 1000000"

# Of each: what a session sets, and what it does.
STORIES = (
    MANY.format(table="a", count=3000, value="REPEAT('x', 100)"),
    "UPDATE a SET v = id WHERE id % 7 = 0",
    "BEGIN",
    MANY.format(table="b", count=50, value="NULL"),
    "INSERT INTO other.c SELECT * FROM a",
    "SAVEPOINT s",
    "DELETE FROM a WHERE id < 100",
    "ROLLBACK TO s",
    "UPDATE a JOIN b USING (id) SET a.v = 'joined', b.v = 'too'",
    "SAVEPOINT t",
    "RELEASE SAVEPOINT t",
    "DELETE FROM a WHERE id > 2000",
    "COMMIT",
    "BEGIN",
    "DELETE FROM other.c",
    "COMMIT",
    "CREATE TABLE filled AS SELECT id, v FROM b",
    "XA START 'one'",
    "INSERT INTO a VALUES (-1, 'one phase')",
    "XA END 'one'",
    "XA COMMIT 'one' ONE PHASE",
    "XA START 'two'",
    "INSERT INTO a VALUES (-2, 'two phases')",
    "XA END 'two'",
    "XA PREPARE 'two'",
    "XA COMMIT 'two'",
    "SET gtid_next = 'AUTOMATIC:tagged'",
    "INSERT INTO a VALUES (-3, 'tagged')",
    "DELETE FROM a WHERE id = 5",
    "SET gtid_next = 'AUTOMATIC'",
)

SERVERS: dict[str, dict[str, str]] = {
    "plain": {},
    "without checksums": {"binlog_checksum": "NONE"},
    "compressed": {"binlog_transaction_compression": "ON"},
    "compressed well": {
        "binlog_transaction_compression": "ON",
        "binlog_transaction_compression_level_zstd": "19",
    },
    "compressed, without checksums": {"binlog_transaction_compression": "ON", "binlog_checksum": "NONE"},
    "with its queries": {"binlog_rows_query_log_events": "ON"},
    "in small events": {"binlog_row_event_max_size": "256"},
}


@pytest.mark.parametrize("kind", SERVERS)
async def test_whatever_a_server_logs_is_what_it_has(mysql_factory: MysqlFactory, kind: str) -> None:
    server = mysql_factory({**GTIDS, **FULL_METADATA, **SERVERS[kind]})
    async with copying(server):
        await asyncio.to_thread(server.sql, DEEP, *STORIES, database="shop")


async def test_the_checksum_changes_in_mid_stream(mysql_factory: MysqlFactory) -> None:
    server = mysql_factory({**GTIDS, **FULL_METADATA})
    async with copying(server):
        for algorithm in ("NONE", "CRC32", "NONE"):
            server.sql("INSERT INTO a SELECT COUNT(*), 'x' FROM a", database="shop")
            server.sql(f"SET GLOBAL binlog_checksum = {algorithm}")
            server.sql("INSERT INTO a SELECT COUNT(*), 'y' FROM a", database="shop")


async def test_many_transactions_of_one_row(mysql_factory: MysqlFactory) -> None:
    """Each changes one of two tables; a slice takes 20,000."""
    server = mysql_factory({**GTIDS, **FULL_METADATA})
    async with copying(server) as copy:
        await asyncio.to_thread(
            server.sql,
            "CREATE PROCEDURE fill() BEGIN DECLARE i INT DEFAULT 0; WHILE i < 12000 DO INSERT INTO a VALUES (i, 'x');"
            " INSERT INTO other.c VALUES (i, 'x'); SET i = i + 1; END WHILE; END",
            "CALL fill()",
            database="shop",
        )
        await copy.through(GtidSet.parse(server.executed()))
        metrics = copy.follow.reader.metrics
        assert metrics.value(catalogue.ROWS_READ, table="shop.a", kind="insert") == 12_000


@pytest.mark.parametrize("compression", ["OFF", "ON"])
async def test_more_than_a_packet_and_a_slice_comes_in_parts(
    mysql_factory: MysqlFactory, compression: str
) -> None:
    """Values that can't be made smaller, so that the payload as well takes more than one packet of 16 MiB."""
    server = mysql_factory({**GTIDS, **FULL_METADATA, "max_allowed_packet": "1G"})
    async with copying(server) as copy:
        noise = "(SELECT GROUP_CONCAT(RANDOM_BYTES(1024) SEPARATOR '') FROM r)"
        recursive = "WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r WHERE i < {})"
        await asyncio.to_thread(
            server.sql,
            f"SET SESSION binlog_transaction_compression = {compression}",
            DEEP,
            "SET SESSION group_concat_max_len = 1 << 30",
            "BEGIN",
            f"INSERT INTO a {recursive.format(20_000)} SELECT 1, {noise}",
            *[f"INSERT INTO a {recursive.format(5_000)} SELECT {n}, {noise}" for n in range(2, 6)],
            "UPDATE b SET id = id",
            "INSERT INTO b SELECT id, NULL FROM a",
            "COMMIT",
            "INSERT INTO b VALUES (100, 'behind it')",
            database="shop",
        )
        await copy.through(GtidSet.parse(server.executed()))
        assert copy.parts >= 2


async def test_a_created_table_that_is_larger_than_a_slice(mysql_factory: MysqlFactory) -> None:
    server = mysql_factory({**GTIDS, **FULL_METADATA})
    async with copying(server) as copy:
        await asyncio.to_thread(
            server.sql, DEEP, MANY.format(table="a", count=6_000, value="REPEAT('x', 2000)"), database="shop"
        )
        await copy.through(GtidSet.parse(server.executed()))
        parts = copy.parts
        await asyncio.to_thread(server.sql, "CREATE TABLE large AS SELECT * FROM a", database="shop")
        assert isinstance(
            await copy.follow.next((CreateTableSelectRead, TransactionPartRead, TransactionsRead)),
            CreateTableSelectRead,
        )
        await copy.through(GtidSet.parse(server.executed()))
        assert copy.parts >= 2 * parts > 0
