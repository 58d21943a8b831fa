"""Debezium's messages of a table's changes: keys and values, as Arrow arrays.

The rows are those of a changes file (`pipeline.journal.change_rows`) with before-images: each update of a row with a
key is `b`, directly followed by `u`. A `d` that is directly followed by a `u` of the same transaction is an update that
changed the key. Debezium makes two messages of it, a delete of the old key and a create of the new one.

| rows | messages |
|---|---|
| `c`, `r` | one, whose `before` is null |
| `b`, `u` | one, whose `before` is the row of `b` |
| `d` | one, whose `after` is null, and a tombstone if the settings want one |
| `d` of a repair, of which only the key is known | the same, and `before` is null too |
| `d`, `u` with another key | a delete (with its tombstone), then a create |
| `t` | one with neither, and no key |

A table without a key has no keys and no tombstones. An update of it is `d` and `c`, and `__source` marks the two as one
update. In journals of earlier versions they are two messages.

With `unwrap` a message's value is only the row, as ExtractNewRecordState makes it. Of a repair's delete there's no row,
so it is a tombstone alone. It makes no message if a column outside the primary key says where the message goes.

Source: Debezium 3.6, "Data change events", envelope of schema version 2; "New Record State Extraction".
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pipeline.config.message_handling import Handling
from pipeline.config.unwrapping import TRANSACTION_FIELDS, AddedField, DeleteHandling, Unwrap
from pipeline.kafka.debezium.changed_rows import (
    BEFORE,
    CREATE,
    DELETE,
    LETTERS,
    NO_CHANGE,
    READ,
    TRUNCATE,
    UPDATE,
    bare_keys,
    operations,
)
from pipeline.kafka.debezium.connect_schema import CONNECT_STRING, Schema, field, rows_schema, struct
from pipeline.kafka.debezium.json_format import JSON
from pipeline.kafka.debezium.message_format import Block, FieldValue, MessageFormat
from pipeline.kafka.debezium.source_block import TOLD_SCHEMAS, SourceBlock
from pipeline.kafka.debezium.table_mapping import TableMapping
from pipeline.kafka.debezium.text_rows import TextPiece, joined
from pipeline.kafka.debezium.transactions import TransactionBlocks
from pipeline.kafka.errors import KafkaRefused
from pipeline.kafka.topics import Destination, fit_topic
from pipeline.schema.table_schema import Column
from pipeline.types.buffers import Flags
from pipeline.types.column_types import Text

NEW_KEY: Final = "__debezium.newkey"
OLD_KEY: Final = "__debezium.oldkey"

_NO_TEXT: Final = pa.scalar(None, pa.string())

Numbers = NDArray[np.int64] | NDArray[np.int32]
BesideRows = Mapping[str, FieldValue]


@dataclass(frozen=True, slots=True)
class Messages:
    """The messages of one table's changes, in their order.

    `keys` are null if there is no key, `values` if it is a tombstone. `rows`: the number of the row that each message
    is from. `headers`: their values by name, null if a message lacks one. `topics`: where each message goes, None if
    all go to their table's topic.
    """

    keys: pa.Array
    values: pa.Array
    rows: Numbers
    headers: tuple[tuple[str, pa.Array], ...]
    topics: pa.Array | None = None

    def taken(self, index: Numbers, emptied: Flags) -> "Messages":
        """Returns these messages. Some of them are `emptied`: they have no value."""
        rows = pa.array(index)
        headers = tuple((name, texts.take(rows)) for name, texts in self.headers)
        values = self.values.take(pa.array(index, mask=emptied))
        topics = None if self.topics is None else self.topics.take(rows)
        return Messages(self.keys.take(rows), values, self.rows[index], headers, topics)


@dataclass(frozen=True, slots=True)
class Envelope:
    """How a table's messages are made.

    `prefix`: the topics' prefix. `version`: the software's, for `source`. `format` writes keys and values, and
    `headers` writes headers. `tombstones`: whether a tombstone follows each delete. `unwrap`: how messages are flat,
    None if they aren't.
    """

    mapping: TableMapping
    destination: Destination
    prefix: str
    version: str
    handling: Handling
    format: MessageFormat = JSON
    headers: MessageFormat = JSON
    tombstones: bool = True
    unwrap: Unwrap | None = None

    def messages(
        self,
        changes: pa.RecordBatch,
        source: SourceBlock,
        processed_us: int,
        transactions: TransactionBlocks | None = None,
    ) -> Messages:
        """Returns the messages of these rows, with `processed_us` (µs since the epoch) as their time.

        `transactions`: the rows' blocks, if the settings want them. The updates are by the messages' key
        (`TableMapping.with_keys`).

        Two rows that belong together are in the same batch. Raises KafkaRefused for a row that lacks what messages
        need, also for an update without its row before: the journal has that only if it was wanted at the time.
        """
        ops = operations(changes)
        bare, left_out = bare_keys(changes), self._left_out(changes)
        # A truncate has no row. A flat message is only a row.
        keyed = (ops != TRUNCATE) & ~left_out
        of = np.flatnonzero((ops != BEFORE) & ~left_out & (keyed | (self.unwrap is None)))
        op, preceding = ops[of], np.where(of > 0, ops[of - 1], NO_CHANGE)
        if np.any((op == UPDATE) & (preceding != BEFORE) & (preceding != DELETE)):
            raise KafkaRefused(
                f"an update of {self.mapping.schema.table} has no row before it in the journal; name another position "
                "topic with kafka.position_topic, and request snapshots"
            )
        created = (op == UPDATE) & (preceding == DELETE)  # by an update that changed the key
        shown = np.where(created, CREATE, op)
        told = self._told(shown, of, source, processed_us, transactions)
        unmasked, taken = _only(changes, keyed), pa.array(_places(keyed)[of], mask=op == TRUNCATE)
        keys = self._keys(unmasked, self.destination, self.format).take(taken)
        headers = self._other_keys(unmasked, taken, keys, created)
        whole = keyed & ~bare
        rows, row = self.mapping.mapped(_only(changes, whole), self.handling), _places(whole)[of]
        if self.unwrap is not None:
            there, of_rows = row >= 0, told
            if not there.all():
                of_rows = self._told(shown[there], of[there], source, processed_us, transactions)
            values = self._flat(self.unwrap, rows, row[there], shown[there], of_rows)
            if not there.all():
                values = values.take(pa.array(_places(there), mask=~there))
            topics = self._topics(self.unwrap, rows, row)
            return self._unwrapped(self.unwrap, Messages(keys, values, of, headers, topics), shown, told)
        values = self._values(rows, row, shown, told)
        return self._with_tombstones(Messages(keys, values, of, headers), op)

    def left_out(self, changes: pa.RecordBatch) -> int:
        """Returns how many of these rows make no message: a repair's deletes that lack what says where one goes."""
        return int(np.count_nonzero(self._left_out(changes)))

    def _left_out(self, changes: pa.RecordBatch) -> Flags:
        routed = self.unwrap is not None and self.unwrap.route_by_field is not None
        if self.mapping.within_primary_key and not routed:
            return np.zeros(len(changes), np.bool_)
        return bare_keys(changes)

    def _other_keys(
        self, unmasked: pa.RecordBatch, taken: pa.Array, keys: pa.Array, created: Flags
    ) -> tuple[tuple[str, pa.Array], ...]:
        """Returns the headers of the messages of an update that changed the key: the key of the other message."""
        if not created.any():
            return ()
        named, deleted = keys, np.append(created[1:], False)
        if self.destination.routed or self.headers is not self.format:
            # The headers name the keys that messages have without a route, as with Debezium.
            unrouted = Destination("", f"{self.prefix}.{self.mapping.schema.table.dotted}")
            named = self._keys(unmasked, unrouted, self.headers).take(taken)
        each = np.arange(len(created))
        return (
            (NEW_KEY, named.take(pa.array(np.roll(each, -1), mask=~deleted))),
            (OLD_KEY, named.take(pa.array(each - 1, mask=~created))),
        )

    def _with_tombstones(self, messages: Messages, op: Numbers) -> Messages:
        if not self.tombstones or not self.mapping.key or DELETE not in op:
            return messages
        return messages.taken(*_repeated(op == DELETE))

    def _told(
        self,
        op: Numbers,
        of: Numbers,
        source: SourceBlock,
        processed_us: int,
        blocks: TransactionBlocks | None,
    ) -> BesideRows:
        """Returns what the messages have in addition to their rows, by the names of TOLD_SCHEMAS."""
        source = source if len(of) == len(source.times) else source.taken(pa.array(of))
        fields = source.fields(self.prefix, self.version, self.mapping.schema.table)
        told: dict[str, FieldValue] = {f"source.{name}": each for name, each in fields.items()}
        told["source"] = Block(fields)
        told["transaction"] = None
        told |= dict.fromkeys(f"transaction.{name}" for name in TRANSACTION_FIELDS)
        if blocks is not None:
            block = blocks.taken(pa.array(of)).block()
            told["transaction"] = block
            told |= {f"transaction.{name}": each for name, each in block.fields.items()}
        told["op"] = pa.DictionaryArray.from_arrays(pa.array(op, pa.int8()), LETTERS)
        return told | {"ts_ms": processed_us // 1000, "ts_us": processed_us, "ts_ns": processed_us * 1000}

    def _keys(self, changes: pa.RecordBatch, to: Destination, of: MessageFormat) -> pa.Array:
        if not self.mapping.key:
            return pa.nulls(len(changes), pa.string())
        fields = self._columns(self.mapping.key, changes, of)
        if to.key_field is not None:
            fields[to.key_field[0]] = of.told(to.key_field[1], CONNECT_STRING, len(changes))
        return of.message(of.record(fields, len(changes)), self.key_schema(to))

    def _columns(
        self, columns: Iterable[Column], changes: pa.RecordBatch, of: MessageFormat
    ) -> dict[str, TextPiece]:
        return {each.name: of.column(each, changes.column(each.name), self.handling) for each in columns}

    def _values(self, changes: pa.RecordBatch, of: Numbers, op: Numbers, told: BesideRows) -> pa.Array:
        """Returns the values of messages, each of the row with its number in `of`. It is -1 if there's no row."""
        write, count = self.format, len(of)
        rows = write.record(self._columns(self.mapping.written(self.handling), changes, write), len(changes))
        before = np.where(np.isin(op, (CREATE, READ)), -1, np.where(op == UPDATE, of - 1, of))
        after = np.where(op == DELETE, -1, of)
        fields = {"before": write.optional(rows, before), "after": write.optional(rows, after)}
        fields |= {name: write.told(told[name], TOLD_SCHEMAS[name], count) for name in _BESIDE}
        return write.message(write.record(fields, count), self.value_schema)

    def _flat(
        self, unwrap: Unwrap, changes: pa.RecordBatch, of: Numbers, op: Numbers, told: BesideRows
    ) -> pa.Array:
        """Returns the rows with the added fields. A deleted row has its last values."""
        rows, write = changes.take(pa.array(of)), self.format
        fields = self._columns(self.mapping.written(self.handling), rows, write)
        added: dict[str, FieldValue] = {each.name: told[each.told] for each in unwrap.fields}
        if unwrap.delete_tombstone_handling_mode.rewrites:
            deleted = pa.DictionaryArray.from_arrays(pa.array((op == DELETE).astype(np.int8)), _WHETHER)
            added = {_DELETED: deleted, **added}
        schemas = self._added_schemas(unwrap)
        fields |= {name: write.told(each, schemas[name], len(of)) for name, each in added.items()}
        return write.message(write.record(fields, len(of)), self.flat_schema(unwrap))

    def _topics(self, unwrap: Unwrap, changes: pa.RecordBatch, of: Numbers) -> pa.Array | None:
        """Returns where each message goes, by a column of its row. Raises KafkaRefused if a row has no value there."""
        if (name := unwrap.route_by_field) is None:
            return None
        column = next((column for column in self.mapping.values if column.name == name), None)
        if column is None or not isinstance(column.type, Text):
            raise KafkaRefused(
                f"{self.mapping.schema.table} has no text {name}; see to kafka.unwrap.route_by_field"
            )
        distinct = changes.column(name).take(pa.array(of)).cast(pa.string()).dictionary_encode()
        if distinct.null_count or "" in distinct.dictionary.to_pylist():
            raise KafkaRefused(
                f"{self.mapping.schema.table} has a row without {name}, which says where it goes; "
                "see to kafka.unwrap.route_by_field"
            )
        topics = pa.array([fit_topic(topic) for topic in distinct.dictionary.to_pylist()], pa.string())
        return topics.take(distinct.indices)

    def _unwrapped(self, unwrap: Unwrap, messages: Messages, op: Numbers, told: BesideRows) -> Messages:
        """Returns the messages with their headers, and with deletes in the form that `unwrap` defines."""
        count, deletes = len(op), op == DELETE
        headers = (*messages.headers, *self._headers(unwrap.headers, told, count))
        messages = replace(messages, headers=headers)
        mode = unwrap.delete_tombstone_handling_mode
        index = np.arange(count)
        if mode is DeleteHandling.DROP:
            index = np.flatnonzero(~deletes)
        if mode is DeleteHandling.REWRITE_WITH_TOMBSTONE and self.tombstones and self.mapping.key:
            alone = np.asarray(messages.values.is_null())
            doubled, again = _repeated(deletes & ~alone)
            return self._with_deletes(messages.taken(doubled, again), again | alone[doubled], unwrap)
        emptied = deletes[index] & (not mode.rewrites)
        return messages.taken(index, emptied)

    def _with_deletes(self, messages: Messages, again: Flags, unwrap: Unwrap) -> Messages:
        """Returns the messages. Of the added fields, tombstones have only the operation."""
        deleted = self.headers.message(pa.array(['"d"']), CONNECT_STRING)[0]
        told = {each.name: deleted if each.told == "op" else _NO_TEXT for each in unwrap.headers}
        headers = tuple(
            (name, pc.if_else(pa.array(again), told[name], texts) if name in told else texts)
            for name, texts in messages.headers
        )
        return replace(messages, headers=headers)

    def _headers(
        self, added: Iterable[AddedField], told: BesideRows, count: int
    ) -> Iterable[tuple[str, pa.Array]]:
        for each in added:
            schema = {**TOLD_SCHEMAS[each.told], "optional": True}
            texts = joined(self.headers.told(told[each.told], schema, count), count=count)
            yield each.name, self.headers.message(texts, schema)

    def key_schema(self, to: Destination) -> Schema:
        """Returns the schema of the keys of messages with this destination."""
        added = [] if to.key_field is None else [field(CONNECT_STRING, to.key_field[0])]
        return rows_schema(self.mapping.key, self.handling, f"{to.schemas}.Key", {}, added, optional=False)

    @property
    def message_schema(self) -> Schema:
        """Returns the schema of the messages' values."""
        return self.value_schema if self.unwrap is None else self.flat_schema(self.unwrap)

    @property
    def value_schema(self) -> Schema:
        """Returns the schema of the values in an envelope."""
        name = f"{self.destination.schemas}.Value"
        row = rows_schema(self.mapping.values, self.handling, name, self.mapping.parameters, optional=True)
        fields = {"before": row, "after": row, **{name: TOLD_SCHEMAS[name] for name in _BESIDE}}
        named = (field(schema, name) for name, schema in fields.items())
        return struct(named, name=f"{self.destination.schemas}.Envelope", version=2)

    def flat_schema(self, unwrap: Unwrap) -> Schema:
        """Returns the schema of values that are only rows."""
        name = f"{self.destination.schemas}.Value"
        fields = (field(schema, added) for added, schema in self._added_schemas(unwrap).items())
        return rows_schema(
            self.mapping.values, self.handling, name, self.mapping.parameters, fields, optional=False
        )

    @staticmethod
    def _added_schemas(unwrap: Unwrap) -> dict[str, Schema]:
        """Returns the schemas of the fields that flat rows have in addition, by their names."""
        added = {_DELETED: CONNECT_STRING} if unwrap.delete_tombstone_handling_mode.rewrites else {}
        added |= {each.name: TOLD_SCHEMAS[each.told] for each in unwrap.fields}
        return {name: {**schema, "optional": True} for name, schema in added.items()}


_BESIDE: Final = ("source", "transaction", "op", "ts_ms", "ts_us", "ts_ns")
_DELETED: Final = "__deleted"
_WHETHER: Final = pa.array(["false", "true"])


def _only(changes: pa.RecordBatch, rows: Flags) -> pa.RecordBatch:
    return changes if rows.all() else changes.filter(pa.array(rows))


def _places(rows: Flags) -> Numbers:
    """Returns the place of each of these rows among them, -1 for all others."""
    return np.where(rows, np.cumsum(rows) - 1, -1)


def _repeated(twice: Flags) -> tuple[Numbers, Flags]:
    """Returns the numbers of all messages, some of them twice, and which ones are repetitions."""
    index = np.repeat(np.arange(len(twice)), np.where(twice, 2, 1))
    again = np.zeros(len(index), np.bool_)
    again[1:] = index[1:] == index[:-1]
    return index, again
