"""Ten small sources on one machine: ten services that share one Spark Connect server, and one that is killed again and
again while the others don't notice.
"""

import itertools
import random
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from deploy.demo.service import Service
from deploy.toolchain.mysql_server import MysqlServer
from pipeline import metrics as catalogue
from pipeline.lake.tables.paths import location
from pipeline.lake.tables.tier import Tier
from pipeline.schema.table_schema import TableId
from tests.servers.at_work import at_work
from tests.servers.duckdb_engine import engine
from tests.servers.lake_oracle import unequal_lake
from tests.servers.service_process import delivered, until
from tests.servers.spark_connect import SparkConnectServer, fleet_spark

__all__ = ["fleet_spark"]

pytestmark = pytest.mark.full

SOURCES: Final = 10
# The least in each of the turns in which the others are watched. Before each one they are watched without kills.
KILLS: Final = 4
TURNS: Final = 2
ROWS: Final = 200
# Of all sources together. Each seals its own segments, which costs more than a transaction.
TRANSACTIONS_PER_S: Final = 4.0
# Batches of each service in a turn, and in what comes before it.
COUNTED: Final = 2
BATCHES_WITHIN_S: Final = 900.0
# Enough for a batch. A start takes longer.
LONGEST_LIFE_S: Final = 4.0
# Each of ten services makes two tables, all on one Spark that has just started.
SETTLED_WITHIN_S: Final = 900.0

# What the documentation promises of a service that has nothing to do (MiB), and of the others' mean freshness: how many
# times what it is without kills. A start takes one of the processors that Spark has otherwise.
MOST_IDLE_MIB: Final = 250.0
MOST_TIMES: Final = 3.0


@dataclass(frozen=True, slots=True)
class Memory:
    """What a process and its children have in memory (MiB): of its own and its part of what is shared, and all."""

    pss: float
    rss: float


@dataclass(frozen=True, slots=True)
class Freshness:
    """What a service's histogram of freshness has counted: batches, and the sum over the oldest commit of each (s)."""

    batches: float
    seconds: float

    def __add__(self, other: "Freshness") -> "Freshness":
        """Of both."""
        return Freshness(self.batches + other.batches, self.seconds + other.seconds)

    def since(self, before: "Freshness") -> "Freshness":
        """What has come since then."""
        return Freshness(self.batches - before.batches, self.seconds - before.seconds)

    @property
    def mean(self) -> float:
        """Of the oldest commit of each batch (s)."""
        return self.seconds / self.batches


