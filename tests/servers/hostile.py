"""A server that speaks MySQL's protocol as far as a client has to be led on, and then wants what isn't its to have."""

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

from pymysql.constants import CLIENT, COMMAND

__all__ = ["FILE_WANTED", "Hostile", "hostile"]

FILE_WANTED: Final = b"\xfb/etc/passwd"

UUID: Final = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
_OK: Final = b"\x00\x00\x00\x02\x00\x00\x00"
_TLS_REQUEST: Final = 4 + 32  # bytes
_EOF: Final = b"\xfe\x00\x00\x02\x00"
# One statement without columns and parameters.
_PREPARED: Final = b"\x00" + struct.pack("<IHHxH", 1, 0, 0, 0)

# All that a client could be tempted by.
_OFFERED: Final = CLIENT.CAPABILITIES | CLIENT.LOCAL_FILES


class Hostile:
    """What the server does, and what it received.

    `plugin` and `switch`: the login that it requests, in its greeting, and after that. `trap`: after a command that
    begins with this it requests a file. `tls`: its certificate; without it, it offers no TLS.
    """

    def __init__(
        self,
        plugin: str = "caching_sha2_password",
        switch: bytes | None = None,
        trap: bytes = b"",
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.port = 0
        self.capabilities = 0
        self.told: list[bytes] = []
        self.told_after_trap: list[bytes] = []
        self.left = asyncio.Event()
        self._tls = tls
        self._clients = 0
        self._plugin = plugin
        self._switch = switch
        self._trap = trap

    async def accept(self, listener: socket.socket) -> None:
        """Talks with each client, until cancelled."""
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as clients:
            while True:
                line, _ = await loop.sock_accept(listener)
                self._clients += 1
                self.left.clear()
                clients.create_task(self._serve(line))

    async def _serve(self, line: socket.socket) -> None:
        """Talk with one client until it leaves."""
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(line, _packed(0, self._greeting()))
        if self._tls:
            await loop.sock_recv(line, _TLS_REQUEST)  # and not a byte of what follows
        reader = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(reader)
        with suppress(asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            transport, _ = await loop.connect_accepted_socket(lambda: protocol, line, ssl=self._tls)
            writer = asyncio.StreamWriter(transport, protocol, reader, loop)
            try:
                await self._talk(reader, writer)
            finally:
                transport.abort()
        line.close()
        self._clients -= 1
        if not self._clients:
            self.left.set()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number, login = await _packet(reader)
        self.told.append(login)
        self.capabilities = struct.unpack_from("<I", login)[0]
        if self._switch is not None:
            _send(writer, number + 1, b"\xfe" + self._switch)
            number, answer = await _packet(reader)
            self.told.append(answer)
        _send(writer, number + 1, _OK)
        while True:
            _, command = await _packet(reader)
            self.told.append(command)
            if self._trap and command.startswith(self._trap):
                _send(writer, 1, FILE_WANTED)
                while True:
                    _, given = await _packet(reader)
                    if given[0] != COMMAND.COM_STMT_CLOSE:  # which comes along with the command before
                        self.told_after_trap.append(given)
            for at, payload in enumerate(_answer(command), start=1):
                _send(writer, at, payload)

    def _greeting(self) -> bytes:
        offered = _OFFERED | (CLIENT.SSL if self._tls else 0)
        return (
            b"\x0a9.7.0\x00"
            + struct.pack("<I", 1)
            + b"salt-of8\x00"
            + struct.pack("<HBHHB", offered & 0xFFFF, 45, 2, offered >> 16, 21)
            + bytes(10)
            + b"salt-of-12--\x00"
            + self._plugin.encode()
            + b"\x00"
        )


@asynccontextmanager
async def hostile(server: Hostile) -> AsyncIterator[Hostile]:
    """The server, listening on loopback."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        server.port = listener.getsockname()[1]
        accepting = asyncio.create_task(server.accept(listener))
        try:
            yield server
        finally:
            accepting.cancel()
            await asyncio.wait({accepting})


def _answer(command: bytes) -> list[bytes]:
    """The packets that answer a command as a good server would, as far as a client needs them."""
    if command[0] == COMMAND.COM_STMT_PREPARE:
        return [_PREPARED]
    if command[0] == COMMAND.COM_STMT_EXECUTE:
        return [b"\x01", _column(), _EOF, _EOF]
    if command[0] == COMMAND.COM_STMT_CLOSE:
        return []
    text = command[1:].decode("utf-8", "replace")
    if command[0] != COMMAND.COM_QUERY or not text.startswith("SELECT"):
        return [_OK]
    known = {"server_uuid": UUID, "gtid_mode": "ON"}
    value = next((value for name, value in known.items() if name in text), "").encode()
    return [b"\x01", _column(), _EOF, bytes([len(value)]) + value, _EOF]


def _column() -> bytes:
    text = b"\x03def\x00\x00\x00\x01x\x00"
    return text + b"\x0c" + struct.pack("<HIBHBH", 45, 256, 253, 0, 0, 0)


def _send(writer: asyncio.StreamWriter, number: int, payload: bytes) -> None:
    writer.write(_packed(number, payload))


def _packed(number: int, payload: bytes) -> bytes:
    return struct.pack("<I", len(payload))[:3] + bytes([number % 256]) + payload


async def _packet(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = await reader.readexactly(4)
    return head[3], await reader.readexactly(int.from_bytes(head[:3], "little"))
