"""Keys of rows: as parameters that go back to the server, and as tokens to compare.

The server alone *orders* keys (collations, ENUM order, unsigned integers are its business). Here they are only compared
for equality, byte for byte, and that's enough. Suppose that a row changed while its chunk was being read. Then the
chunk saw the new key of the last change before the SELECT, or the old key of the first one after it. It has exactly
these bytes, even where the collation holds other bytes equal.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.schema.table_schema import TableSchema
from pipeline.types.column_types import Enum, Set, Text
from pipeline.types.text.charsets import ambiguous_characters

_NO_VALUE = (
    "{column} of its primary key has a zero or partial date, or a day past its month's end; that has no value in the"
    " lake, so that its rows can't be told apart; correct these dates, or give the table another primary key"
)
_TWO_CODES = (
    "{column} of its primary key has a character with two codes in its character set ({charset}), so that two keys can"
    " be one text; convert the column to utf8mb4"
)
_EMPTY = (
    "{column} of its primary key has an empty text, or one that reads alike with its empty label, so that two keys can"
    " be one text; give that label a text"
)
_TWO_LABELS = (
    "{column} of its primary key has a label that is two of its labels, so that two keys can be one text; give one of"
    " them another text"
)

# One part of a key as it's bound to a statement: int for integers, bits, and the numbers of ENUM and SET, float for
# floats, str for decimals, dates, times and text, bytes for binary and for text that isn't all of Unicode.
KeyPart = int | float | str | bytes
Key = tuple[KeyPart, ...]


def key_tokens(rows: pa.RecordBatch, key: Sequence[int]) -> pa.Array:
    """One binary token a row: equal tokens if and only if the key columns (indices `key`) are equal in value.

    That's among rows of one schema, since a token is made of Arrow's own bytes, which cost nothing to have. A part of
    varying length that isn't the last one has its length before it. So no two different keys share a token. A key with
    a part that has no value (a zero or partial date) has no token: null.
    """
    parts: list[pa.Array] = []
    for index in key:
        if parts and not _has_fixed_width(parts[-1]):
            parts.insert(-1, pc.binary_length(parts[-1]))
        parts.append(rows.column(index))
    first, *others = (_bytes(part) for part in parts)
    return pc.binary_join_element_wise(first, *others, pa.scalar(b"", pa.binary())) if others else first


def ambiguous_keys(schema: TableSchema, rows: pa.RecordBatch) -> str | None:
    """Returns why the keys of these rows can't tell them apart in the lake; None if they can.

    A key may have no value: a zero or partial date. The server distinguishes some keys with the same text. A character
    set may have two codes for a character, and an empty label reads like the value 0. All code that brings a row to a
    mirror calls this first. Only a key of such a type costs more than one check of each column.
    """
    for index in schema.key:
        column = schema.columns[index]
        if rows.column(index).null_count:
            return _NO_VALUE.format(column=column.name)
        if isinstance(column.type, Text) and (characters := ambiguous_characters(column.type.charset)):
            listed = "".join(sorted(f"\\x{{{ord(character):x}}}" for character in characters))
            held: pa.Array = pc.match_substring_regex(rows.column(index), f"[{listed}]")
            if held.true_count:
                return _TWO_CODES.format(column=column.name, charset=column.type.charset)
        if isinstance(column.type, Enum | Set) and _hides_a_label(column.type, rows.column(index)):
            return _EMPTY.format(column=column.name)
        if isinstance(column.type, Enum | Set) and _has_repeated_label(column.type, rows.column(index)):
            return _TWO_LABELS.format(column=column.name)
    return None


def _hides_a_label(kind: Enum | Set, values: pa.Array) -> bool:
    """Whether some values would have the same text without or with the type's empty label.

    In a SET's text an empty label shows only after another one (`pipeline.types.enum_labels`).
    """
    if "" not in kind.labels:
        return False
    if isinstance(kind, Enum):
        return bool(pc.any(pc.equal(values, "")).as_py())
    first = pc.list_element(pc.split_pattern(values, ",", max_splits=1), 0)
    before = pa.array(kind.labels[: kind.labels.index("")], pa.string())
    return bool(pc.any(pc.invert(pc.is_in(first, before))).as_py())


def _has_repeated_label(kind: Enum | Set, values: pa.Array) -> bool:
    """Whether some values have a label that the type has twice, as it may without a strict sql_mode."""
    repeated = {label for label, count in Counter(kind.labels).items() if count > 1}
    if not repeated:
        return False
    labels = pc.list_flatten(pc.split_pattern(values, ",")) if isinstance(kind, Set) else values
    return bool(pc.any(pc.is_in(labels, pa.array(sorted(repeated)))).as_py())


def key_to_json(key: Key) -> list[Any]:
    """A key as JSON values; bytes as {"hex": …}. `key_from_json` is its inverse."""
    return [{"hex": part.hex()} if isinstance(part, bytes) else part for part in key]


def key_from_json(value: list[Any]) -> Key:
    """The key that `key_to_json` wrote."""
    return tuple(bytes.fromhex(part["hex"]) if isinstance(part, dict) else part for part in value)


def _has_fixed_width(column: pa.Array) -> bool:
    """Whether all values have as many bytes; BIT(1) is a byte each."""
    return bool(pa.types.is_primitive(column.type) or pa.types.is_decimal(column.type))


def _bytes(column: pa.Array) -> pa.Array:
    """Each value's bytes as Arrow has them, without a copy."""
    if not _has_fixed_width(column):
        return column.cast(pa.binary())
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    exists, values = column.buffers()
    width = column.type.bit_width // 8
    ends = np.arange(column.offset + len(column) + 1, dtype=np.int32) * np.int32(width)
    return pa.Array.from_buffers(
        pa.binary(), len(column), [exists, pa.py_buffer(ends), values], offset=column.offset
    )
