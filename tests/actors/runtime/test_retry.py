"""Pauses are random; a try that passes ends it, and the last one's failure is raised."""

import pytest

from actors.runtime.retry import random_pause_s, retry
from pipeline.errors import Backoff, Definite, Transient

AT_ONCE = Backoff(0.0, 0.0)


def test_a_random_pause_is_at_least_half_of_it() -> None:
    assert all(1.0 <= random_pause_s(Backoff(0.5, 30.0), 3) <= 2.0 for _ in range(100))


class Work:
    def __init__(self, *ends: Exception | int) -> None:
        self._ends = iter(ends)

    async def __call__(self) -> int:
        end = next(self._ends)
        if isinstance(end, Exception):
            raise end
        return end


async def test_it_is_tried_until_it_succeeds() -> None:
    told: list[str] = []
    work = Work(Transient("a"), Transient("b"), 7)
    assert await retry(work, AT_ONCE, 3, lambda failure, _: told.append(str(failure))) == 7
    assert told == ["a", "b"]


async def test_the_last_tries_failure_is_raised() -> None:
    told: list[str] = []
    with pytest.raises(Transient, match="b"):
        await retry(
            Work(Transient("a"), Transient("b"), 7), AT_ONCE, 2, lambda failure, _: told.append(str(failure))
        )
    assert told == ["a"]


async def test_what_will_not_pass_is_not_tried_again() -> None:
    with pytest.raises(Definite, match="never"):
        await retry(Work(Definite("never"), 7), AT_ONCE, 3, lambda *_: None)
