"""Sums of the hashes of rows, by which two sides of a comparison show that they have the same rows.

A row's hash has two parts of 64 bits. Each part begins with a number of its own and takes in one word of 64 bits after
the other: it adds the word by XOR, and then mixes all of its bits. The mixing is reversible. So two rows that differ in
one word have different parts, and each part depends on the order of the words. A text or a binary comes as its length
and then its bytes, and NULL as a step that no word makes. So NULL differs from zero and from an empty text, and a byte
can't move from a column to the next one unseen. A float comes as its bits, so zero has a sign.

Sums are exact, so no number of rows makes them wrap. They are of both parts, and come with the number of rows. Two
sides with different rows have the same sums with a probability of some 2^-128. A row that one side has twice counts
twice. The hashes are no secret: this holds for accidents, and not for rows that somebody makes for the sake of their
sums.

**Keys that have changed** are known by the first part of a hash of their own. Another key may have the same one by
accident. Then its rows are taken for changed on both sides, which does no harm. Parts of a key are equal as they are
for Spark: zero is zero, whatever its sign. So a part of the key that is a float is in a row's hash twice, and the
second time as it is.

Source: Appleby, MurmurHash3 (`fmix64`); Stafford, "Better Bit Mixing", variant 13.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numba import types
from numpy.typing import NDArray

from pipeline.schema.table_schema import TableSchema
from pipeline.types.arrow_arrays import bytes_of
from pipeline.types.buffers import Bytes, Ends, Flags, Int, Longs
from pipeline.types.jit import READ_BYTES, READ_ENDS, READ_FLAGS, READ_LONGS, compiled, inlined

Hashes = NDArray[np.uint64]

_BEGIN: Final = (np.uint64(0x243F6A8885A308D3), np.uint64(0x13198A2E03707344))
_NULL: Final = np.uint64(0xA4093822299F31D0)
_WORD: Final = np.uint64(8)
_HALF: Final = np.uint64(32)
_LOWER: Final = np.uint64(0xFFFFFFFF)
_USED: Final = np.uint64(1)
_ALL_EXIST: Final = np.empty(0, np.bool_)

_STATES: Final = (types.uint64[::1], types.uint64[::1])

# Types of one word or less, as integers of their widths.
_SIGNED: Final = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}


@dataclass(frozen=True, slots=True)
class RowSums:
    """The number of some rows, and the sum of each part of their hashes."""

    rows: int = 0
    one: int = 0
    other: int = 0

    def __add__(self, more: "RowSums") -> "RowSums":
        return RowSums(self.rows + more.rows, self.one + more.one, self.other + more.other)


class RowHasher:
    """Hashes the rows of a table, and knows which of them have a changed key."""

    def __init__(self, schema: TableSchema, changed: Sequence[pa.Array]) -> None:
        """`changed`: those keys, a column for each part. All columns have the types of the lake, here and in `sum`."""
        kinds = schema.arrow.types
        self._key = schema.key
        self._rest = [
            place for place, kind in enumerate(kinds) if place not in self._key or pa.types.is_floating(kind)
        ]
        self._changed = _HashSet(_hashed(map(_equal_as_keys, changed), len(changed[0]))[0])

    def sum(self, columns: Sequence[pa.Array], shown: Flags | None) -> tuple[RowSums, Longs]:
        """Returns the sums of rows whose key hasn't changed, and the places of the others.

        `columns`: those of the table, in their order. `shown`: which rows there are; None if all of them.
        """
        states = _hashed((_equal_as_keys(columns[place]) for place in self._key), len(columns[0]))
        changed = self._changed.has(states[0])
        for place in self._rest:
            _take(columns[place], *states)
        if shown is None and not changed.any():
            return _sums(*states), np.empty(0, np.int64)
        left = ~changed if shown is None else shown & ~changed
        found = changed if shown is None else shown & changed
        return _sums(*(state[left] for state in states)), np.flatnonzero(found)


class _HashSet:
    """A set of hashes. It may hold others by accident."""

    def __init__(self, hashes: Hashes) -> None:
        bits = max(4, (2 * len(hashes)).bit_length())
        self._shift = np.uint64(64 - bits)
        self._slots = np.zeros(1 << bits, np.uint64)
        _add(hashes, self._shift, self._slots)

    def has(self, hashes: Hashes) -> Flags:
        found = np.empty(len(hashes), np.bool_)
        _look_up(hashes, self._shift, self._slots, found)
        return found


def _equal_as_keys(values: pa.Array) -> pa.Array:
    """Returns a part of a key in which equal values have equal bits."""
    return pc.add(values, pa.scalar(0, values.type)) if pa.types.is_floating(values.type) else values


def _hashed(columns: Iterable[pa.Array], rows: int) -> tuple[Hashes, Hashes]:
    one, other = (np.full(rows, begin, np.uint64) for begin in _BEGIN)
    for column in columns:
        _take(column, one, other)
    return one, other


def _take(values: pa.Array, one: Hashes, other: Hashes) -> None:
    """Takes a column into the hashes of its rows."""
    kind = values.type
    exists = np.asarray(values.is_valid()) if values.null_count else _ALL_EXIST
    if pa.types.is_struct(kind):
        _take_words(
            exists.astype(np.int64) if len(exists) else np.ones(len(one), np.int64), 1, _ALL_EXIST, one, other
        )
        for part in values.flatten():
            _take(part, one, other)
    elif pa.types.is_list(kind):
        data, ends = _list_bytes(values)
        _take_bytes(data, ends, exists, one, other)
    elif pa.types.is_string(kind) or pa.types.is_binary(kind):
        _take_bytes(*bytes_of(values), exists, one, other)
    else:
        words = _words(values)
        _take_words(words, len(words) // max(len(values), 1), exists, one, other)


def _words(values: pa.Array) -> Longs:
    """Returns the values of a fixed width, each as one word or more."""
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.uint8())
    width = values.type.bit_width
    stored = np.frombuffer(values.buffers()[1] or b"", _SIGNED.get(width, np.int64))
    each = max(width // 64, 1)
    return stored[values.offset * each :][: len(values) * each].astype(np.int64, copy=False)


def _list_bytes(values: pa.Array) -> tuple[Bytes, Ends]:
    """Returns the bytes of the lists' items, none of which is NULL, and the offsets in them."""
    items = values.flatten()
    width = items.type.bit_width // 8
    data = np.frombuffer(items.buffers()[1] or b"", np.uint8)[items.offset * width :][: len(items) * width]
    sizes = np.asarray(pc.fill_null(values.value_lengths(), 0)) * width
    return data, np.concatenate([np.zeros(1, np.int32), np.cumsum(sizes, dtype=np.int32)])


