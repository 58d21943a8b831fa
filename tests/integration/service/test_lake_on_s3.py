"""The whole service with its lake in S3: a process, a real MySQL, a real Spark, and a server that speaks S3."""

import asyncio
import random
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from deploy.demo.service import Service
from deploy.toolchain.mysql_server import MysqlServer
from deploy.toolchain.parts import Parts
from pipeline.lake.tables.paths import location
from pipeline.lake.tables.tier import Tier
from pipeline.schema.table_schema import TableId
from tests.servers.duckdb_engine import engine
from tests.servers.lake_oracle import unequal_lake
from tests.servers.proxy import Proxy, Weather
from tests.servers.s3 import S3Lake
from tests.servers.service_process import configuration, delivered, until
from tests.servers.spark import start_quickly

pytestmark = pytest.mark.full

KILLS: Final = 10
# Enough for a batch, or for most of a start.
LONGEST_LIFE_S: Final = 12.0
# Enough for several batches, and for requests to fail for good.
BAD_FOR_S: Final = 20.0

_BUSY: Final = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"


class Store(Proxy):
    """A proxy before a store that can be busy, too: then it answers each request with 503."""

    def __init__(self, leads_to: int) -> None:
        super().__init__(leads_to)
        self.busy = threading.Event()

    async def _link(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self.busy.is_set():
            await super()._link(reader, writer)
            return
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 503 Slow Down\r\nConnection: close\r\nContent-Type: application/xml\r\n")
        writer.write(f"Content-Length: {len(_BUSY)}\r\n\r\n".encode() + _BUSY)
        await writer.drain()
        writer.close()


class House:
    """A service, its configuration, and the table that it captures."""

    def __init__(
        self, folder: Path, mysql: MysqlServer, parts: Parts, database: str, patched: pytest.MonkeyPatch
    ) -> None:
        folder.mkdir(exist_ok=True)
        assert parts.s3 is not None
        self.mysql, self.database, self.orders = mysql, database, TableId(database, "orders")
        self.folder = folder
        start_quickly(patched, parts)
        with_s3 = replace(parts, jars=(*parts.jars, parts.s3))
        path = configuration(folder, mysql, with_s3, database, mysql.create_capture_user(database))
        self.service = Service(path, folder / "journal", folder / "log")
        self._next = 0

    def write(self, rows: int = 20) -> None:
        """Insert rows, change some and delete some."""
        first, self._next = self._next, self._next + rows
        self.mysql.sql(
            *(f"INSERT INTO orders (id, note) VALUES ({id_}, 'n{id_}')" for id_ in range(first, self._next)),
            f"UPDATE orders SET note = 'changed' WHERE id % 3 = {first % 3}",
            f"DELETE FROM orders WHERE id = {first}",
            database=self.database,
        )

    def is_the_source(self, lake: S3Lake) -> None:
        """All is delivered, and another engine than Spark reads the source's rows, and each change once."""
        until(self.service, delivered(self.mysql))
        assert self.service.stop() == 0
        root = lake.copy(self.folder / "copy")
        assert unequal_lake(self.mysql, root, self.orders) == []
        changelog = location(root, self.orders, Tier.CHANGELOG)
        with closing(engine()) as duckdb:
            counted = duckdb.sql(
                f"SELECT count(*), count(DISTINCT (__scn, __ordinal)) FROM delta_scan('file://{changelog}')"
            ).fetchone()
        assert counted is not None
        assert counted[0] == counted[1], "a change is there twice"


@pytest.fixture
def house(
    tmp_path: Path,
    mysql: MysqlServer,
    parts: Parts,
    database: str,
    s3_lake: S3Lake,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[House]:
    mysql.sql("CREATE TABLE orders (id INT PRIMARY KEY, note VARCHAR(20))", database=database)
    monkeypatch.setenv("TIDEMARK__LAKE__PATH", s3_lake.path)
    monkeypatch.setenv("TIDEMARK__LAKE__MERGE_AFTER_S", "2")
    made = House(tmp_path / "house", mysql, parts, database, monkeypatch)
    made.write()
    yield made
    made.service.kill()


def test_from_the_source_to_s3_through_ddl_and_a_restart(
    house: House, s3_lake: S3Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The credentials are those of a profile."""
    profile = tmp_path / "credentials"
    profile.write_text("[lake]\naws_access_key_id = tidemark\naws_secret_access_key = tidemark\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(profile))
    monkeypatch.setenv("AWS_PROFILE", "lake")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    house.service.start()
    house.write()
    until(house.service, delivered(house.mysql))
    house.mysql.sql("ALTER TABLE orders ADD COLUMN n INT, MODIFY id BIGINT", database=house.database)
    house.write()
    until(house.service, delivered(house.mysql))
    assert house.service.stop() == 0
    house.write()
    house.service.start()
    house.write()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "tidemark")  # for the copy
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "tidemark")
    house.is_the_source(s3_lake)


def test_kills_at_random_moments(house: House, s3_lake: S3Lake) -> None:
    some = random.Random(4711)
    for _ in range(KILLS):
        house.service.launch()
        ends = time.monotonic() + some.uniform(0, LONGEST_LIFE_S)
        while time.monotonic() < ends:
            house.write(5)
        house.service.kill()
    house.service.start()
    house.is_the_source(s3_lake)


@contextmanager
def bad(store: Store, weather: Weather | None) -> Iterator[None]:
    """The weather for a while; None: the store is busy."""
    if weather is None:
        store.busy.set()
        store.turn(Weather.RESET)  # ends the connections that there are
        store.turn(None)
    else:
        store.turn(weather)
    yield
    store.busy.clear()
    store.turn(None)


@pytest.mark.parametrize("weather", [*Weather, None])
def test_a_store_that_is_late_slow_gone_or_busy(
    house: House, s3_lake: S3Lake, weather: Weather | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store(int(s3_lake.endpoint.rpartition(":")[2])) as store:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://127.0.0.1:{store.port}")
        house.service.start()
        house.write()
        until(house.service, delivered(house.mysql))
        with bad(store, weather):
            ends = time.monotonic() + BAD_FOR_S
            while time.monotonic() < ends:
                house.write(5)
                time.sleep(0.5)
        house.write()
        house.is_the_source(s3_lake)


def test_a_second_service_on_the_same_lake_ends_by_name(
    house: House, s3_lake: S3Lake, parts: Parts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.service.start()
    until(house.service, delivered(house.mysql))
    monkeypatch.setenv("TIDEMARK__SOURCE__SERVER_ID", "78")
    other = House(tmp_path / "other", house.mysql, parts, house.database, monkeypatch).service
    other.launch()
    assert other.wait(120) == 2
    assert "is fed from another journal" in other.log.read_text().splitlines()[-1]
    house.write()
    house.is_the_source(s3_lake)
