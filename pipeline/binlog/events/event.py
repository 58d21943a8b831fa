"""The binlog's events, parsed from their bytes. Only rows stay bytes here (`row_events` decodes them).

An event is a header of 19 bytes, a body, and, if the log has checksums, the CRC32 of both. This module reads what the
stream needs: which transaction begins, which ends, the position of the log, the description of a table. Any other event
becomes `Skipped`, but only if it is known to be harmless. Its kind says so, or a flag of the server. Everything else is
an error: nothing is dropped silently.

Sources: MySQL 9.7 source documentation, namespace mysql::binlog::event (log format v4); WL#2540 (checksums); WL#7083
and WL#7846 for the GTID event's commit timestamps.
"""

import struct
import zlib
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from pipeline.binlog.event_type import Code
from pipeline.binlog.events.gtid_event import TransactionBegins, anonymous, gtid, tagged_gtid
from pipeline.binlog.events.payload_event import Payload, payload
from pipeline.binlog.events.query_event import Query, load_query, query
from pipeline.binlog.rows.row_events import ROW_EVENTS
from pipeline.errors import UndecodableError
from pipeline.gtid.gtid_set import GtidSet, MalformedGtid
from pipeline.types.cursor import Cursor, utf8

HEADER_BYTES: Final = 19
CHECKSUM_BYTES: Final = 4

_HEADER: Final = struct.Struct("<IBIIIH")
_TABLE_ID_BYTES: Final = 6
# With one length for each kind of event up to the GTID's, and with the checksums' algorithm.
_SHORTEST_DESCRIPTION: Final = HEADER_BYTES + 57 + Code.GTID + 1 + CHECKSUM_BYTES
_IGNORABLE: Final = 0x80
_LARGEST_OFFSET: Final = 2**62  # far beyond all files, and far from what 64 bits hold


_NAMES: Final = {code.value: code.name for code in Code}

# What changes neither rows nor our position. The values that a statement uses (INTVAR, RAND, USER_VAR, the blocks of a
# LOAD DATA) are followed by the statement itself, and that is where the decision is made.
_SKIPPED: Final = frozenset(
    {
        Code.INTVAR,
        Code.APPEND_BLOCK,
        Code.DELETE_FILE,
        Code.RAND,
        Code.USER_VAR,
        Code.BEGIN_LOAD_QUERY,
        Code.IGNORABLE,
        Code.TRANSACTION_CONTEXT,
        Code.VIEW_CHANGE,
    }
)


class Header(NamedTuple):
    """An event's header. `time`: seconds since the epoch. `size`: bytes of the complete event.

    `end`: the offset after the event in its file, its lowest 32 bits; 0 if the event isn't in the file.
    """

    time: int
    code: int
    server_id: int
    size: int
    end: int
    flags: int


@dataclass(frozen=True, slots=True)
class FormatDescription:
    """The format of the next events: with a CRC32 or without."""

    checksum: bool


@dataclass(frozen=True, slots=True)
class Rotate:
    """The log continues in this file, at this offset."""

    file: str
    offset: int


@dataclass(frozen=True, slots=True)
class PreviousGtids:
    """All that the server had logged before this file (PREVIOUS_GTIDS)."""

    gtids: GtidSet


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The log has nothing more at present. `offset` is None where the header says it (the older form)."""

    file: str
    offset: int | None


@dataclass(frozen=True, slots=True)
class Xid:
    """The commit of a transaction of a transactional engine."""


@dataclass(frozen=True, slots=True)
class XaPrepare:
    """The end of an XA transaction's first phase, or of both at once; `xid` as `as_prepared` spells it."""

    xid: str
    one_phase: bool


@dataclass(frozen=True, slots=True)
class TableMapped:
    """The next rows events with this table id are of the table that `body` describes (`table_map_event`)."""

    table_id: int
    body: bytes


@dataclass(frozen=True, slots=True)
class RowsChanged:
    """Row images, still as bytes: the event without its header and its checksum, as `row_events.locate_images` takes
    it."""

    table_id: int
    code: int
    body: bytes


