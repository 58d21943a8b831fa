"""The contract of an actor: one mailbox, one `run`, and a sign of life.

`run` is everything that the actor does. By default it takes message after message until its mailbox is closed
and empty, which is how a clean stop reaches it: its senders have ended, it finishes what waits and
returns. An actor with a `run` of its own has to end likewise once its mailbox is closed. A cancellation is
not a clean stop: whatever was half done is dropped, and the supervisor builds anew from the last sealed
segment.

An actor that's at one piece of work for longer than `patience` (seconds) is taken for hung; with the supervisor's
own look, and on a busy machine, that's found within 15 s. A long piece of work calls `beat` as it gets on. Waiting
isn't work: not for room in another's mailbox (`send` sees to that), and not for the world, before which an actor
with a `run` of its own says `rest`.
"""

import asyncio
import time
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, TypeVar

from actors.runtime.mailbox import Closed, Mailbox
from actors.runtime.metrics import Metrics
from pipeline.messages import topology
from pipeline.messages.topology import Edge

# What an actor says of itself: JSON values by name.
StatusJson = dict[str, Any]

Received = TypeVar("Received")
Sent = TypeVar("Sent")
Taken_contra = TypeVar("Taken_contra", contravariant=True)


class Sender(Generic[Taken_contra]):
    """Where an actor sends: an edge of the topology and the mailbox at its end."""

    def __init__(self, edge: Edge, mailbox: Mailbox[Taken_contra]) -> None:
        self.edge = edge
        self.mailbox = mailbox

    async def put(self, message: Taken_contra) -> None:
        """Leave a message by the edge's policy; see Mailbox.put."""
        await self.mailbox.put(self.edge, message)


class Actor(ABC, Generic[Received]):
    """One actor; the subclass says what it does with a message."""

    name: ClassVar[topology.ActorName]
    patience: ClassVar[float] = 12.0

    def __init__(self, mailbox: Mailbox[Received], metrics: Metrics) -> None:
        self.mailbox = mailbox
        self.metrics = metrics
        self._busy_since: float | None = None
        self._taking: asyncio.Task[Received] | None = None

    async def run(self) -> None:
        """Take messages until the mailbox is closed and empty."""
        try:
            async for message in self.mailbox:
                await self.take(message)
            self.beat()
        finally:
            self.rest()
            await self.release()

    async def take(self, message: Received) -> None:
        """Handle one message, and count and time it."""
        self.beat()
        started = time.monotonic()
        outcome = "failed"
        try:
            await self.handle(message)
            outcome = "done"
        except asyncio.CancelledError:
            outcome = "cancelled"
            raise
        finally:
            self.rest()
            self.metrics.handled(self.name, message, time.monotonic() - started, outcome)

    def listen(self) -> None:
        """Begin to wait for a message, in a `run` that waits for other things as well.

        `_taking` is that wait, from here until `taken` finds the mailbox closed and empty: then it's None.
        """
        self._taking = asyncio.create_task(self.mailbox.get())

    async def taken(self, taking: asyncio.Task[Received]) -> None:
        """Handle the message that this wait brought, with the next wait begun before."""
        try:
            message = taking.result()
        except Closed:
            self._taking = None
            return
        self.listen()
        await self.take(message)

    def stop_listening(self) -> None:
        """Wait no more; a cancelled wait has taken nothing."""
        if self._taking is not None:
            self._taking.cancel()

    @abstractmethod
    async def handle(self, message: Received) -> None:
        """Do what the message asks for."""

    async def release(self) -> None:
        """Give back connections, threads and files, after a clean end, a failure or a cancellation alike."""

    def status(self) -> StatusJson:
        """What `/status` says of this actor, as JSON values."""
        return {}

    def not_ready(self) -> str | None:
        """Why the service isn't ready as far as this actor goes (`/readyz`); None if it is. Lag is no reason."""
        return None

    def waits(self) -> str | None:
        """What it waits for that may never come, None if for nothing such: a clean stop doesn't wait for that."""
        return None

    async def send(self, outlet: Sender[Sent], message: Sent) -> None:
        """Leave a message in another actor's mailbox; waiting for room there is no hanging.

        It's for the work itself. What a task beside it sends goes by `Sender.put`, and is no sign of life of the work.
        """
        busy = self._busy_since is not None
        self.rest()
        await outlet.put(message)
        if busy:
            self.beat()

    def beat(self) -> None:
        """Say that work is getting on."""
        self._busy_since = time.monotonic()
        self.metrics.progressed(self.name)

    def rest(self) -> None:
        """Say that there's nothing at work now: what comes next is a wait."""
        self._busy_since = None

    def hung(self) -> str | None:
        """Why it's taken for hung: it has been at one piece of work for longer than its patience. None if it isn't."""
        if self._busy_since is None or time.monotonic() - self._busy_since <= self.patience:
            return None
        return f"it was at one piece of work for more than {self.patience:g} s"
