"""Exactly the bytes that were said are copied."""

import numpy as np
import pytest
from numba import types, uint8

from pipeline.types.buffers import Bytes, Int
from pipeline.types.byte_copies import copy_bytes
from pipeline.types.jit import compiled


@compiled(
    types.void(uint8[::1], types.int64, types.Array(uint8, 1, "C", readonly=True), types.int64, types.int64)
)
def _copied(out: Bytes, to: Int, data: Bytes, at: Int, size: Int) -> None:
    copy_bytes(out, to, data, at, size)


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 100])
@pytest.mark.parametrize(("to", "at"), [(0, 0), (3, 5)])
def test_no_byte_more_and_none_less(size: int, to: int, at: int) -> None:
    data, out = np.arange(1, 121, dtype=np.uint8), np.zeros(120, np.uint8)
    _copied(out, to, data, at, size)
    assert out[to : to + size].tolist() == data[at : at + size].tolist()
    assert not out[:to].any() and not out[to + size :].any()
