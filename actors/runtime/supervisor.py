"""The supervisor: starts the actors, watches them, restarts them, and stops them in order.

Actors restart in groups (`topology.GROUPS`). If one actor fails, its whole group is cancelled and built again. A
failure in a group that stands alone never stops the pipeline: it is always built again, even after a definite error.

    what an actor raises       what happens
    Transient, OSError         its group is cancelled, and built again after a pause that grows; without a limit
    anything unforeseen        the same, with the traceback in the log, but not too often (`RestartLimits`)
    (it hangs)                 the same as unforeseen
    StartAgain                 its group is cancelled, and built again at once: the actor requested that
    Definite                   the pipeline stops, as cleanly as it can: what has come is sealed and delivered
    InvariantBroken            the process ends at once, and nothing more is sealed

A clean stop follows the flow. Actors without a sender before them (BinlogReader, SignalListener) are closed first. Each
other actor's mailbox is closed when its last sender before it has ended. So all data that was read gets as far as it
can. An actor that would wait for room at an ended one is cancelled, because no actor will take its message. So is one
that waits for an event that may never come (`Actor.waits`). `topology.ActorName` defines the order. A stop isn't clean
if a sink is waiting for its restart, because its output lacks what was sealed meanwhile (`Group.lacks`).
"""

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Any, Final, TypeVar, assert_never

import structlog

from actors.runtime.actor import Actor
from actors.runtime.failure_kinds import FailureKind, Hung, StartAgain, kind_of
from actors.runtime.mailbox import Closed, Mailbox
from actors.runtime.metrics import Metrics
from actors.runtime.redaction import ActorError, safe_message
from actors.runtime.retry import random_pause_s
from actors.runtime.tasks import broken_off
from pipeline import metrics as catalogue
from pipeline.errors import Backoff, InvariantBroken
from pipeline.messages.topology import EDGES, GROUPS, Group, WhenFull
from pipeline.messages.topology import ActorName as Name

log = structlog.get_logger()

Result = TypeVar("Result")


class ExitCode(IntEnum):
    """How the process ends; shown by `tidemark run --help`."""

    CLEAN = 0
    GAVE_UP = 1  # too many failures, or a failure while stopping; what's sealed is safe
    DEFINITE = 2
    INVARIANT = 3
    HUNG = 4


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """How a run ended, and the words for the operator (empty after a clean end)."""

    code: ExitCode
    message: str = ""


BETWEEN_RESTARTS: Final = Backoff(0.5, 30.0)


@dataclass(frozen=True, slots=True)
class RestartLimits:
    """The pauses before restarts double, from the first again after a calm time.

    After more than `failures` unforeseen ones of a group within `within_s` seconds the pipeline stops. A cancellation
    has to take effect within `cancel_s` seconds.
    """

    pauses: Backoff = BETWEEN_RESTARTS
    calm_s: float = 60.0
    failures: int = 5
    within_s: float = 300.0
    look_every_s: float = 1.0
    cancel_s: float = 10.0


class LifeState(StrEnum):
    """Where an actor is in its life."""

    STARTING = "starting"
    RUNNING = "running"
    RESTARTING = "restarting"
    ENDED = "ended"
    ABSENT = "absent"  # the configuration has no use for it


Build = Callable[[Group], Coroutine[Any, Any, tuple[Actor[Any], ...]]]

# Of each actor, those before it in the flow that send to it, and those in whose mailboxes it may have to wait.
_BEFORE = {
    name: [
        edge.sender
        for edge in EDGES
        if edge.receiver is name and list(Name).index(edge.sender) < list(Name).index(name)
    ]
    for name in Name
}
_WAITS_FOR = {
    name: [edge.receiver for edge in EDGES if edge.sender is name and edge.when_full is WhenFull.WAIT]
    for name in Name
}


