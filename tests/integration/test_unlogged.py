"""Statements that change rows without an event stop the tables that they mean, by name, and the others go on."""

from contextlib import closing
from pathlib import Path
from typing import Final

from actors.journal_store import JournalStore
from deploy.toolchain.mysql_server import MysqlServer
from pipeline import metrics as catalogue
from pipeline.checkpoint import Checkpoint
from pipeline.schema import TableId
from pipeline.settings import Settings
from tests.servers.service import pipeline, running

# What is done, and what the reason begins with for each table that it stops.
DONE: Final[dict[str, dict[str, str]]] = {
    "TRUNCATE TABLE emptied": {"emptied": "TRUNCATE TABLE"},
    "SET NAMES binary": {},
    "TRUNCATE TABLE `größer`": {"größer": "TRUNCATE TABLE"},
    "SET NAMES utf8mb4": {},
    "CALL empties()": {"called": "TRUNCATE TABLE"},
    "DROP TABLE IF EXISTS nothing, `dropped`": {"dropped": "DROP TABLE"},
    "DROP TABLE IF EXISTS {other}.goes_on": {},
    "CREATE TEMPORARY TABLE goes_on (id INT)": {},
    "DROP TABLE goes_on": {},  # the temporary one
    "RENAME TABLE moved TO {other}.moved": {"moved": "RENAME TABLE"},
    "RENAME TABLE {other}.moved TO `came`": {"came": "RENAME TABLE"},
    "ALTER TABLE a RENAME TO b": {"a": "ALTER TABLE … RENAME", "b": "ALTER TABLE … RENAME"},
    "ALTER TABLE parted EXCHANGE PARTITION p0 WITH TABLE exchanged": {
        "parted": "ALTER TABLE … EXCHANGE PARTITION",
        "exchanged": "ALTER TABLE … EXCHANGE PARTITION",
    },
    "ALTER TABLE parts TRUNCATE PARTITION p0": {"parts": "ALTER TABLE … TRUNCATE PARTITION"},
    "ALTER TABLE fewer DROP PARTITION p0": {"fewer": "ALTER TABLE … DROP PARTITION"},
    "/*!50000 ALTER */ TABLE away DISCARD TABLESPACE": {"away": "ALTER TABLE … DISCARD TABLESPACE"},
    "ALTER TABLE filled ADD COLUMN c INT /* new */ DEFAULT 7": {"filled": "ALTER TABLE … ADD COLUMN"},
    "ALTER TABLE goes_on ADD COLUMN c INT, COMMENT 'DROP PARTITION p'": {},
    "ALTER TABLE swapped DROP COLUMN v, ADD COLUMN v INT": {"swapped": "ALTER TABLE that gives"},
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


def checkpoint(settings: Settings) -> Checkpoint:
    """What's durable."""
    with closing(JournalStore.open_single_writer(Path(settings.journal.path), settings.name)) as store:
        last = store.recover().last
    assert last is not None
    return last.checkpoint


async def test_each_stops_the_tables_that_it_means(mysql: MysqlServer, database: str, tmp_path: Path) -> None:
    other = f"{database}_other"
    created(mysql, database, other)
    settings = pipeline(mysql, tmp_path, database)
    wanted = {f"{database}.{t}": words for stops in DONE.values() for t, words in stops.items()}
    try:
        async with running(settings) as service:
            await service.begun()
            with closing(mysql.connect(database=database)) as connection, connection.cursor() as cursor:
                for statement in DONE:
                    cursor.execute(statement.format(other=other))
                cursor.execute("CREATE TABLE dropped (id INT PRIMARY KEY, v INT)")
                for table in ("dropped", "emptied", "goes_on"):
                    cursor.execute(f"INSERT INTO `{table}` (id, v) VALUES (2, 2)")
                connection.commit()
            await service.caught_up(mysql)
            stopped = service.status()["stopped"]
            assert stopped.keys() == wanted.keys()
            for table, words in wanted.items():
                assert stopped[table].startswith(words), stopped[table]
                assert f"({mysql.uuid}:" in stopped[table]
            await service.execute("s", rf"{database}\.goes_on")
            await service.completed("s")
            await service.stop()
        durable = checkpoint(settings)
        assert {str(table) for table in durable.stopped} == wanted.keys()
        async with running(settings) as service:
            await service.begun()
            mysql.sql(f"INSERT INTO {database}.dropped VALUES (3, 3)")
            await service.caught_up(mysql)
            assert service.status()["stopped"].keys() == wanted.keys()
            for table in wanted:
                assert service.assembly.metrics.value(catalogue.TABLE_STOPPED, table=table) == 1
            await service.stop()
    finally:
        mysql.sql(f"DROP DATABASE {other}")


async def test_a_dropped_database_stops_all_its_tables(
    mysql: MysqlServer, database: str, tmp_path: Path
) -> None:
    mysql.sql("CREATE TABLE a (id INT PRIMARY KEY)", "CREATE TABLE b (id INT)", database=database)
    settings = pipeline(mysql, tmp_path, database)
    async with running(settings) as service:
        await service.begun()
        mysql.sql(f"DROP SCHEMA {database}", f"CREATE DATABASE {database}")
        await service.caught_up(mysql)
        stopped = service.status()["stopped"]
        assert stopped.keys() == {f"{database}.a", f"{database}.b"}
        assert all(reason.startswith("DROP DATABASE (") for reason in stopped.values())
        await service.stop()
    assert checkpoint(settings).stopped.keys() == {TableId(database, "a"), TableId(database, "b")}
