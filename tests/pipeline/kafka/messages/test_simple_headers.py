"""Headers without JSON; `test_against_debezium` compares them with those of SimpleHeaderConverter itself."""

from decimal import Decimal as Number

import pyarrow as pa
import pytest

from pipeline.config.message_handling import Handling, TimePrecision
from pipeline.kafka.debezium.connect_schema import OPTIONAL_LONG, OPTIONAL_TEXT
from pipeline.kafka.debezium.text_rows import joined
from pipeline.kafka.messages.records import NO_VALUE
from pipeline.kafka.messages.simple_headers import SIMPLE
from pipeline.schema.table_schema import Column
from pipeline.types.column_types import Binary, ColumnType, Date, DateTime, Decimal, Double, Integer, Text

CONNECT = Handling(time=TimePrecision.CONNECT)
TEXT = Text("utf8mb4")
INT = Integer(4, unsigned=False)


@pytest.mark.parametrize(
    ("kind", "values", "handling", "expected"),
    [
        (TEXT, pa.array(["plain", "null", None]), Handling(), [b"plain", b"null", NO_VALUE]),
        (TEXT, pa.array(['q"\\\n€😀', "plain"]), Handling(), ['q"\\\n€😀'.encode(), b"plain"]),
        (INT, pa.array([-1, None], pa.int32()), Handling(), [b"-1", NO_VALUE]),
        (Double(), pa.array([1e16]), Handling(), [b"1.0E16"]),
        (Binary(), pa.array([b"\xff\x00"]), Handling(), [b"/wA="]),
        (Decimal(20, 9), pa.array([Number("0.000000001"), None], pa.decimal128(20, 9)), Handling(),
         [b"1E-9", NO_VALUE]),
        (Decimal(50, 1), pa.array(["-1.5"]), Handling(), [b"-1.5"]),
        (Date(), pa.array([0, 19_782], pa.date32()), CONNECT, [b"00:00:00.000Z", b"2024-02-29"]),
        (DateTime(3), pa.array([1_709_210_096_120_000], pa.timestamp("us")), CONNECT, [b"2024-02-29T12:34:56.120Z"]),
    ],
)  # fmt: skip
def test_a_header_is_a_text(
    kind: ColumnType, values: pa.Array, handling: Handling, expected: list[bytes]
) -> None:
    column = Column("c", kind, nullable=True)
    assert SIMPLE.single(column, values, handling).to_pylist() == expected


def test_texts_within_a_struct_are_quoted() -> None:
    text, number = Column("a", TEXT, nullable=True), Column("b", INT, nullable=True)
    fields = {
        "a": SIMPLE.column(text, pa.array(['q"\\\n', None]), Handling()),
        "b": SIMPLE.column(number, pa.array([1, None], pa.int32()), Handling()),
    }
    struct = SIMPLE.message(SIMPLE.record(fields, 2), {"type": "struct", "optional": False})
    assert struct.to_pylist() == [b'{"a":"q\\"\\\\\n","b":1}', b'{"a":null,"b":null}']


def test_what_is_told_of_a_message_is_a_text() -> None:
    texts = pa.array(["gtid", None])
    found = joined(SIMPLE.told(texts, OPTIONAL_TEXT, 2), count=2)
    assert SIMPLE.message(found, OPTIONAL_TEXT).to_pylist() == [b"gtid", NO_VALUE]
    numbers = joined(SIMPLE.told(None, OPTIONAL_LONG, 1), count=1)
    assert SIMPLE.message(numbers, OPTIONAL_LONG).to_pylist() == [NO_VALUE]
