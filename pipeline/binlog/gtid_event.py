"""The two events that begin a transaction: GTID, and since MySQL 8.3 the one of GTIDs with a tag.

Sources: MySQL 9.7 source documentation, class mysql::binlog::event::Gtid_event, and the page "MySQL Serialization
Library" for the format of the tagged one; WL#15294 (tags).
"""

from dataclasses import dataclass
from typing import Final

from pipeline.binlog.cursor import Cursor
from pipeline.binlog.errors import UndecodableError
from pipeline.gtid import Gtid, Source

_LOGICAL_CLOCK: Final = 2
_LOGICAL_CLOCK_BYTES: Final = 16
_COMMIT_TIME_BYTES: Final = 7

_SERIALIZATION: Final = 1

# The fields of a tagged GTID's message, by the numbers under which they're written.
_FLAGS, _UUID, _NUMBER, _TAG, _LAST_COMMITTED, _SEQUENCE, _COMMIT_TIME = range(7)


@dataclass(frozen=True, slots=True)
class TransactionBegins:
    """A transaction begins; `commit_time`, in µs since the epoch, is that on the server that wrote this log."""

    gtid: Gtid
    commit_time: int


def gtid(body: bytes, header_time: int) -> TransactionBegins:
    """The GTID event with this body; without a commit time (before MySQL 8.0.1) it's the header's, in whole seconds.

    Flags, the source's UUID, the number; then a logical clock, and the commit time in 55 bits, whose next bit says
    that the time on the transaction's first server follows. What follows further isn't needed. Raises
    UndecodableError.
    """
    cursor = Cursor(body)
    cursor.take(1)
    source = Source.from_bytes(cursor.take(16))
    number = cursor.integer(8)
    commit_time = header_time * 1_000_000
    if cursor.left > _LOGICAL_CLOCK_BYTES + _COMMIT_TIME_BYTES and cursor.integer(1) == _LOGICAL_CLOCK:
        cursor.take(_LOGICAL_CLOCK_BYTES)
        commit_time = cursor.integer(_COMMIT_TIME_BYTES) & ~(1 << 55)
    return TransactionBegins(Gtid(source, number), commit_time)


def tagged_gtid(body: bytes) -> TransactionBegins:
    """The tagged GTID event with this body. Raises UndecodableError.

    It is one message: the serialization's version, the message's size (counted from the version on), the number of
    the last field that mustn't be ignored, and the fields in order, each behind its number. The UUID's bytes are
    written one by one as integers of variable length.
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
    return TransactionBegins(Gtid(Source.from_bytes(uuid, tag), number), commit_time)


def _field(cursor: Cursor, expected: int) -> None:
    number = cursor.variable()
    if number != expected:
        raise UndecodableError(f"it has field {number} where field {expected} has to be")


def _byte(cursor: Cursor) -> int:
    value = cursor.variable()
    if value > 255:
        raise UndecodableError(f"a byte of the source's UUID is {value}")
    return value
