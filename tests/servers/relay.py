"""What the proxies before a server have in common: they listen on loopback, on a thread of their own, until they stop.

So one who isn't on an event loop can use them as well. What becomes of a connection is each one's own.
"""

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Final, Self

HOST: Final = "127.0.0.1"
PIECE: Final = 1 << 18

_STARTS_WITHIN_S: Final = 60.0


class Relay(ABC):
    """A proxy, for a while: `port` on `HOST` leads to the server's.

    New connections can be led to another one's (`leads_to`), as by a name at which a server was replaced.
    """

    def __init__(self, leads_to: int) -> None:
        self.port = 0
        self.leads_to = leads_to
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name=type(self).__name__)
        self._serving = threading.Event()
        self._loop: asyncio.AbstractEventLoop
        self._stop: asyncio.Event

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._serving.wait(_STARTS_WITHIN_S):
            raise TimeoutError("the proxy didn't start")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._on_its_thread(self._stop.set)
        self._thread.join()

    def _on_its_thread(self, change: Callable[[], None]) -> None:
        self._loop.call_soon_threadsafe(change)

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        links: set[asyncio.Task[None]] = set()

        # No coroutine: that would be a task of its own, which may be cancelled before it begins.
        def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            link = asyncio.create_task(self._link(reader, writer))
            links.add(link)
            link.add_done_callback(links.discard)
            # However it ends: it may be cancelled before it has begun, or while it connects to the server.
            link.add_done_callback(lambda _: writer.transport.abort())

        async with await asyncio.start_server(begin, HOST, limit=PIECE) as listening:
            self.port = listening.sockets[0].getsockname()[1]
            self._serving.set()
            await self._stop.wait()
            for link in links:
                link.cancel()
            await asyncio.gather(*links, return_exceptions=True)

    async def _server(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A new connection to the server; ConnectionError if there's none to be had."""
        return await asyncio.open_connection(HOST, self.leads_to, limit=PIECE)

    @abstractmethod
    async def _link(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, until one of its ends is closed."""


async def hand_on(ways: list[Coroutine[None, None, None]], ends: list[asyncio.StreamWriter]) -> None:
    """Both ways of a connection until one of them is over; then its ends are closed."""
    flowing = [asyncio.create_task(way) for way in ways]
    try:
        await asyncio.wait(flowing, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for end in ends:  # before anything is awaited: that may be cancelled
            end.transport.abort()
        for way in flowing:
            way.cancel()
        await asyncio.gather(*flowing, return_exceptions=True)
