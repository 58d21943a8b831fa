"""`make bench-scale`: what grows with what, as curves, each with its exponent.

At each point of a curve the service runs as it does, on a server and with a journal and a lake of its own. A thousand
transactions a second change one row each, spread over all tables that change. What's told is how old a change is when
it can be read, files and bytes that the journal and the lake get in a second, and the processor time and memory of both
processes. In the end the live view must have what the source has, where the tables have a first snapshot. What grows:

- `tables`: tables that change. A first life of the service gets SIGTERM as soon as the lake has its first table, and a
  second one makes them all.
- `idle`: tables that are captured and don't change, beside one that does. How long a start takes, and which share of a
  core the service takes while nothing changes. A first start is measured while the one table changes too: then every
  schema is proven only once the stream has reached the end that the log had.
- `mirror`: rows of a mirror, under changes that are clustered in a hundredth of them, and scattered over all. The
  mirror is merged again and again.
- `columns`: those of a table.
- `windows`: those of a snapshot, in a service without a lake; the commits' way into the journal, and rows a second.
- `journal`: segments that a journal keeps, when the service starts with them and after that.
- `day`: commits that a lake table has had before, compacted as the service does.
- `readers`: those that follow `/changes`. They stand for other machines, and take the same processors.

An exponent is that of the last two points, and the value that it means at ten times the last point is told beside it.
The curves are drawn into `build/bench/scale.png`.

`.venv/bin/python -m bench.scale mirror tables=1,1000 --scale 0.1` measures two of them, one at other points. All of
them take some forty minutes on a quiet machine with two cores, by estimate.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from bench import _tables
from bench._ageing import feed_lake, lengthen_journal
from bench._change_readers import change_readers
from bench._curves import draw_png
from bench._growth import Growth, Measured, Quantity
from bench._logs import DATABASE, KINDS, server
from bench._processes import processor_s
from bench._report import RESULTS, say, told
from bench._service import quantile
from bench._snapshots import TABLE, filled_server, writers
from bench._tables import Order, Service
from bench._watch import LONGEST_START_S, LONGEST_STOP_S, P50, P99, check, ready_after, until, watched
from bench.snapshot import Bench, in_windows
from deploy.toolchain.mysql_server import MysqlServer
from deploy.toolchain.parts import Parts, locate
from pipeline.schema.table_schema import TableId

_TRANSACTIONS_PER_S: Final = 1_000
_WATCH_S: Final = 30.0
_LEAST_WATCH_S: Final = 5.0
# Tables that fall behind take longer to show it.
_WATCH_TABLES_S: Final = 60.0
# So many tables change while readers follow them.
_FOLLOWED: Final = 3
_ROWS: Final = 10
_COLUMNS: Final = 5
# So many tables are read in the end.
_READ: Final = 3
_SMALL: Final = rf"{DATABASE}\.small_\d+"
# In the time of the changes there are some merges.
_MERGE_AFTER_S: Final = 5.0
# Clustered changes are in such a part of the rows.
_CLUSTER: Final = 100
_SNAPSHOT_ROWS: Final = 2_000_000
_QUIET_S: Final = 5.0

FIRST_START: Final = Quantity("first start", "", "s")
BUSY_START: Final = Quantity("first start", "while a table changes", "s")
START: Final = Quantity("start", "", "s")
STOP: Final = Quantity("SIGTERM meanwhile", "", "s")

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
class Curve:
    """What grows, its usual points, what measures at one of them with a scale, and the values that are asked for.

    `scaled`: whether the points are numbers that the scale holds for.
    """

    over: str
    points: tuple[int, ...]
    measure: Callable[[Parts, int, float], Measured]
    scaled: bool = False
    asked: Measured = field(default_factory=dict)


def main() -> None:
    """Measure all curves, or those that are named."""
    wanted, scale = _command_line()
    grown: list[Growth] = []
    with told("scale") as figures:
        for name, points in wanted.items():
            curve = CURVES[name]
            growth = Growth(curve.over, {}, curve.asked)
            for point in points:
                say(f"{curve.over}: {point:,}")
                growth.points[point] = curve.measure(locate(), point, scale)
                figures.extend(growth.figures(point))
            figures.extend(growth.exponents())
            grown.append(growth)
    draw_png([row for growth in grown for row in growth.rows()], RESULTS / "scale.png")


def _command_line() -> tuple[Mapping[str, tuple[int, ...]], float]:
    """Returns the points of each curve that is asked for, and the scale."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    named = f"{', '.join(CURVES)}; tables=1,300 measures at these points"
    parser.add_argument("what", nargs="*", metavar="CURVE", help=named)
    parser.add_argument("--scale", type=float, default=1.0, help="of rows, segments, commits and seconds")
    options = parser.parse_args()
    wanted = {}
    for what in options.what or CURVES:
        name, _, points = what.partition("=")
        if name not in CURVES:
            parser.error(f"there is no curve {name}")
        curve = CURVES[name]
        usual = {max(1, int(each * options.scale)) for each in curve.points} if curve.scaled else curve.points
        wanted[name] = tuple(map(int, points.split(","))) if points else tuple(sorted(usual))
    return wanted, options.scale


