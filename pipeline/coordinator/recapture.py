"""Recapture: a table that has stopped begins again, whatever stopped it, while all others go on.

A signal asks for it. What's wrong with the signal itself refuses it at once. The rest is decided by the next start of
capture, which the signal brings about as soon as it's durable: `Checkpoint.recapturing` has the tables until then. A
start asks the source for the schemas, knows what the configuration captures, and builds every actor from one
checkpoint. So no actor has to learn in mid-stream that a table is back, and there's no row of which one actor thinks
that it counts and another that it doesn't: the stop ends at the checkpoint's position, for all of them. It costs the
others a reconnection, and the chunks that were being read.

At that position the table's schema counts as unproven, so that it's proven as behind any statement. Its mirror begins
another generation, which a snapshot of the whole table fills; the snapshot has the signal's id. Changes from before
that are missing in the changelog: those between the stop and the recapture.

A table that hasn't stopped may be recaptured as well: it's begun again by hand. One that the source doesn't show, or
that the configuration doesn't capture, stays as it is, and the snapshot fails for it by name. So does one without a
primary key, whose rows can't be read; its changes stream again. What stops the table once more does so by its reason.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from pipeline.coordinator.state import remembered
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import TableId, TableSchema
from pipeline.snapshot.checkpoint import Checkpoint, Filling, Mirror
from pipeline.snapshot.snapshot import (
    Chunking,
    Progress,
    Snapshot,
    SnapshotFailed,
    SnapshotWaiting,
    TableSnapshot,
)

_REMEDY: Final = "{reason}; then begin it again: tidemark signal CONFIG recapture --tables '{pattern}'"
_UNKNOWN: Final = "the source doesn't show it, or the configuration doesn't capture it"
_KEYLESS: Final = (
    "it has no primary key, so its rows can't be read in chunks; its changes stream again from here on"
)


def stop_reason(table: TableId, reason: str) -> str:
    """Why a table has stopped, and how it's begun again once that's mended."""
    pattern = re.escape(table.dotted).replace("'", "'\\''")  # as a shell takes it
    return _REMEDY.format(reason=reason, pattern=pattern)


def meant(checkpoint: Checkpoint, tables: TableFilter) -> tuple[list[TableId], list[str]]:
    """The tables that are meant, of those captured or stopped, and the patterns that mean none."""
    known = sorted(checkpoint.schemas.keys() | checkpoint.stopped.keys())
    idle = [p for p in tables.patterns if not any(TableFilter((p,)).match(table) for table in known)]
    return [table for table in known if tables.match(table)], idle


def recaptured(checkpoint: Checkpoint, known: Mapping[TableId, TableSchema]) -> Checkpoint:
    """The checkpoint in which the tables that are to be recaptured begin again; `known`: what the source has now."""
    asked: dict[str, list[TableId]] = {}
    for table, signal in checkpoint.recapturing.items():
        asked.setdefault(signal, []).append(table)
    checkpoint = replace(checkpoint, recapturing={})
    for signal, tables in asked.items():
        checkpoint = _begun(checkpoint, signal, sorted(tables), known)
    return checkpoint


def _begun(
    checkpoint: Checkpoint, signal: str, tables: list[TableId], known: Mapping[TableId, TableSchema]
) -> Checkpoint:
    back = [table for table in tables if table in known]
    filled = [table for table in back if known[table].key]
    mirrors: dict[TableId, Mirror] = {t: m for t, m in checkpoint.mirrors.items() if t not in back}
    mirrors |= dict.fromkeys(filled, Filling(checkpoint.scn))
    states = {table: _state(known.get(table)) for table in tables}
    return replace(
        checkpoint,
        # Those that were never proven have none; whatever holds here is proven before a row is given.
        schemas={**{table: known[table] for table in back}, **checkpoint.schemas},
        unproven=checkpoint.unproven | set(back),
        stopped={t: reason for t, reason in checkpoint.stopped.items() if t not in back},
        unread={t: scn for t, scn in checkpoint.unread.items() if t not in back},
        mirrors=mirrors,
        snapshots=remembered(
            (*(_again(each, back) for each in checkpoint.snapshots), Snapshot(signal, states))
        ),
    )


def _state(schema: TableSchema | None) -> TableSnapshot:
    if schema is None:
        return SnapshotFailed(_UNKNOWN, Progress())
    return SnapshotWaiting() if schema.key else SnapshotFailed(_KEYLESS, Progress())


def _again(snapshot: Snapshot, tables: Iterable[TableId]) -> Snapshot:
    """The snapshot in which these tables wait, if they were under way: their chunks are of an older generation."""
    anew = {t: SnapshotWaiting() for t in tables if isinstance(snapshot.tables.get(t), Chunking)}
    return replace(snapshot, tables={**snapshot.tables, **anew}) if anew else snapshot
