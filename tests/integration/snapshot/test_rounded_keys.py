"""Keys that are FLOAT(M,D) or DOUBLE(M,D), whose values have more digits than the server shows."""

from dataclasses import replace

import pytest

from actors.snapshot.table_plan import ask_roundings
from actors.source.connection import Source
from deploy.toolchain.mysql_server import MysqlServer
from pipeline.gtid.gtid_set import GtidSet
from pipeline.messages.chunks import ChunkRead, ReselectRows
from pipeline.schema.row_keys import key_tokens
from pipeline.schema.table_schema import TableId
from pipeline.snapshot.chunk_queries import select_chunk
from pipeline.snapshot.snapshot import ChunkId, Request
from pipeline.source.statement import Statement
from tests.servers.selector import bench, divided
from tests.servers.source import connected, select

# The key's columns as they are made, as MySQL alters them in place, and rows. The server shows several keys alike.
TABLES = {
    "double": ("a DOUBLE", "a DOUBLE(10,2)", [f"{i / 7}e0" for i in range(-50, 50)]),
    "float": ("a FLOAT", "a FLOAT(10,2)", [f"{i / 7}e0" for i in range(-50, 50)]),
    "close": ("a DOUBLE", "a DOUBLE(10,1)", [f"1 + {i} * 1e-9" for i in range(40)]),
    "whole": ("a DOUBLE", "a DOUBLE(10,0)", [f"{i / 3}e0" for i in range(-20, 20)]),
    "without a sign": (
        "a DOUBLE UNSIGNED",
        "a DOUBLE(10,2) UNSIGNED",
        [f"{i * i / 999}e0" for i in range(40)],
    ),
    "beyond the digits": ("a DOUBLE", "a DOUBLE(4,2)", [f"{i} * 33.333e0" for i in range(-9, 10)]),
    "beyond the unsigned digits": (
        "a FLOAT UNSIGNED",
        "a FLOAT(4,2) UNSIGNED",
        [f"{i} * 33.333e0" for i in range(9)],
    ),
    "no whole digits": ("a DOUBLE", "a DOUBLE(2,2)", [f"{i} * 0.1717e0" for i in range(-9, 9)]),
    "tiny": ("a DOUBLE", "a DOUBLE(40,30)", [f"{i} * 1e-25" for i in range(-9, 9)]),
    "great": ("a DOUBLE", "a DOUBLE(30,2)", [f"1e13 + {i} * 7.8125e-3" for i in range(-9, 9)]),
    "first of two": (
        "a DOUBLE, b INT",
        "a DOUBLE(10,2)",
        [f"{i // 3 / 700}e0, {i % 3}" for i in range(60)],
    ),
    "second of two": (
        "b INT, a DOUBLE",
        "a DOUBLE(10,2)",
        [f"{i // 30}, {i % 30 / 700}e0" for i in range(60)],
    ),
    "both": (
        "a DOUBLE, b FLOAT",
        "a DOUBLE(10,2) NOT NULL, MODIFY b FLOAT(10,1)",
        [f"{i // 8 / 700}e0, {i % 8 / 70}" for i in range(60)],
    ),
    "descending": ("a DOUBLE DESC", "a DOUBLE(10,2)", [f"{i / 700}e0" for i in range(-30, 30)]),
}


def is_old(server: MysqlServer) -> bool:
    """Whether it's MySQL 5.6."""
    return str(server.sql("SELECT VERSION()")[0][0]).startswith("5.6")


def make(server: MysqlServer, database: str, name: str) -> list[int]:
    """Makes a table `t` and alters it; returns its rows' `n` in the key's order."""
    columns, altered, rows = TABLES[name]
    if "DESC" in columns and is_old(server):
        pytest.skip("MySQL 5.6 has no such key")
    parts = [part.removesuffix(" DESC") for part in columns.split(", ")]
    key = ", ".join(f"{part[0]}{' DESC' if part.endswith('DESC') else ''}" for part in columns.split(", "))
    listed = ", ".join(f"({row}, {n})" for n, row in enumerate(rows))
    server.sql(
        f"CREATE TABLE t ({', '.join(parts)}, n INT, PRIMARY KEY ({key}))",
        f"INSERT INTO t VALUES {listed}",
        f"ALTER TABLE t MODIFY {altered} NOT NULL",
        database=database,
    )
    hidden = server.sql("SELECT COUNT(*) FROM t WHERE CAST(a AS CHAR) + 0e0 <> a + 0e0", database=database)
    assert hidden[0][0], "the server has rounded all values"
    return [n for (n,) in server.sql(f"SELECT n FROM t ORDER BY {key}", database=database)]


