"""Connections whose transactions all see the source at one position of its log; `pipeline.coordinator.consistent_state`
says why they do.

None is ever replaced, because a new one would see another state. If one is lost, all of them end.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import structlog

from actors.runtime.retry import random_pause_s
from actors.source.connection import Source
from pipeline.config.settings import ServerSettings
from pipeline.errors import Backoff, Transient
from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.gtid_set import GtidSet
from pipeline.source.statement import Statement

log = structlog.get_logger()

# A server that writes at a beat shouldn't always be found at the same one, so pauses are random.
MOMENT_BACKOFF: Final = Backoff(0.002, 0.2)

# So many tries find no quiet moment before the source is locked, where that's allowed.
TRIES_WITHOUT_LOCK: Final = 20
# How long to wait for a lock, in seconds; sessions that come later wait as long.
_LOCK_WITHIN_S: Final = 1


class ConsistentReads:
    """The connections; the end of the log was `at` when they were opened, and `visible` what they all see."""

    def __init__(self, sources: list[Source], at: Coordinates, visible: GtidSet) -> None:
        self.at = at
        self.visible = visible
        self._sources = sources
        self._free: asyncio.Queue[Source] = asyncio.Queue()
        for source in sources:
            self._free.put_nowait(source)

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Source]:
        """One of them for a while. Raises Transient if it's lost."""
        source = await self._free.get()
        try:
            if not source.usable:
                raise Transient(
                    "a connection of the consistent snapshot was lost, and its transaction with it"
                )
            yield source
        finally:
            self._free.put_nowait(source)

    def __contains__(self, source: Source) -> bool:
        """Whether this is one of them."""
        return source in self._sources

    def close(self) -> None:
        """End the transactions."""
        for source in self._sources:
            source.close()


class MomentSearch:
    """The search for a moment at which they can be opened. `tries` is how many came to nothing."""

    def __init__(
        self, settings: ServerSettings, connections: int, may_lock: bool, server: str | None
    ) -> None:
        self._settings = settings
        self._server = server
        self._connections = connections
        self._may_lock = may_lock
        self.tries = 0

    def status(self) -> str | None:
        """Why it takes long, if it does."""
        if not self.tries:
            return None
        return (
            f"the source committed while transactions were opened, {self.tries} times; it keeps trying, and "
            "snapshot.allow_lock = true would end that with a lock for some milliseconds"
        )

    async def open(self, failed: int) -> ConsistentReads:
        """The connections, as soon as there's a moment. Raises Transient or Definite."""
        self.tries = failed
        made: list[Source] = []
        try:
            while len(made) <= self._connections:  # one of them looks at the log
                made.append(await Source.connect(self._settings, self._server))
            control, *sources = made
            while (found := await self._try_once(control, sources)) is None:
                await asyncio.gather(*(source.leave() for source in sources))
                self.tries += 1
                await asyncio.sleep(random_pause_s(MOMENT_BACKOFF, self.tries))
        except BaseException:
            for source in made:
                source.close()
            raise
        control.close()
        return ConsistentReads(sources, *found)

    async def _try_once(self, control: Source, sources: list[Source]) -> tuple[Coordinates, GtidSet] | None:
        locked = self._may_lock and self.tries >= TRIES_WITHOUT_LOCK and await _lock(control)
        try:
            before, _ = await control.end_of_log()
            visible = await control.visible()
            await asyncio.gather(*(source.begin() for source in sources))
            after, _ = await control.end_of_log()
        finally:
            if locked:
                await control.ask(Statement("UNLOCK TABLES"))
        return (before, visible) if after == before else None


async def _lock(control: Source) -> bool:
    """Lock the source against commits, if that doesn't take long."""
    await control.ask(Statement(f"SET SESSION lock_wait_timeout = {_LOCK_WITHIN_S}"))
    try:
        await control.ask(Statement("FLUSH TABLES WITH READ LOCK"))
    except Transient as failure:
        log.info("the source can't be locked now", error=str(failure))
        return False
    return True