def _sums(one: Hashes, other: Hashes) -> RowSums:
    return RowSums(len(one), _sum(one), _sum(other))


def _sum(hashes: Hashes) -> int:
    """Returns the sum of fewer than 2^32 hashes."""
    return int((hashes & _LOWER).sum()) + (int((hashes >> _HALF).sum()) << 32)


@inlined
def _mixed(state: Any) -> Any:
    state = (state ^ state >> np.uint64(33)) * np.uint64(0xFF51AFD7ED558CCD)
    state = (state ^ state >> np.uint64(33)) * np.uint64(0xC4CEB9FE1A85EC53)
    return state ^ state >> np.uint64(33)


@inlined
def _mixed_otherwise(state: Any) -> Any:
    state = (state ^ state >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ state >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return state ^ state >> np.uint64(31)


@inlined
def _without_value(state: Any) -> Any:
    return (state << np.uint64(23) | state >> np.uint64(41)) ^ _NULL


@compiled(types.void(READ_LONGS, types.int64, READ_FLAGS, *_STATES))
def _take_words(words: Longs, width: Int, exists: Flags, one: Hashes, other: Hashes) -> None:
    """Take so many words for each row."""
    at = np.uint64(0)
    for row in range(np.uint64(len(one))):
        first, second = one[row], other[row]
        if len(exists) and not exists[row]:
            first, second = _mixed(_without_value(first)), _mixed_otherwise(_without_value(second))
            at += np.uint64(width)
        else:
            for _ in range(width):
                value = np.uint64(words[at])
                first, second = _mixed(first ^ value), _mixed_otherwise(second ^ value)
                at += np.uint64(1)
        one[row], other[row] = first, second


@compiled(types.void(READ_BYTES, READ_ENDS, READ_FLAGS, *_STATES))
def _take_bytes(data: Bytes, ends: Ends, exists: Flags, one: Hashes, other: Hashes) -> None:
    """Take a value of any length for each row."""
    for row in range(np.uint64(len(one))):
        first, second = one[row], other[row]
        if len(exists) and not exists[row]:
            first, second = _mixed(_without_value(first)), _mixed_otherwise(_without_value(second))
        else:
            at, end = np.uint64(ends[row]), np.uint64(ends[row + np.uint64(1)])
            size = end - at
            first, second = _mixed(first ^ size), _mixed_otherwise(second ^ size)
            while at + _WORD <= end:
                value = np.uint64(0)
                for k in range(8):
                    value |= np.uint64(data[at + np.uint64(k)]) << np.uint64(8 * k)
                first, second = _mixed(first ^ value), _mixed_otherwise(second ^ value)
                at += _WORD
            if at < end:
                value = np.uint64(0)
                for k in range(end - at):
                    value |= np.uint64(data[at + k]) << np.uint64(8) * k
                first, second = _mixed(first ^ value), _mixed_otherwise(second ^ value)
        one[row], other[row] = first, second


@inlined
def _slot_of(value: Any, shift: Any, slots: Hashes) -> Any:
    """Returns the slot that has this value, or is free for it."""
    last = np.uint64(len(slots) - 1)
    at = value >> shift
    while slots[at] != np.uint64(0) and slots[at] != value:
        at = (at + np.uint64(1)) & last
    return at


@compiled(types.void(types.uint64[::1], types.uint64, types.uint64[::1]))
def _add(hashes: Hashes, shift: Any, slots: Hashes) -> None:
    """Add hashes to the slots, half of which stay free."""
    for i in range(np.uint64(len(hashes))):
        value = hashes[i] | _USED
        slots[_slot_of(value, shift, slots)] = value


@compiled(types.void(types.uint64[::1], types.uint64, types.uint64[::1], types.boolean[::1]))
def _look_up(hashes: Hashes, shift: Any, slots: Hashes, found: Flags) -> None:
    """Say of each hash whether one of the slots has it."""
    for i in range(np.uint64(len(hashes))):
        value = hashes[i] | _USED
        found[i] = slots[_slot_of(value, shift, slots)] == value
