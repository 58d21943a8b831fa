"""How many rows a chunk is asked for, and how much is asked for at once.

**The size of a chunk** is found by measuring, for each table by itself: towards the time that its SELECT should take
and the bytes that it may have, whichever is less, at most twice or half as many rows from one chunk to the next. Only
chunks that end before their range does are measured by time, since in others the way to the server is most of it.

**One budget** bounds the rows in memory: those that wait in windows, and those that chunks under way may bring. What a
row of a table takes is known from its last chunk, and before the first one a chunk is taken to be as large as it may
be. Nothing is asked for beyond the budget, but one chunk always is: without it nothing would ever come.
"""

from dataclasses import dataclass

from pipeline.messages.chunks import ChunkRead, ReadChunk


@dataclass(frozen=True, slots=True)
class ChunkLimits:
    """How much is asked of the source at once, and how much is kept.

    `chunk_rows` has a table's first chunk; its others are to take `chunk_us` µs each and no more than `chunk_bytes`.
    So many `connections` read them, of so many `ranges` in a table at most. `memory`: bytes of rows.
    """

    chunk_rows: int
    connections: int = 4
    ranges: int = 8
    chunk_us: int = 500_000
    chunk_bytes: int = 32 << 20
    memory: int = 256 << 20


@dataclass(frozen=True, slots=True)
class ChunkSize:
    """Of a table's chunks: the rows to ask for, and the bytes that a row takes, None before it's known."""

    rows: int
    row_bytes: float | None = None

    def bytes(self, rows: int, limits: ChunkLimits) -> int:
        """The bytes that so many rows are expected to take."""
        return limits.chunk_bytes if self.row_bytes is None else round(rows * self.row_bytes)


def resize(size: ChunkSize, order: ReadChunk, read: ChunkRead, limits: ChunkLimits) -> ChunkSize:
    """The size after a chunk has come."""
    rows = len(read.rows)
    if not rows:
        return size
    row_bytes = max(read.bytes, read.rows.nbytes) / rows
    wanted = limits.chunk_bytes / max(row_bytes, 1)
    if read.upto is not None:
        wanted = min(wanted, rows * limits.chunk_us / max(read.took, 1))
    else:
        wanted = min(wanted, size.rows)
    if order.request.chunk_rows is not None:
        wanted = order.request.chunk_rows
    return ChunkSize(max(1, round(min(max(wanted, size.rows / 2), size.rows * 2))), row_bytes)


def halved(size: ChunkSize, order: ReadChunk) -> ChunkSize:
    """The size after an order that's given again, since too much passed meanwhile."""
    return ChunkSize(max(1, min(size.rows, order.limit // 2)), size.row_bytes)
