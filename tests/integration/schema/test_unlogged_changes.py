"""Statements that change rows without an event restart the tables that they name, and the others continue."""

from contextlib import closing
from pathlib import Path
from typing import Final

from deploy.toolchain.mysql_server import FULL_METADATA, GTIDS, MysqlServer
from pipeline import metrics as catalogue
from pipeline.schema.table_schema import TableId
from pipeline.snapshot.checkpoint import Ready
from tests.servers.journal_oracle import entries, unequal
from tests.servers.mysql import MysqlFactory
from tests.servers.service import Running, pipeline, running

# What is done, and the tables that it restarts.
DONE: Final[dict[str, set[str]]] = {
    "TRUNCATE TABLE emptied": {"emptied"},
    "SET NAMES binary": set(),
    "TRUNCATE TABLE `größer`": {"größer"},
    "SET NAMES utf8mb4": set(),
    "CALL empties()": {"called"},
    "DROP TABLE IF EXISTS nothing, `dropped`": {"dropped"},
    "DROP TABLE IF EXISTS {other}.goes_on": set(),
    "CREATE TEMPORARY TABLE goes_on (id INT)": set(),
    "DROP TABLE goes_on": set(),  # the temporary one
    "RENAME TABLE moved TO {other}.moved": {"moved"},
    "RENAME TABLE {other}.moved TO `came`": {"came"},
    "ALTER TABLE a RENAME TO b": {"a", "b"},
    "ALTER TABLE parted EXCHANGE PARTITION p0 WITH TABLE exchanged": {
        "parted",
        "exchanged",
    },
    "ALTER TABLE parts TRUNCATE PARTITION p0": {"parts"},
    "ALTER TABLE fewer DROP PARTITION p0": {"fewer"},
    "/*!50000 ALTER */ TABLE away DISCARD TABLESPACE": {"away"},
    "ALTER TABLE filled ADD COLUMN c INT /* new */ DEFAULT (7)": {"filled"},
    "ALTER TABLE goes_on ADD COLUMN c INT, COMMENT 'DROP PARTITION p'": set(),
    "ALTER TABLE swapped DROP COLUMN v, ADD COLUMN v INT": {"swapped"},
}
PARTED: Final = ("parted", "parts", "fewer")
TABLES: Final = (
    "emptied", "größer", "called", "dropped", "moved", "a", "exchanged", "away", "filled", "swapped", "goes_on",
    *PARTED,
)  # fmt: skip


def created(server: MysqlServer, database: str, other: str) -> None:
    server.sql(f"CREATE DATABASE {other}", f"CREATE TABLE {other}.goes_on (id INT PRIMARY KEY)")
    for table in TABLES:
        partitions = (
            "PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (9), PARTITION p1 VALUES LESS THAN (99))"
        )
        create = f"CREATE TABLE `{table}` (id INT PRIMARY KEY, v INT) {partitions if table in PARTED else ''}"
        server.sql(create, f"INSERT INTO `{table}` VALUES (1, 1)", database=database)
    server.sql("CREATE PROCEDURE empties() TRUNCATE TABLE called", database=database)


async def snapshotted(service: Running) -> None:
    """Until everything has been read."""
    await service.begun()
    await service.execute("s")
    await service.completed("s")


async def test_each_restarts_the_tables_that_it_means(
    mysql: MysqlServer, database: str, tmp_path: Path
) -> None:
    other = f"{database}_other"
    created(mysql, database, other)
    wanted = {f"{database}.{t}" for tables in DONE.values() for t in tables}
    try:
        async with running(pipeline(mysql, tmp_path, database)) as service:
            await snapshotted(service)
            with closing(mysql.connect(database=database)) as connection, connection.cursor() as cursor:
                for statement in DONE:
                    cursor.execute(statement.format(other=other))
                cursor.execute("CREATE TABLE dropped (id INT PRIMARY KEY, v INT)")
                for table in ("dropped", "emptied", "goes_on"):
                    cursor.execute(f"INSERT INTO `{table}` (id, v) VALUES (2, 2)")
                connection.commit()
            await service.caught_up(mysql)
            await service.until(lambda: ended(service), "all restarted tables have been read")
            assert service.status()["stopped"] == {}
            value = service.assembly.metrics.value
            restarted = {t for t in service.status()["mirrors"] if value(catalogue.TABLE_RESTARTS, table=t)}
            assert restarted == wanted & service.status()["mirrors"].keys()
            await service.stop()
        there = {table for (table,) in mysql.sql("SHOW TABLES", database=database)} - {"away"}
        tables = [TableId(database, table) for table in sorted(there) if f"{database}.{table}" in restarted]
        assert unequal(mysql, tmp_path / "journal", *tables, TableId(database, "goes_on")) == []
        last = entries(tmp_path / "journal")[-1].checkpoint
        assert all(last.mirrors[table].since > 0 for table in tables)
    finally:
        mysql.sql(f"DROP DATABASE {other}")


