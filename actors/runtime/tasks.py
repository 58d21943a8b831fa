"""Works that run side by side: to the end of the first of them, or of all."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

from pipeline.errors import InvariantBroken, worst_error

Of = TypeVar("Of")
Made = TypeVar("Made")


async def first_end(*works: Coroutine[Any, Any, None]) -> None:
    """Until one of them ends; the others are cancelled and have ended too when this returns.

    Raises what ended it, if that was an error; where several end at once, the worst of them.
    """
    tasks = [asyncio.create_task(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if errors := [error for task in tasks if task in done and (error := task.exception()) is not None]:
            raise worst_error(errors)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)  # so that no other's error is left unread


async def all_end(do: Callable[[Of], Coroutine[Any, Any, Made]], each: Iterable[Of]) -> list[Made]:
    """Runs it with each at once, and returns all results. Raises the worst error of all."""
    results = await asyncio.gather(*map(do, each), return_exceptions=True)
    if errors := [result for result in results if isinstance(result, BaseException)]:
        raise worst_error(errors)
    return [result for result in results if not isinstance(result, BaseException)]


async def broken_off(task: asyncio.Task[Any]) -> None:
    """Waits for a task that is no longer needed, because its owner is ending. Raises InvariantBroken if that's its
    error.

    Any other error follows from that ending, or will come again in the next life.
    """
    await asyncio.wait({task})
    if not task.cancelled() and isinstance(error := task.exception(), InvariantBroken):
        raise error
