"""Each alert is fired by the fault that it's meant for: a real Prometheus scrapes the service and evaluates the rules.

The rules are those of production with all their times divided by `FASTER`, so that minutes are seconds. Each fault is
mended again, and its alert has to end.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from actors.http import shared_report
from actors.http.shared_report import SHARED_FOR
from actors.journal.store import JournalReader
from actors.service.assembly import Assembly
from actors.status import lag_watch
from actors.status.lag_watch import LagWatch
from deploy.prometheus.alerts import ALERTS, MANY_FILES, RUNBOOKS, rules
from deploy.toolchain.mysql_server import FULL_METADATA, GTIDS, MysqlServer
from pipeline.config.settings import HttpSettings, Settings, SparkSettings
from pipeline.lake.tables import maintenance
from pipeline.messages.topology import ActorName
from tests.servers.awaiting import until
from tests.servers.delay import HELD, DelayedLog
from tests.servers.mysql import MysqlFactory
from tests.servers.prometheus import Prometheus
from tests.servers.service import Running, WithoutLake, pipeline, running
from tests.servers.web import web

FASTER: Final = 60.0
RUNBOOK_TEXT: Final = (Path(__file__).parents[2] / RUNBOOKS).read_text(encoding="utf-8")

# As MANY_FILES, on a machine that does other things as well.
MANY_FILES_HERE: Final = 2

# Over what's needed for all times of a rule, on a machine that does other things as well.
WITHIN_S: Final = 120.0


@pytest.fixture(autouse=True)
def _look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lag_watch, "LAG_EVERY_S", 0.2)
    # A report that takes 0.3 s on a busy machine is shared for 6. A rule that looks back over 5 sees no change then.
    monkeypatch.setattr(shared_report, "SHARED_FOR", SHARED_FOR / FASTER)


@pytest.fixture
def server(mysql_factory: MysqlFactory) -> MysqlServer:
    server = mysql_factory({**GTIDS, **FULL_METADATA})
    server.sql("CREATE DATABASE shop", "CREATE TABLE shop.t (id INT PRIMARY KEY, v VARBINARY(1000))")
    return server


@pytest.fixture
def proxy(server: MysqlServer) -> Iterator[DelayedLog]:
    with DelayedLog(server.port) as proxy:
        yield proxy


class Watched:
    """A service that Prometheus watches."""

    def __init__(self, service: Running, prometheus: Prometheus) -> None:
        self.service = service
        self.prometheus = prometheus

    async def fires(self, *names: str, fires: bool = True, within_s: float = WITHIN_S) -> None:
        """Until all of these alerts fire, or none of them does."""
        assert set(names) <= {alert.name for alert in ALERTS}

        def told() -> bool:
            firing = self.prometheus.firing()
            for name in set(names) & set(firing):
                (alert,) = firing[name]
                heading = alert["annotations"]["runbook_url"].partition("#")[2]
                assert f"\n## {heading}\n" in RUNBOOK_TEXT.lower()
                assert alert["annotations"]["summary"]
            return all((name in firing) is fires for name in names)

        await until(told, f"{', '.join(names)}: {'firing' if fires else 'ended'}", within_s)

    async def ends(self, *names: str) -> None:
        """Until none of these alerts fires any more."""
        await self.fires(*names, fires=False)


@asynccontextmanager
async def watched(
    settings: Settings, prometheus: Prometheus, folder: Path, assembly: type[Assembly] = WithoutLake
) -> AsyncIterator[Watched]:
    """The service with all that it tells over HTTP, scraped by Prometheus, from its first segment on."""
    text = rules(1 / FASTER)
    assert f"> {MANY_FILES}\n" in text
    (folder / "alerts.yaml").write_text(
        text.replace(f"> {MANY_FILES}\n", f"> {MANY_FILES_HERE}\n"), encoding="utf-8"
    )
    async with running(settings, assembly) as service:
        await service.begun()
        watch = LagWatch(settings.source, service.supervisor.actors, service.assembly.metrics)
        looking = asyncio.create_task(watch.run())
        try:
            async with web(service, HttpSettings(), folder) as served:
                prometheus.watch(served.url, rules=[folder / "alerts.yaml"], every="500ms")
                await until(prometheus.scraped, "it's scraped")
                yield Watched(service, prometheus)
        finally:
            await cancelled(looking)


async def cancelled(task: asyncio.Task[None]) -> None:
    """End a task that goes on for ever."""
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def takes_all(reader: JournalReader) -> None:
    """As a consumer that needs no time to take whatever comes."""
    while True:
        reader.consumers.record_progress("lake", reader.last_segment())
        await asyncio.sleep(0.1)


def captured(server: MysqlServer, folder: Path, port: int, **journal: Any) -> Settings:
    """Settings of the service, whose source is reached by this port; `journal` are of JournalSettings."""
    settings = pipeline(server, folder, "shop")
    source = replace(settings.source, port=port, read_timeout_s=240.0)
    return replace(settings, source=source, journal=replace(settings.journal, **journal))


async def test_a_log_that_is_held_a_snapshot_that_fails_and_a_source_that_is_gone(
    server: MysqlServer, proxy: DelayedLog, prometheus: Prometheus, tmp_path: Path
) -> None:
    settings = captured(server, tmp_path, proxy.port)
    async with watched(settings, prometheus, tmp_path) as it:
        # Twelve hours are as long as these, FASTER.
        server.sql("SET GLOBAL binlog_expire_logs_seconds = 600", "INSERT INTO shop.t VALUES (1, '')")
        await it.service.caught_up(server)
        proxy.delay_s = HELD
        server.sql("INSERT INTO shop.t VALUES (2, '')")
        await it.fires("TidemarkStalled", "TidemarkLagging", "TidemarkBinlogPurgedSoon")
        proxy.delay_s = 0.0
        await it.ends("TidemarkStalled", "TidemarkLagging", "TidemarkBinlogPurgedSoon")

        server.sql(f"REVOKE SELECT ON shop.* FROM '{settings.source.user}'")
        await it.service.execute("s", r"shop\.t")
        await it.fires("TidemarkSnapshotFailed")
        server.sql(f"GRANT SELECT ON shop.* TO '{settings.source.user}'")
        await it.service.execute("again", r"shop\.t")
        await it.ends("TidemarkSnapshotFailed")

        server.sql(
            "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = 1, SOURCE_USER = 'nobody'",
            "START REPLICA",
        )
        await it.fires("TidemarkSourceNotReplicating")
        server.sql("STOP REPLICA", "RESET REPLICA ALL")
        await it.ends("TidemarkSourceNotReplicating")

        server.kill()
        await it.fires("TidemarkSourceUnreachable", "TidemarkRestartLoop")
        server.start()
        await it.ends("TidemarkSourceUnreachable", "TidemarkRestartLoop")


@pytest.mark.full
async def test_a_journal_without_room_a_table_that_stops_and_a_service_that_ends(
    server: MysqlServer, prometheus: Prometheus, tmp_path: Path
) -> None:
    settings = captured(server, tmp_path, server.port, quota_mib=4, keep_mib=1, keep_hours=0)
    few, many = (
        ", ".join(f"({number}, RANDOM_BYTES(1000))" for number in range(count)) for count in (100, 1000)
    )
    async with watched(settings, prometheus, tmp_path) as it:
        reader = JournalReader(settings.journal.path)
        reader.consumers.record_progress("lake", 0)
        # Prometheus has the size of a while ago: by that, more rows would come than fit, and capture would wait.
        while it.service.status(ActorName.JOURNAL_WRITER)["bytes"] < 0.9 * 4 * 2**20:
            server.sql("DELETE FROM shop.t", f"INSERT INTO shop.t VALUES {few}")
            await it.service.caught_up(server)
            await it.service.sealed()
        await it.fires("TidemarkJournalNearQuota")
        server.sql("DELETE FROM shop.t", f"INSERT INTO shop.t VALUES {many}")
        await it.fires("TidemarkJournalFull")
        taking = asyncio.create_task(takes_all(reader))
        try:
            await it.ends("TidemarkJournalFull", "TidemarkJournalNearQuota")
        finally:
            await cancelled(taking)

        server.sql("ALTER TABLE shop.t ENGINE=BLACKHOLE")
        await it.fires("TidemarkTableStopped")
    await it.fires("TidemarkDown")


async def writes(server: MysqlServer) -> None:
    """Transactions for ever, each in a segment of its own."""
    while True:
        # A REPLACE by the same row logs nothing.
        await asyncio.to_thread(server.sql, "REPLACE INTO shop.t VALUES (1, UUID())")
        await asyncio.sleep(0.25)  # so that a segment has one of them


@pytest.mark.full
async def test_files_that_stay_many(server: MysqlServer, prometheus: Prometheus, tmp_path: Path) -> None:
    settings = captured(server, tmp_path, server.port)
    async with watched(settings, prometheus, tmp_path) as it:
        writing = asyncio.create_task(writes(server))
        try:
            await it.fires("TidemarkManyFiles")
        finally:
            await cancelled(writing)
        await it.ends("TidemarkManyFiles")


@pytest.mark.full
async def test_a_lake_that_is_gone(
    server: MysqlServer, spark_settings: SparkSettings, prometheus: Prometheus, tmp_path: Path
) -> None:
    settings = replace(captured(server, tmp_path, server.port), spark=spark_settings)
    lake, away = tmp_path / "lake", tmp_path / "unmounted"
    async with watched(settings, prometheus, tmp_path, Assembly) as it:
        server.sql("INSERT INTO shop.t VALUES (1, '')")
        delivered = 'tidemark_delivered_rows_total{table="shop.t"} > 0'
        await until(lambda: it.prometheus.query(delivered), "the lake has it", WITHIN_S)
        lake.rename(away)
        lake.touch()  # nobody makes folders below it
        server.sql("INSERT INTO shop.t VALUES (2, '')")
        await it.fires("TidemarkLakeStalled")
        lake.unlink()
        away.rename(lake)
        await it.ends("TidemarkLakeStalled")


@pytest.mark.full
async def test_verifications_that_cannot_be_judged(
    server: MysqlServer, spark_settings: SparkSettings, prometheus: Prometheus, tmp_path: Path
) -> None:
    """Each ends as its table's columns change."""
    settings = replace(captured(server, tmp_path, server.port), spark=spark_settings)
    server.sql("INSERT INTO shop.t VALUES (1, '')")
    async with watched(settings, prometheus, tmp_path, Assembly) as it:
        await it.service.execute("s", r"shop\.t")
        ready = 'tidemark_mirror_rebuilding_timestamp_seconds{table="shop.t"} == 0'
        await until(lambda: it.prometheus.query(ready), "its mirror is complete", WITHIN_S)
        await it.service.tell("pause-snapshot", "p")
        for times in range(1, 4):
            await it.service.tell("verify", f"v{times}", r"shop\.t")
            server.sql(f"ALTER TABLE shop.t ADD COLUMN c{times} INT")
            counted = partial(it.prometheus.query, f"tidemark_unjudged_verifications == {times}")
            await until(counted, "it's unjudged", WITHIN_S)
        await it.fires("TidemarkUnverified")
        await it.service.tell("resume-snapshot", "r")
        await it.service.tell("verify", "v", r"shop\.t")
        await it.ends("TidemarkUnverified")


