"""The durable state of a snapshot, table by table, with which a restart continues.

A table's snapshot is a sum type, and each state holds only what is true in it. A table is read in *ranges*, and each
proceeds by itself. `Range.done` moves only when a chunk's rows have entered the ordered stream, and a range is removed
when its last chunk's have. So a restart reads again what wasn't sealed, and nothing else, in any order of the ranges.

`wire` is a state's name in checkpoints, in `/status` and in metrics. It never changes.
"""

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final, assert_never

from pipeline.schema.row_keys import Key, key_from_json, key_to_json
from pipeline.schema.table_schema import TableId


@dataclass(frozen=True, slots=True)
class Request:
    """What a signal requested of a table, beyond all of its rows in the usual way.

    `condition`: only the rows that satisfy it, in the grammar of signals. `keys`: only the rows with these primary
    keys. `surrogate`: the name of a unique index to walk along instead of the primary key's. `chunk_rows`: how many
    rows a chunk has, if that isn't to be measured. `rows_per_s`: how many rows a second all tables of the snapshot get
    at most; 0 is no bound.
    """

    condition: str | None = None
    keys: tuple[Key, ...] = ()
    surrogate: str | None = None
    chunk_rows: int | None = None
    rows_per_s: int = 0

    @property
    def whole(self) -> bool:
        """Returns whether all rows are requested."""
        return self.condition is None and not self.keys


# After the id of a verification: the rows by which the lake compares what the verification has repaired.
REPAIRED: Final = " repaired"

# How the reason begins with which a verification leaves a table to another one, or which any snapshot gives of a table
# that the source doesn't have any more.
VERIFIED_ALREADY: Final = "it is being verified already"
DROPPED: Final = "a statement has dropped it"

# Why a table that was captured before has stopped.
LEFT_OUT: Final = (
    "the configuration doesn't capture it any more, so that its changes are missing from here on; to have it again, "
    "let the configuration capture it"
)

# What comes in the reason of a failure before the ranges that were not read.
NOT_READ: Final = " (not read: "

# All of a table in its usual way.
WHOLE_TABLE = Request()


@dataclass(frozen=True, slots=True)
class Progress:
    """Counts of a table's snapshot: chunks and rows emitted, superseded rows, and the rows expected.

    `expected` is the server's own estimate (information_schema), good for a bar and an ETA, not for a promise.
    `ranges`: into how many the table was divided; of these, `ranges_done` have come to their end.
    """

    chunks: int = 0
    rows: int = 0
    superseded: int = 0
    expected: int = 0
    ranges: int = 0
    ranges_done: int = 0


@dataclass(frozen=True, slots=True)
class Range:
    """A range of a table that has rows left: the keys after `done` through `end`. Those before are emitted.

    It begins where the range before it ends, so at first `done` is that one's end, and None in the first range.
    `number` is its own in this table.
    """

    number: int
    done: Key | None
    end: Key


@dataclass(frozen=True, slots=True)
class SnapshotWaiting:
    """Not begun."""

    wire: ClassVar[str] = "waiting"


@dataclass(frozen=True, slots=True)
class Chunking:
    """Under way: the ranges that have rows left. Their last `end` was the last key when it began.

    `walk_version` says which walk their keys belong to (`pipeline.snapshot.chunk_index`). `first`: the rows are
    appended straight to the mirror, which is being filled.
    """

    wire: ClassVar[str] = "chunking"

    ranges: tuple[Range, ...]
    walk_version: str
    first: bool
    progress: Progress


@dataclass(frozen=True, slots=True)
class Repairing:
    """Of a verification with a repair: all is read, and the lake's differing rows are read again, batch by batch.

    `batches` of their keys have passed. Of these keys no change touched so many (`reread`) when they were compared.
    """

    wire: ClassVar[str] = "repairing"

    progress: Progress
    batches: int = 0
    reread: int = 0


@dataclass(frozen=True, slots=True)
class Completed:
    """Every key through the frozen end was emitted or superseded by a change. The rest is as of Repairing."""

    wire: ClassVar[str] = "completed"

    progress: Progress
    batches: int = 0
    reread: int = 0


@dataclass(frozen=True, slots=True)
class SnapshotStopped:
    """Ended by a signal."""

    wire: ClassVar[str] = "stopped"

    progress: Progress