def _watch_s(scale: float, most: float = _WATCH_S) -> float:
    return max(_LEAST_WATCH_S, most * scale)


def _by_tables(parts: Parts, count: int, scale: float) -> Measured:
    with _small_tables(parts, count) as (mysql, folder):
        order = Order(mysql.port, f"{folder}/stopped", _SMALL, count)
        with _tables.serving(order) as service:
            lake = Path(order.folder, "lake")
            until(lambda: _has_table(lake), service, LONGEST_START_S)
            stop_s = service.stop(LONGEST_STOP_S)
        order = Order(mysql.port, f"{folder}/kept", _SMALL, count)
        with _tables.serving(order) as service:
            starts = {FIRST_START: ready_after(service), STOP: stop_s}
            writing = writers(mysql, count, _TRANSACTIONS_PER_S, "write_tables")
            values = watched(mysql, service, writing, _watch_s(scale, _WATCH_TABLES_S))
            say(f"  SIGTERM at rest: {service.stop(LONGEST_STOP_S):.1f} s")
        names = [f"small_{number}" for number in range(0, count, max(1, count // _READ))]
        check(parts, mysql, order.folder, "n", names)
        return values | starts


def _by_idle_tables(parts: Parts, count: int, scale: float) -> Measured:
    with _small_tables(parts, count) as (mysql, folder):
        order = Order(mysql.port, folder, _SMALL, count, data=False)
        with _tables.serving(order) as service:
            starts = {FIRST_START: ready_after(service)}
            service.stop(LONGEST_STOP_S)
        busy = writers(mysql, 1, _TRANSACTIONS_PER_S, "write_tables")
        with busy, _tables.serving(replace(order, folder=f"{folder}/busy")) as service:
            starts[BUSY_START] = ready_after(service)
            service.stop(LONGEST_STOP_S)
        with _tables.serving(order) as service:
            starts[START] = ready_after(service)
            time.sleep(_watch_s(scale))  # meanwhile the sink looks for the tables in the lake
            began, used = time.monotonic(), processor_s(service.pid)
            time.sleep(_watch_s(scale))
            idle = (processor_s(service.pid) - used) / (time.monotonic() - began)
            _change_rows(mysql, service)  # the table's first change makes it in the lake
            writing = writers(mysql, 1, _TRANSACTIONS_PER_S, "write_tables")
            values = watched(mysql, service, writing, _watch_s(scale))
            return values | starts | {Quantity("busy cores", "Python at rest", ""): idle}


def _by_mirror(parts: Parts, rows: int, scale: float) -> Measured:
    with filled_server(parts, rows) as mysql, tempfile.TemporaryDirectory(prefix="tidemark-bench-") as folder:
        order = Order(mysql.port, folder, rf"{DATABASE}\.{TABLE}", 1, merge_after_s=_MERGE_AFTER_S)
        values: Measured = {}
        with _tables.serving(order) as service:
            values[FIRST_START] = ready_after(service)
            for how, changed in (("clustered", max(1, rows // _CLUSTER)), ("scattered", rows)):
                writing = writers(mysql, changed, _TRANSACTIONS_PER_S)
                came = watched(mysql, service, writing, _watch_s(scale))
                values |= {each._replace(title=f"{each.title}, {how}"): came[each] for each in came}
            service.stop(LONGEST_STOP_S)
        check(parts, mysql, folder, "customer", [TABLE])
        return values


def _by_columns(parts: Parts, columns: int, scale: float) -> Measured:
    with _small_tables(parts, 1, columns) as (mysql, folder):
        return _one_table(parts, mysql, folder, scale)


def _by_windows(parts: Parts, windows: int, scale: float) -> Measured:
    rows = int(_SNAPSHOT_ROWS * scale)
    with filled_server(parts, rows) as mysql:
        ran = Bench(parts, mysql, rows).ran(
            f"{windows} windows", in_windows(windows), _TRANSACTIONS_PER_S, _QUIET_S
        )
    values = {
        Quantity("commit to journal", f"p{100 * share:.0f}", "s"): quantile(ran.meanwhile, share)
        for share in (0.5, 0.99)
    }
    cores = ran.processor_s / ran.seconds
    return values | {
        Quantity("snapshot", "", "rows/s"): ran.rate,
        Quantity("busy cores", "Python", ""): cores,
        Quantity("window", "p99", "s"): quantile(ran.windows, 0.99),
    }


def _one_table(parts: Parts, mysql: MysqlServer, folder: str, scale: float) -> Measured:
    """Follows the changes of one small table, by a service that begins or continues in a folder."""
    with _tables.serving(Order(mysql.port, folder, _SMALL, 1)) as service:
        start_s, began = ready_after(service), time.monotonic()
        _change_rows(mysql, service)
        first_s = time.monotonic() - began
        writing = writers(mysql, 1, _TRANSACTIONS_PER_S, "write_tables")
        values = watched(mysql, service, writing, _watch_s(scale))
        service.stop(LONGEST_STOP_S)
    check(parts, mysql, folder, "n", ["small_0"])
    return values | {START: start_s, Quantity("first change", "", "s"): first_s}


def _change_rows(mysql: MysqlServer, service: Service) -> None:
    """Changes the rows of the one table, and waits until the lake has that."""
    mysql.sql("UPDATE small_0 SET n = n + 1", database=DATABASE)
    executed = mysql.executed()
    until(lambda: service.has(executed), service, LONGEST_START_S)


def _by_segments(parts: Parts, segments: int, scale: float) -> Measured:
    with _small_tables(parts, 1) as (mysql, folder):
        _live_once(mysql, folder)
        lengthen_journal(f"{folder}/journal", segments)
        return _one_table(parts, mysql, folder, scale)


def _by_commits(parts: Parts, commits: int, scale: float) -> Measured:
    with _small_tables(parts, 1) as (mysql, folder):
        _live_once(mysql, folder)
        began = time.monotonic()
        feed_lake(parts, folder, TableId(DATABASE, "small_0"), commits)
        say(f"  fed in {time.monotonic() - began:.1f} s")
        return _one_table(parts, mysql, folder, scale)


def _live_once(mysql: MysqlServer, folder: str) -> None:
    """A first life of the service, in which some changes come into the mirror of the one table."""
    with _tables.serving(Order(mysql.port, folder, _SMALL, 1, merge_after_s=0.0)) as service:
        ready_after(service)
        _change_rows(mysql, service)
        until(lambda: bool(service.seen().merges_s), service, LONGEST_START_S)
        service.stop(LONGEST_STOP_S)


def _by_readers(parts: Parts, number: int, scale: float) -> Measured:
    with _small_tables(parts, _FOLLOWED) as (mysql, folder):
        order = Order(mysql.port, folder, _SMALL, _FOLLOWED, serves=True)
        with _tables.serving(order) as service:
            ready_after(service)
            url = service.seen().url
            assert url is not None
            with change_readers(url, number) as readers:
                beside = {} if readers is None else {"the readers": readers}
                writing = writers(mysql, _FOLLOWED, _TRANSACTIONS_PER_S, "write_tables")
                values = watched(mysql, service, writing, _watch_s(scale), beside)
            service.stop(LONGEST_STOP_S)
        check(parts, mysql, folder, "n", [f"small_{place}" for place in range(_FOLLOWED)])
        return values


@contextmanager
def _small_tables(parts: Parts, count: int, columns: int = _COLUMNS) -> Iterator[tuple[MysqlServer, str]]:
    """A server with so many small tables, and a folder."""
    options = {"table_open_cache": "4000", "innodb_buffer_pool_size": "1G"}
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as folder, server(parts, options) as mysql:
        kinds = [KINDS[place % len(KINDS)] for place in range(columns - 2)]
        definition = ", ".join(
            [
                "id BIGINT PRIMARY KEY",
                "n BIGINT",
                *(f"c{place} {type_}" for place, (type_, _) in enumerate(kinds)),
            ]
        )
        values = ", ".join(["n", "0", *(value for _, value in kinds)])
        names = [f"small_{number}" for number in range(count)]
        mysql.sql(
            "SET SESSION sql_log_bin = OFF",
            *(f"CREATE TABLE {name} ({definition})" for name in names),
            *(f"INSERT INTO {name} SELECT {values} FROM numbers WHERE n < {_ROWS}" for name in names),
            _WRITE.format(rows=_ROWS),
            database=DATABASE,
        )
        yield mysql, folder


def _has_table(lake: Path) -> bool:
    return next(lake.glob("*/*/*/_delta_log/*.json"), None) is not None


CURVES: Final = {
    "tables": Curve(
        "tables that change",
        (1, 10, 100, 300, 1_000),
        _by_tables,
        # As the issue of many tables asks.
        asked={FIRST_START: 20.0, STOP: 10.0, P50: 0.8, P99: 3.0},
    ),
    "idle": Curve("idle tables", (1, 1_000, 10_000), _by_idle_tables, asked={FIRST_START: 10.0, START: 10.0}),
    # `make bench-merge` has 50 million rows.
    "mirror": Curve("rows of a mirror", (1_000_000, 10_000_000), _by_mirror, scaled=True),
    "columns": Curve("columns", (3, 30, 300), _by_columns),
    "windows": Curve("windows of a snapshot", (1, 2, 4, 8), _by_windows),
    "journal": Curve("segments of a journal", (1_000, 10_000, 100_000), _by_segments, scaled=True),
    "day": Curve("commits in a changelog", (30, 300, 3_000), _by_commits, scaled=True),
    "readers": Curve("readers", (0, 10, 100), _by_readers),
}


if __name__ == "__main__":
    main()
