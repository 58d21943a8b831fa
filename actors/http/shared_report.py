"""A report that all who ask for it share for a while.

Capture has the same thread, or at least the same interpreter, and a report of thousands of tables takes a tenth of a
second. So a report is made again only after `SHARED_FOR` times as long as it took, but after `MOST_S` at most. However
many ask for it, one that takes half a second or less takes a twentieth of that thread. One that takes a millisecond is
never older than 20 ms. One that took ten seconds, because the whole machine stood still, would hide for minutes what
became of it.

An answered signal expires the reports that may show its effect, so that none denies what the service has accepted. The
bounds of signals bound how often.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from time import monotonic
from typing import Final, Generic, TypeVar

from actors.runtime.actor import StatusJson

SHARED_FOR: Final = 20
MOST_S: Final = 10.0

Report = TypeVar("Report")


class SharedReport(Generic[Report]):
    """What `make` returned last."""

    def __init__(self, make: Callable[[], Awaitable[Report]], clock: Callable[[], float] = monotonic) -> None:
        self._make = make
        self._clock = clock
        self._made: Report | None = None
        self._until = 0.0
        self._is_expired = False
        self._making = asyncio.Lock()

    async def get(self) -> Report:
        """Returns the report. Raises what `make` does."""
        async with self._making:
            began = self._clock()
            if self._made is None or self._is_expired or began >= self._until:
                self._until, self._is_expired = began, False
                self._made = await self._make()
                ended = self._clock()
                self._until = ended + min(SHARED_FOR * (ended - began), MOST_S)
            return self._made

    def expire(self) -> None:
        """Has the report made again for the next who asks."""
        self._is_expired = True


@dataclass(frozen=True, slots=True)
class JsonReport:
    """A report as JSON values, and as text."""

    told: StatusJson
    text: bytes


def shared_json(tell: Callable[[], StatusJson]) -> SharedReport[JsonReport]:
    """Returns a shared report of what `tell` returns."""

    async def make() -> JsonReport:
        told = tell()
        return JsonReport(told, json.dumps(told).encode())

    return SharedReport(make)
