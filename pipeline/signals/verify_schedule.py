"""The schedule of verifications: which signal is due when, without a memory.

Time is divided into slots of the configured length, counted from the epoch. Each slot has one signal, whose id names
the slot. The coordinator takes an id once. So a service that was started again sends the slot's signal again, and
nothing is verified twice.

A signal that was rejected is sent again after a pause: the mirror may not be complete yet. A clock that was ahead and
is put right delays nothing: the slot that holds now has its signal then.
"""

import json
from dataclasses import dataclass
from typing import Final

from pipeline.config.settings import VerifySettings

# How long (s) after a rejection the slot's signal is sent again.
REJECTED_PAUSE_S: Final = 600.0

# The product of a slot's number and its length may be so much less than where the slot begins.
_ROUNDING_S: Final = 1e-3


@dataclass(frozen=True, slots=True)
class ScheduledSignal:
    """The signal of a slot, and when (s since the epoch) the next slot begins."""

    text: str
    next_at: float


def scheduled_signal(settings: VerifySettings, now: float) -> ScheduledSignal:
    """Returns the signal of the slot that holds now (s since the epoch)."""
    every_s = settings.every_hours * 3600
    slot = int((now + _ROUNDING_S) // every_s)
    data: dict[str, object] = {"repair": settings.repair, "rows-per-s": settings.rows_per_s}
    if settings.tables is not None:
        data["data-collections"] = list(settings.tables.patterns)
    text = json.dumps({"id": f"verify-every-{every_s:g}s-{slot}", "type": "verify", "data": data})
    return ScheduledSignal(text, (slot + 1) * every_s)


def retry_rejected_at(scheduled: ScheduledSignal, now: float) -> float:
    """Returns when (s since the epoch) something is sent after a rejection: the same signal, or the next slot's."""
    return min(scheduled.next_at, now + REJECTED_PAUSE_S)


def left_until(next_at: float, settings: VerifySettings, now: float) -> float:
    """Returns how long (s) after now the next signal is due, which was set to `next_at` (s since the epoch).

    It's due at once if the clock was ahead then.
    """
    left = next_at - now
    was_ahead = left > settings.every_hours * 3600 + REJECTED_PAUSE_S
    return 0.0 if was_ahead else max(0.0, left)
