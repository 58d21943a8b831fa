"""Walks along every kind of key, on a real server: each row once, and none but the chunk's rows read."""

import random

import pytest

from actors.source import Source
from deploy.toolchain.mysql_server import MysqlServer
from pipeline import chunks
from pipeline.keys import tokens
from pipeline.schema import TableId
from pipeline.statement import Statement
from tests.servers.selector import bench
from tests.servers.source import connected, select


def shuffled(count: int) -> list[int]:
    numbers = list(range(count))
    random.Random(count).shuffle(numbers)
    return numbers


COUNT = 500
WALKS = {
    "int": ("a INT", [f"{i - 250}" for i in range(COUNT)]),
    "tinyint": ("a TINYINT", [str(i) for i in range(-128, 128)]),
    "bigint unsigned": (
        "a BIGINT UNSIGNED",
        [str(i) for i in range(250)] + [str(2**64 - 1 - i) for i in range(250)],
    ),
    "decimal": ("a DECIMAL(38,10)", [f"{(i - 250) * 10**25}.{i:010d}" for i in range(COUNT)]),
    "close decimals": ("a DECIMAL(38,20)", [f"123456789012345678.{i:020d}" for i in range(COUNT)]),
    "year": ("a YEAR", ["0", *(str(year) for year in range(1901, 2156))]),
    "date": ("a DATE", [f"DATE'2024-01-01' + INTERVAL {i} DAY" for i in range(-250, 250)]),
    "time": ("a TIME(6)", [f"SEC_TO_TIME({i * 12000}.{i % 1000:06d})" for i in range(-250, 250)]),
    "datetime": (
        "a DATETIME(6)",
        [f"TIMESTAMP'2024-03-31 01:30:00' + INTERVAL {i} MICROSECOND" for i in range(-250, 250)],
    ),
    "timestamp through a change of clocks": (
        "a TIMESTAMP(3)",
        [f"FROM_UNIXTIME({1729987200 + 30 * i}.{i % 1000:03d})" for i in range(COUNT)],
    ),
    "case-insensitive text": (
        "a VARCHAR(20) COLLATE utf8mb4_0900_ai_ci",
        [f"'{'Éeß€😀ñZzaA'[i % 10]}{i}'" for i in range(COUNT)],
    ),
    "text with padding": (
        "a VARCHAR(20) COLLATE utf8mb4_general_ci",
        [
            f"'{chr(33 + i % 90) * 2}{' ' * (i % 3)}{i // 90}'"
            for i in range(COUNT)
            if chr(33 + i % 90) not in "\\'"
        ],
    ),
    "latin1 text": (
        "a VARCHAR(20) CHARACTER SET latin1 COLLATE latin1_german1_ci",
        [f"'{'äÖüß€Éaz'[i % 8]}{i}'" for i in range(COUNT)],
    ),
    "utf16 text": (
        "a VARCHAR(20) CHARACTER SET utf16",
        [f"'{'😀ü𐍈a'[i % 4]}{i}'" for i in range(COUNT)],
    ),
    "quotes": ("a VARCHAR(20) COLLATE utf8mb4_bin", [rf"'\'\\%s%\"{i}\0\n'" for i in range(COUNT)]),
    "char": ("a CHAR(9) COLLATE utf8mb4_bin", [f"'{i:x} '" for i in range(COUNT)]),
    "binary": ("a BINARY(2)", [f"x'{i * 131 % 65536:04x}'" for i in range(COUNT)]),
    "varbinary": ("a VARBINARY(9)", [f"x'{i:02x}{'00' * n}'" for i in range(250) for n in (0, 1)]),
    "composite": (
        "a INT, b VARCHAR(9) COLLATE utf8mb4_0900_ai_ci, c DECIMAL(9,2)",
        [f"{i % 3}, '{'aÁb'[i // 3 % 3]}{i % 5}', {i / 4}" for i in range(COUNT)],
    ),
    "composite of times": (
        "a DATE, b TIME(3)",
        [f"'2024-01-0{1 + i % 9}', '{i % 24}:00:0{i % 7}.{i:03d}'" for i in range(COUNT)],
    ),
}


@pytest.mark.parametrize("name", WALKS)
async def test_a_walk_reads_each_row_once_and_in_the_servers_order(
    mysql: MysqlServer, database: str, name: str
) -> None:
    columns, values = WALKS[name]
    key = ", ".join(column.split()[0] for column in columns.split(", ") if column[1] == " ")
    rows = ", ".join(f"({values[i]}, {i})" for i in shuffled(len(values)))
    mysql.sql(
        "SET NAMES utf8mb4",
        "SET time_zone = '+00:00', sql_mode = ''",
        f"CREATE TABLE t ({columns}, n INT, PRIMARY KEY ({key}))",
        f"INSERT INTO t VALUES {rows}",
        database=database,
    )
    expected = [n for (n,) in mysql.sql(f"SELECT n FROM t ORDER BY {key}", database=database)]
    assert len(expected) == len(values)
    async with bench(mysql, database) as running:
        plan = await running.plan(TableId(database, "t"))
        assert plan.end is not None
        for limit in (1, 7, 100, len(values), 1000):
            if limit > 1 or name in {"composite", "close decimals", "case-insensitive text"}:
                read = await running.walk(plan, limit)
                assert [n for batch in read for n in batch.column("n").to_pylist()] == expected
        whole = await running.read(running.chunk(plan.schema, None, plan.end, 1000))
    assert len(set(tokens(whole.rows, plan.schema.key).to_pylist())) == len(expected)


