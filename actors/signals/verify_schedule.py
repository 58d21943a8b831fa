"""Signals by the clock: verifications, as often as the configuration says (`pipeline.signals.verify_schedule`)."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

from actors.signals.channel import IncomingSignal
from pipeline.config.settings import VerifySettings
from pipeline.messages.signals import SignalAnswer, SignalRejected
from pipeline.signals.verify_schedule import ScheduledSignal, retry_rejected_at, scheduled_signal
from pipeline.snapshot.checkpoint import Checkpoint


class VerifySchedule:
    """The channel of the schedule. `clock` gives the seconds since the epoch."""

    name = "schedule"

    def __init__(self, settings: VerifySettings, clock: Callable[[], float] = time.time) -> None:
        self._settings = settings
        self._clock = clock
        self._next_at = 0.0

    async def receive(self) -> IncomingSignal:
        """Returns the signal of the present slot, once it is due."""
        await asyncio.sleep(max(0.0, self._next_at - self._clock()))
        # Another clock than the day's measures the sleep, so it may end too early.
        scheduled = scheduled_signal(self._settings, max(self._clock(), self._next_at))
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
            self._next_at = retry_rejected_at(scheduled, self._clock())
