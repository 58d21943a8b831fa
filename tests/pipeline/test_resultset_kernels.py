"""What compiled code must never do: read or write outside of what it was given, whatever the bytes say."""

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from pipeline import resultset_kernels as kernels

# Values long enough for each form of a length, and the bytes by which a length goes on in others.
damaged = st.lists(
    st.one_of(st.binary(max_size=4), st.sampled_from([b"\xfb", b"\xfc", b"\xfd", b"\xfe", b"\xff"]))
)


def framed(payloads: list[bytes]) -> np.ndarray:
    """The payloads as packets, end to end."""
    packets = (len(p).to_bytes(3, "little") + bytes([i & 255]) + p for i, p in enumerate(payloads))
    return np.frombuffer(b"".join(packets), np.uint8).copy()


@given(st.lists(damaged.map(b"".join), max_size=5), st.integers(1, 4))
@example([b"\xfe" + b"\xff" * 8], 1)  # a length that would be negative
@example([b"\xfe" + b"\xff" * 7 + b"\x7f"], 1)  # and one behind which no place is
def test_a_cell_is_never_outside_of_the_rows(payloads: list[bytes], columns: int) -> None:
    buffer = framed(payloads)
    starts = np.full((columns, len(payloads)), -7, np.int32)
    lengths = np.full((columns, len(payloads)), -7, np.int32)
    broken = kernels.locate(buffer, len(buffer), starts, lengths)
    whole = len(payloads) if broken == kernels.NONE else broken
    assert 0 <= whole <= len(payloads)
    assert ((lengths[:, :whole] >= 0) | (lengths[:, :whole] == kernels.NULL)).all()
    assert (starts[:, :whole] + np.maximum(lengths[:, :whole], 0) <= len(buffer)).all()


@given(st.lists(st.binary(min_size=1, max_size=6), max_size=6), st.data())
def test_frames_are_the_same_wherever_the_bytes_are_cut(payloads: list[bytes], data: st.DataObject) -> None:
    buffer = framed(payloads)
    at_once = kernels.frame(buffer, 0, len(buffer), 0, 0)
    cut = data.draw(st.integers(0, len(buffer)))
    found, at, sequence, inside, rows, _ = kernels.frame(buffer, 0, cut, 0, 0)
    assert at <= cut
    if found == kernels.MORE:
        found, at, sequence, inside, more, _ = kernels.frame(buffer, at, len(buffer), sequence, inside)
        rows += more
    assert (found, at, sequence, inside, rows) == at_once[:5]
