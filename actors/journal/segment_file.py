"""A file of a segment: Parquet, digested while it's written, so that none of it has to stay in memory.

Whoever reads it reads a part at a time (`actors.journal.batch_sizes`).
"""

import hashlib
import io
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from actors.journal.files import Writable
from pipeline.journal.change_rows import SOURCE
from pipeline.journal.segment import SegmentTable

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

# A page of a Parquet file (bytes), as pyarrow makes them; a row can't be divided.
_PAGE = 1 << 20
# What's written at once (bytes): each time the thread waits for the interpreter, which others may be busy with.
_PIECE = 4 << 20

# Parts of SOURCE: those with the same value in many adjacent rows, and those that rise slowly.
_REPEATED = [f"{SOURCE.name}.{name}" for name in ("file", "server_id", "thread", "query")]
_RISING = {f"{SOURCE.name}.{name}": "DELTA_BINARY_PACKED" for name in ("time", "pos", "row")}


def write_parquet(file: Writable, table: SegmentTable) -> tuple[int, str]:
    """Write the table; how many bytes that took, and their SHA-256."""
    size = table.rows.nbytes
    if size <= _PIECE:  # one write takes less than the calls of a stream in Python
        with pa.BufferOutputStream() as stream:
            _write(table, size, stream)
            content = stream.getvalue()
        file.write(content)
        return content.size, hashlib.sha256(content).hexdigest()
    digesting = _Digesting(file)
    with pa.BufferedOutputStream(pa.PythonFile(digesting, mode="w"), _PIECE) as stream:
        _write(table, size, stream)
    return digesting.tell(), digesting.hexdigest()


def _write(table: SegmentTable, size: int, stream: pa.NativeFile) -> None:
    pq.write_table(
        table.rows,
        stream,
        compression="lz4",
        use_dictionary=_REPEATED,
        column_encoding=_RISING,
        write_statistics=table.stated,
        write_batch_size=_batch(size // table.rows.num_rows),
    )


def _batch(row_bytes: int) -> int:
    """How many rows are written before it's looked whether they fill a page: with large ones, one at a time."""
    return max(1, min(_PAGE // max(1, row_bytes), 1024))


class _Digesting(io.RawIOBase):
    """A file that's written from front to back, digested on the way, so that none of it has to stay in memory."""

    def __init__(self, file: Writable) -> None:
        self._file = file
        self._digest = hashlib.sha256()
        self._bytes = 0

    def writable(self) -> bool:
        """Returns True, which is how Arrow asks whether it may write."""
        return True

    def tell(self) -> int:
        """How many bytes are written."""
        return self._bytes

    def write(self, content: "ReadableBuffer") -> int:
        """Write all of it."""
        self._digest.update(content)
        self._file.write(content)
        size = memoryview(content).nbytes
        self._bytes += size
        return size

    def hexdigest(self) -> str:
        """Returns the SHA-256 of the written bytes."""
        return self._digest.hexdigest()
