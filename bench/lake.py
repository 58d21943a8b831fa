"""`make bench-lake`: how fast what MySQL has can be read in the lake, from a table's first snapshot to its last change.

One server, a table of ten million rows and eleven columns, and the service as it runs: capture, journal, Spark and
Delta share the machine with the server. Beside it plain Spark appends the very same Parquet files to a Delta table,
merges the very same changes without deletion vectors, and makes small commits in its own way. No time is told before
the live view has as many rows as the source, and the same sum.

What's asked: the first snapshot, end to end; changes that have waited in the log, from the service's start until the
live view has them; scattered changes merged into the large mirror; how old a change is when it can be read, with a
thousand transactions a second in three tables, beside small mirrors and beside the large one, MERGEs included; small
commits, in one table, three and two hundred at once; and the memory of it all. Some twenty minutes on a quiet machine
with two cores.
"""

import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from actors.journal.store import JournalReader
from bench import _commits, _lake
from bench._command import command_line
from bench._lake import Delivered, Order
from bench._logs import DATABASE
from bench._report import Figure, Peer, say, told
from bench._service import quantile
from bench._snapshots import TABLE, filled_server, writers
from deploy.toolchain.mysql_server import MysqlServer
from deploy.toolchain.parts import Parts, locate
from pipeline.journal.entry import FileKind

_ROWS: Final = 10_000_000
_BUFFER_POOL: Final = "4G"
_CHANGES: Final = 5_000_000
# How often in one life of the service that many are merged.
_ROUNDS: Final = 3
_SMALL_ROWS: Final = 10_000
_SMALL: Final = ("small_1", "small_2", "small_3")
_TRANSACTIONS_PER_S: Final = 1_000
_WATCH_S: Final = 60.0
# A MERGE of each of the three mirrors comes in that time, and not at once.
_MERGE_AFTER_S: Final = 20.0
_MANY: Final = 200
_MANY_ASKED_FOR_MS: Final = 600.0
_SNAPSHOT_ASKED_FOR: Final = 1_000_000.0
# Python's and the JVM's.
_MEMORY_ALLOWED_MIB: Final = (400.0, 2_048.0)

# Each session makes its own of so many transactions, of a thousand rows far from each other.
_SESSIONS: Final = 4
_ROWS_EACH: Final = 1_000
_SCATTER: Final = f"""CREATE PROCEDURE scatter(session INT, transactions INT, step INT) BEGIN
    DECLARE at INT DEFAULT session;
    WHILE at < transactions DO
        UPDATE numbers STRAIGHT_JOIN {TABLE} ON {TABLE}.id = at + numbers.n * step SET customer = customer + 1;
        SET at = at + {_SESSIONS};
    END WHILE;
END"""
_WRITE_THREE: Final = """CREATE PROCEDURE write_three_{first}(number_of_rows BIGINT, pause DOUBLE) BEGIN
    DECLARE due DOUBLE DEFAULT UNIX_TIMESTAMP(SYSDATE(6));
    DECLARE n, turn BIGINT DEFAULT 0;
    WHILE TRUE DO
        SET n = FLOOR(RAND() * number_of_rows), turn = turn + 1, due = due + pause;
        CASE turn % 3
            WHEN 0 THEN UPDATE {first} SET customer = customer + 1 WHERE id = n;
            WHEN 1 THEN UPDATE small_2 SET customer = customer + 1 WHERE id = n % {small};
            ELSE UPDATE small_3 SET customer = customer + 1 WHERE id = n % {small};
        END CASE;
        DO SLEEP(GREATEST(0, due - UNIX_TIMESTAMP(SYSDATE(6))));
    END WHILE;
END"""


