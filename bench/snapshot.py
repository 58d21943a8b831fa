"""`make bench-snapshot`: how fast a table comes into the journal by a read-only snapshot, and what it costs the server.

One server, one table of five million rows, and everyone snapshots that while the server shares the machine. Tidemark's
capture half runs as a service, in a process of its own, from the signal that asks for the snapshot until the segment
with the last row is sealed: chunks between watermarks, windows, Parquet, checksums and syncing. No lake is behind it.
Debezium's read-only incremental snapshot runs embedded and hands over JSON; it reads the first rows only, its first
fifth isn't counted, since the JVM compiles meanwhile, and neither is its wait for the first heartbeat, which is told.

What's asked: how the rate goes with the number of windows, with a source at rest and with one that commits a thousand
transactions a second; what's left of it when the stream is 30 s behind, by a proxy that holds the log back; how long a
window is open when nobody writes; what a snapshot does to the way of a commit into the journal; and what it costs the
server. Some twelve minutes on a quiet machine with two cores, of which one fills the table.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from bench._command import command_line
from bench._debezium import Snapshot, incremental_snapshot
from bench._logs import ELEVEN, nothing
from bench._report import Figure, Peer, say, told
from bench._service import Asked, Ran, quantile, run
from bench._snapshots import Cost, Meter, filled_server, writers
from deploy.toolchain.mysql_server import CAPTURE, MysqlServer
from deploy.toolchain.parts import Parts, locate
from pipeline.config.settings import SnapshotSettings
from tests.servers.delay import DelayedLog

_ROWS: Final = 5_000_000
_WINDOWS: Final = (1, 2, 4, 8)
_TRANSACTIONS_PER_S: Final = 1_000
_QUIET_S: Final = 12.0

# The rows that are read beside a peer's name, by its chunks' size.
_DEBEZIUM: Final = {1_024: 300_000, 10_000: 400_000}

_BEHIND_S: Final = 30.0
# Rows that wait for their windows have to be somewhere: these are all of the table's.
_MANY: Final = SnapshotSettings(windows=256, memory_mib=2048)
_ONE: Final = SnapshotSettings(windows=1)

# Chunks of a moment, to see what there is to a window besides the reading.
_SMALL: Final = SnapshotSettings(windows=1, connections=1, chunk_rows=1_000, chunk_target_ms=10)
_ALLOWED_MS: Final = 50.0

_MILLION: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Bench:
    """What all of it is measured on."""

    parts: Parts
    mysql: MysqlServer
    rows: int

    def ran(
        self,
        name: str,
        snapshot: SnapshotSettings,
        per_s: int = 0,
        quiet_s: float = 0.0,
        longest_s: float = 600.0,
        port: int | None = None,
    ) -> Ran:
        """One run of Tidemark, with so many transactions a second beside it."""
        with writers(self.mysql, self.rows, per_s):
            ran = run(Asked(port or self.mysql.port, self.mysql.pid, snapshot, quiet_s, longest_s))
        say(
            f"  {name}: {ran.rate:,.0f} rows/s ({ran.flow:,.0f} behind the first segment) of {ran.rows:,}, "
            f"{ran.processor_s / ran.rows * _MILLION:.2f} s of processor time a million, server "
            f"{ran.cost.processor_s / ran.rows * _MILLION:.2f} s, {ran.transactions / ran.seconds:,.0f} transactions/s"
        )
        return ran


def main() -> None:
    """Measure all of it, or what's named."""
    wanted = command_line(__doc__, _PARTS)
    parts = locate()
    rows = int(_ROWS * wanted.scale)
    say(f"filling a table with {rows:,} rows")
    with told("snapshot") as figures, filled_server(parts, rows) as mysql:
        bench = Bench(parts, mysql, rows)
        for name in wanted.names:
            say(name)
            figures.extend(_PARTS[name](bench))


def _rate(bench: Bench) -> Iterator[Figure]:
    """Rates and costs, beside Debezium's."""
    peers = {size: _debezium(bench, size, rows) for size, rows in _DEBEZIUM.items()}
    for windows in _WINDOWS:
        settings = in_windows(windows)
        name = f"{_windows(windows)}"
        idle = bench.ran(name, settings)
        for size, peer in peers.items():
            yield Figure(f"{name}, idle", idle.rate, "rows/s", Peer(_debezium_name(size), peer.rate))
        busy = bench.ran(f"{name}, busy", settings, _TRANSACTIONS_PER_S, _QUIET_S)
        yield from _busy(name, idle, busy)
        if windows == SnapshotSettings().windows:
            yield from _costs(idle, peers)
    for size, peer in peers.items():
        yield Figure(f"{_debezium_name(size)}: until its first row", peer.waited_s, "s")


