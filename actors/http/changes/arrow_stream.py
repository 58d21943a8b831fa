"""Changes as Arrow's IPC streams.

The stream of one table has its columns after the meta columns. A stream of several tables has the meta columns after
the table's name, and then a struct for each table. The struct is null in the rows of other tables. So all rows are in
the order of commits.

A schema holds for one IPC stream. If the columns of a table change, or another table comes, the stream ends and the
next one begins, in the same answer. The metadata of a batch has the checkpoint that holds after it, and in JSON which
tables have `restarted` and `stopped` by then. The last batch of all that is wanted has no rows, and `complete` there.
"""

import io
import json
from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np
import pyarrow as pa

from actors.http.changes.segment_changes import ChangesRead
from pipeline.journal.change_rows import META
from pipeline.journal.changes.commit_order import OrderedRows, lane_of_each, of_one_version
from pipeline.journal.changes.query import BufferCompression
from pipeline.schema.table_schema import TableId, TableSchema
from pipeline.types.buffers import Longs

CONTENT_TYPE: Final = "application/vnd.apache.arrow.stream"

# The column with the table's name, in a stream of several tables.
TABLE_NAME: Final = "__table"

_CHECKPOINT: Final = b"checkpoint"
_COMPLETE: Final = b"complete"
_ERROR: Final = b"error"


class ArrowStream:
    """Writes a consumer's batches. `tables`: the columns of the tables that it wants, as they are at the beginning."""

    content_type = CONTENT_TYPE

    def __init__(
        self,
        tables: Mapping[TableId, TableSchema],
        compression: BufferCompression = BufferCompression.NONE,
    ) -> None:
        self._flat = len(tables) == 1
        self._own = {table: pa.schema(list(schema.arrow)) for table, schema in tables.items()}
        codec = None if compression is BufferCompression.NONE else compression.value
        self._options = pa.ipc.IpcWriteOptions(compression=codec)
        self._sink = io.BytesIO()
        self._writer: pa.ipc.RecordBatchStreamWriter | None = None

    def begin(self) -> bytes:
        """Returns the first stream's schema."""
        self._open()
        return self._written()

    def write(self, read: ChangesRead) -> bytes:
        """Returns rows and their checkpoint."""
        metadata = {} if read.checkpoint is None else {_CHECKPOINT: str(read.checkpoint).encode()}
        metadata |= {
            name.encode(): json.dumps(told).encode() for name, told in read.notices.to_json().items()
        }
        metadata |= {_COMPLETE: b"true"} if read.complete else {}
        rows = read.rows
        pieces = [] if rows is None else list(of_one_version(rows, read.lanes))
        for place, piece in enumerate(pieces):
            self._take_columns(read.lanes[part.lane] for part, _ in piece.taken())
            self._write(self._batch(piece, read.lanes), metadata if place == len(pieces) - 1 else {})
        if not pieces:
            self._write(self._empty(), metadata)
        return self._written()

    def error(self, text: str) -> bytes:
        """Returns a last batch without rows, whose metadata has the error."""
        self._write(self._empty(), {_ERROR: text.encode()})
        return self._written()

    def end(self) -> bytes:
        """Returns the end of the stream."""
        if self._writer is not None:
            self._writer.close()
        return self._written()

    def _take_columns(self, schemas: Iterable[TableSchema]) -> None:
        """Begins the next stream if a table has other columns now."""
        changed = {each.table: pa.schema(list(each.arrow)) for each in schemas}
        if any(self._own.get(table) != own for table, own in changed.items()):
            self._own |= changed
            self._flat = len(self._own) == 1
            self._open()

    def _open(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._writer = pa.ipc.new_stream(self._sink, self._schema(), options=self._options)

    def _schema(self) -> pa.Schema:
        if self._flat:
            (own,) = self._own.values()
            return pa.schema([*META, *own])
        structs = [pa.field(str(table), pa.struct(list(own))) for table, own in self._own.items()]
        return pa.schema([pa.field(TABLE_NAME, pa.string(), nullable=False), *META, *structs])

    def _batch(self, rows: OrderedRows, lanes: tuple[TableSchema, ...]) -> pa.RecordBatch:
        taken = list(rows.taken())
        meta = _ordered([(part.rows.select(META.names), places) for part, places in taken])
        if self._flat:
            names = next(iter(self._own.values())).names
            own = _ordered([(part.rows.select(names), places) for part, places in taken])
            return pa.RecordBatch.from_arrays([*meta.columns, *own.columns], schema=self._schema())
        name = pa.DictionaryArray.from_arrays(
            pa.array(lane_of_each(rows)), pa.array([str(schema.table) for schema in lanes], pa.string())
        ).cast(pa.string())
        structs = []
        for table, own_schema in self._own.items():
            kind = pa.struct(list(own_schema))
            of_table = [
                (part.rows.select(own_schema.names), places)
                for part, places in taken
                if lanes[part.lane].table == table
            ]
            structs.append(_struct_column(of_table, kind, len(rows)))
        return pa.RecordBatch.from_arrays([name, *meta.columns, *structs], schema=self._schema())

    def _empty(self) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist([], schema=self._schema())

    def _write(self, batch: pa.RecordBatch, metadata: Mapping[bytes, bytes]) -> None:
        assert self._writer is not None
        self._writer.write_batch(batch, custom_metadata=dict(metadata))

    def _written(self) -> bytes:
        written = self._sink.getvalue()
        self._sink.seek(0)
        self._sink.truncate()
        return written


def _ordered(parts: list[tuple[pa.RecordBatch, Longs]]) -> pa.RecordBatch:
    """Returns the rows of all parts at their places."""
    if len(parts) == 1:
        return parts[0][0]
    every = pa.concat_batches([rows for rows, _ in parts])
    places = np.concatenate([places for _, places in parts])
    return every.take(pa.array(np.argsort(places)))


def _struct_column(parts: list[tuple[pa.RecordBatch, Longs]], kind: pa.StructType, count: int) -> pa.Array:
    """Returns the rows of a table as structs at their places, and null at all others."""
    if not parts or not kind.num_fields:
        return pa.nulls(count, kind)
    rows = pa.concat_batches([rows for rows, _ in parts])
    structs = pa.StructArray.from_arrays(rows.columns, fields=list(kind))
    if rows.num_rows == count and len(parts) == 1:
        return structs
    at = np.full(count, -1)
    at[np.concatenate([places for _, places in parts])] = np.arange(rows.num_rows)
    return structs.take(pa.array(at, mask=at < 0))
