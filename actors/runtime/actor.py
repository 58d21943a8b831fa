"""The contract of an actor: one inbox, one loop, and a sign of life.

**One inbox.** What comes is a message of the mailbox, the result of a work that was begun (`begin_work`), or the moment
of `next_at`. The loop takes one after the other, so nothing in an actor runs beside a decision of its own.

**One loop.** `run` does what `begin` says, and then takes what comes until `ended`. By default that is when the mailbox
is closed and empty, and no work is under way. That is how a clean stop reaches an actor: its senders have ended, it
finishes what waits and returns. A cancellation is not a clean stop: the actor drops what is half done, and the
supervisor builds it again from the last sealed segment. Actors that are procedures have a `run` of their own
(CONTRIBUTING.md lists them). It ends likewise.

**A sign of life.** An actor that is at one piece of work for longer than `patience` (seconds) counts as hung. With the
supervisor's own look, and on a busy machine, that is found within 15 s. A long piece of work calls `beat` as it
advances. One that can't, at very large rows, has as much more time as it has more bytes (`patience_with`). Waiting is
not work. `send` sees to that where an actor waits for room in another's mailbox. Before an actor with a `run` of its
own waits for the world, it calls `rest`.
"""

import asyncio
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, ClassVar, Final, Generic, TypeVar

from actors.runtime.mailbox import Closed, Mailbox
from actors.runtime.metrics import Metrics
from pipeline.messages import topology
from pipeline.messages.topology import Edge

# So many bytes of rows may take all of an actor's patience: as many as a segment has, unless it is set otherwise.
PATIENCE_BYTES: Final = 32 << 20

# What an actor says of itself: JSON values by name.
StatusJson = dict[str, Any]

Received = TypeVar("Received")
Sent = TypeVar("Sent")
Made = TypeVar("Made")
Taken_contra = TypeVar("Taken_contra", contravariant=True)


