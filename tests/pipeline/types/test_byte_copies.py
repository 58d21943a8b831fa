"""Exactly the bytes that were said are copied, and the integers that were said are loaded."""

import numpy as np
import pytest
from numba import types, uint8

from pipeline.types.buffers import Bytes, Int
from pipeline.types.byte_copies import copy_bytes, copy_from, load_int32, load_int64
from pipeline.types.jit import compiled


@compiled(
    types.void(uint8[::1], types.int64, types.Array(uint8, 1, "C", readonly=True), types.int64, types.int64)
)
def _copied(out: Bytes, to: Int, data: Bytes, at: Int, size: Int) -> None:
    copy_bytes(out, to, data, at, size)


@compiled(types.void(uint8[::1], types.int64, types.int64, types.int64))
def _copied_from(out: Bytes, to: Int, address: Int, size: Int) -> None:
    copy_from(out, to, address, size)


@compiled(types.int64(types.int64, types.int64))
def _int32(address: Int, index: Int) -> Int:
    loaded: Int = load_int32(address, index)
    return loaded


@compiled(types.int64(types.int64, types.int64))
def _int64(address: Int, index: Int) -> Int:
    loaded: Int = load_int64(address, index)
    return loaded


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 100])
@pytest.mark.parametrize(("to", "at"), [(0, 0), (3, 5)])
def test_no_byte_more_and_none_less(size: int, to: int, at: int) -> None:
    data = np.arange(1, 121, dtype=np.uint8)
    out, other = np.zeros(120, np.uint8), np.zeros(120, np.uint8)
    _copied(out, to, data, at, size)
    assert out[to : to + size].tolist() == data[at : at + size].tolist()
    assert not out[:to].any() and not out[to + size :].any()
    _copied_from(other, to, data.ctypes.data + at, size)
    assert other.tolist() == out.tolist()


@pytest.mark.parametrize("skipped", [0, 3])
def test_integers_are_loaded_with_their_signs_from_any_place(skipped: int) -> None:
    for load, width in ((_int32, 4), (_int64, 8)):
        values = [0, -1, 2 ** (8 * width - 1) - 1, -(2 ** (8 * width - 1))]
        stored = b"".join(value.to_bytes(width, "little", signed=True) for value in values)
        data = np.frombuffer(bytes(skipped) + stored, np.uint8)
        assert [load(data.ctypes.data + skipped, index) for index in range(4)] == values
