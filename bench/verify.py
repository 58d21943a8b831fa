"""`make bench-verify`: how fast the lake is compared with the source, and what that does to the changes beside it.

One server, a table of ten million rows and eleven columns, and the service as it runs. A first snapshot brings the
table into the lake. A verification reads every row through windows, writes it into the journal, and compares it with
the live view. While nobody writes there are two. A JVM that has just started compiles for the first, so the second says
what one takes in a service that has run for longer. Then a thousand transactions a second change the table's rows, for
a minute without a verification and then with a third one. Merges of the mirror run in both.

What's asked: the rows that are compared in a second, from the signal to the result; and how old a change is when it can
be read, with a verification beside it and without. The verdict must be *equal*. The processor time of each process says
how many processors the aim would take.
"""

import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from os import cpu_count
from pathlib import Path
from typing import Final

from bench import _lake
from bench._command import command_line
from bench._lake import Delivered, Order, Verified
from bench._logs import DATABASE
from bench._report import Figure, Peer, say, told
from bench._service import quantile
from bench._snapshots import TABLE, filled_server, writers
from deploy.toolchain.mysql_server import MysqlServer
from deploy.toolchain.parts import locate

_ROWS: Final = 10_000_000
_BUFFER_POOL: Final = "4G"
_TRANSACTIONS_PER_S: Final = 1_000
_WATCH_S: Final = 60.0
_LEAST_WATCH_S: Final = 10.0
_MERGE_AFTER_S: Final = 20.0
_ASKED_FOR: Final = 300_000.0
# Two while nobody writes, and one beside the transactions.
_VERIFICATIONS: Final = 3
# So much older a change may be beside a verification.
_ALLOWED: Final = 1.5


@dataclass(frozen=True, slots=True)
class Bench:
    """What all of it is measured on."""

    mysql: MysqlServer
    rows: int
    watch_s: float
    folder: Path


def main() -> None:
    """Measure all of it."""
    scale = command_line(__doc__, ()).scale
    rows = int(_ROWS * scale)
    say(f"filling a table with {rows:,} rows")
    with (
        told("verify") as figures,
        tempfile.TemporaryDirectory(prefix="tidemark-bench-") as folder,
        filled_server(locate(), rows, _BUFFER_POOL) as mysql,
    ):
        watch_s = max(_LEAST_WATCH_S, _WATCH_S * min(1.0, scale))
        figures.extend(_measured(Bench(mysql, rows, watch_s, Path(folder))))


def _measured(bench: Bench) -> Iterator[Figure]:
    came = _delivered(bench)
    *idle, busy = came.verified
    for verified, when in zip(idle, ("idle, the JVM's first", "idle"), strict=True):
        yield from _rates(verified, when)
    when = f"under {_TRANSACTIONS_PER_S:,} transactions/s"
    yield from _rates(busy, when)
    in_s, allowed = _allowed()
    for who, each_s in came.watched_s.items():
        yield Figure(
            f"{when}, without one: processor time of {who} in {in_s:.0f} s", each_s * in_s, "s", allowed
        )
    for share in (0.5, 0.99):
        name = f"commit to live view beside a verification, p{100 * share:.0f}"
        beside, without = quantile(busy.freshness, share), quantile(came.freshness, share)
        yield Figure(name, beside, "s", Peer("without one", without))
        if share == 0.99:
            yield Figure(name, beside, "s", Peer(f"allowed: {_ALLOWED} times that", _ALLOWED * without))
    yield Figure("memory of Python", came.python_mib, "MiB")
    yield Figure(f"memory of the JVM, its heap {_lake.JVM_MEMORY}", came.jvm_mib, "MiB")


def _rates(verified: Verified, when: str) -> Iterator[Figure]:
    asked_for = Peer("asked for", _ASKED_FOR)
    yield Figure(f"verified, {when}", verified.rows / verified.judged_s, "rows/s", asked_for)
    yield Figure(f"verified, {when}: until all rows are in the stream", verified.read_s, "s")
    yield Figure(f"verified, {when}: until the result", verified.judged_s, "s")
    _, allowed = _allowed()
    for who, spent in verified.processor_s.items():
        yield Figure(f"verified, {when}: processor time of {who}", spent, "s", allowed)


def _allowed() -> tuple[float, Peer]:
    """The time (s) in which the aim has the rows verified, and what all processors have in it."""
    there, in_s = cpu_count() or 1, _ROWS / _ASKED_FOR
    return in_s, Peer(f"what {there} processors have in {in_s:.0f} s", there * in_s)


def _delivered(bench: Bench) -> Delivered:
    """One life of the service, with verifications whose verdict is *equal*."""
    begun = bench.folder / "begun"
    order = Order(
        bench.mysql.port,
        str(bench.folder / "service"),
        rf"{DATABASE}\.{TABLE}",
        snapshot=".*",
        watch_s=bench.watch_s,
        merge_after_s=_MERGE_AFTER_S,
        begun=str(begun),
        verifications=_VERIFICATIONS,
        server=bench.mysql.pid,
    )
    with ThreadPoolExecutor(1) as running:
        service = running.submit(_lake.deliver, order)
        _lake.wait_for(begun, service)
        with writers(bench.mysql, bench.rows, _TRANSACTIONS_PER_S):
            came = service.result()
    say(f"  {came}")
    assert all(verified.verdict == "equal" for verified in came.verified), came
    return came


if __name__ == "__main__":
    main()
