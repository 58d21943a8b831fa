"""A channel of signals, as the SignalListener uses it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol, assert_never

from pipeline.messages.signals import SignalAccepted, SignalAnswer, SignalRejected
from pipeline.signals.outcomes import Outcome, SignalState
from pipeline.snapshot.checkpoint import Checkpoint


@dataclass(frozen=True, slots=True, eq=False)
class IncomingSignal:
    """A text that came by a channel, and the way to answer it.

    `default_id` is for a text without an id. An earlier version may have taken such a text by its `former_id`.
    """

    text: str | bytes
    answer: Callable[[SignalAnswer], Awaitable[None]]
    default_id: str | None = None
    former_id: str | None = None


def signal_state(answer: SignalAnswer) -> SignalState:
    """How far the signal has come with this answer."""
    match answer:
        case SignalAccepted(id_, detail):
            return SignalState(id_, Outcome.ACCEPTED, detail)
        case SignalRejected(id_, reason):
            return SignalState(id_, Outcome.REJECTED, reason)
        case _:
            assert_never(answer)


class SignalChannel(Protocol):
    """Where signals come from. `receive` may raise what an actor may raise."""

    name: str

    async def receive(self) -> IncomingSignal:
        """The next text, whenever it comes. A cancelled call has taken none."""

    async def sealed(self, checkpoint: Checkpoint) -> None:
        """This checkpoint is durable: signals of this channel may have come further. It doesn't wait for the world."""

    async def close(self) -> None:
        """Ends all receiving and answering. Reports unanswered texts to their senders if these wait."""

    def status(self) -> dict[str, Any]:
        """What it says of itself."""
