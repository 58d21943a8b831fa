"""The memory that answers take while they're made and sent.

An answer that its client doesn't take stays for as long as a client may take. Many of them could have all memory of the
process, and capture needs it too. So a large answer counts until it has been sent. While those that count have
`MOST_HELD_BYTES` together, no further one is made or sent. Of each kind that is made for one client alone a few are
made at once, since they count only when they're whole. A body that all have together (`SharedAnswer`) takes no memory
for one more of them. It doesn't count, and is never refused.

A large answer is written in pieces. So what a connection's buffer still has of it at its end is a piece or two.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import hdrs, web

from pipeline.errors import Transient

MOST_HELD_BYTES: Final = 256 << 20
MADE_AT_ONCE: Final = 8

# A smaller answer doesn't count: it's hardly more than its connection takes.
PIECE_BYTES: Final = 64 << 10


class NoRoomForAnswer(Transient):
    """The answers that are being sent have all the memory that answers may have."""


class SharedAnswer(web.Response):
    """An answer whose body is the same object for all who get it."""


class AnswerMemory:
    """Of one server. `held`: the bytes of the large answers that are being sent."""

    def __init__(self) -> None:
        self.held = 0

    @asynccontextmanager
    async def making(self, few: asyncio.Semaphore) -> AsyncIterator[None]:
        """Waits until an answer may be made, one of a `few` of its kind. Raises NoRoomForAnswer."""
        async with few:
            self._check()
            yield

    def check_room(self, answer: web.StreamResponse) -> None:
        """Raises NoRoomForAnswer for a large answer without room, unless its headers have been sent."""
        if _counted_bytes(answer) and not answer.prepared:
            self._check()

    async def send(self, request: web.Request, answer: web.StreamResponse) -> None:
        """Sends an answer. Raises ConnectionError if the client has gone."""
        body = b"" if request.method == hdrs.METH_HEAD else _large_body(answer)
        counted = _counted_bytes(answer)
        self.held += counted
        try:
            await answer.prepare(request)
            for start in range(0, len(body), PIECE_BYTES):
                await answer.write(body[start : start + PIECE_BYTES])
            # A response's own `write_eof` would write its body.
            await (web.StreamResponse.write_eof(answer) if body else answer.write_eof())
        finally:
            self.held -= counted

    def _check(self) -> None:
        if self.held >= MOST_HELD_BYTES:
            raise NoRoomForAnswer(
                f"answers that their clients haven't taken yet have {MOST_HELD_BYTES >> 20} MiB of memory, and no more "
                "may; ask again"
            )


def _counted_bytes(answer: web.StreamResponse) -> int:
    """Returns the bytes of a large answer that one client alone has."""
    return 0 if isinstance(answer, SharedAnswer) else len(_large_body(answer))


def _large_body(answer: web.StreamResponse) -> bytes:
    """Returns the body of a large answer, and nothing of any other."""
    body = answer.body if isinstance(answer, web.Response) else None
    return body if isinstance(body, bytes) and len(body) > PIECE_BYTES else b""
