"""Signals by HTTP: each request waits here for its answer.

A request that can't be answered (the listener ends, or the time is up) has an unknown end: its signal may
still take effect. It's safe to send it again with the same id, which is taken once.
"""

import asyncio
import uuid
from typing import Any

from actors.signals.channel import IncomingSignal
from pipeline.errors import Transient
from pipeline.messages.signals import SignalAnswer
from pipeline.messages.topology import MOST_SIGNALS
from pipeline.snapshot.checkpoint import Checkpoint


class Unanswered(Transient):
    """There's no answer; the same signal with the same id may be sent again."""


class SignalRest:
    """The channel; it lives as long as the HTTP server, while listeners come and go."""

    name = "rest"

    def __init__(self) -> None:
        self._arrived: asyncio.Queue[IncomingSignal] = asyncio.Queue(MOST_SIGNALS)
        self._waiting: set[asyncio.Future[SignalAnswer]] = set()

    async def ask(self, text: bytes, timeout_s: float) -> SignalAnswer:
        """The answer to this signal. Raises Unanswered."""
        answered: asyncio.Future[SignalAnswer] = asyncio.get_running_loop().create_future()
        default_id = str(uuid.uuid4())

        async def answer(answer: SignalAnswer) -> None:
            if not answered.done():
                answered.set_result(answer)

        try:
            self._arrived.put_nowait(IncomingSignal(text, answer, default_id))
        except asyncio.QueueFull as error:
            raise Unanswered(f"{MOST_SIGNALS} signals wait already") from error
        self._waiting.add(answered)
        try:
            async with asyncio.timeout(timeout_s):
                return await answered
        except TimeoutError as error:
            raise Unanswered(
                f"the signal wasn't answered within {timeout_s:g} s (without an id of its own it has {default_id})"
            ) from error
        finally:
            self._waiting.discard(answered)

    async def receive(self) -> IncomingSignal:
        """The next request's body."""
        return await self._arrived.get()

    async def sealed(self, checkpoint: Checkpoint) -> None:
        """Does nothing: the sender has the answer, and can query the later progress (GET /signals/{id})."""

    def status(self) -> dict[str, Any]:
        """How many wait for their answer."""
        return {"waiting": len(self._waiting)}

    async def close(self) -> None:
        """Tell all who wait that this listener has ended."""
        for answered in self._waiting:
            if not answered.done():
                answered.set_exception(Unanswered("the service is stopping or starting again"))
