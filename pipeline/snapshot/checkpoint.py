"""The checkpoint: all that capture needs to continue, as each sealed segment stores it.

It travels with the data before it, so the two can't diverge: what a segment doesn't hold never happened.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from pipeline.gtid import witness as witnesses
from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.gtid_set import GtidSet
from pipeline.gtid.witness import Witnesses
from pipeline.schema import foreign_key
from pipeline.schema.foreign_key import ForeignKey
from pipeline.schema.table_schema import TableId, TableSchema
from pipeline.snapshot import prepared_xa
from pipeline.snapshot import snapshot as snapshots
from pipeline.snapshot.prepared_xa import XaPrepared
from pipeline.snapshot.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Filling:
    """Its first snapshot waits or is under way: chunks are appended to it, so that changes must not be merged yet."""

    wire: ClassVar[str] = "filling"

    since: int


@dataclass(frozen=True, slots=True)
class Ready:
    """Its first snapshot has ended: from now on everything reaches it by merging changes."""

    wire: ClassVar[str] = "ready"

    since: int


# How the mirror of a table in the lake is fed. A table without an entry has had no snapshot, and has no mirror yet.
# `since` names the *generation* of the mirror: it begins empty at this SCN, and no change up to there counts for it. To
# begin a table again, give it a Filling with a later one.
Mirror = Filling | Ready


@dataclass(frozen=True, slots=True)
class Moving:
    """A signal requested that capture continue at another position. The next start decides whether it moves."""

    id: str
    position: GtidSet


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The state after the last row of a segment.

    `position`: the GTIDs of all transactions that have completely passed. `scn`: the number of the last thing in the
    stream (a transaction, a chunk, or the beginning of mirrors). It rises by one each, and no mirror begins there.
    `schemas`: the version of each captured table that holds at the position. `snapshots`: those that haven't ended, and
    the last ones that have. `signals`: ids of signals that took effect, so that a repeated one takes effect once.
    `paused`: no chunk is read until a resume. `stopped`: tables that are no longer captured, each with its reason.
    `unproven`: those that a statement may have altered since their schema was verified. `unread`: for tables with rows
    to read again (`pipeline.coordinator.reselect`), the SCN up to which none is unread. `server`: the server (UUID)
    whose log had what has passed last; empty in checkpoints from before this field. `witnesses`: the last transactions
    that have passed (`pipeline.gtid.witness`); none in checkpoints from before this field. `recapturing`: the tables
    that the next start of capture begins again, each with the signal that requested it
    (`pipeline.coordinator.snapshots.recapture`). `prepared`: the XA transactions that wait for their second phase.
    `unknown_engines`: the tables whose engine may be one whose rows the log doesn't have. A statement may have changed
    it, and the server hasn't said it since. `scanned`: the tables without a key whose changes add up to their rows,
    since a scan (`pipeline.coordinator.halted.table_scan`) has read these. `log_end`: the place in the log of `server`
    up to which everything has passed; None if that isn't known. `foreign_keys`: those that may change rows below the
    log from the position on (`pipeline.verifier.cascades`); None if that isn't known, as in checkpoints from before
    this field.
    """

    position: GtidSet
    scn: int = 0
    schemas: dict[TableId, TableSchema] = field(default_factory=dict)
    mirrors: dict[TableId, Mirror] = field(default_factory=dict)
    snapshots: tuple[Snapshot, ...] = ()
    signals: tuple[str, ...] = ()
    paused: bool = False
    stopped: dict[TableId, str] = field(default_factory=dict)
    moving: Moving | None = None
    unproven: frozenset[TableId] = frozenset()
    unread: dict[TableId, int] = field(default_factory=dict)
    server: str = ""
    witnesses: Witnesses = ()
    prepared: tuple[XaPrepared, ...] = ()
    recapturing: dict[TableId, str] = field(default_factory=dict)
    unknown_engines: frozenset[TableId] = frozenset()
    scanned: frozenset[TableId] = frozenset()
    log_end: Coordinates | None = None
    foreign_keys: tuple[ForeignKey, ...] | None = None

    @property
    def to_be_resumed(self) -> bool:
        """Returns whether capture must restart from here, because only a start can carry out a signal."""
        return self.moving is not None or bool(self.recapturing)

    def same_but_position(self, other: "Checkpoint") -> bool:
        """Returns whether only the position, and what belongs to it, has moved between the two."""
        moved = replace(self, position=other.position, scn=other.scn)
        moved = replace(moved, witnesses=other.witnesses, prepared=other.prepared, log_end=other.log_end)
        return moved == other