@dataclass(frozen=True, slots=True)
class RowsStatement:
    """The text of the statement whose rows come next, in the client's character set."""

    text: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class StatementLoaded:
    """LOAD DATA as a statement (EXECUTE_LOAD_QUERY); `updated`: as of `Query`."""

    updated: frozenset[str] | None


@dataclass(frozen=True, slots=True)
class Stop:
    """The server was shut down here; the next file follows."""


@dataclass(frozen=True, slots=True)
class Incident:
    """The log lacks changes from here on: the server couldn't write them (LOST_EVENTS); `why` is its own word."""

    why: str


@dataclass(frozen=True, slots=True)
class Skipped:
    """An event that changes no row and no position."""


Event = (
    FormatDescription
    | Rotate
    | PreviousGtids
    | Heartbeat
    | TransactionBegins
    | Query
    | Xid
    | XaPrepare
    | TableMapped
    | RowsChanged
    | RowsStatement
    | Payload
    | StatementLoaded
    | Stop
    | Incident
    | Skipped
)


_XID: Final = Xid()


def header(event: bytes) -> Header:
    """The header of an event. Raises UndecodableError where the event isn't as long as its header says."""
    if len(event) < HEADER_BYTES:
        raise UndecodableError(f"an event of {len(event)} bytes is shorter than its header")
    head = Header._make(_HEADER.unpack_from(event))
    if head.size != len(event):
        raise UndecodableError(
            f"an event of type {head.code} has {len(event)} bytes, and its header says {head.size}"
        )
    return head


def parse_event(head: Header, event: bytes, *, checksum: bool) -> Event:
    """What the event with this header says; `checksum` is that of the last format description.

    Raises UndecodableError: damaged, unknown, or of a kind that can't be followed (the text says what to set).
    """
    if head.code == Code.FORMAT_DESCRIPTION:
        return _format_description(event)
    body = _body(event) if checksum else event[HEADER_BYTES:]
    try:
        return _parse(head, body)
    except UndecodableError as error:
        raise UndecodableError(f"{_NAMES.get(head.code, f'type {head.code}')}: {error}") from error


def _parse(head: Header, body: bytes) -> Event:
    # In the order of how often they come.
    match head.code:
        case Code.TABLE_MAP:
            return TableMapped(_table_id(body), body)
        case code if code in ROW_EVENTS:
            return RowsChanged(_table_id(body), code, body)
        case Code.GTID:
            return gtid(body, head.time)
        case Code.QUERY:
            return query(body, head.flags)
        case Code.XID:
            return _XID
        case Code.TAGGED_GTID:
            return tagged_gtid(body)
        case Code.ANONYMOUS_GTID:
            return anonymous(body, head.time)
        case _:
            return _rare(head, body)


def _rare(head: Header, body: bytes) -> Event:
    match head.code:
        case Code.HEARTBEAT:
            return Heartbeat(utf8(body), None)
        case Code.HEARTBEAT_V2:
            return _heartbeat_v2(body)
        case Code.ROTATE:
            cursor = Cursor(body)
            return Rotate(offset=_offset(cursor.integer(8)), file=utf8(cursor.rest()))
        case Code.PREVIOUS_GTIDS:
            return _previous_gtids(body)
        case Code.XA_PREPARE:
            return _xa_prepare(body)
        case Code.STOP:
            return Stop()
        case Code.ROWS_QUERY:
            return RowsStatement(body[1:])  # after a byte of its length, which can't hold it
        case Code.EXECUTE_LOAD_QUERY:
            return StatementLoaded(load_query(body).updated)
        case Code.TRANSACTION_PAYLOAD:
            return payload(body)
        case Code.INCIDENT:
            return _incident(body)
        case code if code in _SKIPPED or head.flags & _IGNORABLE:
            return Skipped()
        case _:
            raise UndecodableError("this kind of event isn't known, and it isn't marked as ignorable")


