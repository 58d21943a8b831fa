"""Coordinates are ordered within one log, by the number of the file and not by its name."""

from dataclasses import FrozenInstanceError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.gtid.coordinates import Coordinates

# Around the numbers of files that take a digit more.
numbers = st.integers(1, 12) | st.integers(999_998, 1_000_002)
offsets = st.integers(4, 8) | st.integers(2**32, 2**32 + 2)
offsets_in_files = st.tuples(numbers, offsets)


def at(offset_in_file: tuple[int, int]) -> Coordinates:
    number, offset = offset_in_file
    return Coordinates(f"my.host-bin.{number:06}", offset)


def test_the_millionth_file_is_after_the_one_before_it() -> None:
    last, next_ = Coordinates("binlog.999999", 900), Coordinates("binlog.1000000", 4)
    assert next_.reaches(last)
    assert not last.reaches(next_)


def test_an_offset_counts_within_its_file_only() -> None:
    assert Coordinates("binlog.000002", 4).reaches(Coordinates("binlog.000001", 900))
    assert not Coordinates("binlog.000001", 900).reaches(Coordinates("binlog.000002", 4))


def test_coordinates_reach_themselves() -> None:
    assert Coordinates("binlog.000001", 4).reaches(Coordinates("binlog.000001", 4))


@given(offsets_in_files, offsets_in_files)
def test_coordinates_of_one_log_are_ordered_by_file_number_then_offset(
    one: tuple[int, int], other: tuple[int, int]
) -> None:
    assert at(one).reaches(at(other)) == (one >= other)


@given(offsets_in_files, offsets_in_files, offsets_in_files)
def test_their_order_is_total(a: tuple[int, int], b: tuple[int, int], c: tuple[int, int]) -> None:
    x, y, z = at(a), at(b), at(c)
    assert x.reaches(y) or y.reaches(x)
    assert (x.reaches(y) and y.reaches(x)) == (x == y)
    assert x.reaches(z) or not (x.reaches(y) and y.reaches(z))


@pytest.mark.parametrize("other", ["relay.000001", "binlog.old.000001", "000001"])
def test_a_file_of_another_name_is_not_reached(other: str) -> None:
    assert not Coordinates("binlog.000007", 4).reaches(Coordinates(other, 4))


def test_coordinates_are_a_value() -> None:
    here = Coordinates("binlog.000042", 157)
    assert str(here) == "binlog.000042:157"
    assert len({here, Coordinates("binlog.000042", 157)}) == 1
    with pytest.raises(FrozenInstanceError):
        here.offset = 158  # type: ignore[misc]
