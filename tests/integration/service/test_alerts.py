"""Alerts by a webhook: a real service whose tables really stop, and a real HTTP server that gets the posts."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import pytest

from actors.journal.writer_epochs import NoJournal
from actors.runtime.recent_events import RecentEvents
from actors.runtime.supervisor import ExitCode
from actors.service import assembly
from actors.status import alert_webhook
from deploy.demo.service import Service
from deploy.toolchain.mysql_server import MysqlServer
from deploy.toolchain.parts import Parts
from pipeline.config.settings import AlertSettings, Secret, Settings
from tests.servers.awaiting import until as holds
from tests.servers.journal_oracle import entries
from tests.servers.service import WithoutLake, pipeline
from tests.servers.service_process import configuration, delivered, until
from tests.servers.spark import start_quickly
from tests.servers.webhook import TOKEN, Receiver, receiver

__all__ = ["receiver"]

# A code that sjis may have, and no character.
UNDECODABLE = "INSERT INTO {} VALUES (1000, _sjis x'8540')"
LONGS = "types = [{ tables = ['.*\\.counters'], columns = ['seen'], type = 'long' }]"


@asynccontextmanager
async def serving(settings: Settings) -> AsyncIterator[None]:
    """The service as `tidemark run` serves it, until SIGTERM; the lake's place the journal takes."""
    journal = Path(settings.journal.path)
    before = sealed(journal)
    task = asyncio.create_task(assembly.serve(settings, RecentEvents()))
    try:
        await holds(lambda: sealed(journal) > before, "it captures", ended=task.done)
        yield
        signal.raise_signal(signal.SIGTERM)
        assert (await task).code is ExitCode.CLEAN
    finally:
        task.cancel()
        await asyncio.wait({task})


def sealed(journal: Path) -> int:
    """How many segments a journal has, none if it isn't there yet."""
    try:
        return len(entries(journal))
    except NoJournal:
        return 0


def remedy(database: str, table: str) -> str:
    """What brings the table back."""
    return rf"tidemark signal CONFIG recapture --tables '{database}\.{table}'"


async def test_a_table_that_capture_stops_is_posted_once_with_reason_and_remedy(
    mysql: MysqlServer, database: str, tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assembly, "Assembly", WithoutLake)
    monkeypatch.setattr(alert_webhook, "LOOK_EVERY_S", 0.05)
    for name in ("first", "second", "third"):
        mysql.sql(
            f"CREATE TABLE {name} (id INT PRIMARY KEY, s VARCHAR(9) CHARACTER SET sjis)", database=database
        )
    settings = pipeline(mysql, tmp_path, database)
    settings = replace(settings, alerts=AlertSettings(Secret(receiver.address)))
    async with serving(settings):
        receiver.answers = [503]  # and then it's posted again, with the same id
        mysql.sql(UNDECODABLE.format("first"), database=database)
        await receiver.until(lambda got: len(got) == 2)
        mysql.sql(UNDECODABLE.format("second"), database=database)
        await receiver.until(lambda got: f"{database}.second" in got)
    async with serving(settings):
        mysql.sql(UNDECODABLE.format("third"), database=database)
        await receiver.until(lambda got: f"{database}.third" in got)
    # A stop may cut off an answer, and then the same alert is posted again at once.
    first, second, third = (alert for alert, _ in groupby(receiver.got))
    assert receiver.got.count(first) == 2
    assert len({each["id"] for each in (first, second, third)}) == 3
    for told, name in ((first, "first"), (second, "second"), (third, "third")):
        assert (told["kind"], told["pipeline"], told["part"]) == ("table-stopped", "test", "capture")
        assert told["subject"] == f"{database}.{name}"
        assert "sjis" in told["reason"] and remedy(database, name) in told["reason"]
        assert told["text"].startswith(f"Tidemark test: the table {database}.{name} was stopped (capture): ")
        assert told["text"].endswith(told["reason"])
    assert TOKEN not in json.dumps(receiver.got)


@pytest.fixture
def service(
    tmp_path: Path, mysql: MysqlServer, parts: Parts, database: str, receiver: Receiver,
    monkeypatch: pytest.MonkeyPatch,
) -> Service:  # fmt: skip
    """A service whose webhook is in a file, as a secret is."""
    start_quickly(monkeypatch, parts)
    mysql.sql("CREATE TABLE counters (id INT PRIMARY KEY, seen BIGINT UNSIGNED)", database=database)
    mysql.sql("CREATE TABLE notes (id INT PRIMARY KEY, s VARCHAR(9) CHARACTER SET sjis)", database=database)
    mysql.sql("INSERT INTO counters VALUES (1, 1)", database=database)
    config = configuration(tmp_path, mysql, parts, database, mysql.create_capture_user(database))
    (tmp_path / "webhook").write_text(receiver.address)
    (tmp_path / "webhook").chmod(0o600)
    text = config.read_text().replace("lake = {", f"lake = {{ {LONGS},")
    config.write_text(f'{text}\n[alerts]\nwebhook_file = "webhook"\n')
    return Service(config, tmp_path / "journal", tmp_path / "log")


@pytest.mark.full
async def test_tables_that_capture_and_lake_stop_are_posted_once_through_a_kill(
    service: Service, mysql: MysqlServer, database: str, receiver: Receiver
) -> None:
    try:
        await asyncio.to_thread(service.start)
        await asyncio.to_thread(until, service, delivered(mysql))
        mysql.sql(f"INSERT INTO counters VALUES (2, {2**63})", database=database)
        await receiver.until(lambda got: got == [f"{database}.counters"])
        await asyncio.to_thread(service.kill)
        await asyncio.to_thread(service.start)
        mysql.sql(UNDECODABLE.format("notes"), database=database)
        await receiver.until(lambda got: f"{database}.notes" in got)
        assert await asyncio.to_thread(service.stop) == 0
    finally:
        service.kill()
    # The kill may cut off an answer, and then the same alert is posted again.
    lake, capture = (alert for alert, _ in groupby(receiver.got))
    assert (lake["subject"], capture["subject"]) == (f"{database}.counters", f"{database}.notes")
    assert (lake["part"], capture["part"]) == ("lake", "capture")
    assert f"a value of column 'seen' of {database}.counters is greater than {2**63 - 1}" in lake["reason"]
    assert remedy(database, "counters") in lake["reason"]
    assert remedy(database, "notes") in capture["reason"]
    assert TOKEN not in service.log.read_text()