@dataclass(slots=True)
class Bench:
    """What all of it is measured on; `memory` is the most that the two processes had, in MiB."""

    parts: Parts
    mysql: MysqlServer
    rows: int
    changes: int
    scale: float
    folder: Path
    memory: tuple[float, float] = (0.0, 0.0)

    def deliver(self, name: str, where: str, tables: str, **order: Any) -> Delivered:
        """One life of the service; what it has delivered of the large table is what the source has."""
        folder = self.folder / where
        came = _lake.deliver(Order(self.mysql.port, str(folder), tables, **order))
        self.memory = (max(self.memory[0], came.python_mib), max(self.memory[1], came.jvm_mib))
        if where == _LARGE:
            [(rows, customers)] = self.mysql.sql(f"SELECT COUNT(*), SUM(customer) FROM {DATABASE}.{TABLE}")
            assert (came.rows, came.customers) == (int(rows), int(customers)), (name, came, rows, customers)
        say(f"  {name}: {came}")
        return came


_LARGE: Final = "large"


def main() -> None:
    """Measure all of it, or what's named."""
    wanted = command_line(__doc__, _PARTS)
    parts = locate()
    rows = int(_ROWS * wanted.scale)
    say(f"filling a table with {rows:,} rows")
    with (
        told("lake") as figures,
        tempfile.TemporaryDirectory(prefix="tidemark-bench-") as folder,
        filled_server(parts, rows, _BUFFER_POOL) as mysql,
    ):
        _prepare(mysql)
        changes = int(_CHANGES * wanted.scale) // _ROWS_EACH * _ROWS_EACH
        bench = Bench(parts, mysql, rows, changes, wanted.scale, Path(folder))
        for name in wanted.names:
            say(name)
            figures.extend(_PARTS[name](bench))


def _prepare(mysql: MysqlServer) -> None:
    mysql.sql(
        _SCATTER,
        *(_WRITE_THREE.format(first=first, small=_SMALL_ROWS) for first in ("small_1", TABLE)),
        "SET SESSION sql_log_bin = OFF",
        *(f"CREATE TABLE {name} LIKE {TABLE}" for name in _SMALL),
        *(f"INSERT INTO {name} SELECT * FROM {TABLE} WHERE id < {_SMALL_ROWS}" for name in _SMALL),
        database=DATABASE,
    )


def _commit(bench: Bench) -> Iterator[Figure]:
    """Small commits."""
    many = max(1, int(_MANY * min(1.0, bench.scale)))
    placed, plain = _commits.commits(bench.parts, many)
    for name, ours, theirs in (
        ("one table", placed.one, plain.one),
        ("three tables at once", placed.three, plain.three),
        (f"{many} tables at once", placed.many, plain.many),
    ):
        yield Figure(f"a commit of 50 rows, {name}", 1e3 * ours, "ms", Peer("plain Spark", 1e3 * theirs))
    if many == _MANY:
        yield Figure(f"a commit of 50 rows, {name}", 1e3 * ours, "ms", Peer("asked for", _MANY_ASKED_FOR_MS))


def _small_mirrors(bench: Bench) -> Iterator[Figure]:
    """Freshness beside small mirrors."""
    tables = rf"{DATABASE}\.small_[123]"
    yield from _fresh(bench, "small", tables, "write_three_small_1", _SMALL_ROWS, tables)


def _large_mirror(bench: Bench) -> Iterator[Figure]:
    """Changes that have waited, merged into the large mirror, and freshness beside it."""
    reader = JournalReader(bench.folder / _LARGE / "journal")
    before = reader.last_segment()
    say(f"  changing {bench.changes:,} scattered rows")
    _scatter(bench)
    executed = bench.mysql.executed()
    came = bench.deliver("catch-up", _LARGE, rf"{DATABASE}\.{TABLE}", through=executed)
    rows, seconds = _lake.append(bench.parts, bench.folder / _LARGE, FileKind.CHANGES, before)
    assert rows == bench.changes, (rows, bench.changes)
    peer = Peer("plain Spark appending the files", rows / seconds)
    yield Figure("catch-up, log to live view", rows / came.through_s, "changes/s", peer)
    _lake.linked(bench.folder / _LARGE / "lake", bench.folder / _LARGE / "plain-lake")
    first_s, *later_s = _rounds(bench)
    plain = Peer("plain MERGE", rows / _lake.merge(bench.parts, bench.folder / _LARGE))
    into = f"merged into {bench.rows:,} rows"
    yield Figure(f"{into}, by a JVM that has just started", rows / first_s, "changes/s", plain)
    all_s = first_s + sum(later_s)
    yield Figure(f"{into}, {_ROUNDS} times", _ROUNDS * rows / all_s, "changes/s", plain)
    yield Figure("caught up and merged", rows / (came.through_s + first_s), "changes/s", plain)
    tables = rf"{DATABASE}\.({TABLE}|small_[23])"
    yield from _fresh(bench, _LARGE, tables, f"write_three_{TABLE}", bench.rows, rf"{DATABASE}\.small_[23]")


