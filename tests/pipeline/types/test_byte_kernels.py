"""Runs of bytes, against Python's own, and their checksum against zlib's."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pipeline.types.byte_kernels import bytes_equal, copy, copy_words, put_word, unsigned, word


def array(data: bytes) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    return np.frombuffer(bytearray(data), np.uint8)


@given(st.binary(min_size=8, max_size=40), st.integers(0, 8), st.data())
def test_integers_are_pythons(data: bytes, width: int, draw: st.DataObject) -> None:
    at = draw.draw(st.integers(0, len(data) - width))
    value = int.from_bytes(data[at : at + width], "little")
    assert unsigned(array(data), at, width) == (
        value if width < 8 else int(np.uint64(value).astype(np.int64))
    )


@given(st.binary(max_size=100), st.data())
def test_runs_are_compared_and_copied(data: bytes, draw: st.DataObject) -> None:
    at = draw.draw(st.integers(0, len(data)))
    length = draw.draw(st.integers(0, len(data) - at))
    out = array(bytes(length + 3))
    copy(array(data), at, length, out, 2)
    assert out.tobytes() == b"\0\0" + data[at : at + length] + b"\0"
    assert bytes_equal(array(data), at, out, 2, length)
    if length:
        out[draw.draw(st.integers(2, length + 1))] ^= 1
        assert not bytes_equal(array(data), at, out, 2, length)


def test_a_word_is_written_as_it_is_read() -> None:
    buffer = np.frombuffer(bytes(range(1, 17)), np.uint8).copy()
    assert int(word(buffer, 3)) == int.from_bytes(bytes(range(4, 12)), "little")
    put_word(buffer, 0, word(buffer, 8))
    assert buffer.tobytes() == bytes(range(9, 17)) * 2


def test_a_copy_takes_whole_words() -> None:
    buffer, out = np.arange(24, dtype=np.uint8), np.zeros(24, np.uint8)
    copy_words(buffer, 2, 9, out, 1)
    assert out[1:10].tolist() == list(range(2, 11))
    assert out[0] == 0 and not out[17:].any()
