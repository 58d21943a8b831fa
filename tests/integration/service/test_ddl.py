"""Statements that alter a table while it's being snapshotted, in every place of a window: the journal is the source.

The chunk is held open by a gate in the selector, and never by a sleep. What the statement makes of the table is judged
by the live view, columns and all, once the snapshot has completed.
"""

import asyncio
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from deploy.toolchain.mysql_server import GTIDS, MysqlServer
from pipeline.config.settings import Settings, Watermark
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import TableId
from tests.servers.gate import Gate, Hold
from tests.servers.journal_oracle import unequal
from tests.servers.mysql import MysqlFactory
from tests.servers.service import Running, pipeline, running

# What's done to `t`, which has id, v and note, beside changes before and after it.
ADDED: Final = "ALTER TABLE t ADD COLUMN x INT"
DONE: Final[dict[str, tuple[str, ...]]] = {
    "add": (ADDED,),
    "add with a default": ("ALTER TABLE t ADD COLUMN x INT NOT NULL DEFAULT 7",),
    "drop": ("ALTER TABLE t DROP COLUMN note",),
    "rename a column": ("ALTER TABLE t RENAME COLUMN note TO noted",),
    "reorder": ("ALTER TABLE t MODIFY COLUMN note VARCHAR(20) AFTER id",),
    "retype": ("ALTER TABLE t MODIFY COLUMN v BIGINT",),
    "cut": ("SET sql_mode = ''", "ALTER TABLE t MODIFY COLUMN note VARCHAR(2)"),
    "another key": ("ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (v, id)",),
    "truncate": ("TRUNCATE TABLE t",),
    "drop and create anew": (
        "DROP TABLE t",
        "CREATE TABLE t (id INT PRIMARY KEY, v INT, note VARCHAR(20))",
    ),
    "drop and create another": (
        "DROP TABLE t",
        "CREATE TABLE t (code VARCHAR(9) PRIMARY KEY, v INT, id INT)",
    ),
    "created and filled": (
        "DROP TABLE t",
        "CREATE TABLE t (PRIMARY KEY (id)) AS SELECT id, v, note, 5 AS five FROM other",
    ),
    # What gh-ost does at its cut-over (go/logic/applier.go): the sentry table, the locks, the swap after them.
    "gh-ost": (
        "CREATE TABLE _t_gho LIKE t",
        "ALTER TABLE _t_gho ADD COLUMN x INT NOT NULL DEFAULT 3",
        "INSERT INTO _t_gho (id, v, note) SELECT id, v, note FROM t",
        "CREATE TABLE _t_del (id INT AUTO_INCREMENT PRIMARY KEY) ENGINE=InnoDB COMMENT='ghost-cut-over-sentry'",
        "LOCK TABLES t WRITE, _t_del WRITE",
        "DROP TABLE IF EXISTS _t_del",
        "UNLOCK TABLES",
        "RENAME TABLE t TO _t_del, _t_gho TO t",
        "DROP TABLE IF EXISTS _t_del",
    ),
    # What pt-online-schema-change does (bin/pt-online-schema-change): triggers, the copy, the swap, the old one's end.
    "pt-online-schema-change": (
        "CREATE TABLE _t_new (id INT PRIMARY KEY, v INT, note VARCHAR(20))",
        "ALTER TABLE _t_new DROP COLUMN v, ADD COLUMN w INT",
        "CREATE TRIGGER pt_osc_t_del AFTER DELETE ON t FOR EACH ROW DELETE IGNORE FROM _t_new WHERE id <=> OLD.id",
        "CREATE TRIGGER pt_osc_t_ins AFTER INSERT ON t FOR EACH ROW REPLACE INTO _t_new (id) VALUES (NEW.id)",
        "INSERT LOW_PRIORITY IGNORE INTO _t_new (id, note) SELECT id, note FROM t LOCK IN SHARE MODE",
        "ANALYZE TABLE _t_new",
        "RENAME TABLE t TO _t_old, _t_new TO t",
        "DROP TABLE IF EXISTS _t_old",
        "DROP TRIGGER IF EXISTS pt_osc_t_del",
        "DROP TRIGGER IF EXISTS pt_osc_t_ins",
    ),
    "exchange": (
        "ALTER TABLE t PARTITION BY RANGE(id)(PARTITION p VALUES LESS THAN (300), PARTITION q VALUES LESS THAN (9000))",
        "ALTER TABLE t EXCHANGE PARTITION p WITH TABLE other",
    ),
    "there and back": (ADDED, "ALTER TABLE t DROP COLUMN x"),
}
PLACES: Final = ("low", "select", "high", "_between_watermarks")
# Statements that name no column have one that represents others too; each place has a turn with each metadata.
QUICK: Final = {
    "FULL": {
        "low": "gh-ost",
        "select": "truncate",
        "high": "another key",
        "_between_watermarks": "drop and create another",
    },
    "MINIMAL": {
        "low": "retype",
        "select": "pt-online-schema-change",
        "high": "exchange",
        "_between_watermarks": "drop",
    },
}
CASES: Final = [
    pytest.param(metadata, place, done, marks=() if QUICK[metadata][place] == done else pytest.mark.full)
    for metadata in QUICK
    for place in PLACES
    for done in DONE
]


@pytest.fixture(scope="module")
def servers(mysql: MysqlServer, module_mysql_factory: MysqlFactory) -> dict[str, MysqlServer]:
    """A server for each kind of metadata."""
    return {"FULL": mysql, "MINIMAL": module_mysql_factory(GTIDS)}


