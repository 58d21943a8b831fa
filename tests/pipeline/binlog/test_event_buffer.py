"""The buffer through which the log's bytes pass: what stays is kept, and little is moved."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.binlog.event_buffer import Frames, Inflow
from pipeline.errors import UndecodableError

USUAL = len(Inflow().room())


@given(st.lists(st.tuples(st.integers(1, USUAL), st.floats(0, 1)), max_size=12))
def test_what_arrives_leaves_in_its_order(steps: list[tuple[int, float]]) -> None:
    inflow, told, taken = Inflow(), 0, 0
    for size, leaving in steps:
        room = inflow.room()
        assert len(room) >= USUAL // 4
        count = min(size, len(room))
        for at in {0, count - 1}:
            room[at] = (told + at) % 251
        inflow.arrived(count)
        told += count
        assert inflow.end - inflow.start == told - taken
        assert inflow.bytes[inflow.end - 1] == (told - 1) % 251
        leave = int(leaving * (told - taken))
        inflow.start += leave
        taken += leave


def test_it_grows_with_what_stays_and_shrinks_again() -> None:
    inflow = Inflow()
    for _ in range(6):
        inflow.arrived(min(USUAL, len(inflow.room())))
    inflow.room()
    assert len(inflow.bytes) > USUAL
    assert len(inflow.bytes) >= 2 * (inflow.end - inflow.start)
    inflow.start = inflow.end
    assert len(inflow.room()) == USUAL


def test_more_than_an_event_can_have_is_refused() -> None:
    inflow = Inflow()
    inflow.arrived((1 << 30) + (1 << 20) + 1)  # as if it had come
    with pytest.raises(UndecodableError, match="1 GiB"):
        inflow.room()


@given(st.lists(st.sampled_from([0, 4, 250, 2**32 - 1]), max_size=6), st.sampled_from([4, 250, 2**32 + 250]))
def test_pieces_end_where_an_event_says_that_it_ends_there(ends: list[int], offset: int) -> None:
    events = [bytes(13) + end.to_bytes(4, "little") + bytes([number, 0]) for number, end in enumerate(ends)]
    bounds = np.arange(len(events) + 1, dtype=np.int64) * 19
    frames = Frames(np.frombuffer(b"".join(events), np.uint8), np.column_stack([bounds[:-1], bounds[1:]]))
    pieces = [[piece.event(i) for i in range(len(piece))] for piece in frames.pieces(offset)]
    assert [event for piece in pieces for event in piece] == events
    there = (offset % 2**32).to_bytes(4, "little")
    for number, piece in enumerate(pieces):
        assert piece
        assert all(event[13:17] != there for event in piece[:-1])
        assert piece[-1][13:17] == there or number == len(pieces) - 1
