"""A proxy before an object store that takes the request by which an object appears, and passes it on much later.

Its client gets no answer, and gives up. A store whose disk stalls does the same: it has the whole request by then, and
carries it out. S3 itself may take minutes for the request that ends a multipart upload.

Source: Amazon S3, "CompleteMultipartUpload".
"""

import asyncio
import re
import socket
from typing import Final

from tests.servers.relay import HOST, PIECE, Relay, hand_on

# The request that ends a multipart upload.
_ENDS: Final = re.compile(rb"POST \S+\?uploadId=\S+ HTTP/1.1")
_LENGTH: Final = re.compile(rb"\r\ncontent-length: *([0-9]+)\r\n", re.IGNORECASE)
_GO_ON: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


class LatePuts(Relay):
    """While `holds` isn't empty, uploads of objects with it in their names don't end: such requests are `held`."""

    def __init__(self, leads_to: int) -> None:
        super().__init__(leads_to)
        self.holds = b""
        self.held: list[bytes] = []

    def pass_on(self) -> None:
        """Passes the first request on that was held, and waits until the store has carried it out."""
        with socket.create_connection((HOST, self.leads_to)) as connection:
            connection.sendall(self.held[0])
            answer = b""
            while b"HTTP/1.1 200" not in answer:
                part = connection.recv(PIECE)
                assert part, answer
                answer += part

    async def _link(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers, server = await self._server()
        ways = [self._requests(reader, writer, server), _flow(answers, writer)]
        await hand_on(ways, [writer, server])

    async def _requests(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, server: asyncio.StreamWriter
    ) -> None:
        while piece := await reader.read(PIECE):
            line = piece.partition(b"\r\n")[0]
            if self.holds and self.holds in line and _ENDS.fullmatch(line):
                self.held.append(await _whole(piece, reader, writer))
                return
            server.write(piece)
            await server.drain()


async def _whole(begun: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    """Returns a request of which this much has come."""
    while b"\r\n\r\n" not in begun:
        begun += await reader.read(PIECE)
    head, _, body = begun.partition(b"\r\n\r\n")
    length = _LENGTH.search(head + b"\r\n")
    assert length is not None, head
    if b"100-continue" in head.lower():
        writer.write(_GO_ON)
    while len(body) < int(length[1]):
        body += await reader.read(PIECE)
    return head + b"\r\n\r\n" + body


async def _flow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await reader.read(PIECE):
        writer.write(piece)
        await writer.drain()
