"""Carries out a plan, and sees that a snapshot or a verification is going on meanwhile."""

import asyncio
import json
import os
import signal
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final, assert_never

import pymysql
from aiokafka.errors import KafkaError

from pipeline.messages.topology import ActorName
from tests.chaos import orders, plan, report
from tests.chaos.world import TOPIC, NotSo, World, follow, promote
from tests.servers.kafka import send
from tests.servers.source import connections, gives_log
from tests.servers.spark_cluster import jvm_of
from tests.servers.stopped import stop

CHUNK_ROWS: Final = 25
# More than these: a comparison opens the file of each chunk.
VERIFIED_ROWS: Final = 250
# So many verifications wait for their verdicts.
UNJUDGED: Final = 3
# A signal that isn't known to the service after so long is sent again, by another channel.
SENT_AGAIN_S: Final = 5.0
SENT_WITHIN_S: Final = 2.0

_ENDED: Final = frozenset({"completed", "failed", "stopped"})


@dataclass
class Snapshots:
    """Begins a snapshot whenever there's none, as an operator does who repeats a signal that he sees no answer to."""

    world: World
    begun: int = 0
    ended: Counter[str] = field(default_factory=Counter)
    _sent: int = 0
    _sent_at: float = 0.0
    _looked_at: float = 0.0

    @property
    def id(self) -> str:
        """Of the present one."""
        return f"s{self.begun}"

    def look(self) -> None:
        """See how it is, now and then."""
        now = time.monotonic()
        if now - self._looked_at < 0.5 or not (status := self.world.status()):
            return
        self._looked_at = now
        states = self.states(status)
        if states is None:
            self._send(now)
        else:
            self._end(states)

    def begin(self) -> None:
        """From now on it's another one."""
        self.begun += 1
        self._sent_at = 0.0

    def states(self, status: dict[str, Any]) -> dict[str, str] | None:
        """Of the present one's tables; None if the service doesn't know of it."""
        for snapshot in status.get("snapshots", []):
            if snapshot["id"] == self.id and snapshot["tables"]:
                return {table["table"]: table["state"] for table in snapshot["tables"]}
        return None

    def _send(self, now: float) -> None:
        if now - self._sent_at < SENT_AGAIN_S:
            return
        text = json.dumps({"id": self.id, **self._signal()})
        self._sent += 1
        if self._sent % 2:
            with suppress(KafkaError, TimeoutError):
                asyncio.run(asyncio.wait_for(send(self.world.broker, TOPIC, ("shop", text)), SENT_WITHIN_S))
        else:
            with (self.world.folder / "signals").open("a") as file:
                file.write(text + "\n")
        self._sent_at = now

    def _end(self, states: Mapping[str, str]) -> None:
        if _ENDED.issuperset(states.values()):
            self.ended.update(states.values())
            self.begin()

    def _signal(self) -> dict[str, Any]:
        data = {"type": "incremental", "data-collections": [".*"], "chunk-rows": CHUNK_ROWS}
        return {"type": "execute-snapshot", "data": data}


@dataclass
class Verifications(Snapshots):
    """Begins a verification of all tables whenever the one before has read them; how they ended is their verdict.

    Only UNJUDGED of them have been read and have no verdict yet, unless a strike at the selector waits for chunks: the
    sink, struck as well, may give no verdict until then.
    """

    _unjudged: list[str] = field(default_factory=list)

    @property
    def id(self) -> str:
        """Of the present one."""
        return f"v{self.begun}"

    def look(self) -> None:
        """See how they are, now and then."""
        super().look()
        snapshots = self.world.status().get("snapshots", [])
        for each in self._unjudged if snapshots else ():
            # The service has forgotten an old one, whatever became of it.
            tables: list[dict[str, Any]] = next((one["tables"] for one in snapshots if one["id"] == each), [])
            if None not in (results := [table["result"] for table in tables]):
                self.ended.update(result["verdict"] for result in results)
                self._unjudged = [one for one in self._unjudged if one != each]

    def _end(self, states: Mapping[str, str]) -> None:
        if not _ENDED.issuperset(states.values()):
            return
        if len(self._unjudged) < UNJUDGED or self._selector_waits():
            self._unjudged.append(self.id)
            self.begin()

    def _selector_waits(self) -> bool:
        return any(
            isinstance(order, orders.Strike) and order.actor is ActorName.CHUNK_SELECTOR
            for order in self.world.undone()
        )

    def _signal(self) -> dict[str, Any]:
        return {"type": "verify", "data": {"chunk-rows": VERIFIED_ROWS}}


