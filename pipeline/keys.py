"""Keys of rows: as parameters that go back to the server, and as tokens to compare.

The server alone *orders* keys (collations, ENUM order, unsigned integers are its business). Here they are only
compared for equality, byte for byte, and that's enough: if a row changed while its chunk was being read, then the
key that the chunk saw is the new key of the last change before the SELECT or the old key of the first one after it,
in exactly these bytes, even where the collation holds other bytes equal.
"""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

# One part of a key as it's bound to a statement: int for integers, str for decimals, dates, times and text, bytes for
# binary.
KeyPart = int | str | bytes
Key = tuple[KeyPart, ...]


def tokens(rows: pa.RecordBatch, key: Sequence[int]) -> pa.Array:
    """One binary token a row: equal tokens if and only if the key columns (indices `key`) are equal in value.

    Each part is written with its length before it, so that no two different keys share a token. A key with a part
    that has no value (a zero or partial date) has no token: null.
    """
    parts: list[pa.Array] = []
    for index in key:
        text = _binary(rows.column(index))
        parts += [pc.cast(pc.cast(pc.binary_length(text), pa.string()), pa.binary()), text]
    separator = pa.scalar(b":", pa.binary())
    return pc.binary_join_element_wise(*parts, separator)


def key_to_json(key: Key) -> list[Any]:
    """A key as JSON values; bytes as {"hex": …}. `key_from_json` is its inverse."""
    return [{"hex": part.hex()} if isinstance(part, bytes) else part for part in key]


def key_from_json(value: list[Any]) -> Key:
    """The key that `key_to_json` wrote."""
    return tuple(bytes.fromhex(part["hex"]) if isinstance(part, dict) else part for part in value)


def _binary(column: pa.Array) -> pa.Array:
    if pa.types.is_binary(column.type):
        return column
    if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
        column = column.cast(pa.int64() if pa.types.is_timestamp(column.type) else pa.int32())
    return column.cast(pa.string()).cast(pa.binary())
