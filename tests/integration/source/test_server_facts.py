"""What a real server and its grants lack is found, and the remedy mends it."""

import pytest

from actors.source import server_facts
from actors.source.connection import Source
from actors.source.server_facts import TABLES_ASKED_AT_ONCE, collect_facts
from deploy.toolchain.mysql_server import FULL_METADATA, GTIDS, GTIDS_56, Account, MysqlServer
from pipeline.schema.table_schema import TableId
from pipeline.source.finding import Severity
from pipeline.source.prerequisites import Privilege, findings
from tests.servers.mysql import MysqlFactory
from tests.servers.source import connected_with, settings


async def found_on(
    server: MysqlServer, account: Account, *tables: TableId, locks: bool = False
) -> dict[str, str]:
    """What is found, the first words of each finding with its remedy, without what is always noted of MySQL 5.6."""
    source = await Source.connect(settings(server, account))
    found = findings(await collect_facts(source, tables, await source.describe(tables), locks))
    source.close()
    if server.sql("SELECT VERSION()")[0][0].startswith("5.6"):
        notes = [finding for finding in found if finding.severity is not Severity.ERROR]
        assert [note.wrong.partition(" ")[0] for note in notes[:2]] == ["MySQL", "binlog_error_action"]
        found = tuple(finding for finding in found if finding not in notes[:2])
    return {finding.wrong: finding.remedy for finding in found}


async def test_a_fit_server_and_user(either: tuple[MysqlServer, str]) -> None:
    server, database = either
    server.sql(f"CREATE TABLE {database}.t (id INT PRIMARY KEY)")
    assert await found_on(server, server.create_capture_user(database), TableId(database, "t")) == {}


UNFIT = {
    "log_bin is OFF": {"skip_log_bin": "ON"},
    "gtid_mode is OFF": {"gtid_mode": "OFF", "enforce_gtid_consistency": "OFF"},
    "enforce_gtid_consistency is WARN": {"gtid_mode": "OFF", "enforce_gtid_consistency": "WARN"},
    "gtid_mode is ON_PERMISSIVE": {"gtid_mode": "ON_PERMISSIVE", "enforce_gtid_consistency": "ON"},
    "binlog_format is MIXED": {**GTIDS, "binlog_format": "MIXED"},
    "binlog_row_image is MINIMAL": {**GTIDS, "binlog_row_image": "MINIMAL"},
    "binlog_row_metadata isn't FULL": GTIDS,
    "the log is filtered by database (shop)": {**GTIDS, "binlog_do_db": "shop"},
    "server_id is 0": {**GTIDS, "server_id": "0"},
}
UNFIT_56 = {
    "log_bin is OFF": {},
    "gtid_mode is OFF": {"log_bin": "binlog"},
    "enforce_gtid_consistency is OFF": {"log_bin": "binlog"},
    "binlog_format is MIXED": {**GTIDS_56, "binlog_format": "MIXED"},
    "the log is filtered by database (shop)": {**GTIDS_56, "binlog_do_db": "shop"},
}


@pytest.mark.parametrize("wrong", UNFIT)
async def test_each_unfit_setting_is_found(mysql_factory: MysqlFactory, wrong: str) -> None:
    server = mysql_factory(UNFIT[wrong])
    found = await found_on(server, server.create_capture_user())
    assert any(text.startswith(wrong) for text in found), found


@pytest.mark.parametrize("wrong", UNFIT_56)
async def test_each_unfit_setting_of_mysql56_is_found_and_can_be_mended(
    mysql56_factory: MysqlFactory, wrong: str
) -> None:
    server = mysql56_factory(UNFIT_56[wrong])
    found = await found_on(server, server.create_capture_user())
    [remedy] = [remedy for text, remedy in found.items() if text.startswith(wrong)]
    if remedy.startswith("SET"):
        server.sql(remedy.partition(",")[0])
        assert not await found_on(server, server.create_capture_user())


@pytest.mark.parametrize("version", ["mysql_factory", "mysql56_factory"])
async def test_the_right_to_lock_is_asked_for_without_locking(
    request: pytest.FixtureRequest, version: str
) -> None:
    factory: MysqlFactory = request.getfixturevalue(version)
    server = factory(GTIDS_56 if version == "mysql56_factory" else GTIDS)
    account = server.create_capture_user()
    async with connected_with(server, account) as source:
        assert (await collect_facts(source, [], {})).denied == {}
        told = await collect_facts(source, [], {}, locks=True)
    assert told.denied.keys() == {Privilege.RELOAD}
    [remedy] = [finding.remedy for finding in findings(told) if "lacks RELOAD" in finding.wrong]
    server.sql(remedy)
    async with connected_with(server, account) as source:
        assert (await collect_facts(source, [], {}, locks=True)).denied == {}
        server.sql("CREATE DATABASE d", "CREATE TABLE d.t (id INT)", "INSERT INTO d.t VALUES (1)")


