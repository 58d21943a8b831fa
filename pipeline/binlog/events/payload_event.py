"""The TRANSACTION_PAYLOAD event: the events of a transaction end to end, usually compressed.

The event has fields, each a number, a length and a value. Number 0 ends them, and the payload follows. The events in it
have headers and no checksums. It's unpacked as a stream. At any time memory has at most one event of it and the usual
buffers. The reader never takes more from it than the event declares. So neither a small payload that unpacks to a huge
one nor one with a wrong size can take unlimited memory or time.

Sources: MySQL 9.7 source documentation, class mysql::binlog::event::Transaction_payload_event; WL#3549.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.binlog.event_buffer import Frames, Inflow
from pipeline.errors import UndecodableError
from pipeline.types.buffers import Bytes, Int
from pipeline.types.byte_kernels import unsigned
from pipeline.types.cursor import Cursor
from pipeline.types.jit import compiled

_END, _PAYLOAD_SIZE, _COMPRESSION, _UNCOMPRESSED_SIZE = range(4)
_ZSTD: Final = 0
_NONE: Final = 255

_HEADER: Final = 19
_AT_ONCE: Final = 16_384  # events


@dataclass(frozen=True, slots=True)
class Payload:
    """A transaction's events; `size` is their length in bytes, unpacked."""

    data: memoryview = field(repr=False)
    compressed: bool
    size: int


def payload(body: bytes) -> Payload:
    """The TRANSACTION_PAYLOAD event with this body. Raises UndecodableError."""
    cursor = Cursor(body)
    fields: dict[int, int] = {}
    while (number := cursor.packed()) != _END:
        value = cursor.packed_bytes()
        if number in (_PAYLOAD_SIZE, _COMPRESSION, _UNCOMPRESSED_SIZE):
            fields[number] = Cursor(value).packed()
    data = memoryview(body)[cursor.at :]
    compression = fields.get(_COMPRESSION)
    if compression not in (_ZSTD, _NONE):
        raise UndecodableError(f"it's compressed in a way that isn't known ({compression})")
    if fields.get(_PAYLOAD_SIZE) != len(data):
        raise UndecodableError(f"its payload has {len(data)} bytes, and it says {fields.get(_PAYLOAD_SIZE)}")
    size = fields.get(_UNCOMPRESSED_SIZE, len(data) if compression == _NONE else None)
    if size is None:
        raise UndecodableError("it doesn't say how large its payload is uncompressed")
    return Payload(data, compression == _ZSTD, size)


def unpacked(of: Payload) -> Iterator[Frames]:
    """The events, as many as are handled at once; take them before the next. Raises UndecodableError."""
    inflow, left = Inflow(), of.size
    bounds = np.empty((_AT_ONCE, 2), np.int64)
    raw = pa.BufferReader(of.data)
    stream = pa.CompressedInputStream(raw, "zstd") if of.compressed else raw
    while left:
        room = inflow.room()
        count = _read(stream, room[: min(left, len(room))])
        if not count:
            raise UndecodableError(f"its payload ends {left} bytes too early")
        inflow.arrived(count)
        left -= count
        while True:
            start, events = _find_frames(inflow.bytes, inflow.start, inflow.end, bounds)
            inflow.start = int(start)
            if not events:
                break
            yield Frames(inflow.bytes, bounds[:events])
    if _read(stream, memoryview(bytearray(1))):
        raise UndecodableError(f"its payload is larger than the {of.size} bytes that it says")
    if inflow.start != inflow.end:
        raise UndecodableError("its payload ends inside of an event")


def _read(stream: pa.NativeFile, room: memoryview) -> int:
    try:
        return int(stream.readinto(room))
    except (OSError, pa.ArrowException) as error:
        raise UndecodableError(f"its payload can't be unpacked: {error}") from error


@compiled("UniTuple(int64, 2)(uint8[::1], int64, int64, int64[:, ::1])")
def _find_frames(buffer: Bytes, at: Int, end: Int, bounds: NDArray[np.int64]) -> tuple[Int, int]:
    """Find the events that are whole in buffer[at:end]: where the next one begins, and how many they are.

    One that says that it's shorter than its own header has as many bytes as that.
    """
    count = 0
    while count < len(bounds) and end - at >= _HEADER:
        size = max(unsigned(buffer, at + 9, 4), _HEADER)
        if size > end - at:
            break
        bounds[count, 0], bounds[count, 1] = at, at + size
        at, count = at + size, count + 1
    return at, count
