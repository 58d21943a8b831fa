"""The form in which a table's rows become messages: which columns, with which values, under which key.

All of it happens once for a batch, in columns. Each distinct value is hashed once.

A value that the log left out is never null: text, bytes, JSON, ENUM and SET have the placeholder instead. A number or a
time has no such value. Then the sink refuses the row.

Source: Debezium 3.6, `io.debezium.relational.mapping` and `unavailable.value.placeholder`.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.config.column_rules import ColumnRule, MessageColumns
from pipeline.config.message_handling import Handling
from pipeline.journal.change_rows import SOURCE
from pipeline.kafka.debezium.changed_rows import BEFORE, DELETE, LETTERS, NO_CHANGE, UPDATE, operations
from pipeline.kafka.debezium.connect_values import cut_texts, is_cut
from pipeline.kafka.debezium.json_values import json_objects
from pipeline.kafka.errors import KafkaRefused
from pipeline.schema.table_schema import Column, TableSchema
from pipeline.types.column_types import Binary, Enum, FixedBinary, Json, Set, Text

PLACEHOLDER = "__debezium_unavailable_value"

_CUT: Final = Text("utf8mb4")

# Java's ObjectOutputStream: the stream's header, and what comes before a short and a long text.
_STREAM: Final = b"\xac\xed\x00\x05"
_SHORT_TEXT: Final = b"t"
_LONG_TEXT: Final = b"|"
_LONGEST_SHORT: Final = 0xFFFF
# A text has these bytes only if Java writes it otherwise: NUL, and the first bytes of supplementary characters.
_OTHERWISE: Final = re.compile(rb"[\x00\xf0-\xf4]")


@dataclass(frozen=True)
class TableMapping:
    """The form of one table's messages."""

    schema: TableSchema
    columns: MessageColumns = field(default_factory=MessageColumns)
    placeholder: str = PLACEHOLDER

    @cached_property
    def values(self) -> tuple[Column, ...]:
        """Returns the columns of the rows."""
        return self.columns.values_of(self.schema)

    @cached_property
    def key(self) -> tuple[Column, ...]:
        """Returns the columns of the keys."""
        return self.columns.key_of(self.schema)

    @cached_property
    def rules(self) -> Mapping[str, ColumnRule]:
        """Returns the rules that change columns' values, by the columns' names."""
        return self.columns.rules_of(self.schema)

    def written(self, handling: Handling) -> tuple[Column, ...]:
        """Returns the columns of the rows as `mapped` leaves them: those that it cuts as texts are texts."""
        return tuple(
            replace(column, type=_CUT) if self._cut(column, handling) is not None else column
            for column in self.values
        )

    def _cut(self, column: Column, handling: Handling) -> int | None:
        """Returns after how many characters a column is cut whose values become texts, None if it isn't."""
        rule = self.rules.get(column.name)
        most = None if rule is None else rule.truncate_to_length
        return most if most is not None and is_cut(column, handling, most) else None

    @cached_property
    def parameters(self) -> Mapping[str, Mapping[str, str]]:
        """Returns what the schemas say about these rules, by the columns' names."""
        return {
            name: {"masked": "true"}
            if rule.truncate_to_length is None
            else {"truncateLength": str(rule.truncate_to_length)}
            for name, rule in self.rules.items()
        }

    @property
    def rekeyed(self) -> bool:
        """Returns whether the key isn't the primary key."""
        return self.key != self.schema.key_columns

    @property
    def within_primary_key(self) -> bool:
        """Returns whether the primary key has all columns of the key."""
        primary = self.schema.key_columns
        return all(column in primary for column in self.key)

    @property
    def needed(self) -> tuple[str, ...]:
        """Returns the columns that `with_keys` needs."""
        return tuple(column.name for column in self.key) if self.rekeyed else ()

    def with_keys(self, changes: pa.RecordBatch) -> pa.RecordBatch:
        """Returns the rows with their updates by the messages' key: `b` if it kept the key, `d` if it changed it."""
        if not self.rekeyed:
            return changes
        ops = operations(changes).copy()
        preceding = np.append(NO_CHANGE, ops[:-1])[: len(ops)]
        after = np.flatnonzero((ops == UPDATE) & ((preceding == BEFORE) | (preceding == DELETE)))
        keys = json_objects(self.key, changes, Handling())
        same = pc.equal(keys.take(pa.array(after - 1)), keys.take(pa.array(after)))
        ops[after - 1] = np.where(np.asarray(same), BEFORE, DELETE)
        return _with_operations(changes, LETTERS.take(pa.array(ops)))

    def mapped(self, changes: pa.RecordBatch, handling: Handling | None = None) -> pa.RecordBatch:
        """Returns the rows with the values that messages have. Keys keep the source's, as with Debezium.

        `handling`: how values become texts, which a rule cuts; None leaves these values as they are.

        Raises KafkaRefused if the log left out a value that has no placeholder.
        """
        for column in self.key:
            if _lacking(changes, column.name) is not None:
                raise self._refusal(column)
        for column in self.values:
            values = changes.column(column.name)
            lacking = _lacking(changes, column.name)
            if lacking is not None:
                values = self._unavailable(column, values, lacking)
            rule = self.rules.get(column.name)
            cut = None if handling is None else self._cut(column, handling)
            if handling is not None and cut is not None:
                values = cut_texts(column, values, handling, cut)
            elif rule is not None and isinstance(column.type, Text | Enum | Set | Binary | FixedBinary):
                values = _ruled(column, values, rule)
            if values is not changes.column(column.name):
                at = changes.schema.get_field_index(column.name)
                changes = changes.set_column(at, column.name, values)
        return changes

    def _unavailable(self, column: Column, values: pa.Array, lacking: pa.Array) -> pa.Array:
        if not isinstance(column.type, Text | Json | Enum | Set | Binary | FixedBinary):
            raise self._refusal(column)
        return pc.if_else(lacking, pa.scalar(self.placeholder).cast(values.type), values)

    def _refusal(self, column: Column) -> KafkaRefused:
        return KafkaRefused(
            f"{self.schema.table} has rows without {column.name}, and null would be a lie; set "
            "binlog_row_image = FULL at the source, make the column STORED if it is VIRTUAL, or leave it out with "
            "kafka.column_exclude_list"
        )


