"""Trying again: pauses double up to the longest, each of a random length so that no two come back together."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from pipeline.errors import Transient

Made = TypeVar("Made")

_DOUBLINGS: Final = 64  # any longest pause is reached long before
_RANDOM: Final = random.SystemRandom()


@dataclass(frozen=True, slots=True)
class Backoff:
    """The pauses between tries (s): `first_s`, each twice the one before, none longer than `longest_s`."""

    first_s: float
    longest_s: float

    def pause_s(self, tries: int) -> float:
        """The pause after so many failed tries in a row, at least one."""
        return min(self.longest_s, self.first_s * 2.0 ** min(tries - 1, _DOUBLINGS))

    def random_s(self, tries: int) -> float:
        """A pause between half of that and all of it."""
        return self.pause_s(tries) * _RANDOM.uniform(0.5, 1.0)


async def retry(
    work: Callable[[], Awaitable[Made]],
    backoff: Backoff,
    most_tries: int,
    failed: Callable[[Transient, float], None],
) -> Made:
    """The result of the first try that succeeds. Raises the last try's Transient, and any other error at once.

    `failed` receives the error of each other try, and the pause after it (s).
    """
    tries = 1
    while True:
        try:
            return await work()
        except Transient as failure:
            if tries == most_tries:
                raise
            pause_s = backoff.random_s(tries)
            failed(failure, pause_s)
        tries += 1
        await asyncio.sleep(pause_s)
