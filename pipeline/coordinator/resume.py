"""The start: at which position of the log a service begins, and which tables it snapshots without a signal.

**Where.** At the last sealed segment's position, if the server's log still has everything after it. If the server has
purged some of that, the changes in the gap are lost, and no captured table can be trusted to be complete. The pipeline
stops by name, or begins again if the configuration says so. Then the position is what the server has executed. Each
table's mirror begins a new generation, which a snapshot of the complete table fills. The new position becomes durable
like any other, with a segment. After a crash before that, a start finds the old position and decides the same.

Capture may begin again only at a server whose history contains the position (`pipeline.source.failover`).

A signal that sets the position requests the same: what it skips is a gap like any other. The start decides on it,
because only the start knows what the server has executed. If the server hasn't executed all of the position, nothing
moves. What has passed since the signal stays passed.

**Which.** A captured table is *new* as long as it has no mirror and hasn't stopped. It gets its mirror's entry in the
same checkpoint as the snapshot, so this is decided once. A snapshot that is stopped doesn't begin again by itself. One
that fails does so only after a statement on its table (`pipeline.coordinator.handle_schemas`). So these tables are new:
those that the configuration captures from now on, and those that were created since. So is a table that has got a
primary key. A table without one can't be read in chunks. Its changes stream, and a signal may have it read all at once
(`pipeline.coordinator.halted.table_scan`).
"""

import re
from dataclasses import replace

from pipeline.config.settings import SnapshotMode
from pipeline.coordinator.snapshots.recapture import recapture_tables
from pipeline.errors import Definite
from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.gtid_set import NO_GTIDS, GtidSet
from pipeline.schema.known_schemas import KnownSchemas
from pipeline.schema.table_schema import TableId
from pipeline.signals.signal import MOST_PRIORITY
from pipeline.snapshot.checkpoint import Checkpoint, Filling, Mirror, Moving, unused_id
from pipeline.snapshot.prepared_xa import left_out
from pipeline.snapshot.snapshot import (
    Chunking,
    Completed,
    Snapshot,
    SnapshotFailed,
    SnapshotWaiting,
    TableSnapshot,
    Unfinished,
    progress,
)
from pipeline.source.failover import PURGED, WITHOUT_GTID

_BEHIND = "the binlog was purged after {position}"
_LEFT_OUT = "a change without a GTID was committed after {position}"
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
    """The server's log no longer goes back to the position."""


class ChangeLeftOut(Definite):
    """The server's log has a change that it doesn't bring."""


def first_checkpoint(known: KnownSchemas) -> Checkpoint:
    """Returns where a new journal begins: at the source's present, with the schemas that hold there, or may do so."""
    unproven = known.unsettled if known.end is None else frozenset(known.schemas)
    return Checkpoint(known.at, schemas=dict(known.schemas), unproven=unproven)


def continued_checkpoint(position: GtidSet, known: KnownSchemas, purged: GtidSet) -> Checkpoint:
    """Returns where a new journal begins that continues another reader of the log, which stopped at this position.

    The schemas there are unknown. Raises LogPurged if the server's log lacks what follows, and Definite if the server
    hasn't executed what was read.
    """
    if missing := purged - position:
        raise LogPurged(PURGED.format(missing=missing))
    if unknown := position - known.at:
        raise Definite(
            f"source.begin_after names {unknown}, which the source hasn't executed; name its own GTIDs"
        )
    return Checkpoint(position)


def checkpoint_at_server(
    checkpoint: Checkpoint, server: str, known: KnownSchemas, log_end: Coordinates | None
) -> Checkpoint:
    """Returns the checkpoint for a server whose log ended with `log_end` when it had executed what is `known`."""
    if checkpoint.server not in ("", server):
        checkpoint = replace(checkpoint, log_end=None)  # that was a place in another log
    elif checkpoint.log_end is None and known.at <= checkpoint.position:
        checkpoint = replace(checkpoint, log_end=log_end)
    return replace(checkpoint, server=server)


def resume_checkpoint(
    checkpoint: Checkpoint,
    known: KnownSchemas,
    purged: GtidSet,
    mode: SnapshotMode,
    unnamed: str | None = None,
) -> Checkpoint:
    """Returns where capture continues after the last sealed checkpoint, at a server that has `purged` these
    transactions.

    `unnamed`: what the server says of a change without a GTID that its log leaves out. Tables to recapture begin again
    there. Raises LogPurged or ChangeLeftOut if the log lacks what is needed, and the mode doesn't say to begin again.
    """
    checkpoint = _continue_checkpoint(checkpoint, known, purged, mode, unnamed)
    return recapture_tables(checkpoint, known.schemas) if checkpoint.recapturing else checkpoint


def _continue_checkpoint(
    checkpoint: Checkpoint, known: KnownSchemas, purged: GtidSet, mode: SnapshotMode, unnamed: str | None
) -> Checkpoint:
    last = checkpoint.position
    if checkpoint.moving is not None:
        checkpoint = _move_to_signal(checkpoint, checkpoint.moving, known)
    moved = checkpoint.position != last
    checkpoint = _without_waiting(checkpoint, purged)
    missing = purged - checkpoint.position
    left_out = unnamed is not None and not moved
    if not (missing or left_out) or not checkpoint.position <= known.at:
        return checkpoint
    if mode is not SnapshotMode.WHEN_NEEDED:
        raise (
            LogPurged(PURGED.format(missing=missing))
            if missing
            else ChangeLeftOut(WITHOUT_GTID.format(told=unnamed))
        )
    at_present = replace(checkpoint, schemas={**checkpoint.schemas, **known.schemas})
    gap = (_BEHIND if missing else _LEFT_OUT).format(position=checkpoint.position)
    return _begin_at(at_present, known.at, known, gap, unused_id(checkpoint, f"anew-{checkpoint.scn}"))


