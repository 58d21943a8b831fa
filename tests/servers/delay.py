"""A proxy before a server, on loopback, that hands the log on late: as if the stream were far behind.

Whatever goes to and fro is handed on at once, but for what the server sends on a connection that has asked for its
log: each piece of that waits until it's `delay_s` old. So a reader sees every event, in order, that much later, and
everyone else sees the server as it is. `delay_s` may be changed at any time, for what waits already as well: the log
is held by a delay for ever (`HELD`), and let go by none.

It runs on a thread of its own, so that one who isn't on an event loop can use it as well. Only for connections without
TLS, in which it couldn't see what's asked for.
"""

import asyncio
import math
import threading
from collections import deque
from contextlib import suppress
from types import TracebackType
from typing import Final

from pymysql.constants import COMMAND

HOST: Final = "127.0.0.1"
HELD: Final = math.inf

_PIECE: Final = 1 << 18
_LOG: Final = frozenset({COMMAND.COM_BINLOG_DUMP, COMMAND.COM_BINLOG_DUMP_GTID})
_STARTS_WITHIN_S: Final = 10.0


class DelayedLog:
    """The proxy, for a while: `port` on `HOST` leads to the server's, the log `delay_s` late.

    Connections that come from now on can be led to another one's (`server_port`).
    """

    def __init__(self, port: int, delay_s: float = 0.0) -> None:
        self.port = 0
        self._delay_s = delay_s
        self.server_port = port
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="delayed log")
        self._serving = threading.Event()
        self._loop: asyncio.AbstractEventLoop
        self._stop: asyncio.Event
        self._lines: set[_Line] = set()

    @property
    def delay_s(self) -> float:
        """How old a piece of the log is when it's handed on, in seconds."""
        return self._delay_s

    @delay_s.setter
    def delay_s(self, seconds: float) -> None:
        def change() -> None:
            self._delay_s = seconds
            for line in self._lines:
                line.look_again()

        self._loop.call_soon_threadsafe(change)

    @property
    def held_bytes(self) -> int:
        """How much of the log waits."""
        return sum(line.held_bytes for line in tuple(self._lines))

    def __enter__(self) -> "DelayedLog":
        self._thread.start()
        if not self._serving.wait(_STARTS_WITHIN_S):
            raise TimeoutError("the proxy didn't start")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        links: set[asyncio.Task[None]] = set()

        async def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            link = asyncio.create_task(self._link(reader, writer))
            links.add(link)
            link.add_done_callback(links.discard)

        async with await asyncio.start_server(begin, HOST, limit=_PIECE) as listening:
            self.port = listening.sockets[0].getsockname()[1]
            self._serving.set()
            await self._stop.wait()
            for link in links:
                link.cancel()
            await asyncio.gather(*links, return_exceptions=True)

    async def _link(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, until one of its ends is closed."""
        try:
            up_reader, up_writer = await asyncio.open_connection(HOST, self.server_port, limit=_PIECE)
        except ConnectionError:
            writer.close()  # the server is gone, and so is the proxy for this one
            return
        line = _Line(self, writer)
        self._lines.add(line)
        ways = [
            asyncio.create_task(line.commands(reader, up_writer)),
            asyncio.create_task(line.answers(up_reader)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            self._lines.discard(line)
            for end in (writer, up_writer):
                end.transport.abort()


class _Line:
    """What's on its way between the two ends of one connection."""

    def __init__(self, proxy: DelayedLog, writer: asyncio.StreamWriter) -> None:
        self._proxy = proxy
        self._writer = writer
        self._log = False
        self._waiting: deque[tuple[float, bytes]] = deque()  # when it came, and the piece; empty at the end
        self._more = asyncio.Event()
        self._look_again = asyncio.Event()
        self.held_bytes = 0

    def look_again(self) -> None:
        """The delay has changed."""
        self._look_again.set()

    async def commands(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Client to server. A client waits for an answer before its next command, so each begins a piece."""
        while piece := await reader.read(_PIECE):
            self._log = self._log or (len(piece) > 4 and piece[3] == 0 and piece[4] in _LOG)
            writer.write(piece)
            await writer.drain()

    async def answers(self, reader: asyncio.StreamReader) -> None:
        """Server to client."""
        late = asyncio.create_task(self._late())
        try:
            while piece := await reader.read(_PIECE):
                await self._hand_on(piece)
            self._wait(b"")
            await late
        finally:
            late.cancel()

    async def _hand_on(self, piece: bytes) -> None:
        if self._log:
            self._wait(piece)
        else:
            self._writer.write(piece)
            await self._writer.drain()

    def _wait(self, piece: bytes) -> None:
        self._waiting.append((asyncio.get_running_loop().time(), piece))
        self.held_bytes += len(piece)
        self._more.set()

    async def _late(self) -> None:
        """Hand on what waits, each piece when it's due, until the end."""
        while True:
            while not self._waiting:
                self._more.clear()
                await self._more.wait()
            came, piece = self._waiting.popleft()
            if not piece:
                return
            await self._until_due(came)
            self.held_bytes -= len(piece)
            self._writer.write(piece)
            await self._writer.drain()

    async def _until_due(self, came: float) -> None:
        while (left := came + self._proxy.delay_s - asyncio.get_running_loop().time()) > 0:
            self._look_again.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(None if left == HELD else left):
                    await self._look_again.wait()
