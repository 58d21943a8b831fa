"""Runs of bytes, compiled: numbers out of them, copies and comparisons.

All indices here are unsigned. Compiled code counts a negative index from the end, as Python does, and so has to check
each signed one. Of loops over unsigned indices LLVM makes loads and stores of as many bytes as the processor has (some
20 GB/s instead of less than 1).

A *word* is 8 bytes at once, also past a value's end: the caller ensures that SLACK bytes follow it.
"""

import numpy as np

from pipeline.types.buffers import Bytes, Int
from pipeline.types.jit import compiled, inlined


@compiled("int64(uint8[::1], int64, int64)", inlined=True)
def unsigned(buffer: Bytes, at: Int, width: Int) -> Int:
    """The little-endian integer of `width` bytes; one of 8 bytes wraps."""
    first, value = np.uint64(at), np.uint64(0)
    for i in range(np.uint64(width)):
        value |= np.uint64(buffer[first + i]) << (np.uint64(8) * i)
    return np.int64(value)


@compiled("void(uint8[::1], int64, int64, int64)", inlined=True)
def put_unsigned(out: Bytes, to: Int, value: Int, width: Int) -> None:
    """Write an integer of `width` bytes, the lowest first."""
    for k in range(width):
        out[to + k] = np.uint8(value >> (8 * k) & 255)


@compiled("boolean(uint8[::1], int64, uint8[::1], int64, int64)")
def bytes_equal(one: Bytes, at: Int, other: Bytes, there: Int, length: Int) -> bool:
    """Whether as many bytes are the same in both; all are looked at, which is quicker than to stop at the first."""
    here, yonder, differing = np.uint64(at), np.uint64(there), np.uint8(0)
    for i in range(np.uint64(length)):
        differing |= one[here + i] ^ other[yonder + i]
    return bool(differing == 0)


@compiled("void(uint8[::1], int64, int64, uint8[::1], int64)")
def copy(buffer: Bytes, at: Int, length: Int, out: Bytes, to: Int) -> None:
    """Copy as many bytes from one buffer to another."""
    here, there = np.uint64(at), np.uint64(to)
    for i in range(np.uint64(length)):
        out[there + i] = buffer[here + i]


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


@inlined
def put_zigzag(out: Bytes, to: Int, value: Int) -> Int:
    """Write a signed number of variable length, as Kafka and Avro do. Returns the place after it."""
    left = np.uint64(value << 1 ^ value >> 63)
    while left > np.uint64(0x7F):
        out[to] = left & np.uint64(0x7F) | np.uint64(0x80)
        left >>= np.uint64(7)
        to += 1
    out[to] = left
    return to + 1
