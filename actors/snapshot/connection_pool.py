"""Connections to the source that its readers share.

A server closes a connection that has been idle for long (wait_timeout), and says so before it does. The pool doesn't
hand out such a connection again: a new one takes its place, and no statement fails for it.

All of them lead to one server, if its UUID is given: another one may have taken over its address in between.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from actors.source.connection import Source
from pipeline.config.settings import ServerSettings


class SourcePool:
    """Up to `size` connections, opened when needed; who asks for one more waits."""

    def __init__(self, settings: ServerSettings, size: int, server: str | None = None) -> None:
        self._settings = settings
        self._server = server
        self._slots = asyncio.Semaphore(size)
        self._idle: deque[Source] = deque()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Source]:
        """A connection for a while. Raises Transient (AnotherServer among it) or Definite if none can be opened."""
        async with self._slots:
            source = await self._take()
            try:
                yield source
            finally:
                if source.usable:
                    self._idle.append(source)
                else:
                    source.close()

    def close(self) -> None:
        """Closes the connections that no reader holds."""
        while self._idle:
            self._idle.pop().close()

    async def _take(self) -> Source:
        while self._idle:
            source = self._idle.pop()
            if source.usable:
                return source
            source.close()
        return await Source.connect(self._settings, self._server)
