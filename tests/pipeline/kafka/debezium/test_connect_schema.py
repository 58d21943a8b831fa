"""The Connect types of MySQL's, by the modes that change them; an integration test compares a real Debezium's."""

import pytest

from pipeline.config.message_handling import (
    BinaryHandling,
    DecimalHandling,
    Handling,
    TimePrecision,
    UnsignedBigintHandling,
)
from pipeline.kafka.debezium.connect_schema import column_schema
from pipeline.schema.table_schema import Column
from pipeline.types.column_types import Binary, ColumnType, Date, DateTime, Decimal, Enum, Integer, Time

DECIMAL = "org.apache.kafka.connect.data.Decimal"


@pytest.mark.parametrize(
    ("kind", "handling", "type_", "name"),
    [
        (Integer(8, unsigned=True), Handling(), "int64", None),
        (Integer(8, unsigned=True), Handling(unsigned_bigint=UnsignedBigintHandling.PRECISE), "bytes", DECIMAL),
        (Decimal(10, 3), Handling(), "bytes", DECIMAL),
        (Decimal(10, 3), Handling(decimal=DecimalHandling.DOUBLE), "double", None),
        (Decimal(10, 3), Handling(decimal=DecimalHandling.STRING), "string", None),
        (Binary(), Handling(), "bytes", None),
        (Binary(), Handling(binary=BinaryHandling.HEX), "string", None),
        (DateTime(3), Handling(), "int64", "io.debezium.time.Timestamp"),
        (DateTime(4), Handling(), "int64", "io.debezium.time.MicroTimestamp"),
        (DateTime(4), Handling(time=TimePrecision.CONNECT), "int64", "org.apache.kafka.connect.data.Timestamp"),
        (Time(0), Handling(time=TimePrecision.NANOSECONDS), "int64", "io.debezium.time.NanoTime"),
        (Date(), Handling(time=TimePrecision.ISOSTRING), "string", "io.debezium.time.IsoDate"),
    ],
)  # fmt: skip
def test_a_mode_changes_the_type(kind: ColumnType, handling: Handling, type_: str, name: str | None) -> None:
    schema = column_schema(Column("c", kind, nullable=True), handling)
    assert (schema["type"], schema.get("name"), schema["optional"]) == (type_, name, True)


def test_parameters_are_texts() -> None:
    decimal = column_schema(Column("c", Decimal(10, 3), nullable=False), Handling())
    assert (
        decimal["parameters"] == {"scale": "3", "connect.decimal.precision": "10"} and not decimal["optional"]
    )
    labels = column_schema(Column("c", Enum(("a,b", "c")), nullable=True), Handling())
    assert labels["parameters"] == {"allowed": "a\\,b,c"}
