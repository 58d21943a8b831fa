"""The demo's shop with a few thousand rows, and its writer as a load."""

import random
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Final

import pytest

from deploy.demo import shop, writer
from deploy.demo.shop import Size
from deploy.demo.writer import THREADS, Line, Thread
from deploy.toolchain.mysql_server import Account, MysqlServer
from pipeline.schema.table_schema import TableId
from tests.servers.at_work import at_work
from tests.servers.executed import executed
from tests.servers.mysql import shorten_log

__all__ = ["FEW_PER_S", "SIZE", "TABLES", "open_shop", "stocked", "writer_by_hand", "writing"]

SIZE: Final = Size(2_000, 1_200, 300)
# A third of what the writer does by itself: each transaction is captured, read again, and judged.
FEW_PER_S: Final = 100.0
TABLES: Final = tuple(TableId(shop.DATABASE, name) for name in ("orders", "order_items", "customers"))
_WRITER: Final = Account("writer", "writer")


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
    shorten_log(mysql)
    with stocked(mysql) as server:
        yield server


@contextmanager
def writer_by_hand(server: MysqlServer) -> Iterator[Thread]:
    """Runs one thread of the demo's writer, which writes on each call of `transaction()`."""
    with closing(writer._connect(server.host, server.port, _WRITER.user, _WRITER.password)) as connection:
        yield Thread(0, SIZE, connection, random.Random(0))


@contextmanager
def writing(server: MysqlServer, per_s: float = writer.TRANSACTIONS_PER_SECOND) -> Iterator[list[Line]]:
    """Runs the demo's writer, with so many transactions a second; after the context the list has all it committed."""
    tally, before = list[Line](), executed(server)
    with ExitStack() as open_until_done:
        address = (server.host, server.port, _WRITER.user, _WRITER.password)
        connections = [
            open_until_done.enter_context(closing(writer._connect(*address))) for _ in range(THREADS)
        ]
        threads = [
            Thread(i, SIZE, connection, random.Random(i), per_s=per_s)
            for i, connection in enumerate(connections)
        ]
        with at_work([thread.run for thread in threads]):
            yield tally
    tally += [line for thread in threads for line in thread.tally]
    assert executed(server) != before, "nothing was written"
