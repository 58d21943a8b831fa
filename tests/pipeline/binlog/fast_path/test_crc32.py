"""The compiled checksum is zlib's."""

import zlib

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pipeline.binlog.fast_path.crc32 import crc32


@given(st.binary(max_size=200), st.data())
def test_it_is_zlibs_over_any_part_of_the_buffer(data: bytes, draw: st.DataObject) -> None:
    start = draw.draw(st.integers(0, len(data)))
    end = draw.draw(st.integers(start, len(data)))
    assert crc32(np.frombuffer(bytearray(data), np.uint8), start, end) == zlib.crc32(data[start:end])


def test_it_is_zlibs_over_much() -> None:
    data = np.random.default_rng(4).integers(0, 256, 1_000_003, dtype=np.uint8)
    assert crc32(data, 1, len(data)) == zlib.crc32(data[1:].tobytes())
