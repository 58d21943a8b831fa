"""Debezium's messages of a table's changes: keys and values, as Arrow arrays of JSON texts.

The rows are those of a changes file (`pipeline.journal.change_rows`) with before-images: each update of a row with a
key is `b` and directly after it `u`. A `d` that is directly followed by a `u` of the same transaction is an update that
changed the key. Debezium makes two messages of it, a delete of the old key and a create of the new one.

| rows | messages |
|---|---|
| `c`, `r` | one, whose `before` is null |
| `b`, `u` | one, whose `before` is the row of `b` |
| `d` | one, whose `after` is null, and a tombstone where these are wanted |
| `d`, `u` with another key | a delete (with its tombstone), then a create |
| `t` | one with neither, and no key |

A table without a key has no keys and no tombstones. An update of it is `d` and `c`, of which `__source` tells that they
belong together; in journals of earlier versions they are two messages.

Source: Debezium 3.6, "Data change events"; envelope of schema version 2.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pipeline.config.message_handling import Handling
from pipeline.errors import InvariantBroken
from pipeline.kafka.changed_rows import (
    BEFORE,
    CREATE,
    DELETE,
    LETTERS,
    NONE,
    READ,
    TRUNCATE,
    UPDATE,
    operations,
    source_fields,
)
from pipeline.kafka.connect_schema import Schema, field, rows_schema, struct
from pipeline.kafka.json_values import escaped, integers, json_objects, json_text, with_schema
from pipeline.kafka.text_rows import Chosen, joined, or_null
from pipeline.kafka.transactions import TransactionBlocks
from pipeline.schema.table_schema import TableSchema


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
        times = pc.coalesce(
            said["time"], changes.column("__commit_time").view(pa.int64()), pa.scalar(read_us)
        )
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


_MILLISECOND: Final = 1_000
_OF_ROWS: Final = ("times", "server_id", "gtid", "file", "pos", "row", "thread", "query")


@dataclass(frozen=True, slots=True)
class Messages:
    """The messages of one table's changes, in their order.

    `keys` are null where there's no key, `values` where it's a tombstone. `rows`: of which row of the changes each one
    is. `new_keys` and `old_keys`: what the headers `__debezium.newkey` and `__debezium.oldkey` say, null where there
    are none.
    """

    keys: pa.Array
    values: pa.Array
    rows: NDArray[np.int64]
    new_keys: pa.Array
    old_keys: pa.Array


@dataclass(frozen=True, slots=True)
class Envelope:
    """How a table's messages are made.

    `prefix` is the topics'; `version` that of the software, for `source`. `schemas`: whether each message has its
    schema in it. `tombstones`: whether one follows each delete.
    """

    schema: TableSchema
    prefix: str
    version: str
    handling: Handling
    schemas: bool = False
    tombstones: bool = True

    def messages(
        self,
        changes: pa.RecordBatch,
        source: SourceBlock,
        processed_us: int,
        transactions: TransactionBlocks | None = None,
    ) -> Messages:
        """The messages of these rows, of which `processed_us` says when they were made (µs since the epoch).

        `transactions` are the rows' blocks, where these are wanted.

        A row that belongs to the one before it is in the same batch. Raises InvariantBroken for an update without its
        row before.
        """
        ops = operations(changes)
        of = np.flatnonzero(ops != BEFORE)
        op, preceding = ops[of], np.where(of > 0, ops[of - 1], NONE)
        if np.any((op == UPDATE) & (preceding != BEFORE) & (preceding != DELETE)):
            raise InvariantBroken(f"an update of {self.schema.table} has no row before it")
        created = (op == UPDATE) & (preceding == DELETE)  # by an update that changed the key
        deleted = np.zeros(len(of), np.bool_)
        deleted[:-1] = created[1:]
        values = self._values(changes, of, np.where(created, CREATE, op), source, processed_us, transactions)
        keys = self._keys(changes).take(pa.array(of)) if self.schema.key else pa.nulls(len(of), pa.string())
        keys = pc.if_else(pa.array(op == TRUNCATE), pa.scalar(None, pa.string()), keys)
        following = np.roll(np.arange(len(of)), -1)
        new = keys.take(pa.array(following, mask=~deleted))
        old = keys.take(pa.array(np.arange(len(of)) - 1, mask=~created))
        return self._with_tombstones(Messages(keys, values, of, new, old), op)

    def _with_tombstones(self, messages: Messages, op: NDArray[np.int32]) -> Messages:
        if not self.tombstones or not self.schema.key or DELETE not in op:
            return messages
        times = np.where(op == DELETE, 2, 1)
        index = np.repeat(np.arange(len(op)), times)
        again = np.zeros(len(index), np.bool_)
        again[1:] = index[1:] == index[:-1]
        taken = pa.array(index)
        return Messages(
            messages.keys.take(taken),
            messages.values.take(pa.array(index, mask=again)),
            messages.rows[index],
            messages.new_keys.take(taken),
            messages.old_keys.take(taken),
        )

    def _keys(self, changes: pa.RecordBatch) -> pa.Array:
        columns = [self.schema.columns[i] for i in self.schema.key]
        keys = json_objects(columns, changes, self.handling)
        return with_schema(keys, self.key_schema) if self.schemas else keys

    def _values(
        self,
        changes: pa.RecordBatch,
        of: NDArray[np.int64],
        op: NDArray[np.int32],
        source: SourceBlock,
        processed_us: int,
        transactions: TransactionBlocks | None,
    ) -> pa.Array:
        objects = json_objects(self.schema.columns, changes, self.handling)
        no_before = (op == CREATE) | (op == READ) | (op == TRUNCATE)
        before = np.where(no_before, -1, np.where(op == UPDATE, of - 1, of))
        values = joined(
            '{"before":',
            Chosen(objects, before),
            ',"after":',
            Chosen(objects, np.where((op == DELETE) | (op == TRUNCATE), -1, of)),
            ',"source":',
            self._sources(source.taken(pa.array(of)), len(of)),
            ',"transaction":',
            "null" if transactions is None else transactions.taken(pa.array(of)).texts(len(of)),
            ',"op":"',
            Chosen(LETTERS, op.astype(np.int64)),
            f'","ts_ms":{processed_us // 1000},"ts_us":{processed_us},"ts_ns":{processed_us * 1000}}}',
            count=len(of),
        )
        return with_schema(values, self.value_schema) if self.schemas else values

    def _sources(self, source: SourceBlock, count: int) -> pa.Array:
        table = self.schema.table
        return joined(
            f'{{"version":{json_text(self.version)},"connector":"mysql","name":{json_text(self.prefix)},"ts_ms":',
            integers(pc.divide(source.times, 1000)),
            ',"snapshot":"',
            source.snapshot,
            f'","db":{json_text(table.database)},"sequence":null,"ts_us":',
            integers(source.times),
            ',"ts_ns":',
            integers(pc.multiply(source.times, 1000)),
            f',"table":{json_text(table.name)},"server_id":',
            integers(source.server_id),
            ',"gtid":',
            _escaped_once(source.gtid),
            ',"file":',
            _escaped_once(source.file),
            ',"pos":',
            integers(source.pos),
            ',"row":',
            integers(source.row),
            ',"thread":',
            or_null(integers(source.thread)),
            ',"query":',
            _escaped_once(source.query),
            "}",
            count=count,
        )

    @property
    def _name(self) -> str:
        return f"{self.prefix}.{self.schema.table}"

    @property
    def key_schema(self) -> Schema:
        """The schema of the keys."""
        columns = [self.schema.columns[i] for i in self.schema.key]
        return rows_schema(columns, self.handling, f"{self._name}.Key", optional=False)

    @property
    def value_schema(self) -> Schema:
        """The schema of the values."""
        row = rows_schema(self.schema.columns, self.handling, f"{self._name}.Value", optional=True)
        fields = {"before": row, "after": row, "source": _SOURCE, "transaction": _TRANSACTION, "op": _TEXT}
        times = dict.fromkeys(("ts_ms", "ts_us", "ts_ns"), _OPTIONAL_LONG)
        named = (field(schema, name) for name, schema in (fields | times).items())
        return struct(named, name=f"{self._name}.Envelope", version=2)


def _escaped_once(texts: pa.Array) -> Chosen:
    """Texts as JSON, each that comes again and again escaped once."""
    found = texts if isinstance(texts, pa.DictionaryArray) else texts.dictionary_encode()
    return Chosen(escaped(found.dictionary), np.asarray(pc.fill_null(found.indices, -1)).astype(np.int64))


# Schemas that are the same for all tables


_TEXT: Final[Schema] = {"type": "string", "optional": False}
_OPTIONAL_TEXT: Final[Schema] = {"type": "string", "optional": True}
_LONG: Final[Schema] = {"type": "int64", "optional": False}
_OPTIONAL_LONG: Final[Schema] = {"type": "int64", "optional": True}
_INT: Final[Schema] = {"type": "int32", "optional": False}

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
_SOURCE: Final = struct(
    (
        field(schema, name)
        for name, schema in {
            "version": _TEXT,
            "connector": _TEXT,
            "name": _TEXT,
            "ts_ms": _LONG,
            "snapshot": _SNAPSHOT,
            "db": _TEXT,
            "sequence": _OPTIONAL_TEXT,
            "ts_us": _OPTIONAL_LONG,
            "ts_ns": _OPTIONAL_LONG,
            "table": _OPTIONAL_TEXT,
            "server_id": _LONG,
            "gtid": _OPTIONAL_TEXT,
            "file": _TEXT,
            "pos": _LONG,
            "row": _INT,
            "thread": _OPTIONAL_LONG,
            "query": _OPTIONAL_TEXT,
        }.items()
    ),
    name="io.debezium.connector.mysql.Source",
    version=1,
)
_TRANSACTION: Final = struct(
    (
        field(schema, name)
        for name, schema in {"id": _TEXT, "total_order": _LONG, "data_collection_order": _LONG}.items()
    ),
    optional=True,
    name="event.block",
    version=1,
)
