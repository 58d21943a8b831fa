"""The service's status for a reader on a terminal."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import click
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from actors.runtime.logs import escape_controls, escape_in_lines
from actors.status.table_status import OfTable, last_verifications
from pipeline.messages.topology import ActorName
from pipeline.schema.table_schema import TableId

# A line may be as long as it likes where no terminal would cut it: in a pipe or a file.
_UNCUT: Final = 1_000

# On a narrower terminal only the most important columns of a snapshot fit.
_WIDE: Final = 120


# All rows of a verification's table are in the journal, and SparkSink has no result yet.
_NOT_COMPARED: Final = "to be compared"


def open_console() -> Console:
    """Returns where to print: as wide as the terminal, and without an end where there's none."""
    console = Console()
    return console if console.is_terminal else Console(width=_UNCUT)


def show(statuses: Iterator[dict[str, Any]]) -> None:
    """Print each status over the one before, until there are no more or the reader interrupts."""
    console = open_console()
    if not console.is_terminal:
        for status in statuses:
            with console.capture() as captured:
                console.print(status_tables(status, console.width))
            # A table pads all its lines to the longest one, and a reason may be long.
            click.echo("\n".join(map(str.rstrip, captured.get().split("\n"))), nl=False)
        return
    with Live(console=console, auto_refresh=False) as live:
        try:
            for status in statuses:
                live.update(status_tables(status, console.width), refresh=True)
        except KeyboardInterrupt:
            return


def status_tables(status: dict[str, Any], width: int = _UNCUT) -> Group:
    """A status as tables: the whole, snapshots, verifications, actors. Names are never cut, whatever the width."""
    snapshots = [each for each in status["snapshots"] if not each.get("verification")]
    shown = [_progress("snapshot", _of_snapshots(snapshots), width)]
    if verified := last_verifications(status["snapshots"]):
        shown.append(_progress("verification", _of_verifications(verified), width))
    return Group(_whole(status), *shown, _actors(status["actors"]))


def _whole(status: dict[str, Any]) -> Table:
    table = Table.grid(padding=(0, 2))
    fresh = status["freshness_seconds"]
    told_by = (ActorName.BINLOG_READER, ActorName.SPARK_SINK, ActorName.KAFKA_SINK)
    reader, delivery, topics = (status["actors"].get(name.value, {}) for name in told_by)
    lake = {name: told["stopped"] for name, told in delivery.get("tables", {}).items() if told["stopped"]}
    for name, value in (
        (status["name"], "ready" if status["ready"] else "not ready"),
        ("source", reader.get("source")),
        ("server", reader.get("server")),
        ("position", status["position"]),
        ("delivered", status["delivered_position"]),
        ("lag", f"{status['lag_seconds']:.1f} s"),
        ("freshness", None if fresh is None else f"{fresh:.1f} s, that of the last batch"),
        ("windows", str(len(status["windows"]))),
        ("snapshots", "paused" if status["paused"] else None),
        ("waiting", status["busy"]),
        ("capture waits", status["no_room"]),
        *((f"stopped {name}", reason) for name, reason in status["stopped"].items()),
        *((f"stopped in the lake {name}", reason) for name, reason in lake.items()),
        *((f"set aside {topic}", reason) for topic, reason in topics.get("set_aside", {}).items()),
        ("no key", ", ".join(status["keyless"]) or None),
        *(
            (f"consumer {name}", f"{told['behind']:,} segments behind")
            for name, told in status["consumers"].items()
        ),
        ("begins again", ", ".join(status["late"]) or None),
        ("mirror is filled", ", ".join(status["rebuilding"]) or None),
        ("beside batches", _beside(delivery.get("beside"))),
    ):
        if value is not None:
            table.add_row(_text(name), _text(str(value)))
    return table


def _beside(work: Mapping[str, str] | None) -> str | None:
    """Returns what SparkSink does beside the batches, and at which table: one piece of work at a time."""
    return None if work is None else f"{work['work']} {work['table']}"


def _text(text: str) -> Text:
    """Returns a text that may have names of the source's, which whoever makes a table there chooses."""
    return Text(escape_in_lines(text))


_COLUMNS: Final = ("id", "table", "state", "", "rows", "dropped", "rows/s", "ranges", "windows", "left")
_NARROW: Final = ("id", "table", "state", "rows", "rows/s", "left")

