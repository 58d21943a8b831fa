"""Walks along every kind of key, on a real server: each row once, and none but the chunk's rows read."""

import random
import re
from dataclasses import replace
from itertools import product

import pytest

from actors.source.connection import Source
from deploy.toolchain.mysql_server import MysqlServer
from pipeline.errors import Definite
from pipeline.messages.chunks import ChunkFailed, ChunkRead
from pipeline.schema.row_keys import Key, key_tokens
from pipeline.schema.table_schema import TableId
from pipeline.snapshot import chunk_queries
from pipeline.snapshot.snapshot import Request
from pipeline.source.parameters import EXACT_CHARSETS, placeholder
from pipeline.source.statement import Statement
from pipeline.types.column_types import Date
from tests.servers.selector import bench, divided
from tests.servers.source import connected, select


def shuffled(count: int) -> list[int]:
    numbers = list(range(count))
    random.Random(count).shuffle(numbers)
    return numbers


COUNT = 500
LABELS = ", ".join(f"'l{i * 7919 % 1000:03d}'" for i in range(COUNT))
MEMBERS = ", ".join(f"'m{63 - i}'" for i in range(64))
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
    "bit": ("a BIT(64)", [f"{i << 56} + {i % 7}" for i in range(256)]),
    "one bit": ("a BIT(1), b INT", [f"{i % 2}, {i}" for i in range(COUNT)]),
    "float": ("a FLOAT", [f"{i - 250} / 7 * POW(10, {i % 60 - 30})" for i in range(COUNT)]),
    "double": ("a DOUBLE", [f"1e0 / 3 + {i - 250} * 5.6e-17" for i in range(0, COUNT, 2)]),
    "enum": (f"a ENUM({LABELS})", [str(i) for i in range(COUNT)]),
    "enum and number": (f"a ENUM({LABELS}), b INT", [f"{i % 50 * 10}, {i}" for i in range(COUNT)]),
    "number and enum": (f"a INT, b ENUM({LABELS})", [f"{i // 100}, {i % 100}" for i in range(COUNT)]),
    "set": ("a SET('z','y','x','w','v','u','t','s','r')", [str(i) for i in range(COUNT)]),
    "set of many": (
        f"a SET({MEMBERS})",
        [f"{i << 56} + {i}" for i in range(256)],
    ),
    **{
        f"text by {collation}": (
            f"a VARCHAR(20) CHARACTER SET {charset} COLLATE {collation}",
            [f"'{letters[i % len(letters)]}{i}'" for i in range(COUNT)],
        )
        for charset, collation, letters in [
            ("gbk", "gbk_chinese_ci", "中丂aZ文"),
            ("gbk", "gbk_bin", "中丂aZ文"),
            ("gb18030", "gb18030_chinese_ci", "中😀aZḿ"),
            ("sjis", "sjis_japanese_ci", "テ日ｱaZ"),
            ("cp932", "cp932_bin", "テ日ｱaZ"),
            ("big5", "big5_chinese_ci", "中文aZ"),
            ("euckr", "euckr_korean_ci", "한aZ"),
            ("cp1250", "cp1250_czech_cs", "čŠchaZ"),
            ("hebrew", "hebrew_general_ci", "אשaZ"),
            ("tis620", "tis620_thai_ci", "กเaZ"),
            ("latin1", "latin1_german2_ci", "äßaZ"),
            ("ucs2", "ucs2_unicode_ci", "中éaZ"),
        ]
    },
    "text that pads and text that doesn't": (
        "a VARCHAR(9) COLLATE utf8mb4_bin, b VARCHAR(9) COLLATE utf8mb4_0900_bin",
        [f"'{i % 5}{' ' * (i % 2)}{i % 50}', '{i // 50}{' ' * (i % 3)}'" for i in range(COUNT)],
    ),
    "char that doesn't pad": ("a CHAR(9) COLLATE utf8mb4_0900_ai_ci", [f"'{i:x}\t'" for i in range(COUNT)]),
    "composite": (
        "a INT, b VARCHAR(9) COLLATE utf8mb4_0900_ai_ci, c DECIMAL(9,2)",
        [f"{i % 3}, '{'aÁb'[i // 3 % 3]}{i % 5}', {i / 4}" for i in range(COUNT)],
    ),
    "composite of times": (
        "a DATE, b TIME(3)",
        [f"'2024-01-0{1 + i % 9}', '{i % 24}:00:0{i % 7}.{i:03d}'" for i in range(COUNT)],
    ),
    "descending": ("a INT DESC", [f"{i - 250}" for i in range(COUNT)]),
    "mixed directions": (
        f"a INT, b ENUM({LABELS}) DESC, c VARCHAR(9) CHARACTER SET gbk DESC, d DATETIME(2)",
        [f"{i % 2}, {i % 5}, '中{i % 7}', '2024-01-01' + INTERVAL {i} SECOND" for i in range(COUNT)],
    ),
    "descending set": ("a SET('a','b','c') DESC, b INT DESC", [f"{i % 8}, {i}" for i in range(COUNT)]),
}
# Of these MySQL has no range of the index: all comparisons of such a SET are made row by row.
WITHOUT_RANGES = {"set of many"}


