"""Rows that go and change along with others by foreign keys, in the log or below it: the journal is the source."""

from dataclasses import replace
from pathlib import Path

import pytest

from actors.preflight import Unfit, preflight
from deploy.toolchain.mysql_server import FULL_METADATA, GTIDS
from pipeline import metrics as catalogue
from pipeline.schema import TableId
from pipeline.settings import ForeignKeys
from tests.servers.journal_oracle import unequal
from tests.servers.mysql import MysqlFactory
from tests.servers.service import pipeline, running

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
        with pytest.raises(Unfit, match=r"foreign keys change rows of shop\.b, shop\.c, shop\.d along"):
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
