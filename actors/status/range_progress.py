"""The progress of each range of a table, for a map of it.

The checkpoint holds only what is left of a range, not where the range begins. This module remembers that from the
first look at the range. Then it can compute the finished part of the range's keys, as far as they are numbers. For the
other ranges it uses the table's rows: those outside ranges with known keys are shared among them. It's a picture, not a
promise.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from actors.runtime.actor import StatusJson

# A table may have thousands of ranges; a map has only as many cells as can be seen.
MOST_CELLS: Final = 128

# No range that has something left is shown as full.
_NEARLY: Final = 0.99

TableKey = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class _Seen:
    """A range as of the first look: the key after which it begins, None if that's not known."""

    begin: list[Any] | None
    end: list[Any]


class RangeMaps:
    """The maps of all tables whose snapshots are under way."""

    def __init__(self) -> None:
        self._seen: dict[TableKey, dict[int, _Seen]] = {}

    def look(self, snapshots: Iterable[StatusJson]) -> None:
        """Returns the snapshots of the coordinator's report, with the ranges that are left."""
        seen: dict[TableKey, dict[int, _Seen]] = {}
        for snapshot in snapshots:
            for table in snapshot["tables"]:
                if table["state"] == "chunking":
                    key = (snapshot["id"], table["database"], table["table"])
                    seen[key] = _begun(self._seen.get(key, {}), table)
        self._seen = seen

    def range_map(self, snapshot: str, table: StatusJson, open_ranges: Iterable[int]) -> StatusJson:
        """The map of a table: `filled`, of each cell the part that's done; `open`, the cells with an open window."""
        count: int = table["ranges"]
        if not count:
            return {"filled": [], "open": []}
        seen = self._seen.get((snapshot, table["database"], table["table"]), {})
        filled = _filled(table, seen)
        cells = min(count, MOST_CELLS)
        begins = [cell * count // cells for cell in range(cells + 1)]
        return {
            "filled": [round(sum(filled[low:high]) / (high - low), 3) for low, high in pairwise(begins)],
            "open": sorted({number * cells // count for number in open_ranges if 0 <= number < count}),
        }


def _begun(before: dict[int, _Seen], table: StatusJson) -> dict[int, _Seen]:
    """Returns where each remaining range began. If a range has another end than before, its table has begun again."""
    ends = {each["number"]: each["end"] for each in table["to_go"]}
    found = {}
    for each in table["to_go"]:
        number, end = each["number"], each["end"]
        known = before.get(number)
        if known is not None and known.end == end:
            found[number] = known
        elif number - 1 in ends:
            found[number] = _Seen(ends[number - 1], end)
        else:
            # The first range, or one after a range that was done before the first look.
            found[number] = _Seen(None, end)
    return found


def _filled(table: StatusJson, seen: dict[int, _Seen]) -> list[float]:
    """Of each range the part that's done."""
    count: int = table["ranges"]
    left = {each["number"]: each for each in table.get("to_go", ())}
    if table["state"] in ("completed", "repairing"):
        return [1.0] * count
    if table["state"] != "chunking":
        # A snapshot that has ended otherwise says how many ranges are done, and not which.
        return [1.0] * table["ranges_done"] + [0.0] * (count - table["ranges_done"])
    filled = [1.0] * count
    unknown = []
    for number, each in left.items():
        part = _part(seen[number].begin, each["done"], each["end"]) if number in seen else None
        if each["done"] is None or (number in seen and each["done"] == seen[number].begin):
            part = 0.0
        filled[number] = min(_NEARLY, part or 0.0)
        if part is None:
            unknown.append(number)
    if unknown:
        done, expected = table["rows"] + table["given_up"], max(1, table["expected"])
        rest = (done / expected * count - sum(filled)) / len(unknown)
        for number in unknown:
            filled[number] = min(_NEARLY, max(0.02, rest))
    return filled


def _part(begin: list[Any] | None, done: list[Any] | None, end: list[Any]) -> float | None:
    """The part of the way from `begin` to `end` at `done`; None where the first parts that differ aren't numbers."""
    if begin is None or done is None:
        return None
    for low, at, high in zip(begin, done, end, strict=False):
        if low != high:
            numbers = all(isinstance(each, int | float) for each in (low, at, high))
            return min(1.0, max(0.0, (at - low) / (high - low))) if numbers else None
    return None
