"""The position of the log: the file, and the offset after the last event."""

from typing import Final

from pipeline.binlog.event_type import Code
from pipeline.binlog.events.event import Header
from pipeline.binlog.registries import FileRegistry
from pipeline.binlog.stream_state import StreamState
from pipeline.errors import UndecodableError
from pipeline.gtid.coordinates import Coordinates

_OFFSET_BITS: Final = 32  # that a header has room for


class LogPosition:
    """The end of the last event; its offset is in the state, which the compiled parser moves as well.

    `time`: that in the header of the event at hand, in µs since the epoch.
    """

    def __init__(self, state: StreamState) -> None:
        self._state = state
        self.files = FileRegistry()
        self.file: str | None = None
        self.time = 0

    def advance(self, head: Header) -> None:
        """Moves to the event's end. Its header has the offset's lowest 32 bits only. A file with one very large
        transaction is longer than that, but continues from the position before. Events in a payload have no
        position."""
        self._state.server = head.server_id
        if self._state.within:
            return
        self.time = head.time * 1_000_000
        if head.end and head.code != Code.HEARTBEAT_V2:
            self._state.begins = self._state.offset
            self._state.offset += (head.end - self._state.offset) % 2**_OFFSET_BITS

    def heartbeat(self, file: str, offset: int | None) -> None:
        """Go where a heartbeat says. Raises UndecodableError where that isn't ahead."""
        if file != self.file:
            raise UndecodableError(f"a heartbeat came from the file {file}")
        if offset is None:
            return
        if offset < self._state.offset:
            raise UndecodableError(f"a heartbeat came from {file}:{offset}, which comes after")
        self._state.offset = offset

    def rotate(self, file: str, offset: int) -> None:
        """Go to another file."""
        self.file, self._state.offset = file, offset
        self._state.begins = offset
        self._state.file = self.files.number(file)

    @property
    def begins(self) -> int:
        """The offset at which the event at hand begins."""
        return self._state.begins

    def at(self, offset: int | None = None) -> Coordinates:
        """This place, or this offset in the same file. Raises UndecodableError before the log's first event."""
        if self.file is None:
            raise UndecodableError("a transaction came before the log had named its file")
        return Coordinates(self.file, self._state.offset if offset is None else offset)
