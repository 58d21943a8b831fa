"""The packets in which a server sends its log: each payload is an OK byte and an event.

A packet has a head of 4 bytes: the length of what follows (3 bytes) and a number that rises by one. A payload longer
than 2²⁴ - 2 bytes comes in several packets, and all but the last have the full length 2²⁴ - 1. These are joined in
place: each is moved to the left over its own head.

**No access outside of the buffer.** `_whole` reads a head only if its 4 bytes have arrived, and a payload only if as
many bytes as its head says have.

Source: MySQL 9.7 source documentation, "MySQL Packets", "COM_BINLOG_DUMP_GTID", "ERR_Packet".
"""

import re
from collections import deque
from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pipeline.binlog.event_buffer import Frames, Inflow
from pipeline.binlog.transaction_ids import UnnamedTransaction
from pipeline.errors import NEW_JOURNAL, Definite, Transient
from pipeline.types.buffers import Bytes, Int
from pipeline.types.byte_kernels import copy, unsigned
from pipeline.types.jit import compiled, inlined

_LENGTH: Final = 3
_HEAD: Final = 4
_FULL: Final = 2**24 - 1
_AT_ONCE: Final = 16_384  # events

# Why there are no more frames at present.
_MORE: Final = 0  # the next payload isn't whole yet, or there was room for no more
_LOST: Final = 1  # the next packet has another number
_ENDED: Final = 2  # the next payload isn't OK and an event

_OK: Final = 0
_ERROR: Final = 255
_ERROR_HEAD: Final = 9  # that byte, the error's number (2 bytes), and its SQL state (6 bytes)
_FATAL: Final = 1236  # ER_SOURCE_FATAL_ERROR_READING_BINLOG: it can't send this log, now or later
# But if its log was purged or reset since capture looked at it, `pipeline.source.failover` decides again what follows.
_DECIDED_ELSEWHERE: Final = re.compile(
    r"purged required binary logs|purged binary logs|find first log file name|find next log|more GTIDs than"
)

# Another replica of our name, which says nothing of the log.
_SAME_REPLICA: Final = "same server_uuid/server_id"

# What the server says of a transaction without a GTID.
_UNNAMED: Final = "anonymous transaction"

# A place that the log hasn't, which a position without GTIDs may name.
_BEYOND: Final = "position > file size"

# Its dump thread takes 1 GiB, the most that the setting can be, so that raising it changes nothing.
_TOO_LARGE: Final = "exceeded max_allowed_packet"

# What the server's own words leave open.
_REMEDIES: Final = {
    _BEYOND: f"; its log was reset (RESET MASTER), or the server lost the end of it: {NEW_JOURNAL}",
    _TOO_LARGE: (
        "; no server sends an event of more than 1 GiB, whatever max_allowed_packet is: set "
        "binlog_transaction_compression = ON at the source, so that its log has such rows compressed, or keep them "
        f"smaller; its log has this event as it is, so then {NEW_JOURNAL}"
    ),
    _SAME_REPLICA: "; another process captures with a copy of this journal: stop one of them",
    _UNNAMED: "; a change without a GTID was committed: set gtid_mode = ON, and start Tidemark again",
}


@inlined
def _whole(buffer: Bytes, at: Int, end: Int, number: Int) -> tuple[Int, int, Int]:
    """Looks at the packets from `at` on that make one payload.

    Returns where they end (-1 if they aren't all there), and how many were looked at. The last value is the number of
    one that isn't the next one (-1 if they all are).
    """
    packets = 0
    while end - at >= _HEAD:
        if np.int64(buffer[at + 3]) != (number + packets) % 256:
            return -1, packets, np.int64(buffer[at + 3])
        length = unsigned(buffer, at, _LENGTH)
        at += _HEAD + length
        packets += 1
        if at > end:
            break
        if length < _FULL:
            return at, packets, -1
    return -1, packets, -1


@inlined
def _join(buffer: Bytes, at: Int, packets: Int) -> Int:
    """Lays the payloads of the packets end to end after the first one's head; returns where that ends."""
    to = at + _HEAD + _FULL
    at = to
    for _ in range(packets - 1):
        length = unsigned(buffer, at, _LENGTH)
        at += _HEAD
        copy(buffer, at, length, buffer, to)
        to += length
        at += length
    return to


@compiled("UniTuple(int64, 4)(uint8[::1], int64, int64, int64, int64[:, ::1])")
def _find_frames(
    buffer: Bytes, at: Int, end: Int, number: Int, bounds: NDArray[np.int64]
) -> tuple[int, Int, Int, int]:
    """Find the events in the payloads that are whole in buffer[at:end]; `number` is the first packet's.

    Returns why it ended, where the first packet begins that isn't framed, its number, and how many events there are.
    After their bounds come, for _LOST, the number of the next packet and the one that it had, for _ENDED the bounds
    of the payload.
    """
    count = 0
    while count < len(bounds):
        behind, packets, wrong = _whole(buffer, at, end, number)
        if wrong >= 0:
            bounds[count, 0], bounds[count, 1] = (number + packets) % 256, wrong
            return _LOST, at, number, count
        if behind < 0:
            break
        first, last = at + _HEAD, behind
        if first == last or buffer[first] != _OK:
            bounds[count, 0], bounds[count, 1] = first, last
            return _ENDED, at, number, count
        if packets > 1:
            last = _join(buffer, at, packets)
        bounds[count, 0], bounds[count, 1] = first + 1, last
        at, number, count = behind, (number + packets) % 256, count + 1
    return _MORE, at, number, count


class LogRefused(Definite):
    """The server can't send its log from the place on that it has come to."""


class Packets(Inflow):
    """What the server has sent; `number` is that of the first packet to come."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number
        self._bounds = np.empty((_AT_ONCE, 2), np.int64)
        self._left: deque[Frames] = deque()

    def leave(self, frames: Iterable[Frames]) -> None:
        """Give these events, the last ones that were given, once more before others; ask for no room until then."""
        self._left.extend(frames)

    def frames(self) -> Frames | None:
        """Returns the next complete events, as many as are handled at once; None if there are none.

        Raises Transient if a packet isn't the next one (the connection lost something) or the server ended the stream
        for now, Definite if it can't continue: UnnamedTransaction at a transaction without a GTID, LogRefused where its
        log is at fault.
        """
        if self._left:
            return self._left.popleft()
        status, start, number, count = _find_frames(
            self.bytes, self.start, self.end, self._number, self._bounds
        )
        self.start, self._number = int(start), int(number)
        if count:  # an error after them is found again
            return Frames(self.bytes, self._bounds[:count])
        if status == _LOST:
            expected, had = self._bounds[0]
            raise Transient(f"packet {expected} of the stream had the number {had}")
        if status == _ENDED:
            first, last = self._bounds[0]
            raise _end_error(self.bytes[first:last].tobytes())
        return None


def _end_error(payload: bytes) -> Transient | Definite:
    if payload[:1] != bytes([_ERROR]):
        return Transient("the source ended the stream of its log")
    code, text = int.from_bytes(payload[1:3], "little"), payload[_ERROR_HEAD:].decode(errors="replace")
    told = f"{text} (error {code} of the source, which gave its log)"
    if code == _FATAL:
        told += "".join(remedy for words, remedy in _REMEDIES.items() if words in text)
    if code == _FATAL and _UNNAMED in text:
        return UnnamedTransaction(told)
    if code != _FATAL or _DECIDED_ELSEWHERE.search(text):
        return Transient(told)
    return Definite(told) if _SAME_REPLICA in text else LogRefused(told)