def test_keys_are_allowed_in_no_character_set_that_loses_a_byte(mysql: MysqlServer, database: str) -> None:
    codes = ", ".join(f"(x'{code:02x}')" for code in range(256))
    mysql.sql("CREATE TABLE t (c BINARY(1))", f"INSERT INTO t VALUES {codes}", database=database)
    charsets = mysql.sql(
        "SELECT CHARACTER_SET_NAME FROM information_schema.CHARACTER_SETS"
        " WHERE MAXLEN = 1 AND CHARACTER_SET_NAME NOT IN ('ascii', 'binary')"
    )
    exact = set()
    for (charset,) in charsets:
        there_and_back = f"CONVERT(CONVERT(CONVERT(c USING {charset}) USING utf8mb4) USING {charset})"
        lost = mysql.sql(
            f"SELECT 1 FROM t WHERE CAST({there_and_back} AS BINARY) <> c LIMIT 1", database=database
        )
        exact |= set() if lost else {charset}
    unicode_and_its_part = {"utf8mb4", "utf8mb3", "ucs2", "utf16", "utf16le", "utf32", "ascii"}
    assert chunks.EXACT_CHARSETS - unicode_and_its_part == exact


async def test_a_chunk_reads_its_own_rows_only_and_sorts_nothing(mysql: MysqlServer, database: str) -> None:
    rows = ", ".join(f"({i // 4000}, 'k{i // 10 % 400:03d}', {i % 10}, {i % 7})" for i in range(8000))
    mysql.sql(
        "CREATE TABLE t (a INT, b VARCHAR(9), c INT, n INT, PRIMARY KEY (a, b, c), KEY (n), KEY (a), KEY (c, n))",
        f"INSERT INTO t VALUES {rows}",
        "ANALYZE TABLE t",
        database=database,
    )
    async with connected(mysql, database) as source:
        [found] = (await source.describe([TableId(database, "t")])).values()
        statement = chunks.chunk(found.schema, (0, "k200", 5), (1, "k300", 5), 500)
        [(plan,)] = await source.ask(
            type(statement)(f"EXPLAIN FORMAT=TREE {statement.sql}", statement.parameters)
        )
        assert "Index range scan on t using PRIMARY" in plan
        assert "Sort" not in plan
        before = await _reads(source)
        _, [chunk] = await select(source, statement)
        after = await _reads(source)
    assert chunk.cells.shape == (4, 500)
    # One for each row; the range's few pieces cost one or two more each.
    assert after - before < 520


async def _reads(source: Source) -> int:
    told = await source.ask(Statement("SHOW SESSION STATUS LIKE 'Handler_read%%'"))
    return sum(
        int(count)
        for name, count in told
        if name in {"Handler_read_key", "Handler_read_next", "Handler_read_prev"}
    )


async def test_a_key_that_is_a_unique_index(mysql: MysqlServer, database: str) -> None:
    rows = ", ".join(f"({i}, {i % 7})" for i in range(100))
    mysql.sql(
        "CREATE TABLE t (a INT NOT NULL UNIQUE, n INT, KEY (n))",
        f"INSERT INTO t VALUES {rows}",
        database=database,
    )
    async with bench(mysql, database) as running:
        read = await running.walk(await running.plan(TableId(database, "t")), 30)
    assert [batch.num_rows for batch in read] == [30, 30, 30, 10]
    assert [a for batch in read for a in batch.column("a").to_pylist()] == list(range(100))


async def test_no_row_beyond_the_frozen_end_is_read(mysql: MysqlServer, database: str) -> None:
    mysql.sql("CREATE TABLE t (a INT PRIMARY KEY)", "INSERT INTO t VALUES (1), (5)", database=database)
    async with bench(mysql, database) as running:
        plan = await running.plan(TableId(database, "t"))
        assert plan.end == (5,)
        mysql.sql("INSERT INTO t VALUES (3), (6), (7)", database=database)
        chunk = await running.read(running.chunk(plan.schema, None, (5,), 10))
        assert chunk.rows.column("a").to_pylist() == [1, 3, 5]
        assert chunk.upto is None
        full = await running.read(running.chunk(plan.schema, (1,), (5,), 2))
        assert (full.rows.column("a").to_pylist(), full.upto) == ([3, 5], (5,))
        last = await running.read(running.chunk(plan.schema, (5,), (5,), 2))
        assert (last.rows.num_rows, last.upto) == (0, None)