def ended(service: Running) -> bool:
    """Whether no snapshot has anything left to do; that of a table without its tablespace fails by name."""
    tables = [table for snapshot in service.status()["snapshots"] for table in snapshot["tables"]]
    failed = {table["table"] for table in tables if table["state"] == "failed"}
    assert failed <= {"away"}
    return all(table["state"] in ("completed", "failed") for table in tables)


async def test_tables_of_a_dropped_database_are_empty(
    mysql: MysqlServer, database: str, tmp_path: Path
) -> None:
    mysql.sql("CREATE TABLE a (id INT PRIMARY KEY)", "INSERT INTO a VALUES (1)", database=database)
    async with running(pipeline(mysql, tmp_path, database)) as service:
        await snapshotted(service)
        mysql.sql(f"DROP SCHEMA {database}", f"CREATE DATABASE {database}")
        mysql.sql("CREATE TABLE a (id INT PRIMARY KEY)", "INSERT INTO a VALUES (2)", database=database)
        await service.caught_up(mysql)
        assert service.status()["stopped"] == {}
        await service.stop()
    assert unequal(mysql, tmp_path / "journal", TableId(database, "a")) == []
    # It's known to be empty, so that nothing is read again.
    assert [s.id for s in entries(tmp_path / "journal")[-1].checkpoint.snapshots] == ["s"]


async def test_tables_that_go_by_another_case_of_their_name_are_empty(
    mysql_factory: MysqlFactory, tmp_path: Path
) -> None:
    """They were read again, which no server can answer, so that readers kept their rows."""
    server = mysql_factory({**GTIDS, **FULL_METADATA, "lower_case_table_names": "1"})
    server.sql("CREATE DATABASE shop", "CREATE DATABASE other")
    for table in "abcd":
        server.sql(
            f"CREATE TABLE {table} (id INT PRIMARY KEY)", f"INSERT INTO {table} VALUES (1)", database="shop"
        )
    async with running(pipeline(server, tmp_path, "shop")) as service:
        await snapshotted(service)
        server.sql(
            "RENAME TABLE A TO other.a", "ALTER TABLE B RENAME TO other.B", "TRUNCATE C", database="shop"
        )
        server.sql("DROP DATABASE SHOP", "CREATE DATABASE shop")
        await service.caught_up(server)
        assert service.status()["stopped"] == {}
        await service.stop()
    checkpoint = entries(tmp_path / "journal")[-1].checkpoint
    assert [type(checkpoint.mirrors[TableId("shop", table)]) for table in "abcd"] == [Ready] * 4
    assert [snapshot.id for snapshot in checkpoint.snapshots] == ["s"]


async def test_a_table_that_keeps_no_rows_any_more_stops_by_name_and_for_good(
    mysql: MysqlServer, database: str, tmp_path: Path
) -> None:
    mysql.sql("CREATE TABLE a (id INT PRIMARY KEY)", database=database)
    settings = pipeline(mysql, tmp_path, database)
    for begins in (True, False):
        async with running(settings) as service:
            await service.begun()
            if begins:
                mysql.sql("ALTER TABLE a ENGINE=BLACKHOLE", database=database)
            await service.caught_up(mysql)
            stopped = await service.until(lambda: service.status()["stopped"], "the server's answer")
            assert stopped.keys() == {f"{database}.a"}
            assert stopped[f"{database}.a"].startswith("its engine is BLACKHOLE")
            assert (
                service.assembly.metrics.value(catalogue.TABLE_STOPPED, table=f"{database}.a", part="capture")
                == 1
            )
            await service.stop()
