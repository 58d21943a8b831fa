"""Who may act: many at once, or one alone."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Turns:
    """Acts of one history go on beside those of others. What concerns all of them waits until the others have acted."""

    def __init__(self) -> None:
        self._changed = asyncio.Condition()
        self._acting = 0
        self._waiting = 0
        self._alone = False

    @asynccontextmanager
    async def beside_others(self) -> AsyncIterator[None]:
        """Act beside others, as soon as nobody acts alone or waits for that."""
        async with self._changed:
            await self._changed.wait_for(lambda: not self._alone and not self._waiting)
            self._acting += 1
        try:
            yield
        finally:
            async with self._changed:
                self._acting -= 1
                self._changed.notify_all()

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Act while nobody else does."""
        async with self._changed:
            self._waiting += 1
            try:
                await self._changed.wait_for(lambda: not self._alone and not self._acting)
                self._alone = True
            finally:
                self._waiting -= 1
        try:
            yield
        finally:
            async with self._changed:
                self._alone = False
                self._changed.notify_all()
