"""The checksum is that of zlib, whichever way it is computed, over any part of a buffer."""

import zlib

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pipeline.types.crc32 import crc32


@given(st.binary(max_size=400), st.data())
def test_it_is_zlibs_over_any_part_of_the_buffer(data: bytes, draw: st.DataObject) -> None:
    start = draw.draw(st.integers(0, len(data)))
    end = draw.draw(st.integers(start, len(data)))
    assert crc32(np.frombuffer(bytearray(data), np.uint8), start, end) == zlib.crc32(data[start:end])


def test_it_is_zlibs_at_each_length_around_blocks() -> None:
    data = np.random.default_rng(4).integers(0, 256, 600, dtype=np.uint8)
    for start in (0, 1, 7):
        for end in range(start, 600):
            assert crc32(data, start, end) == zlib.crc32(data[start:end].tobytes()), (start, end)


def test_it_is_zlibs_over_much() -> None:
    data = np.random.default_rng(4).integers(0, 256, 1_000_003, dtype=np.uint8)
    assert crc32(data, 1, len(data)) == zlib.crc32(data[1:].tobytes())


def test_each_bit_counts() -> None:
    data = np.random.default_rng(5).integers(0, 256, 150, dtype=np.uint8)
    whole = crc32(data, 0, len(data))
    for bit in range(8 * len(data)):
        data[bit // 8] ^= 1 << bit % 8
        assert crc32(data, 0, len(data)) != whole
        data[bit // 8] ^= 1 << bit % 8
