"""MySQL 5.6 by SQL: its schemas, its chunks, and what it and its grants may lack."""

import re

import pytest

from actors.source.connection import Source
from actors.source.server_facts import collect_facts
from deploy.toolchain.mysql_server import GTIDS_56, Account, MysqlServer
from pipeline.config.settings import TlsMode, TlsSettings
from pipeline.errors import Definite
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.snapshot import chunk_queries
from pipeline.snapshot.chunk_index import primary_index
from pipeline.source.prerequisites import Finding, Privilege, Severity, findings
from pipeline.types.column_types import Integer
from tests.integration.snapshot.test_chunk_walks import WALKS, shuffled
from tests.servers.mysql import MysqlFactory
from tests.servers.selector import bench
from tests.servers.source import ask, connected, select, settings

INT = Integer(4, unsigned=False)


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
    lower, upper = TableId(database56, "t"), TableId(database56, "T")
    schemas = {
        lower: TableSchema(lower, (Column("a", INT, False), Column("b", INT, True)), (0,)),
        upper: TableSchema(upper, (Column("b", INT, False), Column("a", INT, True)), (0,)),
    }
    async with connected(mysql56, database56) as source:
        for asked in ([lower], [upper], [lower, upper]):
            found = await source.describe(asked)
            assert {t: each.schema for t, each in found.items()} == {t: schemas[t] for t in asked}
        assert await source.estimate(lower) == 0
        assert await source.estimate(upper) > 250


# Descending indexes, GB 18030 and collations that don't pad came later.
NEWER = ("DESC", "gb18030", "0900_bin")
SHAPES = [name for name, (columns, _) in WALKS.items() if not any(word in columns for word in NEWER)]


@pytest.mark.parametrize("name", SHAPES)
async def test_a_walk_reads_each_row_once_and_in_the_servers_order(
    mysql56: MysqlServer, database56: str, name: str
) -> None:
    columns, values = WALKS[name]
    columns = columns.replace("utf8mb4_0900_ai_ci", "utf8mb4_unicode_520_ci")
    key = ", ".join(column[0] for column in re.split(", (?=[a-d] )", columns))
    rows = ", ".join(f"({values[i]}, {i})" for i in shuffled(len(values)))
    mysql56.sql(
        "SET NAMES utf8mb4",
        "SET time_zone = '+00:00', sql_mode = ''",
        f"CREATE TABLE t ({columns}, n INT, PRIMARY KEY ({key}))",
        f"INSERT INTO t VALUES {rows}",
        database=database56,
    )
    expected = [n for (n,) in mysql56.sql(f"SELECT n FROM t ORDER BY {key}", database=database56)]
    assert len(expected) == len(values)
    async with bench(mysql56, database56) as running:
        plan = await running.plan(TableId(database56, "t"))
        for limit in (97, 1000):
            read = await running.walk(plan, limit)
            assert [n for batch in read for n in batch.column("n").to_pylist()] == expected


async def test_a_chunk_reads_its_own_rows_only(mysql56: MysqlServer, database56: str) -> None:
    rows = ", ".join(f"({i // 4000}, 'k{i // 10 % 400:03d}', {i % 10}, {i % 7})" for i in range(8000))
    mysql56.sql(
        "CREATE TABLE t (a INT, b VARCHAR(9), c INT, n INT, PRIMARY KEY (a, b, c), KEY (n), KEY (a), KEY (c, n))",
        f"INSERT INTO t VALUES {rows}",
        "ANALYZE TABLE t",
        database=database56,
    )
    async with connected(mysql56, database56) as source:
        [found] = (await source.describe([TableId(database56, "t")])).values()
        statement = chunk_queries.select_chunk(
            found.schema, primary_index(found.schema), (0, "k200", 5), (1, "k300", 5), 500
        )
        before = await _reads(source)
        _, [chunk] = await select(source, statement)
        after = await _reads(source)
    assert chunk.cells.shape == (4, 500)
    # One for each row; the range's few pieces cost one or two more each.
    assert after - before < 520


async def _reads(source: Source) -> int:
    told = await ask(source, "SHOW SESSION STATUS LIKE 'Handler_read%'")
    return sum(int(count) for _, count in told)


# Prerequisites


async def found_on(
    server: MysqlServer, account: Account, *tables: TableId, locks: bool = False
) -> dict[str, str]:
    """The errors that are found, the first words of each with its remedy."""
    found = await all_found_on(server, account, *tables, locks=locks)
    notes = [finding for finding in found if finding.severity is not Severity.ERROR]
    assert [note.wrong.partition(" ")[0] for note in notes] == ["MySQL", "binlog_error_action"]
    return {finding.wrong: finding.remedy for finding in found if finding not in notes}


