"""What a message has in addition to the rows: the `source` block, the operation and the times, each by its name.

Source: Debezium 3.6, "Data change events".
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.kafka.debezium.changed_rows import committed_us, source_fields
from pipeline.kafka.debezium.connect_schema import (
    CONNECT_STRING,
    INT,
    LONG,
    OPTIONAL_LONG,
    OPTIONAL_TEXT,
    Schema,
    field,
    struct,
)
from pipeline.kafka.debezium.message_format import FieldValue
from pipeline.schema.table_schema import TableId

_MILLISECOND: Final = 1_000
_OF_ROWS: Final = ("times", "server_id", "gtid", "file", "pos", "row", "thread", "query")


@dataclass(frozen=True, slots=True)
class SourceBlock:
    """The content of each row's `source` block.

    `snapshot`: "false", "incremental" and the like, for all rows or for each. `times`: when the transactions committed
    (int64, µs since the epoch). `gtid`, `thread` and `query` may be null. Texts may be in a dictionary.
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
        """Returns the blocks of the rows of a changes file; a snapshot's rows have this time (µs since the epoch).

        A file of an earlier version has nothing about the log's files. Then their name is empty, and all numbers are 0.
        """
        ops = changes.column("__op")
        said = source_fields(changes)
        times = pc.fill_null(committed_us(changes), read_us)
        # Debezium has only the millisecond of a statement.
        if pc.any(truncated := pc.equal(ops, "t")).as_py():
            whole = pc.multiply(pc.divide(times, _MILLISECOND), _MILLISECOND)
            times = pc.if_else(truncated, whole, times)
        read = pc.equal(ops, "r")
        return SourceBlock(
            pc.if_else(read, "incremental", "false") if pc.any(read).as_py() else "false",
            times,
            pc.fill_null(said["server_id"], 0),
            changes.column("__gtid"),
            _without_nulls(said["file"]),
            pc.fill_null(said["pos"], 0),
            pc.fill_null(said["row"], 0),
            said["thread"],
            said["query"],
        )

    def taken(self, rows: pa.Array) -> "SourceBlock":
        """Returns the blocks of these rows."""
        snapshot = self.snapshot if isinstance(self.snapshot, str) else self.snapshot.take(rows)
        return SourceBlock(snapshot, *(getattr(self, name).take(rows) for name in _OF_ROWS))

    def fields(self, name: str, version: str, table: TableId) -> dict[str, FieldValue]:
        """Returns the fields of the blocks in their order, by their names; `name` is the topics' prefix."""
        return {
            "version": version,
            "connector": "mysql",
            "name": name,
            "ts_ms": pc.divide(self.times, _MILLISECOND),
            "snapshot": self.snapshot,
            "db": table.database,
            "sequence": None,
            "ts_us": self.times,
            "ts_ns": pc.multiply(self.times, 1000),
            "table": table.name,
            "server_id": self.server_id,
            "gtid": self.gtid,
            "file": self.file,
            "pos": self.pos,
            "row": self.row,
            "thread": self.thread,
            "query": self.query,
        }


def _without_nulls(texts: pa.Array) -> pa.Array:
    return pc.fill_null(texts.cast(pa.string()), "") if texts.null_count else texts


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
_TRANSACTION_FIELDS: Final = {"id": CONNECT_STRING, "total_order": LONG, "data_collection_order": LONG}
_SOURCE_FIELDS: Final = {
    "version": CONNECT_STRING,
    "connector": CONNECT_STRING,
    "name": CONNECT_STRING,
    "ts_ms": LONG,
    "snapshot": _SNAPSHOT,
    "db": CONNECT_STRING,
    "sequence": OPTIONAL_TEXT,
    "ts_us": OPTIONAL_LONG,
    "ts_ns": OPTIONAL_LONG,
    "table": OPTIONAL_TEXT,
    "server_id": LONG,
    "gtid": OPTIONAL_TEXT,
    "file": CONNECT_STRING,
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
    "op": CONNECT_STRING,
    **dict.fromkeys(("ts_ms", "ts_us", "ts_ns"), OPTIONAL_LONG),
    **{f"source.{name}": schema for name, schema in _SOURCE_FIELDS.items()},
    **{f"transaction.{name}": schema for name, schema in _TRANSACTION_FIELDS.items()},
}
