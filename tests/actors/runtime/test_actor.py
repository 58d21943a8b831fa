"""The actor's contract: how it ends, what is counted, and when it's taken for hung."""

import asyncio

import pytest

from actors.runtime.actor import PATIENCE_BYTES, Actor, Sender
from actors.runtime.mailbox import Mailbox
from actors.runtime.metrics import Metrics
from pipeline import metrics as catalogue
from pipeline.errors import Transient
from pipeline.messages import topology
from pipeline.messages.names import UNNAMED
from pipeline.messages.topology import EDGES
from tests.servers.awaiting import WITHIN_S

EDGE = next(edge for edge in EDGES if edge.sender is topology.ActorName.BINLOG_READER)


class Scribe(Actor[str]):
    """Writes down what happens to it."""

    name = topology.ActorName.BINLOG_READER
    patience = -1.0  # any work takes it too long

    def __init__(self) -> None:
        super().__init__(Mailbox((EDGE,)), Metrics())
        self.story: list[str] = []
        self.at_work = asyncio.Event()

    async def handle(self, message: str) -> None:
        self.story.append(message)
        if message == "fail":
            raise Transient("it failed")
        if message == "stay":
            self.at_work.set()
            await asyncio.Event().wait()

    async def release(self) -> None:
        self.story.append("released")


async def test_it_handles_all_that_waits_and_releases() -> None:
    scribe = Scribe()
    await scribe.mailbox.put(EDGE, "a")
    await scribe.mailbox.put(EDGE, "b")
    scribe.mailbox.close()
    await scribe.run()
    assert scribe.story == ["a", "b", "released"]
    handled = {"actor": scribe.name, "message": UNNAMED, "outcome": "done"}
    assert scribe.metrics.value(catalogue.HANDLED, **handled) == 2
    assert scribe.metrics.value(catalogue.PROGRESS, actor=scribe.name) > 0


async def test_after_a_failure_it_only_releases() -> None:
    scribe = Scribe()
    await scribe.mailbox.put(EDGE, "fail")
    await scribe.mailbox.put(EDGE, "a")
    with pytest.raises(Transient):
        await scribe.run()
    assert scribe.story == ["fail", "released"]
    handled = {"actor": scribe.name, "message": UNNAMED, "outcome": "failed"}
    assert scribe.metrics.value(catalogue.HANDLED, **handled) == 1


async def test_after_a_cancellation_it_only_releases_and_at_work_it_can_hang() -> None:
    scribe = Scribe()
    run = asyncio.create_task(scribe.run())
    assert not scribe.hung()
    await scribe.mailbox.put(EDGE, "stay")
    await scribe.at_work.wait()
    assert scribe.hung()
    run.cancel()
    await asyncio.wait({run})
    assert run.cancelled()
    assert not scribe.hung()
    assert scribe.story == ["stay", "released"]
    handled = {"actor": scribe.name, "message": UNNAMED, "outcome": "cancelled"}
    assert scribe.metrics.value(catalogue.HANDLED, **handled) == 1


async def test_waiting_for_room_is_rest_and_going_on_is_work() -> None:
    scribe = Scribe()
    outlet = Sender(EDGE, Mailbox[str]((EDGE,)))
    for _ in range(EDGE.bound):
        await outlet.put("x")
    scribe.beat()
    sending = asyncio.create_task(scribe.send(outlet, "y"))
    await asyncio.tasks.sleep(0)
    assert not scribe.hung()
    await outlet.mailbox.get()
    await sending
    assert scribe.hung()
    scribe.rest()
    await outlet.mailbox.get()
    await scribe.send(outlet, "z")
    assert not scribe.hung()


def test_work_on_more_bytes_may_take_longer_and_on_few_as_long_as_any() -> None:
    scribe = Scribe()
    few, many = (scribe.patience_with(times * PATIENCE_BYTES) for times in (0, 3))
    assert (few, many) == (Scribe.patience, 3 * Scribe.patience)


async def next_taken(scribe: Scribe) -> bool:
    """Let it take what comes next; whether it still listens then."""
    waiting = scribe._taking
    assert waiting is not None
    await asyncio.wait({waiting})
    await scribe.taken(waiting)
    return scribe._taking is not None


async def test_one_that_waits_for_other_things_too_takes_what_comes_until_the_close() -> None:
    scribe = Scribe()
    scribe.listen()
    for message in ("a", "b"):
        await scribe.mailbox.put(EDGE, message)
        assert await next_taken(scribe)
    scribe.mailbox.close()
    assert not await next_taken(scribe)
    assert scribe.story == ["a", "b"]
    scribe.stop_listening()


async def test_the_next_wait_has_begun_before_a_message_is_handled() -> None:
    scribe = Scribe()
    scribe.listen()
    first = scribe._taking
    await scribe.mailbox.put(EDGE, "stay")
    handling = asyncio.create_task(next_taken(scribe))
    await scribe.at_work.wait()
    assert scribe._taking is not first
    handling.cancel()
    await asyncio.wait({handling})
    scribe.stop_listening()


class Punctual(Scribe):
    """Its clock has reached an hour of which the loop's own clock knows nothing."""

    def now(self) -> float:
        return 1e12

    def next_at(self) -> float | None:
        return 1e12 if not self._drained else None

    async def time_came(self) -> None:
        self.story.append("time came")
        self.mailbox.close()


async def test_what_is_due_comes_by_the_actors_own_clock() -> None:
    punctual = Punctual()
    async with asyncio.timeout(WITHIN_S):
        await punctual.run()
    assert punctual.story[0] == "time came"


class Pressed(Scribe):
    """Something is always due, and the next message is there before it has handled one."""

    def next_at(self) -> float | None:
        return None if self._drained else 0.0

    async def time_came(self) -> None:
        self.story.append("time came")

    async def handle(self, message: str) -> None:
        await super().handle(message)
        if message == "d":
            self.mailbox.close()
            return
        await self.mailbox.put(EDGE, chr(ord(message) + 1))
        assert self._taking is not None
        await asyncio.wait({self._taking})


async def test_what_is_due_waits_for_one_message_at_most() -> None:
    pressed = Pressed()
    await pressed.mailbox.put(EDGE, "a")
    async with asyncio.timeout(WITHIN_S):
        await pressed.run()
    through = pressed.story.index("a"), pressed.story.index("d") + 1
    assert pressed.story[slice(*through)] == ["a", "time came", "b", "time came", "c", "time came", "d"]
