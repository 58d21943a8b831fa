"""Runs of small compressed transactions, unpacked at once: payload, GTID, payload, GTID, … payload.

To unpack some hundred bytes costs five times as much to begin with as to do. But zstd takes frames that lie end to end
as one, and a small payload is such a frame. So those of a run are unpacked together. What comes out is laid out as the
log would be without compression and without checksums of events. It is parsed as such.

Only what is beyond doubt is taken: events that are undamaged, and payloads that are described as the server does it.
Whatever else ends the run before it. Refusing is the business of `payload_event` alone, which unpacks what is left as
a stream.

**No payload can give more than it says, or take from its neighbour.** Each is exactly one frame: its blocks end where
it ends. Each frame says itself how long it is unpacked, the same as the event says, and zstd refuses one that isn't.
So the run is as long as the events say in sum, and each has its place in it.

**No payload can be more or less than the rest of its transaction.** After each comes a GTID, which is refused within a
transaction. In it are only events that a transaction has, the last of which may end one.

Sources: RFC 8878, sections 3.1.1 (frames) and 3.1.1.2 (blocks); MySQL 9.7 source documentation, class
mysql::binlog::event::Transaction_payload_event.
"""

from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.binlog.event_buffer import Frames
from pipeline.binlog.event_type import Code
from pipeline.binlog.fast_path.events import is_sound
from pipeline.binlog.rows.row_events import ROW_EVENTS
from pipeline.types.buffers import Bytes, Int, Longs
from pipeline.types.byte_kernels import copy, unsigned
from pipeline.types.jit import compiled, inlined

# Few enough that a run that fails costs little, and enough that a run costs little for each payload.
_PAYLOADS: Final = 256
_ROOM: Final = 1 << 20  # bytes, unpacked
SMALL: Final = 1 << 16  # bytes, unpacked: what a payload in a run has at the most

_HEADER: Final = 19
_CODE, _SIZE, _PLACE = 4, 9, 13  # where these are in an event's header

_PAYLOAD_SIZE, _COMPRESSION, _UNCOMPRESSED_SIZE = 1, 2, 3
_ZSTD: Final = 0
_MAGIC: Final = 0xFD2FB528
_RAW, _RLE, _COMPRESSED = 0, 1, 2

_GTID: Final = int(Code.GTID)
_TAGGED_GTID: Final = int(Code.TAGGED_GTID)
_PAYLOAD: Final = int(Code.TRANSACTION_PAYLOAD)
_ROWS_QUERY: Final = int(Code.ROWS_QUERY)
_INSIDE: Final = np.isin(
    np.arange(256), [*ROW_EVENTS, Code.QUERY, Code.TABLE_MAP, Code.ROWS_QUERY, Code.XID, Code.XA_PREPARE]
)
_LAST: Final = np.isin(np.arange(256), [Code.XID, Code.QUERY, Code.XA_PREPARE])


class PayloadRun(NamedTuple):
    """The first `taken` events of the request, as events without checksums. An inner one has no position in the log.

    A payload's own position is in an event that says nothing else.
    """

    frames: Frames
    taken: int


def is_payload(frames: Frames, i: int) -> bool:
    """Whether the i-th event is a payload, as far as its header goes."""
    start, end = frames.bounds[i].tolist()
    return bool(end - start >= _HEADER and frames.buffer[start + _CODE] == _PAYLOAD)


