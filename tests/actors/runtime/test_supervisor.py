"""The supervisor, over tiny actors that fail in each way: which restart, which stop, and in which order."""

import asyncio
import dataclasses
import gc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from actors.runtime.actor import Actor, Sender
from actors.runtime.failure_kinds import StartAgain
from actors.runtime.mailbox import Closed, Mailbox
from actors.runtime.metrics import Metrics
from actors.runtime.supervisor import ExitCode, LifeState, RestartLimits, RunOutcome, Supervisor
from pipeline import metrics as catalogue
from pipeline.errors import Backoff, Definite, InvariantBroken, Transient
from pipeline.messages.topology import CAPTURE, CONTROL, DELIVERY, EDGES, GROUPS, KAFKA, Group, inbox
from pipeline.messages.topology import ActorName as Name

QUICK = RestartLimits(Backoff(0.001, 0.002), look_every_s=0.01, cancel_s=0.3, failures=3)

# What an actor does with a message that reaches it; the flow carries plain functions here.
Deed = Callable[["Tiny"], Awaitable[None]]


class Tiny(Actor[Any]):
    """Handles a message by calling it, and passes on what it returns nothing of: the flow is only for the
    order."""

    patience = 0.05

    def __init__(self, name: Name, house: "House") -> None:
        super().__init__(house.mailboxes[name], house.metrics)
        self.name = name  # type: ignore[misc]
        self.house = house
        self.outlets = {
            edge.receiver: Sender(edge, house.mailboxes[edge.receiver])
            for edge in EDGES
            if edge.sender is name
        }

    async def handle(self, message: Deed) -> None:
        await message(self)

    async def run(self) -> None:
        await super().run()
        self.house.told.append(f"{self.name} drained")

    async def release(self) -> None:
        self.house.told.append(f"{self.name} released")


class House:
    """What assembly is for the real actors: mailboxes, and a factory for each group."""

    def __init__(self, limits: RestartLimits = QUICK) -> None:
        self.metrics = Metrics()
        self.mailboxes: dict[Name, Mailbox[Any]] = {name: Mailbox(inbox(name)) for name in Name}
        self.told: list[str] = []
        self.built: dict[Group, int] = dict.fromkeys(GROUPS, 0)
        self.changed = asyncio.Event()
        self.trouble: dict[Group, list[Exception]] = {group: [] for group in GROUPS}
        self.supervisor = Supervisor(self.build, self.mailboxes, self.metrics, limits)

    async def build(self, group: Group) -> tuple[Actor[Any], ...]:
        self.built[group] += 1
        self.changed.set()
        if self.trouble[group]:
            raise self.trouble[group].pop()
        return tuple(Tiny(name, self) for name in group.actors)

    async def until_built(self, group: Group, times: int) -> None:
        while self.built[group] < times:
            self.changed.clear()
            await self.changed.wait()

    async def tell(self, name: Name, deed: Deed) -> None:
        edge = inbox(name)[0]
        await self.mailboxes[name].put(edge, deed)


@asynccontextmanager
async def running(house: House) -> AsyncIterator[asyncio.Task[RunOutcome]]:
    task = asyncio.create_task(house.supervisor.run())
    try:
        async with asyncio.timeout(60):
            for group in GROUPS:
                await house.until_built(group, 1)
            yield task
    finally:
        task.cancel()
        await asyncio.wait({task})


def raising(error: Exception) -> Deed:
    async def deed(_: Tiny) -> None:
        raise error

    return deed


async def test_a_clean_stop_follows_the_flow() -> None:
    house = House()
    async with running(house) as run:
        house.supervisor.stop()
        assert await run == RunOutcome(ExitCode.CLEAN)
    flow = [
        Name.BINLOG_READER,
        Name.SCHEMA_VERIFIER,
        Name.WATERMARK_COORDINATOR,
        Name.JOURNAL_WRITER,
        Name.SPARK_SINK,
    ]
    order = [house.told.index(f"{name} drained") for name in flow]
    assert order == sorted(order)
    listener, coordinator = (
        house.told.index("SignalListener drained"),
        house.told.index("WatermarkCoordinator drained"),
    )
    assert listener < coordinator
    assert all(state is LifeState.ENDED for state in house.supervisor.states.values())


