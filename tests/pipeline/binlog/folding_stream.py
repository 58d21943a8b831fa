"""A stream of the log that can take an event without the compiled parser."""

from collections.abc import Iterable, Iterator

import numpy as np

from pipeline.binlog.event_buffer import Frames
from pipeline.binlog.fast_path.payload_runs import PayloadRun
from pipeline.binlog.stream import LogStream
from pipeline.binlog.stream_state import RARE
from pipeline.binlog.transaction_assembler import Given


class FoldingStream(LogStream):
    """A stream in which each event can be one of those that the compiled parser leaves to Python."""

    _in_python = False

    def fold(self, event: bytes) -> Iterator[Given]:
        """The same as `parse` with one event, from its header to its checksum, in Python alone."""
        self._in_python = True
        yield from self.parse(frames([event]))
        self._in_python = False

    def _parse_usual(self, frames: Frames, at: int) -> tuple[int, int]:
        return (RARE, at) if self._in_python else super()._parse_usual(frames, at)

    def _run(self, frames: Frames, at: int) -> PayloadRun | None:
        return None if self._in_python else super()._run(frames, at)


def frames(log_events: Iterable[bytes]) -> Frames:
    """The events as they lie in a buffer."""
    kept = list(log_events)
    ends = np.cumsum([len(event) for event in kept], dtype=np.int64)
    starts = ends - np.array([len(event) for event in kept], np.int64)
    return Frames(np.frombuffer(bytearray(b"".join(kept)), np.uint8), np.stack([starts, ends], axis=1))
