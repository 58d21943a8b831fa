"""What an OK packet says of the session: the GTIDs of what it has committed.

A server adds that for a client which declared the capability CLIENT_SESSION_TRACK, in a session with
`session_track_gtids = OWN_GTID`.

Source: MySQL 9.7 source documentation, "OK_Packet"; the server's `net_send_ok` and `Session_gtids_tracker::store`.
"""

from typing import Final

from pipeline.errors import UndecodableError
from pipeline.gtid.gtid_set import GtidSet
from pipeline.types.cursor import Cursor

_SESSION_STATE_CHANGED: Final = 0x4000
_GTIDS: Final = 3


def committed_gtids(packet: bytes) -> GtidSet:
    """The transactions that an OK packet reports; empty if none. Raises UndecodableError."""
    try:
        return _committed(Cursor(packet, 1))
    except (UndecodableError, ValueError) as error:
        raise UndecodableError(f"an OK packet of {len(packet)} bytes is damaged: {error}") from error


def _committed(packet: Cursor) -> GtidSet:
    packet.packed()  # rows affected
    packet.packed()  # the last id inserted
    status, _ = packet.integer(2), packet.integer(2)  # and the number of warnings
    if not status & _SESSION_STATE_CHANGED:
        return GtidSet()
    packet.packed_bytes()  # information for people
    changes, found = Cursor(packet.packed_bytes()), GtidSet()
    while changes.left:
        kind, change = changes.integer(1), Cursor(changes.packed_bytes())
        if kind == _GTIDS:
            change.packed()  # how they are encoded: as text
            found |= GtidSet.parse(change.packed_bytes().decode("ascii"))
    return found
