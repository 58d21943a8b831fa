"""The partition of a message, which the Java client's default partitioner chooses by the key's bytes.

So each key stays in its partition of a topic that Debezium has filled.

Source: Apache Kafka, `BuiltInPartitioner.partitionForKey` and `Utils.murmur2`; MurmurHash2 by Austin Appleby.
"""

from typing import Final

import numpy as np
import pyarrow as pa
from numba import types
from numpy.typing import NDArray

from pipeline.types.arrow_arrays import bytes_of
from pipeline.types.buffers import Int
from pipeline.types.jit import READ_BYTES, READ_ENDS, compiled

_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF


def partitions(keys: pa.Array, count: int) -> NDArray[np.int32]:
    """Returns the partition, of `count`, of each of these keys: an array of texts or binaries without nulls."""
    data, ends = bytes_of(keys)
    out = np.empty(len(keys), np.int32)
    _partitions(data, ends, count, out)
    return out


@compiled(types.void(READ_BYTES, READ_ENDS, types.int64, types.int32[::1]))
def _partitions(data: NDArray[np.uint8], ends: NDArray[np.int32], count: Int, out: NDArray[np.int32]) -> None:
    for i in range(len(ends) - 1):
        at, end = np.int64(ends[i]), np.int64(ends[i + 1])
        digest = np.int64(_SEED) ^ (end - at)
        while at + 4 <= end:
            k = np.int64(data[at]) | np.int64(data[at + 1]) << 8
            k |= np.int64(data[at + 2]) << 16 | np.int64(data[at + 3]) << 24
            k = k * _M & _MASK
            k = (k ^ k >> 24) * _M & _MASK
            digest = (digest * _M & _MASK) ^ k
            at += 4
        if at < end:
            for place in range(end - at):
                digest ^= np.int64(data[at + place]) << 8 * place
            digest = digest * _M & _MASK
        digest = (digest ^ digest >> 13) * _M & _MASK
        digest ^= digest >> 15
        out[i] = (digest & 0x7FFFFFFF) % count
