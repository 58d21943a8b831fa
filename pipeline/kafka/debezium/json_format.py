"""Messages in JSON, as Kafka Connect's JsonConverter writes them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.config.message_handling import Handling
from pipeline.kafka.debezium.connect_schema import Schema, column_schema
from pipeline.kafka.debezium.json_values import (
    escaped,
    integers,
    json_text,
    json_values,
    object_of,
    with_schema,
)
from pipeline.kafka.debezium.message_format import Block, BlockList, Told, item_schema
from pipeline.kafka.debezium.text_rows import Chosen, Piece, joined, or_null
from pipeline.schema.table_schema import Column
from pipeline.types.buffers import Longs


@dataclass(frozen=True, slots=True)
class JsonFormat:
    """`schemas`: whether each key and each value has its schema in it."""

    schemas: bool = False

    def column(self, column: Column, values: pa.Array, handling: Handling) -> pa.Array:
        """The values of a column in each row."""
        return json_values(column, values, handling)

    def single(self, column: Column, values: pa.Array, handling: Handling) -> pa.Array:
        """Messages that are a column's values alone."""
        return self.message(self.column(column, values, handling), column_schema(column, handling))

    def told(self, told: Told, schema: Schema, count: int) -> Piece:
        """A value in each row; nothing depends on its schema."""
        match told:
            case None:
                return "null"
            case str():
                return json_text(told)
            case int():
                return str(told)
            case Block(fields, exists):
                record = object_of(self._pieces(fields, schema, count), count)
                return record if exists is None else Chosen(record, np.where(exists, np.arange(count), -1))
            case BlockList(items, ends, exists):
                total, (begin, end) = int(ends[-1]), "{}" if schema["type"] == "map" else "[]"
                pieces = self._pieces(items.fields, item_schema(schema), total)
                if schema["type"] == "map":
                    objects = joined(pieces["key"], ":", pieces["value"], count=total)
                else:
                    objects = object_of(pieces, total)
                inner = pc.binary_join(pa.ListArray.from_arrays(pa.array(ends), objects), ",")
                return or_null(pc.if_else(pa.array(exists), joined(begin, inner, end, count=count), None))
            case pa.Array():
                if pa.types.is_integer(told.type):
                    return or_null(integers(told)) if told.null_count else integers(told)
                return _escaped_once(told)
            case _:
                assert_never(told)

    def record(self, fields: Mapping[str, Piece], count: int) -> pa.Array:
        """Objects of these fields."""
        return object_of(fields, count)

    def optional(self, records: pa.Array, rows: Longs) -> Piece:
        """The object that each row has by its number, and `null` where that's negative."""
        return Chosen(records, rows)

    def message(self, payloads: pa.Array, schema: Schema) -> pa.Array:
        """The payloads, with their schema where that's wanted."""
        return with_schema(payloads, schema) if self.schemas else payloads

    def _pieces(self, fields: Mapping[str, Told], schema: Schema, count: int) -> dict[str, Piece]:
        schemas = {each["field"]: each for each in schema["fields"]}
        return {name: self.told(told, schemas[name], count) for name, told in fields.items()}


def _escaped_once(texts: pa.Array) -> Chosen:
    """Texts as JSON, each that comes again and again escaped once."""
    found = texts if isinstance(texts, pa.DictionaryArray) else texts.dictionary_encode()
    return Chosen(escaped(found.dictionary), np.asarray(pc.fill_null(found.indices, -1)).astype(np.int64))


JSON: Final = JsonFormat()
