"""Avro says what JSON says, and refuses what it has no form for."""

import io
import json
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from pipeline.config.message_handling import Handling, TimePrecision
from pipeline.kafka.avro.avro_format import AVRO
from pipeline.kafka.avro.avro_schema import avro_text
from pipeline.kafka.debezium.heartbeat import heartbeat
from pipeline.kafka.debezium.json_format import JSON
from pipeline.kafka.debezium.message_format import MessagePairs
from pipeline.kafka.debezium.transactions import transaction_messages
from pipeline.kafka.errors import KafkaRefused
from pipeline.schema.table_schema import Column
from pipeline.types.column_types import Text, Time
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


def test_a_value_that_may_not_be_null_and_has_no_form_is_refused() -> None:
    column = Column("t", Time(0), nullable=False)
    longer_than_a_day = pa.array([2 * 86_400_000_000])
    with pytest.raises(KafkaRefused, match="t is NOT NULL"):
        AVRO.column(column, longer_than_a_day, Handling(time=TimePrecision.CONNECT))
    assert AVRO.column(column, longer_than_a_day, Handling()).null_count == 0
