"""Slices of the log on their way into columns: several at once where there are cores, given in the log's order.

A slice's decoding is compiled code and Arrow's for the most part, which run beside other threads. One that continues
the slice before it (a transaction's next part) waits in its thread for that one's count of images. It can: slices
are begun in their order, so that the one before is at work or done.
"""

import asyncio
import os
import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from pipeline.binlog.slice import Slice
from pipeline.binlog.stream import LogMessage
from pipeline.binlog.transaction_assembler import Given
from pipeline.messages.binlog import ReadingPaused

_AHEAD: Final = 1  # slices that wait for a thread
_MOST_BYTES: Final = 32 << 20  # of row images under way; one slice is always taken


# A slice's message, or an unchanged message, with the ordinal for a slice that continues it.
Read = tuple[LogMessage | ReadingPaused, int]


class DecoderThreads:
    """The slices under way, oldest first; between them, the messages that pass with them in order.

    `took_s`: the processor time (s) of the slice that was decoded last, which had rows of so many `tables`.
    """

    def __init__(self) -> None:
        self.took_s, self.tables = 0.0, 0
        self._cores = len(os.sched_getaffinity(0))
        self._threads = ThreadPoolExecutor(self._cores, "decoding")
        self._last: Future[Read] | None = None
        self._under_way: deque[tuple[asyncio.Future[Read], int]] = deque()  # each with its bytes

    @property
    def free(self) -> bool:
        """Whether a slice would be begun at once."""
        return len(self._under_way) < self._cores and not self.full

    @property
    def full(self) -> bool:
        """Returns whether so much is under way that the oldest must leave first."""
        too_many = len(self._under_way) >= self._cores + _AHEAD
        return too_many or self.bytes >= _MOST_BYTES

    @property
    def bytes(self) -> int:
        """Returns how many bytes of row images are under way."""
        return sum(size for _, size in self._under_way)

    @property
    def oldest(self) -> asyncio.Future[Read] | None:
        """The next to be given, if anything is under way."""
        return self._under_way[0][0] if self._under_way else None

    def put(self, given: Given | ReadingPaused) -> None:
        """Begins to decode a slice, or queues a message after those that are under way."""
        if isinstance(given, Slice):
            self._last = self._threads.submit(self._read, given, self._last)
            self._under_way.append((asyncio.wrap_future(self._last), given.bytes))
        else:
            done: asyncio.Future[Read] = asyncio.get_running_loop().create_future()
            done.set_result((given, 0))
            self._under_way.append((done, 0))

    async def give(self) -> LogMessage | ReadingPaused:
        """The oldest, once it's in columns. Raises Definite if it can't be."""
        oldest, _ = self._under_way[0]
        message, _ = await oldest
        self._under_way.popleft()
        return message

    def close(self) -> None:
        """Drops the work under way. A working thread ends with its slice."""
        for each, _ in self._under_way:
            each.cancel()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _read(self, given: Slice, before: Future[Read] | None) -> Read:
        began = time.thread_time()
        read = given.read(_first_ordinal(given, before))
        self.took_s, self.tables = time.thread_time() - began, len(read[0].tables)
        return read


def _first_ordinal(given: Slice, before: Future[Read] | None) -> int:
    if not given.continues:
        return 0
    assert before is not None
    return before.result()[1]
