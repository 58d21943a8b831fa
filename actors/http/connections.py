"""The HTTP server's connections: how many may be open, and for how long without a request.

A connection is at work while a handler has a whole request of it. Otherwise it is idle: its request hasn't wholly come,
its client takes no answer, or nothing is wanted. An idle connection has a deadline. Where there are too many
connections, the one that has been idle for longest makes room. So a client that sends its request at once is served,
however many others send half of one.

With TLS (`actors.http.tls_listener`) a connection counts, and its deadline runs, from when it's accepted. The handshake
is a part of that time.

Capture and delivery need descriptors of the same process. `most_connections` leaves a part to them.
"""

import asyncio
import errno
import resource
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from time import monotonic
from typing import Any, Final, TypeVar, cast

import structlog
from aiohttp import web
from aiohttp.http_exceptions import LineTooLong

from actors.http.access import Allowance, TokenBucket
from pipeline.config.http_access import is_loopback
from pipeline.errors import Transient

log = structlog.get_logger()

Waited = TypeVar("Waited")

# A request's headers have to come within this time, and a connection waits so long for its next request (s).
HEADERS_WITHIN_S: Final = 10.0

# The most bytes of a request's first line, which may have a GTID set of many servers or with many gaps.
LONGEST_LINE: Final = 32 << 10

# A connection is cut that has been idle for so long. It is longer, since an answer may still be on its way (s).
CUT_AFTER_S: Final = 15.0

# How long the server reads the rest of a body that it has already answered, in seconds.
LINGER_S: Final = 2.0

# Beyond this many of one address the idle ones make room once they have been idle for a while (s).
IDLE_OF_ADDRESS: Final = 64
FRESH_S: Final = 1.0

# So many descriptors are kept for the rest of the process, or half of them if there are fewer.
RESERVE: Final = 1024

# More than all that may wait, follow and ask at once.
MOST_CONNECTIONS: Final = 12_000

# How many connections may come at once, and how many more each second.
ACCEPTED: Final = Allowance(MOST_CONNECTIONS, 2_000.0)

# How many refusals and errors are answered at once, and how many more each second. Beyond that the connection is cut.
REFUSED: Final = Allowance(200, 100.0)


def listening_remedy(error: OSError) -> str:
    """Returns what to do where an address can't be listened on."""
    if error.errno in (errno.EADDRINUSE, errno.EACCES):
        return "set http.port to a free one, or to 0"
    return "set http.host to an address of this machine"


