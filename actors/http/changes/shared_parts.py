"""The parts of streams that several readers want, made once.

Readers at the journal's end want the same next part at the same moment. The first of them has it made, and the others
wait for that. One that takes its part later finds it here, as long as it is among the last ones. Otherwise it has the
part made again. So one that takes nothing holds nothing up, and what is kept here doesn't grow with it.

A large segment's parts come one by one, and each reader has its own.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Final

from actors.http.changes.stream_point import StreamPart, StreamPoint

# So many parts are kept, with so many bytes in all.
KEPT_PARTS: Final = 32
KEPT_PARTS_BYTES: Final = 16 << 20


@dataclass(frozen=True, slots=True)
class FirstPart:
    """What comes next in a stream, and the other parts of its segment if that is a large one."""

    part: StreamPart
    others: Iterator[StreamPart] | None


class SharedParts:
    """The next parts of streams of one journal. `make` waits for one and makes it, or returns None after a while."""

    def __init__(self, make: Callable[[StreamPoint], Awaitable[FirstPart | None]]) -> None:
        self._make = make
        self._making: dict[Hashable, asyncio.Task[FirstPart | None]] = {}
        self._kept: dict[Hashable, FirstPart] = {}
        self._kept_bytes = 0

    async def next(self, point: StreamPoint) -> FirstPart | None:
        """Returns what comes next after a point, None if that takes long. Raises as `make` does."""
        if (kept := self._kept.pop(point.key, None)) is not None:
            self._kept[point.key] = kept
            return kept
        if (making := self._making.get(point.key)) is not None:
            # One that leaves takes nothing from the others.
            made = await asyncio.shield(making)
            return made if made is None or made.others is None else await self._make(point)
        making = self._making[point.key] = asyncio.create_task(self._made(point))
        return await asyncio.shield(making)

    async def _made(self, point: StreamPoint) -> FirstPart | None:
        try:
            made = await self._make(point)
        finally:
            del self._making[point.key]
        if made is not None and made.others is None:
            self._keep(point.key, made)
        return made

    def _keep(self, key: Hashable, first: FirstPart) -> None:
        self._kept[key] = first
        self._kept_bytes += len(first.part.data)
        while len(self._kept) > KEPT_PARTS or self._kept_bytes > KEPT_PARTS_BYTES:
            given_up = self._kept.pop(next(iter(self._kept)))
            self._kept_bytes -= len(given_up.part.data)
