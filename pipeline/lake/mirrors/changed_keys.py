"""Finds the rows of a mirror whose keys have changed, among columns that were read from one of its files.

Spark finds them by a join that passes each row of the mirror through a plan of its own. That takes seconds for ten
million rows, however few keys have changed. If these fit into memory, one pass over the columns of the key is enough:
each value is looked up among the changed values, and most rows are left out by the first part of their key.

A key of several parts becomes one number, part by part. Let p be the number of different beginnings of changed keys up
to a part, numbered in their order. A row whose beginning has number b, and whose next part is the v-th of that part's w
values, has the beginning b * w + v. It is looked up among the changed ones, which gives its number among them. So each
number stays below the number of changed keys times w, and fits into 64 bits for fewer than 2^31 of either.

Values are equal as they are for Spark: bytes by bytes, null to null, and zero whatever its sign.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of the key: its changed `values`, each once, and the sorted `beginnings` of the keys up to it.

    `ordered`: the values in their order, None if they aren't in one that statistics of files have too.
    """

    values: pa.Array
    beginnings: NDArray[np.int64]
    ordered: list[int] | None


class ChangedKeys:
    """The keys that have changed: the columns of their parts, by the names that these have in the mirror's files.

    `ordered`: which of them are integers.
    """

    def __init__(self, columns: Mapping[str, pa.ChunkedArray], ordered: Container[str]) -> None:
        self._parts: dict[str, _Part] = {}
        numbers = np.zeros(len(next(iter(columns.values()))), np.int64)
        for name, column in columns.items():
            whole = _normal(column)
            values = whole.unique()
            if name in ordered:
                values = values.take(pc.array_sort_indices(values))
            found = pc.index_in(whole, value_set=values).to_numpy()
            beginnings, numbers = np.unique(numbers * len(values) + found, return_inverse=True)
            self._parts[name] = _Part(values, beginnings, _integers(values) if name in ordered else None)

    @property
    def names(self) -> tuple[str, ...]:
        """Returns the names of the key's parts in the mirror's files."""
        return tuple(self._parts)

    def ranges(self, statistics: Mapping[str, Any]) -> list[slice] | None:
        """Returns which values of each part a file may have, by its statistics as Delta's log has them; None if of some
        part it has none.

        Integers have one order in MySQL, in Spark and in Delta's statistics.
        """
        least, most = statistics.get("minValues", {}), statistics.get("maxValues", {})
        found = []
        for name, part in self._parts.items():
            low, high = least.get(name), most.get(name)
            within = slice(0, len(part.values))
            if part.ordered is not None and isinstance(low, int) and isinstance(high, int):
                within = slice(bisect_left(part.ordered, low), bisect_right(part.ordered, high))
            if within.start == within.stop:
                return None
            found.append(within)
        return found

    def rows(
        self, columns: Sequence[pa.Array | pa.ChunkedArray], ranges: Sequence[slice]
    ) -> NDArray[np.int64]:
        """Returns the places, in order, at which these columns have a changed key; `ranges`: of their file."""
        places = np.arange(len(columns[0]))
        numbers = np.zeros(len(places), np.int64)
        for part, column, within in zip(self._parts.values(), columns, ranges, strict=True):
            taken = column if len(places) == len(column) else column.take(pa.array(places))
            # A smaller set is hashed faster, and fits into the processor's cache.
            values = part.values[within]
            found = pc.index_in(_normal(taken.cast(values.type)), value_set=values)
            known = found.is_valid().to_numpy(zero_copy_only=False)
            value = within.start + found.drop_null().to_numpy()
            beginnings = numbers[known] * len(part.values) + value
            at = np.searchsorted(part.beginnings, beginnings)
            at[at == len(part.beginnings)] = 0
            same = part.beginnings[at] == beginnings
            places, numbers = places[known][same], at[same]
        return places


def _normal(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Returns a column in one piece, in which equal values have equal bytes."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    return pc.add(column, 0.0) if pa.types.is_floating(column.type) else column


def _integers(values: pa.Array) -> list[int]:
    """Returns integers as Python's. Spark may have them as decimals, and then they may be negative all the same."""
    return list(map(int, values.to_pylist()))
