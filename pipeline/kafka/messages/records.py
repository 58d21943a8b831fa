"""Kafka's record batches (format 2), which a compiled loop writes from columns of keys, values and headers.

A batch is its head (`put_head`) and its records. A record has its time as the difference from the first one's.

Source: Apache Kafka, "Message Format", RecordBatch and Record.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numba import types, uint8

from pipeline.types.arrow_arrays import bytes_of
from pipeline.types.buffers import Bytes, Ends, Flags, Int, Longs
from pipeline.types.byte_copies import copy_bytes
from pipeline.types.byte_kernels import put_zigzag
from pipeline.types.jit import READ_BYTES, READ_ENDS, READ_FLAGS, READ_LONGS, compiled, inlined

# What a record takes beside its key, value and headers, at most: an attribute, a time of 10 bytes, four varints of 5.
_ROOM: Final = 31
# Where the checksum is in the head, and from where on it is of everything.
_CHECKSUM: Final = 17
CHECKED_FROM: Final = 21
_HEAD: Final = struct.Struct(">qiibIhiqqqhii")
HEAD_BYTES: Final = _HEAD.size
_FORMAT: Final = 2
_TRANSACTIONAL: Final = 0x10
# The number -1 as a signed one of variable length.
_NULL_SIZE: Final = b"\1"
_NO_HEADERS: Final = b"\0"
# What stands for the value of a header that has none. No text in UTF-8 has this byte.
NO_VALUE: Final = b"\xff"


@dataclass(frozen=True, slots=True)
class Producer:
    """Who sends a batch, as the broker numbered it, and the sequence number of its first record in its partition."""

    id: int
    epoch: int
    sequence: int


@dataclass(frozen=True, slots=True)
class RecordRun:
    """This many records of one partition, end to end, after room for the head of a batch.

    `first_ms` and `latest_ms`: the first record's time, and the latest of all, in ms since the epoch.
    """

    data: Bytes
    count: int
    first_ms: int
    latest_ms: int


def encoded_headers(headers: Sequence[tuple[str, bytes]]) -> bytes:
    """Returns the headers of a record, in its encoding. The value of a header may be NO_VALUE."""
    pieces = [_varint(len(headers))]
    for name, value in headers:
        pieces += [_varint(len(name.encode())), name.encode()]
        pieces += [_NULL_SIZE] if value == NO_VALUE else [_varint(len(value)), value]
    return b"".join(pieces)


def record_runs(
    keys: pa.Array, values: pa.Array, headers: pa.Array | None, times: Longs, rows: Longs, most_bytes: int
) -> Iterator[RecordRun]:
    """Returns the records of these rows, in their order, in as few runs as possible. A run has at most `most_bytes`, or
    one record.

    Keys and values are texts or binaries; a record has none where it is null. `headers`: what `encoded_headers` returns
    for each row, null where there are none. `times`: ms since the epoch.
    """
    kept = pa.repeat(_NO_HEADERS, len(keys)) if headers is None else pc.fill_null(headers, _NO_HEADERS)
    columns = (*_column(keys), *_column(values), *bytes_of(kept))
    sizes = np.empty(len(rows), np.int64)
    _sizes(rows, columns[1], columns[4], columns[7], sizes)
    ends = np.cumsum(sizes)
    begin, before = 0, 0
    while begin < len(rows):
        end = max(begin + 1, int(np.searchsorted(ends, before + most_bytes, "right")))
        out = np.empty(HEAD_BYTES + int(ends[end - 1]) - before, np.uint8)
        some = rows[begin:end]
        written = _lay_records(some, *columns, times, out, HEAD_BYTES)
        yield RecordRun(out[:written], end - begin, int(times[some[0]]), int(times[some].max()))
        begin, before = end, int(ends[end - 1])


def put_head(batch: memoryview, of: RecordRun, compression: int, producer: Producer) -> None:
    """Writes the head of a batch of these records, without the checksum; `compression` is Kafka's number.

    The checksum is CRC-32C of everything from CHECKED_FROM on. `put_checksum` writes it.
    """
    following = len(batch) - 12
    attributes = compression | _TRANSACTIONAL
    sender = (producer.id, producer.epoch, producer.sequence)
    times = (of.first_ms, of.latest_ms)
    _HEAD.pack_into(
        batch, 0, 0, following, -1, _FORMAT, 0, attributes, of.count - 1, *times, *sender, of.count
    )


def put_checksum(batch: memoryview, checksum: int) -> None:
    """Writes the checksum into a batch's head."""
    struct.pack_into(">I", batch, _CHECKSUM, checksum)


def _column(values: pa.Array) -> tuple[Bytes, Ends, Flags]:
    return *bytes_of(values), np.asarray(values.is_valid())


def _varint(value: int) -> bytes:
    """Returns a number from 0 on as a signed one of variable length."""
    left, out = value << 1, bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)
    return bytes(out)


@compiled(types.void(READ_LONGS, READ_ENDS, READ_ENDS, READ_ENDS, types.int64[::1]))
def _sizes(rows: Longs, keys: Ends, values: Ends, headers: Ends, sizes: Longs) -> None:
    """Writes how many bytes each record takes at most."""
    for i in range(len(rows)):
        row = rows[i]
        size = np.int64(keys[row + 1]) - keys[row] + values[row + 1] - values[row]
        sizes[i] = size + headers[row + 1] - headers[row] + _ROOM


@inlined
def _varint_size(value: Int) -> Int:
    left, size = value << 1 ^ value >> 63, np.int64(1)
    while left > 0x7F:
        left >>= 7
        size += 1
    return size


@inlined
def _put_value(out: Bytes, to: Int, data: Bytes, at: Int, size: Int) -> Int:
    """Writes a length, -1 for none, and the bytes. Returns the place after them."""
    to = put_zigzag(out, to, size)
    if size > 0:
        copy_bytes(out, to, data, at, size)
        to += size
    return to


@compiled(
    types.int64(
        READ_LONGS, READ_BYTES, READ_ENDS, READ_FLAGS, READ_BYTES, READ_ENDS, READ_FLAGS, READ_BYTES, READ_ENDS,
        READ_LONGS, uint8[::1], types.int64,
    )
)  # fmt: skip
def _lay_records(
    rows: Longs, keys: Bytes, key_ends: Ends, has_key: Flags, values: Bytes, value_ends: Ends, has_value: Flags,
    headers: Bytes, header_ends: Ends, times: Longs, out: Bytes, to: Int,
) -> Int:  # fmt: skip
    """Writes the records of these rows from a place on. Returns the place after them."""
    for i in range(len(rows)):
        row = rows[i]
        key = np.int64(key_ends[row + 1]) - key_ends[row] if has_key[row] else np.int64(-1)
        value = np.int64(value_ends[row + 1]) - value_ends[row] if has_value[row] else np.int64(-1)
        header = np.int64(header_ends[row + 1]) - header_ends[row]
        later = times[row] - times[rows[0]]
        size = 1 + _varint_size(later) + _varint_size(np.int64(i)) + _varint_size(key) + max(key, 0)
        to = put_zigzag(out, to, size + _varint_size(value) + max(value, 0) + header)
        out[to] = 0
        to = put_zigzag(out, to + 1, later)
        to = put_zigzag(out, to, np.int64(i))
        to = _put_value(out, to, keys, np.int64(key_ends[row]), key)
        to = _put_value(out, to, values, np.int64(value_ends[row]), value)
        copy_bytes(out, to, headers, np.int64(header_ends[row]), header)
        to += header
    return to
