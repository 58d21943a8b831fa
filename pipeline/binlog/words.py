"""Compiled: eight bytes at a time, wherever a value ends; whoever calls has seen to the slack behind it.

LLVM makes one instruction of each of these loops. Where they are run as plain Python, each byte's index is checked.
"""

import numpy as np
from numba import njit

from pipeline.binlog.cells import Bytes, Int


@njit("uint64(uint8[::1], int64)", cache=True, nogil=True)
def word(buffer: Bytes, at: Int) -> np.uint64:
    """The 8 bytes from `at` on as a little-endian number."""
    bits = np.uint64(0)
    for k in range(8):
        bits |= np.uint64(buffer[at + k]) << np.uint64(8 * k)
    return bits


@njit("void(uint8[::1], int64, uint64)", cache=True, nogil=True)
def put_word(out: Bytes, to: Int, bits: np.uint64) -> None:
    """Write a number's 8 bytes from `to` on, the lowest first."""
    for k in range(8):
        out[to + k] = np.uint8(bits >> np.uint64(8 * k))


@njit("void(uint8[::1], int64, int64, uint8[::1], int64)", cache=True, nogil=True)
def copy_words(buffer: Bytes, at: Int, length: Int, out: Bytes, to: Int) -> None:
    """Copy `length` bytes, and up to 7 more. Within one buffer, from the right to the left."""
    for k in range(0, length, 8):
        put_word(out, to + k, word(buffer, at + k))
