"""How fast snapshots proceed, and how long they'll still take.

The counts are the checkpoint's, which has no clock. This module looks at them now and then to find their growth in a
second. The rest is estimated from the server's own estimate of a table's rows, so it's a guess. If there are more rows
than expected, or a filter leaves rows out, or a table hasn't been looked at yet, there's none.
"""

from collections import Counter, deque
from typing import Final

from actors.runtime.actor import StatusJson
from actors.status.range_progress import TableKey
from pipeline.schema.table_schema import TableId

OVER_S: Final = 30.0

# The states of a table whose snapshot has come to an end.
_ENDED: Final = ("failed", "stopped", "completed")


class Rate:
    """How fast a count grows, over the last OVER_S seconds."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def look(self, now: float, count: int) -> None:
        """The count at a moment (s, any clock that doesn't go back)."""
        self._seen.append((now, count))
        while len(self._seen) > 2 and now - self._seen[1][0] >= OVER_S:
            self._seen.popleft()

    def per_second(self) -> float | None:
        """Returns the rate a second; None before enough time has passed."""
        if len(self._seen) < 2 or self._seen[-1][0] <= self._seen[0][0]:
            return None
        (since, first), (now, last) = self._seen[0], self._seen[-1]
        return (last - first) / (now - since)


class TableRates:
    """The pace of each table whose snapshot is under way."""

    def __init__(self) -> None:
        self._rates: dict[TableKey, Rate] = {}

    def look(self, now: float, snapshots: list[StatusJson]) -> None:
        """Records the snapshots of the coordinator's report at a moment (s)."""
        running: dict[TableKey, Rate] = {}
        for snapshot in snapshots:
            for table in snapshot["tables"]:
                if table["state"] == "chunking":
                    key = _key(snapshot, table)
                    running[key] = self._rates.get(key, Rate())
                    running[key].look(now, _dealt_with(table))
        self._rates = running

    def with_rates(self, capture: StatusJson) -> list[StatusJson]:
        """Returns the snapshots with their rates; `capture` is the coordinator's report."""
        open_windows = Counter((w["snapshot"], w["table"]) for w in capture.get("windows", ()))
        paused = capture.get("paused", False)
        return [self._snapshot(snapshot, open_windows, paused) for snapshot in capture.get("snapshots", ())]

    def _snapshot(
        self, snapshot: StatusJson, open_windows: Counter[tuple[str, str]], paused: bool
    ) -> StatusJson:
        tables = [self._table(snapshot, table, open_windows) for table in snapshot["tables"]]
        speeds = [table["rows_per_second"] for table in tables if table["rows_per_second"] is not None]
        return {
            **snapshot,
            "state": _state([table["state"] for table in tables], paused),
            **{
                count: sum(table[count] for table in tables)
                for count in ("rows", "given_up", "expected", "ranges", "ranges_done", "windows")
            },
            "rows_per_second": round(sum(speeds), 1) if speeds else None,
            "left_seconds": _left(tables, sum(speeds)),
            "tables": tables,
        }

    def _table(
        self, snapshot: StatusJson, table: StatusJson, open_windows: Counter[tuple[str, str]]
    ) -> StatusJson:
        pace = self._rates.get(_key(snapshot, table))
        speed = pace.per_second() if pace is not None else None
        return {
            **table,
            "windows": open_windows[snapshot["id"], str(TableId(table["database"], table["table"]))],
            "rows_per_second": None if speed is None else round(speed, 1),
            "left_seconds": _left([table], speed or 0.0),
        }


def _left(tables: list[StatusJson], speed: float) -> float | None:
    """Returns how long the tables take at this rate (rows a second), or None if that isn't known."""
    rows = [_rows_left(table) for table in tables if table["state"] not in _ENDED]
    if not rows or speed <= 0 or min(rows) <= 0:
        return None
    return round(sum(rows) / speed, 1)


def _rows_left(table: StatusJson) -> int:
    """Returns how many rows of the table are expected to come, 0 if that isn't known."""
    request = table["request"]
    if request is not None and request["condition"] is not None:
        return 0
    expected = table["expected"]
    assert isinstance(expected, int)
    return expected - _dealt_with(table)


def _state(tables: list[str], paused: bool) -> str:
    """A snapshot's state by those of its tables: what it does, or how it ended, the worst first."""
    if all(state in _ENDED for state in tables):
        return next((state for state in _ENDED if state in tables), "completed")
    return "paused" if paused else "running" if {"chunking", "repairing"} & set(tables) else "waiting"


def _dealt_with(table: StatusJson) -> int:
    rows, given_up = table["rows"], table["given_up"]
    assert isinstance(rows, int) and isinstance(given_up, int)
    return rows + given_up


def _key(snapshot: StatusJson, table: StatusJson) -> TableKey:
    return snapshot["id"], table["database"], table["table"]