async def test_a_stop_lets_through_what_was_under_way() -> None:
    house = House()
    arrived: list[str] = []
    down = [Name.SCHEMA_VERIFIER, Name.WATERMARK_COORDINATOR, Name.JOURNAL_WRITER, Name.SPARK_SINK]

    def onwards(path: list[Name]) -> Deed:
        async def deed(actor: Tiny) -> None:
            arrived.append(actor.name)
            if path:
                await actor.send(actor.outlets[path[0]], onwards(path[1:]))

        return deed

    async with running(house) as run:
        await house.tell(Name.BINLOG_READER, onwards(down))
        house.supervisor.stop()
        assert (await run).code is ExitCode.CLEAN
    assert arrived == [Name.BINLOG_READER, *down]


async def test_the_chunk_selector_is_cancelled_once_nobody_takes_its_chunks() -> None:
    house = House()
    reading = asyncio.Event()

    async def for_ever(actor: Tiny) -> None:
        actor.rest()
        reading.set()
        await asyncio.Event().wait()

    async with running(house) as run:
        await house.tell(Name.CHUNK_SELECTOR, for_ever)
        await reading.wait()
        house.supervisor.stop()
        assert (await run).code is ExitCode.CLEAN
    assert "ChunkSelector released" in house.told
    assert "ChunkSelector drained" not in house.told


@pytest.mark.parametrize(
    "error", [Transient("the line broke"), ConnectionResetError("gone"), ZeroDivisionError()]
)
@pytest.mark.parametrize("name", list(Name))
async def test_a_failed_actor_is_built_anew_with_its_group_and_no_other(name: Name, error: Exception) -> None:
    house = House()
    group = next(group for group in GROUPS if name in group.actors)
    async with running(house) as run:
        await house.tell(name, raising(error))
        await house.until_built(group, 2)
        house.supervisor.stop()
        assert (await run).code is ExitCode.CLEAN
    assert house.built == {each: 2 if each is group else 1 for each in GROUPS}
    assert house.metrics.value(catalogue.RESTARTS, actor=name) == 1
    kind = "unforeseen" if isinstance(error, ZeroDivisionError) else "transient"
    assert house.metrics.value(catalogue.ERRORS, actor=name, kind=kind) == 1
    for member in group.actors:
        assert f"{member} released" in house.told


async def test_an_actor_that_asks_for_a_new_start_gets_one_at_once_and_has_not_failed() -> None:
    house = House(RestartLimits(Backoff(600, 600), look_every_s=0.01))
    async with running(house) as run:
        for times in (2, 3):
            await house.tell(Name.JOURNAL_WRITER, raising(StartAgain("a signal asks for it")))
            await house.until_built(CAPTURE, times)
        house.supervisor.stop()
        assert (await run).code is ExitCode.CLEAN
    assert house.built == {CAPTURE: 3, DELIVERY: 1, KAFKA: 1, CONTROL: 1}
    assert house.supervisor.failures == {}
    for actor in CAPTURE.actors:
        assert house.metrics.value(catalogue.RESTARTS, actor=actor) == 0


async def test_what_waited_for_a_failed_group_is_dropped_and_others_mail_is_kept() -> None:
    house = House()
    got: list[str] = []

    async def noted(actor: Tiny) -> None:
        got.append(actor.name)

    async with running(house) as run:
        await house.tell(Name.SCHEMA_VERIFIER, raising(Transient("lost")))
        await house.tell(Name.SCHEMA_VERIFIER, noted)
        await house.tell(Name.SPARK_SINK, noted)
        await house.until_built(CAPTURE, 2)
        house.supervisor.stop()
        await run
    assert got == [Name.SPARK_SINK]


async def test_a_failure_that_cannot_be_told_ends_the_process() -> None:
    class Untold(Exception):
        def __str__(self) -> str:
            raise KeyError("nobody is there to ask")

    house = House()
    async with running(house) as run:
        await house.tell(Name.CHUNK_SELECTOR, raising(Untold()))
        outcome = await run
    told = "ChunkSelector failed with Untold, and telling that with KeyError"
    assert outcome == RunOutcome(ExitCode.INVARIANT, told)


async def test_transient_failures_never_make_it_give_up() -> None:
    house = House()
    house.trouble[CAPTURE] = [Transient("still down") for _ in range(3 * QUICK.failures)]
    async with running(house) as run:
        await house.until_built(CAPTURE, 3 * QUICK.failures + 1)
        house.supervisor.stop()
        assert (await run).code is ExitCode.CLEAN


async def test_unforeseen_failures_make_it_give_up_and_deliver_what_has_come() -> None:
    house = House()
    house.trouble[DELIVERY] = []
    house.trouble[CONTROL] = [ValueError("odd") for _ in range(QUICK.failures + 1)]
    async with running(house) as run:
        outcome = await run
    assert outcome.code is ExitCode.GAVE_UP
    assert "odd" in outcome.message
    assert house.built[CONTROL] == QUICK.failures + 1
    assert "JournalWriter drained" in house.told
    assert "SparkSink drained" in house.told