# Descending indexes, GB 18030 and collations that don't pad came after MySQL 5.6.
NEWER = ("DESC", "gb18030", "0900_bin")


@pytest.mark.parametrize("name", WALKS)
async def test_a_walk_reads_each_row_once_in_the_servers_order_and_no_others(
    either: tuple[MysqlServer, str], name: str
) -> None:
    mysql, database = either
    columns, values = WALKS[name]
    if is_old(mysql):
        if any(word in columns for word in NEWER):
            pytest.skip("MySQL 5.6 has no such key")
        columns = columns.replace("utf8mb4_0900_ai_ci", "utf8mb4_unicode_520_ci")
    parts = [column.removesuffix(" DESC") for column in re.split(", (?=[a-d] )", columns)]
    key = ", ".join(f"{part[0]} DESC" if f"{part} DESC" in columns else part[0] for part in parts)
    rows = ", ".join(f"({values[i]}, {i})" for i in shuffled(len(values)))
    mysql.sql(
        "SET NAMES utf8mb4",
        "SET time_zone = '+00:00', sql_mode = ''",
        f"CREATE TABLE t ({', '.join(parts)}, n INT, PRIMARY KEY ({key}), KEY (n))",
        f"INSERT INTO t VALUES {rows}",
        "ANALYZE TABLE t",
        database=database,
    )
    expected = [n for (n,) in mysql.sql(f"SELECT n FROM t ORDER BY {key}", database=database)]
    assert len(expected) == len(values)
    async with bench(mysql, database) as running:
        plan = await running.plan(TableId(database, "t"))
        for limit in (1, 31, len(values)):
            if limit > 1 or name == "composite":
                read = await running.walk(plan, limit)
                assert [n for batch in read for n in batch.column("n").to_pylist()] == expected
        whole = await running.read(running.chunk(plan, None, divided(plan).end, 1000))
        begun = await running.read(running.chunk(plan, None, divided(plan).end, len(values) // 3))
    assert len(set(key_tokens(whole.rows, plan.schema.key).to_pylist())) == len(expected)
    statement = chunk_queries.select_chunk(plan.schema, plan.walk, begun.upto, divided(plan).end, 100)
    if name not in WITHOUT_RANGES:
        async with connected(mysql, database) as source:
            if not is_old(mysql):  # which has no such EXPLAIN
                await plans_a_range(source, statement)
            await reads_what_it_gives(source, statement)


def is_old(server: MysqlServer) -> bool:
    """Whether it's MySQL 5.6."""
    return str(server.sql("SELECT VERSION()")[0][0]).startswith("5.6")


async def plans_a_range(source: Source, statement: Statement) -> None:
    """Hold the SELECT to a range of its index: no scan, no sort."""
    [explained] = await texts(source, Statement(f"EXPLAIN FORMAT=TREE {statement.sql}", statement.parameters))
    assert "Index range scan on t using PRIMARY" in explained
    assert "Sort" not in explained and "Index scan" not in explained and "Table scan" not in explained


async def reads_what_it_gives(source: Source, statement: Statement) -> None:
    """Hold the SELECT of 100 rows to these rows: no others are read."""
    before = await reads(source)
    _, located = await select(source, statement)
    after = await reads(source)
    assert sum(each.cells.shape[1] for each in located) == 100
    # `next` and `prev` are rows; each piece of the range begins with a `key`, which is a row or that there's none.
    assert after["next"] + after["prev"] - before["next"] - before["prev"] <= 105
    assert (
        after["first"] + after["last"] + after["rnd_next"]
        == before["first"] + before["last"] + before["rnd_next"]
    )


async def texts(source: Source, statement: Statement) -> list[str]:
    """The first column of a result."""
    _, located = await select(source, statement)
    return [
        each.value(0, row).decode(errors="replace") for each in located for row in range(each.cells.shape[1])
    ]


async def reads(source: Source) -> dict[str, int]:
    told = await source.ask(Statement("SHOW SESSION STATUS LIKE 'Handler_read_%%'"))
    return {name.removeprefix("Handler_read_"): int(count) for name, count in told}


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
    assert EXACT_CHARSETS - unicode_and_its_part == exact


async def test_the_generated_invisible_key_is_walked_even_where_the_server_hides_it(
    mysql: MysqlServer, database: str
) -> None:
    mysql.sql(
        "SET SESSION sql_generate_invisible_primary_key = ON",
        "CREATE TABLE t (n INT)",
        f"INSERT INTO t VALUES {', '.join(f'({i})' for i in range(100))}",
        database=database,
    )
    hidden = mysql.sql("SELECT @@GLOBAL.show_gipk_in_create_table_and_information_schema")
    mysql.sql("SET GLOBAL show_gipk_in_create_table_and_information_schema = OFF")
    try:
        async with bench(mysql, database) as running:
            plan = await running.plan(TableId(database, "t"))
            read = await running.walk(plan, 30)
    finally:
        mysql.sql(f"SET GLOBAL show_gipk_in_create_table_and_information_schema = {hidden[0][0]}")
    assert plan.schema.key_names == ("my_row_id",)
    assert [n for batch in read for n in batch.column("n").to_pylist()] == list(range(100))


async def test_nothing_that_a_server_sets_for_its_sessions_cuts_or_misplaces_rows(
    either: tuple[MysqlServer, str],
) -> None:
    """Nor columns or tables; the index of the MEMORY table has no order, so that each chunk is sorted."""
    mysql, database = either
    few = {"sql_select_limit": 2, "max_join_size": 3, "max_sort_length": 4, "sql_quote_show_create": 0}
    rows = ", ".join(f"('as long as {i:03}', {i}, {i})" for i in shuffled(100))
    mysql.sql(
        "CREATE TABLE t (a VARCHAR(20) PRIMARY KEY, b INT, c INT) ENGINE=MEMORY",
        f"INSERT INTO t VALUES {rows}",
        "CREATE TABLE part (id INT) ENGINE=MyISAM",
        "CREATE TABLE merged (id INT) ENGINE=MERGE UNION=(part)",
        database=database,
    )
    names = ", ".join(f"@@GLOBAL.{name}" for name in few)
    [before] = mysql.sql(f"SELECT {names}")
    mysql.sql(*(f"SET GLOBAL {name} = {value}" for name, value in few.items()))
    try:
        async with bench(mysql, database) as running:
            read = await running.walk(await running.plan(TableId(database, "t")), 7)
        async with connected(mysql, database) as source:
            told = await source.descriptions([TableId(database, "part")], brief=True)
            tables = {table.name for table in await source.tables() if table.database == database}
    finally:
        mysql.sql(*(f"SET GLOBAL {name} = {value}" for name, value in zip(few, before, strict=True)))
    assert [n for batch in read for n in batch.column("c").to_pylist()] == list(range(100))
    assert tables == {"t", "part", "merged"}
    assert told.described[TableId(database, "part")].traits.merged_by == TableId(database, "merged")


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
        assert divided(plan).end == (5,)
        mysql.sql("INSERT INTO t VALUES (3), (6), (7)", database=database)
        chunk = await running.read(running.chunk(plan, None, (5,), 10))
        assert chunk.rows.column("a").to_pylist() == [1, 3, 5]
        assert chunk.upto is None
        full = await running.read(running.chunk(plan, (1,), (5,), 2))
        assert (full.rows.column("a").to_pylist(), full.upto) == ([3, 5], (5,))
        last = await running.read(running.chunk(plan, (5,), (5,), 2))
        assert (last.rows.num_rows, last.upto) == (0, None)


KEYED_BY_DAYS = {
    "date": ("d {kind} PRIMARY KEY, n INT", None),
    "number and date": ("d {kind}, n INT, z INT NOT NULL DEFAULT 0, PRIMARY KEY (z, d)", None),
    "surrogate": ("n INT PRIMARY KEY, d {kind} NOT NULL UNIQUE", "d"),
}


@pytest.mark.parametrize("kind", ["DATE", "DATETIME(3)"])
@pytest.mark.parametrize("columns", KEYED_BY_DAYS)
async def test_a_day_past_its_months_end_ends_no_range_early(
    either: tuple[MysqlServer, str], columns: str, kind: str
) -> None:
    """As the end of the table, of a range or of a filtered chunk, and as what the next chunk begins after."""
    mysql, database = either
    created, surrogate = KEYED_BY_DAYS[columns]
    days = ["2024-01-01", "2024-01-02", "2024-02-31", "2024-03-01"]
    rows = ", ".join(f"({n}, '{day}')" for n, day in enumerate(days))
    request = Request(surrogate=surrogate)
    mysql.sql(
        "SET sql_mode = 'ALLOW_INVALID_DATES'",
        f"CREATE TABLE t ({created.format(kind=kind)})",
        f"INSERT INTO t (n, d) VALUES {rows}",
        database=database,
    )
    async with bench(mysql, database) as running:
        plan = await running.plan(TableId(database, "t"), request)
        last = divided(plan).end

        async def read(
            after: Key | None, end: Key, limit: int, request: Request = request
        ) -> list[int] | str:
            await running.order(running.chunk(plan, after, end, limit, request))
            answer = await running.answer()
            if isinstance(answer, ChunkFailed):
                return answer.reason
            assert isinstance(answer, ChunkRead)
            reached.append(answer.upto)
            numbers: list[int] = answer.rows.column("n").to_pylist()
            return numbers

        reached: list[Key | None] = []
        assert await read(None, last, 100) == [0, 1, 2, 3]
        assert await read(None, last, 3) == [0, 1, 2]
        [_, reached_day] = reached
        assert reached_day is not None
        filtered = replace(request, condition="n >= 0")
        mysql.sql("DELETE FROM t WHERE n = 3", database=database)
        table_end = divided(await running.plan(TableId(database, "t"), request)).end
        assert table_end == reached_day
        for told in (
            await read(reached_day, last, 3),
            await read(None, table_end, 100),
            await read(None, last, 3, filtered),
        ):
            assert isinstance(told, str) and "column `d` has a day past its month's end" in told


def test_the_days_that_are_refused_are_those_that_the_server_casts_to_null(
    either: tuple[MysqlServer, str],
) -> None:
    mysql, database = either
    years, months, days = ("0000", "0004", "1900", "2000", "2023", "2024"), range(13), range(32)
    each = [f"{year}-{month:02}-{day:02}" for year, month, day in product(years, months, days)]
    values = ", ".join(f"('{day}')" for day in each)
    found = mysql.sql(
        "SET sql_mode = ''",
        "CREATE TABLE t (d CHAR(10))",
        f"INSERT INTO t VALUES {values}",
        "SELECT d FROM t WHERE CAST(d AS DATE) IS NULL",
        database=database,
    )
    refused = set()
    for day in each:
        try:
            placeholder("`d`", Date(), day, None)
        except Definite:
            refused.add(day)
    assert refused == {day for (day,) in found}
