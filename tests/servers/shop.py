"""The demo's shop with a few thousand rows, and its writer as a load."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from deploy.demo import shop
from deploy.demo.shop import Size
from deploy.toolchain.mysql_server import Account, MysqlServer
from pipeline.schema import TableId

__all__ = ["SIZE", "TABLES", "open_shop", "stocked", "writing"]

SIZE: Final = Size(2_000, 1_200, 300)
TABLES: Final = tuple(TableId(shop.DATABASE, name) for name in ("orders", "order_items", "customers"))
_WRITER: Final = Account("writer", "writer")
_ENDS_WITHIN_S: Final = 30.0


@contextmanager
def stocked(server: MysqlServer) -> Iterator[MysqlServer]:
    """The shop on this server, for a while."""
    shop.fill(server, SIZE)
    try:
        server.sql(
            f"CREATE USER IF NOT EXISTS '{_WRITER.user}'@'%' IDENTIFIED BY '{_WRITER.password}'",
            f"GRANT SELECT, INSERT, UPDATE, DELETE ON {shop.DATABASE}.* TO '{_WRITER.user}'@'%'",
        )
        yield server
    finally:
        server.sql(f"DROP DATABASE {shop.DATABASE}")


@pytest.fixture
def open_shop(mysql: MysqlServer) -> Iterator[MysqlServer]:
    """The session's server with the shop on it."""
    with stocked(mysql) as server:
        yield server


@contextmanager
def writing(server: MysqlServer, tally: Path) -> Iterator[None]:
    """The demo's writer at work; behind the context `tally` holds all that it committed."""
    sizes = map(str, (SIZE.orders, SIZE.order_items, SIZE.customers))
    address = (server.host, str(server.port), _WRITER.user, _WRITER.password)
    command = [sys.executable, "-m", "deploy.demo.writer", *address, str(tally), *sizes]
    before = server.executed()
    with subprocess.Popen(command) as process:
        try:
            while server.executed() == before:
                assert process.poll() is None, "the writer ended by itself"
            yield
            assert process.poll() is None, "the writer ended by itself"
            process.terminate()
            assert process.wait(_ENDS_WITHIN_S) == 0
        finally:
            process.kill()
