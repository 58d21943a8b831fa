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

With `unwrap` a message's value is the row alone, as ExtractNewRecordState makes it.

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
from pipeline.config.unwrapping import AddedField, DeleteHandling, Unwrap
from pipeline.errors import InvariantBroken
from pipeline.kafka.debezium.changed_rows import (
    BEFORE,
    CREATE,
    DELETE,
    LETTERS,
    NONE,
    READ,
    TRUNCATE,
    UPDATE,
    operations,
)
from pipeline.kafka.debezium.connect_schema import TEXT, Schema, field, rows_schema, struct
from pipeline.kafka.debezium.json_values import json_objects, json_text, object_of, with_schema
from pipeline.kafka.debezium.shape import Shape
from pipeline.kafka.debezium.source_block import TOLD_SCHEMAS, SourceBlock
from pipeline.kafka.debezium.text_rows import Chosen, Piece, joined
from pipeline.kafka.debezium.transactions import TransactionBlocks
from pipeline.kafka.errors import KafkaRefused
from pipeline.kafka.topics import Destination, fit_topic
from pipeline.types.column_types import Text

NEW_KEY: Final = "__debezium.newkey"
OLD_KEY: Final = "__debezium.oldkey"

_NO_TEXT: Final = pa.scalar(None, pa.string())
_OF_TRANSACTION: Final = ("id", "total_order", "data_collection_order")

Numbers = NDArray[np.int64] | NDArray[np.int32]
BesideRows = Mapping[str, Piece]


@dataclass(frozen=True, slots=True)
class Messages:
    """The messages of one table's changes, in their order.

    `keys` are null where there's no key, `values` where it's a tombstone. `rows`: of which row of the changes each one
    is. `headers`: their values by their names, null where a message hasn't got one. `topics`: where each one goes, None
    where all go to their table's topic.
    """

    keys: pa.Array
    values: pa.Array
    rows: Numbers
    headers: tuple[tuple[str, pa.Array], ...]
    topics: pa.Array | None = None

    def taken(self, index: Numbers, emptied: NDArray[np.bool_]) -> "Messages":
        """These messages, some of them `emptied`: without a value."""
        rows = pa.array(index)
        headers = tuple((name, texts.take(rows)) for name, texts in self.headers)
        values = self.values.take(pa.array(index, mask=emptied))
        topics = None if self.topics is None else self.topics.take(rows)
        return Messages(self.keys.take(rows), values, self.rows[index], headers, topics)


