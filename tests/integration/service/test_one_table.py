"""One table's trouble is one table's: it is captured rightly or stops by name, and its neighbour never notices."""

import asyncio
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from deploy.toolchain.mysql_server import FULL_METADATA, GTIDS, GTIDS_56, MysqlServer
from pipeline.config.settings import Settings, SnapshotMode
from pipeline.messages.signals import SignalAccepted
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import TableId
from tests.servers.awaiting import until
from tests.servers.journal_oracle import replay, unequal
from tests.servers.mysql import MysqlFactory
from tests.servers.service import Running, pipeline, running
from tests.servers.source import process_list

NEIGHBOUR: Final = (
    "CREATE TABLE neighbour (id INT PRIMARY KEY, v INT)",
    "INSERT INTO neighbour VALUES (1, 1)",
)
TOUCHED: Final = ("INSERT INTO neighbour VALUES (2, 2)", "UPDATE neighbour SET v = 3 WHERE id = 1")


def initial(server: MysqlServer, folder: Path, database: str) -> Settings:
    """Everything is snapshotted."""
    return pipeline(server, folder, database, mode=SnapshotMode.INITIAL)


async def filled(service: Running, *tables: TableId) -> None:
    """Until the mirrors of these tables are filled."""
    wanted = {str(table) for table in tables}

    def done() -> bool:
        states = {
            f"{table['database']}.{table['table']}": table["state"]
            for snapshot in service.status().get("snapshots", [])
            for table in snapshot["tables"]
        }
        return all(states.get(table) == "completed" for table in wanted)

    await service.until(done, f"{wanted} are filled")


def stops(service: Running) -> dict[str, str]:
    """The tables that have stopped, and why."""
    told: dict[str, str] = service.status().get("stopped", {})
    return told


# Keys that are one in the lake though two at the source

TWINS: Final = {
    "zero dates": (
        "d DATE PRIMARY KEY, v INT",
        "('2020-01-01', 1), ('2020-01-02', 2)",
        "SET sql_mode = ''",
        "zero or partial date",
        (
            "INSERT INTO t VALUES ('0000-00-00', 1)",
            "INSERT INTO t VALUES ('2020-00-00', 1)",
            "UPDATE t SET d = '2020-01-00' WHERE v = 2",
        ),
    ),
    "zero moments": (
        "id INT, at DATETIME, v INT, PRIMARY KEY (id, at)",
        "(1, '2020-01-01', 1), (1, '2020-01-02', 2)",
        "SET sql_mode = ''",
        "zero or partial date",
        ("INSERT INTO t VALUES (1, '0000-00-00', 3)", "UPDATE t SET at = '2020-00-01' WHERE v = 1"),
    ),
    "two codes": (
        "k VARCHAR(9) CHARACTER SET sjis PRIMARY KEY, v INT",
        "('a', 1), ('b', 2)",
        "SET NAMES utf8mb4",
        "two codes in its character set (sjis)",
        ("INSERT INTO t VALUES (_sjis x'5C', 1)", "UPDATE t SET k = _sjis x'815F' WHERE v = 2"),
    ),
}


@pytest.mark.parametrize(
    ("twins", "deed"), [(name, deed) for name, case in TWINS.items() for deed in range(len(case[4]))]
)
async def test_a_key_that_would_be_another_ones_stops_its_table(
    mysql: MysqlServer, database: str, tmp_path: Path, twins: str, deed: int
) -> None:
    columns, rows, session, why, deeds = TWINS[twins]
    created = (*NEIGHBOUR, f"CREATE TABLE t ({columns})", f"INSERT INTO t VALUES {rows}")
    mysql.sql(*created, database=database)
    neighbour, table = TableId(database, "neighbour"), TableId(database, "t")
    async with running(initial(mysql, tmp_path, database)) as service:
        await filled(service, neighbour, table)
        mysql.sql(session, deeds[deed], "DELETE FROM t", *TOUCHED, database=database)
        await service.caught_up(mysql)
        assert stops(service).keys() == {str(table)}
        assert why in stops(service)[str(table)]
        await service.stop()
    assert unequal(mysql, tmp_path / "journal", neighbour) == []
    # Nothing that came with the key or after it is in the journal.
    assert len(replay(tmp_path / "journal", table).live()) == 2


