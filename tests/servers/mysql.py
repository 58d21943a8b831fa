"""Fixtures that start real MySQL servers."""

from collections.abc import Iterator
from contextlib import closing
from itertools import count
from typing import Final

import pytest

from deploy.toolchain import mysql56 as old
from deploy.toolchain.debian import architecture
from deploy.toolchain.mysql import MysqlParts
from deploy.toolchain.mysql_server import (
    FULL_METADATA,
    GTIDS,
    GTIDS_56,
    SMALL_AND_QUICK,
    SMALL_AND_QUICK_56,
    MysqlServer,
)
from deploy.toolchain.parts import Parts, locate
from tests.servers.mysql_lender import Lender, MysqlFactory

__all__ = [
    "MysqlFactory",
    "database",
    "database56",
    "either",
    "module_mysql_factory",
    "mysql",
    "mysql56",
    "mysql56_factory",
    "mysql_factory",
    "mysql_lender",
    "own_mysql",
    "parts",
    "parts56",
    "shorten_log",
]

_numbers = count(1)

# Whoever asks for the log after a GTID has the server read the whole file in which that GTID is.
_LONG_LOG_BYTES: Final = 4 * 1024**2


@pytest.fixture(scope="session")
def parts() -> Parts:
    """The real parts that `make setup` fetched."""
    return locate()


@pytest.fixture(scope="session")
def mysql(parts: Parts, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MysqlServer]:
    """One server for the whole session, with GTIDs and full row metadata. Leave its settings as they are."""
    folder = tmp_path_factory.mktemp("mysql")
    with MysqlServer(parts.mysql, folder, {**SMALL_AND_QUICK, **GTIDS, **FULL_METADATA}) as server:
        yield server


@pytest.fixture(scope="session")
def mysql_lender(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lender]:
    """What lends all servers that are one test's own."""
    with closing(Lender(lambda: tmp_path_factory.mktemp("lent"))) as lender:
        yield lender


@pytest.fixture
def mysql_factory(parts: Parts, mysql_lender: Lender) -> Iterator[MysqlFactory]:
    """Lend servers to one test: empty, small and quick, and else with just the settings that it gives."""
    with mysql_lender.lending(lambda: parts.mysql, SMALL_AND_QUICK) as lend:
        yield lend


@pytest.fixture(scope="module")
def module_mysql_factory(parts: Parts, mysql_lender: Lender) -> Iterator[MysqlFactory]:
    """As `mysql_factory`, for a whole module."""
    with mysql_lender.lending(lambda: parts.mysql, SMALL_AND_QUICK) as lend:
        yield lend


@pytest.fixture(scope="module")
def own_mysql(module_mysql_factory: MysqlFactory) -> MysqlServer:
    """One server for a whole module, as `mysql`, which may be locked, and whose connections may be killed."""
    return module_mysql_factory({**GTIDS, **FULL_METADATA})


@pytest.fixture(scope="session")
def mysql56(parts: Parts, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MysqlServer]:
    """One MySQL 5.6 for the whole session, with GTIDs. Leave its settings as they are."""
    folder = tmp_path_factory.mktemp("mysql56")
    with MysqlServer(parts56(parts), folder, {**SMALL_AND_QUICK_56, **GTIDS_56}) as server:
        yield server


@pytest.fixture
def mysql56_factory(parts: Parts, mysql_lender: Lender) -> Iterator[MysqlFactory]:
    """As `mysql_factory`, for MySQL 5.6."""
    with mysql_lender.lending(lambda: parts56(parts), SMALL_AND_QUICK_56) as lend:
        yield lend


def parts56(parts: Parts) -> MysqlParts:
    """MySQL 5.6; skips the test on a machine that there's none for."""
    if architecture() != old.ARCHITECTURE:
        pytest.skip(f"there is no MySQL 5.6 for {architecture()}")
    assert parts.mysql56 is not None, (
        "MySQL 5.6 isn't here yet: run `make test`, or the toolchain's `setup --tests`"
    )
    return parts.mysql56


@pytest.fixture
def database56(mysql56: MysqlServer) -> Iterator[str]:
    """An empty database of one test's own on the session's MySQL 5.6."""
    yield from _database(mysql56)


@pytest.fixture
def database(mysql: MysqlServer) -> Iterator[str]:
    """An empty database of one test's own on the session's server."""
    yield from _database(mysql)


@pytest.fixture(params=["9.7", "5.6"])
def either(
    request: pytest.FixtureRequest, mysql: MysqlServer, mysql56: MysqlServer
) -> Iterator[tuple[MysqlServer, str]]:
    """The session's server of each version, with an empty database of one test's own."""
    server = mysql56 if request.param == "5.6" else mysql
    for database in _database(server):
        yield server, database


def shorten_log(server: MysqlServer) -> None:
    """Begin a new file of the server's log if the newest has become long."""
    if max(server.data.glob("binlog.[0-9]*")).stat().st_size > _LONG_LOG_BYTES:
        server.rotate_binlog()


def _database(server: MysqlServer) -> Iterator[str]:
    name = f"test_{next(_numbers)}"
    shorten_log(server)
    server.sql(f"CREATE DATABASE `{name}`")
    yield name
    server.sql(f"DROP DATABASE `{name}`")
