"""Schemas from information_schema are those of the log, on a real server."""

import pytest

from actors.source.connection import Source
from deploy.toolchain.mysql_server import Account, MysqlServer
from pipeline.binlog.events.table_map_event import table_map
from pipeline.schema.table_map import FullMetadata, TableMap
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.source import information_schema
from pipeline.types.column_types import Enum, Integer, Set
from pipeline.types.enum_labels import UNKNOWN_CHARACTER
from pipeline.verifier.columns import self_described
from tests.servers.source import connected, read_whole, settings
from tests.servers.value_tables import edge_tables

INT = Integer(4, unsigned=False)


def logged_map(server: MysqlServer, database: str, *statements: str) -> TableMap:
    """The table map that these statements write to the log, each of them the same."""
    [(name, start, *_)] = server.sql("SHOW BINARY LOG STATUS")
    server.sql(*statements, database=database)
    with (server.data / name).open("rb") as file:
        file.seek(start)
        log = file.read()
    maps: set[TableMap] = set()
    at = 0
    while at < len(log):
        code, size = log[at + 4], int.from_bytes(log[at + 9 : at + 13], "little")
        if code == 19:
            maps.add(table_map(log[at + 19 : at + size - 4]))
        at += size
    [found] = maps
    return found


def of_log(found: TableMap) -> TableSchema:
    assert isinstance(found.metadata, FullMetadata)
    return self_described(found, found.metadata)


def in_bmp(column: str) -> str:
    """Without what information_schema can't show in labels."""
    return column.replace("😀", "€")


EDGES = {f"edges{i}": table for i, table in enumerate(edge_tables((9, 7, 4)))}
ODD_TABLES = {
    "generated": "(id INT, a VARCHAR(9), v INT AS (id + 1) VIRTUAL, s INT AS (id + 2) STORED, i INT INVISIBLE,"
    " PRIMARY KEY (id), INDEX ((LOWER(a))))",
    "key_order": "(a INT, b VARCHAR(9) CHARACTER SET latin1, c BINARY(3), PRIMARY KEY (c, a))",
    "key_prefix": "(a TEXT, b VARCHAR(99), n INT NOT NULL, PRIMARY KEY (n, b(5), a(3)))",
    "no_key": "(a INT NOT NULL, b INT, t VARCHAR(9) NOT NULL, UNIQUE (b), UNIQUE (t(3)), INDEX (a))",
    "unique": "(a INT NOT NULL, b INT NOT NULL, c INT, UNIQUE (c), UNIQUE (b, a), UNIQUE (a))",
    "two_uniques": "(a INT NOT NULL, b INT NOT NULL, UNIQUE z (b, a), UNIQUE y (a, b))",
    "binary_labels": "(id INT PRIMARY KEY, a ENUM('x', 0xF09F9880, 'it''s') CHARACTER SET binary,"
    " b SET('y', '?') CHARACTER SET binary)",
    "unique_beside_prefix": "(a VARCHAR(9) NOT NULL, b INT NOT NULL, UNIQUE (a(5), b), UNIQUE (b))",
    "labels": r"(id INT PRIMARY KEY, a ENUM('''', '\\', ',', '\n', '(''x'')', 'ü', '\0', '%'), b SET('x''', 'ß'))",
    "charsets": "(id INT PRIMARY KEY, a CHAR(3) CHARACTER SET binary, b TEXT CHARACTER SET utf8mb3,"
    " c VARCHAR(9) COLLATE latin1_bin, d ENUM('ж') CHARACTER SET cp1251, e SET('x') CHARACTER SET utf16,"
    " f LONGTEXT COLLATE utf8mb4_0900_as_cs, g VARCHAR(9) COLLATE utf8mb4_bin) CHARACTER SET latin2",
    "it's `odd` %s": "(`a``b` INT PRIMARY KEY, `%s` INT, `sp ace` INT, `ünï` INT)",
}


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        *((name, in_bmp(table.create("").split(maxsplit=2)[2])) for name, table in EDGES.items()),
        *ODD_TABLES.items(),
    ],
)
async def test_a_schema_is_the_same_from_the_log(
    mysql: MysqlServer, database: str, name: str, columns: str
) -> None:
    quoted = name.replace("`", "``")
    insert = EDGES[name].insert(name) if name in EDGES else f"INSERT IGNORE INTO `{quoted}` () VALUES ()"
    mapped = logged_map(
        mysql,
        database,
        "SET NAMES utf8mb4",
        f"CREATE TABLE `{quoted}` {columns}",
        "SET sql_mode = '', cte_max_recursion_depth = 100000",
        insert,
    )
    async with connected(mysql, database) as source:
        table = TableId(database, name)
        assert table in await source.tables()
        [found] = (await source.describe([table])).values()
    logged = of_log(mapped)
    assert [*found.schema.columns] == [*logged.columns]
    assert found.schema == logged
    assert found.schema.version == logged.version
    assert found.prefixed == (("b", "a") if name == "key_prefix" else ())


