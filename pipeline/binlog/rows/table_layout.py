"""How the row images of a table map lie in the log, and the Arrow types that they become: once for each map."""

from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from pipeline.binlog.rows.columns import ColumnKind, column_kind, rows_type
from pipeline.schema.table_map import TableMap
from pipeline.types.buffers import Flags, Longs
from pipeline.types.field_types import FieldType, stored_width

# Some kilobytes each.
_KEPT: Final = 1 << 14


class TableLayout(NamedTuple):
    """Of each column: its kind, the bytes of a value or of the length before it, and which of these bits are a length.

    `json`: whether the log may have diffs of its values. `smallest`: the bytes of an image without NULLs and texts.
    `schema`: that of `TableImages.rows`.
    """

    kinds: tuple[ColumnKind, ...]
    widths: Longs
    masks: Longs
    json: Flags
    smallest: int
    schema: pa.Schema


@lru_cache(maxsize=_KEPT)
def layout_of(table_map: TableMap) -> TableLayout:
    """Returns the layout. Raises UndecodableError if a column is stored in a way that Tidemark doesn't know."""
    kinds = tuple(map(column_kind, table_map.types, table_map.storage))
    stored = np.array([stored_width(kind.storage) for kind in kinds], np.int64)
    widths = np.abs(stored)
    masks = np.where(stored < 0, (np.int64(1) << (8 * widths * (stored < 0))) - 1, 0)
    json = np.array([kind.storage.code == FieldType.JSON for kind in kinds], np.bool_)
    smallest = int(widths.sum()) + (len(stored) + 7) // 8
    schema = pa.schema([pa.field(str(i), rows_type(kind.type)) for i, kind in enumerate(kinds)])
    return TableLayout(kinds, widths, masks, json, smallest, schema)
