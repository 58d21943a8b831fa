"""A bounded mailbox that can be closed, and counts.

Each sender has room of its own in it (an `Edge` of the topology), so that a flood from one can't keep another's
message out; the receiver takes messages in the order in which they came.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Generic, TypeVar, assert_never

from pipeline.errors import InvariantBroken
from pipeline.topology import Edge, WhenFull

Message = TypeVar("Message")


class Closed(Exception):
    """The mailbox takes no more messages, since its receiver is being stopped."""


class Mailbox(Generic[Message]):
    """The waiting messages of one actor, in order of arrival; `depth` and `capacity` count messages."""

    def __init__(self, edges: tuple[Edge, ...]) -> None:
        self.capacity = sum(edge.bound for edge in edges)
        self.closed = False
        self._waiting: deque[tuple[Edge, Message]] = deque()
        self._taken: dict[Edge, int] = dict.fromkeys(edges, 0)
        self._changed = asyncio.Condition()

    @property
    def depth(self) -> int:
        """How many messages wait."""
        return len(self._waiting)

    def has_room(self, edge: Edge) -> bool:
        """Whether a message on this edge would be taken at once."""
        return self._taken[edge] < edge.bound

    async def put(self, edge: Edge, message: Message) -> None:
        """Leave a message, by the edge's policy when there's no room. Raises Closed once the mailbox is closed."""
        async with self._changed:
            match edge.when_full:
                case WhenFull.WAIT:
                    await self._changed.wait_for(lambda: self.closed or self.has_room(edge))
                case WhenFull.BOUNDED:
                    if not self.has_room(edge):
                        raise InvariantBroken(f"more than {edge.bound} messages under way: {edge.why}")
                case WhenFull.NEWEST:
                    if not self.has_room(edge):
                        self._forget_oldest(edge)
                case _:
                    assert_never(edge.when_full)
            if self.closed:
                raise Closed
            self._waiting.append((edge, message))
            self._taken[edge] += 1
            self._changed.notify_all()

    async def close(self) -> None:
        """Take no more; what waits can still be received."""
        async with self._changed:
            self.closed = True
            self._changed.notify_all()

    async def get(self) -> Message:
        """The next message. Raises Closed when there's none and there won't be."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.closed or bool(self._waiting))
            if not self._waiting:
                raise Closed
            edge, message = self._waiting.popleft()
            self._taken[edge] -= 1
            self._changed.notify_all()
            return message

    async def __aiter__(self) -> AsyncIterator[Message]:
        """All messages until the mailbox is closed and empty."""
        while True:
            try:
                message = await self.get()
            except Closed:
                return
            yield message

    def _forget_oldest(self, edge: Edge) -> None:
        oldest = next(item for item in self._waiting if item[0] is edge)
        self._waiting.remove(oldest)
        self._taken[edge] -= 1
