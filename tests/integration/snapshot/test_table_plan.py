"""Plans on a real server: where tables are divided, which surrogate keys are valid, and which rows are requested."""

import pytest

from actors import chunk_selector
from deploy.toolchain.mysql_server import MysqlServer
from pipeline.gtid.gtid_set import GtidSet
from pipeline.messages.chunks import NotDivided, PlanFailed, PlanTable
from pipeline.schema.row_keys import Key
from pipeline.schema.table_schema import TableId
from pipeline.snapshot.snapshot import Request
from pipeline.source.parameters import EXACT_CHARSETS
from pipeline.types.text.charsets import code_points
from tests.servers.selector import bench, divided

ROWS = 30_000

NUMBERS = "WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {last})"
# Of each shape: the columns of the key, what they are in the row number i, and how many times its share a part may be.
SHAPES = {
    "one after the other": ("a INT", "i", 1.5),
    "an outlier far away": ("a BIGINT UNSIGNED", "IF(i = 7, 18446744073709551615, i)", 1.5),
    "clusters": ("a BIGINT", "i DIV 6000 * 1000000000000 + i", 1.5),
    "sparse and descending": ("a DOUBLE DESC", "POW(i, 4)", 2.2),
    "one large tenant": ("a INT, b INT", "IF(i < 100, i, 50), i", 1.5),
    "uuids": ("a CHAR(36) COLLATE utf8mb4_0900_ai_ci", "BIN_TO_UUID(UNHEX(LEFT(SHA2(i, 256), 32)))", 1.5),
    "hashes": ("a BINARY(16)", "UNHEX(LEFT(SHA2(i, 256), 32))", 1.5),
    "numbered": ("a VARCHAR(20) CHARACTER SET gbk", "CONCAT('item-', LPAD(i, 6, '0'))", 1.8),
    "moments": ("a DATETIME(3), b DECIMAL(20,4)", "'2024-01-01' + INTERVAL i DIV 5 SECOND, i / 3", 1.5),
    "an enum and numbers": ("a ENUM('x','y','z') DESC, b INT", "1 + (i % 100 > 2) + (i % 100 > 4), i", 1.8),
}


