"""The position of the log, event by event."""

import pytest

from pipeline.binlog.event_type import Code
from pipeline.binlog.events.event import Header
from pipeline.binlog.log_position import LogPosition
from pipeline.binlog.stream_state import StreamState
from pipeline.errors import UndecodableError
from pipeline.gtid.coordinates import Coordinates


def header(end: int, code: int = Code.XID) -> Header:
    return Header(7, code, 1, 31, end, 0)


def reached(offset: int = 4) -> tuple[LogPosition, StreamState]:
    state = StreamState(10, 10, 10)
    place = LogPosition(state)
    place.rotate("binlog.000003", offset)
    return place, state


def test_an_event_begins_where_the_one_before_ended() -> None:
    place, _ = reached()
    place.advance(header(100))
    place.advance(header(140))
    assert (place.begins, place.time) == (100, 7_000_000)
    assert place.at() == Coordinates("binlog.000003", 140)
    assert place.at(place.begins) == Coordinates("binlog.000003", 100)


def test_offsets_go_on_beyond_what_a_header_has_room_for() -> None:
    place, _ = reached(2**32 - 10)
    place.advance(header(20))
    assert (place.begins, place.at().offset) == (2**32 - 10, 2**32 + 20)


def test_what_is_not_in_the_file_moves_nothing() -> None:
    place, state = reached(50)
    place.advance(header(0))
    place.advance(header(9, Code.HEARTBEAT_V2))
    assert place.at().offset == 50
    state.within = 1
    place.advance(header(90))
    assert (place.begins, place.at().offset) == (50, 50)


def test_a_heartbeat_is_of_this_file_and_ahead() -> None:
    place, _ = reached(50)
    place.heartbeat("binlog.000003", None)
    place.heartbeat("binlog.000003", 70)
    assert place.at().offset == 70
    with pytest.raises(UndecodableError, match="comes after"):
        place.heartbeat("binlog.000003", 60)
    with pytest.raises(UndecodableError, match=r"from the file binlog\.000002"):
        place.heartbeat("binlog.000002", 90)


def test_before_the_first_event_it_is_nowhere() -> None:
    with pytest.raises(UndecodableError, match="before the log had named its file"):
        LogPosition(StreamState(10, 10, 10)).at()
