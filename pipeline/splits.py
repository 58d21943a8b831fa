"""Where to divide a table, so that its ranges are read side by side: found by a few small questions.

The index isn't walked for it. A key is proposed (pipeline/midpoints.py), the server says which of its own keys is the
last one up to there, and what it estimates to lie on both sides. From that the place is closed in on, much as one looks
something up in a dictionary: a first guess by the distance, then halves of what's left. Where there are no keys for a
long way, the far side of the gap is asked for, so that a lone outlier costs one question.

What's found are keys of the table, in the walk's order, since each is between two others by the server's own
comparison. So the ranges are disjoint and have all rows, however bad a proposal or an estimate was.

Source: the estimates are those of the range optimizer's dives into the index (MySQL 9.7 Reference Manual, "Equality
Range Optimization of Many-Valued Comparisons"). InnoDB cuts them off at half of the table's rows, so that both sides
of a place have to be asked for.
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Final

from pipeline.keys import Key
from pipeline.midpoints import between
from pipeline.types import ColumnType

# How far off its share a part may be for the search to end, as a part of that share.
TOLERANCE: Final = 0.2

# Where between the nearest places that are known the next proposal lies; the first one is by the share that's wanted.
# They aren't all halves, so that a collation under which a half doesn't lie between doesn't end the search.
_FRACTIONS: Final = (0.5, 0.5, 0.25, 0.75, 0.5, 0.5, 0.125, 0.875, 0.5)

# The most questions for one place: two keys and two estimates for each proposal.
MOST_QUESTIONS: Final = 4 * (1 + len(_FRACTIONS))


@dataclass(frozen=True, slots=True)
class LastThrough:
    """Which is the last key with `after` < key <= `bound`? None if there is none. `bound` may be a key's beginning."""

    after: Key
    bound: Key


@dataclass(frozen=True, slots=True)
class FirstBehind:
    """Which is the first key with `bound` < key <= `end`? None if there is none. `bound` may be a key's beginning."""

    bound: Key
    end: Key


@dataclass(frozen=True, slots=True)
class Weigh:
    """About how many rows have `after` < key <= `end`?"""

    after: Key
    end: Key


Question = LastThrough | FirstBehind | Weigh
Answer = Key | int | None
Search = Generator[Question, Answer, tuple[Key, ...]]


@dataclass(frozen=True, slots=True)
class _Place:
    key: Key
    left: int
    right: int

    @property
    def share(self) -> float:
        return self.left / max(1, self.left + self.right)


def search(kinds: tuple[ColumnType, ...], first: Key, end: Key, most: int, least_rows: int) -> Search:
    """The last keys of all ranges but the last, in order, for at most so many ranges of at least so many rows.

    `kinds`: the types of a key's parts. `first` and `end`: the table's first and last key.
    """
    rows = yield Weigh(first, end)
    assert isinstance(rows, int)
    return (yield from _divided(kinds, first, end, min(most, rows // least_rows)))


def _divided(kinds: tuple[ColumnType, ...], low: Key, high: Key, number: int) -> Search:
    if number < 2:
        return ()
    place = yield from _place(kinds, low, high, number // 2 / number)
    if place is None:
        return ()
    left = min(max(1, round(number * place.share)), number - 1)
    before = yield from _divided(kinds, low, place.key, left)
    behind = yield from _divided(kinds, place.key, high, number - left)
    return (*before, place.key, *behind)


def _place(
    kinds: tuple[ColumnType, ...], low: Key, high: Key, share: float
) -> Generator[Question, Answer, _Place | None]:
    """The place before which about this share of the rows between two keys lies, as near as it was come to."""
    best: _Place | None = None
    least, most = low, high
    for fraction in (share, *_FRACTIONS):
        bound = between(kinds, least, most, fraction)
        if bound is None:
            break
        key = yield LastThrough(least, bound)
        if key == most:
            continue  # the server has the proposal behind it all
        if key is not None:
            assert isinstance(key, tuple)
            found = yield from _weighed(low, key, high)
            if best is None or abs(found.share - share) < abs(best.share - share):
                best = found
            if abs(found.share - share) <= TOLERANCE * share:
                break
            if found.share > share:
                most = key
                continue
        # Too little is before it, or nothing. Behind `least` and not behind the proposal: that may lie before it.
        behind = yield FirstBehind(least if key is None else bound, most)
        if behind is None or behind == most:
            break
        assert isinstance(behind, tuple)
        least = behind
    return best


def _weighed(low: Key, key: Key, high: Key) -> Generator[Question, Answer, _Place]:
    left = yield Weigh(low, key)
    right = yield Weigh(key, high)
    assert isinstance(left, int) and isinstance(right, int)
    return _Place(key, left, right)
