"""How another program reaches a service over HTTP: the connection, its TLS and its token.

`ask_service` keeps a connection over which a whole answer has come, for the next request to the same service. The
service, or something in between, may close it at any time. So a request that finds it closed is sent again over a new
one. That changes nothing, since every request is a GET.
"""

import atexit
import os
import ssl
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from http import HTTPStatus
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from os import PathLike
from ssl import SSLContext
from threading import Lock
from time import monotonic
from types import MappingProxyType
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from pipeline.errors import Definite

__all__ = ["TRANSIENT_STATUSES", "Trust", "ask_service", "request_service"]

# After these the same request may succeed: it is asked too often, or the service is starting, or a proxy doesn't reach
# it, as while it restarts.
TRANSIENT_STATUSES: Final = frozenset(
    {
        HTTPStatus.TOO_MANY_REQUESTS,
        HTTPStatus.SERVICE_UNAVAILABLE,
        HTTPStatus.BAD_GATEWAY,
        HTTPStatus.GATEWAY_TIMEOUT,
    }
)

# A file of certificates (PEM) to trust, or a context of one's own; None: those that the machine trusts.
Trust = SSLContext | str | PathLike[str] | None

# For how long (s) an idle connection is kept, and how many are. The service cuts it later, and so do most proxies.
_KEPT_S: Final = 5.0
_MOST_KEPT: Final = 64

_NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})


class _Place(NamedTuple):
    """Where a connection leads to, and whom it trusts."""

    scheme: str
    netloc: str
    tls: Trust

    def connect(self, timeout_s: float) -> HTTPConnection:
        """Returns a new connection, which connects when it's used."""
        if self.scheme == "https":
            return HTTPSConnection(self.netloc, timeout=timeout_s, context=_context(self.tls))
        return HTTPConnection(self.netloc, timeout=timeout_s)


class _KeptConnections:
    """The idle connections of this process, which its threads share."""

    def __init__(self) -> None:
        self._lock = Lock()
        # The one that has been idle for longest comes first.
        self._idle: deque[tuple[_Place, HTTPConnection, float]] = deque()

    def take(self, place: _Place) -> HTTPConnection | None:
        """The connection to there that was used last; None if there's none."""
        with self._lock:
            while self._idle and self._idle[0][2] <= monotonic() - _KEPT_S:
                self._idle.popleft()[1].close()
            for kept in reversed(self._idle):
                if kept[0] == place:
                    self._idle.remove(kept)
                    return kept[1]
        return None

    def put(self, place: _Place, connection: HTTPConnection) -> None:
        """Keeps a connection that has answered all that it was asked."""
        with self._lock:
            self._idle.append((place, connection, monotonic()))
            if len(self._idle) > _MOST_KEPT:
                self._idle.popleft()[1].close()

    def close(self) -> None:
        """Keeps none."""
        with self._lock:
            while self._idle:
                self._idle.popleft()[1].close()


_kept = _KeptConnections()


def _forget_kept() -> None:
    """The connections are another process', and one of its threads may have had the lock."""
    global _kept  # noqa: PLW0603 - there's one for each process
    _kept = _KeptConnections()


def _close_kept() -> None:
    _kept.close()


os.register_at_fork(after_in_child=_forget_kept)
atexit.register(_close_kept)


def ask_service(
    service: str,
    path: str,
    timeout_s: float,
    token: str | None,
    tls: Trust,
    headers: Mapping[str, str] = _NO_HEADERS,
) -> tuple[HTTPResponse, bytes]:
    """Sends a GET for this path below the service's address, and returns its answer, which has been read.

    Raises OSError, HTTPException, and Definite if `tls` can't be used.
    """
    place, below = _split(service, tls)
    everything = _headers(token, headers)
    kept = _kept.take(place)
    if kept is not None:
        kept.timeout = timeout_s
        if kept.sock is not None:
            kept.sock.settimeout(timeout_s)
        with suppress(ConnectionError):
            return _exchange(place, kept, below + path, everything)
    return _exchange(place, place.connect(timeout_s), below + path, everything)


def _exchange(
    place: _Place, connection: HTTPConnection, path: str, headers: Mapping[str, str]
) -> tuple[HTTPResponse, bytes]:
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        body = answer.read()
    except BaseException:
        connection.close()
        raise
    if not answer.will_close:
        _kept.put(place, connection)
    return answer, body


def request_service(
    service: str, path: str, timeout_s: float, token: str | None, tls: Trust
) -> HTTPConnection:
    """Sends a GET for this path below the service's address, and returns the connection, which the caller closes.

    Raises OSError, and Definite if `tls` can't be used.
    """
    place, below = _split(service, tls)
    connection = place.connect(timeout_s)
    try:
        connection.request("GET", below + path, headers=_headers(token, _NO_HEADERS))
    except BaseException:
        connection.close()
        raise
    return connection


def _split(service: str, tls: Trust) -> tuple[_Place, str]:
    """Where the service is, and the path that it has there."""
    where = urlsplit(service)
    return _Place(where.scheme, where.netloc, tls), where.path.rstrip("/")


def _headers(token: str | None, more: Mapping[str, str]) -> Mapping[str, str]:
    return more if token is None else {**more, "Authorization": f"Bearer {token}"}


def _context(tls: Trust) -> SSLContext:
    if isinstance(tls, SSLContext):
        return tls
    try:
        return ssl.create_default_context(cafile=tls)
    except OSError as error:
        raise Definite(
            f"tls: {tls} has no certificates in PEM that can be read ({error.strerror})"
        ) from error
