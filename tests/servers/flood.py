"""Clients that mean no good: `python -m tests.servers.flood KIND PORT SECONDS NUMBER`. It writes what it did as JSON.

`half-open` and `slow` hold so many connections, and open each again that is cut. They send half of a request, and then
nothing or one byte after the other. `garbage` sends what is no request and
requests for what there isn't, as many as the machine gives, over one connection after the other. `none` sends nothing,
and takes as much of the processor as the others may: what a service is like beside it says what a flood adds.
"""

import asyncio
import json
import socket
import sys
from collections import Counter
from itertools import cycle
from time import monotonic
from typing import Final

HOST: Final = "127.0.0.1"

HALF: Final = b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Hal"
# How long a slow client waits between two bytes, in seconds.
_DROP_EVERY_S: Final = 0.5

# What comes at once over one connection, a hundred of each.
AT_ONCE: Final = 100
GARBAGE: Final = (
    b"\x16\x03\x01\x02\x00\x01 garbage\r\n\r\n",
    b"GET /wp-login.php HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    b"GET /status HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    b'POST /signals HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{"',
)


async def hold(port: int, number: int, until: float, drops: bool) -> Counter[str]:
    """Holds so many connections that have sent half a request, and then send drops or nothing."""
    done = Counter[str]()

    async def one() -> None:
        while monotonic() < until:
            try:
                reader, writer = await asyncio.open_connection(HOST, port)
            except OSError:
                done["refused"] += 1
                await asyncio.sleep(0.05)
                continue
            done["connections"] += 1
            try:
                await _stay(reader, writer, until, drops)
                done["cut"] += monotonic() < until
            except OSError:
                done["cut"] += 1
            finally:
                writer.transport.abort()

    await asyncio.gather(*(one() for _ in range(number)))
    return done


async def _stay(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, until: float, drops: bool
) -> None:
    """Stays until the service ends it."""
    writer.write(HALF)
    ended = asyncio.ensure_future(reader.read(1))
    try:
        while not ended.done() and monotonic() < until:
            await asyncio.wait({ended}, timeout=_DROP_EVERY_S)
            if drops and not ended.done():
                writer.write(b"x")
        if ended.done():
            ended.result()
    finally:
        ended.cancel()


def pour(port: int, until: float) -> Counter[str]:
    """Sends garbage as fast as it's taken."""
    done = Counter[str]()
    for request in cycle(GARBAGE):
        if monotonic() > until:
            return done
        try:
            with socket.create_connection((HOST, port), timeout=5) as peer:
                done["connections"] += 1
                while monotonic() < until:
                    peer.sendall(request * AT_ONCE)
                    done["requests"] += AT_ONCE
        except OSError:
            done["cut"] += 1
    return done


def burn(until: float) -> Counter[str]:
    """Computes, and sends nothing."""
    done = Counter[str]()
    while monotonic() < until:
        done["rounds"] += 1
    return done


def _main() -> None:
    kind, port, seconds, number = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
    until = monotonic() + seconds
    match kind:
        case "none":
            done = burn(until)
        case "garbage":
            done = pour(port, until)
        case _:
            done = asyncio.run(hold(port, number, until, drops=kind == "slow"))
    sys.stdout.write(json.dumps(done))


if __name__ == "__main__":
    _main()
