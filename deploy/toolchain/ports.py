"""Ports of 127.0.0.1 for servers of one's own, each with one owner until that owner's process ends.

Two things could take a port between its choice and a server's `listen`, or while the server is down for a restart:

1. A connection that goes out gets a port of its own from Linux's ephemeral range (`ip(7)`, `ip_local_port_range`).
   So does who asks for port 0. The ports here lie below that range.
2. Another process could choose the same one. So who chooses a TCP port holds the UDP port of that number, which none of
   these servers uses, and Linux lets one process hold it.
"""

import random
import socket
from pathlib import Path
from typing import Final

from deploy.toolchain.cache import ToolchainError

_LOWEST: Final = 10_000  # below are the ports that well-known services have
_ATTEMPTS: Final = 1000
_RANGE: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")


def take_port() -> int:
    """Return a TCP port that nobody listens at, and that this process owns from now on."""
    highest = int(_RANGE.read_text().split()[0])
    for _ in range(_ATTEMPTS):
        port = random.randrange(_LOWEST, highest)
        if _held(port):
            return port
    raise ToolchainError(
        f"no port from {_LOWEST} to {highest - 1} is free; end the servers that listen there"
    )


def _held(port: int) -> bool:
    with socket.socket(type=socket.SOCK_DGRAM) as owner, socket.socket() as probe:
        try:
            owner.bind(("127.0.0.1", port))
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        owner.detach()  # the descriptor, and the port with it, is this process's until it ends
        return True
