"""`make bench-kafka`: how fast a sealed journal becomes messages in a real broker, and how fresh they are.

For each scenario a server writes a log, and Tidemark captures it into a journal. Then only the broker and the sink are
at work: the KafkaSink as the service runs it brings the journal into topics of four partitions, JSON without schemas,
exactly once. The peer is Debezium, which reads the same log and writes to the same broker with the producer
that Kafka Connect gives it, at least once; its first fifth isn't counted, since the JVM compiles meanwhile. Both take
turns. A figure counts only once the topic has all messages.

At last the whole service follows a thousand transactions a second. A consumer that reads what is committed compares
the moment of each message with the moment of its commit at the source.
"""

import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Final

from bench import _topics
from bench._command import command_line
from bench._debezium import catch_up
from bench._logs import ELEVEN, server, write
from bench._report import Figure, Peer, say, told
from bench._service import quantile
from bench._snapshots import filled_server, writers
from deploy.toolchain.kafka_broker import KafkaBroker
from deploy.toolchain.parts import Parts, locate

_TIMES: Final = 3
_BARS: Final = {"bulk": 300_000.0, "single": 120_000.0}
_ROWS: Final = 100_000
_TRANSACTIONS_PER_S: Final = 1_000
_WATCH_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Scenario:
    """A log of `rows` rows, so many in each transaction, and how many of them Debezium reads."""

    key: str
    name: str
    rows: int
    transaction: int
    debezium: int


SCENARIOS: Final = (
    Scenario("bulk", "transactions of 1,000 rows", 1_000_000, 1_000, 300_000),
    Scenario("single", "transactions of one row", 250_000, 1, 150_000),
)
_FRESH: Final = "fresh"


class Broker(KafkaBroker):
    """As one that has work is started: with a heap, and with the compiler that takes its time."""

    options = ("-Xmx1g", "-XX:+UseG1GC")


def main() -> None:
    """Measure every scenario, or those that are named."""
    wanted = command_line(__doc__, (*(scenario.key for scenario in SCENARIOS), _FRESH))
    parts = locate()
    assert parts.kafka is not None, "run `make setup-tests`"
    with (
        told("kafka") as figures,
        tempfile.TemporaryDirectory(prefix="tidemark-bench-") as folder,
        Broker(parts.kafka, Path(folder)) as broker,
    ):
        for scenario in SCENARIOS:
            if scenario.key in wanted.names:
                figures.extend(_delivered(parts, broker, _scaled(scenario, wanted.scale)))
        if _FRESH in wanted.names:
            figures.extend(_fresh(parts, broker, max(5.0, min(1.0, wanted.scale) * _WATCH_S)))


def _scaled(scenario: Scenario, scale: float) -> Scenario:
    return replace(scenario, rows=int(scenario.rows * scale), debezium=int(scenario.debezium * scale))


def _delivered(parts: Parts, broker: KafkaBroker, scenario: Scenario) -> Iterator[Figure]:
    """One scenario's figures; it has a server of its own, so that none bears what another left."""
    with server(parts) as mysql, tempfile.TemporaryDirectory(prefix="tidemark-bench-") as folder:
        log = write(mysql, ELEVEN, scenario.rows, scenario.transaction)
        _topics.capture(log, mysql.executed().replace("\n", ""), Path(folder))
        say(f"{scenario.name}: {log.rows:,} rows captured; load {load()}")
        _topics.create_topic(broker.address, f"bench.bench.{log.table}")
        ours, brokers, peers = [], [], []
        for turn in range(_TIMES):
            before = _topics.processor_s(broker.pid)
            ours.append(
                _topics.deliver(Path(folder) / "journal", broker.address, f"{scenario.key}{turn}", log.rows)
            )
            brokers.append(_topics.processor_s(broker.pid) - before)
            peers.append(catch_up(parts, log, scenario.debezium, "topics", broker.address))
            say(
                f"  {log.rows / ours[-1].seconds:,.0f} messages/s, Debezium {peers[-1].value:,.0f}; load {load()}"
            )
    rate = median(log.rows / each.seconds for each in ours)
    yield Figure(scenario.name, rate, "messages/s", Peer("asked for", _BARS[scenario.key]))
    yield Figure(scenario.name, rate, "messages/s", Peer(peers[0].name, median(peer.value for peer in peers)))
    own = median(each.processor_s for each in ours) / log.rows
    yield Figure(
        f"{scenario.name}: processor time",
        1e6 * own,
        "µs/message",
        Peer("broker", 1e6 * median(brokers) / log.rows),
    )


def load() -> str:
    """How many processes wanted a processor in the last minute."""
    return f"{os.getloadavg()[0]:.1f}"


def _fresh(parts: Parts, broker: KafkaBroker, watch_s: float) -> Iterator[Figure]:
    """From commit to message."""
    with (
        filled_server(parts, _ROWS) as mysql,
        tempfile.TemporaryDirectory(prefix="tidemark-bench-") as folder,
    ):
        with writers(mysql, _ROWS, _TRANSACTIONS_PER_S):
            ages = _topics.ages(mysql.port, broker.address, Path(folder), watch_s)
        say(f"  {len(ages) / watch_s:,.0f} messages/s; load {load()}")
    for share, allowed in ((0.5, 0.3), (0.99, 1.0)):
        fresh = quantile(ages, share)
        yield Figure(f"commit to message, p{100 * share:.0f}", fresh, "s", Peer("allowed", allowed))


if __name__ == "__main__":
    main()
