"""`make bench-verify`: how fast the lake is compared with the source, and what that does to the changes beside it.

One server, a table of ten million rows and eleven columns, and the service as it runs. A first snapshot brings the
table into the lake. Then a thousand transactions a second change its rows, for a minute without a verification and then
with one, which reads every row through windows, writes it into the journal, and has Spark compare it with the live
view. Merges of the mirror run in both.

What's asked: the rows that are compared in a second, from the signal to the result; and how old a change is when it can
be read, with a verification beside it and without. The verdict must be *equal*. The processor time of each process says
how many processors the aim would take.
"""

import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from os import cpu_count
from pathlib import Path
from typing import Final

from bench import _lake
from bench._command import command_line
from bench._lake import Delivered, Order
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
    """Measure all of it, or what's named."""
    wanted = command_line(__doc__, _PARTS)
    rows = int(_ROWS * wanted.scale)
    say(f"filling a table with {rows:,} rows")
    with (
        told("verify") as figures,
        tempfile.TemporaryDirectory(prefix="tidemark-bench-") as folder,
        filled_server(locate(), rows, _BUFFER_POOL) as mysql,
    ):
        bench = Bench(mysql, rows, max(_LEAST_WATCH_S, _WATCH_S * min(1.0, wanted.scale)), Path(folder))
        for name in wanted.names:
            figures.extend(_PARTS[name](bench))


def _busy(bench: Bench) -> Iterator[Figure]:
    """Under a thousand transactions a second."""
    came = _delivered(bench, "busy", _TRANSACTIONS_PER_S)
    yield from _rates(came, f"under {_TRANSACTIONS_PER_S:,} transactions/s", Peer("asked for", _ASKED_FOR))
    assert came.verified is not None
    for share in (0.5, 0.99):
        name = f"commit to live view beside a verification, p{100 * share:.0f}"
        beside, without = quantile(came.verified.freshness, share), quantile(came.freshness, share)
        yield Figure(name, beside, "s", Peer("without one", without))
        if share == 0.99:
            yield Figure(name, beside, "s", Peer(f"allowed: {_ALLOWED} times that", _ALLOWED * without))


def _idle(bench: Bench) -> Iterator[Figure]:
    """While nobody writes."""
    yield from _rates(_delivered(bench, "idle", 0), "idle", Peer("asked for", _ASKED_FOR))


def _rates(came: Delivered, name: str, asked_for: Peer) -> Iterator[Figure]:
    verified = came.verified
    assert verified is not None
    yield Figure(f"verified, {name}", verified.rows / verified.judged_s, "rows/s", asked_for)
    yield Figure(f"verified, {name}: until all rows are in the stream", verified.read_s, "s")
    yield Figure(f"verified, {name}: until the result", verified.judged_s, "s")
    there, in_s = cpu_count() or 1, verified.rows / _ASKED_FOR
    allowed = Peer(f"what {there} processors have in {in_s:.0f} s", there * in_s)
    for who, spent in verified.processor_s.items():
        yield Figure(f"verified, {name}: processor time of {who}", spent, "s", allowed)
    for who, each_s in verified.without_s.items():
        yield Figure(
            f"{name}, without one: processor time of {who} in {in_s:.0f} s", each_s * in_s, "s", allowed
        )
    yield Figure(f"verified, {name}: memory of Python", came.python_mib, "MiB")
    yield Figure(f"verified, {name}: memory of the JVM, its heap {_lake.JVM_MEMORY}", came.jvm_mib, "MiB")


def _delivered(bench: Bench, where: str, transactions_per_s: int) -> Delivered:
    """One life of the service, with a verification whose verdict is *equal*."""
    folder = bench.folder / where
    begun = bench.folder / f"{where}-begun"
    order = Order(
        bench.mysql.port,
        str(folder),
        rf"{DATABASE}\.{TABLE}",
        snapshot=".*",
        watch_s=bench.watch_s if transactions_per_s else 0.0,
        merge_after_s=_MERGE_AFTER_S,
        begun=str(begun),
        verifies=True,
        server=bench.mysql.pid,
    )
    with ThreadPoolExecutor(1) as running:
        service = running.submit(_lake.deliver, order)
        _lake.wait_for(begun, service)
        with writers(bench.mysql, bench.rows, transactions_per_s):
            came = service.result()
    say(f"  {where}: {came}")
    assert came.verified is not None and came.verified.verdict == "equal", came
    return came


_PARTS: Final[dict[str, Callable[[Bench], Iterator[Figure]]]] = {"busy": _busy, "idle": _idle}


if __name__ == "__main__":
    main()
