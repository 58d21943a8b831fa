"""Lets requests wait until transactions have been applied: `pipeline.journal.applied` decides, and this asks and tells.

The journal's writer and the consumers report their progress here, each time that it has changed. Whoever waits has a
future. So nothing is polled, and a waiter costs its future and its place in an index.

A transaction that isn't sealed yet may be one that the source doesn't have. One statement asks the source for its
executed set, for all that have come to wait since the last one. Only if that lacks a transaction, another one asks
whether the source is a replica. They read and lock nothing. If the source doesn't answer, they wait all the same.

It lives as long as the service, while actors are built again. No mistake here ends an actor that reports.
"""

import asyncio
from collections.abc import Iterable
from functools import partial
from itertools import count
from typing import Final

import structlog

from actors.runtime.measuring import contain_errors
from actors.runtime.metrics import Metrics
from actors.source.connection import KeptSource
from pipeline import metrics as catalogue
from pipeline.config.settings import Settings, SourceSettings
from pipeline.errors import Definite, Transient
from pipeline.journal.applied.progress import ConsumerProgress, JournalProgress, Through
from pipeline.journal.applied.query import Answer, Applied, AppliedQuery, NeverApplied, NotYetApplied
from pipeline.journal.applied.waiters import Waiters
from pipeline.snapshot.checkpoint import Checkpoint

log = structlog.get_logger()

MOST_WAITERS: Final = 10_000

_OUTCOMES: Final = {Applied: "applied", NeverApplied: "never", NotYetApplied: "timeout"}


class TooManyWait(Transient):
    """No more can wait at once."""


class WaitEnded(Transient):
    """The service is stopping."""


class AppliedWatch:
    """Those who wait. `there`: the consumers that this service has, and the journal."""

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        consumers = {Through.LAKE: settings.lake, Through.KAFKA: settings.kafka}
        self.there: Final = frozenset(
            {Through.JOURNAL, *(through for through, has in consumers.items() if has is not None)}
        )
        self._metrics = metrics
        self._waiters = Waiters(settings.tables)
        self._waiting = 0
        self._numbers = count()
        # Of those who have no answer yet.
        self._futures: dict[int, asyncio.Future[Answer | NotYetApplied]] = {}
        self._where: SourceSettings = settings.source
        self._source = KeptSource()
        self._unconfirmed: set[int] = set()
        self._confirming: asyncio.Task[None] | None = None
        metrics.watch(catalogue.WAITS, partial(len, self._waiters))

    async def wait(self, query: AppliedQuery) -> Answer | NotYetApplied:
        """The answer, or how far it is when the time is up. Raises TooManyWait or WaitEnded."""
        began = asyncio.get_running_loop().time()
        number = next(self._numbers)
        answer: Answer | NotYetApplied | None = self._waiters.ask(number, query)
        if answer is None:
            answer = await self._answer(number, query)
        self._measure(query, answer, asyncio.get_running_loop().time() - began)
        return answer

    @contain_errors
    def _measure(self, query: AppliedQuery, answer: Answer | NotYetApplied, seconds: float) -> None:
        outcome = _OUTCOMES[type(answer)]
        self._metrics.count(catalogue.WAITED, consumer=query.through.value, outcome=outcome)
        if isinstance(answer, Applied):
            self._metrics.observe(catalogue.WAIT, seconds)

    async def _answer(self, number: int, query: AppliedQuery) -> Answer | NotYetApplied:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Answer | NotYetApplied] = loop.create_future()
        self._futures[number] = future
        self._waiting += query.counts_as
        late = loop.call_later(query.timeout_s, self._end_wait, number)
        try:
            if self._waiting > MOST_WAITERS:
                raise TooManyWait("as many wait already as there's room for")
            if self._waiters.unconfirmed(query.gtid_set):
                self._confirm(number)
            # With nothing in between, all that one progress answers run in the loop's next turn, and are written in it.
            return await future
        finally:
            late.cancel()
            self._waiting -= query.counts_as
            self._unconfirmed.discard(number)
            if self._futures.pop(number, None) is not None:
                self._waiters.withdraw(number)

    def capture_begins(
        self, source: SourceSettings, sealed: JournalProgress | None, checkpoint: Checkpoint
    ) -> None:
        """Capture begins at this server, after the last sealed segment, if there's one, with this checkpoint."""
        self._where = source
        self._begin(sealed, checkpoint)

    @contain_errors
    def _begin(self, sealed: JournalProgress | None, checkpoint: Checkpoint) -> None:
        self._give(self._waiters.capture_begins(sealed, checkpoint))

    @contain_errors
    def journal_progressed(self, progress: JournalProgress) -> None:
        """The journal has sealed a segment."""
        self._give(self._waiters.journal_progressed(progress))

    @contain_errors
    def consumer_reached(self, through: Through, progress: ConsumerProgress) -> None:
        """A consumer has delivered something, or knows again how far it is."""
        self._give(self._waiters.consumer_reached(through, progress))

    async def close(self) -> None:
        """Lets all go, and leaves the source."""
        if self._confirming is not None:
            self._confirming.cancel()
            await asyncio.wait({self._confirming})
        self._source.close()
        for number in tuple(self._futures):
            self._waiters.withdraw(number)
            future = self._futures.pop(number)
            if not future.done():
                future.set_exception(WaitEnded("the service is stopping"))

    def _give(self, answers: Iterable[tuple[int, Answer | NotYetApplied]]) -> None:
        for number, answer in answers:
            future = self._futures.pop(number)
            if not future.done():  # else its client has just left
                future.set_result(answer)

    def _end_wait(self, number: int) -> None:
        """The time of a waiter is up."""
        if number in self._futures:
            self._give([(number, self._waiters.withdraw(number))])

    def _confirm(self, number: int) -> None:
        self._unconfirmed.add(number)
        if self._confirming is None or self._confirming.done():
            self._confirming = asyncio.create_task(self._confirm_all())

    async def _confirm_all(self) -> None:
        """Asks the source, until no further waiter has come meanwhile."""
        while self._unconfirmed:
            waiters, self._unconfirmed = self._unconfirmed, set()
            try:
                source = await self._source.connect(self._where)
                executed = await source.executed()
                replica = self._waiters.lack(executed, waiters) and await source.as_replica() is not None
            except (Transient, Definite) as failure:
                self._source.close()
                log.info("the source doesn't say what it has executed", error=str(failure))
            else:
                self._give(self._waiters.executed_found(executed, waiters, replica=replica))
