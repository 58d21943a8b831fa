"""Intervals against plain Python sets; small numbers, so that intervals touch, overlap and nest."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.gtid.intervals import NO_INTERVALS, Intervals
from pipeline.types.buffers import Longs

numbers = st.sets(st.integers(1, 40), max_size=25)
ranges = st.lists(
    st.tuples(st.integers(1, 40), st.integers(1, 8)).map(lambda r: (r[0], r[0] + r[1])), max_size=12
)


def int64s(values: list[int] | set[int]) -> Longs:
    return np.array(list(values), dtype=np.int64)


def intervals(values: set[int]) -> Intervals:
    return Intervals.of_numbers(int64s(values))


def members(value: Intervals) -> set[int]:
    edges = value.edges.tolist()
    return {n for start, end in zip(edges[0::2], edges[1::2], strict=True) for n in range(start, end)}


def assert_canonical(value: Intervals) -> None:
    edges = value.edges
    assert edges.dtype == np.int64
    assert edges.size % 2 == 0
    assert (np.diff(edges) > 0).all()
    assert bool(value) == (edges.size > 0)
    assert not value.inner.flags.writeable or not value


@given(ranges)
def test_ranges_in_any_order_overlapping_or_touching_give_their_union(
    given_ranges: list[tuple[int, int]],
) -> None:
    value = Intervals.of_ranges(int64s([s for s, _ in given_ranges]), int64s([e for _, e in given_ranges]))
    assert_canonical(value)
    assert members(value) == {n for start, end in given_ranges for n in range(start, end)}


@given(numbers, numbers)
def test_operators_are_those_of_sets(a: set[int], b: set[int]) -> None:
    for result, expected in (
        (intervals(a) | intervals(b), a | b),
        (intervals(a) & intervals(b), a & b),
        (intervals(a) - intervals(b), a - b),
    ):
        assert_canonical(result)
        assert members(result) == expected
        assert result == intervals(expected)
        assert hash(result) == hash(intervals(expected))
    assert (intervals(a) <= intervals(b)) == (a <= b)
    assert (intervals(a) == intervals(b)) == (a == b)
    assert intervals(a) <= intervals(a | b)


def test_each_interval_and_each_set_of_a_few_numbers() -> None:
    for start, end in itertools.combinations(range(1, 8), 2):
        for bits in range(1 << 6):
            a, b = set(range(start, end)), {n for n in range(1, 7) if bits >> n - 1 & 1}
            one, other = intervals(a), intervals(b)
            assert (one <= other, other <= one) == (a <= b, b <= a)
            for result, expected in ((one - other, a - b), (other - one, b - a), (one & other, a & b)):
                assert_canonical(result)
                assert members(result) == expected
            assert members(other & one) == a & b
            assert members(one | other) == members(other | one) == a | b


@given(numbers, st.integers(1, 45))
def test_one_number_more(a: set[int], number: int) -> None:
    grown = intervals(a).with_number(number)
    assert_canonical(grown)
    assert members(grown) == a | {number}


@given(numbers.filter(bool))
def test_sets_that_differ_in_their_last_number_only_are_unequal(a: set[int]) -> None:
    assert intervals(a) != intervals(a | {max(a) + 1})


@given(numbers)
def test_membership_and_count(a: set[int]) -> None:
    probes = list(range(50))
    assert [n in intervals(a) for n in probes] == [n in a for n in probes]
    assert intervals(a).contains_many(int64s(probes)).tolist() == [n in a for n in probes]
    assert intervals(a).count() == len(a)


def test_the_number_after_the_last_copies_no_edges() -> None:
    long = Intervals.of_edges(np.arange(1, 2_000_001, dtype=np.int64))
    assert long.with_number(long.end).inner is long.inner
    after = Intervals.of_ranges(int64s([long.end]), int64s([long.end + 1000]))
    assert (long | after).inner is long.inner


def test_edges_cannot_be_changed_from_outside() -> None:
    value = intervals({1, 2, 7})
    with pytest.raises(ValueError, match="read-only"):
        value.inner[0] = 5


def test_the_largest_number_is_a_member_like_any_other() -> None:
    largest = 2**63 - 2
    value = intervals({1, largest})
    assert members(value - intervals({1})) == {largest}
    assert (largest in value, largest - 1 in value) == (True, False)
    assert intervals({largest}) <= value


def test_nothing_equals_only_nothing() -> None:
    assert intervals(set()) == NO_INTERVALS
    assert intervals({1}) != NO_INTERVALS
    assert intervals({1}) != {1}
