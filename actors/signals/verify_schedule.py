"""Signals by the clock: verifications, as often as the configuration says (`pipeline.signals.verify_schedule`)."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import structlog

from actors.signals.channel import IncomingSignal
from pipeline.config.settings import VerifySettings
from pipeline.messages.signals import SignalAnswer, SignalRejected
from pipeline.signals.verify_schedule import (
    REJECTED_PAUSE_S,
    ScheduledSignal,
    left_until,
    retry_rejected_at,
    scheduled_signal,
)
from pipeline.snapshot.checkpoint import Checkpoint

log = structlog.get_logger()


class VerifySchedule:
    """The channel of the schedule. `clock` gives the seconds since the epoch."""

    name = "schedule"

    def __init__(self, settings: VerifySettings, clock: Callable[[], float] = time.time) -> None:
        self._settings = settings
        self._clock = clock
        self._next_at = 0.0
        self._rejected = asyncio.Event()
        # The signal that was last told to come while a verification is under way.
        self._early: ScheduledSignal | None = None

    async def receive(self) -> IncomingSignal:
        """Returns the signal of the present slot, once it is due."""
        # The answer to the last one comes meanwhile. Another clock than the day's measures the wait.
        while left := left_until(self._next_at, self._settings, self._clock()):
            self._rejected.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(min(left, REJECTED_PAUSE_S)):
                    await self._rejected.wait()
        scheduled = scheduled_signal(self._settings, self._clock())
        self._next_at = scheduled.next_at

        async def answer(given: SignalAnswer) -> None:
            self._answered(scheduled, given)

        return IncomingSignal(scheduled.text, answer)

    async def sealed(self, checkpoint: Checkpoint) -> None:
        """Reports nothing: the lake has the results."""

    async def close(self) -> None:
        """Leaves nothing to end."""

    def status(self) -> dict[str, Any]:
        """Returns when (s since the epoch) the next signal is due."""
        return {"next_at": self._next_at}

    def _answered(self, scheduled: ScheduledSignal, given: SignalAnswer) -> None:
        if isinstance(given, SignalRejected):
            if given.busy and scheduled != self._early:
                self._early = scheduled
                log.warning(
                    "a verification is under way at the time of the next one",
                    id=given.id,
                    reason=given.reason,
                )
            self._next_at = retry_rejected_at(scheduled, self._clock())
            self._rejected.set()
