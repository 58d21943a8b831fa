"""Signals: what an operator may ask of a running service, in Debezium's JSON.

    {"id": "s1", "type": "execute-snapshot",
     "data": {"type": "incremental", "data-collections": ["shop\\\\.orders"]}}

A signal is parsed into one of the types below or refused with the reason. It never holds text that reaches the source
server. `docs/signals.md` is the reference for those who send them.

Source: Debezium 3.6's documentation, "Sending signals to a Debezium connector". Other than there, nothing is
ignored: a field or a type that isn't known is refused by its name. Ours are `recapture`, `verify`, `keys`, `priority`,
`chunk-rows` and `rows-per-s`.
"""

import difflib
import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from pipeline.gtid.gtid_set import GtidSet
from pipeline.schema.row_keys import Key, KeyPart
from pipeline.schema.table_filter import ALL_TABLES, TableFilter
from pipeline.snapshot import row_filter_parser

# A signal is a line or a request; a longer one is a mistake or an attack.
LONGEST_SIGNAL: Final = 64 * 1024
LONGEST_ID: Final = 128

# So deep are lists and objects in each other at most. A part of a key is within seven of them.
MOST_NESTED: Final = 16

# The ids of the snapshots that capture begins by itself (`pipeline.coordinator`). Each has an SCN.
_OWN_IDS: Final = re.compile(r"(anew|consistent|initial|protection|reread|restart)-\d")

# A priority is from -MOST_PRIORITY to MOST_PRIORITY, 0 by default.
MOST_PRIORITY: Final = 1000
MOST_CHUNK_ROWS: Final = 10_000_000
MOST_ROWS_PER_S: Final = 1_000_000_000

# A verification's, unless it has another one: snapshots come first.
VERIFICATION_PRIORITY: Final = -1


class MalformedSignal(ValueError):
    """A text that isn't a signal, and why; `id` is the signal's, as far as it could be made out."""

    def __init__(self, reason: str, id: str | None = None) -> None:  # noqa: A002 - the field's own name
        super().__init__(reason)
        self.id = id


@dataclass(frozen=True, slots=True)
class Filter:
    """Of the tables that match, only the rows for which the condition (`pipeline.snapshot.row_filter_parser`) is
    true."""

    tables: TableFilter
    condition: str


@dataclass(frozen=True, slots=True)
class KeyList:
    """Of the tables that match, only the rows with these primary keys."""

    tables: TableFilter
    keys: tuple[Key, ...]


@dataclass(frozen=True, slots=True)
class ExecuteSnapshot:
    """Take a snapshot of the tables.

    `filters` and `keys` narrow it. `surrogate`: a column, or a unique index by its name, to walk along instead of the
    primary key. `blocking`: the stream waits while a chunk is read. `chunk_rows`: rows of a chunk, where that isn't
    to be found by measuring. Of two snapshots the one with the higher `priority` comes first. `rows_per_s`: the most
    that it reads of the source; 0 is no bound.
    """

    wire: ClassVar[str] = "ExecuteSnapshot"

    id: str
    tables: TableFilter
    filters: tuple[Filter, ...] = ()
    keys: tuple[KeyList, ...] = ()
    surrogate: str | None = None
    blocking: bool = False
    chunk_rows: int | None = None
    priority: int = 0
    rows_per_s: int = 0


@dataclass(frozen=True, slots=True)
class VerifyTables:
    """Compare what the lake has of the tables with the source (`pipeline.lake.verification.runs`).

    `filters` narrow it. `chunk_rows`, `priority` and `rows_per_s`: as of a snapshot. `repair`: whether rows that differ
    are read again (`pipeline.coordinator.verification.repair`).
    """

    wire: ClassVar[str] = "VerifyTables"

    id: str
    tables: TableFilter = ALL_TABLES
    filters: tuple[Filter, ...] = ()
    chunk_rows: int | None = None
    priority: int = VERIFICATION_PRIORITY
    repair: bool = False
    rows_per_s: int = 0


@dataclass(frozen=True, slots=True)
class StopSnapshot:
    """Stop the snapshots of the tables, running or waiting."""

    wire: ClassVar[str] = "StopSnapshot"

    id: str
    tables: TableFilter


