"""The beginning: where a service starts in the log, and which tables it snapshots without being asked.

**Where.** At the last sealed segment's position, if the server's log still has all that isn't in it. If that was
purged, the changes in the gap are lost to us, so that nothing which was captured before can be trusted to be whole:
the pipeline stops by name, or begins anew where the configuration says so. Then the position is what the server has
executed, and each table's mirror begins a new generation, which a snapshot of the whole table fills. The new position
becomes durable as any other does, with a segment; a crash before it finds the old one and decides the same.

Only a server whose history contains the position may be begun anew at. One that lacks transactions which have passed
here is another server, or one that has lost them, and the reader of the log stops by that name.

**Which.** A captured table is *new* as long as it has no mirror and hasn't stopped. It gets its mirror's entry in the
very checkpoint that has the snapshot, so that it's decided once: whatever becomes of the snapshot (it may be stopped,
or fail), it isn't begun again by itself. So tables that the configuration captures from now on are new, those that
were created since too, and so is a table that has got a primary key. A table without one can't be read in chunks; its
changes stream.
"""

from dataclasses import replace

from pipeline.checkpoint import Checkpoint, Filling, Mirror
from pipeline.coordinator_state import remembered
from pipeline.errors import Definite
from pipeline.gtid import GtidSet
from pipeline.schema import TableId
from pipeline.schema_verifier import Known
from pipeline.settings import SnapshotMode
from pipeline.snapshot import Chunking, Failed, Snapshot, TableState, Waiting, progress

_PURGED = (
    "the binlog that we need was purged: {missing}; restore it on the source and keep it for longer, or set "
    'snapshot.mode = "when_needed" to begin anew with a snapshot of every table'
)
_GAP = "the binlog was purged behind {position}, and the pipeline has begun anew at {at}"
_KEYLESS = (
    "it has no primary key, so that it can't be snapshotted, and changes of it are lost: the binlog was purged before "
    "we had read it; give it a primary key, and capture it with a journal and a lake of its own"
)
_GONE = (
    "it isn't among the tables that the source shows, and the binlog that would tell why was purged; to have it again, "
    "capture it with a journal and a lake of its own"
)


class LogPurged(Definite):
    """The server's log doesn't go back to the position any more."""


def first(known: Known) -> Checkpoint:
    """Where a new journal begins: at the source's present, with the schemas that hold there."""
    return Checkpoint(known.at, schemas=dict(known.schemas))


def resumed(checkpoint: Checkpoint, known: Known, purged: GtidSet, mode: SnapshotMode) -> Checkpoint:
    """Where to go on from the last sealed checkpoint, at a server that has `purged` these transactions from its log.

    Raises LogPurged where the log lacks what is needed, and the mode doesn't say to begin anew.
    """
    missing = purged - checkpoint.position
    if not missing or not checkpoint.position <= known.at:
        return checkpoint
    if mode is not SnapshotMode.WHEN_NEEDED:
        raise LogPurged(_PURGED.format(missing=missing))
    return _anew(checkpoint, known)


def begun(checkpoint: Checkpoint) -> Checkpoint:
    """The checkpoint with a snapshot of the tables that are new; the same one where none is."""
    new = [
        table
        for table, schema in sorted(checkpoint.schemas.items())
        if schema.key and table not in checkpoint.mirrors and table not in checkpoint.stopped
    ]
    return _asked(checkpoint, "initial", new) if new else checkpoint


def keyless(checkpoint: Checkpoint) -> tuple[TableId, ...]:
    """The captured tables that have no primary key, and so are never snapshotted."""
    schemas = sorted(checkpoint.schemas.items())
    return tuple(t for t, schema in schemas if not schema.key and t not in checkpoint.stopped)


def _anew(checkpoint: Checkpoint, known: Known) -> Checkpoint:
    reason = _GAP.format(position=checkpoint.position, at=known.at)
    stopped = {table: _GONE for table in checkpoint.schemas if table not in known.schemas}
    stopped |= {table: _KEYLESS for table, schema in known.schemas.items() if not schema.key}
    moved = replace(
        checkpoint,
        position=known.at,
        schemas={**checkpoint.schemas, **known.schemas},
        snapshots=tuple(_ended(snapshot, reason) for snapshot in checkpoint.snapshots),
        stopped={**stopped, **checkpoint.stopped},
    )
    return _asked(moved, "anew", [table for table in sorted(known.schemas) if table not in moved.stopped])


def _ended(snapshot: Snapshot, reason: str) -> Snapshot:
    tables: dict[TableId, TableState] = {
        table: Failed(reason, progress(state)) if isinstance(state, Waiting | Chunking) else state
        for table, state in snapshot.tables.items()
    }
    return replace(snapshot, tables=tables)


def _asked(checkpoint: Checkpoint, why: str, tables: list[TableId]) -> Checkpoint:
    """The checkpoint with a snapshot of these tables, whose mirrors begin here; one that's under way takes them in."""
    waiting: dict[TableId, TableState] = dict.fromkeys(tables, Waiting())
    filling: dict[TableId, Mirror] = dict.fromkeys(tables, Filling(checkpoint.scn))
    asked = Snapshot(f"{why}-{checkpoint.scn}", waiting)
    others: list[Snapshot] = []
    for snapshot in checkpoint.snapshots:
        if snapshot.id == asked.id or (snapshot.id.startswith(f"{why}-") and not snapshot.ended):
            asked = replace(snapshot, tables={**snapshot.tables, **waiting})
        else:
            others.append(snapshot)
    return replace(
        checkpoint, snapshots=remembered((*others, asked)), mirrors={**checkpoint.mirrors, **filling}
    )
