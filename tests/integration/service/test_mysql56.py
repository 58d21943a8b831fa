"""The whole service on MySQL 5.6: a snapshot under writes, judged on the journal."""

import random
import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager, closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from deploy.toolchain.mysql_server import GTIDS_56, WITHOUT_GTIDS_56, MysqlServer
from pipeline.config.settings import SignalSettings, Watermark
from pipeline.messages.topology import ActorName as Name
from pipeline.schema.table_schema import TableId
from pipeline.verifier import signal_table
from tests.servers.at_work import at_work
from tests.servers.journal_oracle import replay, unequal
from tests.servers.mysql import MysqlFactory
from tests.servers.service import pipeline, running

TABLES = (TableId("shop", "wide"), TableId("shop", "named"))
WIDE = """CREATE TABLE wide (
    id    BIGINT UNSIGNED PRIMARY KEY,
    n     INT UNSIGNED NOT NULL,
    state ENUM('new','paid','sent') NOT NULL,
    note  VARCHAR(40) CHARACTER SET latin1,
    image BINARY(6),
    blob_ BLOB,
    price DECIMAL(12,2) NOT NULL,
    at    DATETIME(3) NOT NULL)"""
NAMED = """CREATE TABLE named (
    name VARCHAR(20) CHARACTER SET utf8 COLLATE utf8_unicode_ci,
    part SMALLINT UNSIGNED,
    tags SET('a','b','c'),
    text TEXT CHARACTER SET ucs2,
    PRIMARY KEY (name, part))"""
ROWS = 3000
WRITERS = 3


def values(random_: random.Random) -> str:
    """Values of a row in `wide`, after its key: both halves of each range, and bytes that only one character set
    has."""
    return (
        f"{random_.randrange(2**32)}, {random_.randint(1, 3)}, 'nä{random_.randrange(99)}',"
        f" x'ff{random_.randrange(256):02x}', x'{random_.randrange(2**32):08x}', {random_.randint(-99, 99)}.5, NOW(3)"
    )


def fill(server: MysqlServer) -> None:
    """Both tables, with some thousand rows."""
    random_ = random.Random(0)
    wide = ", ".join(f"({2**63 + i}, {values(random_)})" for i in range(0, 2 * ROWS, 2))
    named = ", ".join(f"('{'aÉüz'[i % 4]}{i}', {65535 - i}, {i % 8}, '漢{i}')" for i in range(ROWS))
    server.sql("CREATE DATABASE shop CHARACTER SET utf8")
    server.sql(
        WIDE, NAMED, f"INSERT INTO wide VALUES {wide}", f"INSERT INTO named VALUES {named}", database="shop"
    )


