"""Watches the source's load while chunks are read from it, so that they pause when it is too high.

It has a connection of its own, because those that read chunks are busy. `pipeline.source.throttle` judges the load.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import asdict, replace
from time import monotonic
from typing import Any, Final

import structlog

from actors.source.connection import KeptSource
from pipeline.config.settings import ServerSettings
from pipeline.errors import Transient
from pipeline.messages.chunks import SourceOverloaded, SourceRecovered
from pipeline.source.throttle import UNBOUNDED, Debt, Load, SourceLimits, owe_more, pay_debt, reached_limit

log = structlog.get_logger()

# How often the source is looked at while there's work, in seconds.
LOOK_S: Final = 1.0


class SourceWatch:
    """Reports when the source becomes overloaded, and why, and when it recovers; silent while there are no orders."""

    def __init__(self, settings: ServerSettings, bounds: SourceLimits) -> None:
        self._settings = settings
        self._bounds = bounds
        self._source = KeptSource()
        self._load = Load()
        self._debt = Debt(0, monotonic())
        # What the last chunk of a snapshot with a rate of its own may read, and what all such chunks owe at that rate.
        self._own_bounds = UNBOUNDED
        self._own_debt = Debt(0, monotonic())
        self._orders = 0
        self._unready: dict[str, str] = {}  # what orders wait for, by their names
        self._overloaded: SourceOverloaded | None = None  # as reported last
        self._happened = asyncio.Event()

    def status(self) -> dict[str, Any]:
        """Returns the source's load, and why no chunk is ordered, if so."""
        report = self._overloaded
        return {"strained": report and report.reason, **asdict(self._load)}

    def ordered(self) -> None:
        """Takes note of one more order."""
        self._orders += 1
        self._happened.set()

    def carried_out(self, rows: int, rows_per_s: int = 0) -> None:
        """Takes note that an order is done, and that it read so many rows.

        `rows_per_s`: what its snapshot may read; 0 is no bound.
        """
        self._orders -= 1
        self._debt = replace(self._debt, rows=self._debt.rows + rows)
        if rows_per_s:
            self._own_bounds, self._own_debt = owe_more(
                self._own_bounds, self._own_debt, rows, rows_per_s, monotonic()
            )
        self._happened.set()

    def waits(self, order: str, reason: str | None) -> None:
        """Takes note of why an order waits for the source, or that it doesn't (None)."""
        waited = order in self._unready
        if reason is None:
            self._unready.pop(order, None)
        else:
            self._unready[order] = reason
        if waited is (reason is None):
            self._happened.set()

    async def run(self, tell: Callable[[SourceOverloaded | SourceRecovered], Awaitable[None]]) -> None:
        """Looks now and then, and reports when the source becomes overloaded or unready and when it recovers, until
        cancelled."""
        try:
            while True:
                if self._overloaded is None and not self._orders:
                    await self._happened.wait()
                self._happened.clear()
                if self._bounds.looked_at:
                    self._load = await self._look()
                before, now = self._overloaded, self._judge()
                self._overloaded = now
                if _kinds(now) != _kinds(before):
                    await tell(now or SourceRecovered())
                await self._next_look()
        finally:
            self._source.close()

    def _judge(self) -> SourceOverloaded | None:
        """Returns why the source has enough to do, and why it isn't ready for chunks, or None."""
        now, strained = monotonic(), self._overloaded is not None and self._overloaded.overload is not None
        self._debt = pay_debt(self._bounds, self._debt, now)
        self._own_debt = pay_debt(self._own_bounds, self._own_debt, now)
        overload = reached_limit(self._bounds, self._load, self._debt, strained=strained)
        overload = overload or reached_limit(self._own_bounds, Load(), self._own_debt, strained=strained)
        unready = next(iter(self._unready.values()), None)
        return SourceOverloaded(overload, unready) if overload or unready else None

    async def _next_look(self) -> None:
        """Waits until it is time to look again, or a chunk has come whose rows count."""
        debts = ((self._bounds, self._debt), (self._own_bounds, self._own_debt))
        owed = max((debt.rows / of.rows_per_s for of, debt in debts if of.rows_per_s), default=0.0)
        pause = min(LOOK_S, owed) if owed > 0 else LOOK_S
        try:
            async with asyncio.timeout(pause):
                await self._happened.wait()
        except TimeoutError:
            return

    async def _look(self) -> Load:
        try:
            source = await self._source.connect(self._settings)
            return await source.load(lag=bool(self._bounds.replica_lag_s))
        except Transient as failure:
            log.info("the source's load is unknown", error=str(failure))
            return self._load


def _kinds(report: SourceOverloaded | None) -> tuple[bool, bool]:
    """Returns whether the source is overloaded, and whether it isn't ready."""
    return (False, False) if report is None else (report.overload is not None, report.unready is not None)
