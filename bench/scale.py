"""`make bench-scale`: what more tables cost, from the first start to a change's way into the lake.

One server with so many small tables, and the service as it runs, which knows none of them. A first life of the service
gets SIGTERM as soon as the lake has its first table. A second one, with a journal and a lake of its own, runs until
every table can be read. Then transactions come at a fixed rate over all tables, each of one row, and their age is
counted when the live view has them. The age of every sampled change of that time counts, also where the lake has fallen
behind: no figure is told before it has all of them, or the longest wait is over. In the end the live view of some
tables must have what the source has.

Then readers of `/changes` follow three such tables, and the age of changes is counted without and with them. They stand
for other machines, and take the same processors: how much is told too.

Last, the service captures tables in which nothing changes, without a first snapshot: how long a start with them takes,
and which share of a core the service takes while it idles.

The curves are drawn into `build/bench/scale.png`.

`.venv/bin/python -m bench.scale 1 1000 --idle 1000` measures with these numbers of tables. Some ten minutes on a quiet
machine with two cores.
"""

import argparse
import math
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Final

from actors.lake.live_view import live_view
from bench import _tables
from bench._change_readers import change_readers
from bench._commits import plain_spark
from bench._curves import Chart, Points, draw_png
from bench._logs import DATABASE, server
from bench._processes import processor_s, resident_mib
from bench._report import RESULTS, Figure, Peer, say, told
from bench._service import quantile
from bench._snapshots import writers
from bench._tables import Order, Service
from deploy.toolchain.mysql_server import MysqlServer
from deploy.toolchain.parts import Parts, locate
from pipeline.schema.table_schema import TableId

_COUNTS: Final = (1, 10, 100, 300)
_IDLE_COUNTS: Final = (1, 1_000, 10_000)
_READERS: Final = (0, 10, 100)
# So many tables change meanwhile.
_FOLLOWED: Final = 3
_ROWS: Final = 10
_TRANSACTIONS_PER_S: Final = 1_000
_WATCH_S: Final = 60.0
_LOOK_EVERY_S: Final = 0.05
# After these nobody waits any longer.
_LONGEST_START_S: Final = 600.0
_LONGEST_WAIT_S: Final = 300.0
_LONGEST_STOP_S: Final = 300.0
# So many tables are read in the end.
_READ: Final = 3
# As the issue of many tables asks.
_START_ALLOWED_S: Final = 20.0
_STOP_ALLOWED_S: Final = 10.0
_IDLE_START_ALLOWED_S: Final = 10.0
_FRESH_ALLOWED_S: Final = ((0.5, 0.8), (0.99, 3.0))

_WRITE: Final = """CREATE PROCEDURE write_tables(number_of_tables BIGINT, pause DOUBLE) BEGIN
    DECLARE due DOUBLE DEFAULT UNIX_TIMESTAMP(SYSDATE(6));
    WHILE TRUE DO
        SET due = due + pause;
        SET @statement = CONCAT('UPDATE small_', FLOOR(RAND() * number_of_tables), ' SET n = n + 1 WHERE id = ',
            FLOOR(RAND() * {rows}));
        PREPARE statement FROM @statement;
        EXECUTE statement;
        DEALLOCATE PREPARE statement;
        DO SLEEP(GREATEST(0, due - UNIX_TIMESTAMP(SYSDATE(6))));
    END WHILE;
END"""


@dataclass(frozen=True, slots=True)
class Came:
    """What came of so many tables: seconds until all could be read, and until SIGTERM had ended the service; ages (s)
    of changes; how long (s) the lake still took when the last change was made; files a second in the journal and in the
    lake; and of Python and of the JVM, the cores that were busy and the greatest memory (MiB).
    """

    start_s: float
    stop_s: float
    freshness: Sequence[float]
    behind_s: float
    files: tuple[float, float]
    cores: tuple[float, float]
    memory: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Consumed:
    """What came of readers: ages (s) of changes, and the cores that were busy, of Python and of the readers."""

    freshness: Sequence[float]
    cores: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Idled:
    """What came of so many tables in which nothing changes: seconds until the service was ready, at its first start and
    at the next one; the cores that were busy then, and the greatest memory (MiB), of Python.
    """

    first_start_s: float
    start_s: float
    cores: float
    memory: float


