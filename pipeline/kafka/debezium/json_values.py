"""The values of a column as JSON texts, as Debezium's connector and Kafka Connect's JsonConverter write them.

Each function takes a column in its canonical Arrow form (`pipeline.types.column_types`). A NULL is `null`. Integers and
texts without escapes stay as they are until their row is written. A batch has less than 2 GiB of text.

**Differences from Debezium**, each with its reason:

- A comma in an ENUM's label has no backslash before it. Debezium adds one, because it keeps labels in a list of text.
- JSON keeps the server's own text. Debezium writes the document again, without spaces and with other doubles.
- A value that no calendar has (a zero date) in a column that is NOT NULL is the epoch, as with Debezium.

Source: Debezium 3.6, "Data type mappings"; each mode was compared with the messages of a real connector.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.config.message_handling import Handling
from pipeline.kafka.debezium import json_kernels as kernels
from pipeline.kafka.debezium.connect_schema import Schema
from pipeline.kafka.debezium.connect_values import base64_texts, connect_values, quoted_texts, with_epochs
from pipeline.kafka.debezium.text_rows import Chosen, TextPiece, joined, text_array
from pipeline.schema.table_schema import Column
from pipeline.types.arrow_arrays import bytes_of
from pipeline.types.buffers import Flags, Longs

_SUPPLEMENTARY: Final = re.compile("[\U00010000-\U0010ffff]")


def json_objects(columns: Sequence[Column], rows: pa.RecordBatch, handling: Handling) -> pa.Array:
    """Returns each row as a JSON object of these columns, which the batch has by their names."""
    fields = {each.name: json_piece(each, rows.column(each.name), handling) for each in columns}
    return object_of(fields, rows.num_rows)


def object_of(fields: Mapping[str, TextPiece], count: int) -> pa.Array:
    """Returns JSON objects of these fields."""
    return joined(object_piece(fields), count=count)


def object_piece(fields: Mapping[str, TextPiece]) -> tuple[TextPiece, ...]:
    """Returns JSON objects of these fields as a piece of rows."""
    pieces: list[TextPiece] = []
    for name, texts in fields.items():
        pieces += [f"{',' if pieces else '{'}{json_text(name)}:", texts]
    return (*pieces, "}" if pieces else "{}")


def with_schema(payloads: pa.Array, schema: Schema) -> pa.Array:
    """Returns the JSON of each payload with its Connect schema before it."""
    return joined(before_payload(schema), payloads, "}", count=len(payloads))


def before_payload(schema: Schema) -> str:
    """Returns the text before a payload with this Connect schema."""
    text = json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
    # Jackson writes a character beyond U+FFFF as its two units of UTF-16.
    text = _SUPPLEMENTARY.sub(lambda found: json.dumps(found[0]).strip('"').upper().replace("U", "u"), text)
    return f'{{"schema":{text},"payload":'


def json_text(text: str) -> str:
    """Returns a text as JSON, as Jackson writes it."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return str(_escaped(pa.array([text]))[0])


def json_values(column: Column, values: pa.Array, handling: Handling) -> pa.Array:
    """Returns the JSON text of each value of a column. Raises ArrowInvalid if a moment has no number of nanoseconds."""
    return joined(json_piece(column, values, handling), count=len(values))


def json_piece(column: Column, values: pa.Array, handling: Handling) -> Chosen:
    """Returns the values of a column as a piece of rows of JSON. Raises ArrowInvalid as `json_values` does."""
    values = with_epochs(column, values)
    texts = quoted_texts(column, values, handling)
    told = json_told(connect_values(column, values, handling)) if texts is None else _where(texts)
    return told.where(_exist(values))


def json_told(values: pa.Array) -> Chosen:
    """Returns Connect's values as a piece of rows of JSON; texts may be in a dictionary."""
    if isinstance(values, pa.DictionaryArray):
        return json_told(values.dictionary).taken(_int64(pc.fill_null(values.indices, -1)))
    if pa.types.is_integer(values.type):
        return Chosen(_int64(values)).where(_exist(values))
    if pa.types.is_string(values.type) and kernels.is_plain(bytes_of(values)[0]):
        return Chosen(values, quoted=True).where(_exist(values))
    return Chosen(_texts(values)).where(_exist(values))


def json_lists(lists: pa.Array) -> TextPiece:
    """Returns lists of texts as a piece of rows of JSON; a null is an empty list."""
    values = joined(json_told(lists.flatten()), count=len(lists.flatten()))
    counts = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    ends = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    return ("[", pc.binary_join(pa.ListArray.from_arrays(pa.array(ends), values), ","), "]")


def _exist(values: pa.Array) -> Flags:
    return np.asarray(values.is_valid())


def _where(texts: pa.Array) -> Chosen:
    return Chosen(texts).where(_exist(texts))


def _int64(values: pa.Array) -> Longs:
    """Returns the integers; a null may be any."""
    return np.asarray(pc.fill_null(values, 0)).astype(np.int64, copy=False)


def _texts(values: pa.Array) -> pa.Array:
    """Returns the texts of Connect's values; a null may be any."""
    kind = values.type
    if pa.types.is_floating(kind):
        return _numbers(values)
    if pa.types.is_boolean(kind):
        return pc.if_else(values, "true", "false")
    if pa.types.is_binary(kind):
        return base64_texts(*bytes_of(values))
    if pa.types.is_struct(kind):
        wkb, srid = values.flatten()
        return joined('{"wkb":', _texts(wkb), ',"srid":', json_told(srid), "}", count=len(values))
    if pa.types.is_list(kind):
        lists = pa.ListArray.from_arrays(values.offsets, _numbers(values.values))
        return joined("[", pc.binary_join(lists, ","), "]", count=len(values))
    return _escaped(values)


def _escaped(values: pa.Array) -> pa.Array:
    data, ends = bytes_of(values)
    size = kernels.size_of_escaped(data, kernels.SHORT_ESCAPES) + 2 * len(values)
    out, out_ends = np.empty(size, np.uint8), np.empty(len(values), np.int32)
    kernels.escape(data, ends, kernels.SHORT_ESCAPES, kernels.HEX_DIGITS, out, out_ends)
    return text_array(out, out_ends)


def _numbers(values: pa.Array) -> pa.Array:
    shown, ends = bytes_of(pc.cast(values, pa.string()))
    out, out_ends = np.empty(kernels.LONGEST_DOUBLE * len(values), np.uint8), np.empty(len(values), np.int32)
    kernels.doubles(shown, ends, np.empty(kernels.DIGITS, np.uint8), out, out_ends)
    return text_array(out, out_ends)
