"""Runs of bytes, compiled: numbers out of them, copies, comparisons, and the CRC32 of zlib.

All indices here are unsigned. Compiled code counts a negative index from the end, as Python does, and so has to check
each signed one. Of loops over unsigned indices LLVM makes loads and stores of as many bytes as the processor has (some
20 GB/s instead of less than 1).

A *word* is 8 bytes at once, also past a value's end: the caller ensures that SLACK bytes follow it.

The checksum takes 16 bytes a step. It is linear: each of the 16 bytes has a table of its effects on the remainder, and
a step adds the sixteen effects.

Source: Kounavis and Berry, "A Systematic Approach to Building High Performance Software-Based CRC Generators"
(slicing-by-n).
"""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pipeline.types.buffers import Bytes, Int
from pipeline.types.jit import compiled, inlined

_POLYNOMIAL: Final = 0xEDB88320  # 0x04C11DB7, reflected
_STEP: Final = 16

# Compiled code adds these only to one another: with a signed one it would make a float.
Unsigned = np.uint64 | Any


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


def _tables() -> NDArray[np.uint32]:
    """[k, b]: what byte b does to the remainder when k bytes follow it."""
    tables = np.empty((_STEP, 256), np.uint32)
    remainder = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        remainder = np.where(remainder & 1, remainder >> 1 ^ _POLYNOMIAL, remainder >> 1).astype(np.uint32)
    tables[0] = remainder
    for k in range(1, _STEP):
        tables[k] = tables[k - 1] >> 8 ^ tables[0][tables[k - 1] & 255]
    return tables


_T: Final = _tables()
_BYTE: Final = np.uint64(255)
_ALL: Final = np.uint64(0xFFFFFFFF)


@inlined
def _effect(eight: Unsigned, following: int) -> Unsigned:
    """What 8 bytes do to the remainder when `following` others follow them."""
    return np.uint64(
        _T[following + 7, eight & _BYTE]
        ^ _T[following + 6, eight >> np.uint64(8) & _BYTE]
        ^ _T[following + 5, eight >> np.uint64(16) & _BYTE]
        ^ _T[following + 4, eight >> np.uint64(24) & _BYTE]
        ^ _T[following + 3, eight >> np.uint64(32) & _BYTE]
        ^ _T[following + 2, eight >> np.uint64(40) & _BYTE]
        ^ _T[following + 1, eight >> np.uint64(48) & _BYTE]
        ^ _T[following, eight >> np.uint64(56)]
    )


@compiled("int64(uint8[::1], int64, int64)")
def crc32(buffer: Bytes, start: Int, end: Int) -> Int:
    """The CRC32 of buffer[start:end], which has to lie in the buffer; as zlib.crc32 gives it."""
    remainder = _ALL
    at, behind, step = np.uint64(start), np.uint64(end), np.uint64(_STEP)
    while at + step <= behind:
        first = word(buffer, at) ^ remainder
        remainder = _effect(first, 8) ^ _effect(word(buffer, at + np.uint64(8)), 0)
        at += step
    while at < behind:
        remainder = remainder >> np.uint64(8) ^ np.uint64(_T[0, (remainder ^ np.uint64(buffer[at])) & _BYTE])
        at += np.uint64(1)
    return np.int64(remainder ^ _ALL)