def main() -> None:
    """Measure with each of these numbers of tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("tables", nargs="*", type=int, default=_COUNTS, help="numbers of tables")
    parser.add_argument("--idle", nargs="*", type=int, default=_IDLE_COUNTS, help="numbers of idle tables")
    parser.add_argument("--consumers", nargs="*", type=int, default=_READERS, help="numbers of readers")
    parser.add_argument("--rate", type=int, default=_TRANSACTIONS_PER_S, help="transactions a second")
    parser.add_argument("--scale", type=float, default=1.0, help="of the time of all transactions")
    asked = parser.parse_args()
    came: dict[int, Came] = {}
    idled: dict[int, Idled] = {}
    with told("scale") as figures:
        for count in asked.tables:
            say(f"{count:,} tables")
            came[count] = _measured(locate(), count, asked.rate, _WATCH_S * asked.scale)
            say(f"  {came[count].start_s=:.1f} {came[count].stop_s=:.1f} {came[count].behind_s=:.1f}")
            figures.extend(_figures(count, asked.rate, came[count]))
        figures.extend(_exponents(came))
        followed: dict[int, Consumed] = {}
        for number in asked.consumers:
            say(f"{number:,} readers")
            followed[number] = _consumed(locate(), number, asked.rate, _WATCH_S * asked.scale)
        figures.extend(_reader_figures(followed))
        for count in asked.idle:
            say(f"{count:,} idle tables")
            idled[count] = _idled(locate(), count, _WATCH_S * asked.scale)
            figures.extend(_idle_figures(count, idled[count], idled[min(idled)]))
    draw_png([*_charts(came), *_idle_charts(idled)], RESULTS / "scale.png")


def _measured(parts: Parts, count: int, rate: int, watch_s: float) -> Came:
    with (
        tempfile.TemporaryDirectory(prefix="tidemark-bench-") as folder,
        server(parts, {"table_open_cache": "4000", "innodb_buffer_pool_size": "1G"}) as mysql,
    ):
        _fill(mysql, count)
        order = Order(mysql.port, f"{folder}/stopped", rf"{DATABASE}\.small_\d+", count)
        with _tables.serving(order) as service:
            lake = Path(order.folder, "lake")
            _until(lambda: _has_table(lake), service, _LONGEST_START_S)
            stop_s = service.stop(_LONGEST_STOP_S)
            say(f"  SIGTERM while tables are made: {stop_s:.1f} s")
        order = Order(mysql.port, f"{folder}/kept", order.tables, count)
        with _tables.serving(order) as service:
            return _followed(parts, mysql, order, service, stop_s, rate, watch_s)


def _followed(
    parts: Parts,
    mysql: MysqlServer,
    order: Order,
    service: Service,
    stop_s: float,
    rate: int,
    watch_s: float,
) -> Came:
    _until(lambda: service.seen().readable is not None, service, _LONGEST_START_S)
    seen = service.seen()
    assert seen.readable is not None
    assert seen.jvm is not None
    say(f"  every table can be read after {seen.readable - service.began:.1f} s")
    pids, folders = (service.pid, seen.jvm), [f"{order.folder}/{name}" for name in ("journal", "lake")]
    time.sleep(2.0)
    samples = len(service.seen().freshness)
    began, used = time.monotonic(), [processor_s(pid) for pid in pids]
    there = [_tables.files(folder) for folder in folders]
    with writers(mysql, order.count, rate, "write_tables"):
        time.sleep(watch_s)
    took = time.monotonic() - began
    cores = [(processor_s(pid) - before) / took for pid, before in zip(pids, used, strict=True)]
    written = [(_tables.files(folder) - before) / took for folder, before in zip(folders, there, strict=True)]
    executed, last = mysql.executed(), time.monotonic()
    _until(lambda: service.has(executed), service, _LONGEST_WAIT_S, "the lake hasn't got all changes")
    behind_s = time.monotonic() - last
    memory = [resident_mib(pid) for pid in pids]
    time.sleep(1.0)  # what was seen is written twice a second
    freshness = service.seen().freshness[samples:]
    say(f"  SIGTERM at rest: {service.stop(_LONGEST_STOP_S):.1f} s")
    _check(parts, mysql, order)
    return Came(
        seen.readable - service.began,
        stop_s,
        freshness,
        behind_s,
        (written[0], written[1]),
        (cores[0], cores[1]),
        (memory[0], memory[1]),
    )


def _consumed(parts: Parts, number: int, rate: int, watch_s: float) -> Consumed:
    """Follows changes while so many readers read them from the service."""
    with (
        tempfile.TemporaryDirectory(prefix="tidemark-bench-") as folder,
        server(parts, {"innodb_buffer_pool_size": "1G"}) as mysql,
    ):
        _fill(mysql, _FOLLOWED)
        order = Order(mysql.port, f"{folder}/kept", rf"{DATABASE}\.small_\d+", _FOLLOWED, serves=True)
        with _tables.serving(order) as service:
            _ready_after(service)
            url = service.seen().url
            assert url is not None
            with writers(mysql, _FOLLOWED, rate, "write_tables"), change_readers(url, number) as readers:
                time.sleep(watch_s / 4)  # the JVM's code is compiled meanwhile
                pids = [service.pid] if readers is None else [service.pid, readers]
                samples, used = len(service.seen().freshness), [processor_s(pid) for pid in pids]
                time.sleep(watch_s)
                cores = [
                    (processor_s(pid) - before) / watch_s for pid, before in zip(pids, used, strict=True)
                ]
                return Consumed(service.seen().freshness[samples:], (cores[0], sum(cores[1:])))


def _reader_figures(followed: dict[int, Consumed]) -> Iterator[Figure]:
    if not followed:
        return
    fewest = followed[min(followed)]
    for number, consumed in sorted(followed.items()):
        of = f"{number:,} readers"
        for share, _ in _FRESH_ALLOWED_S:
            peer = Peer("with the fewest", quantile(fewest.freshness, share))
            name = f"{of}: commit to live view, p{100 * share:.0f}"
            yield Figure(name, quantile(consumed.freshness, share), "s", peer)
        python, readers = consumed.cores
        yield Figure(f"{of}: Python, busy cores", python, "", Peer("with the fewest", fewest.cores[0]))
        yield Figure(f"{of}: the readers, busy cores", readers, "")


def _idled(parts: Parts, count: int, watch_s: float) -> Idled:
    with (
        tempfile.TemporaryDirectory(prefix="tidemark-bench-") as folder,
        server(parts, {"table_open_cache": "4000"}) as mysql,
    ):
        _fill(mysql, count)
        order = Order(mysql.port, f"{folder}/kept", rf"{DATABASE}\.small_\d+", count, data=False)
        with _tables.serving(order) as service:
            first_start_s = _ready_after(service)
            service.stop(_LONGEST_STOP_S)
        Path(order.folder, "seen.json").unlink()
        with _tables.serving(order) as service:
            start_s = _ready_after(service)
            time.sleep(watch_s / 2)  # meanwhile the sink looks for the tables in the lake
            began, used = time.monotonic(), processor_s(service.pid)
            time.sleep(watch_s / 2)
            cores = (processor_s(service.pid) - used) / (time.monotonic() - began)
            return Idled(first_start_s, start_s, cores, resident_mib(service.pid))


def _ready_after(service: Service) -> float:
    _until(lambda: service.seen().readable is not None, service, _LONGEST_START_S)
    readable = service.seen().readable
    assert readable is not None
    return readable - service.began


def _fill(mysql: MysqlServer, count: int) -> None:
    names = [f"small_{number}" for number in range(count)]
    columns = "id BIGINT PRIMARY KEY, n BIGINT, name VARCHAR(40), total DECIMAL(12, 2), placed DATETIME(3)"
    mysql.sql(
        "SET SESSION sql_log_bin = OFF",
        *(f"CREATE TABLE {name} ({columns})" for name in names),
        *(
            f"INSERT INTO {name} SELECT n, 0, CONCAT('name ', n), n / 8, '2026-01-01' FROM numbers WHERE n < {_ROWS}"
            for name in names
        ),
        _WRITE.format(rows=_ROWS),
        database=DATABASE,
    )


def _has_table(lake: Path) -> bool:
    return next(lake.glob("*/*/*/_delta_log/*.json"), None) is not None


def _until(told: Callable[[], bool], service: Service, within_s: float, what: str = "not in time") -> None:
    deadline = time.monotonic() + within_s
    while not told():
        assert time.monotonic() < deadline, f"{what} within {within_s:g} s"
        service.seen()
        time.sleep(_LOOK_EVERY_S)


def _check(parts: Parts, mysql: MysqlServer, order: Order) -> None:
    """Compares some tables' live views with the source."""
    step = max(1, order.count // _READ)
    names = [f"small_{number}" for number in range(0, order.count, step)]
    there = [
        tuple(map(int, mysql.sql(f"SELECT COUNT(*), SUM(n) FROM {DATABASE}.{name}")[0])) for name in names
    ]
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        found = process.submit(_read, parts, order.folder, names).result()
    assert found == there, list(zip(names, found, there, strict=True))


def _read(parts: Parts, folder: str, names: Sequence[str]) -> list[tuple[int, int]]:
    os.environ["JAVA_HOME"] = str(parts.java_home)
    with plain_spark(parts, Path(folder) / "plain") as spark:
        found = []
        for name in names:
            view = live_view(spark.session, f"{folder}/lake", TableId(DATABASE, name))
            row = view.selectExpr("count(*)", "sum(n)").first()
            assert row is not None
            found.append((int(row[0]), int(row[1])))
        return found


def _figures(count: int, rate: int, came: Came) -> Iterator[Figure]:
    of = f"{count:,} tables" if count > 1 else "1 table"
    yield Figure(
        f"{of}: first start until all can be read", came.start_s, "s", Peer("allowed", _START_ALLOWED_S)
    )
    yield Figure(f"{of}: SIGTERM meanwhile", came.stop_s, "s", Peer("allowed", _STOP_ALLOWED_S))
    for share, allowed in _FRESH_ALLOWED_S:
        name = f"{of}, {rate:,} transactions/s: commit to live view, p{100 * share:.0f}"
        yield Figure(name, quantile(came.freshness, share), "s", Peer("allowed", allowed))
    yield Figure(f"{of}: until the lake had the last one", came.behind_s, "s")
    for where, files in zip(("journal", "lake"), came.files, strict=True):
        yield Figure(f"{of}: files in the {where}", files, "1/s")
    for program, cores, memory in zip(("Python", "the JVM"), came.cores, came.memory, strict=True):
        yield Figure(f"{of}: {program}, busy cores", cores, "")
        yield Figure(f"{of}: {program}, memory", memory, "MiB")


def _charts(came: dict[int, Came]) -> Iterator[Chart]:
    if not came:
        return

    def curve(value: Callable[[Came], float]) -> Points:
        return [(count, value(each)) for count, each in sorted(came.items())]

    over = "tables that change"
    freshness = {f"p{100 * share:.0f}": curve(partial(_fresh, share=share)) for share, _ in _FRESH_ALLOWED_S}
    asked = {f"p{100 * share:.0f} asked for": allowed for share, allowed in _FRESH_ALLOWED_S}
    yield Chart("Commit to live view", "s", over, freshness, asked)
    starts = {"until all can be read": curve(lambda each: each.start_s)}
    yield Chart("First start", "s", over, starts, {"asked for": _START_ALLOWED_S})
    files = {"journal": curve(lambda each: each.files[0]), "lake": curve(lambda each: each.files[1])}
    yield Chart("Files", "1/s", over, files, {})
    cores = {"Python": curve(lambda each: each.cores[0]), "the JVM": curve(lambda each: each.cores[1])}
    yield Chart("Busy cores", "", over, cores, {})
    memory = {"Python": curve(lambda each: each.memory[0]), "the JVM": curve(lambda each: each.memory[1])}
    yield Chart("Memory", "MiB", over, memory, {})


def _idle_charts(idled: dict[int, Idled]) -> Iterator[Chart]:
    if idled:
        starts = {"next start": [(count, each.start_s) for count, each in sorted(idled.items())]}
        yield Chart("Start", "s", "idle tables", starts, {"asked for": _IDLE_START_ALLOWED_S})


def _fresh(came: Came, share: float) -> float:
    return quantile(came.freshness, share)


def _idle_figures(count: int, idled: Idled, fewest: Idled) -> Iterator[Figure]:
    of = f"{count:,} idle tables" if count > 1 else "1 idle table"
    allowed = Peer("allowed", _IDLE_START_ALLOWED_S)
    yield Figure(f"{of}: first start until the service is ready", idled.first_start_s, "s", allowed)
    yield Figure(f"{of}: next start until the service is ready", idled.start_s, "s", allowed)
    yield Figure(f"{of}: Python, busy cores", idled.cores, "", Peer("with the fewest", fewest.cores))
    yield Figure(f"{of}: Python, memory", idled.memory, "MiB", Peer("with the fewest", fewest.memory))


def _exponents(came: dict[int, Came]) -> Iterator[Figure]:
    """Tells how each curve grows between the two greatest numbers of tables: 1 is in proportion."""
    if len(came) < 2:
        return
    (less, before), (more, after) = sorted(came.items())[-2:]
    values = {
        "first start": (before.start_s, after.start_s),
        "SIGTERM": (before.stop_s, after.stop_s),
        "commit to live view, p50": (quantile(before.freshness, 0.5), quantile(after.freshness, 0.5)),
        "files in the lake": (before.files[1], after.files[1]),
    }
    for name, (small, large) in values.items():
        if 0 < small < math.inf and large < math.inf:
            yield Figure(
                f"exponent from {less:,} tables to {more:,}: {name}", math.log(large / small, more / less), ""
            )


if __name__ == "__main__":
    main()
