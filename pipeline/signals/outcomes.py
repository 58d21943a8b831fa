"""The states of signals: how far each has come, for those who sent them and for the status.

accepted   it has taken effect, durably; for a snapshot and for a move of the position that's the beginning
rejected   it has no effect
running    its snapshot or verification is under way
done       its snapshot is complete, all rows of its verification are read and repaired, or the position moved
failed     its snapshot or verification has ended without that, or the position didn't move
"""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from pipeline.signals.notifications import Notification, NotificationType, find_notifications
from pipeline.snapshot.checkpoint import Checkpoint

STATES_REMEMBERED: Final = 200


class Outcome(StrEnum):
    """How far a signal has come."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


_OUTCOMES: Final = {
    NotificationType.STARTED: Outcome.RUNNING,
    NotificationType.COMPLETED: Outcome.DONE,
    NotificationType.ABORTED: Outcome.FAILED,
}


@dataclass(frozen=True, slots=True)
class SignalState:
    """How far the signal `id` has come; `detail` says what was done, or why not."""

    id: str
    outcome: Outcome
    detail: str

    def to_json(self) -> dict[str, str]:
        """Returns the outcome as JSON: `detail` says what was done, `reason` why it wasn't."""
        unwanted = self.outcome in (Outcome.REJECTED, Outcome.FAILED)
        return {
            "id": self.id,
            "outcome": self.outcome.value,
            ("reason" if unwanted else "detail"): self.detail,
        }


def outcomes_between(before: Checkpoint | None, after: Checkpoint) -> tuple[SignalState, ...]:
    """Returns the progress of signals between the two; `before` is None if nothing was reported yet."""
    return outcomes_of_notifications(find_notifications(before, after))


def outcomes_of_notifications(notifications: Iterable[Notification]) -> tuple[SignalState, ...]:
    """How far signals have come by these."""
    return tuple(
        SignalState(notification.id, _OUTCOMES[notification.type], _detail(notification))
        for notification in notifications
        if notification.type in _OUTCOMES
    )


def _detail(notification: Notification) -> str:
    said = (
        notification.data.get("reason")
        or notification.data.get("position")
        or notification.data.get("data_collections")
    )
    return said or ""


class SignalHistory:
    """The last signals' states; of those that came before this service began, what the checkpoint knows."""

    def __init__(self) -> None:
        self._states: OrderedDict[str, SignalState] = OrderedDict()
        self._checkpoint: Checkpoint | None = None
        self._rows: tuple[SignalState, ...] = ()

    def remember(self, state: SignalState) -> None:
        """A signal has come to this state."""
        self._states[state.id] = state
        self._states.move_to_end(state.id)
        while len(self._states) > STATES_REMEMBERED:
            self._states.popitem(last=False)

    def sealed(self, checkpoint: Checkpoint, rows: tuple[SignalState, ...]) -> tuple[SignalState, ...]:
        """This is durable; `rows`: the last judged ones that came as rows of the signal table, the newest last.

        Which of these are new is returned.
        """
        known = set(self._rows)
        new = tuple(row for row in rows if row not in known)
        for state in (*new, *outcomes_between(self._checkpoint, checkpoint)):
            self.remember(state)
        self._checkpoint, self._rows = checkpoint, rows
        return new

    def find(self, id_: str) -> SignalState | None:
        """The state of the signal, None if it's unknown."""
        if id_ in self._states:
            return self._states[id_]
        taken = self._checkpoint is not None and id_ in self._checkpoint.signals
        return SignalState(id_, Outcome.ACCEPTED, "") if taken else None

    def last(self) -> tuple[SignalState, ...]:
        """All that are remembered, the newest last."""
        return tuple(self._states.values())
