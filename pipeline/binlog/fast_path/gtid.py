"""The beginning of a transaction in compiled code: a GTID event, with a tag or without, of a source that is known.

The same makes an event unusual for both. It isn't between two transactions, its bytes aren't what `gtid_event` reads,
its numbers are none that can be, or its source is new. Then it's left to the fold.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from pipeline.binlog.stream_state import BEGUN, BETWEEN, DONE, RARE, Record
from pipeline.gtid.gtid_set import LARGEST_NUMBER
from pipeline.types.buffers import Bytes, Int
from pipeline.types.byte_kernels import bytes_equal, unsigned
from pipeline.types.jit import inlined

_HEADER: Final = 19
_UUID: Final = 16
_GTID_BYTES: Final = 25  # flags, UUID, number
_TIME_AT: Final = _GTID_BYTES + 1 + 16
_TIME_BYTES: Final = 7
_ORIGINAL_FOLLOWS: Final = 1 << 55
_LOGICAL_CLOCK: Final = 2
_LARGEST_TIME: Final = 2**55 - 1

Encoded = NDArray[np.uint8]  # of `registries.Sources`: of each source its UUID, its tag's length, its tag


@inlined
def begin(buffer: Bytes, at: Int, end: Int, state: Record, sources: Encoded) -> int:
    """A GTID event's body; see `gtid_event.gtid`."""
    if state.phase != BETWEEN or end - at < _GTID_BYTES:
        return RARE
    source = _source(buffer, at + 1, sources, state.source)
    number = unsigned(buffer, at + 1 + _UUID, 8)
    if source < 0 or not 1 <= number <= LARGEST_NUMBER:
        return RARE
    commit_time: Int = unsigned(buffer, at - _HEADER, 4) * 1_000_000
    original_time: Int = np.int64(0)
    times = at + _TIME_AT
    if end - times >= _TIME_BYTES and buffer[at + _GTID_BYTES] == _LOGICAL_CLOCK:
        commit_time = unsigned(buffer, times, _TIME_BYTES) & ~_ORIGINAL_FOLLOWS
        original_time = commit_time
        if unsigned(buffer, times, _TIME_BYTES) & _ORIGINAL_FOLLOWS:
            if end - times < 2 * _TIME_BYTES:
                return RARE
            original_time = unsigned(buffer, times + _TIME_BYTES, _TIME_BYTES)
    state.phase = BEGUN
    state.thread, state.statement = -1, -1
    state.source, state.number = source, number
    state.commit_time, state.original_time = commit_time, original_time
    return DONE


@inlined
def _source(buffer: Bytes, at: Int, sources: Encoded, last: Int) -> Int:
    """The number of the source with this UUID and no tag, or -1; most often it's that of the last one."""
    for i in range(-1, len(sources)):
        number = last if i < 0 else i
        untagged = number < len(sources) and sources[number, _UUID] == 0
        if untagged and bytes_equal(buffer, at, sources[number], 0, _UUID):
            return number
    return -1


@inlined
def begin_tagged(buffer: Bytes, at: Int, end: Int, state: Record, sources: Encoded) -> int:
    """A tagged GTID event's body; see `gtid_event.tagged_gtid`. Its fields have the numbers 0 to 7."""
    if state.phase != BETWEEN:
        return RARE
    version, here = _variable(buffer, at, end)
    size, here = _variable(buffer, here, end)
    _last_needed, here = _variable(buffer, here, end)
    _flags, here = _field(buffer, here, end, 0)
    uuid = _field_begin(buffer, here, end, 1)
    here = uuid
    for _ in range(_UUID):
        _byte, here = _variable(buffer, here, end)
    number, here = _field(buffer, here, end, 2)
    length, tag = _field(buffer, here, end, 3)
    here = tag + length if tag >= 0 and length <= end - tag else -1
    _last_committed, here = _field(buffer, here, end, 4)
    _sequence, here = _field(buffer, here, end, 5)
    commit_time, here = _field(buffer, here, end, 6)
    if here < 0 or version != 1 or size != end - at or commit_time > _LARGEST_TIME:
        return RARE
    original_time = commit_time  # unless the next field says so
    if here < end:
        field, here = _variable(buffer, here, end)
        if field == 7:
            original_time, here = _variable(buffer, here, end)
        if here < 0 or original_time > _LARGEST_TIME:
            return RARE
    source = _tagged_source(buffer, uuid, tag, length, sources, state.source)
    if source < 0 or number & 1 or not 1 <= number >> 1 <= LARGEST_NUMBER:  # its lowest bit is its sign
        return RARE
    state.phase = BEGUN
    state.thread, state.statement = -1, -1
    state.source, state.number = source, number >> 1
    state.commit_time, state.original_time = commit_time, original_time
    return DONE


@inlined
def _tagged_source(buffer: Bytes, uuid: Int, tag: Int, length: Int, sources: Encoded, last: Int) -> Int:
    """The number of the source with this tag and this UUID, whose bytes are integers of variable length, or -1."""
    for i in range(-1, len(sources)):
        number = last if i < 0 else i
        as_long = number < len(sources) and sources[number, _UUID] == length
        same_tag = as_long and bytes_equal(buffer, tag, sources[number], _UUID + 1, length)
        if same_tag and _same_uuid(buffer, uuid, sources[number]):
            return number
    return -1


@inlined
def _same_uuid(buffer: Bytes, at: Int, source: Bytes) -> bool:
    for i in range(_UUID):
        byte, at = _variable(buffer, at, len(buffer))
        if byte != source[i]:
            return False
    return True


@inlined
def _field(buffer: Bytes, at: Int, end: Int, number: Int) -> tuple[Int, Int]:
    """The integer of the field with this number, as `_variable`."""
    return _variable(buffer, _field_begin(buffer, at, end, number), end)


@inlined
def _field_begin(buffer: Bytes, at: Int, end: Int, number: Int) -> Int:
    """Returns where the field with this number begins, after the number; -1 if it isn't there."""
    found, behind = _variable(buffer, at, end)
    return behind if found == number else np.int64(-1)


@inlined
def _variable(buffer: Bytes, at: Int, end: Int) -> tuple[Int, Int]:
    """An unsigned integer of variable length (`Cursor.variable`), and where it ends.

    That's -1 if it isn't all there, if it has more than 63 bits, or if `at` is -1 already.
    """
    if at < 0 or at >= end:
        return np.int64(0), np.int64(-1)
    first, further = np.int64(buffer[at]), np.int64(0)
    while further < 8 and first >> further & 1:
        further += 1
    behind = at + 1 + further
    if behind > end:
        return np.int64(0), np.int64(-1)
    value = unsigned(buffer, at + 1, further)
    if further < 8:
        value = first >> (further + 1) | value << (7 - further)
    return value, behind if value >= 0 else np.int64(-1)
