"""A column's values as they lie in the log, and the steps to Arrow that several types share."""

from typing import Final, Never

import numpy as np
import pyarrow as pa

from pipeline.errors import UndecodableError
from pipeline.types import arrow_arrays, value_kernels
from pipeline.types.buffers import ABSENT, SLACK, Bytes, Cells, Flags, Longs
from pipeline.types.field_types import Storage, stored_width

LONGEST_DATA: Final = 2**31 - 1  # bytes that Arrow's 32-bit offsets reach
_NO_PLACE: Final = ABSENT % 2**32  # from here on, as unsigned numbers, cells say that there is no value


class StoredColumn:
    """A column's values as they lie in the log: see `value_kernels` for `buffer` and `cells`. `name` is for errors.

    `exists` says which values are neither NULL nor absent, and `nulls` how many are; `size`: the bytes of all values
    without their lengths, if they aren't of one width.
    """

    __slots__ = ("buffer", "cells", "exists", "name", "nulls", "size")

    def __init__(self, buffer: Bytes, cells: Cells, name: str, size: int) -> None:
        self.buffer = buffer
        self.cells = cells
        self.name = name
        self.size = size
        self.exists: Flags = np.less(cells.view(np.uint32), _NO_PLACE)
        self.nulls = len(cells) - int(np.count_nonzero(self.exists))

    def __len__(self) -> int:
        return len(self.cells)

    def refuse(self, kind: str) -> Never:
        """Raises UndecodableError because a value isn't of its column's kind. The message doesn't have its bytes, which
        are a row's."""
        raise UndecodableError(f"{self.name}: a value in the log isn't a {kind}")

    def refuse_size(self) -> Never:
        """Raise UndecodableError because the column's values are longer than Arrow's offsets reach."""
        raise UndecodableError(
            f"{self.name}: more than 2 GiB of values in one slice of the log; change fewer or smaller rows in one"
            " statement"
        )


def decode_little_endian(width: int, stored: StoredColumn, *, signed: bool = False) -> Longs:
    """Integers of up to 8 bytes; zero for NULL."""
    out = np.empty(len(stored), np.int64)
    value_kernels.little_endian(stored.buffer, stored.cells, width, signed, out)
    return out


def decode_big_endian(width: int, stored: StoredColumn) -> Longs:
    """Unsigned integers of up to 8 bytes; zero for NULL."""
    out = np.empty(len(stored), np.int64)
    value_kernels.big_endian(stored.buffer, stored.cells, width, out)
    return out


def decode_varying(storage: Storage, stored: StoredColumn, padded: int = 0) -> pa.Array:
    """The stored bytes as they are, as pa.binary(); with `padded`, filled up with zero bytes to that many."""
    return arrow_arrays.varying_width_array(
        pa.binary(), *join_stored_values(storage, stored, padded), stored.exists
    )


def join_stored_values(storage: Storage, stored: StoredColumn, padded: int = 0) -> tuple[Cells, Bytes]:
    """The stored bytes end to end: where each value begins (one entry more than there are values), and all of them."""
    width = stored_width(storage)
    slot = padded if width < 0 else width
    size = len(stored) * slot if slot else stored.size
    if size > LONGEST_DATA:
        stored.refuse_size()
    offsets, data = np.empty(len(stored) + 1, np.int32), np.empty(size + SLACK, np.uint8)
    wrong = value_kernels.join_values(stored.buffer, stored.cells, max(-width, 0), slot, offsets, data)
    if wrong != value_kernels.NONE_WRONG:
        stored.refuse(f"value of {padded} bytes")
    return offsets, data[: offsets[-1]]
