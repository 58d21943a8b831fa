"""Which rows of a changes file become messages: `skipped.operations`.

An update is skipped with the row that it found, also where it changed the key.
"""

from collections.abc import Collection

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pipeline.kafka.changed_rows import BEFORE, DELETE, LETTERS, UPDATE, operations


def without(changes: pa.RecordBatch, skipped: Collection[str]) -> pa.RecordBatch:
    """The rows whose operations aren't skipped; a row that belongs to the one before it is in the same batch."""
    wanted = [letter for letter in LETTERS.to_pylist() if letter in skipped]
    if not wanted:
        return changes
    ops = _operations(changes)
    kept = ~np.isin(ops, np.asarray(pc.index_in(pa.array(wanted), LETTERS)))
    return changes if kept.all() else changes.filter(pa.array(kept))


def _operations(changes: pa.RecordBatch) -> NDArray[np.int32]:
    """The number of each row's operation, as Debezium sees it."""
    ops = operations(changes)
    following = np.append(ops[1:], -1)
    return np.where((ops == BEFORE) | ((ops == DELETE) & (following == UPDATE)), UPDATE, ops)


def whole_rows(changes: pa.RecordBatch) -> int:
    """How many of the rows can go without those that come: the last one may belong to the one that follows."""
    if not changes.num_rows:
        return 0
    last = changes.column("__op")[changes.num_rows - 1].as_py()
    rows: int = changes.num_rows
    return rows - 1 if last in ("b", "d") else rows
