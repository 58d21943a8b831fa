"""Spark writes rows of megabytes a few at a time."""

from pathlib import Path

import pyarrow.parquet as pq

from actors.lake.spark.spark_session import Spark

MIB = 1 << 20
ROWS = 60  # fewer than Parquet's writer takes by default before it looks how many bytes it holds


def test_long_rows_leave_the_heap_before_they_are_a_hundred(spark: Spark, tmp_path: Path) -> None:
    """With 100 rows of 8 MiB in its heap of 1 GiB the JVM ended in each merge, and no table was delivered meanwhile."""
    rows = spark.session.range(0, ROWS, 1, 1).selectExpr("id", f"repeat(uuid(), {MIB // 36}) AS body")
    written = rows.write.option("compression", "none").option("parquet.block.size", str(8 * MIB))
    written.parquet(str(tmp_path / "rows"))
    (file,) = (tmp_path / "rows").glob("*.parquet")
    footer = pq.ParquetFile(file).metadata
    assert footer.num_rows == ROWS
    most = max(footer.row_group(group).total_byte_size for group in range(footer.num_row_groups))
    assert most < 16 * MIB
