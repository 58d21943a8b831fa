"""Messages in Avro, as AvroConverter writes them, without the wire format's head (`wire_format`).

Only records, and values of a single column, are messages. A single value that is null is no message: AvroConverter
sends nothing for it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.config.message_handling import Handling
from pipeline.kafka.avro.avro_schema import null_first
from pipeline.kafka.avro.avro_values import (
    BYTES,
    NULL_FIRST,
    NULL_LAST,
    REQUIRED,
    Branches,
    avro_lists,
    avro_values,
    chosen,
    unquoted,
)
from pipeline.kafka.debezium.connect_schema import Schema
from pipeline.kafka.debezium.connect_values import connect_values, quoted_texts, with_epochs
from pipeline.kafka.debezium.message_format import Block, BlockList, FieldValue, item_schema
from pipeline.kafka.debezium.text_rows import Chosen, TextPiece, joined
from pipeline.kafka.errors import KafkaRefused
from pipeline.schema.table_schema import Column
from pipeline.types.buffers import Longs


@dataclass(frozen=True, slots=True)
class AvroFormat:
    """Writes Avro's binary encoding."""

    def column(self, column: Column, values: pa.Array, handling: Handling) -> pa.Array:
        """Returns the values of a column in each row. Raises KafkaRefused for a null that the schema excludes."""
        values = with_epochs(column, values)
        branches = NULL_FIRST if column.nullable else REQUIRED
        texts = quoted_texts(column, values, handling)
        connected = connect_values(column, values, handling) if texts is None else texts
        if not column.nullable and (values.null_count or connected.null_count):
            raise KafkaRefused(
                f"{column.name} is NOT NULL and has a value that Connect has no form of; see to "
                "kafka.time_precision_mode, or leave the column out with kafka.column_exclude_list"
            )
        if texts is None:
            return avro_values(connected, branches)
        return unquoted(texts, pc.and_(values.is_valid(), texts.is_valid()), branches)

    def single(self, column: Column, values: pa.Array, handling: Handling) -> pa.Array:
        """Returns messages that are only a column's values, and none for a null."""
        return pc.if_else(values.is_valid(), self.column(column, values, handling), pa.scalar(None, BYTES))

    def told(self, told: FieldValue, schema: Schema, count: int) -> TextPiece:
        """Returns a value of this Connect schema in each of `count` rows."""
        branches = _branches(schema)
        match told:
            case None:
                return branches.before_none
            case str() | int():
                return bytes(avro_values(pa.array([told]), branches)[0].as_py())
            case Block(fields, exists):
                record = self._record(fields, schema, count)
                if exists is None:
                    return joined(branches.before_some, record, count=count, kind=BYTES)
                return chosen(record, np.where(exists, np.arange(count), -1), branches)
            case BlockList(items, ends, exists):
                of_items = item_schema(schema)
                inner = _branches(of_items)
                records = self._record(items.fields, of_items, int(ends[-1]))
                items_ = joined(inner.before_some, records, count=len(records), kind=BYTES)
                return chosen(avro_lists(items_, ends), np.where(exists, np.arange(count), -1), branches)
            case pa.DictionaryArray():
                which = np.asarray(pc.fill_null(told.indices, -1)).astype(np.int64)
                return Chosen(avro_values(told.dictionary, branches), which, branches.before_none)
            case pa.Array():
                return avro_values(told, branches)
            case _:
                assert_never(told)

    def record(self, fields: Mapping[str, TextPiece], count: int) -> pa.Array:
        """Returns records of these fields."""
        return joined(*fields.values(), count=count, kind=BYTES)

    def optional(self, records: pa.Array, rows: Longs) -> TextPiece:
        """Returns the record that each row has by its number, null for a negative number."""
        return chosen(records, rows, NULL_FIRST)

    def message(self, payloads: pa.Array, schema: Schema) -> pa.Array:  # noqa: ARG002 - the registry has the schema
        """Returns the payloads: the registry has the schema."""
        return payloads

    def _record(self, fields: Mapping[str, FieldValue], schema: Schema, count: int) -> pa.Array:
        schemas = {each["field"]: each for each in schema["fields"]}
        return self.record(
            {name: self.told(told, schemas[name], count) for name, told in fields.items()}, count
        )


def _branches(schema: Schema) -> Branches:
    if not schema["optional"]:
        return REQUIRED
    return NULL_FIRST if null_first(schema) else NULL_LAST


AVRO: Final = AvroFormat()
