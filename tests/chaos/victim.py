"""The service under orders.

    python -m tests.chaos.victim ORDERS EVENTS [--without-lake] [--planted FAULT] run CONFIG

is `tidemark run CONFIG` whose actors do at their next message what they're ordered to. What the product has of pauses
between restarts, and of how many failures are too many, is for a service that isn't struck each second.
"""

import asyncio
import faulthandler
import sys
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, assert_never

from actors import chunk_selector
from actors.binlog_reader import BinlogReader
from actors.chunk_selector import ChunkSelector
from actors.journal_writer import JournalWriter
from actors.runtime.actor import Actor
from actors.runtime.mailbox import Mailbox
from actors.runtime.metrics import Metrics
from actors.runtime.supervisor import Build, LifeState, RestartLimits, Supervisor
from actors.schema_verifier import SchemaVerifier
from actors.service import assembly, cli
from actors.signal_listener import SignalListener
from actors.spark_sink import SparkSink
from actors.watermark_coordinator import WatermarkCoordinator
from pipeline.errors import Backoff
from pipeline.messages.topology import ActorName as Name
from pipeline.messages.topology import Group
from tests.chaos.orders import Count, Lines, MoveClock, Strike, What, read
from tests.chaos.plan import Deed
from tests.chaos.planted import Planted, plant
from tests.servers.service import LEAST_ROWS_OF_RANGE, NoSink, WithoutLake

LOOK_EVERY_S: Final = 0.02
LIMITS: Final = RestartLimits(Backoff(0.5, 4.0), calm_s=3.0, failures=10_000)

# Of each actor what it does with a message.
STEPS: Final[tuple[tuple[type[Actor[Any]], str], ...]] = (
    (SignalListener, "handle"),
    (BinlogReader, "_give"),
    (SchemaVerifier, "handle"),
    (WatermarkCoordinator, "handle"),
    (ChunkSelector, "handle"),
    (JournalWriter, "handle"),
    (SparkSink, "handle"),
    (NoSink, "handle"),
)
# How long each message takes an actor that's slow.
SLOW_S: Final = 0.2


class House:
    """What's to be done, and who's told what was."""

    def __init__(self, orders: Path, events: Path) -> None:
        self.orders = Lines(orders)
        self._events = Lines(events)
        self._done = {line["order"] for line in self._events.new() if line["what"] == What.DONE}
        self.strikes: defaultdict[Name, deque[Strike]] = defaultdict(deque)
        self.slow_until: defaultdict[Name, float] = defaultdict(float)
        self.clock_s = 0.0
        self.supervisor: Commanded

    def say(self, what: What, **told: Any) -> None:
        """Append it to the events."""
        self._events.append({"what": what, "at": time.monotonic(), **told})

    def take_orders(self) -> None:
        """Those that no process before has carried out."""
        for line in self.orders.new():
            order = read(line)
            if order.number in self._done:
                if isinstance(order, MoveClock):
                    self.clock_s = order.seconds  # the machine's clock stays where it was moved to
                continue
            match order:
                case Strike():
                    self.strikes[order.actor].append(order)
                case MoveClock():
                    self.clock_s = order.seconds
                    self.say(What.DONE, order=order.number)
                case Count():
                    self.say(What.DONE, order=order.number, counted=counted())
                case _:
                    assert_never(order)

    async def struck(self, actor: Actor[Any]) -> None:
        """An actor is about to do something with a message."""
        if time.monotonic() < self.slow_until[actor.name]:
            # It's what was ordered.
            await asyncio.sleep(SLOW_S)
        if not self.strikes[actor.name]:
            return
        strike = self.strikes[actor.name].popleft()
        self.say(What.DONE, order=strike.number)
        match strike.deed:
            case Deed.RAISE:
                raise RuntimeError("made to fail")
            case Deed.CANCEL:
                self.supervisor._tasks[actor.name].cancel()
            case Deed.HANG:
                if strike.patience_s is not None:
                    vars(actor)["patience"] = strike.patience_s
                await asyncio.Event().wait()
            case Deed.SLOW:
                self.slow_until[actor.name] = time.monotonic() + strike.lasts_s
            case _:
                assert_never(strike.deed)


class States(dict[Name, LifeState]):
    """What the actors are, which tells at once that one runs: it may be struck before anybody looks."""

    def __init__(self, house: House, states: Mapping[Name, LifeState]) -> None:
        super().__init__(states)
        self._house = house

    def __setitem__(self, name: Name, state: LifeState) -> None:
        super().__setitem__(name, state)
        if state is LifeState.RUNNING:
            self._house.say(What.RUNNING, actor=name)


class Commanded(Supervisor):
    """The supervisor, which tells what happens."""

    house: House

    def __init__(self, build: Build, mailboxes: Mapping[Name, Mailbox[Any]], metrics: Metrics) -> None:
        super().__init__(build, mailboxes, metrics, LIMITS)
        self.house.supervisor = self
        self.states = States(self.house, self.states)

    async def run(self) -> Any:
        """As the supervisor, under orders."""
        obeying = asyncio.create_task(self._obey(), name="obeying")
        try:
            return await super().run()
        finally:
            obeying.cancel()

    async def _obey(self) -> None:
        while True:
            self.house.take_orders()
            await asyncio.sleep(LOOK_EVERY_S)

    def _cancel(self, name: Name) -> None:
        if name in self.actors and self.actors[name].hung():
            faulthandler.dump_traceback()  # where its threads are
        super()._cancel(name)

    def _has_failed(self, group: Group, who: str, error: Exception) -> None:
        self.house.say(What.FAILED, who=who, kind=type(error).__name__, error=str(error)[:500])
        super()._has_failed(group, who, error)


def counted() -> dict[str, int]:
    """Tasks by what they do, threads by the first word of their name, and sockets."""
    tasks = Counter(f"task {task.get_coro().__qualname__}" for task in asyncio.all_tasks())  # type: ignore[union-attr]
    threads = Counter(f"thread {thread.name.split('-')[0].split('_')[0]}" for thread in threading.enumerate())
    links = [link for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    return {**tasks, **threads, "sockets": sum("socket:" in str(_target(link)) for link in links)}


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except FileNotFoundError:  # what listed the folder
        return ""


def command(house: House) -> None:
    """Put the actors, the supervisor and the clock under orders."""
    Commanded.house = house
    vars(assembly)["Supervisor"] = Commanded
    for owner, method in STEPS:
        setattr(owner, method, _commanded(house, getattr(owner, method)))
    seconds, nanoseconds = time.time, time.time_ns
    time.time = lambda: seconds() + house.clock_s
    time.time_ns = lambda: nanoseconds() + int(house.clock_s * 1e9)


def _commanded(house: House, original: Callable[..., Any]) -> Callable[..., Any]:
    async def commanded(actor: Actor[Any], *arguments: Any) -> Any:
        await house.struck(actor)
        return await original(actor, *arguments)

    return commanded


def main() -> None:
    """Be the service."""
    orders, events, *rest = sys.argv[1:]
    arguments = deque(rest)
    house = House(Path(orders), Path(events))
    chunk_selector.LEAST_ROWS_OF_RANGE = LEAST_ROWS_OF_RANGE  # type: ignore[misc]
    while (argument := arguments.popleft()) != "run":
        if argument == "--without-lake":
            assembly.Assembly = WithoutLake  # type: ignore[misc]
        else:
            plant(Planted(arguments.popleft()))
    command(house)
    house.say(What.BEGAN)
    cli.main(["run", *arguments])


if __name__ == "__main__":
    main()
