"""The contract of an actor: one mailbox, one `run`, and a sign of life.

`run` is everything that the actor does. By default it takes message after message until its mailbox is closed and
empty, which is how a clean stop reaches it: its senders have ended, it finishes what waits, `drain`s, and returns. A
cancellation is not a clean stop: whatever was half done is dropped, and the supervisor builds anew from the last
sealed segment.

An actor that handles one message for longer than `patience` (seconds), not counting the time in which it waits for
room in another's mailbox, is taken for hung. A long piece of work calls `beat` as it gets on.
"""

import time
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, TypeVar

from actors.mailbox import Mailbox
from actors.metrics import Metrics
from pipeline import topology
from pipeline.topology import Edge

Message = TypeVar("Message")


class Outlet(Generic[Message]):
    """Where an actor sends: an edge of the topology and the mailbox at its end."""

    def __init__(self, edge: Edge, mailbox: Mailbox[Any]) -> None:
        self.edge = edge
        self.mailbox = mailbox


class Actor(ABC, Generic[Message]):
    """One actor; the subclass says what it does with a message."""

    name: ClassVar[topology.Actor]
    patience: ClassVar[float] = 15.0

    def __init__(self, mailbox: Mailbox[Message], metrics: Metrics) -> None:
        self.mailbox = mailbox
        self.metrics = metrics
        self._busy_since: float | None = None

    async def run(self) -> None:
        """Take messages until the mailbox is closed and empty."""
        try:
            async for message in self.mailbox:
                self.beat()
                started = time.monotonic()
                await self.handle(message)
                self._busy_since = None
                self.metrics.handled(self.name, message, time.monotonic() - started)
            await self.drain()
        finally:
            await self.release()

    @abstractmethod
    async def handle(self, message: Message) -> None:
        """Do what the message asks for."""

    async def drain(self) -> None:
        """Finish: the last message has been handled and there won't be another."""

    async def release(self) -> None:
        """Give back connections, threads and files, after a clean end, a failure or a cancellation alike."""

    def status(self) -> dict[str, Any]:
        """What `/status` says of this actor, as JSON values."""
        return {}

    async def send(self, outlet: Outlet[Message], message: Any) -> None:
        """Leave a message in another actor's mailbox; waiting for room there is no hanging."""
        busy, self._busy_since = self._busy_since, None
        await outlet.mailbox.put(outlet.edge, message)
        if busy is not None:
            self.beat()

    def beat(self) -> None:
        """Say that work is getting on."""
        self._busy_since = time.monotonic()
        self.metrics.progressed(self.name)

    def hung(self) -> bool:
        """Whether it has been at one piece of work for longer than its patience."""
        return self._busy_since is not None and time.monotonic() - self._busy_since > self.patience