def _without_waiting(checkpoint: Checkpoint, purged: GtidSet) -> Checkpoint:
    """Returns the checkpoint that doesn't wait for XA transactions whose first phase is no longer in the log.

    Their second phase begins the tables again.
    """
    gone = left_out(checkpoint.prepared) & purged
    if gone <= checkpoint.position:
        return checkpoint
    return replace(checkpoint, position=checkpoint.position | gone)


def resume_position(checkpoint: Checkpoint, executed: GtidSet, purged: GtidSet = NO_GTIDS) -> GtidSet:
    """Returns the position at which capture continues, at a server that has executed this and whose log lacks
    `purged`."""
    checkpoint, moving = _without_waiting(checkpoint, purged), checkpoint.moving
    at = checkpoint.position if moving is None else checkpoint.position | moving.position
    return at if at <= executed else checkpoint.position


def begin_snapshot(checkpoint: Checkpoint, mode: SnapshotMode) -> Checkpoint:
    """Returns the checkpoint with a snapshot of the new tables, or the same one if there are none, or the mode takes
    none."""
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
    # A signal's snapshot may be narrower, or a verification, whatever its id begins with.
    own = re.compile(rf"{kind}-\d+")
    under_way = (s.id for s in checkpoint.snapshots if own.fullmatch(s.id) and not s.ended)
    return _add_snapshot(
        checkpoint, next(under_way, f"{kind}-{checkpoint.scn}"), new, mode is SnapshotMode.CONSISTENT
    )


def restart_consistent_snapshots(checkpoint: Checkpoint) -> Checkpoint:
    """Returns the checkpoint in which unfinished consistent snapshots begin again, if they have read anything.

    The connections in which they were read are gone, and with them the position at which they were read. A table that
    has stopped since stays as it is.
    """
    for snapshot in checkpoint.snapshots:
        going_on = ((t, state) for t, state in snapshot.tables.items() if t not in checkpoint.stopped)
        read = [table for table, state in going_on if isinstance(state, Chunking | Completed)]
        if snapshot.consistent and not snapshot.ended and read:
            checkpoint = _add_snapshot(checkpoint, snapshot.id, read)
    return checkpoint


def keyless_tables(checkpoint: Checkpoint) -> tuple[TableId, ...]:
    """Returns the captured tables without a primary key, of which only a signal takes a snapshot."""
    schemas = sorted(checkpoint.schemas.items())
    return tuple(t for t, schema in schemas if not schema.key and t not in checkpoint.stopped)


def _move_to_signal(checkpoint: Checkpoint, moving: Moving, known: KnownSchemas) -> Checkpoint:
    at, checkpoint = resume_position(checkpoint, known.at), replace(checkpoint, moving=None)
    if at == checkpoint.position:
        return checkpoint
    gap = _SKIPPED.format(id=moving.id, position=checkpoint.position)
    return _begin_at(checkpoint, at, known, gap, moving.id)


def _begin_at(
    checkpoint: Checkpoint, at: GtidSet, known: KnownSchemas, gap: str, snapshot: str
) -> Checkpoint:
    """Returns the checkpoint at another position, with a snapshot of every table."""
    stopped = {t: _GONE.format(gap=gap) for t in checkpoint.schemas if t not in known.schemas}
    keyless = [t for t, schema in checkpoint.schemas.items() if not schema.key]
    stopped = {**dict.fromkeys(keyless, _KEYLESS.format(gap=gap)), **stopped, **checkpoint.stopped}
    reason = _ENDED.format(gap=gap, at=at)
    moved = replace(
        checkpoint,
        position=at,
        witnesses=(),
        log_end=None,
        unproven=frozenset(checkpoint.schemas),
        unread={},  # by keys that another primary key may not have
        snapshots=tuple(_fail_snapshot(each, reason) for each in checkpoint.snapshots),
        stopped=stopped,
    )
    return _add_snapshot(
        moved, snapshot, [table for table in sorted(checkpoint.schemas) if table not in stopped]
    )


def _fail_snapshot(snapshot: Snapshot, reason: str) -> Snapshot:
    tables: dict[TableId, TableSnapshot] = {
        table: SnapshotFailed(reason, progress(state)) if isinstance(state, Unfinished) else state
        for table, state in snapshot.tables.items()
    }
    return replace(snapshot, tables=tables)


def _add_snapshot(
    checkpoint: Checkpoint, snapshot: str, tables: list[TableId], consistent: bool = False
) -> Checkpoint:
    """Returns the checkpoint in which this snapshot also takes these tables, and their mirrors begin.

    A consistent one comes before all others, because the stream is stopped for it.
    """
    waiting: dict[TableId, TableSnapshot] = dict.fromkeys(tables, SnapshotWaiting())
    filling: dict[TableId, Mirror] = dict.fromkeys(tables, Filling(checkpoint.scn))
    first = Snapshot(snapshot, {}, consistent=consistent, priority=MOST_PRIORITY + 1 if consistent else 0)
    present = next((each for each in checkpoint.snapshots if each.id == snapshot), first)
    others = (each for each in checkpoint.snapshots if each is not present)
    asked = replace(present, tables={**present.tables, **waiting})
    mirrors = {**checkpoint.mirrors, **filling}
    return replace(checkpoint, snapshots=(*others, asked), mirrors=mirrors)
