"""Bytes that arrive at one end of a buffer and leave it at the other, as complete events.

An incomplete rest stays. It's moved to the buffer's front only when there's little room after it, and the buffer is at
least twice as large as the rest. So on average each byte is moved at most once. An unusually large event gets a larger
buffer, which is freed with it.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import UndecodableError
from pipeline.types.buffers import Bytes

_USUAL: Final = 4 << 20  # bytes
_LARGEST: Final = (1 << 30) + (
    1 << 20
)  # bytes; max_allowed_packet is 1 GiB at the most, and an event has a header

# Where in an event its header says at what offset of the file it ends, and what these bytes are worth.
_END_AT: Final = np.arange(13, 17)
_END_WEIGHTS: Final = 256 ** np.arange(4)


class Frames(NamedTuple):
    """Events in a buffer: the i-th is buffer[bounds[i, 0] : bounds[i, 1]], from its header to its checksum.

    They are valid until the next bytes are read.
    """

    buffer: Bytes
    bounds: NDArray[np.int64]  # [events, 2]

    def __len__(self) -> int:
        return len(self.bounds)

    def event(self, i: int) -> bytes:
        """The i-th event, as Python's bytes."""
        start, end = self.bounds[i]
        return self.buffer[start:end].tobytes()

    def pieces(self, offset: int) -> Iterator["Frames"]:
        """Yields all of them in order, in pieces. A piece ends after an event whose header has this offset as its end.

        An event's header has the lowest 32 bits of the offset only, and doesn't name the file.
        """
        ends = self.buffer[self.bounds[:, :1] + _END_AT].astype(np.int64) @ _END_WEIGHTS
        cuts = np.flatnonzero(ends == offset % 2**32) + 1
        for first, behind in pairwise([0, *cuts.tolist(), len(self)]):
            if first < behind:
                yield Frames(self.buffer, self.bounds[first:behind])


class Inflow:
    """The buffer; `bytes[start:end]` is what has arrived and not left."""

    def __init__(self) -> None:
        self.bytes = np.empty(_USUAL, np.uint8)
        self.start = 0
        self.end = 0

    def room(self) -> memoryview:
        """Where the next bytes belong, at least a quarter of the buffer; say `arrived` when they're there.

        What was there before may move, so that no frames may be in use any more. Raises UndecodableError if that's
        more than an event can have.
        """
        staying = self.end - self.start
        if staying > _LARGEST:
            raise UndecodableError("an event is larger than MySQL's largest packet, 1 GiB")
        size = max(_USUAL, 1 << (2 * staying - 1).bit_length()) if staying else _USUAL
        if size != len(self.bytes):
            self._move(np.empty(size, np.uint8))
        elif not staying or len(self.bytes) - self.end < len(self.bytes) // 4:
            self._move(self.bytes)
        return self.bytes[self.end :].data

    def arrived(self, count: int) -> None:
        """Takes note of as many bytes, which are now in the memory that `room` returned."""
        self.end += count

    def _move(self, to: Bytes) -> None:
        staying = self.end - self.start
        to[:staying] = self.bytes[self.start : self.end]
        self.bytes, self.start, self.end = to, 0, staying