@dataclass(frozen=True, slots=True)
class SnapshotFailed:
    """Ended by a named reason; nothing of the table was skipped silently."""

    wire: ClassVar[str] = "failed"

    reason: str
    progress: Progress


Unfinished = SnapshotWaiting | Chunking | Repairing
TableSnapshot = Unfinished | Completed | SnapshotStopped | SnapshotFailed


@dataclass(frozen=True, slots=True)
class Verification:
    """What makes a snapshot a verification: the lake only compares its rows with what it has.

    `since`: the SCN of the last thing in the stream when it was requested. Each chunk sees all changes up to there.
    `narrowed`: the tables of which only some rows are read. `repairs`: whether rows that differ are read again.
    """

    since: int
    narrowed: frozenset[TableId] = frozenset()
    repairs: bool = False


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot: the id of the signal that requested it, and its tables in the order in which they're read.

    `requests` holds those of tables that aren't just read completely. `blocking`: the stream is paused while a chunk of
    it is read. Of two snapshots the one with the higher `priority` comes first, else the older one. `consistent`: all
    of its tables are read at one position (`pipeline.coordinator.consistent_state`). `verification`: why its rows
    aren't for the lake's tables, None if they are. `end_number`: rises from one end of a snapshot to the next; 0 until
    the end is numbered.
    """

    id: str
    tables: dict[TableId, TableSnapshot]
    requests: dict[TableId, Request] = field(default_factory=dict)
    blocking: bool = False
    priority: int = 0
    consistent: bool = False
    verification: Verification | None = None
    end_number: int = 0

    @property
    def ended(self) -> bool:
        """Whether no table of it has anything left to do."""
        return not any(isinstance(state, Unfinished) for state in self.tables.values())

    def request(self, table: TableId) -> Request:
        """Returns what the signal requested of the table."""
        return self.requests.get(table, WHOLE_TABLE)

    def read_whole(self, counts: Progress) -> Repairing | Completed:
        """Returns the state of a table all of whose chunks have passed."""
        repairs = self.verification is not None and self.verification.repairs
        return Repairing(counts) if repairs else Completed(counts)

    def fills(self, table: TableId) -> bool:
        """Returns whether the table's mirror is complete once this snapshot of it is."""
        return self.verification is None and self.request(table).whole


@dataclass(frozen=True, slots=True)
class ChunkId:
    """A chunk: the snapshot that it belongs to, its table, and a number that is never used twice in a run."""

    snapshot: str
    table: TableId
    number: int

    def __str__(self) -> str:
        return f"{self.snapshot}/{self.table}/{self.number}"


def advance_range(ranges: tuple[Range, ...], number: int, upto: Key | None) -> tuple[Range, ...]:
    """The ranges after a chunk of the one with this number: it has come to that key, or to its end and has left."""
    return tuple(
        replace(each, done=upto) if each.number == number else each
        for each in ranges
        if each.number != number or upto is not None
    )


def progress(state: TableSnapshot) -> Progress:
    """Returns the counts of a table's snapshot, in any state."""
    return Progress() if isinstance(state, SnapshotWaiting) else state.progress


def reason_without_keys(reason: str) -> str:
    """Returns the reason of a failure without the ranges that were not read: their ends are keys of rows."""
    return reason.partition(NOT_READ)[0]


def is_dropped(state: TableSnapshot) -> bool:
    """Returns whether the snapshot failed because the source doesn't have the table any more."""
    return isinstance(state, SnapshotFailed) and state.reason.startswith(DROPPED)


def to_json(snapshot: Snapshot) -> dict[str, Any]:
    """A snapshot as plain JSON values; `from_json` is its inverse."""
    return {
        "id": snapshot.id,
        "blocking": snapshot.blocking,
        "consistent": snapshot.consistent,
        "priority": snapshot.priority,
        "verification": _verification_to_json(snapshot.verification),
        **({"end_number": snapshot.end_number} if snapshot.end_number else {}),
        "tables": [
            {
                "database": table.database,
                "table": table.name,
                **_state_to_json(state),
                "request": _request_to_json(snapshot.requests.get(table)),
            }
            for table, state in snapshot.tables.items()
        ],
    }


