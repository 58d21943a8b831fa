"""Runs of bytes, against Python's own."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pipeline.types.byte_kernels import copy, integer, same


def array(data: bytes) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    return np.frombuffer(bytearray(data), np.uint8)


@given(st.binary(min_size=8, max_size=40), st.integers(0, 8), st.data())
def test_integers_are_pythons(data: bytes, width: int, draw: st.DataObject) -> None:
    at = draw.draw(st.integers(0, len(data) - width))
    value = int.from_bytes(data[at : at + width], "little")
    assert integer(array(data), at, width) == (value if width < 8 else int(np.uint64(value).astype(np.int64)))


@given(st.binary(max_size=100), st.data())
def test_runs_are_compared_and_copied(data: bytes, draw: st.DataObject) -> None:
    at = draw.draw(st.integers(0, len(data)))
    length = draw.draw(st.integers(0, len(data) - at))
    out = array(bytes(length + 3))
    copy(array(data), at, length, out, 2)
    assert out.tobytes() == b"\0\0" + data[at : at + length] + b"\0"
    assert same(array(data), at, out, 2, length)
    if length:
        out[draw.draw(st.integers(2, length + 1))] ^= 1
        assert not same(array(data), at, out, 2, length)