@pytest.mark.parametrize("version", ["mysql_factory", "mysql56_factory"])
async def test_many_tables_are_tried_at_once_and_those_that_may_not_be_read_are_named(
    request: pytest.FixtureRequest, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_facts, "TABLES_ASKED_AT_ONCE", 3)
    factory: MysqlFactory = request.getfixturevalue(version)
    server = factory(GTIDS_56 if version == "mysql56_factory" else GTIDS)
    account = server.create_capture_user()
    tables = [TableId("d", name) for name in "abcdefgh"]
    server.sql("CREATE DATABASE d", *(f"CREATE TABLE {table} (id INT, v TEXT)" for table in tables))
    server.sql(f"GRANT SELECT (id) ON d.b TO {account.user}")
    server.sql(*(f"GRANT SELECT ON {table} TO {account.user}" for table in tables if table.name not in "be"))
    async with connected_with(server, account) as source:
        denied = (await collect_facts(source, tables, await source.describe(tables))).denied
    assert set(denied) == {TableId("d", "b"), TableId("d", "e")}
    assert "SELECT command denied" in denied[TableId("d", "e")]


async def test_a_thousand_tables_do_not_take_a_thousand_statements(mysql_factory: MysqlFactory) -> None:
    server = mysql_factory({**GTIDS, "general_log": "ON"})
    tables = [TableId("d", f"t{number}") for number in range(3 * TABLES_ASKED_AT_ONCE)]
    server.sql(
        "CREATE DATABASE d", *(f"CREATE TABLE {table} (id INT PRIMARY KEY, v TEXT)" for table in tables)
    )
    account = server.create_capture_user()
    server.sql("CREATE ROLE r", "GRANT SELECT ON d.* TO r", f"GRANT r TO {account.user}")
    server.sql(f"SET DEFAULT ROLE r TO {account.user}")
    async with connected_with(server, account) as source:
        assert (await collect_facts(source, tables, await source.describe(tables))).denied == {}
    assert sum("LIMIT 0" in each.text for each in server.logged()) == 3
    server.sql(f"GRANT SELECT ON d.* TO {account.user}")
    async with connected_with(server, account) as source:
        assert (await collect_facts(source, tables, await source.describe(tables))).denied == {}
    assert sum("LIMIT 0" in each.text for each in server.logged()) == 3


# Statements of grants to `u`, and which of the tables the server lets it read then.
_WHOLE = {
    "all databases": (["GRANT SELECT ON *.* TO u"], {"d_e.t", "dxe.t"}),
    "a wildcard": (["GRANT SELECT ON `d_e`.* TO u"], {"d_e.t", "dxe.t"}),
    "an escaped wildcard": ([r"GRANT SELECT ON `d\_e`.* TO u", "GRANT INSERT ON dxe.* TO u"], {"d_e.t"}),
    "no wildcard": (["GRANT SELECT ON dxe.* TO u", "GRANT INSERT ON `d_e`.* TO u"], {"dxe.t"}),
    "a wildcard behind a name without": (
        ["GRANT SELECT ON `d_e`.* TO u", r"GRANT INSERT ON `d\_e`.* TO u", "GRANT INSERT ON dxe.* TO u"],
        set[str](),
    ),
    "another account of the name": (
        [
            "CREATE USER u@'10.0.0.1'",
            "GRANT SELECT ON *.* TO u@'10.0.0.1'",
            "GRANT INSERT ON *.* TO u",
            "GRANT SELECT ON mysql.* TO u",  # so it sees the rights of all
        ],
        set[str](),
    ),
    "a column": (["GRANT SELECT (id) ON d_e.t TO u", "GRANT SELECT ON dxe.t TO u"], {"dxe.t"}),
}
_PARTIAL = {
    "all but one": (["GRANT SELECT ON *.* TO u", "REVOKE SELECT ON d_e.* FROM u"], {"dxe.t"}),
    "no wildcard at all": (["GRANT SELECT ON `d_e`.* TO u", "GRANT INSERT ON dxe.* TO u"], {"d_e.t"}),
    "a name with a backslash": (
        [r"GRANT SELECT ON `d\_e`.* TO u", "GRANT INSERT ON *.* TO u"],
        set[str](),
    ),
}


async def _readable_tables(server: MysqlServer, grants: list[str]) -> set[str]:
    """Returns the tables that aren't told as denied to `u` with these grants."""
    for database in ("d_e", "dxe"):
        server.sql(f"CREATE DATABASE {database}", f"CREATE TABLE {database}.t (id INT, v INT)")
    server.sql("CREATE USER u", *grants)
    tables = [TableId("d_e", "t"), TableId("dxe", "t")]
    async with connected_with(server, Account("u", "")) as source:
        denied = (await collect_facts(source, tables, await source.describe(tables))).denied
    return {str(table) for table in tables if table not in denied}


