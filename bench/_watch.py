"""What a service takes while it follows changes, and how old these are when they can be read.

The age of every sampled change of that time counts, also where the lake has fallen behind: nothing is told before the
lake has all of them, or the longest wait is over.
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager
from multiprocessing import get_context
from pathlib import Path
from statistics import mean
from typing import Final

from actors.lake.live_view import live_view
from bench._commits import plain_spark
from bench._growth import Measured, Quantity
from bench._logs import DATABASE
from bench._processes import processor_s, resident_mib
from bench._report import say
from bench._service import quantile
from bench._tables import Service
from deploy.toolchain.mysql_server import MysqlServer
from deploy.toolchain.parts import Parts
from pipeline.schema.table_schema import TableId

P50: Final = Quantity("commit to live view", "p50", "s")
P99: Final = Quantity("commit to live view", "p99", "s")

_LOOK_EVERY_S: Final = 0.05
# After these nobody waits any longer.
LONGEST_START_S: Final = 600.0
LONGEST_STOP_S: Final = 300.0
_LONGEST_WAIT_S: Final = 300.0


def watched(
    mysql: MysqlServer,
    service: Service,
    writing: AbstractContextManager[None],
    watch_s: float,
    beside: Mapping[str, int] | None = None,
) -> Measured:
    """Returns what came of so many seconds of writing, until the lake has all of it. `beside`: processes whose
    processor time is told too.
    """
    # The service writes what it has seen twice a second.
    time.sleep(1.0)
    before = service.seen()
    assert before.jvm is not None
    pids = {"Python": service.pid, "the JVM": before.jvm}
    every = pids | dict(beside or {})
    began, used = time.monotonic(), {who: processor_s(pid) for who, pid in every.items()}
    with writing:
        time.sleep(watch_s)
    took = time.monotonic() - began
    cores = {who: (processor_s(pid) - used[who]) / took for who, pid in every.items()}
    meanwhile = service.seen()
    executed, last = mysql.executed(), time.monotonic()
    until(lambda: service.has(executed), service, _LONGEST_WAIT_S, "the lake hasn't got all changes")
    behind_s = time.monotonic() - last
    time.sleep(1.0)
    after = service.seen()
    ages = after.freshness[len(before.freshness) :]
    values = {
        P50: quantile(ages, 0.5),
        P99: quantile(ages, 0.99),
        Quantity("until the lake had the last one", "", "s"): behind_s,
    }
    for title, unit, now, then in (
        ("files", "1/s", meanwhile.files, before.files),
        ("bytes", "MiB/s", meanwhile.mib, before.mib),
    ):
        values |= {Quantity(title, where, unit): (now[where] - then[where]) / took for where in now}
    values |= {Quantity("busy cores", who, ""): share for who, share in cores.items()}
    values |= {Quantity("memory", who, "MiB"): resident_mib(pid) for who, pid in pids.items()}
    if merges := after.merges_s[len(before.merges_s) :]:
        values[Quantity("a merge", "", "s")] = mean(merges)
    say(f"  {'; '.join(f'{quantity}: {value:.3g}' for quantity, value in values.items())}")
    return values


def ready_after(service: Service) -> float:
    """Waits until every table can be read. Returns how long (s) that took since the service's start."""
    until(lambda: service.seen().readable is not None, service, LONGEST_START_S)
    readable = service.seen().readable
    assert readable is not None
    return readable - service.began


def until(told: Callable[[], bool], service: Service, within_s: float, what: str = "not in time") -> None:
    """Waits for it. Raises AssertionError if it takes longer, or if the service ends."""
    deadline = time.monotonic() + within_s
    while not told():
        assert time.monotonic() < deadline, f"{what} within {within_s:g} s"
        service.seen()
        time.sleep(_LOOK_EVERY_S)


def check(parts: Parts, mysql: MysqlServer, folder: str, column: str, tables: Sequence[str]) -> None:
    """Compares the live views of these tables with the source: their rows, and the sum over a column."""
    there = [
        tuple(map(int, mysql.sql(f"SELECT COUNT(*), SUM({column}) FROM {DATABASE}.{table}")[0]))
        for table in tables
    ]
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        found = process.submit(_read, parts, folder, column, tables).result()
    assert found == there, list(zip(tables, found, there, strict=True))


def _read(parts: Parts, folder: str, column: str, tables: Sequence[str]) -> list[tuple[int, int]]:
    os.environ["JAVA_HOME"] = str(parts.java_home)
    with plain_spark(parts, Path(folder) / "plain") as spark:
        found = []
        for table in tables:
            view = live_view(spark.session, f"{folder}/lake", TableId(DATABASE, table))
            row = view.selectExpr("count(*)", f"sum({column})").first()
            assert row is not None
            found.append((int(row[0]), int(row[1])))
        return found
