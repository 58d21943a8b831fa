"""A file is read in batches of rows that aren't too many, nor too large."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from actors.journal.batch_sizes import rows_at_once


@pytest.mark.parametrize(
    ("rows", "text", "most", "most_bytes", "expected"),
    [
        (100, 10, 40, 1 << 20, range(40, 41)),
        (100, 1000, 40, 10_000, range(8, 11)),
        (3, 1000, 40, 1, range(1, 2)),
        (0, 0, 40, 1 << 20, range(40, 41)),
    ],
)
def test_a_batch_has_few_rows_if_they_are_large(
    tmp_path: Path, rows: int, text: int, most: int, most_bytes: int, expected: range
) -> None:
    pq.write_table(
        pa.table({"text": pa.array(["x" * text] * rows, pa.string())}), tmp_path / "f", use_dictionary=False
    )
    assert rows_at_once(pq.ParquetFile(tmp_path / "f"), most, most_bytes) in expected
