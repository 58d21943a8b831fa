"""Places as positions: what lies before a place, and in which order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import Definite
from pipeline.gtid import file_positions
from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.gtid_set import Gtid, GtidSet, Tsid

SERVER = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
OTHER_SERVER = "4e11fa47-71ca-11e1-9e33-c80aa9429562"

coordinates = st.builds(
    lambda number, offset: Coordinates(f"my.host-bin.{number:06}", offset),
    st.integers(1, 3) | st.integers(999_999, 1_000_001) | st.just(92_000_000),
    st.integers(4, 6) | st.integers(2**32, 2**32 + 1) | st.just(10**11 - 1),
)


@given(coordinates, coordinates)
def test_a_transaction_is_before_all_coordinates_after_its_beginning(
    begins: Coordinates, at: Coordinates
) -> None:
    here = file_positions.all_before(SERVER, at)
    assert (file_positions.transaction_at(SERVER, begins) in here) == (not begins.reaches(at))
    assert (file_positions.all_before(SERVER, begins) <= here) == at.reaches(begins)


@given(coordinates, coordinates)
def test_what_is_missing_of_a_later_place_is_what_is_between(first: Coordinates, later: Coordinates) -> None:
    missing = file_positions.all_before(SERVER, later) - file_positions.all_before(SERVER, first)
    assert missing == file_positions.all_between(file_positions.transaction_at(SERVER, first), later)
    assert bool(missing) == (not first.reaches(later))


def test_the_first_place_that_is_missing_is_before_a_gap() -> None:
    gap = file_positions.all_between(
        file_positions.transaction_at(SERVER, Coordinates("b.000007", 200)), Coordinates("b.000007", 300)
    )
    position = file_positions.all_before(SERVER, Coordinates("b.000009", 4)) - gap
    missing = file_positions.first_missing(position)
    assert file_positions.file_and_offset(missing) == (7, 200)
    assert str(missing) == f"{SERVER}:tidemark_binlog:700000000200"
    whole = file_positions.first_missing(position | gap)
    assert file_positions.file_and_offset(whole) == (9, 4)


def test_a_position_says_its_server_and_survives_as_text() -> None:
    position = file_positions.all_before(SERVER, Coordinates("b.000009", 4))
    assert file_positions.server_of(GtidSet.parse(str(position))) == SERVER
    assert GtidSet.parse(str(position)) == position
    assert file_positions.server_of(GtidSet()) is None
    assert file_positions.server_of(GtidSet().with_gtid(Gtid(Tsid(SERVER), 1))) is None
    assert file_positions.server_of(position.with_gtid(Gtid(Tsid(SERVER), 1))) is None


def test_a_position_of_coordinates_is_comparable_with_those_of_its_server_alone() -> None:
    at = Coordinates("b.000009", 4)
    here, elsewhere = (file_positions.all_before(server, at) for server in (SERVER, OTHER_SERVER))
    later = file_positions.all_before(SERVER, Coordinates("b.000009", 5))
    gtids = GtidSet.parse(f"{SERVER}:1-5")
    assert file_positions.are_comparable(later, here)
    assert file_positions.are_comparable(gtids, gtids)
    assert file_positions.are_comparable(gtids, GtidSet())
    assert not file_positions.are_comparable(gtids, here)
    assert not file_positions.are_comparable(elsewhere, here)


@pytest.mark.parametrize("at", [Coordinates("b.000001", 10**11), Coordinates("b.92233721", 4)])
def test_coordinates_beyond_what_can_be_counted_are_refused(at: Coordinates) -> None:
    with pytest.raises(Definite, match="beyond what can be counted"):
        file_positions.all_before(SERVER, at)
