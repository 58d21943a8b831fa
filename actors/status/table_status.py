"""The report on each captured table, from the actors' reports: `/tables`, and the page's rows."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping

from actors.runtime.actor import StatusJson
from actors.status.range_progress import RangeMaps
from pipeline.schema.table_schema import TableId

# The unchanged fields of a table's snapshot, and of its verification.
_COUNTS = (
    "rows",
    "given_up",
    "expected",
    "ranges",
    "ranges_done",
    "windows",
    "rows_per_second",
    "left_seconds",
)

# A snapshot or a verification, and what it has of one table.
OfTable = tuple[StatusJson, StatusJson]


def with_results(
    snapshots: Iterable[StatusJson], results: Mapping[str, Mapping[str, StatusJson | None]]
) -> list[StatusJson]:
    """Returns the snapshots. Each table of a verification has its `result` there too, null while it's under way.

    `results`: what the sink knows, by the verification's id and the table's name.
    """
    return [
        {**each, "tables": [_with_result(table, results.get(each["id"], {})) for table in each["tables"]]}
        if each.get("verification")
        else each
        for each in snapshots
    ]


def _with_result(table: StatusJson, results: Mapping[str, StatusJson | None]) -> StatusJson:
    return {**table, "result": results.get(_name(table))}


def last_verifications(snapshots: Iterable[StatusJson]) -> dict[str, OfTable]:
    """Returns each table's verification: the one that's under way, or else the one with the newest result."""
    found: dict[str, list[OfTable]] = defaultdict(list)
    for snapshot in snapshots:
        if snapshot.get("verification"):
            for table in snapshot["tables"]:
                found[_name(table)].append((snapshot, table))
    return {name: max(reversed(each), key=_judged_at) for name, each in sorted(found.items())}


def _judged_at(of: OfTable) -> float:
    """A second verification of a table that is refused has its result first, and says nothing of the table.

    An older service has no `result` there.
    """
    result = of[1].get("result")
    return math.inf if result is None else result["at"]


def table_statuses(
    capture: StatusJson, delivery: StatusJson, snapshots: list[StatusJson], maps: RangeMaps
) -> list[StatusJson]:
    """All tables by name: those that are captured, those that were stopped, and those of the known snapshots.

    `capture` and `delivery` are what the coordinator and the sink say, `snapshots` the former's with pace and results.
    """
    last = {
        _name(table): (snapshot, table)
        for snapshot in snapshots
        if not snapshot.get("verification")
        for table in snapshot["tables"]
    }
    verified = last_verifications(snapshots)
    open_ranges: dict[tuple[str, str], list[int]] = defaultdict(list)
    for window in capture.get("windows", ()):
        open_ranges[window["snapshot"], window["table"]].append(window["range"])
    stopped: Mapping[str, str] = capture.get("stopped", {})
    names = {*capture.get("captured", ()), *stopped, *last, *verified}
    return [
        {
            "table": name,
            "stopped": stopped.get(name),
            "keyless": name in capture.get("keyless", ()),
            "unread_rows": capture.get("unread", {}).get(name, 0),
            "snapshot": _snapshot(*last[name], open_ranges, maps) if name in last else None,
            "verification": _verification(*verified[name]) if name in verified else None,
            "lake": _lake(name, capture, delivery),
        }
        for name in sorted(names)
    ]


def _snapshot(
    snapshot: StatusJson, table: StatusJson, open_ranges: Mapping[tuple[str, str], list[int]], maps: RangeMaps
) -> StatusJson:
    return {
        "id": snapshot["id"],
        "state": table["state"],
        "reason": table.get("reason"),
        **{count: table[count] for count in _COUNTS},
        "map": maps.range_map(snapshot["id"], table, open_ranges.get((snapshot["id"], _name(table)), ())),
    }


def _verification(verification: StatusJson, table: StatusJson) -> StatusJson:
    return {
        "id": verification["id"],
        "state": table["state"],
        **{count: table[count] for count in _COUNTS},
        "result": table["result"],
    }


def _lake(name: str, capture: StatusJson, delivery: StatusJson) -> StatusJson:
    told = delivery.get("tables", {}).get(name, {})
    return {
        "mirror": capture.get("mirrors", {}).get(name),
        "pending_rows": told.get("pending"),
        "late": name in delivery.get("late", ()),
        "stopped": told.get("stopped"),
    }


def _name(table: StatusJson) -> str:
    return str(TableId(table["database"], table["table"]))