@pytest.mark.parametrize("name", TABLES)
async def test_rows_that_are_shown_alike_are_read_once_each(
    either: tuple[MysqlServer, str], name: str
) -> None:
    mysql, database = either
    expected = make(mysql, database, name)
    async with bench(mysql, database) as running:
        plan = await running.plan(TableId(database, "t"))
        read = []
        for limit in (1, 2, 100):
            read = await running.walk(plan, limit)
            assert [n for batch in read for n in batch.column("n").to_pylist()] == expected
        keys = read[0].select([plan.schema.columns[index].name for index in plan.schema.key])
        for row in range(0, len(expected), 5):
            chunk = ChunkId("s", plan.schema.table, 10_000 + row)
            one = keys.slice(row, 1)
            tokens_ = key_tokens(one, tuple(range(one.num_columns)))
            await running.order(ReselectRows(chunk, plan.schema, one, tokens_, 0, GtidSet()))
            answer = await running.answer()
            assert isinstance(answer, ChunkRead)
            assert answer.rows.column("n").to_pylist() == [expected[row]]


@pytest.mark.parametrize("name", ["double", "float", "close", "beyond the digits"])
async def test_a_condition_is_about_the_values_that_are_kept(
    either: tuple[MysqlServer, str], name: str
) -> None:
    """And not about what the server makes of its constants, when it looks for them in the walk's index."""
    mysql, database = either
    make(mysql, database, name)
    kept = [value for (value,) in mysql.sql("SELECT a + 0e0 FROM t ORDER BY a", database=database)]
    async with bench(mysql, database) as running:
        for value in kept[::25]:
            for text, expected in {
                f"a > {value!r}": [each for each in kept if each > value],
                f"a <= {value!r}": [each for each in kept if each <= value],
                f"a = {value!r}": [value],
                f"a BETWEEN {value!r} AND {value!r}": [value],
                f"a IN ({value!r}, 1e0)": [each for each in kept if each in (value, 1.0)],
                f"NOT (a < {value!r})": [each for each in kept if each >= value],
            }.items():
                request = Request(condition=text)
                plan = await running.plan(TableId(database, "t"), request)
                read = await running.walk(plan, 40, request)
                found = [each for batch in read for each in batch.column("a").to_pylist()]
                assert found == expected, text


@pytest.mark.parametrize("column", ["DOUBLE(10,2)", "FLOAT(7,2)", "DOUBLE(10,2) UNSIGNED"])
async def test_a_chunk_reads_its_own_rows_by_the_index(either: tuple[MysqlServer, str], column: str) -> None:
    mysql, database = either
    rows = ", ".join(f"({i / 4})" for i in range(1000))
    mysql.sql(f"CREATE TABLE t (a {column} PRIMARY KEY)", f"INSERT INTO t VALUES {rows}", database=database)
    async with bench(mysql, database) as running:
        plan = await running.plan(TableId(database, "t"))
    async with connected(mysql, database) as source:
        roundings = await ask_roundings(source, plan.schema, plan.walk)
        walk = replace(plan.walk, roundings=roundings)
        statement = select_chunk(plan.schema, walk, (100.25,), divided(plan).end, 100)
        before = await reads(source)
        _, located = await select(source, statement)
        after = await reads(source)
    assert sum(each.cells.shape[1] for each in located) == 100
    assert sum(after.values()) - sum(before.values()) <= 105


async def test_a_key_of_two_columns_reads_its_own_rows_by_the_index(
    either: tuple[MysqlServer, str],
) -> None:
    mysql, database = either
    rows = ", ".join(f"(0.19, {i})" for i in range(2000))
    mysql.sql(
        "CREATE TABLE t (a DOUBLE(10,2), b INT, PRIMARY KEY (a, b))",
        f"INSERT INTO t VALUES {rows}",
        database=database,
    )
    async with bench(mysql, database) as running:
        plan = await running.plan(TableId(database, "t"))
    async with connected(mysql, database) as source:
        roundings = await ask_roundings(source, plan.schema, plan.walk)
        walk = replace(plan.walk, roundings=roundings)
        statement = select_chunk(plan.schema, walk, (0.19, 1500), divided(plan).end, 100)
        before = await reads(source)
        _, located = await select(source, statement)
        after = await reads(source)
    assert sum(each.cells.shape[1] for each in located) == 100
    assert sum(after.values()) - sum(before.values()) <= 105


async def reads(source: Source) -> dict[str, int]:
    """How many rows the session has read, by how it came to them."""
    told = await source.ask(Statement("SHOW SESSION STATUS LIKE 'Handler_read_%%'"))
    return {name: int(count) for name, count in told if "rnd" not in name}
