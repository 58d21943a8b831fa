"""How far the lake's tables are, as they say themselves: for a reader on a terminal, be the service up or down."""

import datetime as dt
import json
from collections.abc import Iterator
from typing import Any

from pyarrow import fs
from rich.table import Table
from rich.text import Text

from actors.lake.delta_log import LoggedVersion, last_report, read_version
from actors.lake.filesystem import lake_filesystem
from actors.runtime.filesystem import list_folder
from pipeline.lake.tables import Property, Tier, location

_COLUMNS = ("table", "tier", "segment", "newest change", "merged", "files", "MiB", "position", "stopped")


def lake_status(root: str) -> Table:
    """Returns the lake tables under a path, each with the report of its last commit. Raises OSError if it can't be
    read."""
    shown = Table(*_COLUMNS, box=None, padding=(0, 2, 0, 0))
    for name, tier, path, table in _tables(root):
        said: dict[str, Any] = json.loads(last_report(path) or "{}")
        newest = said.get("newest_commit_time_us")
        shown.add_row(
            Text(name),
            tier.value,
            str(table.mark("changes") if tier is Tier.CHANGELOG else table.rows),
            ""
            if newest is None
            else f"{dt.datetime.fromtimestamp(newest / 1e6, dt.UTC):%Y-%m-%d %H:%M:%S} UTC",
            str(table.merged) if tier is Tier.MIRROR else "",
            "" if table.files is None else f"{table.files:,}",
            "" if table.bytes is None else f"{table.bytes / 2**20:,.1f}",
            Text(str(said.get("position", ""))),
            Text(table.properties.get(Property.STOPPED, "")),
        )
    return shown


def _tables(root: str) -> Iterator[tuple[str, Tier, str, LoggedVersion]]:
    """By table its lake tables: which, where, and what they say."""
    filesystem, folder = lake_filesystem(root)
    found = list_folder(filesystem, folder)
    databases = [info.path for info in found if info.type is fs.FileType.Directory]
    for database in sorted(databases):
        for info in sorted(list_folder(filesystem, database), key=lambda info: info.path):
            inside = f"{root.rstrip('/')}/{database.rpartition('/')[2]}/{info.base_name}"
            path = f"{inside}/{Tier.CHANGELOG}"
            changelog = read_version(path)
            if changelog is None or (schema := changelog.schema) is None:
                continue  # it isn't ours, or it has nothing yet
            table = schema.table
            assert inside == location(root, table, Tier.CHANGELOG).rpartition("/")[0]
            yield str(table), Tier.CHANGELOG, path, changelog
            path = f"{inside}/{Tier.MIRROR}"
            if (mirror := read_version(path)) is not None:
                yield str(table), Tier.MIRROR, path, mirror