async def all_found_on(
    server: MysqlServer, account: Account, *tables: TableId, locks: bool = False
) -> tuple[Finding, ...]:
    """The errors that are found, and the notes."""
    source = await Source.connect(settings(server, account))
    try:
        return findings(await collect_facts(source, tables, await source.describe(tables), locks))
    finally:
        source.close()


async def test_a_fit_server_and_user(mysql56: MysqlServer, database56: str) -> None:
    mysql56.sql(f"CREATE TABLE {database56}.t (id INT PRIMARY KEY)")
    assert await found_on(mysql56, mysql56.create_capture_user(database56), TableId(database56, "t")) == {}


@pytest.mark.parametrize("mode", [TlsMode.REQUIRED, TlsMode.VERIFY])
async def test_a_server_without_tls_is_not_told_who_we_are(mysql56: MysqlServer, mode: TlsMode) -> None:
    assert mysql56.sql("SHOW VARIABLES LIKE 'have_ssl'") == [("have_ssl", "DISABLED")]
    with pytest.raises(Definite, match="offers no TLS"):
        await Source.connect(settings(mysql56, mysql56.create_capture_user(), tls=TlsSettings(mode)))


async def test_foreign_keys_whose_changes_are_not_logged(mysql56: MysqlServer, database56: str) -> None:
    mysql56.sql(
        "CREATE TABLE a (id INT PRIMARY KEY)",
        "CREATE TABLE b (id INT PRIMARY KEY, a INT, FOREIGN KEY (a) REFERENCES a (id) ON DELETE CASCADE)",
        database=database56,
    )
    tables = [TableId(database56, name) for name in "ab"]
    [wrong] = await found_on(mysql56, mysql56.create_capture_user(database56), *tables)
    assert wrong.startswith(f"foreign keys change rows of {database56}.b along")


async def test_a_label_that_is_not_told_is_noted(mysql56: MysqlServer, database56: str) -> None:
    """Otherwise the log's rows would have the text that information_schema shows instead."""
    mysql56.sql(
        "SET NAMES utf8mb4",
        "CREATE TABLE t (id INT PRIMARY KEY, e ENUM('a', '😀') CHARACTER SET utf8mb4)",
        database=database56,
    )
    account = mysql56.create_capture_user(database56)
    *_, note = await all_found_on(mysql56, account, TableId(database56, "t"))
    assert note.severity is Severity.NOTE
    assert note.wrong.startswith(f"a label of e of {database56}.t has a question mark")


UNFIT = {
    "log_bin is OFF": {},
    "gtid_mode is OFF": {"log_bin": "binlog"},
    "enforce_gtid_consistency is OFF": {"log_bin": "binlog"},
    "binlog_format is MIXED": {**GTIDS_56, "binlog_format": "MIXED"},
    "the log is filtered by database (shop)": {**GTIDS_56, "binlog_do_db": "shop"},
}


@pytest.mark.parametrize("wrong", UNFIT)
async def test_each_unfit_setting_is_found_and_can_be_mended(
    mysql56_factory: MysqlFactory, wrong: str
) -> None:
    server = mysql56_factory(UNFIT[wrong])
    found = await found_on(server, server.create_capture_user())
    [remedy] = [remedy for text, remedy in found.items() if text.startswith(wrong)]
    if remedy.startswith("SET"):
        server.sql(remedy.partition(",")[0])
        assert not await found_on(server, server.create_capture_user())


@pytest.mark.parametrize("missing", [*Privilege, "SELECT"])
async def test_each_missing_right_is_found_and_its_remedy_mends_it(
    mysql56: MysqlServer, database56: str, missing: str
) -> None:
    mysql56.sql(f"CREATE TABLE {database56}.t (id INT PRIMARY KEY)", "CREATE USER u")
    for right in {"REPLICATION SLAVE", "REPLICATION CLIENT"} - {missing}:
        mysql56.sql(f"GRANT {right} ON *.* TO u")
    if missing != "SELECT":
        mysql56.sql(f"GRANT SELECT ON {database56}.* TO u")
    locks = missing == Privilege.RELOAD
    table = TableId(database56, "t")
    try:
        [(wrong, remedy)] = (await found_on(mysql56, Account("u", ""), table, locks=locks)).items()
        assert (str(table) if missing == "SELECT" else missing) in wrong
        mysql56.sql(remedy)
        assert await found_on(mysql56, Account("u", ""), table, locks=locks) == {}
    finally:
        mysql56.sql("DROP USER u")
