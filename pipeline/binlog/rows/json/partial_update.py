"""Partial updates: an after image's JSON document from its before image and the log's diffs of it.

With binlog_row_value_options=PARTIAL_JSON, an update by JSON_SET, JSON_REPLACE or JSON_REMOVE alone is logged as a list
of diffs: replace, insert or remove the value at a path. A compiled loop applies them to the document's bytes
(`diff_kernels`, `document_tree`). The result is a document like any other.

Source: WL#2955.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from pipeline.binlog.rows import cells
from pipeline.binlog.rows.json import diff_kernels, document_tree, path_legs
from pipeline.binlog.rows.json.damage import refuse_document
from pipeline.binlog.rows.json.opaque_values import NOT_WRITTEN
from pipeline.binlog.rows.stored_values import StoredColumn
from pipeline.errors import UndecodableError
from pipeline.types.buffers import ABSENT, SLACK

_FEW: Final = 1024  # nodes


def apply_diffs(prefix: int, stored: StoredColumn, rows: NDArray[np.int64]) -> StoredColumn:
    """Returns the documents of these rows, whose cells are diffs of the row before, each after a length
    of `diff_kernels.LENGTH_BYTES` bytes.

    Raises UndecodableError, which names the column.
    """
    before = stored.cells[rows - 1]
    if (before < 0).any():
        raise UndecodableError(f"{stored.name}: {_unknown(int(before[before < 0][0]))}")
    diffs = cells.diffs_at(stored.cells[rows])
    room = diff_kernels.room(stored.buffer, before, diffs, prefix)
    out, names = np.empty(room + SLACK, np.uint8), np.empty(room, np.uint8)
    places, nodes = np.empty(len(rows), np.int32), np.empty((_FEW, document_tree.NODE_SIZE), np.int64)
    stack, leg = np.empty(document_tree.PACK_STACK, np.int64), np.empty(path_legs.LEG_SIZE, np.int64)
    state = np.zeros(diff_kernels.DIFFS_STATE, np.int64)
    while True:
        status = diff_kernels.apply(
            stored.buffer, before, diffs, prefix, nodes, names, stack, leg, out, places, state
        )
        if status != NOT_WRITTEN:
            break
        nodes = np.empty((2 * len(nodes), document_tree.NODE_SIZE), np.int64)
    if status < 0:
        refuse_document(stored, int(status))
    size = int(state[diff_kernels.DIFFS_TO])
    if size > cells.LARGEST_BUFFER:
        stored.refuse_size()
    return StoredColumn(out[: size + SLACK], places, stored.name, size)


def _unknown(cell: int) -> str:
    if cell == ABSENT:
        return (
            "an update gives only parts of its document, and none of the document before; set"
            " binlog_row_image='FULL' or binlog_row_value_options='' on the source, for all of its sessions"
        )
    return "an update gives parts of a document that is NULL"
