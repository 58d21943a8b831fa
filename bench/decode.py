"""`make bench-decode`: how fast a binlog becomes Arrow columns, beside the raw socket and the others who read binlogs.

For each scenario a server writes one log, and everyone reads that one while the server shares the machine: the raw
dump socket, whose bytes are thrown away (the limit); Tidemark's own actor; mysql-replication with its decoder; and
Debezium's embedded engine. A rate is of all rows in the log and the median of five readings; the two slow ones read
the first rows only, once, and the table says how many. Debezium's first fifth isn't counted, since the JVM
compiles meanwhile.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from statistics import median
from typing import Final

from bench import _readers
from bench._debezium import catch_up
from bench._logs import DOCUMENTS, ELEVEN, ONE, SIXTY, Log, Table, server, write
from bench._report import Figure, Peer, report
from deploy.toolchain.parts import Parts, locate

_TIMES: Final = 5
_MB: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Scenario:
    """A log of `rows` rows, so many in each transaction, and how many of them the slow peers read."""

    key: str
    name: str
    table: Table
    rows: int
    transaction: int
    replication: int
    debezium: int
    forms: tuple[str, ...] = ("json",)
    compressed: bool = False
    uncaptured: bool = False


SCENARIOS: Final = (
    Scenario(
        "bulk", "transactions of 1,000 rows", ELEVEN, 1_000_000, 1_000, 60_000, 400_000,
        forms=("json", "connect"), uncaptured=True,
    ),
    Scenario("single", "transactions of one row", ELEVEN, 250_000, 1, 30_000, 200_000),
    Scenario("one", "1 column, 1,000 rows", ONE, 2_000_000, 1_000, 100_000, 400_000),
    Scenario("sixty", "60 columns, 1,000 rows", SIXTY, 200_000, 1_000, 10_000, 60_000),
    Scenario("documents", "JSON and text, 1,000 rows", DOCUMENTS, 200_000, 1_000, 10_000, 100_000),
    Scenario(
        "compressed", "compressed, 1,000 rows", ELEVEN, 1_000_000, 1_000, 0, 400_000, compressed=True
    ),
)  # fmt: skip


def main() -> None:
    """Measure every scenario, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help=", ".join(s.key for s in SCENARIOS))
    parser.add_argument("--scale", type=float, default=1.0, help="of all numbers of rows; 1 is what's told")
    options = parser.parse_args()
    parts = locate()
    figures: list[Figure] = []
    for scenario in SCENARIOS:
        if not options.scenarios or scenario.key in options.scenarios:
            figures += _measured(parts, _scaled(scenario, options.scale))
    report("decode", figures)


def _scaled(scenario: Scenario, scale: float) -> Scenario:
    return replace(
        scenario,
        rows=int(scenario.rows * scale),
        replication=int(scenario.replication * scale),
        debezium=int(scenario.debezium * scale),
    )


def _measured(parts: Parts, scenario: Scenario) -> Iterator[Figure]:
    """One scenario's figures; it has a server of its own, so that none bears what another left."""
    with server(parts) as mysql:
        begun = time.monotonic()
        log = write(
            mysql, scenario.table, scenario.rows, scenario.transaction, compressed=scenario.compressed
        )
        _say(
            f"{scenario.name}: {log.rows:,} rows, {log.bytes / _MB:.0f} MB, written in {time.monotonic() - begun:.0f} s"
        )
        raw = _rate(_readers.rates(_readers.raw_socket, log, log.rows, _TIMES))
        ours = _rate(_readers.rates(_readers.tidemark, log, log.rows, _TIMES))
        for peer in (Peer("raw dump socket", raw), *_peers(parts, scenario, log)):
            yield Figure(scenario.name, ours, "rows/s", peer)
        if log.images > log.rows:
            yield Figure(f"{scenario.name}, row images", ours * log.images / log.rows, "images/s")
        if scenario.uncaptured:
            passed = _rate(_readers.rates(_readers.tidemark_uncaptured, log, log.rows, _TIMES))
            size = log.bytes / log.rows / _MB
            yield Figure(
                f"{scenario.name}, uncaptured", passed * size, "MB/s", Peer("raw dump socket", raw * size)
            )


def _peers(parts: Parts, scenario: Scenario, log: Log) -> Iterator[Peer]:
    if scenario.replication:
        _say("  mysql-replication")
        [rate] = _readers.rates(_readers.mysql_replication, log, scenario.replication, 1)
        yield Peer(f"mysql-replication, first {scenario.replication:,} rows", rate)
    for form in scenario.forms:
        _say(f"  Debezium to {form}")
        yield catch_up(parts, log, scenario.debezium, form)


def _rate(rates: list[float]) -> float:
    _say("  " + ", ".join(f"{rate:,.0f}" for rate in rates))
    return median(rates)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
