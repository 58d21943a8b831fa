"""Rows that change, vanish, come back and move while their chunk is being read: just the right ones are emitted.

The chunk is held open by a gate in the selector, or by a lock on the table, and never by a sleep.
"""

import asyncio
import uuid
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pymysql
import pytest

from actors.source import binlog_dump
from actors.watermark_coordinator import WatermarkCoordinator
from deploy.toolchain.mysql_server import MysqlServer
from pipeline.config.settings import Watermark
from pipeline.schema.table_schema import TableId
from tests.servers.gate import Gate, Hold
from tests.servers.journal_oracle import entries, replay, source_rows, unequal
from tests.servers.service import Running, pipeline, running
from tests.servers.source import connections, waits_for_lock

CHUNK_ROWS = 30
# The second chunk begins after this key, and all keys that are touched while it's held are in here.
BEHIND = 300
TOUCHED = {
    310, 320, 330, 340, 345, 350, 355, 360, 365, 370, 375, 385, 390, 400, 391, 420, 430, 440, 460, 470, 480, 490
}  # fmt: skip
# Chunks: 10 to 300, 310 to 600, 610 to 900, 910 to 1000.
CHANGES: tuple[tuple[str, ...], ...] = (
    ("UPDATE t SET v = v + 1 WHERE id = 310",),
    ("DELETE FROM t WHERE id = 320",),
    ("DELETE FROM t WHERE id = 330", "INSERT INTO t VALUES (330, 1)"),
    ("UPDATE t SET id = 345 WHERE id = 340",),  # inside of the chunk
    ("UPDATE t SET id = 5 WHERE id = 350",),  # out of it, to where chunks are done
    ("UPDATE t SET id = 355 WHERE id = 20",),  # and back
    ("UPDATE t SET id = 1500 WHERE id = 360",),  # after the frozen end
    ("UPDATE t SET id = 365 WHERE id = 900",),  # from where chunks are still to come
    ("UPDATE t SET id = 905 WHERE id = 370",),  # and back
    ("INSERT INTO t VALUES (375, 1)",),
    ("INSERT INTO t VALUES (385, 1)",),
    ("DELETE FROM t WHERE id = 385",),
    # Two rows change places.
    (
        "UPDATE t SET id = 391 WHERE id = 390",
        "UPDATE t SET id = 390 WHERE id = 400",
        "UPDATE t SET id = 400 WHERE id = 391",
    ),
    ("DELETE FROM t WHERE id = 420",),
    ("INSERT INTO t VALUES (420, 420)",),  # as it was
    # A row that goes and comes back, in one transaction and in two.
    ("UPDATE t SET id = 1700 WHERE id = 430", "UPDATE t SET id = 430, v = 1 WHERE id = 1700"),
    ("UPDATE t SET id = 1800 WHERE id = 440",),
    ("UPDATE t SET id = 440 WHERE id = 1800",),
    # A chain: each row takes the key that the one before has left.
    (
        "DELETE FROM t WHERE id = 490",
        "UPDATE t SET id = id + 10 WHERE id BETWEEN 460 AND 480 ORDER BY id DESC",
    ),
)


