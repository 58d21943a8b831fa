"""A report is made again only after a while that depends on what it took, and by one of those who ask."""

import asyncio

import pytest

from actors.http.shared_report import MOST_S, SHARED_FOR, SharedReport, shared_json


class Reported:
    """A report that takes so many seconds of the clock."""

    def __init__(self, takes_s: float = 0.25) -> None:
        self.takes_s = takes_s
        self.now = 100.0
        self.made = 0
        self.fails = False
        self.shared = SharedReport(self.make, lambda: self.now)

    async def make(self) -> int:
        await asyncio.sleep(0)
        if self.fails:
            raise LookupError
        self.now += self.takes_s
        self.made += 1
        return self.made


async def test_all_who_ask_meanwhile_and_soon_after_get_the_same() -> None:
    reported = Reported()
    assert await asyncio.gather(*(reported.shared.get() for _ in range(5))) == [1] * 5
    reported.now += reported.takes_s * SHARED_FOR - 0.1
    assert await reported.shared.get() == 1
    reported.now += 0.1
    assert await asyncio.gather(*(reported.shared.get() for _ in range(5))) == [2] * 5


async def test_one_that_took_long_is_made_again_all_the_same() -> None:
    reported = Reported(takes_s=60)
    assert await reported.shared.get() == 1
    reported.now += MOST_S - 0.1
    assert await reported.shared.get() == 1
    reported.now += 0.1
    assert await reported.shared.get() == 2


async def test_one_that_fails_is_made_for_the_next_who_asks() -> None:
    reported = Reported()
    reported.fails = True
    with pytest.raises(LookupError):
        await reported.shared.get()
    reported.fails = False
    assert await reported.shared.get() == 1


async def test_one_that_has_expired_is_made_once_for_the_next_who_asks() -> None:
    reported = Reported()
    assert await reported.shared.get() == 1
    reported.shared.expire()
    assert await asyncio.gather(*(reported.shared.get() for _ in range(5))) == [2] * 5


async def test_one_that_expires_while_it_is_made_is_made_again() -> None:
    reported = Reported()
    making = asyncio.create_task(reported.shared.get())
    await asyncio.sleep(0)
    reported.shared.expire()
    assert (await making, await reported.shared.get(), await reported.shared.get()) == (1, 2, 2)


async def test_one_that_has_expired_is_not_given_after_a_failure() -> None:
    reported = Reported()
    assert await reported.shared.get() == 1
    reported.shared.expire()
    reported.fails = True
    for _ in range(2):
        with pytest.raises(LookupError):
            await reported.shared.get()


async def test_json_is_told_as_values_and_as_text() -> None:
    report = await shared_json(lambda: {"tables": ["é"]}).get()
    assert (report.told, report.text) == ({"tables": ["é"]}, b'{"tables": ["\\u00e9"]}')