@pytest.fixture
def database(request: pytest.FixtureRequest) -> str:
    return f"ddl_{abs(hash(request.node.name)) % 10**9}"


@contextmanager
def stocked(server: MysqlServer, database: str) -> Iterator[None]:
    """Both tables, for a while."""
    rows = ", ".join(f"({key}, {key}, 'note {key}')" for key in range(10, 1001, 10))
    few = ", ".join(f"({key}, {-key}, 'other')" for key in range(5, 300, 10))
    columns = "(id INT PRIMARY KEY, v INT, note VARCHAR(20))"
    server.sql(
        f"DROP DATABASE IF EXISTS {database}", f"CREATE DATABASE {database}", f"USE {database}",
        f"CREATE TABLE t {columns}", f"INSERT INTO t VALUES {rows}",
        f"CREATE TABLE other {columns}", f"INSERT INTO other VALUES {few}",
    )  # fmt: skip
    try:
        yield
    finally:
        server.sql(f"DROP DATABASE {database}")


@pytest.mark.parametrize(("metadata", "place", "done"), CASES)
async def test_a_statement_in_a_window(
    servers: dict[str, MysqlServer],
    database: str,
    hold: Hold,
    tmp_path: Path,
    metadata: str,
    place: str,
    done: str,
) -> None:
    server, gate = servers[metadata], hold(place, 2)
    with stocked(server, database):
        settings = captured(server, tmp_path, database)
        await altered(settings, server, database, gate, DONE[done])
        assert unequal(server, tmp_path / "journal", TableId(database, "t")) == []


@pytest.mark.parametrize(
    ("metadata", "done"),
    [
        pytest.param(metadata, done, marks=() if done in quick else pytest.mark.full)
        for metadata, quick in (("FULL", {"another key"}), ("MINIMAL", {"rename a column", "gh-ost"}))
        for done in DONE
    ],
)
async def test_a_statement_while_nobody_looks(
    servers: dict[str, MysqlServer],
    database: str,
    hold: Hold,
    tmp_path: Path,
    metadata: str,
    done: str,
) -> None:
    """The service ends within a window. Its next start first finds what was done meanwhile."""
    server, gate = servers[metadata], hold("high", 2)
    with stocked(server, database):
        settings = captured(server, tmp_path, database)
        async with running(settings) as service:
            await service.begun()
            await service.execute("s", rf"{database}\.t")
            await gate.reached.wait()
            await service.drop()
        alter(server, database, DONE[done])
        async with running(settings) as service:
            await service.begun()
            await settled(service, server)
            await service.stop()
        assert unequal(server, tmp_path / "journal", TableId(database, "t")) == []


@pytest.mark.parametrize("done", ["rename a column", "gh-ost"])
async def test_a_statement_while_the_log_waits(
    servers: dict[str, MysqlServer],
    database: str,
    hold: Hold,
    tmp_path: Path,
    done: str,
) -> None:
    """What waits for a schema's proof and a log that waits for a chunk don't wait for each other."""
    server, gate = servers["MINIMAL"], hold("select", 2)
    with stocked(server, database):
        settings = captured(server, tmp_path, database)
        settings = replace(settings, snapshot=replace(settings.snapshot, watermark=Watermark.PAUSE))
        await altered(settings, server, database, gate, DONE[done])
        assert unequal(server, tmp_path / "journal", TableId(database, "t")) == []


async def altered(
    settings: Settings, server: MysqlServer, database: str, gate: Gate, statements: tuple[str, ...]
) -> None:
    """Run the service through a snapshot of `t`, in which the statements come while the gate is closed."""
    async with running(settings) as service:
        await service.begun()
        await service.execute("s", rf"{database}\.t")
        await gate.reached.wait()
        await asyncio.to_thread(alter, server, database, statements)
        gate.opened.set()
        await settled(service, server)
        await service.stop()


def captured(server: MysqlServer, folder: Path, database: str) -> Settings:
    """Only `t` and `other`: what tools make beside them isn't captured."""
    settings = pipeline(server, folder, database, chunk_rows=30)
    return replace(settings, tables=TableFilter((rf"{database}\.(t|other)",)))


def alter(server: MysqlServer, database: str, statements: tuple[str, ...]) -> None:
    """Run them between changes of rows, one of which the window has."""
    with closing(server.connect(database=database)) as connection, connection.cursor() as cursor:
        cursor.execute("UPDATE t SET v = v + 1 WHERE id IN (310, 10)")
        connection.commit()
        for statement in statements:
            cursor.execute(statement)
        connection.commit()
        cursor.execute(
            "SELECT COLUMN_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE()"
            " AND TABLE_NAME = 't'"
        )
        columns = {name for (name,) in cursor.fetchall()}
        changed = "v" if "v" in columns else "w"
        cursor.execute(f"UPDATE t SET {changed} = 7 WHERE id IN (320, 20, 900)")
        cursor.execute("DELETE FROM t WHERE id IN (330, 30, 910)")
        new = "code" if "code" in columns else "id"
        cursor.execute(f"INSERT INTO t ({new}, {changed}) VALUES (1, 1), (315, 1), (2000, 1)")
        connection.commit()


async def settled(service: Running, server: MysqlServer) -> None:
    """Waits until every snapshot has ended, and the journal has all that the server has executed; no table may have
    stopped."""
    await service.caught_up(server)

    def ended() -> bool:
        snapshots = service.status()["snapshots"]
        states = [table["state"] for snapshot in snapshots for table in snapshot["tables"]]
        return all(state in ("completed", "failed", "stopped") for state in states)

    await service.until(ended, "all snapshots have ended")
    assert not service.status()["stopped"]
