"""The REST channel without its server: a client waits, and learns when there won't be an answer."""

import asyncio

import pytest

from actors.signals.rest import SignalRest, Unanswered
from pipeline.messages.signals import SignalAccepted
from pipeline.messages.topology import MOST_SIGNALS
from pipeline.signals.signal import PauseSnapshot, parse_signal


async def test_an_answer_reaches_who_asked() -> None:
    channel = SignalRest()
    asking = asyncio.create_task(channel.ask(b'{"type":"pause-snapshot"}', 5))
    arrived = await channel.receive()
    signal = parse_signal(arrived.text, arrived.default_id)
    assert isinstance(signal, PauseSnapshot)
    await arrived.answer(SignalAccepted(signal.id, "paused"))
    assert await asking == SignalAccepted(signal.id, "paused")


async def test_the_time_runs_out_and_a_late_answer_does_no_harm() -> None:
    channel = SignalRest()
    with pytest.raises(Unanswered, match="within 0 s"):
        await channel.ask(b"{}", 0)
    await (await channel.receive()).answer(SignalAccepted("x", "late"))


async def test_closing_tells_all_who_wait() -> None:
    channel = SignalRest()
    asking = asyncio.create_task(channel.ask(b"{}", 5))
    await channel.receive()
    await channel.close()
    with pytest.raises(Unanswered, match="starting again"):
        await asking


async def test_what_no_listener_has_taken_is_left_for_the_next_one() -> None:
    channel = SignalRest()
    asking = asyncio.create_task(channel.ask(b"{}", 5))
    await asyncio.tasks.sleep(0)
    arrived = await channel.receive()
    await arrived.answer(SignalAccepted("x", "done"))
    assert (await asking).id == "x"


async def test_too_many_are_turned_away() -> None:
    channel = SignalRest()
    asking = [asyncio.create_task(channel.ask(b"{}", 5)) for _ in range(MOST_SIGNALS)]
    await asyncio.tasks.sleep(0)
    with pytest.raises(Unanswered, match="wait already"):
        await channel.ask(b"{}", 5)
    await channel.close()
    await asyncio.wait(asking)
    assert all(isinstance(task.exception(), Unanswered) for task in asking)
