"""A consistent snapshot on a real server: money that moves between tables while they're read is neither lost nor made.

Each transaction takes from a row of one table what it gives to a row of the other one. So what the chunks alone say of
both tables adds up, if they are of one place in the log, and only by luck if they aren't.
"""

import asyncio
import random
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Any

import pytest

from actors.chunk_selector import ChunkSelector
from actors.snapshot import consistent_reads
from actors.source.connection import Source
from deploy.toolchain.mysql_server import MysqlServer
from pipeline.config.settings import Settings, SnapshotMode, Watermark
from pipeline.messages.topology import ActorName as Name
from pipeline.schema.table_schema import TableId
from tests.servers.at_work import at_work
from tests.servers.journal_oracle import entries, replay, unequal
from tests.servers.service import Running, pipeline, running
from tests.servers.source import cut, gives_log

ROWS = 150
TOTAL = 2 * ROWS * 100
A, B = TableId("bank", "a"), TableId("bank", "b")


@pytest.fixture
def server(own_mysql: MysqlServer) -> MysqlServer:
    """The bank, as it is before any money has moved."""
    rows = ", ".join(f"({key}, 100)" for key in range(ROWS))
    own_mysql.sql(
        "DROP DATABASE IF EXISTS bank",
        "CREATE DATABASE bank",
        "USE bank",
        *(f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT)" for name in ("a", "b")),
        *(f"INSERT INTO {name} VALUES {rows}" for name in ("a", "b")),
    )
    return own_mysql


def moving(server: MysqlServer, pause_s: float) -> AbstractContextManager[object]:
    """Money moves meanwhile."""

    def move(stop: threading.Event) -> None:
        generator = random.Random(1)
        with closing(server.connect(database="bank")) as connection, connection.cursor() as cursor:
            while not stop.wait(pause_s):
                amount = generator.choice((-1, 1))
                connection.begin()
                cursor.execute(f"UPDATE a SET v = v - {amount} WHERE id = {generator.randrange(ROWS)}")
                cursor.execute(f"UPDATE b SET v = v + {amount} WHERE id = {generator.randrange(ROWS)}")
                connection.commit()

    return at_work([move])


def bank(server: MysqlServer, folder: Path, **snapshot: Any) -> Settings:
    """The pipeline of both tables, in many small chunks."""
    return pipeline(
        server, folder, "bank", mode=SnapshotMode.CONSISTENT, chunk_rows=5, chunk_target_ms=1, **snapshot
    )


def in_mirrors(journal: Path) -> int:
    """What the chunks alone add up to."""
    rows = [row for table in (A, B) for _, row in replay(journal, table).mirror.values()]
    assert len(rows) == 2 * ROWS
    return sum(int(row["v"]) for row in rows)


async def completed(service: Running) -> None:
    """Until all of it is complete."""
    await service.until(lambda: service.status().get("snapshots"), "it's begun")
    [snapshot] = service.status()["snapshots"]
    await service.completed(snapshot["id"])


@pytest.mark.parametrize("watermark", [Watermark.GTID, Watermark.PAUSE])
async def test_all_tables_are_read_at_one_place(
    server: MysqlServer, tmp_path: Path, watermark: Watermark
) -> None:
    with moving(server, 0.01):
        async with running(bank(server, tmp_path, watermark=watermark)) as service:
            await completed(service)
            begun = service.status()["position"]
            await service.until(lambda: service.status()["position"] != begun, "the stream goes on")
            await service.stop()
    assert in_mirrors(tmp_path / "journal") == TOTAL
    async with running(bank(server, tmp_path)) as service:
        await service.begun()
        await service.caught_up(server)
        await service.stop()
    assert unequal(server, tmp_path / "journal", A, B) == []


async def test_what_was_read_before_a_crash_does_not_count(
    server: MysqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached = asyncio.Event()
    hold_at(monkeypatch, 20, reached)
    with moving(server, 0.01):
        async with running(bank(server, tmp_path)) as service:
            await reached.wait()
            await service.until(lambda: sealed_chunks(tmp_path / "journal") > 10, "some are sealed")
        monkeypatch.undo()
        async with running(bank(server, tmp_path)) as service:
            await completed(service)
            await service.stop()
    assert in_mirrors(tmp_path / "journal") == TOTAL


async def test_a_lost_transaction_begins_it_anew(
    server: MysqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached = asyncio.Event()
    release = hold_at(monkeypatch, 20, reached)
    with moving(server, 0.01):
        async with running(bank(server, tmp_path)) as service:
            await reached.wait()
            assert cut(server, lambda connection: not gives_log(connection))
            release()
            first = service.supervisor.actors[Name.WATERMARK_COORDINATOR]
            await service.until(
                lambda: service.supervisor.actors[Name.WATERMARK_COORDINATOR] is not first, "a new start"
            )
            await completed(service)
            await service.stop()
    assert in_mirrors(tmp_path / "journal") == TOTAL


async def test_a_server_that_is_never_quiet_is_told_of_and_locked_only_if_that_is_allowed(
    server: MysqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.sql("SET GLOBAL general_log = ON")
    settings = bank(server, tmp_path)
    begin = Source.begin

    async def disturbed(source: Source) -> None:
        await begin(source)
        moved = (f"UPDATE {table} SET v = v {by} WHERE id = 0" for table, by in (("a", "- 1"), ("b", "+ 1")))
        await asyncio.to_thread(server.sql, "BEGIN", *moved, "COMMIT", database="bank")

    with moving(server, 0), moving(server, 0), moving(server, 0):
        with monkeypatch.context() as never_quiet:
            never_quiet.setattr(Source, "begin", disturbed)
            async with running(settings) as service:
                told: object = await service.until(
                    lambda: service.status(Name.CHUNK_SELECTOR).get("waits"), "it says why it waits"
                )
                assert "snapshot.allow_lock = true" in str(told)
                assert service.status()["consistent"] in ("opening", "approaching")
        assert not [command for command in server.logged() if "READ LOCK" in command.text]
        server.sql("GRANT RELOAD ON *.* TO tidemark")
        monkeypatch.setattr(consistent_reads, "TRIES_WITHOUT_LOCK", 0)
        async with running(bank(server, tmp_path, allow_lock=True)) as service:
            await completed(service)
            await service.stop()
    assert in_mirrors(tmp_path / "journal") == TOTAL
    assert [command for command in server.logged() if command.text == "FLUSH TABLES WITH READ LOCK"]


def sealed_chunks(journal: Path) -> int:
    """How many chunks the journal has."""
    return sum(len(entry.chunks) for entry in entries(journal))


def hold_at(monkeypatch: pytest.MonkeyPatch, nth: int, reached: asyncio.Event) -> Callable[[], None]:
    """Hold the nth chunk before it's read, until the function that's returned is called."""
    original, opened = ChunkSelector.select, asyncio.Event()
    count = 0

    async def select(*arguments: Any) -> Any:
        nonlocal count
        count += 1
        if count == nth:
            reached.set()
        if count >= nth:
            await opened.wait()
        return await original(*arguments)

    monkeypatch.setattr(ChunkSelector, "select", select)
    return opened.set
