"""Who may do what over HTTP, and how often.

On loopback everyone may read, and signals need the token if there's one. Beyond loopback everything needs a token
except the page's own files, its description and the probes. One token permits everything, the other one only reading. A
token comes as `Authorization: Bearer …` (RFC 6750) and never in an address, which logs and histories keep. The time of
the comparison reveals nothing of it.

A token's file is read again when it changes. If it's missing then, or has no token, the one before holds.

These rules also keep out a foreign page in a browser. A browser says which site a request is from, and the service
refuses requests of other sites, except for links to it. Beyond loopback such a page doesn't know the token. On loopback
a request has to name a loopback address as its host. So a foreign name that was made to point here is refused (DNS
rebinding). A signal has to say that it's JSON. A page of another origin may send that only after a preflight request
(CORS), which the service never answers.
"""

import hashlib
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from time import monotonic
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from actors.runtime.secret_files import changed_at, read_secret
from pipeline.config.http_access import is_loopback, is_token
from pipeline.config.settings import HttpSettings, Secret

# No page of another origin may hold ours in a frame, and ours loads and runs nothing but its own files.
HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
        "trusted-types 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
}


class Access(IntEnum):
    """What a route needs, and what a token permits: each includes those before it."""

    OPEN = 0
    READ = 1
    CONTROL = 2


@dataclass(frozen=True, slots=True)
class Refusal:
    """The status and the reason of an answer that refuses."""

    status: int
    reason: str


class Guard:
    """Knows what this address requires, and what a token permits."""

    def __init__(self, settings: HttpSettings) -> None:
        self.exposed: Final = not is_loopback(settings.host)
        self._token = _Token(settings.token)
        self._read_token = _Token(settings.read_token)

    @property
    def controlled(self) -> bool:
        """Whether there's a token, which signals want."""
        return self._token.digest is not None

    def required(self, access: Access) -> Access:
        """Returns what a token must permit for this, at this address."""
        wanted = self.exposed or (access is Access.CONTROL and self.controlled)
        return access if wanted else Access.OPEN

    def refusal(self, access: Access, host: str | None, headers: Mapping[str, str]) -> Refusal | None:
        """Why a request isn't let in; None if it is. `host` is what it names as its host, without the port."""
        if not self.exposed and not (host and is_loopback(host)):
            return Refusal(403, "the request must name a loopback address as its host")
        if _is_foreign(access, headers):
            return Refusal(403, "a page of another site may not do this")
        needed = self.required(access)
        if needed is Access.OPEN:
            return None
        given = self.permitted(headers)
        if given is Access.OPEN:
            return Refusal(401, "a token is needed, as Authorization: Bearer …")
        return None if given >= needed else Refusal(403, "this token may only read")

    def may_read(self, headers: Mapping[str, str]) -> bool:
        """Returns whether the answer to a request to an open route may have what only readers may see."""
        return not self.exposed or self.permitted(headers) >= Access.READ

    def permitted(self, headers: Mapping[str, str]) -> Access:
        """Returns what the request's token permits; OPEN is nothing."""
        scheme, _, token = headers.get("Authorization", "").partition(" ")
        # Digests are of one length, so the time of the comparison doesn't even reveal the token's length.
        said = _hash(token.strip() if scheme.lower() == "bearer" else "")
        all_of_it, read = self._token.is_said(said), self._read_token.is_said(said)
        return Access.CONTROL if all_of_it else Access.READ if read else Access.OPEN


class _Token:
    """A token as its file has it now, or as the environment gave it."""

    def __init__(self, secret: Secret) -> None:
        self._file = secret.file
        self._read_at = changed_at(self._file)
        self._digest = _digest(secret)

    @property
    def digest(self) -> bytes | None:
        """Its digest; None if there's no token."""
        changed = changed_at(self._file)
        if self._file is not None and changed is not None and changed != self._read_at:
            try:
                now = read_secret(self._file)
            except OSError:
                return self._digest
            self._read_at = changed
            if is_token(now.value):
                self._digest = _digest(now)
        return self._digest

    def is_said(self, said: bytes) -> bool:
        """Whether this is the digest of the token."""
        digest = self.digest
        return digest is not None and hmac.compare_digest(said, digest)


def _is_foreign(access: Access, headers: Mapping[str, str]) -> bool:
    """Whether a browser says that a page of another site sends this (Fetch Metadata; RFC 6454)."""
    if access is Access.OPEN:
        return False
    site = headers.get("Sec-Fetch-Site")
    if access is Access.READ:
        return site in ("cross-site", "same-site") and headers.get("Sec-Fetch-Mode") != "navigate"
    if site is not None:
        return site not in ("same-origin", "none")
    origin = headers.get("Origin")
    return origin is not None and _host_of(origin) != headers.get("Host")


def _host_of(origin: str) -> str:
    """Returns the host and port of an origin; nothing if it has none."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return ""


class Allowance(NamedTuple):
    """How much is allowed: `burst` actions at once, and `per_s` more each second."""

    burst: int
    per_s: float


class TokenBucket:
    """Counts what is taken of an allowance: a token bucket."""

    def __init__(self, allowed: Allowance, clock: Callable[[], float] = monotonic) -> None:
        self.per_s: Final = allowed.per_s
        self._burst = allowed.burst
        self._clock = clock
        self._left = float(allowed.burst)
        self._at = clock()

    def take(self, count: float = 1.0) -> bool:
        """Whether there are so many left, which are taken."""
        now = self._clock()
        self._left = min(self._burst, self._left + (now - self._at) * self.per_s)
        self._at = now
        if self._left < count:
            return False
        self._left -= count
        return True


def _digest(secret: Secret) -> bytes | None:
    return _hash(secret.value) if secret.value else None


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode(errors="surrogateescape")).digest()
