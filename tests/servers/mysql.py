"""Fixtures that start real MySQL servers."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import pytest

from deploy.toolchain.mysql_server import FULL_METADATA, GTIDS, SMALL_AND_QUICK, MysqlServer
from deploy.toolchain.parts import Parts, locate

__all__ = ["database", "mysql", "mysql_factory", "parts"]

MysqlFactory = Callable[[Mapping[str, str]], MysqlServer]

_numbers = count(1)


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


@pytest.fixture
def mysql_factory(parts: Parts, tmp_path: Path) -> Iterator[MysqlFactory]:
    """Start servers of one test's own: small and quick, and else with just the settings that it gives."""
    with ExitStack() as servers:

        def start(options: Mapping[str, str]) -> MysqlServer:
            folder = tmp_path / f"mysql-{next(_numbers)}"
            return servers.enter_context(MysqlServer(parts.mysql, folder, {**SMALL_AND_QUICK, **options}))

        yield start


@pytest.fixture
def database(mysql: MysqlServer) -> Iterator[str]:
    """An empty database of one test's own on the session's server."""
    name = f"test_{next(_numbers)}"
    mysql.sql(f"CREATE DATABASE `{name}`")
    yield name
    mysql.sql(f"DROP DATABASE `{name}`")
