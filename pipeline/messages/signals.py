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
    """The signal has no effect, and why. `busy`: it may have one once what another signal began has ended."""

    id: str
    reason: str
    busy: bool = False


SignalAnswer = SignalAccepted | SignalRejected


SignalOutcome = SignalAnswer | SignalState  # the latter if no reader waits for an answer