def in_windows(number: int) -> SnapshotSettings:
    """So many windows, with as many connections as can read for them."""
    return SnapshotSettings(windows=number, connections=min(number, SnapshotSettings().connections))


def _busy(name: str, idle: Ran, busy: Ran) -> Iterator[Figure]:
    yield Figure(f"{name}, busy", busy.rate, "rows/s", Peer("idle", idle.rate))
    committed = busy.transactions / busy.seconds
    yield Figure(f"{name}: commits meanwhile", committed, "/s", Peer("asked for", _TRANSACTIONS_PER_S))
    for share in (0.5, 0.99):
        without = Peer("without a snapshot", 1e3 * quantile(busy.before, share))
        latency = 1e3 * quantile(busy.meanwhile, share)
        yield Figure(f"{name}: commit to journal, p{100 * share:.0f}", latency, "ms", without)


def _costs(ours: Ran, peers: dict[int, Snapshot]) -> Iterator[Figure]:
    """What a million rows cost the server."""
    told: tuple[tuple[str, str, Callable[[Cost, int], float]], ...] = (
        ("statements", "", lambda cost, rows: cost.statements / rows * _MILLION),
        ("rows examined", "", lambda cost, rows: cost.examined / rows * _MILLION),
        ("bytes sent", "MB", lambda cost, rows: cost.sent / rows),
        ("processor time of the server", "s", lambda cost, rows: cost.processor_s / rows * _MILLION),
    )
    for what, unit, of in told:
        for size, peer in peers.items():
            against = Peer(_debezium_name(size), of(peer.cost, peer.rows))
            yield Figure(f"a million rows: {what}", of(ours.cost, ours.rows), unit, against)
    processor = ours.processor_s / ours.rows * _MILLION
    server = Peer("the server's", ours.cost.processor_s / ours.rows * _MILLION)
    yield Figure("a million rows: processor time of Tidemark", processor, "s", server)


def _behind(bench: Bench) -> Iterator[Figure]:
    """With the stream 30 s behind, of which 30 s pass before the first window can close."""
    with DelayedLog(bench.mysql.port) as proxy:
        near = bench.ran("the proxy holds nothing back", _MANY, _TRANSACTIONS_PER_S, 2.0, port=proxy.port)
    for snapshot in (_MANY, _ONE):
        name = f"{_BEHIND_S:.0f} s behind, {_windows(snapshot.windows)}"
        with DelayedLog(bench.mysql.port, _BEHIND_S) as proxy:
            far = bench.ran(
                name,
                snapshot,
                _TRANSACTIONS_PER_S,
                quiet_s=_BEHIND_S + 2.0,
                longest_s=10 * _BEHIND_S if snapshot is _MANY else 2.2 * _BEHIND_S,
                port=proxy.port,
            )
        yield Figure(name, far.flow, "rows/s", Peer("not behind", near.flow))
        yield Figure(f"{name}: until the first row", far.sealed[0][0] - far.asked, "s")


def _latency(bench: Bench) -> Iterator[Figure]:
    """How long a window is open when nobody writes."""
    ran = bench.ran("small chunks", _SMALL, longest_s=20.0)
    for share in (0.5, 0.99):
        name = f"idle, chunks of 10 ms: window open to closed, p{100 * share:.0f}"
        yield Figure(name, 1e3 * quantile(ran.windows, share), "ms", Peer("allowed", _ALLOWED_MS))
    waited = 1e3 * quantile(ran.waited, 0.99)
    yield Figure("of that behind the reading of its chunk, p99", waited, "ms")


def _debezium(bench: Bench, chunk_rows: int, rows: int) -> Snapshot:
    rows = rows * bench.rows // _ROWS
    say(f"  {_debezium_name(chunk_rows)}, rows {rows:,}")
    log = nothing(bench.mysql, ELEVEN)
    # The server lets a client in without TLS once it knows the password, which our own driver sees to.
    with bench.mysql.connect(CAPTURE) as connection:
        return incremental_snapshot(bench.parts, log, rows, chunk_rows, Meter(connection, bench.mysql.pid))


def _debezium_name(chunk_rows: int) -> str:
    return f"Debezium 3.6.3, chunks of {chunk_rows:,}"


def _windows(number: int) -> str:
    return f"{number} window{'s' if number > 1 else ''}"


_PARTS: Final[dict[str, Callable[[Bench], Iterator[Figure]]]] = {
    "rate": _rate,
    "behind": _behind,
    "latency": _latency,
}


if __name__ == "__main__":
    main()
