"""The reports on the lag after a real source whose log is held back."""

import asyncio
import math
import re
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from pymysql.cursors import DictCursor

from actors.status import lag_watch
from actors.status.lag_watch import LagWatch
from deploy.toolchain.mysql_server import FULL_METADATA, GTIDS, GTIDS_56, MysqlServer
from pipeline import metrics as catalogue
from pipeline.metrics import Gauge
from tests.servers.awaiting import until
from tests.servers.delay import HELD, DelayedLog
from tests.servers.mysql import MysqlFactory
from tests.servers.replicas import caught_up, follow
from tests.servers.service import Running, pipeline, running
from tests.servers.source import connected

KEPT_S = 5000


@pytest.fixture(autouse=True)
def _look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lag_watch, "LAG_EVERY_S", 0.05)


@pytest.fixture
def server(mysql_factory: MysqlFactory) -> MysqlServer:
    server = mysql_factory({**GTIDS, **FULL_METADATA})
    server.sql(
        f"SET GLOBAL binlog_expire_logs_seconds = {KEPT_S}, general_log = ON",
        "CREATE DATABASE shop",
        "CREATE TABLE shop.t (a INT PRIMARY KEY)",
    )
    return server


@pytest.fixture
def proxy(server: MysqlServer) -> Iterator[DelayedLog]:
    with DelayedLog(server.port) as proxy:
        yield proxy


@asynccontextmanager
async def watched(proxy: DelayedLog, server: MysqlServer, folder: Path) -> AsyncIterator[Running]:
    """Runs the service, whose source is behind the proxy, and a watch."""
    settings = pipeline(server, folder, "shop")
    source = replace(settings.source, port=proxy.port, read_timeout_s=120.0)
    async with running(replace(settings, source=source)) as service:
        await service.begun()
        watch = LagWatch(source, service.supervisor.actors, service.assembly.metrics)
        looking = asyncio.create_task(watch.run())
        try:
            yield service
        finally:
            looking.cancel()
            with suppress(asyncio.CancelledError):
                await looking


def told(service: Running, gauge: Gauge) -> float:
    return service.assembly.metrics.value(gauge)


async def test_what_is_behind_is_told_in_transactions_and_bytes_and_when_it_may_go(
    server: MysqlServer, proxy: DelayedLog, tmp_path: Path
) -> None:
    async with watched(proxy, server, tmp_path) as service:
        server.sql("INSERT INTO shop.t VALUES (0)")
        await service.caught_up(server)
        await service.until(lambda: told(service, catalogue.LAG_TRANSACTIONS) == 0, "nothing is behind")
        assert told(service, catalogue.SOURCE_UP) == 1
        await service.until(
            lambda: told(service, catalogue.PURGE) > time.time() + KEPT_S - 30, "it's kept from now on"
        )
        read = told(service, catalogue.SOURCE_COMMIT)
        proxy.delay_s = HELD
        place = service.status()["stream"]
        server.sql(
            "INSERT INTO shop.t VALUES (1)",
            "FLUSH BINARY LOGS",
            "INSERT INTO shop.t VALUES (2)",
            "INSERT INTO shop.t VALUES (3)",
        )
        await service.until(lambda: told(service, catalogue.LAG_TRANSACTIONS) == 3, "three are behind")
        (_, before, *_), (_, after, *_) = server.sql("SHOW BINARY LOGS")[-2:]
        behind = int(before) - int(place.rpartition(":")[2]) + int(after)
        await service.until(
            lambda: told(service, catalogue.LAG_BYTES) == behind, f"{behind} bytes are behind"
        )
        assert told(service, catalogue.PURGE) == pytest.approx(read + KEPT_S)
        server.sql("SET GLOBAL binlog_expire_logs_seconds = 0")
        await service.until(lambda: told(service, catalogue.PURGE) == math.inf, "nothing is purged")
        proxy.delay_s = 0
        await service.until(lambda: told(service, catalogue.LAG_TRANSACTIONS) == 0, "it has caught up")
    logged = [each for each in server.logged() if each.kind == "Query"]
    (ours,) = {each.connection for each in logged if each.text.startswith("SHOW GLOBAL VARIABLES WHERE")} - {
        each.connection for each in logged if "binlog_format" in each.text
    }
    asked = [each.text for each in logged if each.connection == ours]
    reads = re.compile(r"(/\*!\d+ )?(SHOW|SELECT|SET SESSION|SET NAMES) ")
    assert [text for text in asked if not reads.match(text)] == []
    assert "SHOW BINARY LOGS" in asked


