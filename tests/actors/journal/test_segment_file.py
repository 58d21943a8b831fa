"""A file of a segment: its description equals its content."""

import hashlib
import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from actors.journal import segment_file
from pipeline.config.column_protection import UNPROTECTED
from pipeline.journal.entry import FileKind
from pipeline.journal.segment import SegmentTable, segment_tables
from tests.actors.segments import ITEMS, append


@pytest.mark.parametrize("rows", [1, 3, 3000, 600_000])
def test_its_bytes_and_digest_are_told(rows: int) -> None:
    ids = pa.table({"id": pa.array(range(rows), pa.int64())}, schema=ITEMS.arrow)
    file = io.BytesIO()
    size, digest = segment_file.write_parquet(file, SegmentTable(ITEMS, FileKind.ROWS, ids))
    content = file.getvalue()
    assert (size, digest) == (len(content), hashlib.sha256(content).hexdigest())
    assert pq.read_table(io.BytesIO(content)).equals(ids)


def test_changes_come_back_as_they_were() -> None:
    for table in segment_tables(1, append(1, chunk=True).parts, (), UNPROTECTED):
        file = io.BytesIO()
        segment_file.write_parquet(file, table)
        assert pq.read_table(file).equals(table.rows)
