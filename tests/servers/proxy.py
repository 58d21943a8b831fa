"""A proxy before a server, on loopback, with bad weather: late, slow or held bytes, and lost ends.

It forwards bytes in both directions, of any protocol.
"""

import asyncio
import socket
import struct
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, assert_never

from tests.servers.relay import PIECE, Relay, hand_on

LATENCY_S: Final = 0.15
# How slow bytes come: so many, and then a pause.
_SIP: Final = 512
_SIP_EVERY_S: Final = 0.01

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


class Proxy(Relay):
    """The proxy."""

    def __init__(self, leads_to: int) -> None:
        super().__init__(leads_to)
        self._weather: Weather | None = None
        self._over = asyncio.Event()
        self._lines: set[_Line] = set()

    def turn(self, weather: Weather | None) -> None:
        """The weather from now on; None is fine weather."""
        self._on_its_thread(lambda: self._turn(weather))

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

    async def _link(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while self._weather is Weather.PARTITION:
            await self._over.wait()
        try:
            if self._weather is Weather.RESET:
                raise ConnectionResetError
            theirs, servers = await self._server()
        except ConnectionError:
            _reset(writer)
            return
        line = _Line(writer, servers)
        self._lines.add(line)
        try:
            await hand_on(
                [self._flow(line, reader, servers), self._answers(line, theirs)],
                [writer, servers],
            )
        finally:
            self._lines.discard(line)

    async def _answers(self, line: _Line, reader: asyncio.StreamReader) -> None:
        await self._flow(line, reader, line.ours)
        if line.half_open:
            await asyncio.Event().wait()  # until ours gives it up by itself

    async def _flow(self, line: _Line, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while piece := await reader.read(PIECE):
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
