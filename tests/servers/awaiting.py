"""What a test waits for that has no event: asked again and again, for a bounded time."""

import asyncio
import time
from collections.abc import Callable
from typing import Final, TypeVar

Value = TypeVar("Value")

# The longest wait of a test; a machine with other work is slow.
WITHIN_S: Final = 60.0
_LOOK_EVERY_S: Final = 0.01


async def until(
    told: Callable[[], Value],
    what: str,
    within_s: float = WITHIN_S,
    ended: Callable[[], bool] = bool,
    every_s: float = _LOOK_EVERY_S,
) -> Value:
    """Returns the first true result of `told`, asked every `every_s` (s).

    Fails with `what` if there's none in time, or what is asked has `ended`.
    """
    deadline = time.monotonic() + within_s
    while not (value := told()):
        assert not ended(), f"it ended before: {what}"
        assert time.monotonic() < deadline, f"not within {within_s} s: {what}"
        await asyncio.sleep(every_s)
    return value
