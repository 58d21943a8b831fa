"""Where a table is divided: about equal parts, few questions, and right under any order of the server's."""

import math
import random
import uuid
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.schema.row_keys import Key
from pipeline.snapshot import range_splits
from pipeline.types.column_types import Binary, ColumnType, Integer, Text

INT = Integer(8, unsigned=True)
ROWS = 20_000


class Server:
    """Keys in an order of its own, and estimates that are cut off as InnoDB's are, and off by up to a factor."""

    def __init__(
        self, keys: Sequence[Key], order: Callable[[Any], Any] = lambda part: part, error: float = 1.0
    ) -> None:
        self._order = order
        self._keys = sorted(keys, key=self._place)
        self._places = [self._place(key) for key in self._keys]
        self._random = random.Random(7)
        self._error = error
        self.first, self.end = self._keys[0], self._keys[-1]
        self.questions = 0

    def divide(self, kinds: tuple[ColumnType, ...], ranges: int, least: int = 100) -> tuple[Key, ...]:
        asking = range_splits.search_splits(kinds, self.first, self.end, len(self._keys), ranges, least)
        answer: range_splits.SplitAnswer = None
        while True:
            try:
                question = asking.send(answer)
            except StopIteration as found:
                keys: tuple[Key, ...] = found.value
                return keys
            self.questions += 1
            match question:
                case range_splits.LastThrough(after, bound, end):
                    place = min(self._through(bound), self._through(end))
                    answer = self._keys[place - 1] if place > self._through(after) else None
                case range_splits.FirstAfter(bound, end):
                    place = self._through(bound)
                    answer = self._keys[place] if place < self._through(end) else None
                case range_splits.Weigh(after, end):
                    rows = max(0, self._through(end) - self._through(after))
                    told = rows * self._error ** self._random.uniform(-1, 1)
                    answer = min(int(told), len(self._keys) // 2)

    def parts(self, splits: tuple[Key, ...]) -> list[int]:
        places = [0, *(self._through(key) for key in splits), len(self._keys)]
        return [high - low for low, high in pairwise(places)]

    def _place(self, key: Key) -> tuple[Any, ...]:
        return tuple(self._order(part) for part in key)

    def _through(self, bound: Key) -> int:
        """Returns how many keys aren't after the bound, which may be the beginning of a key."""
        place, size = self._place(bound), len(bound)
        return bisect_right(self._places, place, key=lambda key: key[:size])


SHAPES: dict[str, tuple[tuple[ColumnType, ...], list[Key]]] = {
    "one after the other": ((INT,), [(i,) for i in range(ROWS)]),
    "sparse": (
        (INT,),
        [(i * 0x9E3779B97F4A7C15 % 2**63,) for i in range(ROWS)],
    ),
    "an outlier far away": ((INT,), [*((i,) for i in range(ROWS)), (2**64 - 1,)]),
    "an outlier before all": ((INT,), [(0,), *((2**63 + i,) for i in range(ROWS))]),
    "clusters": ((INT,), [(cluster * 10**15 + i,) for cluster in range(7) for i in range(ROWS // 7)]),
    "denser and denser": ((INT,), [(int(2**63 * math.exp(-i / 1000)),) for i in range(ROWS)]),
    "one large tenant": ((INT, INT), [(1, 1), *((2, i) for i in range(ROWS)), (3, 1), (9, 1)]),
    "many tenants": ((INT, INT), [(i % 97, i) for i in range(ROWS)]),
    "uuids as text": (
        (Text("ascii"),),
        [(str(uuid.UUID(int=i * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128)),) for i in range(ROWS)],
    ),
    "uuids": ((Binary(),), [((i * 0x9E3779B97F4A7C15 % 2**64).to_bytes(8) * 2,) for i in range(ROWS)]),
    "numbered text": ((Text("ascii"),), [(f"user-{i:06}",) for i in range(ROWS)]),
    "numbers as text": ((Text("ascii"),), [(str(i),) for i in range(ROWS)]),
}


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("ranges", [2, 5, 8])
def test_parts_are_about_equal_and_questions_few(name: str, ranges: int) -> None:
    kinds, keys = SHAPES[name]
    server = Server(keys)
    splits = server.divide(kinds, ranges)
    parts = server.parts(splits)
    assert len(parts) == ranges
    assert max(parts) <= 1.7 * len(keys) / ranges, parts
    assert server.questions <= 40 * (ranges - 1)


def test_keys_that_lie_evenly_take_one_proposal_each() -> None:
    kinds, keys = SHAPES["one after the other"]
    server = Server(keys)
    server.divide(kinds, 8)
    assert server.questions == 3 * 7


def test_estimates_that_are_off_by_half_still_divide() -> None:
    kinds, keys = SHAPES["clusters"]
    server = Server(keys, error=1.5)
    assert max(server.parts(server.divide(kinds, 4))) <= 3 * ROWS / 4


@pytest.mark.parametrize("rows", [1, 2, 199])
def test_a_small_table_is_one_range(rows: int) -> None:
    server = Server([(i,) for i in range(rows)])
    assert server.divide((INT,), 8) == ()
    assert server.questions == 0


def test_there_are_no_more_ranges_than_rows_make() -> None:
    server = Server([(i,) for i in range(1000)])
    assert len(server.divide((INT,), 8, least=300)) == 2


ORDERS: dict[str, Callable[[Any], Any]] = {
    "as it is": lambda part: part,
    "without case": lambda part: (part.lower(), part),
    "backwards": lambda part: part[::-1],
    "at random": lambda part: random.Random(part).random(),
}


@given(
    st.sets(st.text(max_size=6), min_size=1, max_size=60), st.sampled_from(sorted(ORDERS)), st.integers(1, 6)
)
def test_splits_are_keys_in_the_servers_own_order_and_the_search_ends(
    keys: set[str], order: str, ranges: int
) -> None:
    server = Server([(key,) for key in keys], ORDERS[order])
    splits = server.divide((Text("utf8mb4"),), ranges, least=1)
    parts = server.parts(splits)
    assert all(key in {(text,) for text in keys} for key in splits)
    assert len(splits) < ranges or ranges == 1
    assert sum(parts) == len(keys) and all(part > 0 for part in parts)
    assert server.questions <= range_splits.MOST_QUESTIONS * (ranges - 1)
