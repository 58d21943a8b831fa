"""Avro says what JSON says, and refuses what it has no form for."""

import io
import itertools
import json
from datetime import date
from decimal import Decimal as Exact
from typing import Any, get_args

import fastavro
import pyarrow as pa
import pytest

from pipeline.config.message_handling import (
    BinaryHandling,
    DecimalHandling,
    Handling,
    TimePrecision,
    UnsignedBigintHandling,
)
from pipeline.kafka.avro.avro_format import AVRO
from pipeline.kafka.avro.avro_schema import avro_text
from pipeline.kafka.debezium.heartbeat import heartbeat
from pipeline.kafka.debezium.json_format import JSON
from pipeline.kafka.debezium.message_format import MessagePairs
from pipeline.kafka.debezium.transactions import transaction_messages
from pipeline.kafka.errors import KafkaRefused
from pipeline.schema.table_schema import Column
from pipeline.types.column_types import (
    Binary,
    Bit,
    ColumnType,
    Date,
    DateTime,
    Decimal,
    Double,
    Enum,
    FixedBinary,
    Float,
    Geometry,
    Integer,
    Json,
    Set,
    Text,
    Time,
    Timestamp,
    Vector,
    Year,
    arrow_type,
)
from tests.pipeline.kafka.debezium.test_transactions import changed


def read(messages: pa.Array, schema: Any) -> list[Any]:
    parsed = fastavro.parse_schema(json.loads(avro_text(schema)))
    return [fastavro.schemaless_reader(io.BytesIO(each), parsed, None) for each in messages.to_pylist()]


@pytest.mark.parametrize("of", ["heartbeats", "transactions"])
def test_it_says_what_json_says(of: str) -> None:
    def made(written: Any) -> MessagePairs:
        return (
            heartbeat("p", 1_234_567, written)
            if of == "heartbeats"
            else transaction_messages(changed(), written)
        )

    avro, plain = made(AVRO), made(JSON)
    assert read(avro.keys, avro.key_schema) == [json.loads(key) for key in plain.keys.to_pylist()]
    assert read(avro.values, avro.value_schema) == [json.loads(value) for value in plain.values.to_pylist()]


def test_a_single_value_that_is_null_is_no_message() -> None:
    column = Column("v", Text("utf8mb4"), nullable=True)
    assert AVRO.single(column, pa.array(["a", None]), Handling()).to_pylist() == [b"\x02\x02a", None]


VALUES: list[tuple[ColumnType, list[Any]]] = [
    (Integer(8, unsigned=False), [1, None, -(2**40), 3]),
    (Integer(8, unsigned=True), [Exact(1), None, Exact(2**64 - 1), Exact(3)]),
    (Decimal(10, 2), [Exact("1.50"), None, Exact("-2.25"), Exact("3.00")]),
    (Decimal(65, 30), ["1.5" + "0" * 29, None, "-2.25" + "0" * 28, "3." + "0" * 30]),
    (Float(), [1.5, None, -2.25, 3.0]),
    (Double(), [1.5, None, -2.25, 3.0]),
    (Bit(1), [True, None, False, True]),
    (Bit(9), [b"\x01\x02", None, b"\x00\x03", b"\x01\xff"]),
    (Year(), [2026, None, 0, 1901]),
    (Date(), [date(2026, 5, 1), None, date(1, 1, 1), date(9999, 12, 31)]),
    (Time(6), [1, None, 3_600_000_001, 86_399_999_999]),
    (DateTime(6), [1_000_005, None, -30_610_224_000_000_000, 0]),
    (Timestamp(3), [1_000, None, 2_000_000, 1_700_000_000_005_000]),
    (Text("utf8mb4"), ["a", None, "", "äöü"]),
    (FixedBinary(2), [b"ab", None, b"\0\0", b"cd"]),
    (Binary(), [b"a", None, b"", b"abc"]),
    (Enum(("x", "y")), ["x", None, "", "y"]),
    (Set(("x", "y")), ["x", None, "", "x,y"]),
    (Json(), ['{"a": 1}', None, "[]", "3"]),
    (Geometry(), [b"\xe6\x10\0\0abc", None, b"\0\0\0\0", b"\1\0\0\0d"]),
    (Vector(), [[1.0, 2.5], None, [], [3.0]]),
]
HANDLINGS = [
    Handling(),
    Handling(DecimalHandling.STRING, TimePrecision.ISOSTRING, binary=BinaryHandling.HEX),
    Handling(DecimalHandling.DOUBLE, TimePrecision.CONNECT, UnsignedBigintHandling.PRECISE),
]


@pytest.mark.parametrize("handling", HANDLINGS)
@pytest.mark.parametrize(("kind", "values"), VALUES, ids=lambda each: getattr(each, "wire", None))
def test_messages_of_a_slice_are_a_slice_of_the_messages(
    kind: ColumnType, values: list[Any], handling: Handling
) -> None:
    """Of Avro and of JSON. A portion of a segment is a slice, and so is a chunk's part of its file."""
    column, whole = Column("v", kind, nullable=True), pa.array(values, arrow_type(kind))
    for first, end in itertools.combinations(range(len(values) + 1), 2):
        part = whole[first:end]
        assert AVRO.column(column, part, handling) == AVRO.column(column, whole, handling)[first:end]
        assert JSON.single(column, part, handling) == JSON.single(column, whole, handling)[first:end]


def test_every_type_is_among_those_of_which_slices_are_made() -> None:
    assert {type(kind) for kind, _ in VALUES} == set(get_args(ColumnType))


def test_a_value_that_may_not_be_null_and_has_no_form_is_refused() -> None:
    column = Column("t", Time(0), nullable=False)
    longer_than_a_day = pa.array([2 * 86_400_000_000])
    with pytest.raises(KafkaRefused, match="t is NOT NULL"):
        AVRO.column(column, longer_than_a_day, Handling(time=TimePrecision.CONNECT))
    assert AVRO.column(column, longer_than_a_day, Handling()).null_count == 0
