"""A proxy before a server, on loopback, that delays the log: as if the stream lagged far.

It forwards everything at once, except what the server sends on a connection that has requested its log: each piece of
that waits until it's `delay_s` old. So a reader sees every event, in order, that much later, and all other clients see
the server as it is. `delay_s` may change at any time, also for pieces that wait already: `HELD` holds the log without
end, and 0 releases it. The proxy works only for connections without TLS, in which it couldn't see the request.
"""

import asyncio
import math
from collections import deque
from contextlib import suppress
from time import monotonic
from typing import Final

from pymysql.constants import COMMAND

from tests.servers.relay import PIECE, Relay, hand_on

HELD: Final = math.inf

_LOG: Final = frozenset({COMMAND.COM_BINLOG_DUMP, COMMAND.COM_BINLOG_DUMP_GTID})


class DelayedLog(Relay):
    """The proxy; it hands on the log `delay_s` late."""

    def __init__(self, leads_to: int, delay_s: float = 0.0) -> None:
        super().__init__(leads_to)
        self._delay_s = delay_s
        self.let_go_before = -math.inf
        self._lines: set[_Line] = set()

    @property
    def delay_s(self) -> float:
        """How old a piece of the log is when it's handed on, in seconds."""
        return self._delay_s

    @delay_s.setter
    def delay_s(self, seconds: float) -> None:
        def change() -> None:
            self._delay_s = seconds
            self._look_again()

        self._on_its_thread(change)

    def let_go(self, before: float) -> None:
        """Hand on at once what had come before this moment of `time.monotonic()`, and that alone."""

        def change() -> None:
            self.let_go_before = before
            self._look_again()

        self._on_its_thread(change)

    def _look_again(self) -> None:
        for line in self._lines:
            line.look_again()

    @property
    def held_bytes(self) -> int:
        """How much of the log waits."""
        return sum(line.held_bytes for line in tuple(self._lines))

    async def _link(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            theirs, servers = await self._server()
        except ConnectionError:
            writer.close()  # the server is gone, and so is the proxy for this one
            return
        line = _Line(self, writer)
        self._lines.add(line)
        try:
            await hand_on([line.commands(reader, servers), line.answers(theirs)], [writer, servers])
        finally:
            self._lines.discard(line)


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
        while piece := await reader.read(PIECE):
            self._log = self._log or (len(piece) > 4 and piece[3] == 0 and piece[4] in _LOG)
            writer.write(piece)
            await writer.drain()

    async def answers(self, reader: asyncio.StreamReader) -> None:
        """Server to client."""
        late = asyncio.create_task(self._late())
        try:
            while piece := await reader.read(PIECE):
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
        self._waiting.append((monotonic(), piece))
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
        while came >= self._proxy.let_go_before and (left := came + self._proxy.delay_s - monotonic()) > 0:
            self._look_again.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(None if left == HELD else left):
                    await self._look_again.wait()
