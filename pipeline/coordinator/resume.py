"""The beginning: where a service starts in the log, and which tables it snapshots without being asked.

**Where.** At the last sealed segment's position, if the server's log still has all that isn't in it. If that was
purged, the changes in the gap are lost to us, so that nothing which was captured before can be trusted to be whole:
the pipeline stops by name, or begins anew where the configuration says so. Then the position is what the server has
executed, and each table's mirror begins a new generation, which a snapshot of the whole table fills. The new position
becomes durable as any other does, with a segment; a crash before it finds the old one and decides the same.

Only a server whose history contains the position may be begun anew at (`pipeline.source.failover`).

A signal that sets the position asks for the same: what it skips is a gap like any other. It's judged here and not when
it comes, since only here it's known what the server has executed; where that isn't all of it, nothing moves. What has
passed since it came stays passed.

**Which.** A captured table is *new* as long as it has no mirror and hasn't stopped. It gets its mirror's entry in the
very checkpoint that has the snapshot, so that it's decided once: whatever becomes of the snapshot (it may be stopped,
or fail), it isn't begun again by itself. So tables that the configuration captures from now on are new, those that
were created since too, and so is a table that has got a primary key. A table without one can't be read in chunks; its
changes stream.
"""

from dataclasses import replace

from pipeline.config.settings import SnapshotMode
from pipeline.coordinator.recapture import recaptured
from pipeline.coordinator.state import remembered
from pipeline.errors import Definite
from pipeline.gtid.gtid_set import NO_GTIDS, GtidSet
from pipeline.schema.known_schemas import KnownSchemas
from pipeline.schema.table_schema import TableId
from pipeline.signals.signal import MOST_PRIORITY
from pipeline.snapshot.checkpoint import Checkpoint, Filling, Mirror, Moving
from pipeline.snapshot.prepared_xa import left_out
from pipeline.snapshot.snapshot import (
    Chunking,
    Completed,
    Snapshot,
    SnapshotFailed,
    SnapshotWaiting,
    TableSnapshot,
    progress,
)
from pipeline.source.failover import PURGED

_BEHIND = "the binlog was purged after {position}"
_SKIPPED = "the signal {id} skipped the binlog after {position}"
_ENDED = "{gap}, and everything began again at {at}"
_KEYLESS = (
    "it has no primary key, so that it can't be snapshotted, and changes of it are missing: {gap}; give it a primary "
    "key"
)
_GONE = (
    "it isn't among the tables that the source shows, and the change that explains why is missing: {gap}; bring it "
    "back"
)


class LogPurged(Definite):
    """The server's log doesn't go back to the position any more."""


def first(known: KnownSchemas) -> Checkpoint:
    """Where a new journal begins: at the source's present, with the schemas that hold there."""
    return Checkpoint(known.at, schemas=dict(known.schemas))


def first_after(position: GtidSet, known: KnownSchemas, purged: GtidSet) -> Checkpoint:
    """Where a new journal begins that continues another reader of the log, which stopped at this position.

    Nothing is known of the schemas there. Raises LogPurged where the server's log lacks what follows, and Definite
    where the server hasn't executed what was read.
    """
    if missing := purged - position:
        raise LogPurged(PURGED.format(missing=missing))
    if unknown := position - known.at:
        raise Definite(
            f"source.begin_after names {unknown}, which the source hasn't executed; name its own GTIDs"
        )
    return Checkpoint(position)


def resumed(checkpoint: Checkpoint, known: KnownSchemas, purged: GtidSet, mode: SnapshotMode) -> Checkpoint:
    """Where to go on from the last sealed checkpoint, at a server that has `purged` these transactions from its log.

    Tables that are to be recaptured begin again there. Raises LogPurged where the log lacks what is needed, and the
    mode doesn't say to begin anew.
    """
    checkpoint = _going_on(checkpoint, known, purged, mode)
    return recaptured(checkpoint, known.schemas) if checkpoint.recapturing else checkpoint


def _going_on(checkpoint: Checkpoint, known: KnownSchemas, purged: GtidSet, mode: SnapshotMode) -> Checkpoint:
    if checkpoint.moving is not None:
        checkpoint = _moved(checkpoint, checkpoint.moving, known)
    checkpoint = _without_waiting(checkpoint, purged)
    missing = purged - checkpoint.position
    if not missing or not checkpoint.position <= known.at:
        return checkpoint
    if mode is not SnapshotMode.WHEN_NEEDED:
        raise LogPurged(PURGED.format(missing=missing))
    at_present = replace(checkpoint, schemas={**checkpoint.schemas, **known.schemas})
    gap = _BEHIND.format(position=checkpoint.position)
    return _anew(at_present, known.at, known, gap, _unused(checkpoint, f"anew-{checkpoint.scn}"))


def _without_waiting(checkpoint: Checkpoint, purged: GtidSet) -> Checkpoint:
    """The checkpoint in which XA transactions aren't waited for whose first phase has gone from the log.

    Their second phase begins the tables anew.
    """
    gone = left_out(checkpoint.prepared) & purged
    if gone <= checkpoint.position:
        return checkpoint
    return replace(checkpoint, position=checkpoint.position | gone)


