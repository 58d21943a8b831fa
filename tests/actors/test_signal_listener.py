"""The SignalListener over a channel of the test: each text gets its one answer in every case."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from actors.runtime.actor import Sender
from actors.runtime.mailbox import Mailbox
from actors.runtime.metrics import Metrics
from actors.signal_listener import SignalListener
from actors.signals.channel import IncomingSignal
from pipeline import metrics as catalogue
from pipeline.messages.inboxes import ToSignalListener
from pipeline.messages.journal import CheckpointSealed
from pipeline.messages.signals import SignalAccepted, SignalAnswer, SignalReceived, SignalRejected
from pipeline.messages.topology import MOST_SIGNALS, ActorName, inbox
from pipeline.signals.outcomes import Outcome, SignalState
from pipeline.signals.signal import PauseSnapshot, ResumeSnapshot
from pipeline.snapshot.checkpoint import Checkpoint
from pipeline.snapshot.snapshot import Progress, Snapshot, SnapshotFailed, SnapshotWaiting
from tests.pipeline.builders import ORDERS, gtids
from tests.servers.awaiting import until

PAUSE = '{"id":"p","type":"pause-snapshot"}'
BEFORE = Checkpoint(gtids("a:1-5"))
RESUME = '{"id":"r","type":"resume-snapshot"}'


class Held:
    """A channel into which the test puts texts, and out of which it takes answers."""

    name = "held"

    def __init__(self) -> None:
        self.texts: asyncio.Queue[str] = asyncio.Queue()
        self.answers: asyncio.Queue[SignalAnswer] = asyncio.Queue()
        self.closed = asyncio.Event()
        self.checkpoints: list[Checkpoint] = []

    async def receive(self) -> IncomingSignal:
        text = await self.texts.get()
        if text == "break":
            raise OSError("the channel broke")
        return IncomingSignal(text, self.answers.put, "given", "former")

    async def sealed(self, checkpoint: Checkpoint) -> None:
        self.checkpoints.append(checkpoint)

    async def close(self) -> None:
        self.closed.set()

    def status(self) -> dict[str, Any]:
        return {"waiting": self.texts.qsize()}


class Bench:
    """A listener, its channel, and the test in the coordinator's and the journal's place."""

    def __init__(self) -> None:
        self.metrics = Metrics()
        self.channel, self.other = Held(), Held()
        self.mailbox: Mailbox[ToSignalListener] = Mailbox(inbox(ActorName.SIGNAL_LISTENER))
        self.coordinator: Mailbox[SignalReceived] = Mailbox(inbox(ActorName.WATERMARK_COORDINATOR))
        edge = next(
            e for e in inbox(ActorName.WATERMARK_COORDINATOR) if e.sender is ActorName.SIGNAL_LISTENER
        )
        self.listener = SignalListener(
            self.mailbox, self.metrics, Sender(edge, self.coordinator), (self.channel, self.other)
        )

    async def judge(self, answer: ToSignalListener) -> None:
        edge = next(edge for edge in inbox(ActorName.SIGNAL_LISTENER) if type(answer) in edge.messages)
        await self.mailbox.put(edge, answer)


@asynccontextmanager
async def listening() -> AsyncIterator[Bench]:
    bench = Bench()
    run = asyncio.create_task(bench.listener.run())
    async with asyncio.timeout(60):
        yield bench
        bench.mailbox.close()
        await run
    assert bench.channel.closed.is_set()


async def test_a_signal_is_passed_on_and_its_answer_brought_back() -> None:
    async with listening() as bench:
        await bench.channel.texts.put(PAUSE)
        assert await bench.coordinator.get() == SignalReceived(PauseSnapshot("p"))
        assert bench.listener.status()["unanswered"] == ["p"]
        await bench.judge(SignalAccepted("p", "paused"))
        assert await bench.channel.answers.get() == SignalAccepted("p", "paused")
        assert bench.listener.status()["unanswered"] == []


async def test_a_malformed_signal_is_answered_and_does_not_block_the_next() -> None:
    async with listening() as bench:
        await bench.channel.texts.put("{")
        await bench.channel.texts.put('{"id":"x","type":"explode"}')
        await bench.channel.texts.put(RESUME)
        first, second = await bench.channel.answers.get(), await bench.channel.answers.get()
        assert isinstance(first, SignalRejected)
        assert isinstance(second, SignalRejected)
        assert second.id == "x"
        assert second.reason.startswith("there's no signal of the type 'explode'; there are ")
        assert await bench.coordinator.get() == SignalReceived(ResumeSnapshot("r"))
        assert bench.metrics.value(catalogue.SIGNALS, channel="held", outcome="malformed") == 2


async def test_answers_find_their_askers_in_any_order() -> None:
    async with listening() as bench:
        await bench.channel.texts.put(PAUSE)
        await bench.other.texts.put(RESUME)
        await bench.coordinator.get()
        await bench.coordinator.get()
        await bench.judge(SignalRejected("r", "nothing is paused"))
        await bench.judge(SignalAccepted("p", "paused"))
        assert await bench.other.answers.get() == SignalRejected("r", "nothing is paused")
        assert await bench.channel.answers.get() == SignalAccepted("p", "paused")


async def test_a_rejection_because_something_is_under_way_is_counted_apart() -> None:
    async with listening() as bench:
        await bench.channel.texts.put(PAUSE)
        await bench.coordinator.get()
        await bench.judge(SignalRejected("p", "so", busy=True))
        await bench.channel.answers.get()
        counted = {
            outcome: bench.metrics.value(catalogue.SIGNALS, channel="held", outcome=outcome)
            for outcome in ("busy", "rejected")
        }
        assert counted == {"busy": 1, "rejected": 0}
        assert bench.listener.status()["signals"] == [{"id": "p", "outcome": "rejected", "reason": "so"}]


async def test_a_repetition_is_not_passed_on_and_shares_the_answer() -> None:
    async with listening() as bench:
        await bench.channel.texts.put(PAUSE)
        await bench.coordinator.get()
        await bench.channel.texts.put(PAUSE)
        await bench.channel.texts.put(RESUME)
        assert await bench.coordinator.get() == SignalReceived(ResumeSnapshot("r"))
        await bench.judge(SignalAccepted("p", "paused"))
        assert await bench.channel.answers.get() == await bench.channel.answers.get()


async def test_another_signal_with_an_id_under_way_is_refused() -> None:
    async with listening() as bench:
        await bench.channel.texts.put(PAUSE)
        await bench.coordinator.get()
        await bench.channel.texts.put('{"id":"p","type":"resume-snapshot"}')
        refused = await bench.channel.answers.get()
        assert isinstance(refused, SignalRejected)
        assert "choose another id" in refused.reason


async def test_a_coordinator_built_anew_gets_what_is_unanswered() -> None:
    async with listening() as bench:
        await bench.channel.texts.put(PAUSE)
        await bench.channel.texts.put(RESUME)
        await bench.coordinator.get()
        await bench.coordinator.get()
        await bench.judge(SignalAccepted("p", "paused"))
        await bench.channel.answers.get()
        bench.coordinator.empty()
        assert await bench.coordinator.get() == SignalReceived(ResumeSnapshot("r"))


async def test_the_former_id_of_a_text_without_an_id_is_passed_on_each_time() -> None:
    async with listening() as bench:
        await bench.channel.texts.put('{"type":"pause-snapshot"}')
        received = SignalReceived(PauseSnapshot("given"), "former")
        assert await bench.coordinator.get() == received
        bench.coordinator.empty()
        assert await bench.coordinator.get() == received


async def test_what_comes_meanwhile_is_no_sign_of_life_of_an_answer_that_hangs() -> None:
    async with listening() as bench:
        bench.channel.answers = asyncio.Queue(1)
        await bench.channel.answers.put(SignalAccepted("before", "paused"))
        await bench.channel.texts.put(PAUSE)
        await bench.coordinator.get()
        await bench.judge(SignalAccepted("p", "paused"))
        since = await until(lambda: bench.listener._busy_since, "the answer is on its way")
        await bench.other.texts.put(RESUME)
        assert await bench.coordinator.get() == SignalReceived(ResumeSnapshot("r"))
        assert bench.listener._busy_since == since
        await bench.channel.answers.get()


async def test_an_answer_that_nobody_waits_for_is_let_go() -> None:
    async with listening() as bench:
        await bench.judge(SignalAccepted("long gone", "paused"))
        await bench.channel.texts.put(PAUSE)
        await bench.coordinator.get()
        await bench.judge(SignalAccepted("p", "paused"))
        assert await bench.channel.answers.get() == SignalAccepted("p", "paused")


async def test_how_far_signals_have_come_is_told_to_each_channel_and_kept_for_the_status() -> None:
    async with listening() as bench:
        await bench.channel.texts.put(PAUSE)
        await bench.coordinator.get()
        await bench.judge(SignalAccepted("p", "paused"))
        begun = replace(BEFORE, snapshots=(Snapshot("s1", {ORDERS.table: SnapshotWaiting()}),))
        row = SignalState("r1", Outcome.REJECTED, "no such table")
        await bench.judge(CheckpointSealed(begun, (row,)))
        await until(lambda: bench.channel.checkpoints == bench.other.checkpoints == [begun], "it was told")
        assert bench.listener.status()["signals"] == [
            {"id": "p", "outcome": "accepted", "detail": "paused"},
            {"id": "r1", "outcome": "rejected", "reason": "no such table"},
            {"id": "s1", "outcome": "running", "detail": "shop.orders"},
        ]
        assert bench.metrics.value(catalogue.SIGNALS, channel="table", outcome="rejected") == 1
        ended = replace(
            BEFORE, snapshots=(Snapshot("s1", {ORDERS.table: SnapshotFailed("no key", Progress())}),)
        )
        await bench.judge(CheckpointSealed(ended, (row,)))
        await until(lambda: len(bench.channel.checkpoints) == 2, "it was told")
        assert bench.listener.signal("s1") == SignalState("s1", Outcome.FAILED, "shop.orders: no key")
        assert [state["id"] for state in bench.listener.status()["signals"]] == ["p", "r1", "s1"]
        assert bench.metrics.value(catalogue.SIGNALS, channel="table", outcome="rejected") == 1


async def test_a_channel_says_how_it_is() -> None:
    async with listening() as bench:
        assert bench.listener.status()["channels"] == {"held": {"waiting": 0}}


async def test_no_more_are_taken_than_may_be_unanswered() -> None:
    async with listening() as bench:
        for i in range(MOST_SIGNALS + 1):
            await bench.channel.texts.put(f'{{"id":"{i}","type":"pause-snapshot"}}')
        for _ in range(MOST_SIGNALS):
            await bench.coordinator.get()
        assert bench.channel.texts.qsize() == 1
        await bench.judge(SignalRejected("0", "no"))
        assert await bench.coordinator.get() == SignalReceived(PauseSnapshot(str(MOST_SIGNALS)))


async def test_a_broken_channel_is_the_listener_s_failure() -> None:
    bench = Bench()
    await bench.channel.texts.put("break")
    with pytest.raises(OSError, match="the channel broke"):
        await bench.listener.run()
    assert bench.channel.closed.is_set()