@pytest.mark.parametrize("name", [name for name in Name if name not in KAFKA.actors])
async def test_a_definite_error_stops_the_pipeline_as_cleanly_as_can_be(name: Name) -> None:
    house = House()
    async with running(house) as run:
        await house.tell(name, raising(Definite("binlog.000007 is purged; take a new snapshot")))
        outcome = await run
    assert outcome == RunOutcome(ExitCode.DEFINITE, f"{name}: binlog.000007 is purged; take a new snapshot")
    for downstream in (Name.JOURNAL_WRITER, Name.SPARK_SINK):
        assert (f"{downstream} drained" in house.told) is (downstream is not name)


async def test_a_definite_error_ends_senders_that_wait_for_room_at_the_failed_one() -> None:
    house = House()
    full = asyncio.Event()

    async def flood(actor: Tiny) -> None:
        outlet = actor.outlets[Name.SCHEMA_VERIFIER]
        while True:
            if not outlet.mailbox.has_room(outlet.edge):
                full.set()
            await actor.send(outlet, stuck)

    async def stuck(actor: Tiny) -> None:
        actor.rest()
        await full.wait()
        raise Definite("an event that can't be decoded")

    async with running(house) as run:
        await house.tell(Name.BINLOG_READER, flood)
        outcome = await run
    assert outcome.code is ExitCode.DEFINITE
    assert "JournalWriter drained" in house.told


async def test_a_definite_error_in_the_build_stops_it_too() -> None:
    house = House()
    house.trouble[CAPTURE] = [Definite("REPLICATION SLAVE isn't granted; grant it")]
    async with running(house) as run:
        outcome = await run
    assert outcome == RunOutcome(ExitCode.DEFINITE, "capture: REPLICATION SLAVE isn't granted; grant it")


@pytest.mark.parametrize("name", list(Name))
async def test_a_broken_invariant_ends_all_at_once_and_nothing_drains(name: Name) -> None:
    house = House()
    async with running(house) as run:
        await house.tell(name, raising(InvariantBroken("a key moved backwards")))
        outcome = await run
    assert outcome == RunOutcome(ExitCode.INVARIANT, f"{name}: a key moved backwards")
    assert not [line for line in house.told if line.endswith("drained")]


async def test_an_actor_that_ends_by_itself_breaks_an_invariant() -> None:
    house = House()
    async with running(house) as run:
        house.mailboxes[Name.SPARK_SINK].close()
        outcome = await run
    assert outcome.code is ExitCode.INVARIANT
    assert "SparkSink ended without an order to" in outcome.message


async def test_a_hung_actor_is_cancelled_and_built_anew() -> None:
    house = House()

    async def hang(_: Tiny) -> None:
        await asyncio.Event().wait()

    async with running(house) as run:
        await house.tell(Name.SPARK_SINK, hang)
        await house.until_built(DELIVERY, 2)
        house.supervisor.stop()
        assert (await run).code is ExitCode.CLEAN
    assert house.metrics.value(catalogue.ERRORS, actor=Name.SPARK_SINK, kind="hang") == 1
    assert house.built[CAPTURE] == 1


async def test_an_actor_that_somebody_else_cancelled_is_built_anew() -> None:
    house = House()

    async def leak(_: Tiny) -> None:
        raise asyncio.CancelledError

    async with running(house) as run:
        await house.tell(Name.SCHEMA_VERIFIER, leak)
        await house.until_built(CAPTURE, 2)
        house.supervisor.stop()
        assert (await run).code is ExitCode.CLEAN
    assert house.metrics.value(catalogue.ERRORS, actor=Name.SCHEMA_VERIFIER, kind="unforeseen") == 1
    assert house.supervisor.failures[Name.SCHEMA_VERIFIER] == (
        "SchemaVerifier: it was cancelled, but not by the supervisor"
    )


async def test_waiting_for_room_is_not_hanging() -> None:
    house = House()
    hung: list[str | None] = []

    async def flood(actor: Tiny) -> None:
        outlet = actor.outlets[Name.SCHEMA_VERIFIER]
        while outlet.mailbox.has_room(outlet.edge):
            await actor.send(outlet, slow)
        await actor.send(outlet, slow)

    async def slow(actor: Tiny) -> None:
        if not hung:
            actor.rest()
            reader = house.supervisor.actors[Name.BINLOG_READER]
            async with asyncio.timeout(2 * Tiny.patience) as waiting:
                while not waiting.expired():
                    hung.append(reader.hung())
                    await asyncio.Event().wait()

    async with running(house) as run:
        await house.tell(Name.BINLOG_READER, flood)
        await house.until_built(CAPTURE, 2)  # the timeout of `slow`, an unforeseen error
        house.supervisor.stop()
        await run
    assert not any(hung)
    assert house.metrics.value(catalogue.ERRORS, actor=Name.BINLOG_READER, kind="hang") == 0


