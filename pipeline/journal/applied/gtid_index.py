"""Waiters by a transaction that each of them lacks, so that a position finds those that it concerns."""

from bisect import bisect_left, insort

from pipeline.gtid.gtid_set import Gtid, GtidSet, Tsid
from pipeline.gtid.intervals import NO_INTERVALS


class GtidIndex:
    """Each waiter is under one transaction that isn't in the position.

    A position costs a search for each new interval of a source that somebody waits for, and nothing for a waiter that
    it doesn't concern. Gaps cost the same.
    """

    def __init__(self) -> None:
        self._position = GtidSet()
        self._waiters: dict[Tsid, list[tuple[int, int]]] = {}  # by source, in the order of numbers

    def add(self, lacked: Gtid, waiter: int) -> None:
        """Puts a waiter under a transaction that isn't in the last position."""
        insort(self._waiters.setdefault(lacked.source, []), (lacked.number, waiter))

    def remove(self, lacked: Gtid, waiter: int) -> None:
        """Takes a waiter out again."""
        waiters = self._waiters[lacked.source]
        del waiters[bisect_left(waiters, (lacked.number, waiter))]
        if not waiters:
            del self._waiters[lacked.source]

    def advance(self, position: GtidSet) -> list[int]:
        """Takes out, and returns, the waiters under transactions that are new in this position."""
        found: list[int] = []
        for source in list(self._waiters):
            come = position.intervals.get(source, NO_INTERVALS) - self._position.intervals.get(
                source, NO_INTERVALS
            )
            edges = come.edges.tolist()
            for start, end in zip(edges[0::2], edges[1::2], strict=True):
                found += self._taken(source, start, end)
        self._position = position
        return found

    def _taken(self, source: Tsid, start: int, end: int) -> list[int]:
        """The waiters under transactions from `start` on and before `end`, which are taken out."""
        waiters = self._waiters.get(source, [])
        first, last = bisect_left(waiters, (start,)), bisect_left(waiters, (end,))
        taken = [waiter for _, waiter in waiters[first:last]]
        del waiters[first:last]
        if not waiters:
            self._waiters.pop(source, None)
        return taken


def first_lacked(missing: GtidSet) -> Gtid:
    """The transaction under which a waiter for all of these, which are some, is put: the last of their first source."""
    source, numbers = next(iter(missing.intervals.items()))
    return Gtid(source, numbers.end - 1)