async def test_a_locked_table_does_not_hold_up_the_start_of_the_others(
    mysql: MysqlServer, database: str, tmp_path: Path
) -> None:
    mysql.sql(
        *NEIGHBOUR, "CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)", database=database
    )
    neighbour, table = TableId(database, "neighbour"), TableId(database, "t")
    with closing(mysql.connect(database=database)) as other, other.cursor() as session:
        session.execute("LOCK TABLES t WRITE")
        async with running(initial(mysql, tmp_path, database)) as service:
            await filled(service, neighbour)
            mysql.sql(*TOUCHED, database=database)
            await service.caught_up(mysql)
            session.execute("UNLOCK TABLES")
            await filled(service, table)
            await service.stop()
    assert unequal(mysql, tmp_path / "journal", neighbour, table) == []


@pytest.mark.parametrize(
    "columns",
    [
        "id INT PRIMARY KEY, g TEXT AS (id) VIRTUAL, INDEX (g(9))",
        "id INT NOT NULL, v INT NOT NULL, UNIQUE (id, v), UNIQUE (v, id)",
    ],
    ids=["computed index", "two keys"],
)
async def test_a_table_that_waits_to_be_renamed_does_not_hold_up_the_others(
    mysql: MysqlServer, database: str, tmp_path: Path, columns: str
) -> None:
    """The server keeps it from being opened, which its description takes, until the statement has all of its tables."""
    mysql.sql(*NEIGHBOUR, f"CREATE TABLE t ({columns})", "CREATE TABLE u (id INT)", database=database)
    neighbour, renamed = TableId(database, "neighbour"), TableId(database, "t2")
    with closing(mysql.connect(database=database)) as other, other.cursor() as session:
        session.execute("BEGIN")
        session.execute("SELECT * FROM u")
        rename = asyncio.create_task(
            asyncio.to_thread(mysql.sql, "RENAME TABLE t TO t2, u TO u2", database=database)
        )
        await until(
            lambda: any("metadata lock" in (each.state or "") for each in process_list(mysql)), "it waits"
        )
        async with running(initial(mysql, tmp_path, database)) as service:
            await filled(service, neighbour)
            mysql.sql(*TOUCHED, database=database)
            await service.caught_up(mysql)
            session.execute("COMMIT")
            await rename
            await filled(service, renamed)
            await service.stop()
    assert unequal(mysql, tmp_path / "journal", neighbour, renamed) == []


@pytest.mark.parametrize("metadata", [FULL_METADATA, {}], ids=["full", "minimal"])
async def test_the_servers_own_tables_are_none_though_their_rows_are_in_the_log(
    mysql_factory: MysqlFactory, tmp_path: Path, metadata: dict[str, str]
) -> None:
    server = mysql_factory({**GTIDS, **metadata})
    server.sql("CREATE DATABASE shop")
    server.sql(*NEIGHBOUR, database="shop")
    settings = replace(initial(server, tmp_path, "shop"), tables=TableFilter((".*",)))
    async with running(settings) as service:
        await filled(service, TableId("shop", "neighbour"))
        server.sql(
            "CREATE TABLE rds_heartbeat2 (id INT PRIMARY KEY, value BIGINT)",  # as a managed server has it
            "INSERT INTO rds_heartbeat2 VALUES (1, 1)",
            "INSERT INTO time_zone_leap_second VALUES (1, 1)",
            "UPDATE sys.sys_config SET value = '65' WHERE variable = 'statement_truncate_len'",
            database="mysql",
        )
        server.sql(*TOUCHED, database="shop")
        await service.caught_up(server)
        checkpoint = service.checkpoint()
        assert {str(table) for table in (*checkpoint.schemas, *checkpoint.stopped)} == {"shop.neighbour"}
        assert stops(service) == {}
        await service.stop()
    assert unequal(server, tmp_path / "journal", TableId("shop", "neighbour")) == []