@dataclass
class Nemesis:
    """Carries out faults, one after the other; what they did is counted in `struck`."""

    world: World
    patience_s: float | None
    struck: Counter[str] = field(default_factory=Counter)
    stood_still: list[report.Standstill] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=count)

    def carry_out(self, steps: Iterable[plan.Step]) -> None:
        """All of them, one after the other."""
        for step in steps:
            self.world.pass_time(step.after_s)
            self.strike(step.fault)

    def give_up(self) -> None:
        """All is as it should be again, and whatever was ordered has happened.

        An actor does one order with each message. After most of them the SparkSink starts Spark again, and its orders
        come faster than that. So each order has its own time.

        Raises NotSo where the service doesn't come back.
        """
        world = self.world
        self._order_clock(0.0)
        try:
            for left in range(len(world.undone()), 0, -1):
                world.wait(partial(self._has_less_to_do, left), "what was ordered has happened")
        except NotSo as late:
            raise NotSo(f"{late}\nleft: {world.undone()}") from late

    def _has_less_to_do(self, left: int) -> bool:
        return len(self.world.undone()) < left

    def strike(self, fault: plan.Fault) -> None:
        """Do it, and end it where it lasts."""
        match fault:
            case plan.ActorStruck(actor, deed, lasts_s):
                patience_s = self.patience_s if deed is plan.Deed.HANG else None
                self.world.give(orders.Strike(next(self._numbers), actor, deed, lasts_s, patience_s))
                self._count(f"{actor}: {deed}")
            case plan.ProcessStruck(how, lasts_s):
                self._strike_process(how, lasts_s)
            case plan.JvmKilled():
                os.kill(self.world.wait(lambda: jvm_of(self.world.service.pid), "a JVM") or 0, signal.SIGKILL)
                self._count("JVM: killed")
            case plan.SourceStruck(how, lasts_s):
                self._strike_source(how, lasts_s)
                self._count(f"MySQL: {how}")
            case plan.LinkStruck(link, weather, lasts_s):
                proxy = self.world.source_proxy if link is plan.Link.MYSQL else self.world.broker_proxy
                proxy.turn(weather)
                self.world.pass_time(lasts_s)
                proxy.turn(None)
                self._count(f"link to {link}: {weather}")
            case plan.BrokerKilled(lasts_s):
                self.world.broker.kill()
                self.world.pass_time(lasts_s)
                self.world.broker.start()
                self._count("broker: killed")
            case plan.DiskFilled(lasts_s):
                with full(self.world.house):
                    self.world.pass_time(lasts_s)
                self._count("disk: full")
            case plan.ClockMoved(seconds):
                self._order_clock(seconds)
                self._count("clock: moved")
            case _:
                assert_never(fault)

    def _count(self, what: str) -> None:
        self.struck[what] += 1

    def _order_clock(self, seconds: float) -> None:
        self.world.give(orders.MoveClock(next(self._numbers), seconds))

    def _strike_process(self, how: plan.Process, lasts_s: float) -> None:
        service = self.world.service
        match how:
            case plan.Process.KILLED:
                service.kill()
                service.start("/livez")
            case plan.Process.STOPPED:
                since = time.monotonic()
                stop(service.pid)
                # Nothing can be asked meanwhile.
                time.sleep(lasts_s)
                os.kill(service.pid, signal.SIGCONT)
                self.stood_still.append((since, time.monotonic()))
            case _:
                assert_never(how)
        self._count(f"process: {how}")

    def _strike_source(self, how: plan.Source, lasts_s: float) -> None:
        server = self.world.source
        match how:
            case plan.Source.RESTARTED:
                server.stop()
                server.start()
            case plan.Source.KILLED:
                server.kill()
                server.start()
            case plan.Source.STALLED:
                stop(server.pid)
                # Nothing can be asked meanwhile.
                time.sleep(lasts_s)
                os.kill(server.pid, signal.SIGCONT)
            case plan.Source.DUMP_ENDED:
                dump = self.world.wait(lambda: dumps(self.world), "a dump thread")
                with suppress(pymysql.err.OperationalError):  # it has ended by itself
                    server.sql(f"KILL {dump[0]}")
            case plan.Source.FAILED_OVER:
                self._fail_over()
            case _:
                assert_never(how)

    def _fail_over(self) -> None:
        """The replica takes the source's place with all that it had, and the source is its replica from then on."""
        world = self.world
        with world.address.moving():
            before = world.source
            (after,) = (server for server in world.servers if server is not before)
            before.sql("SET GLOBAL super_read_only = ON")
            [(late,)] = after.sql(
                f"SELECT WAIT_FOR_EXECUTED_GTID_SET('{before.executed()}', {world.within_s:.0f})"
            )
            assert late == 0, "the replica didn't catch up"
            promote(after)
            world.address.server = after
            world.source_proxy.leads_to = after.port
        before.kill()
        before.start()
        follow(before, after)


def dumps(world: World) -> list[int]:
    """The service's connections that give the log."""
    return [connection.id for connection in connections(world.source, world.account) if gives_log(connection)]


@contextmanager
def full(house: Path) -> Iterator[None]:
    """The disk has no byte left, for a while."""
    others = house / "others"
    try:
        with others.open("wb") as file, suppress(OSError):
            while room := (free := os.statvfs(house)).f_bavail * free.f_frsize:
                os.posix_fallocate(file.fileno(), file.seek(0, os.SEEK_END), room)
        yield
    finally:
        others.unlink()


def killed(struck: Counter[str]) -> int:
    """How many processes were killed."""
    return sum(number for what, number in struck.items() if what.endswith(": killed"))


def of_actors(struck: Counter[str]) -> dict[ActorName, int]:
    """How often each actor was struck."""
    return {
        actor: sum(n for what, n in struck.items() if what.startswith(f"{actor}: ")) for actor in ActorName
    }
