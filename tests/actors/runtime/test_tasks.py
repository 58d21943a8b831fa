"""Works that run side by side: the end of one is the end of all."""

import asyncio
import gc

import pytest

from actors.runtime.tasks import all_end, broken_off, first_end
from pipeline.errors import InvariantBroken, Transient


async def for_ever(ended: list[str]) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        await asyncio.sleep(0)  # what ends needs a moment
        ended.append("for ever")


async def at_once() -> None:
    return


async def by_an_error() -> None:
    raise ValueError("made to fail")


async def test_the_others_have_ended_when_one_has() -> None:
    ended: list[str] = []
    await first_end(for_ever(ended), at_once(), for_ever(ended))
    assert ended == ["for ever", "for ever"]


async def test_an_error_is_raised_once_all_have_ended() -> None:
    ended: list[str] = []
    with pytest.raises(ValueError, match="made to fail"):
        await first_end(for_ever(ended), by_an_error())
    assert ended == ["for ever"]


async def test_of_two_that_fail_at_once_the_worst_is_raised() -> None:
    async def fails(error: Exception) -> None:
        raise error

    with pytest.raises(InvariantBroken, match="ours"):
        await first_end(fails(Transient("the world's")), fails(InvariantBroken("ours")))


async def test_a_cancellation_ends_all() -> None:
    ended: list[str] = []
    task = asyncio.create_task(first_end(for_ever(ended), for_ever(ended)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["for ever", "for ever"]


async def test_all_come_to_their_end_before_the_worst_error_is_raised() -> None:
    ended: list[int] = []

    async def end(number: int) -> None:
        await asyncio.sleep(0)
        ended.append(number)
        if number == 1:
            raise Transient("the world's")
        if number == 2:
            raise InvariantBroken("ours")

    await all_end(end, [0, 3])
    with pytest.raises(InvariantBroken, match="ours"):
        await all_end(end, [1, 2, 4])
    assert sorted(ended) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("error", [Transient("it's gone"), ValueError("unforeseen")])
async def test_what_is_broken_off_fails_and_nobody_is_told(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    async def failing() -> None:
        raise error

    await broken_off(asyncio.create_task(failing()))
    gc.collect()
    assert caplog.records == []


async def test_what_is_broken_off_was_cancelled() -> None:
    task = asyncio.create_task(for_ever([]))
    task.cancel()
    await broken_off(task)
    assert task.cancelled()


async def test_what_is_broken_off_broke_an_invariant() -> None:
    async def failing() -> None:
        raise InvariantBroken("two heads")

    with pytest.raises(InvariantBroken, match="two heads"):
        await broken_off(asyncio.create_task(failing()))
