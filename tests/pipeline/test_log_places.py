"""Places as positions: what lies before a place, and in which order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline import log_places
from pipeline.errors import Definite
from pipeline.gtid import Gtid, GtidSet, Source
from pipeline.watermark import Coordinates

SERVER = "3e11fa47-71ca-11e1-9e33-c80aa9429562"

places = st.builds(
    lambda number, offset: Coordinates(f"my.host-bin.{number:06}", offset),
    st.integers(1, 3) | st.integers(999_999, 1_000_001) | st.just(92_000_000),
    st.integers(4, 6) | st.integers(2**32, 2**32 + 1) | st.just(10**11 - 1),
)


@given(places, places)
def test_a_transaction_is_before_all_places_behind_its_beginning(
    begins: Coordinates, place: Coordinates
) -> None:
    here = log_places.before(SERVER, place)
    assert (log_places.name(SERVER, begins) in here) == (not begins.reaches(place))
    assert (log_places.before(SERVER, begins) <= here) == place.reaches(begins)


@given(places, places)
def test_what_is_missing_of_a_later_place_is_what_is_between(first: Coordinates, later: Coordinates) -> None:
    missing = log_places.before(SERVER, later) - log_places.before(SERVER, first)
    assert missing == log_places.between(log_places.name(SERVER, first), later)
    assert bool(missing) == (not first.reaches(later))


def test_the_first_place_that_is_missing_is_before_a_gap() -> None:
    gap = log_places.between(
        log_places.name(SERVER, Coordinates("b.000007", 200)), Coordinates("b.000007", 300)
    )
    position = log_places.before(SERVER, Coordinates("b.000009", 4)) - gap
    missing = log_places.first_missing(position)
    assert log_places.file_and_offset(missing) == (7, 200)
    assert str(missing) == f"{SERVER}:tidemark_binlog:700000000200"
    whole = log_places.first_missing(position | gap)
    assert log_places.file_and_offset(whole) == (9, 4)


def test_a_position_says_its_server_and_survives_as_text() -> None:
    position = log_places.before(SERVER, Coordinates("b.000009", 4))
    assert log_places.server_of(GtidSet.parse(str(position))) == SERVER
    assert GtidSet.parse(str(position)) == position
    assert log_places.server_of(GtidSet()) is None
    assert log_places.server_of(GtidSet().with_gtid(Gtid(Source(SERVER), 1))) is None
    assert log_places.server_of(position.with_gtid(Gtid(Source(SERVER), 1))) is None


@pytest.mark.parametrize("place", [Coordinates("b.000001", 10**11), Coordinates("b.92233721", 4)])
def test_places_beyond_what_can_be_counted_are_refused(place: Coordinates) -> None:
    with pytest.raises(Definite, match="beyond the places"):
        log_places.before(SERVER, place)
