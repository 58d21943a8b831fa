"""Changes as lines for people: `tidemark tail`.

    12:00:00.000000 345 shop.orders + id=7 status="new"

`+` is an insert, `-` a delete, `~` an update, `=` a row that a snapshot has read, and `!` a statement that emptied the
table. If the journal has what an update found, that comes first, as `<`, and what the update changed is bold. A table
that has stopped, or that begins again, is named in a line of its own. No name and no value moves the cursor: control
characters are escaped.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import click

from actors.runtime.logs import escape_controls
from pipeline.errors import Transient

_SIGNS: Final = {
    "c": ("+", "green"),
    "d": ("-", "red"),
    "u": ("~", "yellow"),
    "b": ("<", "red"),
    "r": ("=", "cyan"),
    "t": ("!", "magenta"),
}

Change = Mapping[str, Any]


class ChangeText:
    """Writes changes as lines in colours. `checkpoint`: the last one that came."""

    def __init__(self, filters: Iterable[tuple[str, str]] = ()) -> None:
        self.checkpoint: str | None = None
        self._filters = tuple(filters)
        self._found: Change | None = None

    def lines(self, answered: Iterable[bytes], *, as_json: bool) -> Iterator[str]:
        """Returns what to print for lines of the service's answer, either so or as they are.

        Raises Transient after a line with the reason for which the service sends no more.
        """
        for line in answered:
            told = json.loads(line)
            self.checkpoint = told.get("checkpoint", self.checkpoint)
            if "row" not in told:
                yield from [line.decode()] if as_json else _noticed(told)
                if (error := told.get("error")) is not None:
                    raise Transient(f"the service sends no more changes: {escape_controls(error)}")
                continue
            if self._passes(told):
                yield line.decode() if as_json else self._line(told)
            else:
                self._found = None  # it is of this update alone

    def _passes(self, change: Change) -> bool:
        row = change["row"]
        return all(column in row and _text(row[column]) == text for column, text in self._filters)

    def _line(self, change: Change) -> str:
        sign, colour = _SIGNS[change["op"]]
        time = (change["time"] or "")[11:-1] or "-"
        before = self._found["row"] if self._found is not None and change["op"] == "u" else None
        self._found = change if change["op"] == "b" else None
        values = " ".join(
            click.style(
                escape_controls(f"{name}={_shown(value)}"),
                fg=colour,
                bold=before is not None and before[name] != value,
            )
            for name, value in change["row"].items()
            if change["op"] != "t" and name not in change.get("absent", ())
        )
        head = escape_controls(f"{time} {change['scn']} {change['table']}")
        return f"{click.style(head, dim=True)} {click.style(sign, fg=colour)} {values}".rstrip()


def _noticed(told: Mapping[str, Any]) -> Iterator[str]:
    """Returns a line for each table of which a checkpoint tells."""
    for table in told.get("restarted", ()):
        yield click.style(
            escape_controls(f"{table} begins again: changes are lacking, and the lake has its rows"),
            fg="magenta",
        )
    for table, reason in told.get("stopped", {}).items():
        yield click.style(escape_controls(f"{table} has stopped: {reason}"), fg="magenta")


def _text(value: object) -> str:
    return value if isinstance(value, str) else _shown(value)


def _shown(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


class IncomingLines:
    """Lines that come in parts, each part looked at once."""

    def __init__(self) -> None:
        self._begun: list[bytes] = []

    def take(self, data: bytes) -> list[bytes]:
        """Returns the lines that are whole with this part."""
        *ends, rest = data.split(b"\n")
        whole = ends
        if ends:
            whole = [b"".join((*self._begun, ends[0])), *ends[1:]]
            self._begun = []
        self._begun.append(rest)
        return whole