@pytest.mark.parametrize("name", SHAPES)
async def test_a_table_is_divided_into_about_equal_parts_by_few_questions(
    mysql: MysqlServer, database: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns, values, most = SHAPES[name]
    ranges = 4
    monkeypatch.setattr(chunk_selector, "LEAST_ROWS_OF_RANGE", 1000)
    key = ", ".join(
        f"{part.split()[0]}{' DESC' * part.endswith('DESC')}"
        for part in columns.split(", ")
        if part[1] == " "
    )
    mysql.sql(
        "SET SESSION cte_max_recursion_depth = 1000000",
        f"CREATE TABLE t ({columns.replace(' DESC', '')}, pad CHAR(60) DEFAULT 'x', PRIMARY KEY ({key}))",
        f"INSERT INTO t ({key.replace(' DESC', '')}) {NUMBERS.format(last=ROWS - 1)} SELECT {values} FROM n",
        "ANALYZE TABLE t",
        database=database,
    )
    async with bench(mysql, database) as running:
        before = queries(mysql)
        plan = await running.plan(TableId(database, "t"), ranges=ranges)
        asked = queries(mysql) - before
        assert len(divided(plan).splits) == ranges - 1
        edges: list[Key] = [*divided(plan).splits, divided(plan).end]
        sizes = [
            (await running.read(running.chunk(plan, after, end, 10 * ROWS))).rows.num_rows
            for after, end in zip([None, *edges], edges, strict=False)
        ]
    assert sum(sizes) == ROWS
    assert max(sizes) <= most * ROWS / ranges, sizes
    # Preparing and executing count one each; a session's settings and the plan's other questions are about thirty.
    assert asked < 30 + 2 * 32 * (ranges - 1)


@pytest.mark.parametrize("charset", sorted(EXACT_CHARSETS))
async def test_a_text_key_of_any_character_set_can_be_divided(
    either: tuple[MysqlServer, str], charset: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunk_selector, "LEAST_ROWS_OF_RANGE", 100)
    server, database = either
    known = [point for point in code_points(charset) if not 0xD800 <= point < 0xE000]
    begins = ["/", "z", *map(chr, known[0x61 :: len(known) // 7])]
    rows = ", ".join(
        f"(CONVERT(x'{f'{begin}{i:04}'.encode().hex()}' USING utf8mb4))"
        for begin in begins
        for i in range(200)
    )
    named = "utf8" if charset == "utf8mb3" else charset  # as 5.6 has it
    server.sql(
        f"CREATE TABLE t (a VARCHAR(20) CHARACTER SET {named} COLLATE {named}_bin PRIMARY KEY)",
        f"INSERT INTO t VALUES {rows}",
        "ANALYZE TABLE t",
        database=database,
    )
    async with bench(server, database) as running:
        plan = await running.plan(TableId(database, "t"), ranges=4)
    assert len(divided(plan).splits) == 3


def queries(mysql: MysqlServer) -> int:
    """How many commands the server has had so far."""
    [(_, told)] = mysql.sql("SHOW GLOBAL STATUS LIKE 'Questions'")
    return int(told)


async def test_a_small_table_is_one_range(mysql: MysqlServer, database: str) -> None:
    mysql.sql("CREATE TABLE t (a INT PRIMARY KEY)", "INSERT INTO t VALUES (1), (2), (3)", database=database)
    async with bench(mysql, database) as running:
        assert divided(await running.plan(TableId(database, "t"), ranges=8)).splits == ()


async def test_a_resumed_table_gets_its_walk_and_no_end(mysql: MysqlServer, database: str) -> None:
    mysql.sql(
        "CREATE TABLE t (a INT, b INT, PRIMARY KEY (b, a DESC))",
        "INSERT INTO t VALUES (1, 2)",
        database=database,
    )
    async with bench(mysql, database) as running:
        plan = await running.plan(TableId(database, "t"), ranges=0)
    assert plan.ranges == NotDivided()
    assert (plan.walk.index, plan.walk.columns, plan.walk.descending) == ("PRIMARY", (1, 0), (False, True))


# -- surrogate keys


async def test_a_surrogate_key_is_walked_and_rows_come_whole(mysql: MysqlServer, database: str) -> None:
    rows = ", ".join(f"(x'{i * 7919 % 1000:04x}', {i}, {i % 10}, '{i}')" for i in range(1000))
    mysql.sql(
        "CREATE TABLE t (a BINARY(2) PRIMARY KEY, b INT NOT NULL, c INT, d TEXT, UNIQUE KEY `of b` (b), KEY (c))",
        f"INSERT INTO t VALUES {rows}",
        database=database,
    )
    async with bench(mysql, database) as running:
        for named in ("of b", "b"):
            request = Request(surrogate=named)
            plan = await running.plan(TableId(database, "t"), request)
            assert plan.walk.index == "of b"
            read = await running.walk(plan, 300, request)
            assert [b for batch in read for b in batch["b"].to_pylist()] == list(range(1000))
            assert {d for batch in read for d in batch["d"].to_pylist()} == {str(i) for i in range(1000)}


@pytest.mark.parametrize(
    ("surrogate", "reason"),
    [
        ("nothing", "has no unique index that is called 'nothing'"),
        ("c", "has no unique index that is called 'c'"),  # it isn't unique
        ("n", "its column n may be NULL"),
        ("f", "a part of it is an expression"),
        ("d", "its column d is in it with a prefix only"),
        ("v", "has no unique index that is called 'v'"),  # it's invisible
    ],
)
async def test_what_does_not_tell_rows_apart_is_no_surrogate_key(
    mysql: MysqlServer, database: str, surrogate: str, reason: str
) -> None:
    mysql.sql(
        "CREATE TABLE t (a INT PRIMARY KEY, c INT NOT NULL, n INT, d TEXT NOT NULL, v INT NOT NULL,"
        " KEY (c), UNIQUE (n), UNIQUE f (c, (n + 1)), UNIQUE (d(10)), UNIQUE v (v) INVISIBLE)",
        database=database,
    )
    async with bench(mysql, database) as running:
        await running.order(PlanTable(TableId(database, "t"), Request(surrogate=surrogate), 1, GtidSet()))
        answer = await running.answer()
    assert isinstance(answer, PlanFailed)
    assert reason in answer.reason


# -- which rows


@pytest.mark.parametrize(
    ("condition", "where"),
    [
        ("kind = 'open' AND (price >= 9.99 OR `a b` IS NULL)", None),
        ("id BETWEEN 100 AND 900 AND NOT id IN (200, 300)", None),
        ("kind LIKE 'o%' OR made < '2024-01-10'", None),
        ("made >= '2024-01-10 12:00:00.5' AND ratio > 0.25", None),
        ("`a b` = 'it''s' OR price <> 3.50", None),
        ("took > '-00:00:10' AND took <= '01:00:00'", None),
        ("id = 1 OR kind = 'x'' OR ''1''=''1'", "id = 1 OR kind = 'x'' OR ''1''=''1'"),
        ("id < 0", None),
    ],
)
async def test_a_condition_gives_the_rows_that_it_gives_on_the_server(
    mysql: MysqlServer, database: str, condition: str, where: str | None
) -> None:
    values = ", ".join(
        f"({i}, '{'open' if i % 3 else 'done'}', {i % 50 / 4}, {'NULL' if i % 4 else repr(str(i))},"
        f" '2024-01-01' + INTERVAL {i} HOUR, {i / 1000}, SEC_TO_TIME({i * 10 - 100}))"
        for i in range(1000)
    )
    mysql.sql(
        "CREATE TABLE t (id INT PRIMARY KEY, kind VARCHAR(9), price DECIMAL(9,2), `a b` VARCHAR(9), made DATETIME(3),"
        " ratio DOUBLE, took TIME)",
        f"INSERT INTO t VALUES {values}",
        database=database,
    )
    expected = [
        i for (i,) in mysql.sql(f"SELECT id FROM t WHERE {where or condition} ORDER BY id", database=database)
    ]
    async with bench(mysql, database) as running:
        request = Request(condition=condition)
        plan = await running.plan(TableId(database, "t"), request)
        read = await running.walk(plan, 70, request)
    assert [i for batch in read for i in batch["id"].to_pylist()] == expected


async def test_a_condition_that_nearly_no_row_satisfies_reads_no_more_than_its_limit_at_once(
    mysql: MysqlServer, database: str
) -> None:
    rows = ", ".join(f"({i}, {i % 900})" for i in range(1000))
    mysql.sql("CREATE TABLE t (a INT PRIMARY KEY, b INT)", f"INSERT INTO t VALUES {rows}", database=database)
    request = Request(condition="b = 899")
    async with bench(mysql, database) as running:
        plan = await running.plan(TableId(database, "t"), request)
        chunk = await running.read(running.chunk(plan, None, divided(plan).end, 100, request))
        assert (chunk.rows.num_rows, chunk.upto, chunk.scanned) == (0, (99,), 100)
        read = await running.walk(plan, 100, request)
    assert [batch.num_rows for batch in read] == [0] * 8 + [1, 0, 0]


async def test_keys_that_are_asked_for_come_and_no_others(mysql: MysqlServer, database: str) -> None:
    rows = ", ".join(f"({i % 40}, {1 + i % 3}, {i})" for i in range(1000))
    mysql.sql(
        "CREATE TABLE t (a INT, b ENUM('x','y','z'), c INT, PRIMARY KEY (a, b, c))",
        f"INSERT INTO t VALUES {rows}",
        database=database,
    )
    keys = tuple((i % 40, 1 + i % 3, i) for i in range(0, 1000, 7))
    request = Request(keys=(*keys, (99, 1, 1)))
    async with bench(mysql, database) as running:
        plan = await running.plan(TableId(database, "t"), request)
        assert divided(plan).expected == len(keys) + 1
        read = await running.walk(plan, 50, request)
    assert sorted(c for batch in read for c in batch["c"].to_pylist()) == [key[2] for key in keys]


async def test_nothing_of_a_signals_text_reaches_the_server_as_text(
    mysql: MysqlServer, database: str
) -> None:
    mysql.sql(
        "CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR(99))",
        "INSERT INTO t VALUES (1, 'x')",
        database=database,
    )
    request = Request(condition="b = 'sesame''; DROP TABLE t; -- ' OR B LIKE 'sesame%' OR a IN (4711, 4712)")
    mysql.sql("SET GLOBAL general_log = ON")
    try:
        async with bench(mysql, database) as running:
            plan = await running.plan(TableId(database, "t"), request)
            await running.walk(plan, 10, request)
    finally:
        mysql.sql("SET GLOBAL general_log = OFF")
    prepared = [
        each.text for each in mysql.logged() if each.kind == "Prepare" and f"`{database}`" in each.text
    ]
    assert any("`b` = ?" in text for text in prepared)
    # What the log shows as executed is the server's own rendering of the values that were bound.
    sent = [each.text for each in mysql.logged() if each.kind in {"Prepare", "Query"}]
    assert not any("sesame" in text or "4711" in text for text in sent)