class Supervisor:
    """Runs the actors that `build` makes for each group; `build` may raise what an actor may raise."""

    def __init__(
        self,
        build: Build,
        mailboxes: Mapping[Name, Mailbox[Any]],
        metrics: Metrics,
        limits: RestartLimits = RestartLimits(),
    ) -> None:
        self.actors: dict[Name, Actor[Any]] = {}
        self.states = dict.fromkeys(Name, LifeState.STARTING)
        self.failures: dict[Name, str] = {}
        self._build = build
        self._mailboxes = mailboxes
        self._metrics = metrics
        self._limits = limits
        self._tasks: dict[Name, asyncio.Task[None]] = {}
        self._cancelled: dict[asyncio.Task[None], float] = {}
        self._hung: dict[asyncio.Task[None], str] = {}
        self._asked: set[Group] = set()  # those of which an actor asks for a new start
        self._unforeseen: dict[Group, deque[float]] = {group: deque() for group in GROUPS}
        self._outcome = RunOutcome(ExitCode.CLEAN)
        self._stopping = asyncio.Event()
        self._at_once = asyncio.Event()

    async def run(self) -> RunOutcome:
        """Run until the pipeline has stopped or has to end."""
        watch = asyncio.create_task(self._watch())
        at_once = asyncio.create_task(self._at_once.wait())
        everything = asyncio.create_task(self._keep_all())
        waited_for: set[asyncio.Task[Any]] = {watch, at_once, everything}
        try:
            await asyncio.wait(waited_for, return_when=asyncio.FIRST_COMPLETED)
            for done in (everything, watch):
                if done.done():
                    done.result()  # raises what the supervisor itself did wrong
        finally:
            await self._cancel_all(waited_for)
        return self._outcome

    async def _cancel_all(self, own: set[asyncio.Task[Any]]) -> None:
        """Cancels these and all actors, also those that a group has begun just before its own cancellation came.

        It waits only so long for those that don't end: the process ends without them.
        """
        known: set[asyncio.Task[Any]] = set()
        while left := (own | set(self._tasks.values())) - known:
            self._cancelled |= dict.fromkeys(left - own, time.monotonic())
            for task in left:
                _soon(task.cancel)
            await asyncio.wait(left, timeout=self._limits.cancel_s)
            known |= left

    def stop(self) -> None:
        """Begin a clean stop; a second call ends everything at once."""
        if self._stopping.is_set():
            self._end_at_once(ExitCode.GAVE_UP, "stopped at once; what's sealed is in the journal")
        else:
            log.info("stopping")
            self._begin_stop()

    async def _keep_all(self) -> None:
        async with asyncio.TaskGroup() as keepers:
            for group in GROUPS:
                keepers.create_task(self._keep(group))

    async def _keep(self, group: Group) -> None:
        """Builds the group, and builds it again after each failure, until the stop."""
        restarts = 0
        while not self._stopping.is_set():
            started = time.monotonic()
            await self._run_group(group)
            if self._stopping.is_set():
                break
            if group in self._asked:
                self._asked.discard(group)
                continue
            restarts = 0 if time.monotonic() - started > self._limits.calm_s else restarts
            await self._restart(group, random_pause_s(self._limits.pauses, restarts + 1))
            restarts += 1
        if group.lacks and self.states[group.actors[0]] is LifeState.RESTARTING:
            why = self.failures.get(group.actors[0], "it had failed")
            since = f"{group.lacks} what's sealed since, and the next start delivers it"
            self._give_up(ExitCode.GAVE_UP, f"{why}; {since}")
        for name in group.actors:
            self._has_ended(name)

    async def _restart(self, group: Group, pause: float) -> None:
        log.info("restarting", group=group.name, pause_s=round(pause, 2))
        for name in group.actors:
            self.states[name] = LifeState.RESTARTING
            self._metrics.count(catalogue.RESTARTS, actor=name)
        await self._unless_stopped(asyncio.sleep(pause))

    async def _run_group(self, group: Group) -> None:
        """Builds the group and runs it until all of it has ended, for any reason."""
        for name in group.actors:
            self._mailboxes[name].empty()
        try:
            actors = await self._unless_stopped(self._build(group))
        except Exception as error:  # noqa: BLE001 - any error counts like an actor's failure
            self._has_failed(group, group.name, error)
            return
        if actors is None:
            return
        if not actors:
            self._be_absent(group)
            await self._stopping.wait()
        for actor in actors:
            self.actors[actor.name] = actor
            self.states[actor.name] = LifeState.RUNNING
            self._metrics.set(catalogue.UP, 1, actor=actor.name)
            self._tasks[actor.name] = asyncio.create_task(self._run_actor(group, actor), name=actor.name)
        self._follow_the_flow()
        if actors:
            await asyncio.wait([self._tasks[actor.name] for actor in actors])

    def _be_absent(self, group: Group) -> None:
        """Has nothing of the group: what others report to it waits for no one."""
        for name in group.actors:
            self.states[name] = LifeState.ABSENT
            self._mailboxes[name].close()
            self._mailboxes[name].empty()

    async def _run_actor(self, group: Group, actor: Actor[Any]) -> None:
        """Runs one actor and handles its end. A cancellation by the supervisor is no failure, unless the actor hung."""
        task = asyncio.current_task()
        assert task is not None
        try:
            await actor.run()
            if not self._stopping.is_set() and task not in self._cancelled:
                raise InvariantBroken(f"{actor.name} ended without an order to")
        except asyncio.CancelledError:
            if task in self._hung:
                self._has_failed(group, actor.name, Hung(self._hung.pop(task)))
            elif task in self._cancelled:
                raise
            else:
                unasked = ActorError("it was cancelled, but not by the supervisor")
                self._has_failed(group, actor.name, unasked)
        except StartAgain as asked:
            self._start_again(group, actor.name, asked)
        except Exception as error:  # noqa: BLE001 - a supervisor handles every failure
            if not (isinstance(error, Closed) and self._stopping.is_set()):
                self._has_failed(group, actor.name, error)
        finally:
            self._metrics.set(catalogue.UP, 0, actor=actor.name)
            if self._stopping.is_set():  # otherwise it's built again
                self._has_ended(actor.name)

    def _start_again(self, group: Group, who: str, asked: StartAgain) -> None:
        log.info("an actor asks for a new start", who=who, group=group.name, reason=str(asked))
        self._asked.add(group)
        for name in group.actors:
            self.states[name] = LifeState.RESTARTING
            self._cancel(name)

    def _has_failed(self, group: Group, who: str, error: Exception) -> None:
        """Handles a failure. If that isn't possible, or it can't be logged, it ends the process: no other code would
        notice."""
        try:
            self._judge(group, who, error)
        except Exception as untold:
            names = f"{type(error).__name__}, and telling that with {type(untold).__name__}"
            self._end_at_once(ExitCode.INVARIANT, f"{who} failed with {names}")
            raise

    def _judge(self, group: Group, who: str, error: Exception) -> None:
        """Decide what a failure means; `who` is an actor, or the group itself if it couldn't be built."""
        kind = kind_of(error)
        self._metrics.count(catalogue.ERRORS, actor=who, kind=kind)
        message = f"{who}: {safe_message(error)}"
        self.failures.update(dict.fromkeys(group.actors, message))
        story = error if kind in (FailureKind.INVARIANT, FailureKind.UNFORESEEN) else None
        log.error("failed", who=who, kind=kind.value, error=safe_message(error), exc_info=story)
        match kind:
            case FailureKind.INVARIANT:
                self._end_at_once(ExitCode.INVARIANT, message)
            case FailureKind.DEFINITE if not group.alone:
                self._give_up(ExitCode.DEFINITE, message)
            case _ if self._stopping.is_set() and who != group.name:
                self._give_up(ExitCode.GAVE_UP, f"{message}, while stopping; what's sealed is in the journal")
            case FailureKind.HANG | FailureKind.UNFORESEEN if not group.alone and self._too_often(group):
                self._give_up(ExitCode.GAVE_UP, f"{message}, and it wasn't the first failure of its kind")
            case FailureKind.HANG | FailureKind.UNFORESEEN | FailureKind.TRANSIENT | FailureKind.DEFINITE:
                for name in group.actors:
                    self._cancel(name)
            case _:
                assert_never(kind)

    def _too_often(self, group: Group) -> bool:
        times = self._unforeseen[group]
        times.append(time.monotonic())
        while times[-1] - times[0] > self._limits.within_s:
            times.popleft()
        return len(times) > self._limits.failures

    def _give_up(self, code: ExitCode, message: str) -> None:
        if self._outcome.code is ExitCode.CLEAN:
            self._outcome = RunOutcome(code, message)
        self._begin_stop()

    def _end_at_once(self, code: ExitCode, message: str) -> None:
        if not self._at_once.is_set():
            self._outcome = RunOutcome(code, message)
            self._at_once.set()

    def _begin_stop(self) -> None:
        self._stopping.set()
        self._follow_the_flow()

    def _has_ended(self, name: Name) -> None:
        self.states[name] = LifeState.ENDED
        self._follow_the_flow()

    def _follow_the_flow(self) -> None:
        """Take the stop as far as it can get now."""
        if not self._stopping.is_set():
            return
        for name in Name:
            if self.states[name] is not LifeState.RUNNING:
                continue
            if any(self.states[receiver] is LifeState.ENDED for receiver in _WAITS_FOR[name]):
                self._cancel(name)
            elif all(self.states[sender] is LifeState.ENDED for sender in _BEFORE[name]):
                self._mailboxes[name].close()

    def _cancel(self, name: Name) -> None:
        task = self._tasks.get(name)
        if task is None or task.done() or task is asyncio.current_task():
            return
        if task not in self._cancelled:
            self._cancelled[task] = time.monotonic()
            _soon(task.cancel)

    async def _watch(self) -> None:
        """Look for actors that hang, and for cancellations that don't take."""
        while True:
            await asyncio.sleep(self._limits.look_every_s)
            self._cancelled = {task: since for task, since in self._cancelled.items() if not task.done()}
            for name, task in self._tasks.items():
                overdue = time.monotonic() - self._cancelled.get(task, math.inf) > self._limits.cancel_s
                if overdue:
                    self._end_at_once(ExitCode.HUNG, f"{name} couldn't be cancelled")
                elif not task.done() and task not in self._cancelled and (why := self.actors[name].hung()):
                    self._hung[task] = why
                    self._cancel(name)
                elif self._stopping.is_set() and not task.done() and (why := self.actors[name].waits()):
                    self._give_up(ExitCode.GAVE_UP, f"{name}: {why}; what's sealed is in the journal")
                    self._cancel(name)

    async def _unless_stopped(self, work: Coroutine[Any, Any, Result]) -> Result | None:
        """The result of the work, or None if the stop came first; the work is cancelled then."""
        task = asyncio.create_task(work)
        stop = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait({task, stop}, return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else None
        finally:
            stop.cancel()
            task.cancel()
            await broken_off(task)


def _soon(cancel: Callable[[], object]) -> None:
    """Cancels a task after its first step, so that a built actor has begun and releases what it has."""
    asyncio.get_running_loop().call_soon(cancel)