def _body(event: bytes) -> bytes:
    end = len(event) - CHECKSUM_BYTES
    if end < HEADER_BYTES:
        raise UndecodableError(f"an event of {len(event)} bytes has no room for its checksum")
    written = int.from_bytes(event[end:], "little")
    computed = zlib.crc32(memoryview(event)[:end])
    if written != computed:
        raise UndecodableError(
            f"an event of type {event[4]} is damaged: its CRC32 is {computed:#010x}, and {written:#010x} is written"
        )
    return event[HEADER_BYTES:end]


def _format_description(event: bytes) -> FormatDescription:
    """Parses the one event that always has room for a checksum, and that says whether the others have one.

    If they have none, that room means nothing: before MySQL 8.0 a server changes the next event as it sends it.
    """
    if len(event) < _SHORTEST_DESCRIPTION:
        raise UndecodableError(
            "FORMAT_DESCRIPTION: the log of a server before MySQL 5.6.5 is too old to be read"
        )
    unchecked = event[-CHECKSUM_BYTES - 1] == 0
    cursor = Cursor(event[HEADER_BYTES:-CHECKSUM_BYTES] if unchecked else _body(event))
    version = cursor.integer(2)
    if version != 4:
        raise UndecodableError(f"FORMAT_DESCRIPTION: the log's format is {version}, and only 4 is read")
    server_version = utf8(cursor.take(50).rstrip(b"\0"))
    cursor.take(4)  # when it was created
    header_bytes = cursor.integer(1)
    lengths = cursor.rest()
    if header_bytes != HEADER_BYTES or not lengths:
        raise UndecodableError(f"FORMAT_DESCRIPTION: headers have {header_bytes} bytes, and 19 are read")
    *post_header_bytes, algorithm = lengths
    if algorithm not in (0, 1):
        raise UndecodableError(f"FORMAT_DESCRIPTION: there is no checksum algorithm {algorithm}")
    if post_header_bytes[Code.TABLE_MAP - 1 : Code.TABLE_MAP] != [8]:
        raise UndecodableError(
            f"FORMAT_DESCRIPTION: the log of a server {server_version} is too old to be read"
        )
    return FormatDescription(checksum=algorithm == 1)


def _heartbeat_v2(body: bytes) -> Heartbeat:
    """Fields, each with its number and its length before it: 1 the file's name, 2 the offset, 0 ends them."""
    cursor = Cursor(body)
    file, offset = None, None
    while cursor.left and (field := cursor.packed()):
        value = cursor.packed_bytes()
        if field == 1:
            file = utf8(value)
        elif field == 2:
            offset = _offset(Cursor(value).packed())
    if file is None or offset is None:
        raise UndecodableError("it doesn't name the log's position")
    return Heartbeat(file, offset)


def _offset(written: int) -> int:
    if written > _LARGEST_OFFSET:
        raise UndecodableError(f"no file has an offset {written}")
    return written


def _previous_gtids(body: bytes) -> PreviousGtids:
    try:
        return PreviousGtids(GtidSet.decode(body))
    except MalformedGtid as error:
        raise UndecodableError(str(error)) from error


def _xa_prepare(body: bytes) -> XaPrepare:
    cursor = Cursor(body)
    one_phase = cursor.integer(1) != 0
    format_id, global_bytes, branch_bytes = cursor.integer(4), cursor.integer(4), cursor.integer(4)
    global_id, branch_id = cursor.take(global_bytes), cursor.take(branch_bytes)
    xid = f"X'{global_id.hex()}',X'{branch_id.hex()}',{format_id}"
    return XaPrepare(xid, one_phase)


def as_prepared(xid: str) -> str:
    """The XA identifier of a statement as its XA_PREPARE event has it: with 32 of its format's 64 bits."""
    names, _, format_id = xid.rpartition(",")
    return f"{names},{int(format_id) % 2**32}" if format_id.isdecimal() else xid


def _incident(body: bytes) -> Incident:
    cursor = Cursor(body)
    cursor.integer(2)  # its kind, of which there's one
    return Incident(utf8(cursor.take(cursor.integer(1))))


def _table_id(body: bytes) -> int:
    if len(body) < _TABLE_ID_BYTES:
        raise UndecodableError("it has no table id")
    return int.from_bytes(body[:_TABLE_ID_BYTES], "little")