@dataclass(frozen=True, slots=True)
class Envelope:
    """How a table's messages are made.

    `prefix` is the topics'; `version` that of the software, for `source`. `schemas`: whether each message has its
    schema in it. `tombstones`: whether one follows each delete. `unwrap`: how messages are flat, if they are.
    """

    shape: Shape
    destination: Destination
    prefix: str
    version: str
    handling: Handling
    schemas: bool = False
    tombstones: bool = True
    unwrap: Unwrap | None = None

    def messages(
        self,
        changes: pa.RecordBatch,
        source: SourceBlock,
        processed_us: int,
        transactions: TransactionBlocks | None = None,
    ) -> Messages:
        """The messages of these rows, of which `processed_us` says when they were made (µs since the epoch).

        `transactions` are the rows' blocks, where these are wanted. The updates are by the messages' key
        (`Shape.with_keys`).

        A row that belongs to the one before it is in the same batch. Raises InvariantBroken for an update without its
        row before, and KafkaRefused for one that lacks what messages need.
        """
        unmasked, changes = changes, self.shape.shaped(changes)
        ops = operations(changes)
        of = np.flatnonzero(ops != BEFORE)
        op, preceding = ops[of], np.where(of > 0, ops[of - 1], NONE)
        if np.any((op == UPDATE) & (preceding != BEFORE) & (preceding != DELETE)):
            raise InvariantBroken(f"an update of {self.shape.schema.table} has no row before it")
        created = (op == UPDATE) & (preceding == DELETE)  # by an update that changed the key
        deleted = np.zeros(len(of), np.bool_)
        deleted[:-1] = created[1:]
        shown = np.where(created, CREATE, op)
        told = self._told(shown, of, source, processed_us, transactions)
        taken = pa.array(of, mask=op == TRUNCATE)
        keys = self._keys(unmasked, self.destination).take(taken)
        # The headers name the keys that messages have without a route, as with Debezium.
        unrouted = Destination("", f"{self.prefix}.{self.shape.schema.table.dotted}")
        named = (
            self._keys(unmasked, unrouted).take(taken) if created.any() and self.destination.routed else keys
        )
        following = np.roll(np.arange(len(of)), -1)
        headers = (
            (NEW_KEY, named.take(pa.array(following, mask=~deleted))),
            (OLD_KEY, named.take(pa.array(np.arange(len(of)) - 1, mask=~created))),
        )
        if self.unwrap is not None:
            values = self._flat(self.unwrap, changes, of, shown, told)
            topics = self._topics(self.unwrap, changes, of, shown)
            return self._unwrapped(self.unwrap, Messages(keys, values, of, headers, topics), shown, told)
        values = self._values(changes, of, shown, told)
        return self._with_tombstones(Messages(keys, values, of, headers), op)

    def _with_tombstones(self, messages: Messages, op: Numbers) -> Messages:
        if not self.tombstones or not self.shape.key or DELETE not in op:
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
        """What the messages say beside their rows, by the names of TOLD_SCHEMAS."""
        count = len(of)
        fields = source.taken(pa.array(of)).texts(self.prefix, self.version, self.shape.schema.table)
        told: dict[str, Piece] = {f"source.{name}": texts for name, texts in fields.items()}
        told["transaction"] = "null"
        told |= dict.fromkeys((f"transaction.{name}" for name in _OF_TRANSACTION), "null")
        if blocks is not None:
            taken = blocks.taken(pa.array(of))
            told["transaction"] = taken.texts(count)
            told |= {f"transaction.{name}": texts for name, texts in taken.fields().items()}
        told["op"] = joined('"', Chosen(LETTERS, op.astype(np.int64)), '"', count=count)
        times = {"ts_ms": processed_us // 1000, "ts_us": processed_us, "ts_ns": processed_us * 1000}
        return told | {name: str(time) for name, time in times.items()}

    def _keys(self, changes: pa.RecordBatch, to: Destination) -> pa.Array:
        if not self.shape.key:
            return pa.nulls(len(changes), pa.string())
        added = {} if to.key_field is None else {to.key_field[0]: json_text(to.key_field[1])}
        keys = json_objects(self.shape.key, changes, self.handling, added)
        return with_schema(keys, self.key_schema(to)) if self.schemas else keys

    def _values(self, changes: pa.RecordBatch, of: Numbers, op: Numbers, told: BesideRows) -> pa.Array:
        objects = json_objects(self.shape.values, changes, self.handling)
        before = np.where(np.isin(op, (CREATE, READ, TRUNCATE)), -1, np.where(op == UPDATE, of - 1, of))
        after = np.where(np.isin(op, (DELETE, TRUNCATE)), -1, of)
        rows: dict[str, Piece] = {"before": Chosen(objects, before), "after": Chosen(objects, after)}
        source = {
            name.removeprefix("source."): texts for name, texts in told.items() if name.startswith("source.")
        }
        beside = {"source": object_of(source, len(of)), **{name: told[name] for name in _BESIDE[1:]}}
        values = object_of(rows | beside, len(of))
        return with_schema(values, self.value_schema) if self.schemas else values

    def _flat(
        self, unwrap: Unwrap, changes: pa.RecordBatch, of: Numbers, op: Numbers, told: BesideRows
    ) -> pa.Array:
        """The rows, deleted ones as they were, with what is added to them."""
        added: dict[str, Piece] = {}
        if unwrap.delete_tombstone_handling_mode.rewrites:
            added[_DELETED] = pc.if_else(pa.array(op == DELETE), '"true"', '"false"')
        added |= {each.name: told[each.told] for each in unwrap.fields}
        rows = changes.take(pa.array(of))
        values = json_objects(self.shape.values, rows, self.handling, added)
        return with_schema(values, self.flat_schema(unwrap)) if self.schemas else values

    def _topics(self, unwrap: Unwrap, changes: pa.RecordBatch, of: Numbers, op: Numbers) -> pa.Array | None:
        """Where each message goes by a column of its row. Raises KafkaRefused where that says nothing."""
        if (name := unwrap.route_by_field) is None:
            return None
        column = next((column for column in self.shape.values if column.name == name), None)
        if column is None or not isinstance(column.type, Text):
            raise KafkaRefused(
                f"{self.shape.schema.table} has no text {name}; see to kafka.unwrap.route_by_field"
            )
        named = changes.column(name).take(pa.array(of))
        distinct = pc.if_else(pa.array(op == TRUNCATE), _NO_TEXT, named.cast(pa.string())).dictionary_encode()
        if distinct.null_count > np.count_nonzero(op == TRUNCATE) or "" in distinct.dictionary.to_pylist():
            raise KafkaRefused(
                f"{self.shape.schema.table} has a row without {name}, which says where it goes; "
                "see to kafka.unwrap.route_by_field"
            )
        topics = pa.array([fit_topic(topic) for topic in distinct.dictionary.to_pylist()], pa.string())
        return topics.take(distinct.indices)

    def _unwrapped(self, unwrap: Unwrap, messages: Messages, op: Numbers, told: BesideRows) -> Messages:
        """The messages with their headers, and with the deletes as `unwrap` wants them."""
        count, deletes = len(op), op == DELETE
        headers = (*messages.headers, *self._headers(unwrap.headers, told, count))
        messages = replace(messages, headers=headers)
        mode = unwrap.delete_tombstone_handling_mode
        index = np.flatnonzero(op != TRUNCATE)
        if mode is DeleteHandling.DROP:
            index = np.flatnonzero(~deletes & (op != TRUNCATE))
        if mode is DeleteHandling.REWRITE_WITH_TOMBSTONE and self.tombstones and self.shape.key:
            doubled, again = _repeated(deletes)
            kept = op[doubled] != TRUNCATE
            return self._with_deletes(messages.taken(doubled[kept], again[kept]), again[kept], unwrap)
        emptied = deletes[index] & (not mode.rewrites)
        return messages.taken(index, emptied)

    def _with_deletes(self, messages: Messages, again: NDArray[np.bool_], unwrap: Unwrap) -> Messages:
        """The messages; of what is added, tombstones tell the operation alone."""
        texts = pa.array(['"d"'])
        deleted = (with_schema(texts, TEXT) if self.schemas else texts)[0]
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
            texts = told[each.told]
            texts = texts if isinstance(texts, pa.Array) else joined(texts, count=count)
            schema = {**TOLD_SCHEMAS[each.told], "optional": True}
            yield each.name, with_schema(texts, schema) if self.schemas else texts

    def key_schema(self, to: Destination) -> Schema:
        """The schema of the keys of messages that go there."""
        added = [] if to.key_field is None else [field(TEXT, to.key_field[0])]
        return rows_schema(self.shape.key, self.handling, f"{to.schemas}.Key", {}, added, optional=False)

    @property
    def value_schema(self) -> Schema:
        """The schema of the values."""
        name = f"{self.destination.schemas}.Value"
        row = rows_schema(self.shape.values, self.handling, name, self.shape.parameters, optional=True)
        fields = {"before": row, "after": row, **{name: TOLD_SCHEMAS[name] for name in _BESIDE}}
        named = (field(schema, name) for name, schema in fields.items())
        return struct(named, name=f"{self.destination.schemas}.Envelope", version=2)

    def flat_schema(self, unwrap: Unwrap) -> Schema:
        """The schema of values that are rows alone."""
        schema_name = f"{self.destination.schemas}.Value"
        rewrites = unwrap.delete_tombstone_handling_mode.rewrites
        added = {_DELETED: TEXT} if rewrites else {}
        added |= {each.name: TOLD_SCHEMAS[each.told] for each in unwrap.fields}
        fields = (field({**schema, "optional": True}, name) for name, schema in added.items())
        return rows_schema(
            self.shape.values, self.handling, schema_name, self.shape.parameters, fields, optional=False
        )


_BESIDE: Final = ("source", "transaction", "op", "ts_ms", "ts_us", "ts_ns")
_DELETED: Final = "__deleted"


def _repeated(twice: NDArray[np.bool_]) -> tuple[Numbers, NDArray[np.bool_]]:
    """The numbers of all messages, some of them twice, and which ones are there again."""
    index = np.repeat(np.arange(len(twice)), np.where(twice, 2, 1))
    again = np.zeros(len(index), np.bool_)
    again[1:] = index[1:] == index[:-1]
    return index, again
