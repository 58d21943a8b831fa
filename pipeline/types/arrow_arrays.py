"""Arrow arrays over buffers that compiled loops have filled, the same for rows from the log and from a SELECT.

`exists` says of each value whether it isn't NULL. NULL values take room in a fixed-width array (with any value), and
none in the others. `offsets` has one entry more than there are values: where each begins in `data`.
"""

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.types.buffers import Flags, Longs

Offsets = Longs | NDArray[np.int32]


def fixed_width_array(kind: pa.DataType, values: NDArray[Any], exists: Flags) -> pa.Array:
    """An array of a type of fixed width, over the memory of `values`."""
    return pa.Array.from_buffers(kind, len(exists), [_validity(exists), pa.py_buffer(values)])


def varying_width_array(
    kind: pa.DataType, offsets: Offsets, data: NDArray[np.uint8], exists: Flags
) -> pa.Array:
    """An array of pa.string() or pa.binary() over the memory of `data`; no more than 2 GiB of it."""
    places = pa.py_buffer(offsets.astype(np.int32, copy=False))
    return pa.Array.from_buffers(kind, len(exists), [_validity(exists), places, pa.py_buffer(data)])


def vector_array(offsets: Offsets, data: NDArray[np.uint8], exists: Flags) -> pa.Array:
    """Lists of 4-byte floats over the memory of `data`; the offsets, in bytes, are multiples of 4."""
    floats = pa.Array.from_buffers(pa.float32(), len(data) // 4, [None, pa.py_buffer(data)])
    places = pa.py_buffer((offsets // 4).astype(np.int32))
    return pa.Array.from_buffers(
        pa.list_(pa.float32()), len(exists), [_validity(exists), places], children=[floats]
    )


def bytes_of(values: pa.Array) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
    """The bytes of an array of pa.string() or pa.binary() end to end, and its offsets in them, from 0 on."""
    _, places, data = values.buffers()
    ends = np.frombuffer(places, np.int32)[values.offset : values.offset + len(values) + 1]
    first, last = (int(ends[0]), int(ends[-1])) if len(ends) else (0, 0)
    whole = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    return whole[first:last], ends - np.int32(first)


def _validity(exists: Flags) -> pa.Buffer | None:
    return None if exists.all() else pa.py_buffer(np.packbits(exists, bitorder="little"))
