"""All that a run takes part in: two MySQL servers, a broker, proxies before them, writers, a small disk, the service.

One of the servers is the source, and the other one its replica. The service finds the source behind one address, a
proxy's, which leads to the other one after a failover.
"""

import asyncio
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeVar

from deploy.demo import shop
from deploy.demo.service import Service, write_config
from deploy.toolchain.kafka_broker import PROPERTIES, KafkaBroker
from deploy.toolchain.mysql_server import FULL_METADATA, GTIDS, SMALL_AND_QUICK, Account, MysqlServer
from deploy.toolchain.parts import Parts, locate
from pipeline.gtid.gtid_set import GtidSet
from pipeline.messages.topology import ActorName
from tests.chaos.orders import Event, Lines, Order, Strike, What, written
from tests.chaos.planted import Planted
from tests.servers import kafka, lasting_writer, proxy, relay, spark
from tests.servers.shop import SIZE

Value = TypeVar("Value")

TOPIC: Final = "signals"
# For whatever is waited for.
WITHIN_S: Final = 300.0
LOOK_EVERY_S: Final = 0.05

_REPLICA: Final = Account("replica", "replica")
_OPTIONS: Final = {**SMALL_AND_QUICK, **GTIDS, **FULL_METADATA, "general_log": "ON"}
_SETTINGS: Final = {
    "SOURCE__CONNECT_TIMEOUT_S": "3",
    "SOURCE__READ_TIMEOUT_S": "4",
    "SNAPSHOT__ROWS_PER_S": "500",
    "JOURNAL__SEAL_AFTER_MS": "200",
    "LAKE__MERGE_AFTER_S": "10",
    "SIGNALS__KAFKA__TOPIC": TOPIC,
    "SPARK__DRIVER_MEMORY": "1g",
}


class NotSo(Exception):
    """What was waited for didn't come, or the service ended by itself."""


@dataclass
class World:
    """What there is, while a run lasts. `house`: the small disk, with journal and lake."""

    parts: Parts
    folder: Path
    servers: list[MysqlServer]
    account: Account
    source_proxy: proxy.Proxy
    broker_proxy: proxy.Proxy
    broker: KafkaBroker
    address: lasting_writer.Address
    service: Service
    orders: Lines
    happened: Lines
    lake: bool
    within_s: float = WITHIN_S
    events: list[Event] = field(default_factory=list)
    done: dict[int, Event] = field(default_factory=dict)
    given: list[Order] = field(default_factory=list)
    meanwhile: list[Callable[[], None]] = field(default_factory=list)

    @property
    def house(self) -> Path:
        """The small disk."""
        return self.folder / "house"

    @property
    def source(self) -> MysqlServer:
        """The server that is the source by now."""
        return self.address.server

    def give(self, order: Order) -> None:
        """Tell the service; it takes effect when it can."""
        self.given.append(order)
        self.orders.append(written(order))

    def take_events(self) -> None:
        """See what the service has told."""
        for line in self.happened.new():
            told = dict(line)
            event = Event(What(told.pop("what")), told.pop("at"), told)
            self.events.append(event)
            if event.what is What.DONE:
                self.done[event.told["order"]] = event

    def undone(self) -> list[Order]:
        """The orders that haven't taken effect."""
        self.take_events()
        return [order for order in self.given if order.number not in self.done]

    def pass_time(self, seconds: float) -> None:
        """Let a while pass, in which all that goes on beside goes on."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self._look()
            time.sleep(min(left, LOOK_EVERY_S))

    def wait(self, told: Callable[[], Value], what: str, within_s: float | None = None) -> Value:
        """The first true value. Raises NotSo if there's none in time."""
        deadline = time.monotonic() + (within_s or self.within_s)
        while not (value := told()):
            if time.monotonic() > deadline:
                raise NotSo(
                    f"not within {within_s or self.within_s:.0f} s: {what}\n{self.service.last_words()}"
                )
            self._look()
            time.sleep(LOOK_EVERY_S)
        return value

    def status(self) -> dict[str, Any]:
        """What the service says of itself; nothing where it says nothing."""
        with suppress(OSError, ValueError):
            return self.service.status()
        return {}

    def reached(self) -> GtidSet:
        """How far the changes have come, into the lake if there's one."""
        status = self.status()
        return GtidSet.parse(
            (status.get("delivered_position") if self.lake else status.get("position")) or ""
        )

    def caught_up(self) -> bool:
        """Whether all that the source has by now comes in the time that's left to whoever waits for it."""
        executed = GtidSet.parse(self.source.executed())
        self.wait(lambda: executed <= self.reached(), "all that was executed has come")
        if self.lake:
            self.wait(lambda: self.status().get("rebuilding") == {}, "all mirrors are complete")
        return True

    def running(self, actor: ActorName) -> bool:
        """Whether an actor runs, as the service says."""
        return bool(self.status().get("actors", {}).get(actor, {}).get("state") == "running")

    def _look(self) -> None:
        self.take_events()
        if (code := self.service.exit_code) is not None:
            raise NotSo(f"the service ended by itself with {code}:\n{self.service.last_words()}")
        for each in self.meanwhile:
            each()


