"""How the service under test is told what to do to itself, and tells what became of it: two files of JSON lines.

One is only appended to by who orders, the other by the service. So nothing is lost when the service is killed: a new
one finds in the files what it still has to do.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from pipeline.messages.topology import ActorName
from tests.chaos.plan import Deed


@dataclass(frozen=True, slots=True)
class Strike:
    """An actor is to do it at its next message. `patience_s`: after so long it's taken for hung; None is its own."""

    number: int
    actor: ActorName
    deed: Deed
    lasts_s: float = 0.0
    patience_s: float | None = None


@dataclass(frozen=True, slots=True)
class MoveClock:
    """The wall clock is so far off from now on."""

    number: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Count:
    """Tell what there is of tasks, threads and sockets."""

    number: int


Order = Strike | MoveClock | Count
_KINDS: Final[dict[str, type[Order]]] = {kind.__name__: kind for kind in (Strike, MoveClock, Count)}


class What(StrEnum):
    """What the service tells."""

    BEGAN = "began"  # a process
    DONE = "done"  # an order has taken effect
    FAILED = "failed"  # an actor, or a group that couldn't be built
    RUNNING = "running"  # an actor, again


@dataclass(frozen=True, slots=True)
class Event:
    """`at`: seconds of the machine's monotonic clock, which all processes share."""

    what: What
    at: float
    told: dict[str, Any]


@dataclass(slots=True)
class Lines:
    """A file of JSON lines, and how far it has been read here."""

    path: Path
    _read: int = 0

    def append(self, line: dict[str, Any]) -> None:
        """At once, in one piece."""
        with self.path.open("a", buffering=1) as file:
            file.write(json.dumps(line) + "\n")

    def new(self) -> Iterator[dict[str, Any]]:
        """The lines that have come since the last time."""
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            file.seek(self._read)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self._read += len(line)
                yield json.loads(line)


def written(order: Order) -> dict[str, Any]:
    """As a line."""
    return {"kind": type(order).__name__, **asdict(order)}


def read(line: dict[str, Any]) -> Order:
    """From a line."""
    fields = dict(line)
    kind = _KINDS[fields.pop("kind")]
    if kind is Strike:
        fields |= {"actor": ActorName(fields["actor"]), "deed": Deed(fields["deed"])}
    return kind(**fields)
