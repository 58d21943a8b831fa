"""Spark's names of types, and texts as it reads them."""

import pyarrow as pa

from pipeline.lake.tables.spark_sql import literal, quoted, spark_type, table_at
from pipeline.types.column_types import Integer, arrow_type


def test_types() -> None:
    assert spark_type(arrow_type(Integer(8, unsigned=True))) == "DECIMAL(20,0)"
    assert spark_type(pa.list_(pa.float32())) == "ARRAY<FLOAT>"
    assert spark_type(pa.struct([("a", pa.int64()), ("b", pa.binary())])) == "STRUCT<a:BIGINT,b:BINARY>"
    assert spark_type(pa.timestamp("us")) == "TIMESTAMP_NTZ"
    assert spark_type(pa.timestamp("us", tz="UTC")) == "TIMESTAMP"


def test_names_and_texts_end_where_they_end() -> None:
    assert quoted("a`b") == "`a``b`"
    assert table_at("s3://lake/a`b") == "delta.`s3://lake/a``b`"
    assert literal("it's a \\") == "'it\\'s a \\\\'"
