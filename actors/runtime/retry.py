"""Trying again: pauses double up to the longest, each of a random length so that no two come back together."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from pipeline.errors import Backoff, Transient

Made = TypeVar("Made")

_RANDOM: Final = random.SystemRandom()


def random_pause_s(backoff: Backoff, tries: int) -> float:
    """A pause after so many failed tries in a row: between half of the backoff's and all of it."""
    return backoff.pause_s(tries) * _RANDOM.uniform(0.5, 1.0)


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
            pause_s = random_pause_s(backoff, tries)
            failed(failure, pause_s)
        tries += 1
        await asyncio.sleep(pause_s)
