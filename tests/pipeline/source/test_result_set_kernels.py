"""Compiled code must never read or write outside of its buffers, for any bytes."""

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from pipeline.source import result_set_kernels as kernels
from pipeline.types.buffers import NULL, SLACK, Bytes, Longs

# The payloads of rows, and the width of each column's values, 0 if they have their own length.
Result = tuple[list[bytes], list[int]]

# Values long enough for each form of a length, and the bytes by which a length continues in others.
damaged = st.lists(
    st.one_of(st.binary(max_size=4), st.sampled_from([b"\0\0", b"\xfb", b"\xfc", b"\xfd", b"\xfe", b"\xff"]))
)


def framed(payloads: list[bytes]) -> Bytes:
    """The payloads as packets, end to end, and the slack."""
    packets = (len(p).to_bytes(3, "little") + bytes([i & 255]) + p for i, p in enumerate(payloads))
    return np.frombuffer(b"".join([*packets, b"\xff" * SLACK]), np.uint8).copy()


@st.composite
def results(draw: st.DrawFn) -> Result:
    """Rows of at most four columns, whole ones and damaged ones, and the columns' widths."""
    widths = draw(st.lists(st.sampled_from([0, 0, 1, 8]), min_size=1, max_size=4))
    values = [
        st.binary(min_size=width, max_size=width)
        if width
        else st.binary(max_size=4).map(lambda value: bytes([len(value)]) + value)
        for width in widths
    ]
    whole = st.tuples(*values).map(lambda row: b"\0\0" + b"".join(row))
    rows = st.one_of(whole, whole, whole, damaged.map(lambda pieces: b"\0\0" + b"".join(pieces)))
    return draw(st.lists(rows | damaged.map(b"".join), max_size=5)), widths


@given(results())
@example(([b"\0\0\xfe" + b"\xff" * 8], [0]))  # a length that would be negative
@example(([b"\0\0\xfe" + b"\xff" * 7 + b"\x7f"], [0]))  # and one with no position after it
@example(([b"\0\0\xfe" + b"\xff" * 7 + b"\x7f"], [0, 0]))
@example(([b"\0\0\xfe"], [0]))
@example(([b"\0\0" + b"\0" * 7], [8]))
@example(([b"\0\4\1a", b"\0\0\0"], [0, 0]))  # NULL and a value; and a row that lacks a value
def test_a_cell_is_never_outside_of_its_row(result: Result) -> None:
    payloads, widths = result
    buffer = framed(payloads)
    end = len(buffer) - SLACK
    cells = np.full((len(widths), len(payloads)), -7, np.int32)
    broken = kernels.locate_values(buffer, end, np.array(widths, np.int64), cells)
    whole = len(payloads) if broken == kernels.NONE else broken
    assert 0 <= whole <= len(payloads)
    stop = 0
    for row in range(whole):
        start, stop = stop, stop + 4 + len(payloads[row])
        for at, width in zip(cells[:, row].tolist(), widths, strict=True):
            if at != NULL:
                begin, length = (at, width) if width else kernels.length_encoded(buffer, at)
                assert start < at <= begin <= begin + length <= stop


def state() -> Longs:
    return np.zeros(6, np.int64)


@given(st.lists(st.binary(min_size=1, max_size=6), max_size=6), st.data())
def test_frames_are_the_same_wherever_the_bytes_are_cut(payloads: list[bytes], data: st.DataObject) -> None:
    buffer = framed(payloads)
    end = len(buffer) - SLACK
    at_once, in_turn = state(), state()
    found = kernels.frame(buffer, end, at_once)
    for cut in sorted(data.draw(st.lists(st.integers(0, end), max_size=3))):
        earlier = kernels.frame(buffer, cut, in_turn)
        assert in_turn[kernels.AT] <= cut
        assert earlier in (kernels.MORE, found)
    assert kernels.frame(buffer, end, in_turn) == found
    assert in_turn.tolist() == at_once.tolist()
