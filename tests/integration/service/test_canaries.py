"""The log has neither values of rows nor passwords, with any failure and any amount of lines."""

import asyncio
import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from actors.journal_writer import JournalWriter
from actors.runtime import logs
from actors.runtime.failure_kinds import FailureKind
from deploy.toolchain.mysql_server import Account, MysqlServer
from pipeline import metrics as catalogue
from pipeline.messages.journal import ChunkPart
from pipeline.messages.topology import ActorName as Name
from tests.servers.service import Running, pipeline, running
from tests.servers.source import cut, gives_log

CANARY = Account("canary", "CANARY-password")
ROWS = 300


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """What the service and all libraries log, down to DEBUG."""
    stream, root = io.StringIO(), logging.getLogger()
    handlers, level = root.handlers, root.level
    yield stream
    root.handlers = handlers
    root.setLevel(level)
    structlog.contextvars.clear_contextvars()


def log_all(stream: io.StringIO) -> None:
    """As the service logs, and more."""
    logs.configure("shop", stream)
    for name in ("", *logs.OURS):
        logging.getLogger(name).setLevel(logging.DEBUG)


@pytest.fixture
def secretive(mysql: MysqlServer, database: str, monkeypatch: pytest.MonkeyPatch) -> MysqlServer:
    """A table whose key and columns are canaries, in the same number as the rows; captured with another."""
    mysql.sql(
        "CREATE TABLE secrets (name VARCHAR(40) PRIMARY KEY, note TEXT, details JSON)",
        "INSERT INTO secrets WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < "
        f"{ROWS}) SELECT CONCAT('CANARY-', i), CONCAT('CANARY ', i), JSON_OBJECT('CANARY', i) FROM n",
        database=database,
    )
    create = MysqlServer.create_capture_user

    def with_canary(server: MysqlServer, *databases: str) -> Account:
        return create(server, *databases, account=CANARY)

    monkeypatch.setattr(MysqlServer, "create_capture_user", with_canary)
    return mysql


def failing_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first rows that come to the journal's writer make it fail, with all that they are in the message."""
    handle, failed = JournalWriter.handle, list[Any]()

    async def fail(self: JournalWriter, message: Any) -> None:
        rows = [part.rows for part in getattr(message, "parts", ()) if isinstance(part, ChunkPart)]
        if rows and not failed:
            failed.append(message)
            try:
                dict[str, int]()[rows[0]["name"][0].as_py()]
            except KeyError as error:
                raise ValueError(f"odd: {rows[0].to_pylist()} in {rows} of {message}") from error
        await handle(self, message)

    monkeypatch.setattr(JournalWriter, "handle", fail)


async def test_neither_rows_nor_passwords_are_told(
    secretive: MysqlServer,
    tmp_path: Path,
    database: str,
    monkeypatch: pytest.MonkeyPatch,
    log: io.StringIO,
) -> None:
    failing_once(monkeypatch)
    async with running(pipeline(secretive, tmp_path, database, chunk_rows=50)) as service:
        log_all(log)
        await service.begun()
        await service.execute("s1")
        secretive.sql(
            "CREATE USER somebody IDENTIFIED BY 'CANARY-somebody'",
            "DROP USER somebody",
            f"UPDATE {database}.secrets SET note = 'CANARY new', name = CONCAT(name, '+') WHERE name LIKE '%7'",
            f"ALTER TABLE {database}.secrets ADD COLUMN more TEXT COMMENT 'CANARY-comment'",
        )
        await service.until(lambda: failed(service, FailureKind.UNFORESEEN), "the rows made it fail")
        told = json.dumps(service.supervisor.failures)
        await lose_log(secretive, service)
        await service.completed("s1")
        # Until then a restart begins the snapshot again, whose status has the keys of ranges while it runs.
        await service.until(lambda: has_sealed_end(service, "s1"), "the snapshot's end is sealed")
        await service.caught_up(secretive)
        told += json.dumps([service.supervisor.failures, *(actor.status() for actor in actors(service))])
        told += service.assembly.metrics.text().decode()
        await service.stop()
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    assert {"unforeseen", "transient"} <= {line.get("kind") for line in lines}
    assert any("ValueError" in line.get("exception", "") for line in lines)
    assert "ValueError" in told
    assert "CANARY" not in log.getvalue()
    assert "CANARY" not in told


def failed(service: Running, kind: FailureKind) -> bool:
    """Whether there has been a failure of that kind."""
    return any(service.assembly.metrics.value(catalogue.ERRORS, actor=name, kind=kind) for name in Name)


def actors(service: Running) -> list[Any]:
    return list(service.supervisor.actors.values())


def has_sealed_end(service: Running, id_: str) -> bool:
    """Whether a snapshot has ended in the journal, so that no restart takes it up again."""
    last = service.assembly._store.last_entry()
    return last is not None and any(each.id == id_ and each.ended for each in last.checkpoint.snapshots)


async def lose_log(server: MysqlServer, service: Running) -> None:
    """Ends what connections the log comes over, until it has missed one: the server keeps dead ones for a while.

    On threads: the service needs the loop to connect again. None is at work any more when this returns.
    """
    lost = asyncio.create_task(
        service.until(lambda: failed(service, FailureKind.TRANSIENT), "it has lost the log")
    )
    while not lost.done():
        await asyncio.to_thread(cut, server, gives_log, CANARY)
    await lost
