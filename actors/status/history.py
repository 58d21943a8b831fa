"""Measurements of each second, kept for a while: lag, freshness and rates, as the page draws them.

Prometheus keeps more of it for longer. This is for users who look at the service itself.
"""

from collections import deque
from dataclasses import asdict, dataclass
from typing import Any, Final

KEPT_S: Final = 600

# The relative precision of a reported wait.
_FINE: Final = 0.01


@dataclass(frozen=True, slots=True)
class Counts:
    """What only grows, at some moment: transactions read, changes read (row images), and rows of chunks read."""

    transactions: float
    changes: float
    snapshot_rows: float


@dataclass(frozen=True, slots=True)
class Point:
    """A second. `at`: s since the epoch; `lag` and `freshness` in s, the latter None before anything was delivered.

    The rest are rates by the second, None where there's nothing yet to compare with.
    """

    at: float
    lag: float
    freshness: float | None
    transactions: float | None
    changes: float | None
    snapshot_rows: float | None


class PointHistory:
    """The last points."""

    def __init__(self) -> None:
        self._points: deque[Point] = deque(maxlen=KEPT_S)
        self._before: tuple[float, Counts] | None = None

    def look(self, now: float, at: float, lag: float, freshness: float | None, counts: Counts) -> None:
        """Keep this moment: `now` by a clock that doesn't go back (s), `at` since the epoch (s)."""
        rates: tuple[float | None, float | None, float | None] = (None, None, None)
        if self._before is not None and now > self._before[0]:
            since, before = self._before
            rates = (
                _rate(counts.transactions - before.transactions, now - since),
                _rate(counts.changes - before.changes, now - since),
                _rate(counts.snapshot_rows - before.snapshot_rows, now - since),
            )
        self._before = now, counts
        fresh = None if freshness is None else round(freshness, 3)
        self._points.append(Point(round(at, 3), round(lag, 3), fresh, *rates))

    def points(self) -> list[dict[str, Any]]:
        """All that are kept, the oldest first."""
        return [asdict(point) for point in self._points]

    def last(self) -> dict[str, Any] | None:
        """The newest point."""
        return asdict(self._points[-1]) if self._points else None


class Undelivered:
    """How long the oldest sealed segment has been waiting to be delivered, by looking now and then."""

    def __init__(self) -> None:
        self._sealed: deque[tuple[float, int]] = deque()

    def look(self, now: float, sealed: int, delivered: int) -> float:
        """The wait in seconds at this moment; 0 where nothing waits."""
        # Of a lake that's away for a day not every second is kept: the longer the wait, the less a second is of it.
        if not self._sealed or (
            sealed > self._sealed[-1][1] and now - self._sealed[-1][0] >= _FINE * (now - self._sealed[0][0])
        ):
            self._sealed.append((now, sealed))
        while self._sealed and self._sealed[0][1] <= delivered:
            self._sealed.popleft()
        return now - self._sealed[0][0] if self._sealed else 0.0


def _rate(more: float, seconds: float) -> float:
    return round(max(0.0, more) / seconds, 1)
