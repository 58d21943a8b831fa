"""The kind of an actor's failure, which decides what the supervisor does.

Errors of the core have their kind (`pipeline.errors`). The operating system's errors count as passing. Any other error
is unforeseen.
"""

from enum import StrEnum

from actors.runtime.redaction import ActorError
from pipeline.errors import Definite, InvariantBroken, Transient


class Hung(ActorError):
    """The actor doesn't get on (`Actor.hung`)."""


class StartAgain(ActorError):
    """No failure: an actor requests that its group be built again, because only a start can carry out an order."""


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