async def test_a_key_that_would_be_another_ones_stops_its_table_in_a_snapshot(
    mysql: MysqlServer, database: str, tmp_path: Path
) -> None:
    mysql.sql(
        *NEIGHBOUR,
        "CREATE TABLE t (k VARCHAR(9) CHARACTER SET sjis PRIMARY KEY)",
        "INSERT INTO t VALUES (_sjis x'5C'), (_sjis x'815F')",
        database=database,
    )
    async with running(pipeline(mysql, tmp_path, database)) as service:
        await service.begun()
        await service.execute("s", rf"{database}\..*")
        await service.until(lambda: service.tables("s")["t"]["state"] == "failed", "it has failed")
        assert "two codes in its character set (sjis)" in service.tables("s")["t"]["reason"]
        assert "two codes in its character set (sjis)" in stops(service)[f"{database}.t"]
        await filled(service, TableId(database, "neighbour"))
        await service.stop()


@pytest.mark.parametrize("large", [False, True])
async def test_a_delete_of_such_a_key_stops_its_table_too(
    mysql: MysqlServer, database: str, tmp_path: Path, large: bool
) -> None:
    """Of one row, and within a transaction that comes in parts."""
    created = "CREATE TABLE t (d DATE, n INT, note VARCHAR(10000), PRIMARY KEY (d, n))"
    mysql.sql(*NEIGHBOUR, created, "INSERT INTO t VALUES ('2020-01-01', 1, '')", database=database)
    neighbour, table = TableId(database, "neighbour"), TableId(database, "t")
    async with running(initial(mysql, tmp_path, database)) as service:
        await filled(service, neighbour, table)
        unlogged = "INSERT INTO t VALUES ('0000-00-00', 1, '')"
        mysql.sql("SET sql_mode = '', sql_log_bin = 0", unlogged, database=database)
        many = (
            "INSERT INTO t WITH RECURSIVE s AS (SELECT 1 n UNION ALL SELECT n + 1 FROM s WHERE n < 900)"
            " SELECT '2021-01-01', n, REPEAT('x', 10000) FROM s"
        )
        deeds = ("SET sql_mode = ''", "BEGIN", *((many,) * large), "DELETE FROM t WHERE d = 0", "COMMIT")
        mysql.sql(*deeds, *TOUCHED, database=database)
        await service.caught_up(mysql)
        assert stops(service).keys() == {str(table)}
        await service.stop()
    assert unequal(mysql, tmp_path / "journal", neighbour) == []
    assert len(replay(tmp_path / "journal", table).live()) == 1


# Labels that the server doesn't show


async def test_labels_beyond_the_servers_own_character_set(
    mysql: MysqlServer, database: str, tmp_path: Path
) -> None:
    """The log has them; information_schema shows a question mark."""
    mysql.sql(
        "SET NAMES utf8mb4",
        "CREATE TABLE t (id INT PRIMARY KEY, e ENUM('😀', 'b', '?'), s SET('a😀', '?'))",
        "INSERT INTO t VALUES (1, '😀', '?'), (2, 'b', 'a😀'), (3, '?', '')",
        database=database,
    )
    table = TableId(database, "t")
    settings = initial(mysql, tmp_path, database)
    async with running(settings) as service:
        await filled(service, table)
        mysql.sql("SET NAMES utf8mb4", "UPDATE t SET e = '😀' WHERE id = 2", database=database)
        await service.caught_up(mysql)
        assert service.status()["mirrors"][str(table)] == "ready"
        mysql.sql("ALTER TABLE t ADD COLUMN v INT", "SET NAMES utf8mb4", database=database)
        mysql.sql("SET NAMES utf8mb4", "INSERT INTO t VALUES (4, '😀', '', 4)", database=database)
        await service.caught_up(mysql)
        await service.execute("again", str(table).replace(".", r"\."))
        await service.completed("again")
        await service.stop()
    async with running(settings) as service:
        await service.begun()
        mysql.sql("SET NAMES utf8mb4", "INSERT INTO t VALUES (5, '?', 'a😀', 5)", database=database)
        await service.caught_up(mysql)
        assert stops(service) == {}
        await service.stop()
    assert unequal(mysql, tmp_path / "journal", table) == []


