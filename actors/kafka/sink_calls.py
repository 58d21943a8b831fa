"""What the KafkaSink waits for: the broker, the schema registry, and its own thread.

A wait for another process isn't hanging, since each has a time limit of its own. The thread says that it advances.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, ParamSpec, TypeVar

from actors.runtime.actor import Actor

# The status names a broker or a schema registry that hasn't answered for longer (s).
BROKER_PATIENCE_S: Final = 20.0

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class _Released(Exception):
    """The thread works for an actor that has ended."""


@dataclass(frozen=True, slots=True)
class _Wait:
    """For whom the sink waits, and since when."""

    whom: str
    since: float


class SinkCalls:
    """Calls others for an actor, one at a time, and keeps its sign of life right meanwhile."""

    def __init__(self, actor: Actor[Any]) -> None:
        self._actor = actor
        self._threads = ThreadPoolExecutor(1, "kafka")
        self._released = threading.Event()
        self._wait: _Wait | None = None

    def waited_for(self) -> str | None:
        """Returns who hasn't answered for a while, None if there's no such."""
        if self._wait is None or self._actor.now() - self._wait.since < BROKER_PATIENCE_S:
            return None
        return self._wait.whom

    async def at_broker(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Waits for the broker."""
        return await self.answered(work, "Kafka")

    async def answered(self, work: Coroutine[Any, Any, Result], whom: str) -> Result:
        """Waits for another process. That isn't hanging: each such wait has its own time limit."""
        self._actor.rest()
        self._wait = _Wait(whom, self._actor.now())
        try:
            return await work
        finally:
            self._wait = None
            self._actor.beat()

    async def in_thread(
        self, function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Result:
        """Calls a blocking function in the thread."""
        self._actor.beat()
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, lambda: function(*args, **kwargs))

    def advanced(self) -> None:
        """Says in the thread that its work is getting on. Raises once the actor does not wait for the thread."""
        if self._released.is_set():
            raise _Released
        self._actor.beat()

    def release(self) -> None:
        """Ends the thread's work where it next advances."""
        self._released.set()

    async def end(self) -> None:
        """Waits for the thread."""
        await asyncio.to_thread(self._threads.shutdown)