def write(server: MysqlServer, seed: int, stop: threading.Event) -> None:
    """Writes transactions with any kind of change, each writer on keys of its own, until it's stopped."""
    random_ = random.Random(seed)
    with closing(server.connect(database="shop")) as connection, connection.cursor() as cursor:
        while not stop.wait(0.004):
            id_ = 2**63 + 2 * WRITERS * random_.randrange(ROWS // WRITERS) + 2 * seed
            part = WRITERS * random_.randrange(ROWS // WRITERS) + seed
            cursor.execute("BEGIN")
            cursor.execute(f"REPLACE INTO wide VALUES ({id_ + random_.choice((0, 1))}, {values(random_)})")
            cursor.execute(f"UPDATE wide SET n = n ^ 2147483648, price = -price WHERE id = {id_}")
            cursor.execute(
                f"UPDATE named SET name = CONCAT(name, 'x'), tags = tags ^ 5 WHERE part = {65535 - part}"
                " AND LENGTH(name) < 20"
            )
            if random_.random() < 0.2:
                cursor.execute(f"DELETE FROM wide WHERE id = {id_}")
            cursor.execute("ROLLBACK" if random_.random() < 0.1 else "COMMIT")


def writing(server: MysqlServer) -> AbstractContextManager[object]:
    """Some writers at work."""
    return at_work([partial(write, server, seed) for seed in range(WRITERS)])


MODES = [
    (Watermark.GTID, GTIDS_56),
    pytest.param(Watermark.PAUSE, GTIDS_56, marks=pytest.mark.full),
    (Watermark.SIGNAL_TABLE, WITHOUT_GTIDS_56),
]


@pytest.mark.parametrize(("mode", "options"), MODES)
async def test_a_snapshot_under_writes_equals_the_source(
    mysql56_factory: MysqlFactory, tmp_path: Path, mode: Watermark, options: Mapping[str, str]
) -> None:
    server = mysql56_factory(options)
    fill(server)
    settings = pipeline(server, tmp_path, "shop", watermark=mode)
    if mode is Watermark.SIGNAL_TABLE:
        table = TableId("tidemark", "signals")
        server.sql("CREATE DATABASE tidemark", signal_table.CREATE_SIGNAL_TABLE.format(table=table))
        server.sql(f"GRANT SELECT, INSERT ON {table} TO '{settings.source.user}'@'%'")
        settings = replace(settings, signals=SignalSettings(table=table))
    async with running(settings) as service:
        await service.begun()
        with writing(server):
            for snapshot in ("first", "second"):
                await service.execute(snapshot)
                await service.completed(snapshot)
        await service.caught_up(server)
        await service.stop()
    assert unequal(server, tmp_path / "journal", *TABLES) == []
    for table, ops in zip(TABLES, ("cdru", "dru"), strict=True):
        assert {change.op for change in replay(tmp_path / "journal", table).changes} == set(ops)


async def test_a_crash_within_a_snapshot_loses_nothing(mysql56_factory: MysqlFactory, tmp_path: Path) -> None:
    """Behind it the schemas are the server's again, and have to be proven by the checkpoint's."""
    server = mysql56_factory(GTIDS_56)
    fill(server)
    settings = pipeline(server, tmp_path, "shop")
    with writing(server):
        async with running(settings) as service:
            await service.begun()
            await service.execute("s")
            await service.until(lambda: service.tables("s").get("wide", {}).get("rows"), "a chunk of `wide`")
            await service.drop()
        async with running(settings) as service:
            await service.until(
                lambda: service.tables("s").get("wide", {}).get("rows", 0) > ROWS // 2, "half"
            )
            await service.drop()
    async with running(settings) as service:
        await service.completed("s")
        await service.caught_up(server)
        assert service.status()["stopped"] == {}
        await service.stop()
    assert unequal(server, tmp_path / "journal", *TABLES) == []


async def test_a_table_that_is_altered_goes_on(mysql56_factory: MysqlFactory, tmp_path: Path) -> None:
    """The log has nothing of its columns, so the verifier queries the server for them after each statement."""
    server = mysql56_factory(GTIDS_56)
    server.sql("CREATE DATABASE shop", "CREATE TABLE shop.t (id INT PRIMARY KEY, v INT UNSIGNED)")
    statements = (
        ("INSERT INTO t VALUES (1, 4000000000)", "ALTER TABLE t ADD COLUMN note VARCHAR(9)"),
        ("INSERT INTO t VALUES (2, 2, 'ü')", "ALTER TABLE t DROP COLUMN v"),
        ("UPDATE t SET note = 'x'", "TRUNCATE TABLE t", "INSERT INTO t VALUES (3, 'y')"),
        ("ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (note)", "INSERT INTO t VALUES (4, 'z')"),
    )
    async with running(pipeline(server, tmp_path, "shop")) as service:
        await service.begun()
        await service.execute("s")
        await service.completed("s")

        def proven() -> bool:
            return service.status(Name.SCHEMA_VERIFIER)["tables"]["shop.t"] in ("holding", "verified")

        for some in statements:
            server.sql(*some, database="shop")
            await service.caught_up(server)
            await service.until(proven, "the server's answer")

        def read() -> bool:
            states = [t["state"] for snapshot in service.status()["snapshots"] for t in snapshot["tables"]]
            return set(states) == {"completed"}

        await service.until(read, "all that was restarted has been read")
        assert service.status()["stopped"] == {}
        await service.stop()
    assert unequal(server, tmp_path / "journal", TableId("shop", "t")) == []
