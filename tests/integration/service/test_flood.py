"""A flood of half-open and slow connections and of garbage: capture's freshness doesn't notice."""

import asyncio
import json
import os
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from statistics import quantiles
from time import monotonic
from typing import Any, Final

import aiohttp
import pytest

from deploy.demo.service import Service
from deploy.toolchain.cache import REPOSITORY
from deploy.toolchain.mysql_server import MysqlServer
from deploy.toolchain.parts import Parts
from tests.servers.awaiting import until
from tests.servers.service_process import configuration

# How long the source is written to without a flood and with one (s), and how long a connection waits for the first.
CALM_S: Final = 20.0
FLOOD_S: Final = 60.0
EVERY_S: Final = 0.02

HELD: Final = 1_000

# How much larger the median and the 95th percentile may be during the flood.
MOST: Final = 3.0

# The clients share the machine with the service. So the calm before the flood has as many of them, which send nothing.
CALM: Final = ("none",) * 4
FLOOD: Final = ("half-open", "slow", "garbage", "garbage")


@pytest.fixture
def service(
    mysql: MysqlServer, parts: Parts, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Service]:
    """The whole of it; what's measured is capture."""
    monkeypatch.setenv("JAVA_HOME", str(parts.java_home))
    mysql.sql("CREATE TABLE orders (id INT PRIMARY KEY)", database=database)
    config = configuration(tmp_path, mysql, parts, database, mysql.create_capture_user(database))
    service = Service(config, tmp_path / "journal", tmp_path / "log")
    service.start()
    yield service
    service.kill()


class Ages:
    """How long after its commit each row has come out of the journal, in seconds, by its number."""

    def __init__(self) -> None:
        self.committed: dict[int, float] = {}
        self.of: dict[int, float] = {}
        self._paced = threading.Event()

    async def read(self, url: str, follows: asyncio.Event) -> None:
        """Follows the changes over one connection."""
        timeout = aiohttp.ClientTimeout(total=None)
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(f"{url}/changes", params={"since": "now"}) as answer,
        ):
            follows.set()
            async for line in answer.content:
                told = json.loads(line)
                if "row" in told:
                    number = told["row"]["id"]
                    assert number not in self.of, f"{number} came twice"
                    self.of[number] = monotonic() - self.committed[number]

    def write(self, mysql: MysqlServer, database: str, first: int, seconds: float) -> int:
        """Commits row after row; returns the number after the last."""
        number, ends = first, monotonic() + seconds
        with closing(mysql.connect(database=database)) as connection, connection.cursor() as cursor:
            while (now := monotonic()) < ends:
                self.committed[number] = now
                cursor.execute("INSERT INTO orders VALUES (%s)", (number,))
                number += 1
                self._paced.wait(max(0.0, now + EVERY_S - monotonic()))
        return number

    async def figures(self, first: int, end: int) -> dict[str, float]:
        """The median and the 95th percentile of these rows in milliseconds, once all have come."""
        await until(lambda: all(number in self.of for number in range(first, end)), "all rows have come")
        cuts = quantiles([1000 * self.of[number] for number in range(first, end)], n=20)
        return {"p50": cuts[9], "p95": cuts[18]}


def cpu_seconds(pid: int) -> float:
    """What a process has used by now, without its children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def flooded(kind: str, port: int, seconds: float) -> Counter[str]:
    arguments = ("-m", "tests.servers.flood", kind, str(port), str(seconds), str(HELD))
    process = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, cwd=REPOSITORY, stdout=asyncio.subprocess.PIPE
    )
    told, _ = await process.communicate()
    assert process.returncode == 0
    return Counter(json.loads(told))


@pytest.mark.full
async def test_capture_does_not_notice_a_flood(service: Service, mysql: MysqlServer, database: str) -> None:
    url = service.url
    port = int(url.rpartition(":")[2])
    ages, follows = Ages(), asyncio.Event()
    reading = asyncio.create_task(ages.read(url, follows))

    async def measure(kinds: tuple[str, ...], first: int, seconds: float) -> tuple[int, dict[str, Any]]:
        floods = asyncio.gather(*(flooded(kind, port, seconds) for kind in kinds))
        used = cpu_seconds(service.pid)
        end = await asyncio.to_thread(ages.write, mysql, database, first, seconds)
        found: dict[str, Any] = dict(await ages.figures(first, end))
        found["cores"] = (cpu_seconds(service.pid) - used) / seconds
        found["clients"] = [dict(told) for told in await floods]
        return end, found

    try:
        await asyncio.wait({asyncio.create_task(follows.wait()), reading}, return_when="FIRST_COMPLETED")
        end, calm = await measure(CALM, 0, CALM_S)
        _, during = await measure(FLOOD, end, FLOOD_S)
        sys.stdout.write(json.dumps({"calm": calm, "during": during}))
        assert not reading.done(), "the follower's connection ended"
        assert all(during[name] <= MOST * calm[name] for name in ("p50", "p95")), (calm, during)
        assert min(of["connections"] for of in during["clients"][:2]) >= HELD
        assert min(of["requests"] for of in during["clients"][2:]) > 0
        assert service.exit_code is None
        assert "restarting" not in service.log.read_text()
    finally:
        reading.cancel()
        await asyncio.wait({reading})