async def test_a_cancellation_that_does_not_take_ends_the_process() -> None:
    house = House()
    release, ended = asyncio.Event(), asyncio.Event()

    async def stubborn(_: Tiny) -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        ended.set()

    async with running(house) as run:
        await house.tell(Name.SPARK_SINK, stubborn)
        outcome = await run
        assert outcome.code is ExitCode.HUNG
        tasks = house.supervisor._tasks
        assert [name for name, task in tasks.items() if not task.done()] == [Name.SPARK_SINK]
        release.set()
        await ended.wait()
        task = tasks[Name.SPARK_SINK]
        task.cancel()
        await asyncio.wait({task})


async def test_a_stop_does_not_wait_for_what_may_never_come(monkeypatch: pytest.MonkeyPatch) -> None:
    house, came = House(), asyncio.Event()

    async def wait(tiny: Tiny) -> None:
        monkeypatch.setattr(tiny, "waits", lambda: "there's no room")
        tiny.rest()
        came.set()
        await asyncio.Event().wait()

    async with running(house) as run:
        await house.tell(Name.JOURNAL_WRITER, wait)
        await came.wait()
        house.supervisor.stop()
        outcome = await run
    assert outcome == RunOutcome(
        ExitCode.GAVE_UP, "JournalWriter: there's no room; what's sealed is in the journal"
    )


async def test_a_second_stop_ends_at_once() -> None:
    house = House()
    busy = asyncio.Event()

    async def deliver(actor: Tiny) -> None:
        actor.rest()
        busy.set()
        await asyncio.Event().wait()

    async with running(house) as run:
        await house.tell(Name.SPARK_SINK, deliver)
        await busy.wait()
        house.supervisor.stop()
        house.supervisor.stop()
        outcome = await run
    assert outcome.code is ExitCode.GAVE_UP
    assert "SparkSink drained" not in house.told


async def test_a_failure_while_stopping_is_told_and_not_repaired() -> None:
    house = House()
    stopped = asyncio.Event()

    async def fail_late(actor: Tiny) -> None:
        actor.rest()
        await stopped.wait()
        raise Transient("Spark went away")

    async with running(house) as run:
        await house.tell(Name.SPARK_SINK, fail_late)
        house.supervisor.stop()
        stopped.set()
        outcome = await run
    assert outcome.code is ExitCode.GAVE_UP
    assert "Spark went away" in outcome.message
    assert house.built[DELIVERY] == 1


async def test_the_first_reason_for_a_stop_is_the_one_that_is_told() -> None:
    house = House()
    stopped = asyncio.Event()

    async def fail_late(actor: Tiny) -> None:
        actor.rest()
        await stopped.wait()
        raise Definite("the lake's table is another's")

    async def fail_first(_: Tiny) -> None:
        stopped.set()
        raise Definite("binlog.000007 is purged")

    async with running(house) as run:
        await house.tell(Name.SPARK_SINK, fail_late)
        await house.tell(Name.BINLOG_READER, fail_first)
        outcome = await run
    assert outcome == RunOutcome(ExitCode.DEFINITE, "BinlogReader: binlog.000007 is purged")


async def test_pauses_grow_and_begin_anew_after_a_calm_time() -> None:
    for calm_s, grown in ((3600.0, True), (-1.0, False)):
        asked: list[int] = []

        class Noted(Backoff):
            def pause_s(self, tries: int) -> float:
                asked.append(tries)  # noqa: B023 - used up before the loop continues
                return 0.0

        house = House(RestartLimits(Noted(0.0, 0.0), calm_s=calm_s))
        house.trouble[CAPTURE] = [Transient("down") for _ in range(3)]
        async with running(house) as run:
            await house.until_built(CAPTURE, 4)
            house.supervisor.stop()
            await run
        assert asked == ([1, 2, 3] if grown else [1, 1, 1])


