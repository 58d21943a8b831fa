"""JSON columns into the texts that the server prints: the compiled pass over all documents, and what is wrong with one.

Source: MySQL 9.7 source, sql-common/json_binary.h; WL#2955 (partial updates in the log).
"""

from typing import Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pipeline.binlog.rows.json import diff_kernels, document_kernels, doubles, opaque_values, partial_update
from pipeline.binlog.rows.json.damage import refuse_document
from pipeline.binlog.rows.json.text_kernels import PIECE
from pipeline.binlog.rows.stored_values import LONGEST_DATA, StoredColumn
from pipeline.types import arrow_arrays
from pipeline.types.buffers import ABSENT
from pipeline.types.text.charsets import to_strings

_Number = TypeVar("_Number", bound=np.generic)

_LARGEST_ROOM: Final = 2**32  # bytes, holes included
_ROOM_OF_EACH: Final = 64  # bytes, for small documents whose text is longer than they are


def decode_documents(prefix: int, stored: StoredColumn) -> pa.Array:
    """Returns documents, each after its length of `prefix` bytes, as pa.string().

    Raises UndecodableError or TextError, which name the column.
    """
    printed = _texts(prefix, stored)
    differ = np.less(stored.cells, ABSENT)
    if not differ.any():
        return printed
    changed = partial_update.apply_diffs(prefix, stored, np.flatnonzero(differ))
    return pc.replace_with_mask(printed, pa.array(differ), _texts(diff_kernels.LENGTH_BYTES, changed))


def _texts(prefix: int, stored: StoredColumn) -> pa.Array:
    """The texts of the documents that are there; what is made from diffs is an empty text here."""
    offsets = np.empty(len(stored) + 1, np.int64)
    out = np.empty(2 * stored.size + _ROOM_OF_EACH * len(stored) + 4 * PIECE, np.uint8)
    holes = np.empty(stored.size // 32 + 16, np.int64)
    stack = np.empty(document_kernels.STACK, np.int64)
    state = np.zeros(document_kernels.DOCUMENT_STATE, np.int64)
    while True:
        status = document_kernels.texts(
            stored.buffer, stored.cells, prefix, stack, offsets, out, holes, state
        )
        if status != opaque_values.NOT_WRITTEN:
            break
        if len(out) >= _LARGEST_ROOM:
            stored.refuse_size()
        out = _larger(out, int(state[document_kernels.TO]))
        holes = _larger(holes, int(state[document_kernels.HOLES]))
    if status < 0:
        refuse_document(stored, int(status))
    found = int(state[document_kernels.HOLES])
    doubles.fill_doubles(out, offsets, holes[:found])
    if offsets[-1] > LONGEST_DATA:
        stored.refuse_size()
    texts = arrow_arrays.varying_width_array(pa.binary(), offsets, out[: offsets[-1]], stored.exists)
    return to_strings(texts, "utf8mb4", stored.name)


def _larger(array: NDArray[_Number], used: int) -> NDArray[_Number]:
    larger = np.empty(2 * len(array), array.dtype)
    larger[:used] = array[:used]
    return larger
