"""How another program reaches a service over HTTP: the connection, its TLS and its token."""

import ssl
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPSConnection
from os import PathLike
from ssl import SSLContext
from types import MappingProxyType
from urllib.parse import urlsplit

from pipeline.errors import Definite

__all__ = ["Trust", "request_service"]

# A file of certificates (PEM) to trust, or a context of one's own; None: those that the machine trusts.
Trust = SSLContext | str | PathLike[str] | None


def request_service(
    service: str,
    path: str,
    timeout_s: float,
    token: str | None,
    tls: Trust,
    headers: Mapping[str, str] = MappingProxyType({}),
) -> HTTPConnection:
    """Sends a GET for this path below the service's address, and returns the connection, which the caller closes.

    Raises OSError, and Definite if `tls` can't be used.
    """
    where = urlsplit(service)
    connection = (
        HTTPSConnection(where.netloc, timeout=timeout_s, context=_context(tls))
        if where.scheme == "https"
        else HTTPConnection(where.netloc, timeout=timeout_s)
    )
    admitted = {} if token is None else {"Authorization": f"Bearer {token}"}
    try:
        connection.request("GET", where.path.rstrip("/") + path, headers={**headers, **admitted})
    except BaseException:
        connection.close()
        raise
    return connection


def _context(tls: Trust) -> SSLContext:
    if isinstance(tls, SSLContext):
        return tls
    try:
        return ssl.create_default_context(cafile=tls)
    except OSError as error:
        raise Definite(
            f"tls: {tls} has no certificates in PEM that can be read ({error.strerror})"
        ) from error
