"""Rows that go and change along with others by foreign keys, in the log or below it: the journal is the source."""

from dataclasses import replace
from pathlib import Path

import pytest

from actors.http.changes.client import changes
from actors.source.preflight import UnfitSource, preflight
from deploy.toolchain.mysql_server import FULL_METADATA, GTIDS, MysqlServer
from pipeline import metrics as catalogue
from pipeline.config.settings import ForeignKeys, HttpSettings
from pipeline.schema.table_schema import TableId
from tests.servers.executed import executed
from tests.servers.journal_oracle import unequal
from tests.servers.mysql import MysqlFactory
from tests.servers.service import Running, pipeline, running
from tests.servers.web import web

TABLES = (
    "CREATE TABLE a (id INT PRIMARY KEY, code INT UNIQUE)",
    "CREATE TABLE b (id INT PRIMARY KEY, a INT, UNIQUE (a), FOREIGN KEY (a) REFERENCES a (id) ON DELETE CASCADE)",
    "CREATE TABLE c (id INT PRIMARY KEY, b INT, FOREIGN KEY (b) REFERENCES b (a) ON DELETE SET NULL)",
    "CREATE TABLE d (id INT PRIMARY KEY, code INT, FOREIGN KEY (code) REFERENCES a (code) ON UPDATE CASCADE)",
    "CREATE TABLE e (id INT PRIMARY KEY, a INT, FOREIGN KEY (a) REFERENCES a (id))",
    "INSERT INTO a VALUES (1, 10), (2, 20), (3, 30)",
    *(f"INSERT INTO {child} VALUES (1, 1), (2, 2), (3, 3)" for child in "bc"),
    "INSERT INTO d VALUES (1, 10), (2, 20), (3, 30)",
    "INSERT INTO e VALUES (3, 3)",
)
# Below the log: b's and c's rows with the first, d's with the second.
CHANGES = ("DELETE FROM d WHERE id = 1", "DELETE FROM a WHERE id = 1", "UPDATE a SET code = 21 WHERE id = 2")


@pytest.mark.parametrize("native", ["ON", "OFF"])
async def test_rows_that_go_along_with_others(
    mysql_factory: MysqlFactory, tmp_path: Path, native: str
) -> None:
    server = mysql_factory({**GTIDS, **FULL_METADATA, "innodb_native_foreign_keys": native})
    server.sql("CREATE DATABASE shop", "USE shop", *TABLES)
    settings = pipeline(server, tmp_path, "shop")
    if native == "ON":
        with pytest.raises(UnfitSource, match=r"foreign keys change rows of shop\.b, shop\.c, shop\.d along"):
            (await preflight(settings)).raise_errors()
        snapshot = replace(settings.snapshot, foreign_keys=ForeignKeys.REREAD)
        settings = replace(settings, snapshot=snapshot)
    async with running(settings) as service:
        await service.begun()
        await service.execute("s")
        await service.completed("s")
        server.sql(*CHANGES, "UPDATE a SET id = 4 WHERE id = 2 AND code = 0", database="shop")
        await service.caught_up(server)

        def read() -> bool:
            states = [t["state"] for snapshot in service.status()["snapshots"] for t in snapshot["tables"]]
            return set(states) == {"completed"}

        await service.until(read, "all that was restarted has been read")
        restarts = {
            name: service.assembly.metrics.value(catalogue.TABLE_RESTARTS, table=f"shop.{name}") or 0
            for name in "abcde"
        }
        await service.stop()
    assert unequal(server, tmp_path / "journal", *(TableId("shop", name) for name in "abcde")) == []
    assert server.sql("SELECT * FROM shop.c WHERE id = 1")[0][1] is None
    # A deleted row may have been any child's, and of an update it's known whose columns it changed.
    below = {"a": 0, "b": 1, "c": 1, "d": 1, "e": 0}
    assert restarts == (below if native == "ON" else dict.fromkeys("abcde", 0))


async def test_a_reader_learns_that_a_table_whose_last_rows_went_along_begins_again(
    mysql_factory: MysqlFactory, tmp_path: Path
) -> None:
    """The log doesn't have the rows that went, and the table is read again, and found empty, within one segment."""
    server = mysql_factory({**GTIDS, **FULL_METADATA, "innodb_native_foreign_keys": "ON"})
    server.sql(
        "CREATE DATABASE shop",
        "USE shop",
        "CREATE TABLE parent (id INT PRIMARY KEY)",
        "CREATE TABLE child (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES parent (id) ON DELETE CASCADE)",
        "CREATE TABLE other (id INT PRIMARY KEY)",
    )
    settings = pipeline(server, tmp_path, "shop", foreign_keys=ForeignKeys.REREAD)
    # A segment lasts longer than the read.
    journal = replace(settings.journal, seal_after_ms=2000)
    settings = replace(settings, lake=None, journal=journal)
    async with running(settings) as service, web(service, HttpSettings(), tmp_path) as served:
        await service.begun()
        await service.execute("s")
        await service.completed("s")
        server.sql(
            "INSERT INTO parent VALUES (1)",
            "INSERT INTO child VALUES (1, 1)",
            "INSERT INTO other VALUES (1)",
            database="shop",
        )
        await service.caught_up(server)
        begin = str(executed(server))
        server.sql("TRUNCATE TABLE other", "DELETE FROM parent", database="shop")
        await service.caught_up(server)
        await service.until(lambda: all(_read(service)), "all that was restarted has been read")
        await service.sealed()
        batches = [batch async for batch in changes(served.url, begin, through="now")]
        await service.stop()
    told = [(row["__table"], row["__op"]) for batch in batches for row in batch.rows.to_pylist()]
    assert told == [("shop.other", "t"), ("shop.parent", "d")]
    assert [table for batch in batches for table in batch.restarted] == ["shop.child"]


