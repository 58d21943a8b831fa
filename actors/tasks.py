"""Works that run side by side and end together."""

import asyncio
from collections.abc import Coroutine
from typing import Any


async def first_end(*works: Coroutine[Any, Any, None]) -> None:
    """Until one of them ends; the others are cancelled and have ended too when this returns.

    Raises what ended it, if that was an error.
    """
    tasks = [asyncio.create_task(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)  # so that no other's error is left unread