def most_connections(descriptors: int) -> int:
    """Returns how many connections may be open in a process that may have so many descriptors."""
    if descriptors == resource.RLIM_INFINITY:
        return MOST_CONNECTIONS
    return max(1, min(MOST_CONNECTIONS, descriptors - min(RESERVE, descriptors // 2)))


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """How many connections there may be: in all, and of one address beyond loopback; how long one may be idle (s)."""

    most: int
    of_address: int
    idle_of_address: int = IDLE_OF_ADDRESS
    headers_within_s: float = HEADERS_WITHIN_S
    cut_after_s: float = CUT_AFTER_S
    linger_s: float = LINGER_S

    @classmethod
    def of_process(cls) -> "ConnectionLimits":
        """Those that this process' limit of descriptors leaves room for."""
        most = most_connections(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        return cls(most, max(1, most // 4))


class Connections:
    """Those that are open, and since when each one is idle. Makes the protocol of each."""

    def __init__(
        self, server: web.Server, limits: ConnectionLimits, clock: Callable[[], float] = monotonic
    ) -> None:
        self.limits: Final = limits
        self.refusals: Final = TokenBucket(REFUSED, clock)
        self._server = server
        self._clock = clock
        self._accepted = TokenBucket(ACCEPTED, clock)
        self._open: set[Connection] = set()
        self._of_address: Counter[str] = Counter()
        # The one that has been idle for longest comes first.
        self._idle: dict[Connection, float] = {}
        self._idle_of: dict[str, dict[Connection, None]] = {}

    def __call__(self) -> "Connection":
        """Returns the protocol of a further connection."""
        return Connection(self, self._server)

    def __len__(self) -> int:
        return len(self._open)

    def admit(self, connection: "Connection") -> bool:
        """Whether there's room for it; if so it counts until `left`."""
        if not self._accepted.take() or not self._has_room(connection.address):
            return False
        self._open.add(connection)
        self._of_address[connection.address] += 1
        self._rest(connection)
        return True

    def left(self, connection: "Connection") -> None:
        """It's closed."""
        if connection in self._open:
            self._open.remove(connection)
            self._of_address -= Counter((connection.address,))
            self._work(connection)

    @contextmanager
    def at_work(self, request: web.Request) -> Iterator[None]:
        """A handler has the request: its connection isn't idle meanwhile."""
        connection = request.protocol
        if not isinstance(connection, Connection) or connection not in self._open:
            yield
            return
        self._work(connection)
        try:
            yield
        finally:
            if connection in self._open:
                self._rest(connection)

    def cut_idle(self) -> None:
        """Cut those that have been idle for too long."""
        latest = self._clock() - self.limits.cut_after_s
        while self._idle:
            connection, since = next(iter(self._idle.items()))
            if since > latest:
                return
            self._cut(connection)

    def cut_all(self) -> None:
        """Cut those that are idle, whenever they became so."""
        for connection in tuple(self._idle):
            self._cut(connection)

    def _has_room(self, address: str) -> bool:
        of_address = self._idle_of.get(address, {})
        if len(of_address) >= self.limits.idle_of_address:
            oldest = next(iter(of_address))
            if self._idle[oldest] <= self._clock() - FRESH_S:
                self._cut(oldest)
        if not is_loopback(address) and self._of_address[address] >= self.limits.of_address:
            if not of_address:
                return False
            self._cut(next(iter(of_address)))
        if len(self._open) >= self.limits.most:
            if not self._idle:
                return False
            self._cut(next(iter(self._idle)))
        return True

    def _rest(self, connection: "Connection") -> None:
        self._idle[connection] = self._clock()
        self._idle_of.setdefault(connection.address, {})[connection] = None

    def _work(self, connection: "Connection") -> None:
        if self._idle.pop(connection, None) is not None:
            of_address = self._idle_of[connection.address]
            del of_address[connection]
            if not of_address:
                del self._idle_of[connection.address]

    def _cut(self, connection: "Connection") -> None:
        self.left(connection)
        connection.cut()


class ClientLeft(Transient):
    """The client has closed its connection, so there is no one to answer."""


class Connection(web.RequestHandler):
    """One connection: aiohttp's, which is counted and may be cut. It names no software in its own answers."""

    def __init__(self, connections: Connections, server: web.Server) -> None:
        limits = connections.limits
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            access_log=None,  # type: ignore[arg-type] # so it isn't kept, as with AppRunner
            keepalive_timeout=limits.headers_within_s,
            lingering_time=limits.linger_s,
            max_line_size=LONGEST_LINE,
        )
        self.address = ""
        self._connections = connections
        self._admitted = False
        self._handshake: asyncio.Task[None] | None = None
        self._wire: asyncio.Transport | None = None
        self._awaiting: asyncio.Task[Any] | None = None

    @property
    def is_served(self) -> bool:
        """Whether it's open, and its handshake has succeeded if it has one."""
        return self._wire is not None

    def begin_handshake(self, address: str, handshake: Callable[[], asyncio.Task[None]]) -> bool:
        """Count it from here on, and begin its handshake, if there's room."""
        self.address = address
        self._admitted = self._connections.admit(self)
        if self._admitted:
            self._handshake = handshake()
        return self._admitted

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Serve it, if there's room."""
        # uvloop's transports are of no class of asyncio's.
        transport = cast("asyncio.Transport", transport)
        self._wire = transport
        if self._handshake is None:
            peer = transport.get_extra_info("peername")
            self.address = peer[0] if isinstance(peer, tuple) else ""
            self._admitted = self._connections.admit(self)
        if self._admitted:
            super().connection_made(transport)
        else:
            transport.abort()

    def connection_lost(self, exc: BaseException | None) -> None:
        """It counts no longer."""
        if self._admitted:
            super().connection_lost(exc)
        self._connections.left(self)
        self._wire = None
        if self._awaiting is not None:
            self._awaiting.cancel()

    def data_received(self, data: bytes) -> None:
        """Parse the bytes, unless it wasn't admitted."""
        if self._admitted:
            super().data_received(data)

    async def while_open(self, waiting: Coroutine[Any, Any, Waited]) -> Waited:
        """Returns the result. Cancels it, and raises ClientLeft, if the client leaves before."""
        self._awaiting = asyncio.current_task()
        try:
            return await waiting
        except asyncio.CancelledError:
            if self._wire is None:
                raise ClientLeft("the client has left") from None
            raise
        finally:
            self._awaiting = None

    def cut(self) -> None:
        """End it at once, whatever is still to be sent."""
        if self._handshake is not None:
            self._handshake.cancel()
        if self._wire is not None:
            self._wire.abort()

    def log_exception(self, *args: Any, exc_info: BaseException | None = None, **kw: Any) -> None:
        """Log an error, but none of what a client has sent: anyone can send that as often as they like."""
        if not isinstance(exc_info, web.RequestPayloadError):
            super().log_exception(*args, exc_info=exc_info, **kw)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002 - aiohttp gives it, and it quotes the client
    ) -> web.StreamResponse:
        """Answer to what is no request. Nothing is logged, since anyone can send that as often as they like."""
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            log.error("request failed", path=request.path, exc_info=exc)
        if request.writer.output_size > 0:
            raise ConnectionError("a part of the answer has been sent")
        if not self._connections.refusals.take():
            self.cut()
        told = "this is no HTTP request" if status < HTTPStatus.INTERNAL_SERVER_ERROR else "internal error"
        if isinstance(exc, LineTooLong):
            told = f"the path with its parameters, or a header, is longer than {exc.args[1]} bytes"
            status = HTTPStatus.REQUEST_URI_TOO_LONG
        answer = web.json_response({"error": told}, status=status, headers={"Server": "tidemark"})
        answer.force_close()
        return answer


async def while_client_waits(request: web.Request, waiting: Coroutine[Any, Any, Waited]) -> Waited:
    """Returns the result. Cancels it, and raises ClientLeft, if the request's client leaves before."""
    connection = request.protocol
    assert isinstance(connection, Connection)
    return await connection.while_open(waiting)
