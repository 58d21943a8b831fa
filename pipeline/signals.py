"""Signals: what an operator may ask of a running service, in Debezium's JSON.

    {"id": "s1", "type": "execute-snapshot",
     "data": {"type": "incremental", "data-collections": ["shop\\\\.orders"]}}

A signal is parsed into one of the types below or refused with the reason; it never holds text that reaches
the source server.

Source: Debezium 3.6's documentation, "Sending signals to a Debezium connector". Other than there, nothing is
ignored: a field or a type that isn't known is refused by its name.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.schema import TableId

# A signal is a line or a request; a longer one is a mistake or an attack.
LONGEST = 64 * 1024
LONGEST_ID = 128


class MalformedSignal(ValueError):
    """A text that isn't a signal, and why; `id` is the signal's, as far as it could be made out."""

    def __init__(self, reason: str, id: str | None = None) -> None:  # noqa: A002 - the field's own name
        super().__init__(reason)
        self.id = id


@dataclass(frozen=True, slots=True)
class Tables:
    """Which tables are meant: regular expressions over `database.table` that match the whole name.

    They are RE2's, whose matching takes time linear in the name: a pattern can't run away with the service.
    Raises ValueError where one isn't such an expression.
    """

    patterns: tuple[str, ...]

    def __post_init__(self) -> None:
        for pattern in self.patterns:
            try:
                pc.match_substring_regex("", pattern)
            except pa.ArrowInvalid as error:
                raise ValueError(f"{pattern!r} isn't a regular expression (RE2): {error}") from error

    def match(self, table: TableId) -> bool:
        """Whether one of the patterns matches the whole name."""
        return any(
            pc.match_substring_regex(str(table), rf"\A(?:{pattern})\z").as_py() for pattern in self.patterns
        )

    def may_match_in(self, database: str) -> bool:
        """Whether some table of this database may be meant, by what each pattern begins with; yes, if in doubt."""
        starts = (_literal_start(pattern) for pattern in self.patterns)
        return any(start.startswith(f"{database}.") or f"{database}.".startswith(start) for start in starts)


def _literal_start(pattern: str) -> str:
    """Text that all matches of the pattern begin with."""
    literal = re.match(r"(?:(?:\\[^\w\s]|[\w-])(?![*+?{]))*", pattern)
    return "" if literal is None or "|" in pattern else literal[0].replace("\\", "")


@dataclass(frozen=True, slots=True)
class ExecuteSnapshot:
    """Take an incremental snapshot of the tables."""

    id: str
    tables: Tables


@dataclass(frozen=True, slots=True)
class StopSnapshot:
    """Stop the snapshots of the tables, running or waiting."""

    id: str
    tables: Tables


@dataclass(frozen=True, slots=True)
class PauseSnapshot:
    """Read no further chunks until a resume, also after a restart."""

    id: str


@dataclass(frozen=True, slots=True)
class ResumeSnapshot:
    """Go on with the chunks."""

    id: str


Signal = ExecuteSnapshot | StopSnapshot | PauseSnapshot | ResumeSnapshot

# Every table; a name may hold anything, a line's end included.
ALL_TABLES = Tables(("(?s:.*)",))

_NOT_YET = ("log", "set-binlog-position", "schema-changes", "snapshot-window-open", "snapshot-window-close")


def parse(text: str | bytes, default_id: str | None = None) -> Signal:
    """The signal that this JSON text is; `default_id` stands in where it has no id. Raises MalformedSignal."""
    if len(text if isinstance(text, bytes) else text.encode(errors="replace")) > LONGEST:
        raise MalformedSignal(f"it's longer than {LONGEST} bytes")
    try:
        value = json.loads(text, object_pairs_hook=_object)
    except (ValueError, RecursionError) as error:
        raise MalformedSignal(f"it isn't JSON that can be read: {error}") from error
    if not isinstance(value, dict):
        raise MalformedSignal("it isn't a JSON object")
    id_ = _id(value.get("id", default_id))
    try:
        return _signal(id_, value)
    except ValueError as error:
        raise MalformedSignal(str(error), id_) from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise ValueError("a field comes twice in one object")
    return value


def _id(value: object) -> str:
    if value is None:
        raise MalformedSignal('it has no "id"')
    if not isinstance(value, str) or not 0 < len(value) <= LONGEST_ID or not value.isprintable():
        raise MalformedSignal(f'"id" isn\'t printable text of 1 to {LONGEST_ID} characters')
    return value


def _signal(id_: str, value: Mapping[str, Any]) -> Signal:
    _only(value, "the signal", ("id", "type", "data"))
    data = value.get("data", {})
    if not isinstance(data, dict):
        raise ValueError('"data" isn\'t a JSON object')
    match value.get("type"):
        case "execute-snapshot":
            return ExecuteSnapshot(id_, _tables(_snapshot_data(data)))
        case "stop-snapshot":
            return StopSnapshot(
                id_, _tables(_snapshot_data(data)) if data.get("data-collections") else ALL_TABLES
            )
        case "pause-snapshot":
            _only(data, '"data"', ("type",))
            return PauseSnapshot(id_)
        case "resume-snapshot":
            _only(data, '"data"', ("type",))
            return ResumeSnapshot(id_)
        case None:
            raise ValueError('it has no "type"')
        case str(known) if known in _NOT_YET:
            raise ValueError(f"signals of the type {known!r} aren't supported yet")
        case other:
            raise ValueError(f"there's no signal of the type {other!r}")


def _snapshot_data(data: Mapping[str, Any]) -> object:
    for field in ("additional-conditions", "additional-condition", "surrogate-key"):
        if field in data:
            raise ValueError(f'"{field}" isn\'t supported yet')
    _only(data, '"data"', ("type", "data-collections"))
    kind = data.get("type", "incremental")
    if isinstance(kind, str) and kind.lower() == "blocking":
        raise ValueError("blocking snapshots aren't supported; an incremental one leaves the stream running")
    if not isinstance(kind, str) or kind.lower() != "incremental":
        raise ValueError(f"there's no snapshot of the type {kind!r}")
    return data.get("data-collections")


def _tables(patterns: object) -> Tables:
    if not isinstance(patterns, list) or not patterns:
        raise ValueError('"data-collections" isn\'t a list of at least one regular expression')
    if not all(isinstance(pattern, str) and pattern and pattern.isprintable() for pattern in patterns):
        raise ValueError('"data-collections" holds something else than printable text')
    return Tables(tuple(patterns))


def _only(value: Mapping[str, Any], where: str, known: tuple[str, ...]) -> None:
    unknown = sorted(value.keys() - set(known))
    if unknown:
        raise ValueError(f"{where} has unknown fields: {', '.join(map(repr, unknown))}")