class Sender(Generic[Taken_contra]):
    """Where an actor sends: an edge of the topology and the mailbox at its end."""

    def __init__(self, edge: Edge, mailbox: Mailbox[Taken_contra]) -> None:
        self.edge = edge
        self.mailbox = mailbox

    async def put(self, message: Taken_contra) -> None:
        """Leaves a message by the edge's policy; see Mailbox.put."""
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
        self._drained = False  # whether the mailbox is closed and empty
        self._message_came_last = False  # whether nothing was done by time since
        self._works: dict[asyncio.Task[Any], Callable[[Any], Awaitable[None]]] = {}
        self._done_works: deque[asyncio.Task[Any]] = deque()
        self._came = asyncio.Event()  # a work has ended, or the wait for a message

    async def run(self) -> None:
        """Begins, then takes what comes until there's nothing more to come."""
        try:
            await self.begin()
            while not self.ended():
                await self._take_next()
            self.beat()
        finally:
            self.rest()
            self.stop_listening()
            await self.release()

    async def begin(self) -> None:
        """Does what comes before the first message."""

    def takes(self) -> bool:
        """Returns whether another message may come now."""
        return True

    def next_at(self) -> float | None:
        """Returns when `time_came` is due, by `now`; None for never."""
        return None

    async def time_came(self) -> None:
        """Does what is due by time alone."""

    async def mailbox_closed(self) -> None:
        """Does what follows from the end of the messages."""

    def ended(self) -> bool:
        """Returns whether there's nothing more to come."""
        return self._drained and not self._works

    def now(self) -> float:
        """Returns the moment (s, the loop's clock) that `next_at` and the machine's `step` count by."""
        return asyncio.get_running_loop().time()

    def begin_work(
        self, work: Coroutine[Any, Any, Made], then: Callable[[Made], Awaitable[None]]
    ) -> asyncio.Task[Made]:
        """Begins a work beside the messages; `then` takes its result in its turn. Its error ends the actor."""
        task = asyncio.create_task(work)
        self._works[task] = then
        task.add_done_callback(self._work_ended)
        return task

    async def _take_next(self) -> None:
        """Waits for what comes next, and takes it: results of works before messages, and time after both.

        What is due by time waits for one message at most. Where the next one is always there, it would wait forever.
        """
        if self._taking is None and not self._drained:
            self.listen()
        await self._wait_for_next()
        if self._done_works:
            for _ in range(len(self._done_works)):
                task = self._done_works.popleft()
                await self._works.pop(task)(task.result())
        elif not self._time_has_turn() and (taking := self._message_wait()) is not None and taking.done():
            self._message_came_last = True
            await self.taken(taking)
            if self._drained:
                await self.mailbox_closed()
        else:
            self._message_came_last = False
            await self.time_came()

    def _time_has_turn(self) -> bool:
        return self._message_came_last and (at := self.next_at()) is not None and at <= self.now()

    async def _wait_for_next(self) -> None:
        """Waits for the end of a work, a message, or `next_at`. An end costs the same with any number of works."""
        at = self.next_at()
        left = None if at is None else max(0.0, at - self.now())
        if left is None and not self._works and self._message_wait() is None:
            left = 0.0
        try:
            async with asyncio.timeout(left):
                while not self._something_came():
                    self._came.clear()
                    await self._came.wait()
        except TimeoutError:
            return

    def _something_came(self) -> bool:
        return bool(self._done_works) or ((taking := self._message_wait()) is not None and taking.done())

    def _message_wait(self) -> asyncio.Task[Received] | None:
        """Returns the wait for a message, if one may come now."""
        return self._taking if self.takes() else None

    def _work_ended(self, task: asyncio.Task[Any]) -> None:
        self._done_works.append(task)
        self._came.set()

    async def take(self, message: Received) -> None:
        """Handles one message, and counts and times it."""
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
        """Begins to wait for a message; in a `run` of its own, until `taken` finds the mailbox closed and empty."""
        self._taking = asyncio.create_task(self.mailbox.get())
        self._taking.add_done_callback(lambda _: self._came.set())

    async def taken(self, taking: asyncio.Task[Received]) -> None:
        """Handles the message that this wait brought, with the next wait begun before."""
        try:
            message = taking.result()
        except Closed:
            self._taking, self._drained = None, True
            return
        self.listen()
        await self.take(message)

    def stop_listening(self) -> None:
        """Ends the wait for a message; a cancelled wait has taken nothing."""
        if self._taking is not None:
            self._taking.cancel()

    @abstractmethod
    async def handle(self, message: Received) -> None:
        """Does what the message asks for."""

    async def release(self) -> None:
        """Gives back connections, threads and files, after a clean end, a failure or a cancellation alike."""

    def status(self) -> StatusJson:
        """Returns what `/status` says of this actor, as JSON values."""
        return {}

    def not_ready(self) -> str | None:
        """Returns why this actor keeps the service from being ready (`/readyz`). Lag is no reason."""
        return None

    def waits(self) -> str | None:
        """Returns what it waits for that may never come, if for anything: a clean stop doesn't wait for that."""
        return None

    async def send(self, outlet: Sender[Sent], message: Sent) -> None:
        """Puts a message into another actor's mailbox; a wait for room there doesn't count as hanging.

        It's for the work itself. A task beside the work uses `Sender.put`, which is no sign of life of the work.
        """
        busy = self._busy_since is not None
        self.rest()
        await outlet.put(message)
        if busy:
            self.beat()

    def beat(self) -> None:
        """Says that work is getting on."""
        self._busy_since = time.monotonic()
        self.metrics.progressed(self.name)

    def rest(self) -> None:
        """Says that there's nothing at work now: what comes next is a wait."""
        self._busy_since = None

    def work_bytes(self) -> int:
        """Returns how many bytes of rows the piece of work has that it is at."""
        return 0

    def patience_with(self, bytes_: int) -> float:
        """Returns for how long (s) it may be at a piece of work that has so many bytes of rows.

        A row alone can have a gigabyte, and slow storage takes minutes for it. The work would never be done if it was
        broken off and began again.
        """
        return self.patience * max(1.0, bytes_ / PATIENCE_BYTES)

    def hung(self) -> str | None:
        """Returns why it's taken for hung, if it is: at one piece of work for longer than its patience."""
        patience = self.patience_with(self.work_bytes())
        if self._busy_since is None or time.monotonic() - self._busy_since <= patience:
            return None
        return f"it was at one piece of work for more than {patience:g} s"