@lru_cache(maxsize=4096)
def map_table(schema: TableSchema, columns: MessageColumns, placeholder: str) -> TableMapping:
    """Returns the form of a table's messages."""
    return TableMapping(schema, columns, placeholder)


def _with_operations(changes: pa.RecordBatch, ops: pa.Array) -> pa.RecordBatch:
    """Returns the rows with these letters, which alone say which rows are an update."""
    changes = changes.set_column(changes.schema.get_field_index("__op"), "__op", ops)
    at = changes.schema.get_field_index(SOURCE.name)
    if at < 0:
        return changes
    source = changes.column(at)
    fields = dict(zip((each.name for each in source.type), source.flatten(), strict=True))
    fields["update"] = pa.nulls(len(source), pa.bool_())
    told = pa.StructArray.from_arrays(list(fields.values()), fields=list(source.type), mask=source.is_null())
    return changes.set_column(at, SOURCE.name, told)


def _lacking(changes: pa.RecordBatch, name: str) -> pa.Array | None:
    """Returns which rows lack the column's value, None if all have it."""
    absent = changes.column("__absent")
    if absent.null_count == len(absent):
        return None
    rows = pc.list_parent_indices(absent).filter(pc.equal(pc.list_flatten(absent), name))
    if not len(rows):
        return None
    lacking = np.zeros(len(absent), np.bool_)
    lacking[np.asarray(rows)] = True
    return pa.array(lacking)


def _ruled(column: Column, values: pa.Array, rule: ColumnRule) -> pa.Array:
    """Returns the values after a rule. A mask and a hash leave bytes as they are, as with Debezium."""
    if rule.truncate_to_length is not None:
        if isinstance(column.type, Binary | FixedBinary):
            return pc.binary_slice(values, 0, rule.truncate_to_length)
        return pc.utf8_slice_codeunits(values, 0, rule.truncate_to_length)
    if isinstance(column.type, Binary | FixedBinary):
        return values
    if rule.mask_with_length is not None:
        return pa.repeat(pa.scalar("*" * rule.mask_with_length, values.type), len(values))
    return _hashed(values, rule) if rule.hash is not None else values


def _hashed(values: pa.Array, rule: ColumnRule) -> pa.Array:
    distinct = values.dictionary_encode()
    digests = [_digest(text, rule) for text in distinct.dictionary.cast(pa.binary()).to_pylist()]
    return pa.array(digests, values.type).take(distinct.indices)


def _digest(text: bytes, rule: ColumnRule) -> str:
    assert rule.hash is not None
    if rule.hash_version == 1:
        text = _serialized(text)
    name = rule.hash.value.replace("-", "").lower()
    return hashlib.new(name, rule.salt.value.encode() + text, usedforsecurity=False).hexdigest()


def _serialized(text: bytes) -> bytes:
    """Returns a text (UTF-8) as ObjectOutputStream writes it. Source: Java Object Serialization Specification, 6."""
    written = _modified_utf8(text)
    if len(written) <= _LONGEST_SHORT:
        return _STREAM + _SHORT_TEXT + len(written).to_bytes(2, "big") + written
    return _STREAM + _LONG_TEXT + len(written).to_bytes(8, "big") + written


def _modified_utf8(text: bytes) -> bytes:
    """Returns a text (UTF-8) as DataOutput writes it: NUL as two bytes, a supplementary character as two surrogates."""
    if _OTHERWISE.search(text) is None:
        return text
    units = np.frombuffer(text.decode().encode("utf-16-le"), "<u2").astype("<u4")
    surrogates = units.tobytes().decode("utf-32-le", "surrogatepass")
    return surrogates.encode("utf-8", "surrogatepass").replace(b"\x00", b"\xc0\x80")
