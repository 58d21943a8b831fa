"""A set of whole numbers, kept as the places where membership changes.

The set {1, 2, 3, 7} is the edges 1, 4, 7, 8: from 1 on it's inside, from 4 on outside, and so forth. Edges
are strictly increasing and their count is even, so each set has exactly one such form, and sets are equal if
their edges are. A number is a member when the count of edges up to and including it is odd. So every set operation is
one merge of edges and one vectorised rule. MySQL's encoding of a GTID set writes these same edges
(`pipeline/gtid/gtid_set.py`).

The last edge is held apart from the others. A source's newest transaction nearly always extends the last interval, and
so costs a new integer instead of a new array.

Most sets that are compared are one interval: what a client committed, or what a slice of the log brings. Whether
another set has all of an interval, or nothing of it, is one search. Only what lies partly inside takes a merge of
edges.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeline.types.buffers import Flags, Longs


@dataclass(frozen=True, slots=True, eq=False)
class Intervals:
    """An immutable set of numbers from 1 to 2**63 - 2.

    `inner` holds all edges but the last, read-only; `end` is the last, the first number after all members.
    The empty set has no inner edges and end 0. Made by the functions of this class, not by its constructor.
    """

    inner: Longs
    end: int

    @staticmethod
    def of_edges(edges: Longs) -> "Intervals":
        """The set with these edges: strictly increasing, an even count, from 1 up. Takes the array over."""
        if edges.size == 0:
            return NO_INTERVALS
        edges.flags.writeable = False
        return Intervals(edges[:-1], int(edges[-1]))

    @staticmethod
    def of_ranges(starts: Longs, ends: Longs) -> "Intervals":
        """The union of half-open ranges [start, end), in any order, overlapping or not; none is empty."""
        order = np.argsort(starts, kind="stable")
        starts, ends = starts[order], np.maximum.accumulate(ends[order])
        # A range that begins after all before it have ended begins an interval, and closes the one before.
        begins = np.ones(starts.size, dtype=np.bool_)
        begins[1:] = starts[1:] > ends[:-1]
        edges = np.empty(2 * int(begins.sum()), dtype=np.int64)
        edges[0::2] = starts[begins]
        edges[1::2] = ends[np.roll(begins, -1)]
        return Intervals.of_edges(edges)

    @staticmethod
    def of_numbers(numbers: Longs) -> "Intervals":
        """The set of these numbers, in any order, with repetitions or without."""
        return Intervals.of_ranges(numbers, numbers + 1)

    @property
    def edges(self) -> Longs:
        """All edges, strictly increasing: start, end, start, end, with each end the first number outside."""
        if not self.end:
            return self.inner
        edges = np.empty(self.inner.size + 1, dtype=np.int64)
        edges[:-1] = self.inner
        edges[-1] = self.end
        return edges

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Intervals):
            return NotImplemented
        return self.end == other.end and np.array_equal(self.inner, other.inner)

    def __hash__(self) -> int:
        return hash((self.inner.tobytes(), self.end))

    def __bool__(self) -> bool:
        return self.end > 0

    def __contains__(self, number: int) -> bool:
        return number < self.end and bool(self.inner.searchsorted(number, side="right") & 1)

    def contains_many(self, numbers: Longs) -> Flags:
        """Of each number, whether it's a member."""
        return (numbers < self.end) & _odd(np.searchsorted(self.inner, numbers, side="right"))

    def count(self) -> int:
        """How many members there are."""
        edges = self.edges
        return int((edges[1::2] - edges[0::2]).sum())

    def with_number(self, number: int) -> "Intervals":
        """The set with one member more."""
        return self | Intervals.of_edges(np.array([number, number + 1], dtype=np.int64))

    def __or__(self, other: "Intervals") -> "Intervals":
        """The union; it copies no edges when the other is one interval that follows this set's last member."""
        if other.inner.size == 1:
            if self.end == int(other.inner[0]):
                return Intervals(self.inner, other.end)
            if self._has_all_of(other):
                return self
        return _combine(self, other, np.logical_or)

    def __and__(self, other: "Intervals") -> "Intervals":
        if self.inner.size == 1 and other._has_all_of(self):
            return self
        if other.inner.size == 1 and self._has_all_of(other):
            return other
        return _combine(self, other, np.logical_and)

    def __sub__(self, other: "Intervals") -> "Intervals":
        if self.inner.size == 1:
            if other._has_all_of(self):
                return NO_INTERVALS
            if other._has_none_of(self):
                return self
        return _combine(self, other, np.greater)

    def __le__(self, other: "Intervals") -> bool:
        """Whether each member of this set is one of the other: each interval lies in one of the other's."""
        if self.inner.size == 1:
            return other._has_all_of(self)
        mine, theirs = self.edges, other.edges
        after = np.searchsorted(theirs, mine[0::2], side="right")
        if not _odd(after).all():
            return False
        return bool((mine[1::2] <= theirs[after]).all())

    def _has_all_of(self, interval: "Intervals") -> bool:
        """Whether each number of one interval is a member: it begins inside, and ends before membership does."""
        before = self.inner.searchsorted(interval.inner[0], side="right")
        if not before & 1:
            return False
        return interval.end <= (self.end if before == self.inner.size else int(self.inner[before]))

    def _has_none_of(self, interval: "Intervals") -> bool:
        """Whether no number of one interval is a member: it begins outside, and ends before the next edge."""
        before = self.inner.searchsorted(interval.inner[0], side="right")
        if before == self.inner.size:  # behind all edges but the last, or the set is empty
            return self.end <= int(interval.inner[0])
        return not before & 1 and interval.end <= int(self.inner[before])


NO_INTERVALS = Intervals(np.empty(0, dtype=np.int64), 0)


def _combine(a: Intervals, b: Intervals, rule: Callable[[Flags, Flags], Flags]) -> Intervals:
    """The numbers for which `rule(in a, in b)` holds; the rule is false where neither set has a number."""
    # The stable sort recognises runs, so that two sorted arrays are merged in linear time.
    places = np.sort(np.concatenate((a.edges, b.edges)), kind="stable")
    inside = rule(a.contains_many(places), b.contains_many(places))
    changes = inside.copy()
    changes[1:] ^= inside[:-1]
    return Intervals.of_edges(places[changes])


def _odd(counts: npt.NDArray[np.intp]) -> Flags:
    return (counts & 1).astype(np.bool_)
