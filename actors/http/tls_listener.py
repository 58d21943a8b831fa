"""Accepts sockets for HTTPS: each one counts among the connections before its TLS handshake begins.

An event loop's own server (`create_server(ssl=…)`) tells of a connection only after the handshake. So a client that
begins none would not be counted, and could not make room for others.
"""

import asyncio
import socket
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Final, Self

import structlog

from actors.http.access import Allowance, TokenBucket
from actors.http.certificate import ServedCertificate
from actors.http.connections import Connection, Connections
from pipeline.config.http_access import is_loopback

log = structlog.get_logger()

# How many TLS handshakes may begin at once, and how many more each second. One takes 0.3 ms of capture's thread with a
# key of an elliptic curve, 0.5 ms with RSA of 2048 bits, and 4 ms with 4096.
HANDSHAKES: Final = Allowance(500, 100.0)

# How many of these one address beyond loopback has, so that it takes no other's. Loopback may be a proxy of many.
HANDSHAKES_OF_ADDRESS: Final = Allowance(125, 25.0)

# The shares of so many addresses are kept. One that is forgotten was unused for longest, and begins with a whole share.
ADDRESSES: Final = 4096

# How long nothing is accepted after the system has refused it (no descriptors, no memory), in seconds.
_PAUSE_S: Final = 1.0


class HandshakeShares:
    """How many TLS handshakes may begin: in all, and of one address."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._in_all = TokenBucket(HANDSHAKES, clock)
        # The one that has been unused for longest comes first.
        self._of_address: dict[str, TokenBucket] = {}

    def take(self, address: str) -> bool:
        """Whether one may begin, which then counts. One that its own address may not begin takes none of all."""
        return (is_loopback(address) or self._share(address).take()) and self._in_all.take()

    def _share(self, address: str) -> TokenBucket:
        share = self._of_address.pop(address, None) or TokenBucket(HANDSHAKES_OF_ADDRESS, self._clock)
        self._of_address[address] = share
        if len(self._of_address) > ADDRESSES:
            del self._of_address[next(iter(self._of_address))]
        return share


class TlsListener:
    """Listens until it's closed. `sockets` has one of each address."""

    def __init__(
        self, connections: Connections, certificate: ServedCertificate, sockets: Sequence[socket.socket]
    ) -> None:
        self.sockets: Final = sockets
        self._connections = connections
        self._certificate = certificate
        self._handshakes = HandshakeShares()
        self._accepting = [asyncio.create_task(self._accept(each)) for each in sockets]

    @classmethod
    async def listen(
        cls, connections: Connections, certificate: ServedCertificate, host: str, port: int, backlog: int
    ) -> Self:
        """Returns one that listens at each address of the host. Raises OSError."""
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        sockets: list[socket.socket] = []
        try:
            for family, address in dict.fromkeys((each[0], each[4]) for each in found):
                sockets.append(socket.create_server(address, family=family, backlog=backlog))
                sockets[-1].setblocking(False)
        except OSError:
            for each in sockets:
                each.close()
            raise
        return cls(connections, certificate, sockets)

    async def close(self) -> None:
        """Accept nothing more. Connections stay open."""
        for task in self._accepting:
            task.cancel()
        await asyncio.wait(self._accepting)
        for each in self.sockets:
            each.close()

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, peer = await loop.sock_accept(listening)
            except OSError:
                await asyncio.sleep(_PAUSE_S)
                continue
            try:
                self._begin(accepted, peer[0])
            except Exception:  # whatever it is, it concerns this connection, and the next one is accepted
                log.exception("a connection could not be begun")
                accepted.close()
            # The others of this event loop come first, however many wait to be accepted.
            await asyncio.sleep(0)

    def _begin(self, accepted: socket.socket, address: str) -> None:
        connection = self._connections()

        def handshake() -> asyncio.Task[None]:
            task = asyncio.create_task(self._serve(connection, accepted))
            task.add_done_callback(lambda _: self._end(connection, accepted))
            return task

        try:
            begun = self._handshakes.take(address) and connection.begin_handshake(address, handshake)
        except BaseException:
            self._connections.left(connection)
            raise
        if not begun:
            accepted.close()

    async def _serve(self, connection: Connection, accepted: socket.socket) -> None:
        """Have the connection served through TLS, once the handshake has succeeded."""
        limits = self._connections.limits
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: connection,
                accepted,
                ssl=self._certificate.context(),
                ssl_handshake_timeout=limits.headers_within_s,
                ssl_shutdown_timeout=max(limits.linger_s, 0.001),  # 0 isn't allowed
            )
        except OSError:
            return  # it's no handshake, or took too long

    def _end(self, connection: Connection, accepted: socket.socket) -> None:
        """The handshake has ended: without success the connection counts no longer."""
        if not connection.is_served:
            self._connections.left(connection)
            accepted.close()
