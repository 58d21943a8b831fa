"""Of what kind a failure of an actor is, by which the supervisor knows what to do.

Errors of the core say it themselves (`pipeline.errors`). The operating system's pass, as far as anybody can know; and
whatever nobody has thought of is unforeseen.
"""

from enum import StrEnum

from actors.runtime.redaction import Plain
from pipeline.errors import Definite, InvariantBroken, Transient


class Hung(Plain):
    """The actor doesn't get on (`Actor.hung`)."""


class StartAgain(Plain):
    """No failure: an actor asks that its group be built again, since only a start can do what was asked for."""


class FailureKind(StrEnum):
    """What kind of failure it is, as metrics and the log name it."""

    TRANSIENT = "transient"
    DEFINITE = "definite"
    INVARIANT = "invariant"
    HANG = "hang"
    UNFORESEEN = "unforeseen"


def kind_of(error: Exception) -> FailureKind:
    """The kind of failure that this error is."""
    match error:
        case InvariantBroken():
            return FailureKind.INVARIANT
        case Definite():
            return FailureKind.DEFINITE
        case Transient() | OSError():
            return FailureKind.TRANSIENT
        case Hung():
            return FailureKind.HANG
        case _:
            return FailureKind.UNFORESEEN
