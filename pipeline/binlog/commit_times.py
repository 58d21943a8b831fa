"""When the transactions of a log were committed, and nothing else of them: what they hold isn't looked at."""

from collections.abc import Iterator
from typing import Final

from pipeline.binlog.event_buffer import Frames
from pipeline.binlog.event_type import Code
from pipeline.binlog.events import event as events
from pipeline.binlog.events.event import FormatDescription, Heartbeat, Rotate
from pipeline.binlog.events.gtid_event import TransactionBegins
from pipeline.binlog.events.query_event import Query
from pipeline.binlog.log_position import LogPosition
from pipeline.binlog.stream_state import StreamState
from pipeline.binlog.transaction_ids import TransactionNames
from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.gtid_set import GtidSet
from pipeline.gtid.witness import Witness

_LOOKED_AT: Final = frozenset(
    {
        Code.ANONYMOUS_GTID,
        Code.FORMAT_DESCRIPTION,
        Code.GTID,
        Code.HEARTBEAT,
        Code.HEARTBEAT_V2,
        Code.QUERY,
        Code.ROTATE,
        Code.TAGGED_GTID,
    }
)


class CommitTimeParser:
    """Reads a log that was requested from this position."""

    def __init__(self, position: GtidSet) -> None:
        self._names = TransactionNames(position)
        self._reached = LogPosition(StreamState(0, 0, 0))
        self._checksum = True

    def reached(self, coordinates: Coordinates) -> bool:
        """Whether it has come to these coordinates."""
        return self._reached.file is not None and self._reached.at().reaches(coordinates)

    def parse(self, frames: Frames) -> Iterator[Witness]:
        """The transactions that begin in these events. Raises UndecodableError."""
        for i in range(len(frames)):
            event = frames.event(i)
            head = events.header(event)
            if head.code not in _LOOKED_AT:
                self._reached.advance(head)
                continue
            this = events.parse_event(head, event, checksum=self._checksum)
            self._reached.advance(head)
            match this:
                case Rotate(file, offset):
                    self._reached.rotate(file, offset)
                case Heartbeat(file, offset):
                    self._reached.heartbeat(file, offset)
                case FormatDescription(checksum):
                    self._checksum = checksum
                case TransactionBegins():
                    yield self._witness(this)
                case Query() if self._names.by_coordinates:  # before MySQL 5.7 nothing comes before it
                    yield self._witness(TransactionBegins(None, self._reached.time))
                case _:
                    pass

    def _witness(self, event: TransactionBegins) -> Witness:
        name = self._names.name(event.gtid, self._reached.at(self._reached.begins))
        return Witness(name, event.commit_time, event.original_time)
