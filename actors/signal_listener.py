"""The SignalListener: takes signals from its channels, passes them on, and returns each answer.

A signal is answered once. That is when its text isn't a signal, or when the coordinator's decision on it is sealed in
the journal. Until then the listener keeps it. If capture is built again meanwhile, the listener sends it again. That is
harmless, because the coordinator takes each id once. Signals that are unanswered when the listener itself ends are the
channel's to offer again. Each channel says how.

The checkpoints have the later progress of a signal. Each channel gets every sealed one, as far as it keeps up, and
reports the progress of its own signals (`pipeline.signals.notifications`). So nothing waits here for a channel that
can't report yet. The status remembers all of them, also those that came as rows of the signal table.

A channel is one file with one class that has the shape of `SignalChannel`.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Any, Final, assert_never

import structlog

from actors.runtime.actor import Actor, Sender
from actors.runtime.mailbox import Mailbox
from actors.runtime.measuring import contain_errors
from actors.runtime.metrics import Metrics
from actors.runtime.tasks import first_end
from actors.signals.channel import IncomingSignal, SignalChannel, signal_state
from pipeline import metrics as catalogue
from pipeline.messages import topology
from pipeline.messages.inboxes import ToSignalListener
from pipeline.messages.journal import CheckpointSealed
from pipeline.messages.signals import SignalAccepted, SignalAnswer, SignalReceived, SignalRejected
from pipeline.signals.outcomes import SignalHistory, SignalState
from pipeline.signals.signal import MalformedSignal, parse_signal

log = structlog.get_logger()

# What the signal table is called among the channels; its rows come with the log, not by a channel here.
SIGNAL_TABLE: Final = "table"

# How a signal is counted that is rejected because another one's work is under way.
BUSY: Final = "busy"


@dataclass(slots=True)
class _Unanswered:
    received: SignalReceived
    askers: list[tuple[SignalChannel, IncomingSignal]] = field(default_factory=list)


class SignalListener(Actor[ToSignalListener]):
    """Listens to all channels at once; no more than MOST_SIGNALS texts are unanswered at any time."""

    name = topology.ActorName.SIGNAL_LISTENER

    def __init__(
        self,
        mailbox: Mailbox[ToSignalListener],
        metrics: Metrics,
        coordinator: Sender[SignalReceived],
        channels: tuple[SignalChannel, ...],
    ) -> None:
        super().__init__(mailbox, metrics)
        self._coordinator = coordinator
        self._channels = channels
        self._unanswered: dict[str, _Unanswered] = {}
        self._history = SignalHistory()
        self._room = asyncio.Semaphore(topology.MOST_SIGNALS)

    async def run(self) -> None:
        """Listen and answer until the mailbox is closed."""
        try:
            await first_end(super().run(), self._send_again(), *map(self._listen, self._channels))
        finally:
            # Not before no channel listens: a signal taken after the close would get no answer.
            for channel in self._channels:
                await channel.close()

    async def handle(self, message: ToSignalListener) -> None:
        """Returns the answer to all senders of the signal, or reports the progress of signals."""
        match message:
            case SignalAccepted() | SignalRejected():
                unanswered = self._unanswered.pop(message.id, None)
                for channel, arrived in unanswered.askers if unanswered else ():
                    await self._answer(channel, arrived, message)
                self.metrics.set(catalogue.SIGNALS_UNANSWERED, len(self._unanswered))
            case CheckpointSealed(checkpoint, rows):
                for state in self._history.sealed(checkpoint, rows):
                    self._report(SIGNAL_TABLE, state, state.outcome.value)
                for channel in self._channels:
                    await channel.sealed(checkpoint)
            case _:
                assert_never(message)

    def status(self) -> dict[str, Any]:
        """The channels, the ids of the signals that wait for their answer, and how far the last ones have come."""
        return {
            "channels": {channel.name: channel.status() for channel in self._channels},
            "unanswered": list(self._unanswered),
            "signals": [state.to_json() for state in self._history.last()],
        }

    def signal(self, id_: str) -> SignalState | None:
        """How far the signal has come, None if it's unknown."""
        return self._history.find(id_)

    async def _listen(self, channel: SignalChannel) -> None:
        while True:
            await self._room.acquire()
            await self._take_in(channel, await channel.receive())

    async def _take_in(self, channel: SignalChannel, arrived: IncomingSignal) -> None:
        try:
            signal = parse_signal(arrived.text, arrived.default_id)
        except MalformedSignal as error:
            await self._answer(channel, arrived, SignalRejected(error.id or "", str(error)), "malformed")
            return
        former_id = arrived.former_id if signal.id == arrived.default_id else None
        received = SignalReceived(signal, former_id)
        waiting = self._unanswered.setdefault(signal.id, _Unanswered(received))
        if waiting.received.signal != signal:
            reason = "another signal with this id is being dealt with; choose another id"
            await self._answer(channel, arrived, SignalRejected(signal.id, reason))
            return
        waiting.askers.append((channel, arrived))
        self.metrics.set(catalogue.SIGNALS_UNANSWERED, len(self._unanswered))
        log.info("signal received", channel=channel.name, id=signal.id, type=signal.wire)
        if len(waiting.askers) == 1:
            await self._coordinator.put(received)

    async def _send_again(self) -> None:
        """Sends unanswered signals to each coordinator that's built again."""
        emptied = self._coordinator.mailbox.emptied
        while True:
            emptied = await self._coordinator.mailbox.wait_emptied(emptied)
            for unanswered in list(self._unanswered.values()):
                await self._coordinator.put(unanswered.received)

    async def _answer(
        self, channel: SignalChannel, arrived: IncomingSignal, answer: SignalAnswer, outcome: str = ""
    ) -> None:
        state = signal_state(answer)
        if isinstance(answer, SignalRejected) and answer.busy:
            outcome = BUSY
        self._history.remember(state)
        self._report(channel.name, state, outcome or state.outcome.value)
        self._room.release()
        await arrived.answer(answer)

    @contain_errors
    def _report(self, channel: str, state: SignalState, outcome: str) -> None:
        self.metrics.count(catalogue.SIGNALS, channel=channel, outcome=outcome)
        how_far = state.outcome.value
        log.info("signal answered", channel=channel, id=state.id, outcome=how_far, detail=state.detail)
