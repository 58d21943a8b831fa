"""A proxy before a server, on loopback, with bad weather: bytes that are late, slow or held, and ends that are lost.

It hands on what goes to and fro, of whatever protocol. Whoever connects from now on can be led to another server
(`leads_to`), as a name does behind which a server was replaced. It runs on a thread of its own.
"""

import asyncio
import socket
import struct
import threading
from dataclasses import dataclass, field
from enum import StrEnum
from types import TracebackType
from typing import Final, assert_never

HOST: Final = "127.0.0.1"

LATENCY_S: Final = 0.15
# How slow bytes come: so many, and then a pause.
_SIP: Final = 512
_SIP_EVERY_S: Final = 0.01

_PIECE: Final = 1 << 18
_STARTS_WITHIN_S: Final = 10.0
# With this a close sends a reset.
_NO_LINGERING: Final = struct.pack("ii", 1, 0)


class Weather(StrEnum):
    """What becomes of the bytes between two ends."""

    LATENCY = "latency"  # they come late
    SLOW = "slow bytes"  # a few at a time
    PARTITION = "partition"  # they don't come until it's over, nor does a new connection
    HALF_OPEN = "half-open"  # the server's end of those that there are is closed, and ours never hears of it
    RESET = "reset"  # all are, and new ones too


@dataclass(eq=False, slots=True)
class _Line:
    """One connection: its two ends here."""

    ours: asyncio.StreamWriter
    servers: asyncio.StreamWriter
    half_open: bool = False
    ways: list[asyncio.Task[None]] = field(default_factory=list)


class Proxy:
    """The proxy, for a while: `port` on `HOST` leads to the server's."""

    def __init__(self, leads_to: int) -> None:
        self.port = 0
        self.leads_to = leads_to
        self._weather: Weather | None = None
        self._over = asyncio.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="proxy")
        self._serving = threading.Event()
        self._loop: asyncio.AbstractEventLoop
        self._stop: asyncio.Event
        self._lines: set[_Line] = set()

    def turn(self, weather: Weather | None) -> None:
        """The weather from now on; None is fine weather."""
        self._loop.call_soon_threadsafe(self._turn, weather)

    def __enter__(self) -> "Proxy":
        self._thread.start()
        if not self._serving.wait(_STARTS_WITHIN_S):
            raise TimeoutError("the proxy didn't start")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def _turn(self, weather: Weather | None) -> None:
        self._weather = weather
        self._over.set()
        self._over = asyncio.Event()
        for line in self._lines:
            if weather is Weather.RESET:
                _reset(line.ours)
                line.servers.transport.abort()
            elif weather is Weather.HALF_OPEN:
                line.half_open = True
                line.servers.transport.abort()

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        links: set[asyncio.Task[None]] = set()

        async def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            link = asyncio.create_task(self._link(reader, writer))
            links.add(link)
            link.add_done_callback(links.discard)

        async with await asyncio.start_server(begin, HOST, self.port, limit=_PIECE) as listening:
            self.port = listening.sockets[0].getsockname()[1]
            self._serving.set()
            await self._stop.wait()
            for link in links:
                link.cancel()
            await asyncio.gather(*links, return_exceptions=True)

    async def _link(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, until one of its ends is closed."""
        while self._weather is Weather.PARTITION:
            await self._over.wait()
        try:
            if self._weather is Weather.RESET:
                raise ConnectionResetError
            theirs, servers = await asyncio.open_connection(HOST, self.leads_to, limit=_PIECE)
        except ConnectionError:
            _reset(writer)
            return
        line = _Line(writer, servers)
        self._lines.add(line)
        line.ways = [
            asyncio.create_task(self._flow(line, reader, servers)),
            asyncio.create_task(self._flow(line, theirs, writer)),
        ]
        try:
            await asyncio.wait(line.ways, return_when=asyncio.FIRST_COMPLETED)
            if line.half_open:
                await asyncio.wait(line.ways[:1])  # until ours gives it up by itself
        finally:
            self._lines.discard(line)
            for way in line.ways:
                way.cancel()
            await asyncio.gather(*line.ways, return_exceptions=True)
            for end in (writer, servers):
                end.transport.abort()

    async def _flow(self, line: _Line, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while piece := await reader.read(_PIECE):
            if not line.half_open:
                await self._hand_on(piece, writer)

    def _is(self, weather: Weather) -> bool:
        return self._weather is weather

    async def _hand_on(self, piece: bytes, writer: asyncio.StreamWriter) -> None:
        match self._weather:
            case Weather.PARTITION:
                await self._over.wait()
                return await self._hand_on(piece, writer)
            case Weather.LATENCY:
                # The delay itself.
                await asyncio.sleep(LATENCY_S)
            case Weather.SLOW:
                while self._is(Weather.SLOW) and len(piece) > _SIP:
                    writer.write(piece[:_SIP])
                    piece = piece[_SIP:]
                    await writer.drain()
                    await asyncio.sleep(_SIP_EVERY_S)
            case Weather.HALF_OPEN | Weather.RESET | None:
                pass
            case _:
                assert_never(self._weather)
        writer.write(piece)
        await writer.drain()
        return None


def _reset(end: asyncio.StreamWriter) -> None:
    end.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGERING)
    end.transport.abort()
