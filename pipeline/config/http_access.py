"""Who may reach the HTTP server: the rules for its address and its tokens.

On loopback a request comes from a user of the machine. Beyond loopback anyone may send one, so a token is required. It
must be too long to be guessed, since nothing slows down an attacker.
"""

import ipaddress
import re
from collections.abc import Iterator
from typing import Final

# The characters are those that a bearer token may have (RFC 6750, section 2.1).
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/=-]{16,}")
_REMEDY: Final = "make one with `openssl rand -hex 32`"


def is_loopback(host: str) -> bool:
    """Returns whether this is the machine's own name, or an address of it that only the machine itself reaches."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_token(text: str) -> bool:
    """Returns whether this may be a token."""
    return _TOKEN.fullmatch(text) is not None


def mistakes(host: str, token: str | None, read_token: str | None) -> Iterator[tuple[str, str, str]]:
    """Yields the mistakes in the section [http]: the key, what is wrong, and the remedy. None: there is no token."""
    if not is_loopback(host) and not token:
        wrong = f"{host!r} isn't a loopback address, and there's no token"
        yield "host", wrong, 'name a file with http.token_file, or use "127.0.0.1"'
    for key, value in (("token_file", token), ("read_token_file", read_token)):
        # An empty token would leave open what the user meant to close.
        if value is not None and not is_token(value):
            yield key, "a token has at least 16 letters, digits and -._~+/=, and nothing else", _REMEDY
    if read_token and not token:
        yield "read_token_file", "without http.token_file everybody may do more than that", "set that as well"
    if read_token and read_token == token:
        yield "read_token_file", "it's the token that may do everything", f"give it another: {_REMEDY}"
