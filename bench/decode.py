"""`make bench-decode`: how fast a binlog becomes Arrow columns, beside the raw socket and the others who read binlogs.

For each scenario a server writes one log, and everyone reads that one while the server shares the machine: the raw
dump socket, whose bytes are thrown away (the limit); Tidemark's own actor, and again with another table captured than
the log's; mysql-replication with its decoder; and Debezium's embedded engine. The first three take turns, and a rate is
of all rows in the log and the median of five readings. The two slow ones read the first rows only, once, and the table
says how many; Debezium's first fifth isn't counted, since the JVM compiles meanwhile.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from bench._command import command_line
from bench._debezium import catch_up
from bench._logs import DOCUMENTS, ELEVEN, ONE, PARTS, SIXTY, Log, Table, server, write, write_diffs
from bench._readers import mysql_replication, raw_socket, readings, tidemark, tidemark_uncaptured
from bench._report import Figure, Peer, say, told
from deploy.toolchain.mysql_server import MysqlServer
from deploy.toolchain.parts import Parts, locate

_TIMES: Final = 5
_MB: Final = 1_000_000
_LIMIT: Final = "raw dump socket"
_DIFF_ALLOWED_US: Final = 5.0


@dataclass(frozen=True, slots=True)
class Scenario:
    """A log of `rows` rows, so many in each transaction, and how many of them the slow peers read.

    `diffs`: the rows are updates of JSON documents, of each of which the log has one diff.
    """

    key: str
    name: str
    table: Table
    rows: int
    transaction: int
    replication: int
    debezium: int
    forms: tuple[str, ...] = ("json",)
    compressed: bool = False
    diffs: bool = False


SCENARIOS: Final = (
    Scenario(
        "bulk", "transactions of 1,000 rows", ELEVEN, 1_000_000, 1_000, 60_000, 400_000,
        forms=("json", "connect"),
    ),
    Scenario("single", "transactions of one row", ELEVEN, 250_000, 1, 30_000, 200_000),
    Scenario("one", "1 column, 1,000 rows", ONE, 2_000_000, 1_000, 100_000, 400_000),
    Scenario("sixty", "60 columns, 1,000 rows", SIXTY, 200_000, 1_000, 10_000, 60_000),
    Scenario("documents", "JSON and text, 1,000 rows", DOCUMENTS, 200_000, 1_000, 10_000, 100_000),
    Scenario(
        "compressed", "compressed, 1,000 rows", ELEVEN, 1_000_000, 1_000, 0, 400_000, compressed=True
    ),
    Scenario("one-compressed", "one row, compressed", ELEVEN, 250_000, 1, 0, 200_000, compressed=True),
    Scenario("diffs", "JSON diffs, 1,000 rows", PARTS, 200_000, 1_000, 0, 0, forms=(), diffs=True),
)  # fmt: skip


def main() -> None:
    """Measure every scenario, or those that are named."""
    wanted = command_line(__doc__, (scenario.key for scenario in SCENARIOS))
    parts = locate()
    with told("decode") as figures:
        for scenario in SCENARIOS:
            if scenario.key in wanted.names:
                figures.extend(_measured(parts, _scaled(scenario, wanted.scale)))


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
        log = _written(mysql, scenario)
        written_s = time.monotonic() - begun
        say(f"{scenario.name}: {log.rows:,} rows, {log.bytes / _MB:.0f} MB, written in {written_s:.0f} s")
        raw, ours, passed = readings([raw_socket, tidemark, tidemark_uncaptured], log, log.rows, _TIMES)
        for peer in (Peer(_LIMIT, raw.rate), *_peers(parts, scenario, log)):
            yield Figure(scenario.name, ours.rate, "rows/s", peer)
        if log.images > log.rows:
            yield Figure(f"{scenario.name}: row images", ours.rate * log.images / log.rows, "images/s")
        yield Figure(
            f"{scenario.name}: processor time", ours.processor_us, "µs/row", Peer(_LIMIT, raw.processor_us)
        )
        if scenario.diffs:
            allowed = Peer("allowed", _DIFF_ALLOWED_US)
            yield Figure(f"{scenario.name}: for a diff and all else", ours.processor_us, "µs/diff", allowed)
        size = log.bytes / log.rows / _MB
        yield Figure(
            f"{scenario.name}: uncaptured", passed.rate * size, "MB/s", Peer(_LIMIT, raw.rate * size)
        )


def _written(mysql: MysqlServer, scenario: Scenario) -> Log:
    rows, transaction = scenario.rows, scenario.transaction
    if scenario.diffs:
        return write_diffs(mysql, rows, transaction)
    return write(mysql, scenario.table, rows, transaction, compressed=scenario.compressed)


def _peers(parts: Parts, scenario: Scenario, log: Log) -> Iterator[Peer]:
    if scenario.replication:
        [reading] = readings([mysql_replication], log, scenario.replication)
        yield Peer(f"mysql-replication, first {scenario.replication:,} rows", reading.rate)
    for form in scenario.forms:
        say(f"  Debezium to {form}")
        yield catch_up(parts, log, scenario.debezium, form)


if __name__ == "__main__":
    main()