@pytest.mark.parametrize("metadata", [FULL_METADATA, {}])
async def test_a_label_that_nobody_tells_stops_its_table_with_the_first_value(
    mysql_factory: MysqlFactory, tmp_path: Path, metadata: dict[str, str]
) -> None:
    """Other labels of the column are known, and a snapshot has the texts themselves."""
    server = mysql_factory({**GTIDS, **metadata})
    server.sql(
        "CREATE DATABASE shop",
        "USE shop",
        *NEIGHBOUR,
        "SET NAMES utf8mb4",
        "CREATE TABLE t (id INT PRIMARY KEY, e ENUM('😀', 'b'))",
        "INSERT INTO t VALUES (1, '😀'), (2, 'b')",
    )
    neighbour, table = TableId("shop", "neighbour"), TableId("shop", "t")
    async with running(initial(server, tmp_path, "shop")) as service:
        await filled(service, neighbour, table)
        server.sql("INSERT INTO shop.t VALUES (3, 'b')")
        await service.caught_up(server)
        assert stops(service) == {}
        server.sql("USE shop", "INSERT INTO t VALUES (4, 1)", *TOUCHED)
        await service.caught_up(server)
        told = stops(service)
        await service.stop()
    if metadata:
        assert told == {}
        assert unequal(server, tmp_path / "journal", neighbour, table) == []
    else:
        assert told.keys() == {str(table)}
        assert "set binlog_row_metadata=FULL" in told[str(table)]
        assert unequal(server, tmp_path / "journal", neighbour) == []
        assert replay(tmp_path / "journal", table).live()[(1,)]["e"] == "😀"


@pytest.mark.parametrize("metadata", [FULL_METADATA, {}])
async def test_labels_of_the_character_set_binary(
    mysql_factory: MysqlFactory, tmp_path: Path, metadata: dict[str, str]
) -> None:
    server = mysql_factory({**GTIDS, **metadata})
    server.sql(
        "CREATE DATABASE shop",
        "USE shop",
        *NEIGHBOUR,
        "CREATE TABLE t (id INT PRIMARY KEY, e ENUM('a', 0xF09F9880) CHARACTER SET binary,"
        " s SET('x', 'y') CHARACTER SET binary)",
        "CREATE TABLE bytes (id INT PRIMARY KEY, e ENUM('a', 0xFF41) CHARACTER SET binary)",
        "INSERT INTO t VALUES (1, 1, 3), (2, 2, 0)",
        "INSERT INTO bytes VALUES (1, 1)",
    )
    neighbour, table = TableId("shop", "neighbour"), TableId("shop", "t")
    async with running(initial(server, tmp_path, "shop")) as service:
        await filled(service, neighbour, table)
        server.sql("USE shop", "INSERT INTO t VALUES (3, 2, 1)", "INSERT INTO bytes VALUES (2, 2)", *TOUCHED)
        await service.caught_up(server)
        assert stops(service).keys() == {"shop.bytes"}
        assert "the label x'ff41' of an ENUM or SET of CHARACTER SET binary" in stops(service)["shop.bytes"]
        await service.stop()
    assert unequal(server, tmp_path / "journal", neighbour) == []
    told = {key: tuple(row.values()) for key, row in replay(tmp_path / "journal", table).live().items()}
    assert told == {(1,): (1, "a", "x,y"), (2,): (2, "😀", ""), (3,): (3, "😀", "x")}


# Tables that can't be captured, or that once couldn't


OF_OURS: Final = (
    "CREATE TABLE of_ours (id INT PRIMARY KEY, __OP CHAR(1))",
    "INSERT INTO of_ours VALUES (1, 'a')",
)
EQUAL_KEYS: Final = (
    "CREATE TABLE equal_keys (a INT NOT NULL, b INT NOT NULL, UNIQUE z (a, b), UNIQUE y (b, a))",
    "INSERT INTO equal_keys VALUES (1, 2), (2, 1)",
)
WIDE: Final = (
    f"CREATE TABLE wide (id INT PRIMARY KEY, {', '.join(f'c{i} INT' for i in range(900))})",
    "INSERT INTO wide (id, c899) VALUES (1, 5)",
)


