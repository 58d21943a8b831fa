"""The report on each captured table, from the actors' reports: `/tables`, and the page's rows."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from actors.runtime.actor import StatusJson
from actors.status.range_progress import RangeMaps
from pipeline.schema.table_schema import TableId

# The unchanged fields of a table's snapshot.
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


def table_statuses(
    capture: StatusJson, delivery: StatusJson, snapshots: Iterable[StatusJson], maps: RangeMaps
) -> list[StatusJson]:
    """All tables by name: those that are captured, those that were stopped, and those of the known snapshots.

    `capture` and `delivery` are what the coordinator and the sink say, `snapshots` the former's with their pace.
    """
    last: dict[str, tuple[StatusJson, StatusJson]] = {}
    for snapshot in snapshots:
        for table in snapshot["tables"]:
            last[str(TableId(table["database"], table["table"]))] = (snapshot, table)
    open_ranges: dict[tuple[str, str], list[int]] = defaultdict(list)
    for window in capture.get("windows", ()):
        open_ranges[window["snapshot"], window["table"]].append(window["range"])
    stopped: Mapping[str, str] = capture.get("stopped", {})
    names = {*capture.get("captured", ()), *stopped, *last}
    return [
        {
            "table": name,
            "stopped": stopped.get(name),
            "keyless": name in capture.get("keyless", ()),
            "unread_rows": capture.get("unread", {}).get(name, 0),
            "snapshot": _snapshot(*last[name], open_ranges, maps) if name in last else None,
            "lake": _lake(name, capture, delivery),
        }
        for name in sorted(names)
    ]


def _snapshot(
    snapshot: StatusJson, table: StatusJson, open_ranges: Mapping[tuple[str, str], list[int]], maps: RangeMaps
) -> StatusJson:
    name = str(TableId(table["database"], table["table"]))
    return {
        "id": snapshot["id"],
        "state": table["state"],
        "reason": table.get("reason"),
        **{count: table[count] for count in _COUNTS},
        "map": maps.range_map(snapshot["id"], table, open_ranges.get((snapshot["id"], name), ())),
    }


def _lake(name: str, capture: StatusJson, delivery: StatusJson) -> StatusJson:
    told = delivery.get("tables", {}).get(name, {})
    return {
        "mirror": capture.get("mirrors", {}).get(name),
        "pending_rows": told.get("pending"),
        "late": name in delivery.get("late", ()),
        "stopped": told.get("stopped"),
    }
