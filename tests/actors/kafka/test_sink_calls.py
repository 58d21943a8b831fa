"""Waits for others aren't hangs, and the thread's work ends with its actor."""

import asyncio
import queue

import pytest

from actors.kafka import sink_calls
from actors.kafka.sink_calls import SinkCalls
from actors.runtime.actor import Actor
from actors.runtime.mailbox import Mailbox
from actors.runtime.metrics import Metrics
from pipeline.messages.topology import ActorName, inbox
from tests.servers.awaiting import WITHIN_S


class Calling(Actor[str]):
    """Does nothing but call."""

    name = ActorName.KAFKA_SINK

    def __init__(self) -> None:
        super().__init__(Mailbox(inbox(ActorName.KAFKA_SINK)), Metrics())
        self.calls = SinkCalls(self)

    async def handle(self, message: str) -> None:
        """No message comes."""


async def test_a_thread_that_advances_is_no_hang_and_ends_once_the_actor_does() -> None:
    actor = Calling()
    turns, waits = queue.Queue[float](), asyncio.Queue[None]()
    loop = asyncio.get_running_loop()

    def work() -> None:
        while True:
            loop.call_soon_threadsafe(waits.put_nowait, None)
            actor._busy_since = turns.get()
            actor.calls.advanced()

    working = asyncio.ensure_future(actor.calls.in_thread(work))
    await waits.get()
    turns.put(0.0)  # it began long ago
    await waits.get()
    assert not actor.hung()
    working.cancel()
    actor.rest()
    actor.calls.release()
    ended = asyncio.create_task(actor.calls.end())
    await asyncio.sleep(0)
    turns.put(0.0)
    async with asyncio.timeout(WITHIN_S):
        await ended


async def test_who_does_not_answer_for_a_while_is_named_and_no_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    actor, answer = Calling(), asyncio.Event()
    monkeypatch.setattr(Calling, "patience", -1.0)
    actor.beat()
    waiting = asyncio.create_task(actor.calls.answered(answer.wait(), "the schema registry"))
    await asyncio.sleep(0)
    assert actor.calls.waited_for() is None and not actor.hung()
    monkeypatch.setattr(sink_calls, "BROKER_PATIENCE_S", 0.0)
    assert actor.calls.waited_for() == "the schema registry"
    answer.set()
    assert await waiting
    assert actor.calls.waited_for() is None and actor.hung()
    await actor.calls.end()
