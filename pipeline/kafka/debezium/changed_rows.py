"""What a changes file records about its rows, and which rows become messages (`skipped.operations`).

If an update is skipped, so is its before-image, even if the update changed the key.
"""

from collections.abc import Collection
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pipeline.journal.change_rows import SOURCE
from pipeline.types.buffers import Flags

# The letters of `__op` by numbers, and the number that stands for none.
LETTERS: Final = pa.array(["c", "u", "d", "r", "t", "b"])
CREATE, UPDATE, DELETE, READ, TRUNCATE, BEFORE, NO_CHANGE = range(7)

# The field of SOURCE that has the statement's text. Rows of one statement share it here, and each message has its own.
_QUERY: Final = "query"


def committed_us(changes: pa.RecordBatch) -> pa.Array:
    """Returns when each row was first committed, in µs since the epoch; null for a snapshot's row."""
    return pc.coalesce(source_fields(changes)["time"], changes.column("__commit_time").view(pa.int64()))


def source_fields(changes: pa.RecordBatch) -> dict[str, pa.Array]:
    """Returns the fields of SOURCE; nulls for files of earlier versions, which lack them."""
    at = changes.schema.get_field_index(SOURCE.name)
    source = changes.column(at) if at >= 0 else pa.nulls(changes.num_rows, SOURCE.type)
    return dict(zip((field.name for field in source.type), source.flatten(), strict=True))


def message_bytes(changes: pa.RecordBatch) -> int:
    """Returns about how many bytes the rows take in messages: each message has its statement's text."""
    at = changes.schema.get_field_index(SOURCE.name)
    source = None if at < 0 else changes.column(at)
    if source is None or (place := source.type.get_field_index(_QUERY)) < 0:
        return int(changes.nbytes)
    query = source.field(place)
    if query.null_count == len(query):
        return int(changes.nbytes)
    texts = pc.binary_length(query.dictionary).take(query.indices)
    return int(changes.nbytes) + int(pc.sum(texts).as_py())


def operations(changes: pa.RecordBatch) -> NDArray[np.int32]:
    """Returns the number of each row's letter. An update of a row without a key has `b` and `u`, not `d` and `c`."""
    ops = np.asarray(pc.index_in(changes.column("__op"), LETTERS))
    update = source_fields(changes)["update"]
    if update.null_count == len(update):
        return ops
    updates = np.asarray(pc.fill_null(update, False))
    return np.where(updates, np.where(ops == DELETE, BEFORE, UPDATE), ops)


def bare_keys(changes: pa.RecordBatch) -> Flags:
    """Returns which rows are deletes of which only the primary key is known: a repair found no row of these keys."""
    chunk, absent = changes.column("__chunk"), changes.column("__absent")
    if chunk.null_count == len(chunk) or absent.null_count == len(absent):
        return np.zeros(len(changes), np.bool_)
    return np.asarray(
        pc.and_(pc.and_(chunk.is_valid(), absent.is_valid()), pc.equal(changes.column("__op"), "d"))
    )


def without(changes: pa.RecordBatch, skipped: Collection[str]) -> pa.RecordBatch:
    """Returns the rows whose operations aren't skipped. Two rows that belong together are in the same batch.

    The row before all rows of a table without a key is no statement's, so it becomes no message.
    """
    truncated = pc.equal(changes.column("__op"), "t")
    if pc.any(truncated).as_py():
        begins_scan = pc.and_(truncated, pc.is_null(changes.column("__commit_time")))
        changes = changes.filter(pc.invert(begins_scan))
    wanted = [letter for letter in LETTERS.to_pylist() if letter in skipped]
    if not wanted:
        return changes
    ops = _as_debezium_sees(changes)
    kept = ~np.isin(ops, np.asarray(pc.index_in(pa.array(wanted), LETTERS)))
    return changes if kept.all() else changes.filter(pa.array(kept))


def _as_debezium_sees(changes: pa.RecordBatch) -> NDArray[np.int32]:
    """Returns the number of each row's operation, as Debezium sees it."""
    ops = operations(changes)
    following = np.append(ops[1:], -1)
    return np.where((ops == BEFORE) | ((ops == DELETE) & (following == UPDATE)), UPDATE, ops)


def whole_rows(changes: pa.RecordBatch) -> int:
    """Returns how many of the rows need none that comes later: the last row may belong to the next one."""
    if not changes.num_rows:
        return 0
    last = changes.column("__op")[changes.num_rows - 1].as_py()
    rows: int = changes.num_rows
    return rows - 1 if last in ("b", "d") else rows