def _rounds(bench: Bench) -> list[float]:
    """How long each merge took of so many changes, one after the other in one life of the service."""
    order = {"rounds": _ROUNDS, "merge_rows": bench.changes}
    with ThreadPoolExecutor(1) as running:
        service = running.submit(bench.deliver, "merge", _LARGE, rf"{DATABASE}\.{TABLE}", **order)
        for number in range(1, _ROUNDS):
            _lake.wait_for(_lake.round_begun(bench.folder / _LARGE, number), service)
            _scatter(bench)
        return service.result().merges_s


def _snapshot(bench: Bench) -> Iterator[Figure]:
    """The large table's first snapshot."""
    came = bench.deliver("snapshot", _LARGE, rf"{DATABASE}\.{TABLE}", snapshot=".*")
    rows, seconds = _lake.append(bench.parts, bench.folder / _LARGE, FileKind.ROWS, 0)
    assert rows == bench.rows, (rows, bench.rows)
    for peer in (
        Peer("plain Spark appending the files", rows / seconds),
        Peer("asked for", _SNAPSHOT_ASKED_FOR),
    ):
        yield Figure(f"first snapshot of {rows:,} rows", rows / came.snapshot_s, "rows/s", peer)


def _fresh(
    bench: Bench, where: str, tables: str, procedure: str, rows: int, snapshot: str
) -> Iterator[Figure]:
    begun = bench.folder / f"{where}-begun"
    watch = max(5.0, _WATCH_S * min(1.0, 10 * bench.scale))
    with ThreadPoolExecutor(1) as running:
        service = running.submit(
            _lake.deliver,
            Order(
                bench.mysql.port,
                str(bench.folder / where),
                tables,
                snapshot=snapshot,
                watch_s=watch,
                merge_after_s=_MERGE_AFTER_S,
                begun=str(begun),
            ),
        )
        _lake.wait_for(begun, service)
        with writers(bench.mysql, rows, _TRANSACTIONS_PER_S, procedure):
            came = service.result()
    for share, allowed in ((0.5, 0.7), (0.99, 2.0)):
        fresh = quantile(came.freshness, share)
        name = f"commit to live view, {where} mirrors, p{100 * share:.0f}"
        yield Figure(name, fresh, "s", Peer("allowed", allowed))


def _memory(bench: Bench) -> Iterator[Figure]:
    """The most that it took."""
    for what, most, asked in zip(
        ("Python", f"the JVM, its heap {_lake.JVM_MEMORY}"), bench.memory, _MEMORY_ALLOWED_MIB, strict=True
    ):
        yield Figure(f"resident memory of {what}", most, "MiB", Peer("allowed", asked))


def _scatter(bench: Bench) -> None:
    """Change so many rows."""

    def change(session: int) -> None:
        with closing(bench.mysql.connect(database=DATABASE)) as connection, connection.cursor() as cursor:
            step, transactions = bench.rows // _ROWS_EACH, bench.changes // _ROWS_EACH
            cursor.execute("CALL scatter(%s, %s, %s)", (session, transactions, step))

    with ThreadPoolExecutor(_SESSIONS) as sessions:
        list(sessions.map(change, range(_SESSIONS)))


# In this order: those that are about the large mirror need its snapshot.
_PARTS: Final[dict[str, Callable[[Bench], Iterator[Figure]]]] = {
    "commits": _commit,
    "small": _small_mirrors,
    "snapshot": _snapshot,
    "large": _large_mirror,
    "memory": _memory,
}


if __name__ == "__main__":
    main()
