"""Values in Avro's binary encoding, in columns: an array of bytes as long as the column, without nulls.

Source: Apache Avro 1.11, "Specification", Binary Encoding.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.kafka.avro import avro_kernels as kernels
from pipeline.kafka.debezium.text_rows import Chosen, TextPiece, joined, text_array
from pipeline.types.arrow_arrays import bytes_of
from pipeline.types.buffers import Bytes, Ends, Flags

BYTES: Final = pa.binary()
# The end of a list, which is what an empty list has alone.
_END: Final = b"\0"


@dataclass(frozen=True, slots=True)
class Branches:
    """The bytes of a union's branches, of null and of the value; `kernels.NO_BRANCH` without a union."""

    none: int
    some: int

    @property
    def optional(self) -> bool:
        """Returns whether there is a union."""
        return self.none != kernels.NO_BRANCH

    @property
    def before_none(self) -> bytes:
        """Returns the bytes for null."""
        return bytes([self.none]) if self.optional else b""

    @property
    def before_some(self) -> bytes:
        """Returns the bytes before a value."""
        return bytes([self.some]) if self.optional else b""


REQUIRED: Final = Branches(kernels.NO_BRANCH, kernels.NO_BRANCH)
NULL_FIRST: Final = Branches(0, 2)
NULL_LAST: Final = Branches(2, 0)


def avro_values(values: pa.Array, branches: Branches) -> pa.Array:
    """Returns values in Connect's form (`connect_values`) in Avro. Nulls need a union."""
    kind, exists = values.type, _exists(values)
    if pa.types.is_integer(kind):
        return _longs(values, exists, branches)
    if pa.types.is_boolean(kind):
        return _fixed(pc.fill_null(values, False).cast(pa.uint8()), exists, branches)
    if pa.types.is_floating(kind):
        return _fixed(pc.fill_null(values, 0.0), exists, branches)
    if pa.types.is_struct(kind):
        wkb, srid = values.flatten()
        record = joined(
            avro_values(pc.fill_null(wkb, b""), REQUIRED),
            avro_values(srid, NULL_FIRST),
            count=len(values),
            kind=BYTES,
        )
        return _where(exists, record, branches)
    if pa.types.is_list(kind):
        ends = np.asarray(values.offsets)
        items = values.values.slice(
            ends[0], ends[-1] - ends[0]
        )  # a slice has its array's items, and its own ends
        floats = _fixed(items, _exists(items), REQUIRED)
        return _where(exists, avro_lists(floats, ends - ends[0]), branches)
    return _texts(*bytes_of(values), exists, branches)


def unquoted(values: pa.Array, exists: pa.Array, branches: Branches) -> pa.Array:
    """Returns quoted texts without their quotes; `exists`: which of them exist."""
    inner = pc.binary_slice(values.view(BYTES), 1, -1)
    return _texts(*bytes_of(inner), np.asarray(exists), branches)


def avro_lists(items: pa.Array, ends: Ends) -> pa.Array:
    """Returns lists of these items; list i has those from ends[i] to ends[i + 1], and the first begins at 0.

    Each is one block, and the end.
    """
    counts = np.diff(ends)
    blocks = avro_values(pa.array(counts, pa.int64()), REQUIRED)
    data, places = bytes_of(items)
    inner = text_array(data, places[ends[1:]], kind=BYTES) if len(counts) else items
    full = joined(blocks, inner, _END, count=len(counts), kind=BYTES)
    return pc.if_else(pa.array(counts > 0), full, pa.scalar(_END, BYTES))


def _exists(values: pa.Array) -> Flags:
    return np.asarray(values.is_valid())


def _where(exists: Flags, records: pa.Array, branches: Branches) -> pa.Array:
    """Returns the records with their branches, and null where none exists."""
    if not branches.optional:
        return records
    return joined(
        chosen(records, np.where(exists, np.arange(len(exists)), -1), branches), count=len(exists), kind=BYTES
    )


def chosen(records: pa.Array, rows: np.ndarray[tuple[int], np.dtype[np.int64]], branches: Branches) -> Chosen:
    """Returns the record that each row has by its number, null for a negative number."""
    found: TextPiece = joined(branches.before_some, records, count=len(records), kind=BYTES)
    return Chosen(found, rows, branches.before_none)


def _longs(values: pa.Array, exists: Flags, branches: Branches) -> pa.Array:
    words = np.asarray(pc.fill_null(values, 0)).astype(np.int64, copy=False)
    out, ends = np.empty(kernels.LONGEST_LONG * len(words), np.uint8), np.empty(len(words), np.int32)
    kernels.put_longs(words, exists, branches.none, branches.some, out, ends)
    return text_array(out, ends, kind=BYTES)


def _texts(data: Bytes, places: Ends, exists: Flags, branches: Branches) -> pa.Array:
    size = len(data) + kernels.LONGEST_LENGTH * len(exists)
    out, ends = np.empty(size, np.uint8), np.empty(len(exists), np.int32)
    kernels.put_texts(data, places, exists, branches.none, branches.some, out, ends)
    return text_array(out, ends, kind=BYTES)


def _fixed(values: pa.Array, exists: Flags, branches: Branches) -> pa.Array:
    held = np.ascontiguousarray(np.asarray(values))
    data, width = held.view(np.uint8), held.itemsize
    out, ends = np.empty((width + 1) * len(held), np.uint8), np.empty(len(held), np.int32)
    kernels.put_fixed(data, width, exists, branches.none, branches.some, out, ends)
    return text_array(out, ends, kind=BYTES)
