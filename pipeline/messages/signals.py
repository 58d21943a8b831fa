"""Signals and their answers."""

from dataclasses import dataclass

from pipeline.signals.outcomes import SignalState
from pipeline.signals.signal import Signal


@dataclass(frozen=True, slots=True)
class SignalReceived:
    """A well-formed signal has come; an earlier version may have taken it by its `former_id`."""

    signal: Signal
    former_id: str | None = None


@dataclass(frozen=True, slots=True)
class SignalAccepted:
    """The signal has taken effect, durably; `detail` says what it did."""

    id: str
    detail: str


@dataclass(frozen=True, slots=True)
class SignalRejected:
    """The signal has no effect, and why."""

    id: str
    reason: str


SignalAnswer = SignalAccepted | SignalRejected


SignalOutcome = SignalAnswer | SignalState  # the latter if no reader waits for an answer