@pytest.mark.parametrize(
    ("metadata", "when"),
    [
        pytest.param(FULL_METADATA, "before the start", marks=pytest.mark.full),
        (FULL_METADATA, "while capture runs"),
        ({}, "before the start"),
        pytest.param({}, "while capture runs", marks=pytest.mark.full),
    ],
)
async def test_a_table_that_matches_the_patterns_is_captured_or_stops_alone(
    mysql_factory: MysqlFactory, tmp_path: Path, metadata: dict[str, str], when: str
) -> None:
    server = mysql_factory({**GTIDS, **metadata})
    hostile, early = (*OF_OURS, *EQUAL_KEYS, *WIDE), when == "before the start"
    server.sql("CREATE DATABASE shop", "USE shop", *NEIGHBOUR, *(hostile if early else ()))
    neighbour, equal, wide = (TableId("shop", name) for name in ("neighbour", "equal_keys", "wide"))
    settings = initial(server, tmp_path, "shop")
    async with running(settings) as service:
        await filled(service, neighbour)
        server.sql(
            "USE shop", *(() if early else hostile), "UPDATE equal_keys SET a = 3 WHERE b = 1", *TOUCHED
        )
        await service.caught_up(server)
        await filled(service, equal, wide)
        await service.until(lambda: stops(service), "it has stopped")
        await service.stop()
    async with running(settings) as service:
        await service.begun()
        server.sql("USE shop", "INSERT INTO neighbour VALUES (9, 9)", "INSERT INTO of_ours VALUES (2, 'b')")
        await service.caught_up(server)
        assert stops(service).keys() == {"shop.of_ours"}
        assert (
            "its column '__OP' has the name of a column that Tidemark adds" in stops(service)["shop.of_ours"]
        )
        await service.stop()
    assert unequal(server, tmp_path / "journal", neighbour, wide) == []
    rows = [tuple(row.values()) for row in replay(tmp_path / "journal", equal).live().values()]
    assert sorted(rows) == sorted(server.sql("SELECT * FROM shop.equal_keys"))


async def test_a_column_of_ours_that_comes_later_stops_its_table(
    mysql: MysqlServer, database: str, tmp_path: Path
) -> None:
    mysql.sql(*NEIGHBOUR, "CREATE TABLE t (id INT PRIMARY KEY)", database=database)
    neighbour, table = TableId(database, "neighbour"), TableId(database, "t")
    async with running(initial(mysql, tmp_path, database)) as service:
        await filled(service, neighbour, table)
        mysql.sql(
            "ALTER TABLE t ADD COLUMN __scn INT", "INSERT INTO t VALUES (1, 1)", *TOUCHED, database=database
        )
        await service.caught_up(mysql)
        assert stops(service).keys() == {str(table)}
        # Once it has another name, a signal has the table again.
        mysql.sql("ALTER TABLE t RENAME COLUMN __scn TO scn", database=database)
        await service.caught_up(mysql)
        answer = await service.tell("recapture", "again", rf"{database}\.t")
        assert isinstance(answer, SignalAccepted), answer
        await service.completed("again")
        mysql.sql("INSERT INTO t VALUES (2, 2)", database=database)
        await service.caught_up(mysql)
        assert stops(service) == {}
        await service.stop()
    assert unequal(mysql, tmp_path / "journal", neighbour, table) == []


async def test_a_type_that_is_not_supported_stops_its_table(
    mysql56_factory: MysqlFactory, tmp_path: Path
) -> None:
    """A label of CHARACTER SET binary that isn't UTF-8 cuts the text of the type before MySQL 8.0."""
    server = mysql56_factory(GTIDS_56)
    server.sql("CREATE DATABASE shop", "USE shop", *NEIGHBOUR)
    neighbour = TableId("shop", "neighbour")
    settings = initial(server, tmp_path, "shop")
    async with running(settings) as service:
        await filled(service, neighbour)
        server.sql(
            "USE shop",
            "CREATE TABLE t (id INT PRIMARY KEY, e ENUM('a', 0xFF41) CHARACTER SET binary)",
            "INSERT INTO t VALUES (1, 1)",
            *TOUCHED,
        )
        await service.caught_up(server)
        await service.until(lambda: stops(service), "it has stopped")
        assert "which isn't supported" in stops(service)["shop.t"]
        await service.stop()
    async with running(settings) as service:
        await service.begun()
        assert stops(service).keys() == {"shop.t"}
        await service.stop()
    assert unequal(server, tmp_path / "journal", neighbour) == []
