"""How much of a segment's file a reader has in memory at once.

Spark's executors import this module, so it imports little.
"""

import pyarrow.parquet as pq


def rows_at_once(parquet: pq.ParquetFile, most: int, most_bytes: int) -> int:
    """Returns how many rows of a file to read at once: at most so many, and of about so many bytes."""
    metadata = parquet.metadata
    size = sum(metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups))
    return int(max(1, min(most, most_bytes * max(1, metadata.num_rows) // max(1, size))))
