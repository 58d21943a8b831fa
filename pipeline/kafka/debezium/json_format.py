"""Messages in JSON, as Kafka Connect's JsonConverter writes them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, assert_never

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.config.message_handling import Handling
from pipeline.kafka.debezium.connect_schema import Schema, column_schema
from pipeline.kafka.debezium.json_values import (
    json_piece,
    json_text,
    json_told,
    json_values,
    object_of,
    object_piece,
    with_schema,
)
from pipeline.kafka.debezium.message_format import Block, BlockList, FieldValue, item_schema
from pipeline.kafka.debezium.text_rows import Chosen, TextPiece, joined
from pipeline.schema.table_schema import Column
from pipeline.types.buffers import Longs


@dataclass(frozen=True, slots=True)
class JsonFormat:
    """`schemas`: whether each key and each value contains its schema."""

    schemas: bool = False

    def column(self, column: Column, values: pa.Array, handling: Handling) -> TextPiece:
        """Returns the values of a column in each row."""
        return json_piece(column, values, handling)

    def single(self, column: Column, values: pa.Array, handling: Handling) -> pa.Array:
        """Returns messages that are only a column's values."""
        return self.message(json_values(column, values, handling), column_schema(column, handling))

    def told(self, told: FieldValue, schema: Schema, count: int) -> TextPiece:
        """Returns a value in each row. Its schema makes no difference."""
        match told:
            case None:
                return "null"
            case str():
                return json_text(told)
            case int():
                return str(told)
            case Block(fields, exists):
                pieces = self._pieces(fields, schema, count)
                return (
                    object_piece(pieces) if exists is None else Chosen(object_of(pieces, count)).where(exists)
                )
            case BlockList(items, ends, exists):
                total, (begin, end) = int(ends[-1]), "{}" if schema["type"] == "map" else "[]"
                pieces = self._pieces(items.fields, item_schema(schema), total)
                if schema["type"] == "map":
                    objects = joined(pieces["key"], ":", pieces["value"], count=total)
                else:
                    objects = object_of(pieces, total)
                inner = pc.binary_join(pa.ListArray.from_arrays(pa.array(ends), objects), ",")
                return Chosen(joined(begin, inner, end, count=count)).where(exists)
            case pa.Array():
                return json_told(told)
            case _:
                assert_never(told)

    def record(self, fields: Mapping[str, TextPiece], count: int) -> pa.Array:
        """Returns objects of these fields."""
        return object_of(fields, count)

    def optional(self, records: pa.Array, rows: Longs) -> TextPiece:
        """Returns the object that each row has by its number, and `null` for a negative number."""
        return Chosen(records, rows)

    def message(self, payloads: pa.Array, schema: Schema) -> pa.Array:
        """Returns the payloads, with their schema if the settings want it."""
        return with_schema(payloads, schema) if self.schemas else payloads

    def _pieces(self, fields: Mapping[str, FieldValue], schema: Schema, count: int) -> dict[str, TextPiece]:
        schemas = {each["field"]: each for each in schema["fields"]}
        return {name: self.told(told, schemas[name], count) for name, told in fields.items()}


JSON: Final = JsonFormat()