def awaits_snapshot(checkpoint: Checkpoint, table: TableId) -> bool:
    """Returns whether a snapshot of all rows, which completes the table's mirror, waits or is under way."""
    return any(
        isinstance(snapshot.tables.get(table), snapshots.Unfinished) and snapshot.fills(table)
        for snapshot in checkpoint.snapshots
    )


def stays_incomplete(checkpoint: Checkpoint, table: TableId) -> bool:
    """Returns whether the table's mirror lacks rows that no snapshot will bring."""
    return isinstance(checkpoint.mirrors.get(table), Filling) and not awaits_snapshot(checkpoint, table)


def unused_id(checkpoint: Checkpoint, wanted: str) -> str:
    """Returns this id for a snapshot, or a similar one if a snapshot or a signal has it."""
    used = {*checkpoint.signals, *(snapshot.id for snapshot in checkpoint.snapshots)}
    return wanted if wanted not in used else unused_id(checkpoint, f"{wanted}-again")


def is_keyless(checkpoint: Checkpoint, table: TableId) -> bool:
    """Returns whether the table has no primary key, so that its rows can only be read all at once (a scan)."""
    schema = checkpoint.schemas.get(table)
    return schema is not None and not schema.key


_MIRRORS: dict[str, type[Mirror]] = {kind.wire: kind for kind in (Filling, Ready)}


def to_json(checkpoint: Checkpoint) -> dict[str, Any]:
    """A checkpoint as plain JSON values, schemas by their version only; `from_json` is its inverse."""
    return {
        "position": str(checkpoint.position),
        "scn": checkpoint.scn,
        "schemas": [[t.database, t.name, s.version] for t, s in checkpoint.schemas.items()],
        "mirrors": [[t.database, t.name, m.wire, m.since] for t, m in checkpoint.mirrors.items()],
        "snapshots": [snapshots.to_json(s) for s in checkpoint.snapshots],
        "signals": list(checkpoint.signals),
        "paused": checkpoint.paused,
        "stopped": [[t.database, t.name, reason] for t, reason in checkpoint.stopped.items()],
        "moving": checkpoint.moving and [checkpoint.moving.id, str(checkpoint.moving.position)],
        "unproven": [[t.database, t.name] for t in sorted(checkpoint.unproven)],
        "unread": [[t.database, t.name, scn] for t, scn in checkpoint.unread.items()],
        "server": checkpoint.server,
        "witnesses": [witnesses.to_json(each) for each in checkpoint.witnesses],
        "recapturing": [[t.database, t.name, signal] for t, signal in checkpoint.recapturing.items()],
        "prepared": [prepared_xa.to_json(each) for each in checkpoint.prepared],
        "unknown_engines": [[t.database, t.name] for t in sorted(checkpoint.unknown_engines)],
        "scanned": [[t.database, t.name] for t in sorted(checkpoint.scanned)],
        "log_end": checkpoint.log_end and [checkpoint.log_end.file, checkpoint.log_end.offset],
        "foreign_keys": checkpoint.foreign_keys
        and [foreign_key.to_json(key) for key in checkpoint.foreign_keys],
    }


def from_json(value: dict[str, Any], versions: Mapping[str, TableSchema]) -> Checkpoint:
    """The checkpoint that `to_json` wrote; `versions` has the schema of each version."""
    moving, keys = value["moving"], value.get("foreign_keys")
    return Checkpoint(
        position=GtidSet.parse(value["position"]),
        scn=value["scn"],
        schemas={TableId(d, t): versions[v] for d, t, v in value["schemas"]},
        mirrors={TableId(d, t): _MIRRORS[m](since) for d, t, m, since in value["mirrors"]},
        snapshots=tuple(snapshots.from_json(s) for s in value["snapshots"]),
        signals=tuple(value["signals"]),
        paused=value["paused"],
        stopped={TableId(d, t): reason for d, t, reason in value["stopped"]},
        moving=moving and Moving(moving[0], GtidSet.parse(moving[1])),
        unproven=frozenset(TableId(d, t) for d, t in value["unproven"]),
        unread={TableId(d, t): scn for d, t, scn in value["unread"]},
        server=value.get("server", ""),
        witnesses=tuple(witnesses.from_json(each) for each in value.get("witnesses", ())),
        recapturing={TableId(d, t): signal for d, t, signal in value.get("recapturing", ())},
        prepared=tuple(prepared_xa.from_json(each) for each in value.get("prepared", ())),
        unknown_engines=frozenset(TableId(d, t) for d, t in value.get("unknown_engines", ())),
        scanned=frozenset(TableId(d, t) for d, t in value.get("scanned", ())),
        log_end=Coordinates(*end) if (end := value.get("log_end")) else None,
        foreign_keys=None if keys is None else tuple(map(foreign_key.from_json, keys)),
    )
