"""The events that begin a transaction: GTID, since MySQL 8.3 the one of GTIDs with a tag, and the one without a GTID.

Sources: MySQL 9.7 source documentation, class mysql::binlog::event::Gtid_event, and the page "MySQL Serialization
Library" for the format of the tagged one; WL#15294 (tags).
"""

import struct
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from pipeline.errors import UndecodableError
from pipeline.gtid.gtid_set import Gtid, Tsid
from pipeline.types.cursor import Cursor

_LOGICAL_CLOCK: Final = 2

# Flags, the source's UUID and the number; then the logical clock, its kind first; then the time, in 7 bytes.
_GTID: Final = struct.Struct("<B16sQ")
_TIME_AT: Final = _GTID.size + 1 + 16
_TIME_BYTES: Final = 7
_TIME_END: Final = _TIME_AT + _TIME_BYTES
_ORIGINAL_FOLLOWS: Final = 1 << 55

_LARGEST_TIME: Final = 2**55 - 1  # the event without a tag has as many bits for it

_SERIALIZATION: Final = 1

# The fields of a tagged GTID's message, by the numbers under which they're written.
_FLAGS, _UUID, _NUMBER, _TAG, _LAST_COMMITTED, _SEQUENCE, _COMMIT_TIME, _ORIGINAL_TIME = range(8)


@dataclass(frozen=True, slots=True)
class TransactionBegins:
    """A transaction begins; `commit_time`, in µs since the epoch, is that on the server that wrote this log.

    `original_time` is that on the server on which it was committed first; 0 if the log doesn't have it.
    """

    gtid: Gtid | None
    commit_time: int
    original_time: int = 0


def gtid(body: bytes, header_time: int) -> TransactionBegins:
    """The GTID event with this body; without a commit time (before MySQL 8.0.1) it's the header's, in whole seconds.

    It has flags, the source's UUID, the number, a logical clock, and the commit time in 55 bits. The next bit says that
    the time on the transaction's first server follows. What comes after that isn't needed. Raises UndecodableError.
    """
    if len(body) < _GTID.size:
        raise UndecodableError("its bytes end before the GTID does")
    _flags, sid, number = _GTID.unpack_from(body)
    return TransactionBegins(Gtid(_source(sid, ""), number), *_times(body, header_time))


def anonymous(body: bytes, header_time: int) -> TransactionBegins:
    """The ANONYMOUS_GTID event with this body, which is that of a GTID event with nothing in the GTID's place."""
    return TransactionBegins(None, *_times(body, header_time))


def _times(body: bytes, header_time: int) -> tuple[int, int]:
    """When it was committed on the server that wrote the log, and on its first one."""
    if len(body) < _TIME_END or body[_GTID.size] != _LOGICAL_CLOCK:
        return header_time * 1_000_000, 0
    time = int.from_bytes(body[_TIME_AT:_TIME_END], "little")
    if not time & _ORIGINAL_FOLLOWS:
        return time, time
    original = int.from_bytes(body[_TIME_END : _TIME_END + _TIME_BYTES], "little")
    return time & ~_ORIGINAL_FOLLOWS, original


def tagged_gtid(body: bytes) -> TransactionBegins:
    """Parses the tagged GTID event with this body. Raises UndecodableError.

    It is one message. It begins with the serialization's version, the message's size (counted from the version), and
    the number of the last field that mustn't be ignored. Then come the fields in order, each after its number. The
    UUID's bytes are written one by one as integers of variable length.
    """
    cursor = Cursor(body)
    version, size, _last_needed = cursor.variable(), cursor.variable(), cursor.variable()
    if version != _SERIALIZATION or size != len(body):
        raise UndecodableError(f"it is a message of version {version} and {size} bytes, and has {len(body)}")
    _field(cursor, _FLAGS)
    cursor.variable()
    _field(cursor, _UUID)
    uuid = bytes(_byte(cursor) for _ in range(16))
    _field(cursor, _NUMBER)
    number = cursor.variable_signed()
    _field(cursor, _TAG)
    tag = cursor.text(cursor.variable())
    _field(cursor, _LAST_COMMITTED)
    cursor.variable_signed()
    _field(cursor, _SEQUENCE)
    cursor.variable_signed()
    _field(cursor, _COMMIT_TIME)
    commit_time = cursor.variable()
    original_time = commit_time  # unless the next field says so
    if cursor.left and cursor.variable() == _ORIGINAL_TIME:
        original_time = cursor.variable()
    if max(commit_time, original_time) > _LARGEST_TIME:
        raise UndecodableError(f"its commit times are {commit_time} and {original_time} µs since the epoch")
    return TransactionBegins(Gtid(_source(uuid, tag), number), commit_time, original_time)


@lru_cache(maxsize=1024)
def _source(sid: bytes, tag: str) -> Tsid:
    """There are few of them, and each transaction has one."""
    return Tsid.from_bytes(sid, tag)


def _field(cursor: Cursor, expected: int) -> None:
    number = cursor.variable()
    if number != expected:
        raise UndecodableError(f"it has field {number} where field {expected} has to be")


def _byte(cursor: Cursor) -> int:
    value = cursor.variable()
    if value > 255:
        raise UndecodableError(f"a byte of the source's UUID is {value}")
    return value