def find_run(frames: Frames, first: int, checksum_bytes: int) -> PayloadRun | None:
    """The run that begins with the payload there; None if none does. Events have so many bytes of checksum."""
    bounds = frames.bounds[first : first + 2 * _PAYLOADS]
    packed = np.empty(bounds[-1, 1] - bounds[0, 0], np.uint8)
    sizes = np.empty(len(bounds), np.int64)
    count, packed_bytes, plain_bytes = _gather(frames.buffer, bounds, checksum_bytes, packed, sizes)
    if not count:
        return None
    try:
        unpacked = pa.decompress(packed[:packed_bytes], plain_bytes, codec="zstd")
    except OSError:  # one of them is damaged; the stream knows which
        return None
    plain = np.frombuffer(unpacked, np.uint8)
    gtids = bounds[1:count:2]
    outer_bytes = int((gtids[:, 1] - gtids[:, 0]).sum()) + (count - len(gtids)) * _HEADER
    laid = np.empty(plain_bytes + outer_bytes, np.uint8)
    laid_bounds = np.empty((plain_bytes // _HEADER + count, 2), np.int64)
    taken, events = _lay_out(frames.buffer, bounds[:count], checksum_bytes, sizes, plain, laid, laid_bounds)
    return PayloadRun(Frames(laid, laid_bounds[:events]), taken) if taken else None


@inlined
def _describe(buffer: Bytes, at: Int, end: Int) -> tuple[Int, Int]:
    """Returns where the data of the payload with this body begins, and its unpacked size.

    Both are -1 if it's encoded in any other way than the server's. That is three fields in any order, and the length of
    each is that of its value.
    """
    seen: Int = np.int64(0)
    size: Int = np.int64(-1)
    packed_size: Int = np.int64(-1)
    while at < end and buffer[at] != 0:
        number = np.int64(buffer[at])
        if number > _UNCOMPRESSED_SIZE or seen >> number & 1 or end - at < 3:
            return at, np.int64(-1)
        seen |= 1 << number
        length = np.int64(buffer[at + 1])
        value: Int = np.int64(buffer[at + 2])
        at += 3
        if length != (1 if value < 251 else 3 if value == 252 else 4 if value == 253 else -1):
            return at, np.int64(-1)
        if length > 1:
            if end - at < length - 1:
                return at, np.int64(-1)
            value = unsigned(buffer, at, length - 1)
            at += length - 1
        if number == _COMPRESSION and value != _ZSTD:
            return at, np.int64(-1)
        if number == _PAYLOAD_SIZE:
            packed_size = value
        if number == _UNCOMPRESSED_SIZE:
            size = value
    if seen != 0b1110 or at >= end or packed_size != end - at - 1:
        return at, np.int64(-1)
    return at + 1, size


@inlined
def _is_frame(buffer: Bytes, at: Int, end: Int, size: Int) -> bool:
    """Whether these bytes are one frame that says that it has this size, without a dictionary."""
    if end - at < 5 or unsigned(buffer, at, 4) != _MAGIC:
        return False
    descriptor = np.int64(buffer[at + 4])
    width, single = descriptor >> 6, descriptor >> 5 & 1
    if descriptor & 0b1011 or (width == 0 and not single):
        return False
    at += 6 - single
    if end - at < 1 << width:
        return False
    if unsigned(buffer, at, 1 << width) + (256 if width == 1 else 0) != size:
        return False
    at += 1 << width
    last: Int = np.int64(0)
    while not last:
        if end - at < 3:
            return False
        block = unsigned(buffer, at, 3)
        last, kind = block & 1, block >> 1 & 3
        if kind > _COMPRESSED:
            return False
        at += 3 + (1 if kind == _RLE else block >> 3)
    return bool(at + (4 if descriptor & 4 else 0) == end)


@compiled("UniTuple(int64, 3)(uint8[::1], int64[:, ::1], int64, uint8[::1], int64[::1])")
def _gather(
    buffer: Bytes, bounds: NDArray[np.int64], checksum_bytes: int, packed: Bytes, sizes: Longs
) -> tuple[int, Int, Int]:
    """Lay the run's frames end to end in `packed`; `sizes` takes each payload's, unpacked, and 0 for each GTID.

    Returns how many events are in the run, how many bytes in `packed`, and how many these are unpacked.
    """
    count, packed_bytes, plain_bytes = 0, np.int64(0), np.int64(0)
    for i in range(len(bounds)):
        start, end = bounds[i, 0], bounds[i, 1]
        if not is_sound(buffer, start, end, checksum_bytes):
            break
        code = np.int64(buffer[start + _CODE])
        if i % 2 == 1:
            if code not in (_GTID, _TAGGED_GTID):
                break
            sizes[i] = 0
            continue
        if code != _PAYLOAD:
            break
        end -= checksum_bytes
        data, size = _describe(buffer, start + _HEADER, end)
        if size <= 0 or size > SMALL or plain_bytes + size > _ROOM or not _is_frame(buffer, data, end, size):
            break
        copy(buffer, data, end - data, packed, packed_bytes)
        sizes[i] = size
        packed_bytes += end - data
        plain_bytes += size
        count = i + 1
    return count, packed_bytes, plain_bytes


@inlined
def _write(buffer: Bytes, at: Int, value: Int) -> None:
    for i in range(4):
        buffer[at + i] = value >> (8 * i) & 255


@inlined
def _lay_inner(
    plain: Bytes, at: Int, end: Int, laid: Bytes, to: Int, bounds: NDArray[np.int64], events: int
) -> int:
    """Lay out the events of plain[at:end], from `to` on. Returns how many there are then, -1 if that's no payload."""
    last = False
    while at < end:
        if end - at < _HEADER:
            return -1
        size = unsigned(plain, at + _SIZE, 4)
        if size < _HEADER or size > end - at or not _INSIDE[plain[at + _CODE]]:
            return -1
        copy(plain, at, size, laid, to)
        last = bool(_LAST[plain[at + _CODE]])
        _write(laid, to + _PLACE, 0)
        bounds[events, 0], bounds[events, 1] = to, to + size
        at, to, events = at + size, to + size, events + 1
    return events if last else -1


@compiled(
    "UniTuple(int64, 2)(uint8[::1], int64[:, ::1], int64, int64[::1], uint8[::1], uint8[::1], int64[:, ::1])"
)
def _lay_out(
    buffer: Bytes,
    bounds: NDArray[np.int64],
    checksum_bytes: int,
    sizes: Longs,
    plain: Bytes,
    laid: Bytes,
    laid_bounds: NDArray[np.int64],
) -> tuple[int, int]:
    """Lay out the run with these bounds. Returns how many of its events were taken, and how many that makes."""
    taken, whole = 0, 0
    at, to, events = np.int64(0), np.int64(0), 0
    for i in range(len(bounds)):
        # A GTID as it is, but its checksum; of a payload its header, as one of an event that says nothing.
        size = _HEADER if sizes[i] else bounds[i, 1] - bounds[i, 0] - checksum_bytes
        copy(buffer, bounds[i, 0], size, laid, to)
        _write(laid, to + _SIZE, size)
        laid_bounds[events, 0], laid_bounds[events, 1] = to, to + size
        to, events = to + size, events + 1
        if sizes[i]:
            laid[to - _HEADER + _CODE] = _ROWS_QUERY
            events = _lay_inner(plain, at, at + sizes[i], laid, to, laid_bounds, events)
            if events < 0:
                break
            at, to = at + sizes[i], to + sizes[i]
            taken, whole = i + 1, events
    return taken, whole