@dataclass(frozen=True, slots=True)
class Recapture:
    """Begin stopped tables again, for any reason of the stop (`pipeline.coordinator.snapshots.recapture`)."""

    wire: ClassVar[str] = "Recapture"

    id: str
    tables: TableFilter


@dataclass(frozen=True, slots=True)
class PauseSnapshot:
    """Read no further chunks until a resume, also after a restart."""

    wire: ClassVar[str] = "PauseSnapshot"

    id: str


@dataclass(frozen=True, slots=True)
class ResumeSnapshot:
    """Read chunks again."""

    wire: ClassVar[str] = "ResumeSnapshot"

    id: str


@dataclass(frozen=True, slots=True)
class ReportPosition:
    """Answer with the message. {} in it stands for the stream's position."""

    wire: ClassVar[str] = "LogPosition"

    id: str
    message: str


@dataclass(frozen=True, slots=True)
class SetBinlogPosition:
    """Continue after these transactions. Those that this skips are never read from the log."""

    wire: ClassVar[str] = "SetBinlogPosition"

    id: str
    position: GtidSet


_OfSnapshots = ExecuteSnapshot | VerifyTables | StopSnapshot | PauseSnapshot | ResumeSnapshot
Signal = _OfSnapshots | Recapture | ReportPosition | SetBinlogPosition


@dataclass(frozen=True, slots=True)
class SourceSignal:
    """A row that was inserted into the signal table of the source; the third column is JSON."""

    id: str
    type: str
    data: str


# What the field `type` may be.
SIGNAL_TYPES: Final = (
    "execute-snapshot",
    "verify",
    "stop-snapshot",
    "recapture",
    "pause-snapshot",
    "resume-snapshot",
    "log",
    "set-binlog-position",
)
_INTERNAL: Final = ("schema-changes", "snapshot-window-open", "snapshot-window-close")


def parse_signal(text: str | bytes, default_id: str | None = None) -> Signal:
    """Returns the signal in this JSON text; `default_id` is its id if it has none. Raises MalformedSignal."""
    value = _json(text)
    if not isinstance(value, dict):
        raise MalformedSignal("it isn't a JSON object")
    return _signal({"id": default_id, **value})


def parse_row(row: SourceSignal) -> Signal:
    """The signal that a row of the signal table is. Raises MalformedSignal."""
    try:
        data = _json(row.data) if row.data.strip() else {}
    except MalformedSignal as error:
        raise MalformedSignal(f'of its "data", {error}', row.id) from error
    return _signal({"id": row.id, "type": row.type, "data": data})


def record_id(topic: str, offset: int, time_ms: int) -> str:
    """Returns the id of a topic's record that has none of its own. It is no longer than LONGEST_ID."""
    if len(whole := f"{topic}-{offset}-{time_ms}") <= LONGEST_ID:
        return whole
    digest = hashlib.sha256(topic.encode()).hexdigest()[:16]
    return f"{topic[:64]}-{digest}-{offset}-{time_ms}"


def is_own_id(id_: str) -> bool:
    """Returns whether Tidemark gives such ids to its own snapshots, so that no signal has it."""
    return _OWN_IDS.match(id_) is not None