def resume_position(checkpoint: Checkpoint, executed: GtidSet, purged: GtidSet = NO_GTIDS) -> GtidSet:
    """The position to go on from at a server that has executed this, and whose log has lost what's `purged`."""
    checkpoint, moving = _without_waiting(checkpoint, purged), checkpoint.moving
    at = checkpoint.position if moving is None else checkpoint.position | moving.position
    return at if at <= executed else checkpoint.position


def begin_snapshot(checkpoint: Checkpoint, mode: SnapshotMode) -> Checkpoint:
    """The checkpoint with a snapshot of the tables that are new; the same one where none is, or where they stay so."""
    if mode is SnapshotMode.NO_DATA:
        return checkpoint
    new = [
        table
        for table, schema in sorted(checkpoint.schemas.items())
        if schema.key and table not in checkpoint.mirrors and table not in checkpoint.stopped
    ]
    if not new:
        return checkpoint
    kind = "consistent" if mode is SnapshotMode.CONSISTENT else "initial"
    under_way = (s.id for s in checkpoint.snapshots if s.id.startswith(f"{kind}-") and not s.ended)
    return _asked(
        checkpoint, next(under_way, f"{kind}-{checkpoint.scn}"), new, mode is SnapshotMode.CONSISTENT
    )


def again(checkpoint: Checkpoint) -> Checkpoint:
    """The checkpoint in which consistent snapshots that haven't ended begin anew, if anything of them is read.

    The connections in which they were read are gone, and with them the place that they were read at. A table that has
    stopped meanwhile stays as it is.
    """
    for snapshot in checkpoint.snapshots:
        going_on = ((t, state) for t, state in snapshot.tables.items() if t not in checkpoint.stopped)
        read = [table for table, state in going_on if isinstance(state, Chunking | Completed)]
        if snapshot.consistent and not snapshot.ended and read:
            checkpoint = _asked(checkpoint, snapshot.id, read)
    return checkpoint


def keyless(checkpoint: Checkpoint) -> tuple[TableId, ...]:
    """The captured tables that have no primary key, and so are never snapshotted."""
    schemas = sorted(checkpoint.schemas.items())
    return tuple(t for t, schema in schemas if not schema.key and t not in checkpoint.stopped)


def _unused(checkpoint: Checkpoint, name: str) -> str:
    """This name, or one like it if a snapshot or a signal has it."""
    used = {*checkpoint.signals, *(snapshot.id for snapshot in checkpoint.snapshots)}
    return name if name not in used else _unused(checkpoint, f"{name}-again")


def _moved(checkpoint: Checkpoint, moving: Moving, known: KnownSchemas) -> Checkpoint:
    at, checkpoint = resume_position(checkpoint, known.at), replace(checkpoint, moving=None)
    if at == checkpoint.position:
        return checkpoint
    gap = _SKIPPED.format(id=moving.id, position=checkpoint.position)
    return _anew(checkpoint, at, known, gap, moving.id)


def _anew(checkpoint: Checkpoint, at: GtidSet, known: KnownSchemas, gap: str, snapshot: str) -> Checkpoint:
    """The checkpoint at another position, with a snapshot of every table."""
    stopped = {t: _GONE.format(gap=gap) for t in checkpoint.schemas if t not in known.schemas}
    keyless = [t for t, schema in checkpoint.schemas.items() if not schema.key]
    stopped = {**dict.fromkeys(keyless, _KEYLESS.format(gap=gap)), **stopped, **checkpoint.stopped}
    reason = _ENDED.format(gap=gap, at=at)
    moved = replace(
        checkpoint,
        position=at,
        witnesses=(),
        unproven=frozenset(checkpoint.schemas),
        snapshots=tuple(_ended(each, reason) for each in checkpoint.snapshots),
        stopped=stopped,
    )
    return _asked(moved, snapshot, [table for table in sorted(checkpoint.schemas) if table not in stopped])


def _ended(snapshot: Snapshot, reason: str) -> Snapshot:
    tables: dict[TableId, TableSnapshot] = {
        table: SnapshotFailed(reason, progress(state))
        if isinstance(state, SnapshotWaiting | Chunking)
        else state
        for table, state in snapshot.tables.items()
    }
    return replace(snapshot, tables=tables)


def _asked(
    checkpoint: Checkpoint, snapshot: str, tables: list[TableId], consistent: bool = False
) -> Checkpoint:
    """The checkpoint in which this snapshot takes these tables, too, and their mirrors begin.

    A consistent one comes before all others, since the stream stands for it.
    """
    waiting: dict[TableId, TableSnapshot] = dict.fromkeys(tables, SnapshotWaiting())
    filling: dict[TableId, Mirror] = dict.fromkeys(tables, Filling(checkpoint.scn))
    first = Snapshot(snapshot, {}, consistent=consistent, priority=MOST_PRIORITY + 1 if consistent else 0)
    present = next((each for each in checkpoint.snapshots if each.id == snapshot), first)
    others = (each for each in checkpoint.snapshots if each is not present)
    asked = replace(present, tables={**present.tables, **waiting})
    return replace(
        checkpoint, snapshots=remembered((*others, asked)), mirrors={**checkpoint.mirrors, **filling}
    )
