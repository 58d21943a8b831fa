"""`make bench-kafka`: how fast a sealed journal becomes messages in a real broker, and how fresh they are.

For each scenario a server writes a log, and Tidemark captures it into a journal. Then only the broker and the sink are
at work: the KafkaSink as the service runs it brings the journal into topics of four partitions, JSON without schemas,
exactly once. The peer is Debezium, which reads the same log and writes to the same broker with the producer
that Kafka Connect gives it, at least once; its first fifth isn't counted, since the JVM compiles meanwhile. The limit
is Kafka's own producer in Java: it sends the same messages as ready bytes, in Kafka transactions, to the same broker.
All take turns. A figure counts only once the topic has all messages.

At last the whole service follows a thousand transactions a second. A consumer that reads what is committed compares
the moment of each message with the moment of its commit at the source: with topics alone, and beside the lake. Then the
lake's own freshness is compared with that of a service without topics. Both take turns there, too.
"""

import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Final

from bench import _lake, _topics
from bench._command import command_line
from bench._debezium import catch_up
from bench._logs import DATABASE, ELEVEN, server, write
from bench._processes import processor_s
from bench._report import Figure, Peer, say, told
from bench._service import quantile
from bench._snapshots import TABLE, filled_server, writers
from deploy.toolchain.kafka_broker import KafkaBroker
from deploy.toolchain.mysql_server import MysqlServer
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
_BESIDE: Final = "beside"
# How often the lake's freshness is measured with topics and without.
_TURNS: Final = 2
_MERGE_AFTER_S: Final = 10.0


class Broker(KafkaBroker):
    """As one that has work is started: with a heap, and with the compiler that takes its time."""

    options = ("-Xmx1g", "-XX:+UseG1GC")


def main() -> None:
    """Measure every scenario, or those that are named."""
    wanted = command_line(__doc__, (*(scenario.key for scenario in SCENARIOS), _FRESH, _BESIDE))
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
        if _BESIDE in wanted.names:
            figures.extend(_beside_lake(parts, broker, max(5.0, min(1.0, wanted.scale) * _WATCH_S)))


def _scaled(scenario: Scenario, scale: float) -> Scenario:
    return replace(scenario, rows=int(scenario.rows * scale), debezium=int(scenario.debezium * scale))


def _delivered(parts: Parts, broker: KafkaBroker, scenario: Scenario) -> Iterator[Figure]:
    """One scenario's figures; it has a server of its own, so that none bears what another left."""
    with server(parts) as mysql, tempfile.TemporaryDirectory(prefix="tidemark-bench-") as folder:
        log = write(mysql, ELEVEN, scenario.rows, scenario.transaction)
        _topics.capture(log, mysql.executed().replace("\n", ""), Path(folder))
        say(f"{scenario.name}: {log.rows:,} rows captured; load {load()}")
        _topics.create_topic(broker.address, f"bench.{DATABASE}.{log.table}")
        ours, brokers, peers, limits = [], [], [], []
        for turn in range(_TIMES):
            before = processor_s(broker.pid)
            ours.append(
                _topics.deliver(Path(folder) / "journal", broker.address, f"{scenario.key}{turn}", log.rows)
            )
            brokers.append(processor_s(broker.pid) - before)
            peers.append(catch_up(parts, log, scenario.debezium, "topics", broker.address))
            sent = f"{scenario.key}{turn}.{DATABASE}.{log.table}"
            limits.append(_topics.produce(parts, broker.address, sent, f"limit-{scenario.key}", log.rows))
            say(
                f"  {log.rows / ours[-1].seconds:,.0f} messages/s, Debezium {peers[-1].value:,.0f},"
                f" ready messages {limits[-1].value:,.0f}; load {load()}"
            )
    rate = median(log.rows / each.seconds for each in ours)
    yield Figure(scenario.name, rate, "messages/s", Peer("asked for", _BARS[scenario.key]))
    yield Figure(scenario.name, rate, "messages/s", Peer(peers[0].name, median(peer.value for peer in peers)))
    yield Figure(
        scenario.name, rate, "messages/s", Peer(limits[0].name, median(limit.value for limit in limits))
    )
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
    yield from _of_messages("commit to message", ages)


def _of_messages(name: str, ages: Sequence[float]) -> Iterator[Figure]:
    for share, allowed in ((0.5, 0.3), (0.99, 1.0)):
        fresh = quantile(ages, share)
        yield Figure(f"{name}, p{100 * share:.0f}", fresh, "s", Peer("allowed", allowed))


def _beside_lake(parts: Parts, broker: KafkaBroker, watch_s: float) -> Iterator[Figure]:
    """From commit to message beside the lake, and from commit to the lake with topics and without."""
    alone, beside, ages = list[float](), list[float](), list[float]()
    with (
        filled_server(parts, _ROWS) as mysql,
        tempfile.TemporaryDirectory(prefix="tidemark-bench-") as folder,
    ):
        for turn in range(_TURNS):
            alone += _lake_alone(mysql, Path(folder, f"alone{turn}"), watch_s)
            came, of_lake = _both(mysql, broker, Path(folder, f"both{turn}"), f"both{turn}", watch_s)
            ages += came
            beside += of_lake
            say(f"  {len(came) / watch_s:,.0f} messages/s; load {load()}")
    yield from _of_messages("commit to message, beside the lake", ages)
    for share in (0.5, 0.99):
        without = Peer("without topics, at most x1.2", quantile(alone, share))
        yield Figure(
            f"commit to lake, beside topics, p{100 * share:.0f}", quantile(beside, share), "s", without
        )


def _lake_alone(mysql: MysqlServer, folder: Path, watch_s: float) -> list[float]:
    with _beside_writers(mysql, _lake_order(mysql, folder, watch_s)) as service:
        return service.result().freshness


def _both(
    mysql: MysqlServer, broker: KafkaBroker, folder: Path, prefix: str, watch_s: float
) -> tuple[list[float], list[float]]:
    """How old messages were, and how fresh the lake."""
    order = replace(_lake_order(mysql, folder, watch_s), brokers=broker.address, topics=prefix)
    with _beside_writers(mysql, order) as service:
        ages = _topics.watch(broker.address, prefix, watch_s)
        return ages, service.result().freshness


def _lake_order(mysql: MysqlServer, folder: Path, watch_s: float) -> _lake.Order:
    folder.mkdir()
    table = rf"{DATABASE}\.{TABLE}"
    longer = watch_s + 2 * _topics.SETTLING_S
    begun = str(folder / "begun")
    return _lake.Order(
        mysql.port, str(folder), table, table, watch_s=longer, merge_after_s=_MERGE_AFTER_S, begun=begun
    )


@contextmanager
def _beside_writers(mysql: MysqlServer, order: _lake.Order) -> Iterator[Future[_lake.Delivered]]:
    """A service that performs the order, and transactions at the source once it has its snapshot."""
    with ThreadPoolExecutor(1) as running:
        service = running.submit(_lake.deliver, order)
        while not Path(order.begun or "").exists():
            if service.done():
                service.result()
            time.sleep(0.1)
        with writers(mysql, _ROWS, _TRANSACTIONS_PER_S):
            yield service


if __name__ == "__main__":
    main()