@pytest.mark.full
async def test_a_merge_that_fails_again_and_again(
    server: MysqlServer,
    spark_settings: SparkSettings,
    prometheus: Prometheus,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(maintenance, "REST_S", 1.0)
    settings = replace(captured(server, tmp_path, server.port), spark=spark_settings)
    assert settings.lake is not None
    settings = replace(settings, lake=replace(settings.lake, merge_after_s=1.0))
    mirror, away = tmp_path / "lake" / "shop" / "t" / "mirror", tmp_path / "away"
    away.mkdir()
    server.sql("INSERT INTO shop.t VALUES (1, '')")
    async with watched(settings, prometheus, tmp_path, Assembly) as it:
        await it.service.execute("s", r"shop\.t")
        delivered = 'tidemark_delivered_rows_total{table="shop.t", tier="mirror"} > 0'
        await until(lambda: it.prometheus.query(delivered), "the lake has it", WITHIN_S)
        files = [(file, away / file.name) for file in mirror.rglob("*.parquet")]
        for file, other in files:
            file.rename(other)
        server.sql("UPDATE shop.t SET v = 'x'")
        await it.fires("TidemarkLakeWorkFails")
        assert "TidemarkLakeStalled" not in it.prometheus.firing()
        for file, other in files:
            other.rename(file)
        await until(lambda: it.prometheus.value("tidemark_mirror_pending_rows") == 0, "it's merged", WITHIN_S)
        # Longer than what the rule looks back over, FASTER.
        await it.fires("TidemarkLakeWorkFails", fires=False, within_s=2 * WITHIN_S)
