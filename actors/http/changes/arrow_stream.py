"""Changes as Arrow's IPC streams.

The stream of one table has its columns after the meta columns. A stream of several tables has the meta columns after
the table's name, and then a struct for each table. The struct is null in the rows of other tables. So all rows are in
the order of commits.

A schema holds for one IPC stream. If the columns of a table change, or another table comes, the stream ends and the
next one begins, in the same answer. The metadata of a batch has the checkpoint that holds after it, and in JSON which
tables have `restarted` and `stopped` by then. The last batch of all that is wanted has no rows, and `complete` there.

The message of a batch depends on its schema and on nothing that was sent before: no column is encoded by a dictionary.
So streams with the same columns share messages.

Source: Arrow's columnar format, "Serialization and Interprocess Communication (IPC)".
"""

import json
from collections.abc import Hashable, Iterable, Mapping
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

# What ends a stream.
_END: Final = b"\xff\xff\xff\xff\0\0\0\0"


class ArrowStream:
    """Writes a reader's batches. `tables`: the columns of the tables that it wants, as they are at the beginning."""

    content_type = CONTENT_TYPE

    def __init__(
        self,
        tables: Mapping[TableId, TableSchema],
        compression: BufferCompression = BufferCompression.NONE,
    ) -> None:
        self._tables = dict(tables)
        codec = None if compression is BufferCompression.NONE else compression.value
        self._options = pa.ipc.IpcWriteOptions(compression=codec)
        self._set_schema(self._schema_of_all())

    @property
    def key(self) -> Hashable:
        """Returns the columns of all tables. With the same ones the same bytes come next."""
        return tuple((table, schema.version) for table, schema in self._tables.items())

    def begin(self) -> bytes:
        """Returns the first message of a stream, which is its schema."""
        return self._head

    def write(self, read: ChangesRead) -> bytes:
        """Returns rows and their checkpoint."""
        metadata = {} if read.checkpoint is None else {_CHECKPOINT: str(read.checkpoint).encode()}
        metadata |= {
            name.encode(): json.dumps(told).encode() for name, told in read.notices.to_json().items()
        }
        metadata |= {_COMPLETE: b"true"} if read.complete else {}
        rows = read.rows
        pieces = [] if rows is None else list(of_one_version(rows, read.lanes))
        messages: list[bytes | memoryview] = []
        for place, piece in enumerate(pieces):
            messages.append(self._take_columns(read.lanes[part.lane] for part, _ in piece.taken()))
            last = place == len(pieces) - 1
            messages.append(self._message(self._batch(piece, read.lanes), metadata if last else {}))
        if not pieces:
            messages.append(self._message(self._empty(), metadata))
        return b"".join(messages)

    def error(self, text: str) -> bytes:
        """Returns a last batch without rows, whose metadata has the error."""
        return b"".join([self._message(self._empty(), {_ERROR: text.encode()})])

    def end(self) -> bytes:
        """Returns the end of the stream."""
        return _END

    def _take_columns(self, schemas: Iterable[TableSchema]) -> bytes:
        """Returns what ends the stream and begins the next one, if a table has other columns now."""
        before = self._tables
        self._tables = before | {schema.table: schema for schema in schemas}
        if self._tables == before or (schema := self._schema_of_all()) == self._schema:
            return b""
        self._set_schema(schema)
        return _END + self._head

    def _set_schema(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._head: bytes = schema.serialize().to_pybytes()

    def _schema_of_all(self) -> pa.Schema:
        if len(self._tables) == 1:
            (own,) = self._tables.values()
            return pa.schema([*META, *own.arrow])
        structs = [pa.field(str(table), pa.struct(list(own.arrow))) for table, own in self._tables.items()]
        return pa.schema([pa.field(TABLE_NAME, pa.string(), nullable=False), *META, *structs])

    def _batch(self, rows: OrderedRows, lanes: tuple[TableSchema, ...]) -> pa.RecordBatch:
        taken = list(rows.taken())
        meta = _ordered([(part.rows.select(META.names), places) for part, places in taken])
        if len(self._tables) == 1:
            names = next(iter(self._tables.values())).arrow.names
            own = _ordered([(part.rows.select(names), places) for part, places in taken])
            return pa.RecordBatch.from_arrays([*meta.columns, *own.columns], schema=self._schema)
        name = pa.DictionaryArray.from_arrays(
            pa.array(lane_of_each(rows)), pa.array([str(schema.table) for schema in lanes], pa.string())
        ).cast(pa.string())
        structs = []
        for table, schema in self._tables.items():
            kind = pa.struct(list(schema.arrow))
            of_table = [
                (part.rows.select(schema.arrow.names), places)
                for part, places in taken
                if lanes[part.lane].table == table
            ]
            structs.append(_struct_column(of_table, kind, len(rows)))
        return pa.RecordBatch.from_arrays([name, *meta.columns, *structs], schema=self._schema)

    def _empty(self) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist([], schema=self._schema)

    def _message(self, batch: pa.RecordBatch, metadata: Mapping[bytes, bytes]) -> memoryview:
        # Only a stream's writer takes metadata, so the message is cut out of a stream of its own.
        written = pa.BufferOutputStream()
        with pa.ipc.new_stream(written, self._schema, options=self._options) as writer:
            writer.write_batch(batch, custom_metadata=dict(metadata))
        return memoryview(written.getvalue())[len(self._head) : -len(_END)]


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
