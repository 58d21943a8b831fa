"""Values of a file become those of the table's columns if Spark reads them so, and else they are refused."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from pipeline.lake.files.parquet_files import Stored
from pipeline.lake.files.read_values import ReadBySparkOnly, check_calendar, spark_values, stored_name

POINT = pa.struct([("srid", pa.int64()), ("wkb", pa.binary())])
PARTS = (Stored("col-1", "bigint"), Stored("col-2", "binary"))
MOMENT = datetime(2026, 11, 30, 1, 2, 3, 456789)  # noqa: DTZ001 - a DATETIME has no zone


@pytest.mark.parametrize(
    ("has", "value", "kind", "becomes"),
    [
        (pa.int8(), -5, pa.int8(), -5),
        (pa.int8(), -5, pa.int64(), -5),
        (pa.int64(), 2**63 - 1, pa.decimal128(20, 0), Decimal(2**63 - 1)),
        (pa.int32(), 7, pa.float64(), 7.0),
        (pa.float32(), 0.5, pa.float64(), 0.5),
        (pa.decimal128(5, 2), Decimal("1.25"), pa.decimal128(8, 4), Decimal("1.2500")),
        (pa.date32(), date(1, 1, 1), pa.timestamp("us"), datetime(1, 1, 1)),  # noqa: DTZ001
        (pa.timestamp("us"), MOMENT, pa.timestamp("us", tz="UTC"), MOMENT.replace(tzinfo=UTC)),
        (pa.list_(pa.field("element", pa.float32())), [1.5], pa.list_(pa.float32()), [1.5]),
    ],
)
def test_a_value_is_as_spark_reads_it(has: pa.DataType, value: Any, kind: pa.DataType, becomes: Any) -> None:
    read = spark_values(pa.array([value, None], has), kind)
    assert (read.type, read.to_pylist()) == (kind, [becomes, None])


@pytest.mark.parametrize(
    ("has", "value", "kind"),
    [
        (pa.int64(), 1, pa.int32()),
        (pa.float64(), 0.5, pa.float32()),
        (pa.decimal128(8, 4), Decimal(1), pa.decimal128(8, 2)),
        (pa.string(), "1", pa.int64()),
        (pa.binary(), b"a", pa.string()),
        (pa.timestamp("us", tz="UTC"), MOMENT.replace(tzinfo=UTC), pa.timestamp("us")),
        (pa.timestamp("ns"), MOMENT, pa.timestamp("us")),
        (pa.uint32(), 1, pa.int64()),
        (pa.list_(pa.float32()), [1.0, None], pa.list_(pa.float32())),
        (pa.int64(), 1, POINT),
        (pa.struct([("srid", pa.int64())]), {"srid": 1}, POINT),
    ],
)
def test_what_spark_might_read_otherwise_is_refused(has: pa.DataType, value: Any, kind: pa.DataType) -> None:
    with pytest.raises(ReadBySparkOnly):
        spark_values(pa.array([value], has), kind, (Stored("srid", ""), Stored("wkb", "")))


def test_the_parts_of_a_struct_have_names_of_their_own_in_a_file() -> None:
    has = pa.struct([("COL-2", pa.binary()), ("col-1", pa.int32())])
    values = pa.array([{"COL-2": b"x", "col-1": 4}, None, {"COL-2": None, "col-1": None}], has)
    read = spark_values(values, POINT, PARTS)
    assert read.type == POINT
    assert read.to_pylist() == [{"srid": 4, "wkb": b"x"}, None, {"srid": None, "wkb": None}]


def test_a_column_is_found_by_its_name_and_then_by_its_letters() -> None:
    assert stored_name(["id", "ID"], "id") == "id"
    assert stored_name(["a", "ID"], "id") == "ID"
    assert stored_name(["a"], "id") is None


def test_dates_of_the_julian_calendar_are_refused() -> None:
    check_calendar(None)
    check_calendar({b"org.apache.spark.version": b"4.2.0"})
    with pytest.raises(ReadBySparkOnly):
        check_calendar({b"org.apache.spark.legacyINT96": b""})
