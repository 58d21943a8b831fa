"""How many rows one chunk may have, and how many rows may be on order at once.

**The size of a chunk** is measured, for each table by itself. It approaches the time that its SELECT should take, or
the bytes that it may have, whichever is less. From one chunk to the next it changes by a factor of two at most. Only
chunks that end before their range does are measured by time. Of the others the way to the server takes most of the
time.

**A filter** leaves rows out, and the SELECT goes over them all the same. So a chunk's rows are those that it goes over,
and few that match make no chunk smaller. None grows beyond what may come if all of them match, or beyond a table's
first chunk: the rows that match may lie together.

**One budget** bounds the rows in memory: those that wait in windows, and those that ordered chunks may bring. A table's
last chunk says how many bytes a row takes. Before the first chunk, a chunk counts as large as it may be. Nothing is
ordered beyond the budget, except that one chunk always is: otherwise no chunk would ever come.
"""

from dataclasses import dataclass
from typing import Final

from pipeline.config.settings import SnapshotSettings
from pipeline.messages.chunks import ChunkRead, ReadChunk

# The most bytes of a chunk. It fits into the memory for rows that wait, or is smaller.
_CHUNK_BYTES: Final = 8 << 20


@dataclass(frozen=True, slots=True)
class ChunkLimits:
    """How much is read from the source at once, and how much is kept.

    A table's first chunk has `chunk_rows`. Its others should take `chunk_us` µs each and no more than `chunk_bytes`.
    `most_rows`: no chunk has more, whatever else asks for more; 0 is no bound. `connections`: how many read them.
    `ranges`: how many a table has at most. `memory`: bytes of rows. `unwritten`: once the journal has so many bytes to
    write, the next rows wait in their windows.
    """

    chunk_rows: int
    connections: int = 4
    ranges: int = 8
    chunk_us: int = 500_000
    chunk_bytes: int = 32 << 20
    memory: int = 256 << 20
    unwritten: int = 4 << 20
    most_rows: int = 0

    @classmethod
    def of(cls, snapshot: SnapshotSettings) -> "ChunkLimits":
        """Returns the limits that the settings give."""
        memory = snapshot.memory_mib << 20
        return cls(
            chunk_rows=snapshot.chunk_rows,
            connections=snapshot.connections,
            ranges=snapshot.most_ranges,
            chunk_us=1000 * snapshot.chunk_target_ms,
            chunk_bytes=min(_CHUNK_BYTES, memory),
            memory=memory,
            # All connections together read no more than a second's rows before the debt counts.
            most_rows=-(-snapshot.rows_per_s // snapshot.connections),
        )

    def bound_rows(self, rows: int) -> int:
        """Returns as many rows, or as many as a chunk may have."""
        return min(rows, self.most_rows) if self.most_rows else rows


@dataclass(frozen=True, slots=True)
class ChunkSize:
    """The size of a table's chunks: the rows to order, and the bytes of a row, None before they are known."""

    rows: int
    row_bytes: float | None = None

    def bytes(self, rows: int, limits: ChunkLimits) -> int:
        """Returns the bytes that so many rows are expected to take."""
        return limits.chunk_bytes if self.row_bytes is None else round(rows * self.row_bytes)


def resize(size: ChunkSize, order: ReadChunk, read: ChunkRead, limits: ChunkLimits) -> ChunkSize:
    """Returns the size after a chunk has come."""
    rows, came = len(read.rows), max(read.bytes, read.rows.nbytes)
    row_bytes = came / rows if rows else size.row_bytes
    wanted: float = limits.chunk_rows
    if row_bytes is not None:
        wanted = max(wanted, limits.chunk_bytes / max(row_bytes, 1))
    if rows:
        wanted = min(wanted, limits.chunk_bytes * read.scanned / max(came, 1))
    if read.upto is not None:
        wanted = min(wanted, read.scanned * limits.chunk_us / max(read.took, 1))
    else:
        wanted = min(wanted, size.rows)
    if order.request.chunk_rows is not None:
        wanted = order.request.chunk_rows
    return ChunkSize(max(1, round(min(max(wanted, size.rows / 2), size.rows * 2))), row_bytes)


def halve(size: ChunkSize, order: ReadChunk) -> ChunkSize:
    """Returns the size after an order that is repeated because too many changes passed."""
    return ChunkSize(max(1, min(size.rows, order.limit // 2)), size.row_bytes)
