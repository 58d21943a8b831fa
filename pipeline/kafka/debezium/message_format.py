"""What every format of messages can write: the columns of rows, and the values that messages have in addition.

A format writes pieces of rows (`text_rows`), and joins them to records. It takes an additional value in one of the
forms of `FieldValue`, with the Connect schema of that value.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import pyarrow as pa

from pipeline.config.message_handling import Handling
from pipeline.kafka.debezium.connect_schema import Schema, field, struct
from pipeline.kafka.debezium.text_rows import TextPiece
from pipeline.schema.table_schema import Column
from pipeline.types.buffers import Ends, Flags, Longs


@dataclass(frozen=True, slots=True)
class Block:
    """A struct of these fields in each row. `exists`: the rows that have it, None if all do."""

    fields: Mapping[str, "FieldValue"]
    exists: Flags | None = None


@dataclass(frozen=True, slots=True)
class BlockList:
    """A list of structs in each row. `items` lie end to end; those of row i are from ends[i] to ends[i + 1].

    `exists`: the rows that have a list. If the schema is a map's, an item is an entry: `key` and `value`.
    """

    items: Block
    ends: Ends
    exists: Flags


def item_schema(schema: Schema) -> Schema:
    """Returns the Connect schema of the items of a list, or of the entries of a map."""
    if schema["type"] == "map":
        entry = {"key": schema["keys"], "value": schema["values"]}
        return struct(field(each, name) for name, each in entry.items())
    items: Schema = schema["items"]
    return items


# A value for all rows, or one for each: texts or whole numbers in an array (texts maybe in a dictionary's), with nulls.
FieldValue: TypeAlias = str | int | pa.Array | Block | BlockList | None


class MessageFormat(Protocol):
    """Writes keys and values."""

    def column(self, column: Column, values: pa.Array, handling: Handling) -> TextPiece:
        """Returns the values of a column, from its canonical Arrow form, in each row."""

    def single(self, column: Column, values: pa.Array, handling: Handling) -> pa.Array:
        """Returns complete keys or values that are only a column's values."""

    def told(self, told: FieldValue, schema: Schema, count: int) -> TextPiece:
        """Returns a value of this Connect schema in each of `count` rows."""

    def record(self, fields: Mapping[str, TextPiece], count: int) -> pa.Array:
        """Returns records of these fields, which are in the order of their schema."""

    def optional(self, records: pa.Array, rows: Longs) -> TextPiece:
        """Returns the record that each row has by its number, null for a negative number. The schema is optional."""

    def message(self, payloads: pa.Array, schema: Schema) -> pa.Array:
        """Returns complete keys or values of these payloads, each of this Connect schema."""


@dataclass(frozen=True, slots=True)
class MessagePairs:
    """Keys and values, in their order, and the Connect schemas of both."""

    keys: pa.Array
    values: pa.Array
    key_schema: Schema
    value_schema: Schema


def told_pairs(
    of: MessageFormat, key: Block, value: Block, schemas: tuple[Schema, Schema], count: int
) -> MessagePairs:
    """Returns `count` messages with these fields, for the Connect schemas of the key and of the value."""
    keys, values = (_told_records(of, *each, count) for each in zip((key, value), schemas, strict=True))
    return MessagePairs(keys, values, *schemas)


def _told_records(of: MessageFormat, block: Block, schema: Schema, count: int) -> pa.Array:
    schemas = {each["field"]: each for each in schema["fields"]}
    pieces = {name: of.told(told, schemas[name], count) for name, told in block.fields.items()}
    return of.message(of.record(pieces, count), schema)