@pytest.fixture
def passing(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Set as soon as a part of a transaction has passed, and not its end."""
    original, within = WatermarkCoordinator.handle, asyncio.Event()

    async def handle(coordinator: WatermarkCoordinator, message: Any) -> None:
        await original(coordinator, message)
        if coordinator.status()["within"]:
            within.set()

    monkeypatch.setattr(WatermarkCoordinator, "handle", handle)
    return within


@pytest.fixture
def table(mysql: MysqlServer, database: str) -> TableId:
    """A hundred rows with the keys 10, 20, ... 1000."""
    rows = ", ".join(f"({key}, {key})" for key in range(10, 1001, 10))
    mysql.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)", f"INSERT INTO t VALUES {rows}", database=database)
    return TableId(database, "t")


@pytest.fixture
def writer(mysql: MysqlServer, database: str) -> Iterator["pymysql.Connection[pymysql.cursors.Cursor]"]:
    with closing(mysql.connect(database=database)) as connection:
        yield connection


def change(connection: "pymysql.Connection[pymysql.cursors.Cursor]") -> None:
    """All CHANGES, each a transaction: of the server, with a tag, and of another server; and one that's rolled back."""
    elsewhere = uuid.uuid4()
    with connection.cursor() as cursor:
        for number, statements in enumerate(CHANGES):
            gtid = ("AUTOMATIC", "AUTOMATIC:held", f"{elsewhere}:{number + 7}")[number % 3]
            cursor.execute(f"SET gtid_next = '{gtid}'")
            connection.begin()
            for statement in statements:
                assert cursor.execute(statement)
            connection.commit()
        cursor.execute("SET gtid_next = 'AUTOMATIC'")
        connection.begin()
        cursor.execute("UPDATE t SET v = -1 WHERE id = 410")
        connection.rollback()


def chunk_of(rows: dict[Any, Any]) -> dict[Any, Any]:
    """What the second chunk's SELECT gives of a table with these rows."""
    behind = sorted(key for key in rows if key > (BEHIND,))
    return {key: rows[key] for key in behind[:CHUNK_ROWS]}


async def second_chunk(service: Running, gate: Gate) -> None:
    """Until the second chunk is at the gate; the first one's rows are emitted."""
    await service.begun()
    await service.execute("s", chunk_rows=CHUNK_ROWS)
    await gate.reached.wait()
    await service.until(lambda: service.tables("s")["t"]["chunks"] == 1, "the first chunk's rows")


@pytest.mark.parametrize("mode", [Watermark.GTID, Watermark.PAUSE])
@pytest.mark.parametrize("step", ["select", "high", "_between_watermarks"])
async def test_rows_that_change_while_their_chunk_is_read(
    mysql: MysqlServer,
    table: TableId,
    writer: "pymysql.Connection[pymysql.cursors.Cursor]",
    hold: Hold,
    tmp_path: Path,
    step: str,
    mode: Watermark,
) -> None:
    gate = hold(step, 2)
    before = source_rows(mysql, table)
    async with running(
        pipeline(mysql, tmp_path, table.database, chunk_rows=CHUNK_ROWS, watermark=mode)
    ) as service:
        await second_chunk(service, gate)
        change(writer)
        after = source_rows(mysql, table)
        if mode is Watermark.GTID:  # the log continues, and all of it passes before the chunk comes
            await service.caught_up(mysql)
        assert service.tables("s")["t"]["chunks"] == 1
        gate.opened.set()
        await service.completed("s")
        await service.caught_up(mysql)
        assert ":held:" in service.status()["position"]
        await service.stop()
    assert unequal(mysql, tmp_path / "journal", table) == []
    seen = chunk_of(after if step == "select" else before)
    # In a paused stream nothing of it passes before a chunk whose high watermark was read before.
    touched = set() if (step, mode) == ("_between_watermarks", Watermark.PAUSE) else TOUCHED
    emitted = {key: row for key, row in seen.items() if key[0] not in touched}
    last = max(seen)
    mirror = replay(tmp_path / "journal", table).mirror
    assert {key: row for key, (_, row) in mirror.items() if (BEHIND,) < key <= last} == emitted
    sealed = [chunk for entry in entries(tmp_path / "journal") for chunk in entry.chunks]
    assert [chunk.rows for chunk in sealed if chunk.chunk.number == 2] == [len(emitted)]


def change_at_length(connection: "pymysql.Connection[pymysql.cursors.Cursor]") -> set[int]:
    """A transaction of some 24 MB, six slices of the log, with changes to the chunk's rows all along; their keys."""
    rows = "INSERT INTO large (pad) SELECT REPEAT('x', 60000) FROM t, t AS u LIMIT 200"
    with connection.cursor() as cursor:
        connection.begin()
        for statement in (
            "UPDATE t SET v = v + 1 WHERE id = 310",
            rows,
            "UPDATE t SET id = 345 WHERE id = 340",
            "DELETE FROM t WHERE id = 320",
            rows,
            "UPDATE t SET v = v + 1 WHERE id = 330",
        ):
            assert cursor.execute(statement)
        connection.commit()
    return {310, 340, 345, 320, 330}


@pytest.mark.parametrize(
    ("step", "mode"),
    [
        *((step, Watermark.GTID) for step in ("select", "high", "_between_watermarks")),
        # Here the log waits until the chunk has come, and then the transaction passes before its window closes.
        ("high", Watermark.PAUSE),
    ],
)
async def test_rows_that_change_in_a_transaction_of_many_slices_while_their_chunk_is_read(
    mysql: MysqlServer,
    table: TableId,
    writer: "pymysql.Connection[pymysql.cursors.Cursor]",
    hold: Hold,
    passing: asyncio.Event,
    tmp_path: Path,
    step: str,
    mode: Watermark,
) -> None:
    mysql.sql("CREATE TABLE large (id INT AUTO_INCREMENT PRIMARY KEY, pad BLOB)", database=table.database)
    gate = hold(step, 2)
    before = source_rows(mysql, table)
    settings = pipeline(mysql, tmp_path, table.database, chunk_rows=CHUNK_ROWS, watermark=mode)
    async with running(settings) as service:
        await second_chunk(service, gate)
        touched = await asyncio.to_thread(change_at_length, writer)
        after = source_rows(mysql, table)
        if mode is Watermark.GTID:
            await passing.wait()
        gate.opened.set()
        await service.completed("s")
        await service.caught_up(mysql)
        await service.stop()
    assert unequal(mysql, tmp_path / "journal", table, TableId(table.database, "large")) == []
    seen = chunk_of(after if step == "select" else before)
    mirror = replay(tmp_path / "journal", table).mirror
    emitted = {key: row for key, (_, row) in mirror.items() if (BEHIND,) < key <= max(seen)}
    assert emitted == {key: row for key, row in seen.items() if key[0] not in touched}


async def test_rows_that_change_while_a_lock_keeps_their_chunk_from_being_read(
    mysql: MysqlServer,
    table: TableId,
    writer: "pymysql.Connection[pymysql.cursors.Cursor]",
    hold: Hold,
    tmp_path: Path,
) -> None:
    gate = hold("select", 2)
    async with running(pipeline(mysql, tmp_path, table.database, chunk_rows=CHUNK_ROWS)) as service:
        await second_chunk(service, gate)
        with writer.cursor() as cursor:
            cursor.execute("LOCK TABLES t WRITE")
            gate.opened.set()
            await service.until(
                lambda: any(map(waits_for_lock, connections(mysql))), "the SELECT waits for the lock"
            )
            change_locked(writer)
            await service.caught_up(mysql)
            cursor.execute("UNLOCK TABLES")
        await service.completed("s")
        await service.caught_up(mysql)
        await service.stop()
    assert unequal(mysql, tmp_path / "journal", table) == []
    seen = chunk_of(source_rows(mysql, table))
    mirror = replay(tmp_path / "journal", table).mirror
    emitted = {key for key in mirror if (BEHIND,) < key <= max(seen)}
    assert emitted == {key for key in seen if key[0] not in TOUCHED}


async def test_a_statement_that_leaves_a_table_as_it_is_leaves_its_windows_open(
    mysql: MysqlServer, table: TableId, hold: Hold, tmp_path: Path
) -> None:
    gate = hold("high", 2)
    async with running(pipeline(mysql, tmp_path, table.database, chunk_rows=CHUNK_ROWS)) as service:
        await second_chunk(service, gate)
        mysql.sql("ANALYZE TABLE t", "OPTIMIZE TABLE t", "CREATE TABLE u LIKE t", database=table.database)
        await service.caught_up(mysql)
        gate.opened.set()
        await service.completed("s")
        await service.stop()
    assert unequal(mysql, tmp_path / "journal", table) == []
    sealed = [chunk.chunk.number for entry in entries(tmp_path / "journal") for chunk in entry.chunks]
    assert sealed == [1, 2, 3, 4]  # none was read twice


def change_locked(connection: "pymysql.Connection[pymysql.cursors.Cursor]") -> None:
    """CHANGES, each statement a transaction, because BEGIN would release the lock."""
    with connection.cursor() as cursor:
        for statements in CHANGES:
            for statement in statements:
                assert cursor.execute(statement)


async def test_rows_that_change_while_a_later_snapshot_reads_them(
    mysql: MysqlServer,
    table: TableId,
    writer: "pymysql.Connection[pymysql.cursors.Cursor]",
    hold: Hold,
    tmp_path: Path,
) -> None:
    # Four chunks, then the second one of the second snapshot.
    gate = hold("high", 6)
    before = source_rows(mysql, table)
    async with running(pipeline(mysql, tmp_path, table.database, chunk_rows=CHUNK_ROWS)) as service:
        await service.begun()
        await service.execute("first", chunk_rows=CHUNK_ROWS)
        await service.completed("first")
        await service.execute("again", chunk_rows=CHUNK_ROWS)
        await gate.reached.wait()
        change(writer)
        await service.caught_up(mysql)
        gate.opened.set()
        await service.completed("again")
        await service.caught_up(mysql)
        await service.stop()
    assert unequal(mysql, tmp_path / "journal", table) == []
    reads = [c for c in replay(tmp_path / "journal", table).changes if c.op == "r"]
    seen = chunk_of(before)
    emitted = {key: row for key, row in seen.items() if key[0] not in TOUCHED}
    assert {c.key: c.row for c in reads if (BEHIND,) < c.key <= max(seen)} == emitted


async def test_a_window_closes_at_once_on_a_source_that_is_idle(
    mysql: MysqlServer, table: TableId, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binlog_dump, "_HEARTBEAT_S", 1800.0)  # none comes that could close a window
    settings = pipeline(mysql, tmp_path, table.database)
    patient = replace(settings, source=replace(settings.source, read_timeout_s=3600.0))
    executed = mysql.executed()
    async with running(patient) as service:
        await service.begun()
        await service.execute("s", chunk_rows=7)
        await service.completed("s")
        assert service.tables("s")["t"]["chunks"] == 15
        await service.stop()
    assert executed == mysql.executed()
    assert unequal(mysql, tmp_path / "journal", table) == []