async def test_a_generated_invisible_key_is_a_key(mysql: MysqlServer, database: str) -> None:
    mapped = logged_map(
        mysql,
        database,
        "SET sql_generate_invisible_primary_key = ON",
        "CREATE TABLE t (a INT)",
        "INSERT INTO t VALUES (5), (6)",
    )
    async with connected(mysql, database) as source:
        [found] = (await source.describe([TableId(database, "t")])).values()
        assert found.schema.key_names == ("my_row_id",)
        assert found.schema == of_log(mapped)
        assert (await read_whole(source, found.schema)).column("a").to_pylist() == [5, 6]


async def test_a_label_beyond_the_servers_own_charset_is_doubtful(mysql: MysqlServer, database: str) -> None:
    mysql.sql(
        "SET NAMES utf8mb4", "CREATE TABLE t (a ENUM('😀'), b SET('?'), c ENUM('ok'))", database=database
    )
    async with connected(mysql, database) as source:
        [found] = (await source.describe([TableId(database, "t")])).values()
    assert [column.type for column in found.schema.columns[:2]] == [
        Enum((UNKNOWN_CHARACTER,)),
        Set((UNKNOWN_CHARACTER,)),
    ]
    assert found.doubtful == ("a", "b")


async def test_what_the_user_may_not_see_is_not_there(mysql: MysqlServer, database: str) -> None:
    mysql.sql(f"CREATE TABLE {database}.t (id INT PRIMARY KEY)")
    mysql.sql("CREATE USER blind", "GRANT REPLICATION CLIENT ON *.* TO blind")
    source = await Source.connect(settings(mysql, Account("blind", "")))
    assert await source.describe([TableId(database, "t"), TableId(database, "none")]) == {}
    assert await source.describe([]) == {}
    assert await source.tables() == ()
    source.close()
    mysql.sql("DROP USER blind")