def _json(text: str | bytes) -> Any:
    if len(text if isinstance(text, bytes) else text.encode(errors="replace")) > LONGEST_SIGNAL:
        raise MalformedSignal(f"it's longer than {LONGEST_SIGNAL} bytes")
    try:
        value = json.loads(text, object_pairs_hook=_object, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise MalformedSignal(f"it isn't JSON that can be read: {error}") from error
    if not _is_shallow(value):
        raise MalformedSignal(f"it has lists and objects more than {MOST_NESTED} deep in each other")
    return value


def _is_shallow(value: object) -> bool:
    """Returns whether no more than MOST_NESTED lists and objects are in each other. So what recurses ends."""
    level = [value]
    for _ in range(MOST_NESTED + 1):
        nested = [
            each.values() if isinstance(each, dict) else each
            for each in level
            if isinstance(each, dict | list)
        ]
        if not nested:
            return True
        level = [part for each in nested for part in each]
    return False


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
    if is_own_id(value):
        raise MalformedSignal("Tidemark gives such ids to its own snapshots; choose another one", value)
    return value


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON's")


def _signal(value: Mapping[str, Any]) -> Signal:
    id_ = _id(value["id"])
    try:
        # Half of a surrogate pair is no text: no answer can have it, and no statement.
        json.dumps(value, ensure_ascii=False).encode()
        return _of_type(id_, value)
    except ValueError as error:
        raise MalformedSignal(str(error), id_) from error


def _of_type(id_: str, value: Mapping[str, Any]) -> Signal:
    _only(value, "the signal", "id", "type", "data")
    data = value.get("data", {})
    if not isinstance(data, dict):
        raise ValueError('"data" isn\'t a JSON object')
    match value.get("type"):
        case "execute-snapshot":
            return _execute(id_, data)
        case "verify":
            return _verify(id_, data)
        case "stop-snapshot":
            _only(data, '"data"', "type", "data-collections")
            _blocking(data)
            return StopSnapshot(id_, _tables(data) if data.get("data-collections") else ALL_TABLES)
        case "recapture":
            _only(data, '"data"', "data-collections")
            return Recapture(id_, _tables(data))
        case "pause-snapshot":
            _only(data, '"data"', "type")
            return PauseSnapshot(id_)
        case "resume-snapshot":
            _only(data, '"data"', "type")
            return ResumeSnapshot(id_)
        case "log":
            _only(data, '"data"', "message")
            return ReportPosition(id_, _text(data.get("message", ""), '"message"'))
        case "set-binlog-position":
            return SetBinlogPosition(id_, _position(data))
        case None:
            raise ValueError('it has no "type"')
        case str(internal) if internal in _INTERNAL:
            raise ValueError(f"signals of the type {internal!r} are a connector's own, and not for sending")
        case other:
            raise ValueError(f"there's no signal of the type {other!r}; {_hint(other, SIGNAL_TYPES)}")


def _execute(id_: str, data: Mapping[str, Any]) -> ExecuteSnapshot:
    known = (
        "type",
        "data-collections",
        "additional-conditions",
        "surrogate-key",
        "keys",
        "chunk-rows",
        "priority",
        "rows-per-s",
    )
    _only(data, '"data"', *known)
    return ExecuteSnapshot(
        id_,
        _tables(data),
        tuple(map(_filter, _objects(data, "additional-conditions", "data-collection", "filter"))),
        tuple(map(_key_list, _objects(data, "keys", "data-collection", "keys"))),
        _text(data["surrogate-key"], '"surrogate-key"') if data.get("surrogate-key") is not None else None,
        _blocking(data),
        _integer(data, "chunk-rows", 1, MOST_CHUNK_ROWS, None),
        _integer(data, "priority", -MOST_PRIORITY, MOST_PRIORITY, 0) or 0,
        _rows_per_s(data),
    )


def _verify(id_: str, data: Mapping[str, Any]) -> VerifyTables:
    known = (
        "data-collections",
        "additional-conditions",
        "chunk-rows",
        "priority",
        "repair",
        "rows-per-s",
    )
    _only(data, '"data"', *known)
    priority = _integer(data, "priority", -MOST_PRIORITY, MOST_PRIORITY, None)
    return VerifyTables(
        id_,
        _tables(data) if data.get("data-collections") else ALL_TABLES,
        tuple(map(_filter, _objects(data, "additional-conditions", "data-collection", "filter"))),
        _integer(data, "chunk-rows", 1, MOST_CHUNK_ROWS, None),
        VERIFICATION_PRIORITY if priority is None else priority,
        _flag(data, "repair"),
        _rows_per_s(data),
    )


def _rows_per_s(data: Mapping[str, Any]) -> int:
    return _integer(data, "rows-per-s", 0, MOST_ROWS_PER_S, 0) or 0


def _blocking(data: Mapping[str, Any]) -> bool:
    kind = data.get("type", "incremental")
    if not isinstance(kind, str) or kind.lower() not in ("incremental", "blocking"):
        raise ValueError(f"there's no snapshot of the type {kind!r}, only incremental and blocking")
    return kind.lower() == "blocking"


def _tables(data: Mapping[str, Any]) -> TableFilter:
    patterns = data.get("data-collections")
    if not isinstance(patterns, list) or not patterns:
        raise ValueError('"data-collections" isn\'t a list of at least one regular expression')
    if not all(isinstance(pattern, str) and pattern and pattern.isprintable() for pattern in patterns):
        raise ValueError('"data-collections" holds something else than printable text')
    return TableFilter(tuple(patterns))


def _filter(value: Mapping[str, Any]) -> Filter:
    tables, condition = _table(value), _text(value["filter"], '"filter"')
    try:
        row_filter_parser.parse_filter(condition)
    except ValueError as error:
        raise ValueError(f'the "filter" of {value["data-collection"]!r} can\'t be taken: {error}') from error
    return Filter(tables, condition)


def _key_list(value: Mapping[str, Any]) -> KeyList:
    keys = value["keys"]
    if not isinstance(keys, list) or not keys:
        raise ValueError(f'the "keys" of {value["data-collection"]!r} aren\'t a list of at least one')
    return KeyList(_table(value), tuple(map(_key, keys)))


def _key(value: object) -> Key:
    """A key of several columns is a list, and one of a single column its value, or a list of that."""
    parts = tuple(map(_key_part, value if isinstance(value, list) else [value]))
    if not parts:
        raise ValueError('"keys" holds an empty key')
    return parts


def _key_part(value: object) -> KeyPart:
    match value:
        case bool():
            pass
        case int() | str():
            return value
        case float() if math.isfinite(value):
            return value
        case {"hex": str(digits), **others} if not others:
            try:
                return bytes.fromhex(digits)
            except ValueError:
                pass
        case _:
            pass
    raise ValueError(f'"keys" holds {value!r}; a key is made of numbers, texts and {{"hex": "00ff"}}')


def _table(value: Mapping[str, Any]) -> TableFilter:
    return TableFilter((_text(value["data-collection"], '"data-collection"'),))


def _position(data: Mapping[str, Any]) -> GtidSet:
    _only(data, '"data"', "gtid_set", "binlog_filename", "binlog_position")
    if "gtid_set" not in data or len(data) > 1:
        raise ValueError(
            "a position is a set of transactions, and a file and an offset aren't taken; give the GTIDs of all that "
            'has been executed up to there as "gtid_set" (mysqlbinlog shows them as Previous-GTIDs and GTID_NEXT)'
        )
    position = GtidSet.parse(_text(data["gtid_set"], '"gtid_set"'))
    if not position:
        raise ValueError('"gtid_set" is empty')
    return position


def _objects(data: Mapping[str, Any], field: str, *keys: str) -> list[dict[str, Any]]:
    """Returns the objects of an optional list, where each has all of these keys and no others."""
    values = data.get(field, [])
    if not isinstance(values, list):
        raise ValueError(f'"{field}" isn\'t a list')
    for value in values:
        if not isinstance(value, dict):
            raise ValueError(f'"{field}" holds something else than JSON objects: {value!r}')
        _only(value, f'"{field}"', *keys)
        for missing in sorted(set(keys) - value.keys()):
            raise ValueError(f'an entry of "{field}" has no "{missing}"')
    return values


def _text(value: object, what: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{what} isn't text, or is empty")
    return value


def _integer(data: Mapping[str, Any], field: str, least: int, most: int, default: int | None) -> int | None:
    value = data.get(field, default)
    if value is None and field not in data:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ValueError(f'"{field}" isn\'t a whole number from {least} to {most}')
    return value


def _flag(data: Mapping[str, Any], field: str) -> bool:
    value = data.get(field, False)
    if not isinstance(value, bool):
        raise ValueError(f'"{field}" isn\'t true or false')
    return value


def _only(value: Mapping[str, Any], where: str, *known: str) -> None:
    unknown = sorted(value.keys() - set(known))
    if unknown:
        told = ", ".join(map(repr, unknown))
        raise ValueError(f"{where} has unknown fields: {told}; {_hint(unknown[0], known)}")


def _hint(name: object, known: Sequence[str]) -> str:
    """Returns which of the known names may be meant, or all of them."""
    close = difflib.get_close_matches(str(name), known, 1)
    return f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}"