class Source:
    """A database, and the service that captures it."""

    def __init__(self, number: int, mysql: MysqlServer, folder: Path, connect: SparkConnectServer) -> None:
        self.database = f"fleet_{number}"
        self.table = TableId(self.database, "orders")
        self.lake = folder / "lake"
        self._mysql = mysql
        mysql.sql(f"CREATE DATABASE {self.database}")
        mysql.sql("CREATE TABLE orders (id INT PRIMARY KEY, note VARCHAR(20))", database=self.database)
        rows = ", ".join(f"({-id_}, 'old')" for id_ in range(1, ROWS + 1))
        mysql.sql(f"INSERT INTO orders VALUES {rows}", database=self.database)
        home = folder / self.database
        home.mkdir()
        account = mysql.create_capture_user(self.database)
        (home / "password").write_text(account.password)
        (home / "password").chmod(0o600)
        config = home / "tidemark.toml"
        config.write_text(f"""name = "{self.database}"
tables = ["{self.database}\\\\..*"]
journal = {{ path = "journal" }}
lake = {{ path = "{self.lake}" }}
spark = {{ master = "{connect.settings.master}" }}

[source]
host = "{mysql.host}"
port = {mysql.port}
user = "{account.user}"
password_file = "password"
server_id = {7001 + number}
tls = {{ mode = "disabled" }}
""")
        self.service = Service(config, home / "journal", home / "log")

    def write(self, number: int) -> None:
        """A transaction."""
        some = random.Random(number)
        with (
            closing(self._mysql.connect(database=self.database)) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute("BEGIN")
            cursor.execute(f"INSERT INTO orders VALUES ({number}, 'n{number}')")
            cursor.execute(f"UPDATE orders SET note = 'u{number}' WHERE id = {-some.randint(1, ROWS)}")
            cursor.execute(f"DELETE FROM orders WHERE id = {number - 100 * SOURCES}")
            cursor.execute("COMMIT")

    def freshness(self) -> Freshness:
        """By the service's own metric."""
        name = catalogue.FRESHNESS.name
        return Freshness(self._total(f"{name}_count"), self._total(f"{name}_sum"))

    def restarts(self) -> float:
        """How often an actor of the service has been started again."""
        return self._total(catalogue.RESTARTS.name)

    def _total(self, name: str) -> float:
        # Prometheus' own parser takes so long for all of it that the fleet would notice.
        lines = re.findall(rf"^{name}(?:{{.*}})? (\S+)$", self.service.metrics(), re.MULTILINE)
        return sum(map(float, lines))

    def differences(self) -> list[str]:
        """Where the lake isn't the source, or has a change twice."""
        found = unequal_lake(self._mysql, str(self.lake), self.table)
        changelog = location(str(self.lake), self.table, Tier.CHANGELOG)
        with closing(engine()) as duckdb:
            counted = duckdb.sql(
                f"SELECT count(*), count(DISTINCT (__scn, __ordinal)) FROM delta_scan('file://{changelog}')"
            ).fetchone()
        assert counted is not None
        return found + ([] if counted[0] == counted[1] else [f"{self.table}: {counted} changes"])


def processes(pid: int) -> list[int]:
    """The process and all that it has started."""
    children = [*Path(f"/proc/{pid}/task").glob("*/children")]
    below = [int(child) for each in children for child in each.read_text().split()]
    return [pid, *(found for child in below for found in processes(child))]


def memory(pid: int) -> Memory:
    lines = [
        line.split()
        for each in processes(pid)
        for line in Path(f"/proc/{each}/smaps_rollup").read_text().splitlines()
    ]
    pss, rss = (sum(int(line[1]) for line in lines if line[0] == name) / 1024 for name in ("Pss:", "Rss:"))
    return Memory(pss, rss)


def write_all(sources: Sequence[Source], stop: threading.Event) -> int:
    """One transaction after the other, to each source in turn; how many."""
    for number in itertools.count(1):
        sources[number % len(sources)].write(number)
        if stop.wait(1 / TRANSACTIONS_PER_S):
            return number
    raise AssertionError


def settle(sources: Sequence[Source], mysql: MysqlServer) -> None:
    """Waits until each lake has all that its source has committed."""
    holds = delivered(mysql)
    for each in sources:
        until(each.service, holds, SETTLED_WITHIN_S)


@pytest.fixture
def fleet(
    mysql: MysqlServer, fleet_spark: SparkConnectServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[Source]]:
    monkeypatch.delenv("JAVA_HOME", raising=False)  # none of them starts a Java
    sources = [Source(number, mysql, tmp_path, fleet_spark) for number in range(SOURCES)]
    for each in sources:
        each.service.launch()
    yield sources
    for each in sources:
        each.service.kill()
        mysql.sql(f"DROP DATABASE {each.database}")


def watched(sources: Sequence[Source]) -> list[Freshness]:
    """The freshness of each service from now on, until each has had enough batches."""
    before = [each.freshness() for each in sources]
    deadline = time.monotonic() + BATCHES_WITHIN_S
    for each, first in zip(sources, before, strict=True):
        while each.freshness().since(first).batches < COUNTED:
            assert time.monotonic() < deadline, f"{each.database}: {each.freshness()}, and before {first}"
            time.sleep(0.5)
    return [each.freshness().since(first) for each, first in zip(sources, before, strict=True)]


def added(some: Sequence[Freshness], more: Sequence[Freshness]) -> list[Freshness]:
    """Of each service, that of both."""
    return [one + another for one, another in zip(some, more, strict=True)]


def kill_again_and_again(service: Service, some: random.Random, stop: threading.Event) -> int:
    """At random moments of a start, and of the first batches after one; how often. The last kill leaves it down."""
    for number in itertools.count(1):
        service.kill()
        if stop.is_set() and number >= KILLS:
            return number
        service.launch()
        if number % 2:
            service.await_ready()
        # Nothing says when a kill would find most under way.
        stop.wait(some.uniform(0, LONGEST_LIFE_S))
    raise AssertionError


def test_nine_services_do_not_notice_that_one_is_killed_again_and_again(
    fleet: list[Source], mysql: MysqlServer, record_testsuite_property: Callable[[str, object], None]
) -> None:
    for each in fleet:
        each.service.await_ready()
    settle(fleet, mysql)
    assert [each.service.pid for each in fleet if len(processes(each.service.pid)) > 1] == []  # no JVM
    idle = [memory(each.service.pid) for each in fleet]
    victim, *others = fleet
    pids = [each.service.pid for each in others]
    some = random.Random(4711)
    without = with_kills = [Freshness(0, 0)] * len(others)
    with at_work([lambda stop: write_all(fleet, stop)]):
        for _ in range(TURNS):
            without = added(without, watched(others))
            with at_work([partial(kill_again_and_again, victim.service, some)]) as kills:
                with_kills = added(with_kills, watched(others))
            victim.service.start()  # here, since a service ends with the thread that starts it
            record_testsuite_property("kills", kills)
    settle(fleet, mysql)
    told = [
        f"{source.database}: {quiet.mean:.2f} s without kills, {noisy.mean:.2f} s with them"
        for source, quiet, noisy in zip(others, without, with_kills, strict=True)
    ]
    record_testsuite_property("freshness", told)
    record_testsuite_property("idle", idle)
    assert [each.service.pid for each in others] == pids
    assert [each.restarts() for each in others] == [0] * len(others)
    with ThreadPoolExecutor(len(fleet)) as stopping:
        assert [*stopping.map(lambda each: each.service.stop(), fleet)] == [0] * len(fleet)
    assert [found for each in fleet for found in each.differences()] == []
    usual = sum(without, Freshness(0, 0)).mean
    assert max(each.mean for each in with_kills) <= MOST_TIMES * usual, told
    assert max(each.pss for each in idle) <= MOST_IDLE_MIB, idle