async def test_many_tables_are_described_by_several_statements(
    mysql: MysqlServer, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [TableId(database, f"t{number}") for number in range(5)]
    mysql.sql(*(f"CREATE TABLE {name} (id INT PRIMARY KEY)" for name in names))
    async with connected(mysql, database) as source:
        together = await source.describe(names)
        monkeypatch.setattr(information_schema, "MOST_DESCRIBED", 2)
        assert await source.describe(names) == together
    assert list(together) == names


async def test_an_earlier_answer_is_returned_only_if_the_server_says_the_same(
    mysql: MysqlServer, database: str
) -> None:
    plain, ambiguous = TableId(database, "plain"), TableId(database, "ambiguous")
    mysql.sql(
        f"CREATE TABLE {plain} (id INT PRIMARY KEY, e ENUM('x'))",
        f"CREATE TABLE {ambiguous} (a INT NOT NULL, b INT NOT NULL, UNIQUE z (b, a), UNIQUE y (a, b))",
    )
    async with connected(mysql, database) as source:
        first = await source.descriptions([plain])
        assert await source.descriptions([plain], first) is first
        both = await source.descriptions([ambiguous, plain])
        assert await source.descriptions([ambiguous, plain], first) == both != first
        # SHOW KEYS decides on this one's key, so its rows alone don't.
        assert await source.descriptions([ambiguous, plain], both) is not both
        mysql.sql(f"ALTER TABLE {plain} MODIFY e ENUM('x', 'y')")
        assert await source.descriptions([plain], first) != first
        mysql.sql(f"DROP TABLE {plain}")
        assert await source.descriptions([plain], first) == information_schema.Descriptions({}, {})


async def test_the_estimate_is_near(mysql: MysqlServer, database: str) -> None:
    values = ", ".join(f"({i})" for i in range(1000))
    mysql.sql(
        "CREATE TABLE t (id INT PRIMARY KEY)",
        f"INSERT INTO t VALUES {values}",
        "ANALYZE TABLE t",
        database=database,
    )
    async with connected(mysql, database) as source:
        assert 500 < await source.estimate(TableId(database, "t")) < 2000
        assert await source.estimate(TableId(database, "none")) == 0


async def test_tables_whose_names_differ_in_case_are_not_confused(
    mysql56: MysqlServer, database56: str
) -> None:
    """Its information_schema takes `t` and `T` for equal."""
    mysql56.sql(
        "CREATE TABLE t (a INT PRIMARY KEY, b INT)",
        "CREATE TABLE T (b INT PRIMARY KEY, a INT, UNIQUE (a))",
        f"INSERT INTO T VALUES {', '.join(f'({i}, {i})' for i in range(500))}",
        "ANALYZE TABLE T",
        database=database56,
    )
    lower, upper, none = (TableId(database56, name) for name in ("t", "T", "none"))
    schemas = {
        lower: TableSchema(lower, (Column("a", INT, False), Column("b", INT, True)), (0,)),
        upper: TableSchema(upper, (Column("b", INT, False), Column("a", INT, True)), (0,)),
    }
    async with connected(mysql56, database56) as source:
        for asked in ([lower], [upper], [lower, upper], [lower, none]):
            found = await source.describe(asked)
            assert {t: each.schema for t, each in found.items()} == {
                t: schemas[t] for t in asked if t != none
            }
        assert await source.estimate(lower) == 0
        assert await source.estimate(upper) > 250


async def test_columns_whose_names_differ_by_an_accent_are_not_confused(
    mysql56: MysqlServer, database56: str
) -> None:
    """Its information_schema takes `a` and `á` for equal, and `s` and `ß`. A table may have all four."""
    mysql56.sql(
        "SET NAMES utf8mb4",
        "CREATE TABLE t (`á` INT, a INT, `ß` INT, s INT, PRIMARY KEY (s, `á`))",
        "CREATE TABLE u (`á` INT NOT NULL, a INT NOT NULL, UNIQUE (a))",
        database=database56,
    )
    t, u = (TableId(database56, name) for name in "tu")
    async with connected(mysql56, database56) as source:
        found = await source.describe([t, u])
        assert {table: each.schema.key_names for table, each in found.items()} == {t: ("s", "á"), u: ("a",)}
        assert [[part.column for part in index] for index in (await source.indexes(t)).values()] == [
            ["s", "á"]
        ]


STALE = {
    "(id INT PRIMARY KEY, a INT, g TEXT AS (a) VIRTUAL, h JSON AS (JSON_ARRAY(a)) VIRTUAL, INDEX (g(9)))": {
        "g",
        "h",
    },
    "(id INT PRIMARY KEY, a INT, g TEXT AS (a) VIRTUAL, l INT AS (LENGTH(g)) VIRTUAL, INDEX (a, l))": {"g"},
    "(id INT PRIMARY KEY, h JSON AS ('[1]') VIRTUAL, INDEX ((CAST(h->'$[*]' AS UNSIGNED ARRAY))))": {"h"},
    "(id INT PRIMARY KEY, a INT, g TEXT AS (a) VIRTUAL, INDEX (a))": set(),
    "(id INT PRIMARY KEY, a INT, g TEXT AS (a) STORED, l INT AS (LENGTH(g)) VIRTUAL, INDEX (l))": set(),
    "(id INT PRIMARY KEY, a INT, g VARCHAR(900) AS (a) VIRTUAL, INDEX (g(9)))": set(),
    "(id INT PRIMARY KEY, a INT, g TEXT AS (a) VIRTUAL) ENGINE = MyISAM": set(),
}


@pytest.mark.parametrize("columns", STALE)
async def test_columns_that_the_log_may_have_stale(mysql: MysqlServer, database: str, columns: str) -> None:
    mysql.sql(f"CREATE TABLE t {columns}", database=database)
    async with connected(mysql, database) as source:
        [found] = (await source.describe([TableId(database, "t")])).values()
        again = await source.descriptions([TableId(database, "t")])
        assert await source.descriptions([TableId(database, "t")], again) == again
    assert found.traits.stale == STALE[columns]