async def test_the_lag_is_none_once_nothing_is_left_to_read(
    server: MysqlServer, proxy: DelayedLog, tmp_path: Path
) -> None:
    async with watched(proxy, server, tmp_path) as service:
        server.sql("INSERT INTO shop.t VALUES (0)")
        await service.caught_up(server)
        assert told(service, catalogue.SOURCE_COMMIT) > 0
        await service.until(lambda: told(service, catalogue.SOURCE_LAG) == 0, "it has caught up")


async def test_a_source_that_does_not_replicate_is_told_of(
    server: MysqlServer, proxy: DelayedLog, tmp_path: Path
) -> None:
    """Its log gets nothing more, and it sends heartbeats as before."""

    def lags(service: Running, lag_s: float) -> bool:
        return told(service, catalogue.REPLICATION_LAG) == lag_s

    async with watched(proxy, server, tmp_path) as service:
        await service.until(lambda: lags(service, 0), "it's no replica")
        server.sql(
            "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = 1, SOURCE_USER = 'nobody'",
            "START REPLICA",
        )
        await service.until(lambda: lags(service, math.inf), "it receives nothing")
        server.sql("STOP REPLICA")
        await service.until(lambda: lags(service, 0), "it has taken over")
        server.sql("SET GLOBAL read_only = ON")
        await service.until(lambda: lags(service, math.inf), "it takes no writes")
        server.sql("RESET REPLICA ALL")
        await service.until(lambda: lags(service, 0), "it's no replica any more")


async def test_a_replica_that_cannot_apply_a_change_is_told_of(mysql_factory: MysqlFactory) -> None:
    primary, replica = (mysql_factory(GTIDS) for _ in range(2))
    primary.create_capture_user()
    follow(replica, primary)
    caught_up(primary, replica)

    def behind() -> tuple[str, int | None]:
        with closing(replica.connect()) as connection, connection.cursor(DictCursor) as cursor:
            cursor.execute("SHOW REPLICA STATUS")
            [told] = cursor.fetchall()
            return told["Replica_SQL_Running"], told["Seconds_Behind_Source"]

    async with connected(replica) as source:
        await until(lambda: behind() == ("Yes", 0), "it has caught up")
        assert await source.replication_lag_s() == 0
        replica.sql("CREATE DATABASE d")
        primary.sql("CREATE DATABASE d")
        await until(lambda: behind() == ("No", None), "it applies nothing")
        assert await source.replication_lag_s() == math.inf


async def test_an_old_replica_that_does_not_receive_is_told_of(mysql56_factory: MysqlFactory) -> None:
    server = mysql56_factory(GTIDS_56)
    async with connected(server) as source:
        assert await source.replication_lag_s() == 0
        server.sql(
            "CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = 1, MASTER_USER = 'nobody'",
            "START SLAVE",
        )
        assert await source.replication_lag_s() == math.inf
        server.sql("STOP SLAVE", "RESET SLAVE ALL")
        assert await source.replication_lag_s() == 0


async def test_a_source_that_does_not_answer_is_told_of(
    server: MysqlServer, proxy: DelayedLog, tmp_path: Path
) -> None:
    async with watched(proxy, server, tmp_path) as service:
        await service.until(lambda: told(service, catalogue.SOURCE_UP) == 1, "it answers")
        server.kill()
        await service.until(lambda: told(service, catalogue.SOURCE_UP) == 0, "it doesn't")
        server.start()
        await service.until(lambda: told(service, catalogue.SOURCE_UP) == 1, "it answers again")
