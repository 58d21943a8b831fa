"""Looks now and then whether the log that is being read is still the server's; `pipeline.source.log_continuity` judges.

Each look has a connection of its own, which reads three things and locks nothing. A look that fails says nothing: the
reader itself notices if the server is gone.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Never

import structlog

from actors.source.connection import Source
from actors.source.errors import RightLacked
from pipeline.config.settings import SourceSettings
from pipeline.errors import Transient
from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.gtid_set import GtidSet
from pipeline.source.log_continuity import LogLook, contradicts_stream

log = structlog.get_logger()

# So often a look is taken, in seconds. A disk that stalls for longer than that costs a new connection.
LOG_LOOK_EVERY_S: Final = 30.0

# Where the stream is, whether it rests there, and how many times bytes have come.
Here = tuple[Coordinates | None, bool, int]


class ReadLogWatch:
    """Looks at the log of a server while it's being read. Take the first look before the log is requested.

    `by_coordinates`: the log is read without GTIDs.
    """

    def __init__(
        self,
        settings: SourceSettings,
        server: str | None,
        here: Callable[[], Here],
        *,
        by_coordinates: bool = False,
    ) -> None:
        self._settings = settings
        self._server = server
        self._here = here
        self._by_coordinates = by_coordinates
        self._before: LogLook | None = None
        self._heard = 0

    async def run(self) -> Never:
        """Looks until cancelled; raises as `look`."""
        while True:
            await asyncio.sleep(LOG_LOOK_EVERY_S)
            await self.look()

    async def look(self) -> None:
        """Takes one look.

        Raises Transient if the stream isn't this server's log any more, and Definite if the server has no log.
        """
        position, resting, heard = self._here()
        try:
            source = await Source.connect(self._settings, self._server)
            try:
                oldest, end, purged = await _ask(source)
                # SHOW BINARY LOGS opens each file, so it's asked only where the names differ.
                renamed = (
                    position is not None
                    and not end.counts_with(position)
                    and position.file in await source.logs()
                )
                unlogged = self._by_coordinates and await _logs_no_updates(source)
            finally:
                source.close()
        except (Transient, RightLacked) as failure:
            log.info("the source's log wasn't looked at", error=str(failure))
            return
        now = LogLook(position, resting, heard > self._heard, oldest, end, purged, renamed, unlogged)
        if (wrong := contradicts_stream(self._before, now)) is not None:
            raise Transient(wrong)
        self._before, self._heard = now, self._here()[2]


async def _logs_no_updates(source: Source) -> bool:
    """Returns whether it's a replica that doesn't log what it receives."""
    if await source.as_replica() is None:
        return False
    logged = await source.variables(("log_replica_updates", "log_slave_updates"))
    return "OFF" in logged.values()


async def _ask(source: Source) -> tuple[str, Coordinates, GtidSet]:
    """The oldest file of the log, its end, and what is executed and not in the log. Raises Transient or Definite."""
    while True:
        oldest = await source.oldest_log()
        purged = await source.purged()
        if await source.oldest_log() == oldest:  # else files were purged between the two
            return oldest, (await source.end_of_log())[0], purged
