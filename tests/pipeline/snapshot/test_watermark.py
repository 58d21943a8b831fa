"""Watermarks: sets by containment, places by their order."""

from dataclasses import FrozenInstanceError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import InvariantBroken
from pipeline.gtid.coordinates import Coordinates
from pipeline.snapshot import watermark
from tests.pipeline.builders import gtids

# Around the places where the number of a file takes a digit more.
numbers = st.integers(1, 12) | st.integers(999_998, 1_000_002)
offsets = st.integers(4, 8) | st.integers(2**32, 2**32 + 2)
places = st.tuples(numbers, offsets)


def at(place: tuple[int, int]) -> Coordinates:
    number, offset = place
    return Coordinates(f"my.host-bin.{number:06}", offset)


def test_low_is_unusable_if_it_lacks_one_transaction_that_had_passed_when_asked() -> None:
    assert not watermark.is_usable_low(low=gtids("a:1-4"), ordered_at=gtids("a:1-5"))
    assert not watermark.is_usable_low(low=gtids("a:1-4:6"), ordered_at=gtids("a:1-5"))
    assert not watermark.is_usable_low(low=gtids("a:1-9"), ordered_at=gtids("a:1-5,b:1"))
    assert not watermark.is_usable_low(low=gtids("a:1-9"), ordered_at=gtids("a:tag:1"))


def test_low_is_usable_if_it_holds_all_that_had_passed_when_asked_and_more() -> None:
    assert watermark.is_usable_low(low=gtids("a:1-5"), ordered_at=gtids("a:1-5"))
    assert watermark.is_usable_low(low=gtids("a:1-9,b:7"), ordered_at=gtids("a:1-5"))
    assert watermark.is_usable_low(low=gtids(""), ordered_at=gtids(""))


def test_the_millionth_file_is_behind_the_one_before_it() -> None:
    last, next_ = Coordinates("binlog.999999", 900), Coordinates("binlog.1000000", 4)
    assert next_.reaches(last)
    assert not last.reaches(next_)


def test_an_offset_counts_within_its_file_only() -> None:
    assert Coordinates("binlog.000002", 4).reaches(Coordinates("binlog.000001", 900))
    assert not Coordinates("binlog.000001", 900).reaches(Coordinates("binlog.000002", 4))


def test_a_place_reaches_itself() -> None:
    assert Coordinates("binlog.000001", 4).reaches(Coordinates("binlog.000001", 4))


@given(places, places)
def test_places_of_one_log_are_ordered_by_file_number_then_offset(
    one: tuple[int, int], other: tuple[int, int]
) -> None:
    assert at(one).reaches(at(other)) == (one >= other)


@given(places, places, places)
def test_the_order_of_places_is_total(a: tuple[int, int], b: tuple[int, int], c: tuple[int, int]) -> None:
    x, y, z = at(a), at(b), at(c)
    assert x.reaches(y) or y.reaches(x)
    assert (x.reaches(y) and y.reaches(x)) == (x == y)
    assert x.reaches(z) or not (x.reaches(y) and y.reaches(z))


@pytest.mark.parametrize("other", ["relay.000001", "binlog.old.000001", "000001"])
def test_places_of_different_logs_are_not_compared(other: str) -> None:
    with pytest.raises(InvariantBroken, match="different logs") as broken:
        Coordinates("binlog.000001", 4).reaches(Coordinates(other, 5))
    assert "binlog.000001:4" in str(broken.value)
    assert f"{other}:5" in str(broken.value)


def test_a_place_is_a_value() -> None:
    place = Coordinates("binlog.000042", 157)
    assert str(place) == "binlog.000042:157"
    assert len({place, Coordinates("binlog.000042", 157)}) == 1
    with pytest.raises(FrozenInstanceError):
        place.offset = 158  # type: ignore[misc]
