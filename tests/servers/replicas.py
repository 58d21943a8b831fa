"""Servers that replicate from one another, and capture from one of them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from deploy.toolchain.mysql_server import CAPTURE, FULL_METADATA, GTIDS, MysqlServer
from pipeline.config.settings import ServerAddress, Settings, SnapshotMode
from pipeline.messages.topology import ActorName as Name
from pipeline.schema.table_schema import TableId
from tests.servers.mysql import MysqlFactory
from tests.servers.service import Running, pipeline, running

# The table that `fill` makes, and its rows.
T: Final = TableId("d", "t")
ROWS: Final = 1_000


def replicated(mysql_factory: MysqlFactory) -> tuple[MysqlServer, MysqlServer]:
    """A server and its replica, which applies in parallel."""
    source = mysql_factory({**GTIDS, **FULL_METADATA})
    replica = mysql_factory({**GTIDS, "replica_parallel_workers": "8", "read_only": "ON"})
    account = source.create_capture_user()
    replica.sql(
        f"CHANGE REPLICATION SOURCE TO SOURCE_HOST = '{source.host}', SOURCE_PORT = {source.port},"
        f" SOURCE_USER = '{account.user}', SOURCE_PASSWORD = '{account.password}', SOURCE_AUTO_POSITION = 1,"
        " GET_SOURCE_PUBLIC_KEY = 1",
        "START REPLICA",
    )
    return source, replica


def caught_up(source: MysqlServer, replica: MysqlServer) -> None:
    """Waits until the replica has applied what the source has executed by now."""
    replica.sql(f"SELECT WAIT_FOR_EXECUTED_GTID_SET('{source.executed()}', 60)")


def server(mysql_factory: MysqlFactory, **options: str) -> MysqlServer:
    """A server that may be a primary, and a replica which applies in parallel."""
    return mysql_factory({**GTIDS, **FULL_METADATA, "replica_parallel_workers": "4", **options})


def follow(replica: MysqlServer, primary: MysqlServer) -> None:
    """Lets it replicate from this one, whatever it did before."""
    replica.sql(
        "STOP REPLICA",
        f"CHANGE REPLICATION SOURCE TO SOURCE_HOST = '{primary.host}', SOURCE_PORT = {primary.port},"
        f" SOURCE_USER = '{CAPTURE.user}', SOURCE_PASSWORD = '{CAPTURE.password}', SOURCE_AUTO_POSITION = 1,"
        " GET_SOURCE_PUBLIC_KEY = 1, SOURCE_CONNECT_RETRY = 1",
        "START REPLICA",
        "SET GLOBAL read_only = ON",
    )


def promote(replica: MysqlServer) -> None:
    """Let it be the primary, once it has applied what it had received."""
    replica.sql("STOP REPLICA IO_THREAD")
    [(received,)] = replica.sql(
        "SELECT RECEIVED_TRANSACTION_SET FROM performance_schema.replication_connection_status"
    )
    replica.sql(
        f"SELECT WAIT_FOR_EXECUTED_GTID_SET('{received}', 60)",
        "STOP REPLICA",
        "RESET REPLICA ALL",
        "SET GLOBAL read_only = OFF",
    )


def fill(primary: MysqlServer) -> None:
    """A table with rows, and the user for capture; all of it in the log."""
    rows = ", ".join(f"({key}, 0)" for key in range(ROWS))
    primary.create_capture_user("d")
    primary.sql(
        "CREATE DATABASE d",
        "CREATE TABLE d.t (id INT PRIMARY KEY, v INT)",
        f"INSERT INTO d.t VALUES {rows}",
        "ANALYZE TABLE d.t",
    )


def cluster(mysql_factory: MysqlFactory, *logs: str) -> list[MysqlServer]:
    """A primary and a replica for each of these names of logs, which have caught up."""
    primary = server(mysql_factory)
    fill(primary)
    replicas = [server(mysql_factory, log_bin=log, read_only="ON") for log in logs]
    for replica in replicas:
        follow(replica, primary)
        caught_up(primary, replica)
    return [primary, *replicas]


def listing(folder: Path, first: MysqlServer, *others: MysqlServer, **source: Any) -> Settings:
    """Capture from the first of these, or another one of them; `source` are of its settings."""
    plain = pipeline(first, folder, "d", chunk_rows=25, mode=SnapshotMode.NO_DATA)
    addresses = tuple(ServerAddress(other.host, other.port) for other in others)
    quick = {"failover_after_s": 0.2, **source}
    return replace(plain, source=replace(plain.source, others=addresses, **quick))


def at(service: Running) -> str | None:
    """The server whose log is read, by its UUID."""
    told: str | None = service.status(Name.BINLOG_READER).get("server")
    return told


@asynccontextmanager
async def begun(settings: Settings) -> AsyncIterator[Running]:
    """The service, once its first segment is sealed."""
    async with running(settings) as service:
        await service.begun()
        yield service


async def reached(service: Running, server: MysqlServer) -> None:
    """Until the log is read from this server."""
    await service.until(lambda: at(service) == server.uuid, f"capture is at {server.port}")