# The id, the table, the state, and what has the counts.
_Line = tuple[str, str, str, dict[str, Any]]


def _progress(kind: str, lines: Iterable[_Line], width: int) -> Table:
    """Returns a table of snapshots or verifications, as the head of its first column says."""
    shown = _COLUMNS if width >= _WIDE else _NARROW
    table = Table(kind, *shown[1:], box=None, padding=(0, 2, 0, 0))
    for head, column in zip(shown, table.columns, strict=True):
        column.overflow = "fold"
        if head in _COLUMNS[4:]:
            column.justify, column.no_wrap = "right", True
    for id_, name, state, of in lines:
        cells: tuple[RenderableType, ...] = (_text(id_), _text(name), _text(state), *_counts(of))
        table.add_row(*(cell for head, cell in zip(_COLUMNS, cells, strict=True) if head in shown))
    return table


def _of_snapshots(snapshots: Iterable[dict[str, Any]]) -> Iterator[_Line]:
    for snapshot in snapshots:
        if len(snapshot["tables"]) > 1:
            yield snapshot["id"], "", snapshot["state"], snapshot
        for each in snapshot["tables"]:
            name = str(TableId(each["database"], each["table"]))
            yield snapshot["id"], name, each.get("reason") or each["state"], each


def _of_verifications(verified: Mapping[str, OfTable]) -> Iterator[_Line]:
    for name, (verification, table) in verified.items():
        yield verification["id"], name, _verification_state(table), table


def _verification_state(table: Mapping[str, Any]) -> str:
    """Returns the last verdict, or how far a table's verification is. An older service gives no results."""
    if (result := table.get("result")) is not None:
        return _last_verdict(result)
    state: str = table["state"]
    return _NOT_COMPARED if state == "completed" and "result" in table else state


def _counts(of: dict[str, Any]) -> tuple[ProgressBar | str, ...]:
    """Returns the columns that a snapshot and its tables have in common."""
    done, speed, left = of["rows"] + of["given_up"], of["rows_per_second"], of["left_seconds"]
    total = done if of["state"] == "completed" else of["expected"]
    return (
        ProgressBar(total=max(total, done, 1), completed=done, width=20),
        f"{done:,}",
        f"{of['given_up']:,}",
        "" if speed is None else f"{speed:,.0f}",
        f"{of['ranges_done']}/{of['ranges']}" if of["ranges"] else "",
        str(of["windows"]) if of["windows"] else "",
        "" if left is None else str(timedelta(seconds=round(left))),
    )


def _actors(actors: dict[str, dict[str, Any]]) -> Table:
    table = Table("actor", "state", "mailbox", "restarts", "last failure", box=None, padding=(0, 2, 0, 0))
    for name, actor in actors.items():
        mailbox = actor["mailbox"]
        table.add_row(
            name,
            actor["state"],
            f"{mailbox['depth']}/{mailbox['capacity']}",
            str(actor["restarts"]),
            _text(actor["last_failure"] or ""),
        )
    return table


def verification_line(table: str, result: Mapping[str, Any]) -> str:
    """Returns the result of a verification of a table as a line of text."""
    told = [_judgement(result, "read")]
    if (repaired := result["repaired"]) is not None:
        told.append(f"repaired: {_judgement(repaired, 'read again')}")
    return escape_controls(f"{table}: {'; '.join(told)}")


def _judgement(result: Mapping[str, Any], done: str) -> str:
    said = [result["verdict"], f"{result['rows']:,} rows {done}", *_findings(result)]
    at = [f"at {' '.join(result['position'].split())}"] if result["position"] else []
    return ", ".join([*said, *at])


def _last_verdict(result: Mapping[str, Any]) -> str:
    last = result["repaired"] or result
    verdict = "repaired" if last["verdict"] == "equal" and last is not result else last["verdict"]
    at = datetime.fromtimestamp(last["at"], UTC)
    return f"{', '.join((verdict, *_findings(last)))} ({at:%Y-%m-%d %H:%M:%S} UTC)"


def _findings(result: Mapping[str, Any]) -> list[str]:
    found = [f"{count:,} {kind}" for kind, count in result["found"].items()]
    return [*found, result["reason"]] if result["reason"] else found
