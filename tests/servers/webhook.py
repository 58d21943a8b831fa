"""A server that alerts are posted to."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from aiohttp import web

__all__ = ["receiver"]

WITHIN_S = 30.0
# In the address, so that it can be looked for where it mustn't be.
TOKEN = "planted-in-the-address"


class Receiver:
    """A server that keeps what it gets, and answers with these statuses first; None never answers."""

    def __init__(self) -> None:
        self.got: list[dict[str, Any]] = []
        self.answers: list[int | None] = []
        self.changed, self.ended = asyncio.Event(), asyncio.Event()
        self.address = ""

    async def take(self, request: web.Request) -> web.Response:
        self.got.append(await request.json())
        self.changed.set()
        status = self.answers.pop(0) if self.answers else 204
        if status is None:
            await self.ended.wait()
            status = 503
        headers = {"Location": self.address} if status == 302 else {}
        return web.Response(status=status, headers=headers)

    async def until(self, done: Callable[[list[str]], bool]) -> None:
        """Wait until that is true of what it got is about."""
        async with asyncio.timeout(WITHIN_S):
            while not done([each["subject"] for each in self.got]):
                self.changed.clear()
                await self.changed.wait()


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    made = Receiver()
    app = web.Application()
    app.router.add_post("/{path}", made.take)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    made.address = f"{site.name}/{TOKEN}"
    yield made
    made.ended.set()
    await runner.cleanup()
