"""Where to divide a table, so that its ranges are read in parallel. A few small queries find that.

They don't walk the index. Tidemark proposes a key (pipeline/snapshot/key_midpoints.py). The server returns the last one
of its own keys up to there, and its estimates for both sides. The search then narrows, as in a dictionary: a first
guess by the distance, then halves of the rest. If there are no keys for a long way, the search continues at the far
side of the gap. So a lone outlier costs one query.

The results are keys of the table, in the walk's order, because each is between two others by the server's own
comparison. So the ranges are disjoint and have all rows, even with bad proposals and estimates.

Source: the estimates are those of the range optimizer's dives into the index. InnoDB looks at a few pages of each
level, which may be off by a factor of two. It reports no more than half of the table's rows (MySQL 9.7,
storage/innobase/btr/btr0cur.cc, btr_estimate_n_rows_in_range_low). So the search reads both sides of a position, and
the larger one has at least what the lesser one leaves.
"""

from collections.abc import Generator
from dataclasses import dataclass, replace
from itertools import cycle
from typing import Final

from pipeline.schema.row_keys import Key
from pipeline.snapshot.key_midpoints import key_between
from pipeline.types.column_types import ColumnType

# How far off its share a part may be for the search to end, as a part of that share.
TOLERANCE: Final = 0.2

# How many proposals are made for one place, and the most questions: two keys and two estimates for each.
_PROPOSALS: Final = 12
MOST_QUESTIONS: Final = 4 * _PROPOSALS

# If a proposal has less than this share of the rows on one side, they lie densely at the other end, ...
_LITTLE: Final = 1 / 8
# ... and after two of them the next one is made so near to that end (as a part of the way), as for keys that double.
_NEAR: Final = 1 / 64

# The next proposals if the server has one after all or before all of the rest, as a collation may.
_ELSEWHERE: Final = (0.25, 0.75, 0.125, 0.875)


@dataclass(frozen=True, slots=True)
class LastThrough:
    """Which is the last key with `after` < key <= `bound` and <= `end`? None if there is none.

    `bound` may be the beginning of a key, and may lie beyond `end`, for all that's known here.
    """

    after: Key
    bound: Key
    end: Key


@dataclass(frozen=True, slots=True)
class FirstAfter:
    """Which is the first key with `bound` < key <= `end`? None if there is none. `bound` may be a key's beginning."""

    bound: Key
    end: Key


@dataclass(frozen=True, slots=True)
class Weigh:
    """About how many rows have `after` < key <= `end`?"""

    after: Key
    end: Key


Question = LastThrough | FirstAfter | Weigh
SplitAnswer = Key | int | None
Search = Generator[Question, SplitAnswer, tuple[Key, ...]]


@dataclass(frozen=True, slots=True)
class _Part:
    """The about `rows` rows with `low` < key <= `high`."""

    kinds: tuple[ColumnType, ...]
    low: Key
    high: Key
    rows: int


@dataclass(frozen=True, slots=True)
class _Place:
    """A key that divides a part, and the share of its rows through this key."""

    key: Key
    share: float


def search_splits(
    kinds: tuple[ColumnType, ...], first: Key, end: Key, rows: int, most: int, least_rows: int
) -> Search:
    """The last keys of all ranges but the last, in order, for at most so many ranges of at least so many rows.

    `kinds`: the types of a key's parts. `first` and `end`: the table's first and last key. `rows`: its rows by the
    server's estimate.
    """
    return (yield from _divide(_Part(kinds, first, end, rows), min(most, rows // least_rows)))


def _divide(part: _Part, number: int) -> Search:
    if number < 2:
        return ()
    place = yield from _place(part, number // 2 / number)
    if place is None:
        return ()
    left = min(max(1, round(number * place.share)), number - 1)
    rows = round(part.rows * place.share)
    before = yield from _divide(replace(part, high=place.key, rows=rows), left)
    behind = yield from _divide(replace(part, low=place.key, rows=part.rows - rows), number - left)
    return (*before, place.key, *behind)


def _place(part: _Part, share: float) -> Generator[Question, SplitAnswer, _Place | None]:
    """The place through which about this share of the part's rows lies, as near as it was come to."""
    best: _Place | None = None
    least, most, before, through = part.low, part.high, 0.0, 1.0  # the nearest places, and the shares there
    fraction, side, elsewhere = share, 0, cycle(_ELSEWHERE)
    for _ in range(_PROPOSALS):
        bound = key_between(part.kinds, least, most, fraction)
        if bound is None:
            break
        key = yield LastThrough(least, bound, most)
        if key == most:
            fraction = next(elsewhere)
            continue
        if key is not None:
            assert isinstance(key, tuple)
            found = yield from _weigh(part, key)
            if best is None or abs(found.share - share) < abs(best.share - share):
                best = found
            if abs(found.share - share) <= TOLERANCE * share:
                break
            again, side = side, _side((found.share - before) / max(through - before, 1e-9))
            fraction = 0.5 + side * (0.5 - _NEAR) if side == again else 0.5
            if found.share > share:
                most, through = key, found.share
                continue
            before = found.share
        else:
            fraction = next(elsewhere)
        # Too little is before it, or nothing. The search continues after `least` and not after the proposal, which
        # may be before `least`.
        behind = yield FirstAfter(least if key is None else bound, most)
        if behind is None or behind == most:
            break
        assert isinstance(behind, tuple)
        least = behind
    return best


def _side(part: float) -> int:
    """Returns where the rows lie densely if this part of them is before a proposal: -1 before, 1 after, 0 on neither
    side."""
    return -1 if part > 1 - _LITTLE else int(part < _LITTLE)


def _weigh(part: _Part, key: Key) -> Generator[Question, SplitAnswer, _Place]:
    left = yield Weigh(part.low, key)
    right = yield Weigh(key, part.high)
    assert isinstance(left, int) and isinstance(right, int)
    lesser = min(left, right) / max(1, left + right, part.rows)
    return _Place(key, lesser if left < right else 1 - lesser)