async def test_a_stop_does_not_wait_for_a_pause_or_a_build() -> None:
    house = House(RestartLimits(Backoff(3600, 3600), look_every_s=0.01))
    house.trouble[CONTROL] = [Transient("down")]
    async with running(house) as run:
        house.supervisor.stop()
        assert (await run).code is ExitCode.CLEAN


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Transient("it was half connected"), ExitCode.CLEAN),
        (InvariantBroken("two heads"), ExitCode.INVARIANT),
    ],
)
async def test_a_build_that_a_stop_breaks_off_is_listened_to(
    error: Exception, code: ExitCode, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    house = House()

    async def build(group: Group) -> tuple[Actor[Any], ...]:
        if group is not DELIVERY:
            return await house.build(group)
        try:
            house.built[group] += 1
            house.changed.set()
            return await asyncio.Future()
        finally:
            raise error

    monkeypatch.setattr(house.supervisor, "_build", build)
    async with running(house) as run:
        house.supervisor.stop()
        assert (await run).code is code
    gc.collect()
    assert [line for line in caplog.records if line.name == "asyncio"] == []


async def test_a_stop_while_the_sink_is_down_is_not_clean() -> None:
    house = House(RestartLimits(Backoff(3600, 3600), look_every_s=0.01))
    house.trouble[DELIVERY] = [Transient("Spark's JVM has ended")]
    async with running(house) as run:
        while house.supervisor.states[Name.SPARK_SINK] is not LifeState.RESTARTING:
            await asyncio.tasks.sleep(0)
        house.supervisor.stop()
        outcome = await run
    assert outcome.code is ExitCode.GAVE_UP
    assert "the next start delivers it" in outcome.message


async def test_a_message_to_an_ended_coordinator_is_no_failure_of_the_selector() -> None:
    house = House()

    async def answer_late(actor: Tiny) -> None:
        actor.rest()
        while not actor.outlets[Name.WATERMARK_COORDINATOR].mailbox.closed:
            await asyncio.tasks.sleep(0)
        with pytest.raises(Closed):
            await actor.send(actor.outlets[Name.WATERMARK_COORDINATOR], raising(AssertionError("too late")))
        raise Closed

    async with running(house) as run:
        await house.tell(Name.CHUNK_SELECTOR, answer_late)
        house.supervisor.stop()
        assert (await run).code is ExitCode.CLEAN


@pytest.mark.parametrize("seed", range(40))
async def test_stopping_at_any_moment_ends_cleanly(seed: int) -> None:
    house = House()
    house.trouble[CAPTURE] = [Transient("slow to come up")] * (seed % 3)
    async with asyncio.timeout(60):
        run = asyncio.create_task(house.supervisor.run())
        for _ in range(seed):
            await asyncio.tasks.sleep(0)
        house.supervisor.stop()
        assert (await run).code is ExitCode.CLEAN
    assert all(state is LifeState.ENDED for state in house.supervisor.states.values())


@pytest.mark.parametrize("steps", range(40))
async def test_a_cancellation_at_any_step_of_a_build_leaves_no_actor(steps: int) -> None:
    """As many steps of the loop after the start: at some of them a group has just been built."""
    house = House()
    run = asyncio.create_task(house.supervisor.run())
    for _ in range(steps):
        await asyncio.sleep(0)
    run.cancel()
    await asyncio.wait({run})
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_what_fails_in_kafka_is_its_own_affair() -> None:
    """A definite error and a bug, again and again: the group is built again, and nothing else is."""
    house = House(dataclasses.replace(QUICK, failures=1))
    async with running(house) as run:
        for times in range(2, 7):
            error = Definite("refused") if times % 2 else RuntimeError("a bug")
            await house.tell(Name.KAFKA_SINK, raising(error))
            await house.until_built(KAFKA, times)
        assert house.built == {CAPTURE: 1, DELIVERY: 1, KAFKA: 6, CONTROL: 1}
        house.supervisor.stop()
        await run


async def test_a_group_that_the_configuration_has_no_use_for_is_absent() -> None:
    """No message waits for it, neither one that came while it was built nor a later one."""

    class WithoutKafka(House):
        async def build(self, group: Group) -> tuple[Actor[Any], ...]:
            actors = await super().build(group)
            if group is not KAFKA:
                return actors
            await self.tell(Name.KAFKA_SINK, raising(Definite("early")))
            return ()

    house = WithoutKafka()
    async with running(house) as run:
        while house.supervisor.states[Name.KAFKA_SINK] is not LifeState.ABSENT:
            await asyncio.tasks.sleep(0)
        assert house.mailboxes[Name.KAFKA_SINK].depth == 0
        await house.tell(Name.KAFKA_SINK, raising(Definite("late")))
        assert house.mailboxes[Name.KAFKA_SINK].depth == 0
        house.supervisor.stop()
        assert await run == RunOutcome(ExitCode.CLEAN)
    assert house.built[KAFKA] == 1
