"""The state of a snapshot, table by table: what's durable of it, and so what a restart goes on with.

A table's snapshot is a sum type, and each state holds just what is true in it. `Chunking.done` moves only when a
chunk's rows have been put into the ordered stream, so that a restart reads again what wasn't sealed, and nothing
else.
"""

from dataclasses import dataclass
from typing import Any, assert_never

from pipeline.keys import Key, key_from_json, key_to_json
from pipeline.schema import TableId


@dataclass(frozen=True, slots=True)
class Progress:
    """Counts of a table's snapshot: chunks and rows emitted, rows given up to changes, and the rows expected.

    `expected` is the server's own estimate (information_schema), good for a bar and an ETA, not for a promise.
    """

    chunks: int = 0
    rows: int = 0
    given_up: int = 0
    expected: int = 0


@dataclass(frozen=True, slots=True)
class Waiting:
    """Not begun."""


@dataclass(frozen=True, slots=True)
class Chunking:
    """Under way: all keys through `done` are emitted (None: none yet), the frozen last key is `end`.

    `key_version` (of the table's schema) says what these keys are keys of. `first`: this is the table's first
    snapshot, whose rows are appended straight to the mirror.
    """

    done: Key | None
    end: Key
    key_version: str
    first: bool
    progress: Progress


@dataclass(frozen=True, slots=True)
class Completed:
    """Every key through the frozen end was emitted or gave way to a change."""

    progress: Progress


@dataclass(frozen=True, slots=True)
class Stopped:
    """Ended by a signal."""

    progress: Progress


@dataclass(frozen=True, slots=True)
class Failed:
    """Ended by a named reason; nothing of the table was skipped silently."""

    reason: str
    progress: Progress


TableState = Waiting | Chunking | Completed | Stopped | Failed


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot: the id of the signal that asked for it, and its tables in the order they're taken."""

    id: str
    tables: dict[TableId, TableState]

    @property
    def ended(self) -> bool:
        """Whether no table of it has anything left to do."""
        return not any(isinstance(state, Waiting | Chunking) for state in self.tables.values())


def progress(state: TableState) -> Progress:
    """The counts of a table's snapshot, whatever its state."""
    return Progress() if isinstance(state, Waiting) else state.progress


def to_json(snapshot: Snapshot) -> dict[str, Any]:
    """A snapshot as plain JSON values; `from_json` is its inverse."""
    return {
        "id": snapshot.id,
        "tables": [
            {"database": table.database, "table": table.name, **_state_to_json(state)}
            for table, state in snapshot.tables.items()
        ],
    }


def from_json(value: dict[str, Any]) -> Snapshot:
    """The snapshot that `to_json` wrote."""
    return Snapshot(
        value["id"], {TableId(t["database"], t["table"]): _state_from_json(t) for t in value["tables"]}
    )


def _state_to_json(state: TableState) -> dict[str, Any]:
    counts = progress(state)
    common = {
        "state": type(state).__name__.lower(),
        "chunks": counts.chunks,
        "rows": counts.rows,
        "given_up": counts.given_up,
        "expected": counts.expected,
    }
    match state:
        case Waiting() | Completed() | Stopped():
            return common
        case Chunking(done, end, key_version, first):
            keys = {"done": None if done is None else key_to_json(done), "end": key_to_json(end)}
            return {**common, **keys, "key_version": key_version, "first": first}
        case Failed(reason):
            return {**common, "reason": reason}
        case _:
            assert_never(state)


def _state_from_json(value: dict[str, Any]) -> TableState:
    counts = Progress(value["chunks"], value["rows"], value["given_up"], value["expected"])
    match value["state"]:
        case "waiting":
            return Waiting()
        case "chunking":
            done = None if value["done"] is None else key_from_json(value["done"])
            end = key_from_json(value["end"])
            return Chunking(done, end, value["key_version"], value["first"], counts)
        case "completed":
            return Completed(counts)
        case "stopped":
            return Stopped(counts)
        case "failed":
            return Failed(value["reason"], counts)
        case other:
            raise ValueError(f"a table's snapshot can't be in the state {other!r}")
