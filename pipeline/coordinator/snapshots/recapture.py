"""Recapture: a stopped table begins again, whatever stopped it, while all others continue.

A signal requests it. An error in the signal itself refuses it at once. The next start of capture decides the rest. The
signal causes that start as soon as it's durable, and `Checkpoint.recapturing` has the tables until then. A start reads
the schemas from the source, knows what the configuration captures, and builds every actor from one checkpoint. So no
actor has to learn in mid-stream that a table is back, and no two actors disagree whether a row counts. The stop ends at
the checkpoint's position, for all of them. The other tables pay with a reconnection and with the chunks that were being
read.

At that position the table's schema counts as unproven, so it's verified as after any statement. Its mirror begins
another generation. A snapshot of the complete table fills it, and has the signal's id. The changelog lacks the changes
between the stop and the recapture.

A table that hasn't stopped may be recaptured too: it begins again by hand. A table that the source doesn't show, or
that the configuration doesn't capture, stays as it is, and its snapshot fails by name. The same holds for a table
without a primary key, whose rows can't be read in chunks. Its changes stream again. If something stops the table once
more, it stops with that reason.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from pipeline.config.column_protection import Protection
from pipeline.schema.table_schema import TableId, TableSchema
from pipeline.snapshot.checkpoint import Checkpoint, Filling, Mirror
from pipeline.snapshot.key_protection import restarts_at_start
from pipeline.snapshot.snapshot import (
    Chunking,
    Progress,
    Snapshot,
    SnapshotFailed,
    SnapshotWaiting,
    TableSnapshot,
    Unfinished,
    progress,
    reason_without_keys,
)

_REMEDY: Final = "{reason}; then begin it again: tidemark signal CONFIG recapture --tables '{pattern}'"
_NO_MIRROR: Final = (
    "{reason}; then stop the service, move the table's folder ({folder}) away, and start it again"
)
_REPROTECTED: Final = "the rules for its columns have changed, and it begins again"
_UNKNOWN: Final = "the source doesn't show it, or the configuration doesn't capture it"
_KEYLESS: Final = (
    "it has no primary key, so its rows can't be read in chunks; its changes stream again from here on, and a blocking "
    "snapshot reads all of its rows"
)


def stop_reason(table: TableId, reason: str, folder: str | None = None) -> str:
    """Returns why a table has stopped, and how to begin it again after a repair.

    `folder`: of a table in the lake that is to have no mirror. It begins again with nothing that it has there: a
    recapture begins a generation of its mirror alone.
    """
    if folder is not None:
        return _NO_MIRROR.format(reason=reason, folder=folder)
    pattern = re.escape(table.dotted).replace("'", "'\\''")  # quoted for a shell
    return _REMEDY.format(reason=reason, pattern=pattern)


def recapture_tables(checkpoint: Checkpoint, known: Mapping[TableId, TableSchema]) -> Checkpoint:
    """Returns the checkpoint in which the tables to recapture begin again. `known`: what the source has now."""
    asked: dict[str, list[TableId]] = {}
    for table, signal in checkpoint.recapturing.items():
        asked.setdefault(signal, []).append(table)
    checkpoint = replace(checkpoint, recapturing={})
    for signal, tables in asked.items():
        checkpoint = _begin_again(checkpoint, signal, sorted(tables), known)
    return checkpoint


def recapture_reprotected(
    checkpoint: Checkpoint, digests: Mapping[TableId, str], protection: Protection
) -> Checkpoint:
    """Returns the checkpoint with which the next start begins the tables again whose rules for columns have changed.

    `digests`: of the rules by which the checkpoint's segment was written. So does a table with rows to read again by
    keys that the journal lacks. A stopped table stays stopped. What older signals requested of such tables by values,
    and which keys a failed snapshot left unread, their snapshots no longer have. So the table is read completely.
    """
    lacking = restarts_at_start(checkpoint, protection)
    changed = [
        table
        for table in checkpoint.schemas
        if table in lacking or digests.get(table) != protection.digest(table)
    ]
    if not changed:
        return checkpoint
    name = f"protection-{checkpoint.scn}"
    begins = (table for table in changed if table not in checkpoint.stopped)
    asked = {table: name for table in begins if table not in checkpoint.recapturing}
    return replace(
        checkpoint,
        recapturing={**checkpoint.recapturing, **asked},
        snapshots=tuple(_without_values(each, changed) for each in checkpoint.snapshots),
    )


def _without_values(snapshot: Snapshot, tables: Iterable[TableId]) -> Snapshot:
    asked = {t: r for t, r in snapshot.requests.items() if t in tables and (r.surrogate or not r.whole)}
    ended = {
        table: SnapshotFailed(_REPROTECTED, progress(state))
        for table, state in snapshot.tables.items()
        if table in asked and isinstance(state, Unfinished)
    }
    ended |= {
        table: replace(state, reason=reason_without_keys(state.reason))
        for table, state in snapshot.tables.items()
        if table in tables and isinstance(state, SnapshotFailed)
    }
    requests = {table: request for table, request in snapshot.requests.items() if table not in asked}
    return replace(snapshot, tables={**snapshot.tables, **ended}, requests=requests)


def _begin_again(
    checkpoint: Checkpoint, signal: str, tables: list[TableId], known: Mapping[TableId, TableSchema]
) -> Checkpoint:
    back = [table for table in tables if table in known]
    filled = [table for table in back if known[table].key]
    mirrors: dict[TableId, Mirror] = {t: m for t, m in checkpoint.mirrors.items() if t not in back}
    mirrors |= dict.fromkeys(filled, Filling(checkpoint.scn))
    states = {table: _first_state(known.get(table)) for table in tables}
    return replace(
        checkpoint,
        # Tables that were never verified have none. Their schema is verified before a row is sent.
        schemas={**{table: known[table] for table in back}, **checkpoint.schemas},
        unproven=checkpoint.unproven | set(back),
        stopped={t: reason for t, reason in checkpoint.stopped.items() if t not in back},
        unread={t: scn for t, scn in checkpoint.unread.items() if t not in back},
        mirrors=mirrors,
        scanned=checkpoint.scanned - set(back),
        snapshots=(*(_wait_again(each, back) for each in checkpoint.snapshots), Snapshot(signal, states)),
    )


def _first_state(schema: TableSchema | None) -> TableSnapshot:
    if schema is None:
        return SnapshotFailed(_UNKNOWN, Progress())
    return SnapshotWaiting() if schema.key else SnapshotFailed(_KEYLESS, Progress())


def _wait_again(snapshot: Snapshot, tables: Iterable[TableId]) -> Snapshot:
    """Returns the snapshot in which these tables wait, if they were under way: their chunks are of an older
    generation."""
    waiting = {t: SnapshotWaiting() for t in tables if isinstance(snapshot.tables.get(t), Chunking)}
    return replace(snapshot, tables={**snapshot.tables, **waiting}) if waiting else snapshot
