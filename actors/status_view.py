"""The service's status for a reader on a terminal."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text


def show(statuses: Iterator[dict[str, Any]]) -> None:
    """Print each status over the one before, until there are no more or the reader interrupts."""
    console = Console()
    with Live(console=console, auto_refresh=False) as live:
        try:
            for status in statuses:
                live.update(rendered(status), refresh=True)
        except KeyboardInterrupt:
            return


def rendered(status: dict[str, Any]) -> Group:
    """A status as tables: the whole, the snapshots, the actors."""
    return Group(_whole(status), _snapshots(status["snapshots"]), _actors(status["actors"]))


def _whole(status: dict[str, Any]) -> Table:
    table = Table.grid(padding=(0, 2))
    fresh = status["freshness_seconds"]
    for name, value in (
        (status["name"], "ready" if status["ready"] else "not ready"),
        ("position", status["position"]),
        ("delivered", status["delivered_position"]),
        ("lag", f"{status['lag_seconds']:.1f} s"),
        ("freshness", None if fresh is None else f"{fresh:.1f} s"),
        ("windows", str(len(status["windows"]))),
        ("snapshots", "paused" if status["paused"] else None),
        *((f"stopped {name}", reason) for name, reason in status["stopped"].items()),
    ):
        if value is not None:
            table.add_row(Text(name), Text(str(value)))
    return table


def _snapshots(snapshots: list[dict[str, Any]]) -> Table:
    table = Table("snapshot", "table", "state", "", "rows", "rows/s", "left", box=None, padding=(0, 2, 0, 0))
    for snapshot in snapshots:
        for each in snapshot["tables"]:
            done, expected = each["rows"] + each["given_up"], each["expected"]
            left = each.get("left_seconds")
            table.add_row(
                Text(snapshot["id"]),
                Text(f"{each['database']}.{each['table']}"),
                Text(each.get("reason") or each["state"]),
                ProgressBar(total=max(expected, done, 1), completed=done, width=20),
                f"{done:,}",
                f"{each['rows_per_second']:,.0f}" if "rows_per_second" in each else "",
                "" if left is None else str(timedelta(seconds=round(left))),
            )
    return table


def _actors(actors: dict[str, dict[str, Any]]) -> Table:
    table = Table("actor", "state", "mailbox", "restarts", "last failure", box=None, padding=(0, 2, 0, 0))
    for name, actor in actors.items():
        mailbox = actor["mailbox"]
        table.add_row(
            name,
            actor["state"],
            f"{mailbox['depth']}/{mailbox['capacity']}",
            str(actor["restarts"]),
            Text(actor["last_failure"] or ""),
        )
    return table