@contextmanager
def world(
    folder: Path,
    *,
    lake: bool = True,
    planted: Planted | None = None,
    settings: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[World]:
    """All of it, but that the service hasn't been started. `folder` has `house` in it, empty.

    `settings`: of the service, by the names of their variables.
    """
    parts = locate()
    assert parts.kafka is not None, "run `make setup-tests`"
    with ExitStack() as ends:
        servers = [
            ends.enter_context(MysqlServer(parts.mysql, folder / f"mysql{i}", _OPTIONS)) for i in range(2)
        ]
        account = _stock(*servers)
        source_proxy = ends.enter_context(proxy.Proxy(servers[0].port))
        broker_proxy = ends.enter_context(proxy.Proxy(0))
        own = "advertised.listeners=PLAINTEXT://127.0.0.1:"
        properties = PROPERTIES.replace(f"{own}{{port}}", f"{own}{broker_proxy.port}")
        assert properties != PROPERTIES
        broker = KafkaBroker(parts.kafka, folder / "kafka", properties)
        broker_proxy.leads_to = broker.port
        ends.enter_context(broker)
        asyncio.run(kafka.create_topic(broker, TOPIC))
        config = folder / "shop.toml"
        write_config(config, servers[0], account, parts, folder)
        environment = {
            **_SETTINGS,
            "SPARK__CONF": spark.toml(spark.quick()),
            "SOURCE__PORT": str(source_proxy.port),
            "JOURNAL__PATH": str(folder / "house" / "journal"),
            "LAKE__PATH": str(folder / "house" / "lake"),
            "SIGNALS__FILE": str(folder / "signals"),
            "SIGNALS__KAFKA__BOOTSTRAP_SERVERS": f'["{relay.HOST}:{broker_proxy.port}"]',
            **settings,
        }
        ends.enter_context(_environment(environment))
        orders, events = folder / "orders", folder / "events"
        program = ["-m", "tests.chaos.victim", str(orders), str(events)]
        program += [] if lake else ["--without-lake"]
        program += [] if planted is None else ["--planted", planted]
        service = Service(config, folder / "house" / "journal", folder / "log", tuple(program))
        ends.callback(service.kill)
        yield World(
            parts,
            folder,
            servers,
            account,
            source_proxy,
            broker_proxy,
            broker,
            lasting_writer.Address(servers[0]),
            service,
            Lines(orders),
            Lines(events),
            lake,
        )


def _stock(source: MysqlServer, replica: MysqlServer) -> Account:
    """The same shop on both, the one as the other's replica; the service's account."""
    for server in (source, replica):
        shop.fill(server, SIZE)
    # What was made so far is the same on both, and nobody's transaction.
    for server in (source, replica):
        reset(server)
    follow(replica, source, create=True)
    lasting_writer.admit(source)
    return source.create_capture_user(shop.DATABASE)


def reset(server: MysqlServer) -> None:
    """Begin its log anew."""
    server.sql("RESET BINARY LOGS AND GTIDS")


def follow(replica: MysqlServer, source: MysqlServer, *, create: bool = False) -> None:
    """Make a server another one's replica."""
    if create:
        source.sql(
            f"CREATE USER '{_REPLICA.user}'@'%' IDENTIFIED BY '{_REPLICA.password}'",
            f"GRANT REPLICATION SLAVE ON *.* TO '{_REPLICA.user}'@'%'",
        )
    replica.sql(
        f"CHANGE REPLICATION SOURCE TO SOURCE_HOST = '{source.host}', SOURCE_PORT = {source.port},"
        f" SOURCE_USER = '{_REPLICA.user}', SOURCE_PASSWORD = '{_REPLICA.password}', SOURCE_AUTO_POSITION = 1,"
        " GET_SOURCE_PUBLIC_KEY = 1, SOURCE_CONNECT_RETRY = 1, SOURCE_RETRY_COUNT = 10000",
        "START REPLICA",
        "SET GLOBAL super_read_only = ON",
    )


def promote(replica: MysqlServer) -> None:
    """Let it be nobody's replica."""
    replica.sql(
        "STOP REPLICA", "RESET REPLICA ALL", "SET GLOBAL super_read_only = OFF", "SET GLOBAL read_only = OFF"
    )


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    names = {f"TIDEMARK__{name}": value for name, value in values.items()}
    os.environ.update(names)
    try:
        yield
    finally:
        for name in names:
            del os.environ[name]


def strikes(given: list[Order]) -> list[Strike]:
    """Those among the orders."""
    return [order for order in given if isinstance(order, Strike)]
