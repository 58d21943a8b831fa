"""CRC32, compiled: the checksum at the end of each event of the log.

It's the one of zlib (the polynomial 0x04C11DB7, reflected), 16 bytes at a step. The checksum is linear, so each of the
16 bytes has a table of its effects on the remainder, and the sixteen effects are added.

Source: Kounavis and Berry, "A Systematic Approach to Building High Performance Software-Based CRC Generators"
(slicing-by-n).
"""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pipeline.types.buffers import Bytes, Int
from pipeline.types.byte_kernels import integer, word
from pipeline.types.jit import compiled, inlined

_POLYNOMIAL: Final = 0xEDB88320
_STEP: Final = 16

_HEADER, _SIZE = 19, 9  # bytes of an event's header, and where the event's size is in it

Unsigned = (
    np.uint64 | Any
)  # compiled code adds these to one another only: with a signed one it'd make a float


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


@inlined
def is_sound(buffer: Bytes, start: Int, end: Int, checksum_bytes: Int) -> bool:
    """Returns whether the event at buffer[start:end] is as long as its header says, and undamaged."""
    if end - start < _HEADER + checksum_bytes or integer(buffer, start + _SIZE, 4) != end - start:
        return False
    if checksum_bytes == 0:
        return True
    return crc32(buffer, start, end - checksum_bytes) == integer(buffer, end - checksum_bytes, 4)
