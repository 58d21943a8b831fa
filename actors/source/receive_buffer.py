"""The reading end of a connection: bytes go from the socket straight into the reader's memory.

asyncio's StreamReader gathers incoming bytes in a bytearray of at most 128 KiB and makes `bytes` of it again. That is
two copies of everything, and a pause of the transport for each full bytearray. A `ReceiveBuffer` takes its place as the
transport's protocol once the driver has logged in. While a reader waits in `receive`, it hands the transport that
reader's memory. In between, it keeps incoming bytes in a buffer, and pauses the transport only when that is full. So a
reader that keeps up gets every byte without a copy and without a pause, and a slow one holds the sender back.

The driver continues to read its packets by `readexactly`, the one method of a StreamReader that it uses.

Source: Python documentation, "Transports and Protocols", on buffered streaming protocols.
"""

import asyncio
from typing import Final, cast

_HELD: Final = 1 << 20  # bytes; as much as a reader is given to work on when it comes back
_LITTLE: Final = 1 << 16  # bytes


class ReceiveBuffer(asyncio.BufferedProtocol):
    """The protocol that a transport reads into; one reader at a time.

    A cancelled read may have taken bytes that are lost then: its connection is unusable.
    """

    def __init__(self, transport: asyncio.Transport, before: bytes) -> None:
        self._transport = transport
        self._held = memoryview(bytearray(max(_HELD, len(before))))
        self._held[: len(before)] = before
        self._begin, self._end = 0, len(before)  # of the bytes that are held
        self._room: memoryview | None = None
        self._filled = 0
        self._arrival: asyncio.Future[None] | None = None
        self._paused = False
        self._ended = transport.is_closing()
        self._failure: Exception | None = None

    @staticmethod
    async def instead_of(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> "ReceiveBuffer":
        """Takes the reader's place, and the bytes that it has read. No one may be reading from it."""
        transport = cast("asyncio.Transport", writer.transport)  # it reads as well
        transport.pause_reading()
        reader.feed_eof()  # so that it returns exactly what it holds
        buffer = ReceiveBuffer(transport, await reader.read())
        transport.set_protocol(buffer)
        transport.resume_reading()
        return buffer

    @property
    def disturbed(self) -> bool:
        """Returns whether there's something to read, or it has ended."""
        return self._ended or self._begin < self._end

    async def receive(self, room: memoryview) -> int:
        """Wait for at least one byte, put what is there into `room`, and return how many bytes; 0 is the end.

        `room`: writable, of bytes, not empty. Raises OSError if the connection failed.
        """
        if self._begin == self._end and not self._ended:
            # Into little room the way leads through our own: a packet's head isn't worth a call of the system.
            self._room = room if len(room) >= _LITTLE else None
            filled = await self._wait_for_bytes()
            if filled:
                return filled
        if self._begin < self._end:
            return self._take(room)
        if self._failure:
            raise self._failure
        return 0

    async def readexactly(self, size: int) -> bytes:
        """The next `size` bytes. Raises IncompleteReadError if there are fewer until the end, or OSError."""
        read, filled = bytearray(size), 0
        with memoryview(read) as room:
            while filled < size:
                more = await self.receive(room[filled:])
                if not more:
                    raise asyncio.IncompleteReadError(bytes(room[:filled]), size)
                filled += more
        return bytes(read)

    async def _wait_for_bytes(self) -> int:
        """Wait for bytes or the end; how many bytes are in the reader's room."""
        self._arrival = asyncio.get_running_loop().create_future()
        try:
            await self._arrival
            return self._filled
        finally:
            self._arrival, self._room, self._filled = None, None, 0

    def _take(self, room: memoryview) -> int:
        size = min(len(room), self._end - self._begin)
        room[:size] = self._held[self._begin : self._begin + size]
        self._begin += size
        if self._begin == self._end:
            self._begin = self._end = 0
            if self._paused:
                self._paused = False
                self._transport.resume_reading()
        return size

    # -- what the transport calls; between the first two of them nothing else runs

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's signature
        """Where the transport may write."""
        if self._room is not None and self._filled < len(self._room):
            return self._room[self._filled :]
        return self._held[self._end :]

    def buffer_updated(self, nbytes: int) -> None:
        """So many bytes were written there."""
        if self._room is not None and self._filled < len(self._room):
            self._filled += nbytes
        else:
            self._end += nbytes
            if self._end == len(self._held):
                self._paused = True
                self._transport.pause_reading()
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing comes any more."""
        self._ended, self._failure = True, exc
        self._wake()

    def _wake(self) -> None:
        if self._arrival and not self._arrival.done():
            self._arrival.set_result(None)
