"""Places are ordered within one log, by the number of the file and not by its name."""

import pytest

from pipeline.errors import InvariantBroken
from pipeline.gtid.coordinates import Coordinates


def test_places_are_ordered_by_file_and_offset() -> None:
    place = Coordinates("binlog.000009", 120)
    assert place.reaches(place) and place.reaches(Coordinates("binlog.000009", 119))
    assert not place.reaches(Coordinates("binlog.000009", 121))
    assert Coordinates("binlog.000010", 4).reaches(place) and not place.reaches(
        Coordinates("binlog.000010", 4)
    )


def test_files_are_ordered_beyond_a_million_where_names_are_not() -> None:
    assert Coordinates("binlog.1000000", 4).reaches(Coordinates("binlog.999999", 4))


def test_places_of_two_logs_are_not_compared() -> None:
    with pytest.raises(InvariantBroken, match="different logs"):
        Coordinates("binlog.000001", 4).reaches(Coordinates("relay.000001", 4))


def test_a_place_is_shown_as_file_and_offset() -> None:
    assert str(Coordinates("binlog.000042", 1234)) == "binlog.000042:1234"