@pytest.mark.parametrize("version", ["mysql_factory", "mysql56_factory"])
@pytest.mark.parametrize("how", _WHOLE)
async def test_rights_for_whole_databases(request: pytest.FixtureRequest, version: str, how: str) -> None:
    factory: MysqlFactory = request.getfixturevalue(version)
    grants, readable = _WHOLE[how]
    server = factory(GTIDS_56 if version == "mysql56_factory" else GTIDS)
    assert await _readable_tables(server, grants) == readable


@pytest.mark.parametrize("how", _PARTIAL)
async def test_rights_that_are_partly_revoked(mysql_factory: MysqlFactory, how: str) -> None:
    grants, readable = _PARTIAL[how]
    assert await _readable_tables(mysql_factory({**GTIDS, "partial_revokes": "ON"}), grants) == readable


@pytest.mark.parametrize("native", [False, True])
async def test_foreign_keys_whose_changes_are_not_logged(mysql_factory: MysqlFactory, native: bool) -> None:
    """The finding says what the server does: with its own foreign keys the row is gone, and no event had it."""
    server = mysql_factory(
        {**GTIDS, **FULL_METADATA, "innodb_native_foreign_keys": "ON" if native else "OFF"}
    )
    server.sql("CREATE DATABASE d")
    server.sql(
        "CREATE TABLE a (id INT PRIMARY KEY)",
        "CREATE TABLE b (id INT PRIMARY KEY, a INT, FOREIGN KEY (a) REFERENCES a (id) ON DELETE CASCADE)",
        "CREATE TABLE c (id INT PRIMARY KEY, a INT, FOREIGN KEY (a) REFERENCES a (id))",
        "INSERT INTO a VALUES (1)",
        "INSERT INTO b VALUES (1, 1)",
        "FLUSH BINARY LOGS",
        "DELETE FROM a",
        database="d",
    )
    assert server.sql("SELECT * FROM d.b") == []
    [(log, *_)] = server.sql("SHOW BINARY LOG STATUS")
    maps = [
        info for _, _, kind, *_, info in server.sql(f"SHOW BINLOG EVENTS IN '{log}'") if kind == "Table_map"
    ]
    assert len(maps) == (1 if native else 2)
    tables = [TableId("d", name) for name in "abc"]
    found = await found_on(server, server.create_capture_user("d"), *tables)
    assert [wrong.startswith("foreign keys change rows of d.b along") for wrong in found] == [True] * native


async def test_a_replica_is_known_as_one(mysql_factory: MysqlFactory) -> None:
    server = mysql_factory(
        {**GTIDS, **FULL_METADATA, "log_replica_updates": "OFF", "replica_preserve_commit_order": "OFF"}
    )
    account = server.create_capture_user()
    assert await found_on(server, account) == {}
    server.sql("CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = 1")
    found = await found_on(server, account)
    assert [text.split()[0] for text in found] == ["log_replica_updates", "replica_preserve_commit_order"]


async def test_foreign_keys_of_mysql56_whose_changes_are_not_logged(
    mysql56: MysqlServer, database56: str
) -> None:
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
    [note] = await found_on(mysql56, mysql56.create_capture_user(database56), TableId(database56, "t"))
    assert note.startswith(f"a label of e of {database56}.t has a question mark")


@pytest.mark.parametrize("missing", [*Privilege, "SELECT"])
@pytest.mark.parametrize("by_role", [False, True])
async def test_each_missing_right_is_found_and_its_remedy_mends_it(
    either: tuple[MysqlServer, str], missing: str, by_role: bool
) -> None:
    server, database = either
    if by_role and server.sql("SELECT VERSION()")[0][0].startswith("5.6"):
        pytest.skip("MySQL 5.6 has no roles")
    server.sql(f"CREATE TABLE {database}.t (id INT PRIMARY KEY)", "CREATE USER u")
    holder = "r" if by_role else "u"
    if by_role:
        server.sql("CREATE ROLE r", "GRANT r TO u", "SET DEFAULT ROLE r TO u")
    for right in {"REPLICATION SLAVE", "REPLICATION CLIENT"} - {missing}:
        server.sql(f"GRANT {right} ON *.* TO {holder}")
    if missing != "SELECT":
        server.sql(f"GRANT SELECT ON {database}.* TO {holder}")
    locks = missing == Privilege.RELOAD
    table = TableId(database, "t")
    try:
        [(wrong, remedy)] = (await found_on(server, Account("u", ""), table, locks=locks)).items()
        assert (str(table) if missing == "SELECT" else missing) in wrong
        server.sql(remedy)
        assert await found_on(server, Account("u", ""), table, locks=locks) == {}
    finally:
        server.sql("DROP USER u", *(["DROP ROLE r"] if by_role else []))


async def test_all_that_is_wrong_is_found_at_once(mysql_factory: MysqlFactory) -> None:
    server = mysql_factory(
        {"binlog_format": "STATEMENT", "gtid_mode": "OFF", "enforce_gtid_consistency": "OFF"}
    )
    server.sql("CREATE USER u")
    found = await found_on(server, Account("u", ""), TableId("d", "t"))
    assert len(found) == 7
