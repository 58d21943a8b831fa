"""Many readers of one relay each have each change once, though they stall or die and the primary changes."""

import asyncio
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

import aiohttp
import pytest

from actors.source import failover
from deploy.toolchain.mysql_server import MysqlServer
from pipeline.config.settings import HttpSettings
from pipeline.source import failover as judgement
from tests.servers.awaiting import WITHIN_S
from tests.servers.mysql import MysqlFactory
from tests.servers.replicas import begun, caught_up, cluster, listing, promote, reached
from tests.servers.web import Web, web

HALF = 150  # transactions before the primary goes, and after
LAST = 2 * HALF


def rows_of(transaction: int) -> list[tuple[int, int]]:
    """The rows of a transaction, in their order: its number, and a key."""
    return [(transaction, 10 * transaction), (transaction, 10 * transaction + 1)]


def write(server: MysqlServer, first: int, last: int) -> None:
    """Transactions with two rows each, with as many bytes as fill sockets."""
    for number in range(first, last + 1):
        values = ", ".join(f"({key}, {n}, REPEAT('x', 8000))" for n, key in rows_of(number))
        server.sql(f"INSERT INTO d.wide VALUES {values}")


@dataclass
class Reader:
    """One with a checkpoint, and the rows that it has by then."""

    since: str
    rows: list[tuple[int, int]] = field(default_factory=list)

    async def read(self, url: str, lines: int = 1 << 30, held: asyncio.Event | None = None) -> bool:
        """Reads until the last transaction has come (True), or so many lines and a checkpoint (False).

        With `held` it takes nothing after the first lines until that is set.
        """
        come, pending = 0, list[tuple[int, int]]()
        async with (
            aiohttp.ClientSession(read_bufsize=1 << 15) as session,
            session.get(f"{url}/changes", params={"since": self.since, "tables": "d.wide"}) as answer,
        ):
            assert answer.status == 200, await answer.text()
            async for line in answer.content:
                come += 1
                if held is not None and come == 3:
                    await held.wait()
                told = json.loads(line)
                if "checkpoint" not in told:
                    pending.append((told["row"]["n"], told["row"]["id"]))
                    continue
                self.since, self.rows, pending = told["checkpoint"], self.rows + pending, []
                if self.rows and self.rows[-1][0] == LAST:
                    return True
                if come >= lines:
                    return False
        raise AssertionError("the stream ended")


async def killed_again_and_again(reader: Reader, url: str, some: random.Random) -> None:
    while not await reader.read(url, lines=some.randint(60, 240)):
        pass


async def switching(reader: Reader, url: str, other: str, has_failed_over: asyncio.Event) -> None:
    """Goes to another relay, with another journal, by the GTID set of its checkpoint."""
    assert not await reader.read(url, lines=20)
    await has_failed_over.wait()
    async with aiohttp.ClientSession() as session:
        async with session.get(f"{url}/translate", params={"since": reader.since}) as answer:
            reader.since = (await answer.json())["gtid_set"]
        wanted = {"gtid_set": reader.since, "through": "journal"}
        async with session.get(f"{other}/applied", params=wanted) as answer:
            assert answer.status == 200, await answer.text()
    assert await reader.read(other)


@dataclass
class Crowd:
    """The readers, and what they wait for."""

    some: random.Random
    held: asyncio.Event = field(default_factory=asyncio.Event)
    has_failed_over: asyncio.Event = field(default_factory=asyncio.Event)
    readers: list[Reader] = field(default_factory=list)
    tasks: list[asyncio.Task[object]] = field(default_factory=list)

    def begin(self, count: int, relay: Web, other: Web, places: list[str]) -> None:
        for number in range(count):
            reader = Reader(self.some.choice(places))
            self.readers.append(reader)
            self.tasks.append(asyncio.create_task(self._way(number, reader, relay, other)))

    async def _way(self, number: int, reader: Reader, relay: Web, other: Web) -> None:
        if number == 0:
            await switching(reader, relay.url, other.url, self.has_failed_over)
        elif number % 4 == 1:
            await killed_again_and_again(reader, relay.url, self.some)
        else:
            assert await reader.read(relay.url, held=self.held if number % 4 == 2 else None)

    def untrue(self) -> Iterator[str]:
        """What a reader hasn't, or has twice, or out of order, or in parts."""
        for number, reader in enumerate(self.readers):
            first = reader.rows[0][0]
            if reader.rows != [row for n in range(first, LAST + 1) for row in rows_of(n)]:
                gaps = [(a, b) for a, b in pairwise(reader.rows) if not a < b or b[0] > a[0] + 1]
                yield f"{number}: from {first}, {len(reader.rows)} rows, {gaps[:3]}"


@pytest.mark.parametrize("readers", [10, pytest.param(100, marks=pytest.mark.full)])
async def test_each_of_many_readers_has_each_change_once_over_a_failover(
    mysql_factory: MysqlFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, readers: int
) -> None:
    monkeypatch.setattr(failover, "SERVERS_EVERY_S", 0.05)
    monkeypatch.setattr(judgement, "COMMITTING_S", 0.2)
    primary, second = cluster(mysql_factory, "second")
    primary.sql("CREATE TABLE d.wide (id INT PRIMARY KEY, n INT, pad TEXT)")
    caught_up(primary, second)
    crowd = Crowd(random.Random(7))
    ours = replace(listing(tmp_path / "relay", primary, second), lake=None)
    # The replica has the account already; nothing else may be written there.
    there = replace(ours.source, host=second.host, port=second.port, others=())
    journal = replace(ours.journal, path=str(tmp_path / "other" / "journal"))
    others = replace(ours, source=there, journal=journal)
    async with (
        begun(ours) as service,
        begun(others) as another,
        web(service, HttpSettings(), tmp_path / "relay") as relay,
        web(another, HttpSettings(), tmp_path / "other") as other,
    ):
        await asyncio.to_thread(write, primary, 1, HALF // 2)
        middle = primary.executed()
        await asyncio.to_thread(write, primary, HALF // 2 + 1, HALF - 10)
        await service.caught_up(primary)
        await service.sealed()  # a relay refuses a place that its journal doesn't have yet
        crowd.begin(
            readers, relay, other, ["earliest", "0", "20", str(HALF // 2), middle, primary.executed()]
        )
        await asyncio.to_thread(write, primary, HALF - 9, HALF)
        caught_up(primary, second)
        primary.stop()
        promote(second)
        await reached(service, second)
        crowd.has_failed_over.set()
        await asyncio.to_thread(write, second, HALF + 1, LAST - 10)
        crowd.held.set()
        await asyncio.to_thread(write, second, LAST - 9, LAST)
        async with asyncio.timeout(3 * WITHIN_S):
            await asyncio.gather(*crowd.tasks)
        await service.stop()
        await another.stop()
    assert list(crowd.untrue()) == []
    assert {reader.rows[0][0] for reader in crowd.readers} >= {1}
