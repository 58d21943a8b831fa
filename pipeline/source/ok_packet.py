"""What an OK packet says of the session: the GTIDs of what it has committed.

A server adds that for a client which declared the capability CLIENT_SESSION_TRACK, in a session with
`session_track_gtids = OWN_GTID`.

Source: MySQL 9.7 source documentation, "OK_Packet"; the server's `net_send_ok` and `Session_gtids_tracker::store`.
"""

import struct
from typing import Final

from pipeline.errors import UndecodableError
from pipeline.gtid.gtid_set import GtidSet

_SESSION_STATE_CHANGED: Final = 0x4000
_GTIDS: Final = 3
_WIDTHS: Final = {0xFC: 2, 0xFD: 3, 0xFE: 8}


def committed_gtids(packet: bytes) -> GtidSet:
    """The transactions that an OK packet reports; empty if none. Raises UndecodableError."""
    try:
        _, at = _integer(packet, 1)  # rows affected
        _, at = _integer(packet, at)  # the last id inserted
        status, _ = struct.unpack_from("<HH", packet, at)
        if not status & _SESSION_STATE_CHANGED:
            return GtidSet()
        _, at = _text(packet, at + 4)  # information for people
        changes, _ = _text(packet, at)
        found, at = GtidSet(), 0
        while at < len(changes):
            kind = changes[at]
            change, at = _text(changes, at + 1)
            if kind == _GTIDS:
                _, begin = _integer(change, 0)  # how they are encoded: as text
                found |= GtidSet.parse(_text(change, begin)[0].decode("ascii"))
    except (IndexError, struct.error, ValueError) as error:
        raise UndecodableError(f"an OK packet of {len(packet)} bytes is damaged: {error}") from error
    return found


def _integer(data: bytes, at: int) -> tuple[int, int]:
    """A length-encoded integer, and where it ends."""
    first = data[at]
    if first not in _WIDTHS:
        return first, at + 1
    end = at + 1 + _WIDTHS[first]
    if end > len(data):
        raise IndexError(f"a number ends at {end}")
    return int.from_bytes(data[at + 1 : end], "little"), end


def _text(data: bytes, at: int) -> tuple[bytes, int]:
    """A length-encoded string, and where it ends."""
    length, begin = _integer(data, at)
    if begin + length > len(data):
        raise IndexError(f"a text ends at {begin + length}")
    return data[begin : begin + length], begin + length