@pytest.mark.parametrize("policy", ForeignKeys)
async def test_foreign_keys_that_come_while_capture_runs(
    mysql56: MysqlServer, database56: str, tmp_path: Path, policy: ForeignKeys
) -> None:
    """The first row goes below the log at once, before a query to the server; the second one later."""
    a, b = (TableId(database56, name) for name in "ab")
    mysql56.sql(*TABLES[0:1], "CREATE TABLE b (id INT PRIMARY KEY, a INT)", database=database56)
    for table in "ab":
        mysql56.sql(f"INSERT INTO {table} VALUES (1, 1), (2, 2), (3, 3)", database=database56)
    settings = pipeline(mysql56, tmp_path, database56, foreign_keys=policy)
    async with running(settings) as service:
        await service.begun()
        await service.execute("s")
        await service.completed("s")
        mysql56.sql(
            "ALTER TABLE b ADD FOREIGN KEY (a) REFERENCES a (id) ON DELETE CASCADE",
            "DELETE FROM a WHERE id = 1",
            database=database56,
        )
        if policy is ForeignKeys.REFUSE:
            stopped = await service.until(lambda: service.status()["stopped"], "it's refused")
            assert list(stopped) == [str(b)]
            assert f"along with those of {a}, and this server doesn't log that" in stopped[str(b)]
        else:
            await service.until(lambda: _read(service)[1:], "what it may have done meanwhile is read anew")
            mysql56.sql("DELETE FROM a WHERE id = 2", database=database56)
        await service.caught_up(mysql56)
        await service.until(lambda: all(_read(service)), "all that was restarted has been read")
        await service.stop()
    mysql56.sql("INSERT INTO a VALUES (4, 4)", database=database56)
    async with running(settings) as service:  # one table's foreign key refuses no start after the first
        await service.caught_up(mysql56)
        await service.stop()
    captured = [a] if policy is ForeignKeys.REFUSE else [a, b]
    assert unequal(mysql56, tmp_path / "journal", *captured) == []
    assert mysql56.sql(f"SELECT COUNT(*) FROM {b}")[0][0] == (2 if policy is ForeignKeys.REFUSE else 1)


async def test_a_foreign_key_that_is_gone_when_what_it_did_passes(
    mysql56: MysqlServer, database56: str, tmp_path: Path
) -> None:
    """It did it while capture was down."""
    a, b = (TableId(database56, name) for name in "ab")
    mysql56.sql(
        TABLES[0],
        "CREATE TABLE b (id INT PRIMARY KEY, a INT, CONSTRAINT k FOREIGN KEY (a) REFERENCES a (id) ON DELETE CASCADE)",
        "INSERT INTO a VALUES (1, 1), (2, 2)",
        "INSERT INTO b VALUES (1, 1), (2, 2)",
        database=database56,
    )
    settings = pipeline(mysql56, tmp_path, database56, foreign_keys=ForeignKeys.REREAD)
    async with running(settings) as service:
        await service.begun()
        await service.execute("s")
        await service.completed("s")
        await service.stop()
    mysql56.sql("DELETE FROM a WHERE id = 1", "ALTER TABLE b DROP FOREIGN KEY k", database=database56)
    async with running(settings) as service:
        await service.caught_up(mysql56)
        await service.until(lambda: all(_read(service)), "all that was restarted has been read")
        await service.stop()
    assert mysql56.sql(f"SELECT id FROM {b}") == [(2,)]
    assert unequal(mysql56, tmp_path / "journal", a, b) == []


@pytest.mark.parametrize("effect", ["CASCADE", "SET NULL"])
async def test_a_referred_column_that_becomes_null_and_was_not_logged_before(
    mysql56: MysqlServer, database56: str, tmp_path: Path, effect: str
) -> None:
    a, b = (TableId(database56, name) for name in "ab")
    mysql56.sql(
        TABLES[0],
        f"CREATE TABLE b (id INT PRIMARY KEY, code INT, FOREIGN KEY (code) REFERENCES a (code) ON UPDATE {effect})",
        "INSERT INTO a VALUES (1, 1), (2, 2)",
        "INSERT INTO b VALUES (1, 1), (2, 2)",
        database=database56,
    )
    async with running(pipeline(mysql56, tmp_path, database56, foreign_keys=ForeignKeys.REREAD)) as service:
        await service.begun()
        await service.execute("s")
        await service.completed("s")
        mysql56.sql(
            "SET binlog_row_image = MINIMAL", "UPDATE a SET code = NULL WHERE id = 1", database=database56
        )
        await service.caught_up(mysql56)
        await service.until(lambda: all(_read(service)), "all that was restarted has been read")
        await service.stop()
    assert mysql56.sql(f"SELECT code FROM {b} WHERE id = 1") == [(None,)]
    assert unequal(mysql56, tmp_path / "journal", a, b) == []


def _read(service: Running) -> list[bool]:
    """Whether each snapshot has ended."""
    ended = {"completed", "failed"}
    return [ended.issuperset(t["state"] for t in each["tables"]) for each in service.status()["snapshots"]]
