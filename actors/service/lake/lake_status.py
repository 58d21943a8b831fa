"""How far the lake's tables are, as they say themselves: for a reader on a terminal, be the service up or down."""

import datetime as dt
import json
from collections.abc import Iterator
from typing import Any

from rich.table import Table
from rich.text import Text

from actors.lake.transaction_log.delta_log import LoggedVersion, last_report
from actors.runtime.logs import escape_in_lines
from actors.service.lake.lake_listing import find_lake
from pipeline.lake.tables.paths import location
from pipeline.lake.tables.tier import Tier

_COLUMNS = ("table", "tier", "segment", "newest change", "merged", "files", "MiB", "position", "stopped")


def lake_report(root: str) -> list[dict[str, Any]]:
    """Returns of each lake table under a path the report of its last commit. Raises as `find_lake` does."""
    return [_report(*found) for found in _tables(root)]


def _report(name: str, tier: Tier, path: str, table: LoggedVersion) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(last_report(path) or "{}")
    newest = said.get("newest_commit_time_us")
    at = (
        None if newest is None else f"{dt.datetime.fromtimestamp(newest / 1e6, dt.UTC):%Y-%m-%d %H:%M:%S} UTC"
    )
    return {
        "table": name,
        "tier": tier.value,
        "segment": table.mark("changes") if tier is Tier.CHANGELOG else table.rows,
        "newest_change": at,
        "merged": table.merged if tier is Tier.MIRROR else None,
        "files": table.files,
        "bytes": table.bytes,
        "position": said.get("position"),
        "stopped": table.stopped,
    }


def lake_status(report: list[dict[str, Any]]) -> Table:
    """Returns the report as a table, whose texts are wrapped and never cut."""
    shown = Table(*_COLUMNS, box=None, padding=(0, 2, 0, 0))
    for column in shown.columns:
        column.overflow = "fold"
    for told in report:
        size = None if told["bytes"] is None else f"{told['bytes'] / 2**20:,.1f}"
        files = None if told["files"] is None else f"{told['files']:,}"
        cells = {**told, "bytes": size, "files": files}
        shown.add_row(
            *(Text("" if value is None else escape_in_lines(str(value))) for value in cells.values())
        )
    return shown


def _tables(root: str) -> Iterator[tuple[str, Tier, str, LoggedVersion]]:
    """By table its lake tables: which, where, and what they say."""
    for each in find_lake(root).tables:
        of = {Tier.CHANGELOG: each.changelog, Tier.MIRROR: each.mirror}
        for tier, found in of.items():
            if found is not None:
                yield str(each.table), tier, location(root, each.table, tier), found
