"""The compiled loops that write values in Avro's binary encoding.

Each value of an optional schema has the byte of its union's branch before it: `some`, or only `none` for a null. If
both are NO_BRANCH, the schema isn't optional. The values lie end to end in `out`, value i before out_ends[i]. The
caller gives `out` the room that the constants define.

Source: Apache Avro 1.11, "Specification", Binary Encoding.
"""

from typing import Final

import numpy as np
from numba import types, uint8

from pipeline.types.buffers import Bytes, Ends, Flags, Int, Longs
from pipeline.types.byte_copies import copy_bytes
from pipeline.types.byte_kernels import put_zigzag
from pipeline.types.jit import READ_BYTES, READ_ENDS, READ_FLAGS, READ_LONGS, compiled, inlined

NO_BRANCH: Final = -1
# A branch and a long of 8 bytes take so many, and a branch and the length of a text.
LONGEST_LONG: Final = 11
LONGEST_LENGTH: Final = 6

_OUT: Final = uint8[::1]
_OUT_ENDS: Final = types.int32[::1]


@inlined
def _put_branch(out: Bytes, to: Int, branch: Int) -> Int:
    """Writes a union's branch, if there is one. Returns the place after it."""
    if branch < 0:
        return to
    out[to] = branch
    return to + 1


@compiled(types.void(READ_LONGS, READ_FLAGS, types.int64, types.int64, _OUT, _OUT_ENDS))
def put_longs(values: Longs, exists: Flags, none: Int, some: Int, out: Bytes, out_ends: Ends) -> None:
    """Writes each whole number; `out` has LONGEST_LONG bytes for each."""
    to: Int = np.int64(0)
    for i in range(len(values)):
        if exists[i]:
            to = _put_branch(out, to, some)
            to = put_zigzag(out, to, values[i])
        else:
            to = _put_branch(out, to, none)
        out_ends[i] = to


@compiled(types.void(READ_BYTES, READ_ENDS, READ_FLAGS, types.int64, types.int64, _OUT, _OUT_ENDS))
def put_texts(
    data: Bytes, ends: Ends, exists: Flags, none: Int, some: Int, out: Bytes, out_ends: Ends
) -> None:
    """Writes each text or bytes; `out` has LONGEST_LENGTH bytes for each, and those of the texts."""
    to: Int = np.int64(0)
    for i in range(len(exists)):
        if exists[i]:
            at, size = np.int64(ends[i]), np.int64(ends[i + 1]) - np.int64(ends[i])
            to = _put_branch(out, to, some)
            to = put_zigzag(out, to, size)
            copy_bytes(out, to, data, at, size)
            to += size
        else:
            to = _put_branch(out, to, none)
        out_ends[i] = to


@compiled(types.void(READ_BYTES, types.int64, READ_FLAGS, types.int64, types.int64, _OUT, _OUT_ENDS))
def put_fixed(
    data: Bytes, width: Int, exists: Flags, none: Int, some: Int, out: Bytes, out_ends: Ends
) -> None:
    """Writes each value of `width` bytes as it is; `out` has one more for each."""
    to: Int = np.int64(0)
    for i in range(len(exists)):
        if exists[i]:
            to = _put_branch(out, to, some)
            copy_bytes(out, to, data, i * width, width)
            to += width
        else:
            to = _put_branch(out, to, none)
        out_ends[i] = to
