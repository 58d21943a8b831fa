"""A bounded mailbox that can be closed and emptied, and counts.

Each sender has room of its own in it (an `Edge` of the topology), so a flood from one can't keep another's message out.
The receiver takes messages in the order in which they came. Room is counted in messages. For messages with rows of the
log it is counted in bytes too. A message is accepted while those before it weigh less than the edge may hold.

A mailbox lives as long as the service. It has two operations besides messages. It's *closed* in a clean stop, once its
senders have ended: waiting messages can still be received, and then the receiver ends. It's *emptied* when its receiver
is built again after a failure: waiting messages were meant for the lost state. Outside senders that wait for room keep
waiting, and their message is the first that the new receiver sees.

All of it happens on one event loop, and nothing is awaited between a check and its action. So a cancelled `put` has
left no message and a cancelled `get` has taken none.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Generic, TypeVar, assert_never

from pipeline.errors import InvariantBroken
from pipeline.messages.message_size import weight
from pipeline.messages.topology import Edge, WhenFull

Message = TypeVar("Message")


class Closed(Exception):
    """The mailbox is closed: the receiver gets no more messages; no receiver will take a sender's message."""


class Mailbox(Generic[Message]):
    """The waiting messages of one actor, in order of arrival; `depth` and `capacity` count messages."""

    def __init__(self, edges: tuple[Edge, ...]) -> None:
        self.capacity = sum(edge.bound for edge in edges)
        self.closed = False
        self.emptied = 0
        self._waiting: deque[tuple[Edge, Message, int]] = deque()
        self._taken: dict[Edge, int] = dict.fromkeys(edges, 0)
        self._weight: dict[Edge, int] = dict.fromkeys(edges, 0)
        self._changed = asyncio.Event()

    @property
    def depth(self) -> int:
        """How many messages wait."""
        return len(self._waiting)

    def has_room(self, edge: Edge) -> bool:
        """Whether a message on this edge would be taken at once."""
        return self._taken[edge] < edge.bound and (edge.bytes is None or self._weight[edge] < edge.bytes)

    async def put(self, edge: Edge, message: Message) -> None:
        """Leave a message, by the edge's policy when there's no room.

        Once the mailbox is closed, its receiver has nothing more to do. Then a message on a BOUNDED or NEWEST edge (an
        order, an answer, news) is void and dropped. A WAIT edge carries what must not be lost, so Closed is raised
        there.
        """
        if edge.when_full is WhenFull.WAIT:
            await self._until(lambda: self.closed or self.has_room(edge))
            if self.closed:
                raise Closed
        elif self.closed:
            return
        elif not self.has_room(edge):
            self._make_room(edge)
        heavy = 0 if edge.bytes is None else weight(message)
        self._waiting.append((edge, message, heavy))
        self._taken[edge] += 1
        self._weight[edge] += heavy
        self._wake()

    async def get(self) -> Message:
        """The next message. Raises Closed when there's none and there won't be."""
        await self._until(lambda: self.closed or bool(self._waiting))
        if not self._waiting:
            raise Closed
        edge, message, heavy = self._waiting.popleft()
        self._taken[edge] -= 1
        self._weight[edge] -= heavy
        self._wake()
        return message

    async def __aiter__(self) -> AsyncIterator[Message]:
        """All messages until the mailbox is closed and empty."""
        while True:
            try:
                message = await self.get()
            except Closed:
                return
            yield message

    async def wait_closed(self) -> None:
        """Waits until it is closed. Messages may be waiting in it then."""
        await self._until(lambda: self.closed)

    def close(self) -> None:
        """Take no more; what waits can still be received. Closing twice is the same as once."""
        self.closed = True
        self._wake()

    def empty(self) -> None:
        """Drops waiting messages, because the receiver is being built again."""
        self._waiting.clear()
        self._taken = dict.fromkeys(self._taken, 0)
        self._weight = dict.fromkeys(self._weight, 0)
        self.emptied += 1
        self._wake()

    async def wait_emptied(self, times: int) -> int:
        """Wait until it has been emptied more than `times` times; returns how often by then."""
        await self._until(lambda: self.emptied > times)
        return self.emptied

    def _make_room(self, edge: Edge) -> None:
        match edge.when_full:
            case WhenFull.NEWEST:
                oldest = next(i for i, (of, _, _) in enumerate(self._waiting) if of is edge)
                del self._waiting[oldest]
                self._taken[edge] -= 1
            case WhenFull.BOUNDED:
                raise InvariantBroken(
                    f"more than {edge.bound} messages from {edge.sender} to {edge.receiver} under way, "
                    f"though {edge.why}"
                )
            case WhenFull.WAIT:
                raise InvariantBroken(f"a message from {edge.sender} to {edge.receiver} didn't wait for room")
            case _:
                assert_never(edge.when_full)

    async def _until(self, ready: Callable[[], bool]) -> None:
        while not ready():
            await self._changed.wait()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
