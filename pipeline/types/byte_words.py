"""Compiled: reads, writes and copies eight bytes at a time, also past a value's end. The caller ensures the slack after
it.

LLVM makes one instruction of each of these loops, provided that the index can't be negative, which Python would count
from the end: hence the unsigned ones. In plain Python each byte's index is checked.
"""

import numpy as np

from pipeline.types.buffers import Bytes, Int
from pipeline.types.jit import compiled


@compiled("uint64(uint8[::1], int64)", inlined=True)
def word(buffer: Bytes, at: Int) -> np.uint64:
    """The 8 bytes from `at` on as a little-endian number."""
    bits, first = np.uint64(0), np.uint64(at)
    for k in range(8):
        bits |= np.uint64(buffer[first + np.uint64(k)]) << np.uint64(8 * k)
    return bits


@compiled("void(uint8[::1], int64, uint64)", inlined=True)
def put_word(out: Bytes, to: Int, bits: np.uint64) -> None:
    """Write a number's 8 bytes from `to` on, the lowest first."""
    first = np.uint64(to)
    for k in range(8):
        out[first + np.uint64(k)] = np.uint8(bits >> np.uint64(8 * k))


@compiled("void(uint8[::1], int64, int64, uint8[::1], int64)", inlined=True)
def copy_words(buffer: Bytes, at: Int, length: Int, out: Bytes, to: Int) -> None:
    """Copy `length` bytes, and up to 7 more. Within one buffer, from the right to the left."""
    for k in range(0, length, 8):
        put_word(out, to + k, word(buffer, at + k))
