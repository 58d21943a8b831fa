"""The channel of the schedule, by a clock of its own."""

import asyncio

import pytest
from structlog.testing import capture_logs

from actors.signals.verify_schedule import VerifySchedule
from pipeline.config.settings import VerifySettings
from pipeline.messages.signals import SignalAccepted, SignalRejected
from pipeline.signals.signal import parse_signal
from pipeline.signals.verify_schedule import REJECTED_PAUSE_S

HOUR = 3600.0


class Clock:
    """A clock that stands."""

    now = 5 * HOUR + 1

    def __call__(self) -> float:
        return self.now


async def test_each_slot_has_its_signal() -> None:
    clock = Clock()
    channel = VerifySchedule(VerifySettings(1.0), clock)
    first = await channel.receive()
    assert parse_signal(first.text).id == "verify-every-3600s-5"
    await first.answer(SignalAccepted("verify-every-3600s-5", ""))
    assert channel.status() == {"next_at": 6 * HOUR}
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await channel.receive()
    clock.now = 6 * HOUR
    assert parse_signal((await channel.receive()).text).id == "verify-every-3600s-6"


async def test_a_rejected_signal_is_sent_again() -> None:
    clock = Clock()
    channel = VerifySchedule(VerifySettings(1.0), clock)
    first = await channel.receive()
    await first.answer(SignalRejected("verify-every-3600s-5", "its mirror isn't complete"))
    clock.now += REJECTED_PAUSE_S
    assert (await channel.receive()).text == first.text


async def test_a_verification_that_lasts_until_the_next_ones_time_is_told_once_for_each_time() -> None:
    clock = Clock()
    channel = VerifySchedule(VerifySettings(1.0), clock)
    with capture_logs() as told:
        for busy in (False, True, True):
            await (await channel.receive()).answer(SignalRejected("five", "of shop.t", busy=busy))
            clock.now += REJECTED_PAUSE_S
        clock.now = 6 * HOUR
        await (await channel.receive()).answer(SignalRejected("six", "of shop.t", busy=True))
    event = "a verification is under way at the time of the next one"
    assert told == [
        {"event": event, "id": each, "reason": "of shop.t", "log_level": "warning"}
        for each in ("five", "six")
    ]


async def test_a_rejection_comes_while_the_next_signal_is_waited_for() -> None:
    clock = Clock()
    channel = VerifySchedule(VerifySettings(1.0), clock)
    first = await channel.receive()
    again = asyncio.create_task(channel.receive())
    await asyncio.sleep(0)  # the next wait begins
    await first.answer(SignalRejected("verify-every-3600s-5", "its mirror isn't complete"))
    clock.now += REJECTED_PAUSE_S
    async with asyncio.timeout(60):
        assert (await again).text == first.text


async def test_a_clock_that_was_ahead_delays_nothing() -> None:
    clock = Clock()
    clock.now += 1000 * HOUR
    channel = VerifySchedule(VerifySettings(1.0), clock)
    assert parse_signal((await channel.receive()).text).id == "verify-every-3600s-1005"
    clock.now -= 1000 * HOUR
    async with asyncio.timeout(60):
        assert parse_signal((await channel.receive()).text).id == "verify-every-3600s-5"
