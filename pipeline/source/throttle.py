"""Whether the source has room for chunks now.

There are two kinds of bounds. What the server reports of itself (running threads, the lag of a replica) is *sampled*,
now and then. Beyond a bound the source is overloaded, and it recovers only well within the bound, so that one sample
doesn't undo the one before. Rows are *counted*: each chunk's rows are a debt, and time pays for them at the allowed
rate. A chunk is read at once, so the debt may be large for a while, but over any longer time the rate holds.

Sources: MySQL 9.7 Reference Manual, "Server Status Variables" (Threads_running), "SHOW REPLICA STATUS Statement"; the
throttle of gh-ost (doc/throttle.md) looks at the same two.
"""

from dataclasses import dataclass
from typing import Final

# A strained source is eased when what it says is at most such a part of its bound.
EASED_AT: Final = 0.75

# How much unused time is saved up for a burst, in seconds.
_SAVED_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class SourceLimits:
    """The load that the source may carry; 0 is no bound."""

    rows_per_s: int = 0
    threads_running: int = 0
    replica_lag_s: float = 0.0

    @property
    def looked_at(self) -> bool:
        """Returns whether the server's own report is needed."""
        return bool(self.threads_running or self.replica_lag_s)


UNBOUNDED: Final = SourceLimits()


@dataclass(frozen=True, slots=True)
class Load:
    """The server's own report. `replica_lag_s`: None if it doesn't apply what it should, 0 for no replica.

    It's also 0 if no bound needs it.
    """

    threads_running: int = 0
    replica_lag_s: float | None = 0.0


@dataclass(frozen=True, slots=True)
class Debt:
    """Rows that were read and aren't paid for yet, at a moment (seconds of any clock); below 0 it's saved up."""

    rows: float
    at: float


def pay_debt(bounds: SourceLimits, debt: Debt, now: float) -> Debt:
    """The debt after the time that has passed."""
    least = -bounds.rows_per_s * _SAVED_S
    return Debt(max(least, debt.rows - bounds.rows_per_s * (now - debt.at)), now)


def owe_more(
    bounds: SourceLimits, debt: Debt, rows: int, rows_per_s: int, now: float
) -> tuple[SourceLimits, Debt]:
    """Returns the rate and the debt after so many more rows, which have this rate. What was owed takes as long as
    before: rows of a fast snapshot aren't paid at the rate of a slow one.
    """
    owed = pay_debt(bounds, debt, now)
    owed_s = owed.rows / bounds.rows_per_s if bounds.rows_per_s else 0.0
    return SourceLimits(rows_per_s), Debt(owed_s * rows_per_s + rows, now)


def reached_limit(bounds: SourceLimits, load: Load, debt: Debt, *, strained: bool) -> str | None:
    """Why the source has enough to do, or None if it hasn't; `strained`: whether it had a moment ago."""
    share = EASED_AT if strained else 1.0
    if bounds.threads_running and load.threads_running > bounds.threads_running * share:
        return f"{load.threads_running} threads run on it (most_threads_running = {bounds.threads_running})"
    if bounds.replica_lag_s and load.replica_lag_s is None:
        return "it's a replica that doesn't apply what its source has done"
    if bounds.replica_lag_s and (load.replica_lag_s or 0.0) > bounds.replica_lag_s * share:
        return (
            f"it's {load.replica_lag_s:g} s behind its source (most_replica_lag_s = {bounds.replica_lag_s:g})"
        )
    if bounds.rows_per_s and debt.rows > 0:
        return f"{debt.rows:,.0f} rows were read ahead of their time (rows_per_s = {bounds.rows_per_s})"
    return None
