"""What a message says beside the rows: the `source` block, the operation and the times, each as JSON texts by its name.

Source: Debezium 3.6, "Data change events".
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.kafka.debezium.changed_rows import committed_us, source_fields
from pipeline.kafka.debezium.connect_schema import (
    INT,
    LONG,
    OPTIONAL_LONG,
    OPTIONAL_TEXT,
    TEXT,
    Schema,
    field,
    struct,
)
from pipeline.kafka.debezium.json_values import escaped, integers, json_text
from pipeline.kafka.debezium.text_rows import Chosen, Piece, joined, or_null
from pipeline.schema.table_schema import TableId

_MILLISECOND: Final = 1_000
_OF_ROWS: Final = ("times", "server_id", "gtid", "file", "pos", "row", "thread", "query")


@dataclass(frozen=True, slots=True)
class SourceBlock:
    """What the `source` blocks say of each row.

    `snapshot`: "false", "incremental" and the like, for all rows or for each. `times`: when the transactions committed
    (int64, µs since the epoch). `gtid`, `thread` and `query` may be null.
    """

    snapshot: str | pa.Array
    times: pa.Array
    server_id: pa.Array
    gtid: pa.Array
    file: pa.Array
    pos: pa.Array
    row: pa.Array
    thread: pa.Array
    query: pa.Array

    @staticmethod
    def of(changes: pa.RecordBatch, read_us: int) -> "SourceBlock":
        """What the rows of a changes file say of themselves; a snapshot's have this moment (µs since the epoch).

        A file of an earlier version says nothing of the log's files. Then their name is empty, and all numbers are 0.
        """
        ops = changes.column("__op")
        said = source_fields(changes)
        times = pc.fill_null(committed_us(changes), read_us)
        # Of a statement Debezium tells the millisecond only.
        whole = pc.multiply(pc.divide(times, _MILLISECOND), _MILLISECOND)
        return SourceBlock(
            pc.if_else(pc.equal(ops, "r"), "incremental", "false"),
            pc.if_else(pc.equal(ops, "t"), whole, times),
            pc.fill_null(said["server_id"], 0),
            changes.column("__gtid"),
            pc.fill_null(said["file"].cast(pa.string()), ""),
            pc.fill_null(said["pos"], 0),
            pc.fill_null(said["row"], 0),
            said["thread"],
            said["query"].cast(pa.string()),
        )

    def taken(self, rows: pa.Array) -> "SourceBlock":
        """The same of these rows alone."""
        snapshot = self.snapshot if isinstance(self.snapshot, str) else self.snapshot.take(rows)
        return SourceBlock(snapshot, *(getattr(self, name).take(rows) for name in _OF_ROWS))

    def texts(self, name: str, version: str, table: TableId) -> dict[str, Piece]:
        """The fields of the blocks in their order, by their names; `name` is the topics' prefix."""
        return {
            "version": json_text(version),
            "connector": '"mysql"',
            "name": json_text(name),
            "ts_ms": integers(pc.divide(self.times, _MILLISECOND)),
            "snapshot": f'"{self.snapshot}"'
            if isinstance(self.snapshot, str)
            else joined('"', self.snapshot, '"', count=len(self.times)),
            "db": json_text(table.database),
            "sequence": "null",
            "ts_us": integers(self.times),
            "ts_ns": integers(pc.multiply(self.times, 1000)),
            "table": json_text(table.name),
            "server_id": integers(self.server_id),
            "gtid": _escaped_once(self.gtid),
            "file": _escaped_once(self.file),
            "pos": integers(self.pos),
            "row": integers(self.row),
            "thread": or_null(integers(self.thread)),
            "query": _escaped_once(self.query),
        }


def _escaped_once(texts: pa.Array) -> Chosen:
    """Texts as JSON, each that comes again and again escaped once."""
    found = texts if isinstance(texts, pa.DictionaryArray) else texts.dictionary_encode()
    return Chosen(escaped(found.dictionary), np.asarray(pc.fill_null(found.indices, -1)).astype(np.int64))


# Schemas that are the same for all tables


_SNAPSHOT: Final[Schema] = {
    "type": "string",
    "optional": True,
    "name": "io.debezium.data.Enum",
    "version": 1,
    "parameters": {
        "allowed": "true,first,first_in_data_collection,last_in_data_collection,last,false,incremental"
    },
    "default": "false",
}
_TRANSACTION_FIELDS: Final = {"id": TEXT, "total_order": LONG, "data_collection_order": LONG}
_SOURCE_FIELDS: Final = {
    "version": TEXT,
    "connector": TEXT,
    "name": TEXT,
    "ts_ms": LONG,
    "snapshot": _SNAPSHOT,
    "db": TEXT,
    "sequence": OPTIONAL_TEXT,
    "ts_us": OPTIONAL_LONG,
    "ts_ns": OPTIONAL_LONG,
    "table": OPTIONAL_TEXT,
    "server_id": LONG,
    "gtid": OPTIONAL_TEXT,
    "file": TEXT,
    "pos": LONG,
    "row": INT,
    "thread": OPTIONAL_LONG,
    "query": OPTIONAL_TEXT,
}
# The schemas of what stands beside the rows, by its names in an envelope.
TOLD_SCHEMAS: Final[Mapping[str, Schema]] = {
    "source": struct(
        (field(schema, name) for name, schema in _SOURCE_FIELDS.items()),
        name="io.debezium.connector.mysql.Source",
        version=1,
    ),
    "transaction": struct(
        (field(schema, name) for name, schema in _TRANSACTION_FIELDS.items()),
        optional=True,
        name="event.block",
        version=1,
    ),
    "op": TEXT,
    **dict.fromkeys(("ts_ms", "ts_us", "ts_ns"), OPTIONAL_LONG),
    **{f"source.{name}": schema for name, schema in _SOURCE_FIELDS.items()},
    **{f"transaction.{name}": schema for name, schema in _TRANSACTION_FIELDS.items()},
}