def from_json(value: dict[str, Any]) -> Snapshot:
    """The snapshot that `to_json` wrote."""
    tables = {TableId(t["database"], t["table"]): t for t in value["tables"]}
    return Snapshot(
        value["id"],
        {table: _state_from_json(t) for table, t in tables.items()},
        {table: _request_from_json(t["request"]) for table, t in tables.items() if t["request"] is not None},
        value["blocking"],
        value["priority"],
        value["consistent"],
        _verification_from_json(value.get("verification")),
        value.get("end_number", 0),
    )


def _verification_to_json(verification: Verification | None) -> dict[str, Any] | None:
    if verification is None:
        return None
    narrowed = [[table.database, table.name] for table in sorted(verification.narrowed)]
    repairs = {"repairs": True} if verification.repairs else {}
    return {"since": verification.since, "narrowed": narrowed, **repairs}


def _verification_from_json(value: dict[str, Any] | None) -> Verification | None:
    if value is None:
        return None
    narrowed = frozenset(TableId(*each) for each in value["narrowed"])
    return Verification(value["since"], narrowed, value.get("repairs", False))


def _request_to_json(request: Request | None) -> dict[str, Any] | None:
    if request is None:
        return None
    paced = {"rows_per_s": request.rows_per_s} if request.rows_per_s else {}
    return {
        "condition": request.condition,
        "keys": [key_to_json(key) for key in request.keys],
        "surrogate": request.surrogate,
        "chunk_rows": request.chunk_rows,
        **paced,
    }


def _request_from_json(value: dict[str, Any]) -> Request:
    keys = tuple(key_from_json(key) for key in value["keys"])
    counts = value["chunk_rows"], value.get("rows_per_s", 0)
    return Request(value["condition"], keys, value["surrogate"], *counts)


def _state_to_json(state: TableSnapshot) -> dict[str, Any]:
    common = {"state": state.wire, **_progress_to_json(progress(state))}
    match state:
        case SnapshotWaiting() | SnapshotStopped():
            return common
        case Completed(batches=batches, reread=reread):
            return {**common, "batches": batches, "reread": reread} if batches else common
        case Repairing(batches=batches, reread=reread):
            return {**common, "batches": batches, "reread": reread}
        case Chunking(ranges, walk_version, first):
            to_go = [_range_to_json(each) for each in ranges]
            return {**common, "to_go": to_go, "walk_version": walk_version, "first": first}
        case SnapshotFailed(reason):
            return {**common, "reason": reason}
        case _:
            assert_never(state)


def _state_from_json(value: dict[str, Any]) -> TableSnapshot:
    counts = _progress_from_json(value)
    match value["state"]:
        case "waiting":
            return SnapshotWaiting()
        case "chunking":
            ranges = tuple(_range_from_json(each) for each in value["to_go"])
            return Chunking(ranges, value["walk_version"], value["first"], counts)
        case "repairing":
            return Repairing(counts, value["batches"], value["reread"])
        case "completed":
            return Completed(counts, value.get("batches", 0), value.get("reread", 0))
        case "stopped":
            return SnapshotStopped(counts)
        case "failed":
            return SnapshotFailed(value["reason"], counts)
        case other:
            raise ValueError(f"a table's snapshot can't be in the state {other!r}")


def _progress_to_json(progress: Progress) -> dict[str, int]:
    return {
        "chunks": progress.chunks,
        "rows": progress.rows,
        "given_up": progress.superseded,
        "expected": progress.expected,
        "ranges": progress.ranges,
        "ranges_done": progress.ranges_done,
    }


def _progress_from_json(value: dict[str, Any]) -> Progress:
    return Progress(
        chunks=value["chunks"],
        rows=value["rows"],
        superseded=value["given_up"],
        expected=value["expected"],
        ranges=value["ranges"],
        ranges_done=value["ranges_done"],
    )


def _range_to_json(each: Range) -> dict[str, Any]:
    done = None if each.done is None else key_to_json(each.done)
    return {"number": each.number, "done": done, "end": key_to_json(each.end)}


def _range_from_json(value: dict[str, Any]) -> Range:
    done = None if value["done"] is None else key_from_json(value["done"])
    return Range(value["number"], done, key_from_json(value["end"]))
