"""Values in Avro's encoding are read by fastavro as what they are."""

import io
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from pipeline.kafka.avro.avro_values import NULL_FIRST, NULL_LAST, REQUIRED, avro_values, chosen, unquoted
from pipeline.kafka.debezium.text_rows import joined

LONGS = st.integers(-(2**63), 2**63 - 1)


def read(messages: pa.Array, schema: Any) -> list[Any]:
    """What fastavro reads, each to its end."""
    found, parsed = [], fastavro.parse_schema(schema)
    for message in messages.to_pylist():
        stream = io.BytesIO(message)
        found.append(fastavro.schemaless_reader(stream, parsed, None))
        assert stream.read() == b""
    return found


@given(st.lists(st.none() | LONGS))
def test_whole_numbers(values: list[int | None]) -> None:
    assert read(avro_values(pa.array(values, pa.int64()), NULL_FIRST), ["null", "long"]) == values
    assert read(avro_values(pa.array(values, pa.int64()), NULL_LAST), ["long", "null"]) == values


@given(st.lists(st.none() | st.text(max_size=200)), st.integers(0, 3))
def test_texts_and_bytes(values: list[str | None], first: int) -> None:
    texts = pa.array(values, pa.string()).slice(first)
    assert read(avro_values(texts, NULL_FIRST), ["null", "string"]) == values[first:]
    data = [None if value is None else value.encode() for value in values]
    assert read(avro_values(pa.array(data, pa.binary()), NULL_FIRST), ["null", "bytes"]) == data


@given(st.lists(st.none() | st.floats(allow_nan=False)))
def test_floats(values: list[float | None]) -> None:
    assert read(avro_values(pa.array(values, pa.float64()), NULL_FIRST), ["null", "double"]) == values


def test_small_ones() -> None:
    assert read(avro_values(pa.array([1.5, -0.25], pa.float32()), REQUIRED), "float") == [1.5, -0.25]
    flags = [True, None, False]
    assert read(avro_values(pa.array(flags), NULL_FIRST), ["null", "boolean"]) == flags


@given(st.lists(st.none() | st.lists(st.floats(allow_nan=False, width=32), max_size=3)), st.data())
@example([[1.0], [2.0, 3.0]], None)
def test_lists(values: list[list[float] | None], data: st.DataObject | None) -> None:
    count = len(values)
    first, end = (1, 2) if data is None else (data.draw(st.integers(0, count)) for _ in range(2))
    part = slice(min(first, end), max(first, end))
    lists = pa.array(values, pa.list_(pa.float32()))[part]
    floats = {"type": "array", "items": "float"}
    assert read(avro_values(lists, NULL_FIRST), ["null", floats]) == values[part]
    if lists.null_count == 0:
        assert read(avro_values(lists, REQUIRED), floats) == values[part]


def test_geometries() -> None:
    values = [{"wkb": b"abc", "srid": 4326}, {"wkb": b"", "srid": None}, None]
    kind = pa.struct([("wkb", pa.binary()), ("srid", pa.int64())])
    fields = [{"name": "wkb", "type": "bytes"}, {"name": "srid", "type": ["null", "int"]}]
    schema = ["null", {"type": "record", "name": "g", "fields": fields}]
    assert read(avro_values(pa.array(values, kind), NULL_FIRST), schema) == values


def test_texts_without_their_quotes() -> None:
    texts = unquoted(pa.array(['"a"', '""', '"b"']), pa.array([True, True, False]), NULL_FIRST)
    assert read(texts, ["null", "string"]) == ["a", "", None]


def test_a_row_chooses_a_record_or_none() -> None:
    records = avro_values(pa.array([7, 8]), REQUIRED)
    found = joined(chosen(records, np.array([1, -1, 0]), NULL_FIRST), count=3, kind=pa.binary())
    assert read(found, ["null", "long"]) == [8, None, 7]
