"""Notifications: what has become of snapshots and verifications, by the difference of two checkpoints, and in
Debezium's form.

The sender keeps the checkpoint of its last notifications. So notifications report durable facts only, and nothing has
to be stored for them. Several events between two checkpoints are reported at once. After a restart there's no such
checkpoint, and everything known is reported again: at least once, with the same ids.

Debezium says COMPLETED even if tables were skipped. Tidemark says it only if every table of the snapshot is complete,
and ABORTED otherwise. So the end of a snapshot is always one of the two. Debezium has no verifications. Those here have
an `aggregate_type` of their own, so whoever waits for a snapshot doesn't take them for one. Their end says that all
rows are read and repaired. The lake has the result.

Source: Debezium 3.6's documentation, "Receiving Debezium notifications"; as there all values of `additional_data` are
text, and several in one have commas between them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, assert_never

from pipeline.gtid.gtid_set import GtidSet
from pipeline.schema.row_keys import Key
from pipeline.schema.table_schema import TableId
from pipeline.snapshot.checkpoint import Checkpoint
from pipeline.snapshot.snapshot import (
    Chunking,
    Completed,
    Snapshot,
    SnapshotFailed,
    SnapshotStopped,
    TableSnapshot,
    progress,
)

# What notifications are about, the first one in Debezium's words.
INCREMENTAL: Final = "Incremental Snapshot"
VERIFICATION: Final = "Verification"

_NOTHING: Final = Checkpoint(GtidSet())


class NotificationType(StrEnum):
    """What has happened, in the words of Debezium's notifications."""

    STARTED = "STARTED"
    PAUSED = "PAUSED"
    RESUMED = "RESUMED"
    ABORTED = "ABORTED"
    IN_PROGRESS = "IN_PROGRESS"
    TABLE_SCAN_COMPLETED = "TABLE_SCAN_COMPLETED"
    COMPLETED = "COMPLETED"


@dataclass(frozen=True, slots=True)
class Notification:
    """What has become of the snapshot `id`; `data` says more, as which of its tables it's about.

    `about`: INCREMENTAL or VERIFICATION.
    """

    id: str
    type: NotificationType
    data: Mapping[str, str] = field(default_factory=dict)
    about: str = INCREMENTAL


def find_notifications(before: Checkpoint | None, after: Checkpoint) -> tuple[Notification, ...]:
    """Returns the notifications of what happened between the two; `before` is None if nothing was reported yet."""
    earlier = before or _NOTHING
    was = {snapshot.id: snapshot for snapshot in earlier.snapshots}
    found: list[Notification] = []
    for snapshot in after.snapshots:
        about = INCREMENTAL if snapshot.verification is None else VERIFICATION
        news = _of_snapshot(was.get(snapshot.id), snapshot, earlier.paused, after.paused)
        found += (replace(each, about=about) for each in news)
    return (*found, *_of_move(earlier, after))


def to_json(notification: Notification, pipeline: str, at: int) -> dict[str, Any]:
    """Debezium's notification, of the pipeline with this name and this moment (ms since the epoch)."""
    return {
        "id": notification.id,
        "aggregate_type": notification.about,
        "type": notification.type.value,
        "additional_data": {"connector_name": pipeline, **notification.data},
        "timestamp": at,
    }


def _of_snapshot(
    was: Snapshot | None, now: Snapshot, paused_before: bool, paused: bool
) -> Iterator[Notification]:
    tables = {"data_collections": ",".join(table.dotted for table in now.tables)}
    if was is None:
        yield Notification(now.id, NotificationType.STARTED, tables)
    if not now.ended and paused != (paused_before and was is not None):
        yield Notification(now.id, NotificationType.PAUSED if paused else NotificationType.RESUMED, tables)
    for table, state in now.tables.items():
        if was is None or was.tables.get(table) != state:
            yield from _of_table(now.id, table, state, tables)
    if now.ended and (was is None or not was.ended):
        yield _end(now, tables)


def _of_table(
    id_: str, table: TableId, state: TableSnapshot, tables: Mapping[str, str]
) -> Iterator[Notification]:
    counts = progress(state)
    if isinstance(state, Chunking):
        first = state.ranges[0].done if state.ranges else None
        data = {
            "current_collection_in_progress": table.dotted,
            "maximum_key": _key(state.ranges[-1].end) if state.ranges else "",
            # All keys through this one are emitted; of the ranges after it, some more.
            "last_processed_key": _key(first) if first else "",
            "total_rows_scanned": str(counts.rows + counts.superseded),
            "ranges": str(counts.ranges),
            "ranges_done": str(counts.ranges_done),
        }
        yield Notification(id_, NotificationType.IN_PROGRESS, {**tables, **data})
    elif isinstance(state, Completed | SnapshotStopped | SnapshotFailed):
        data = {
            "scanned_collection": table.dotted,
            "total_rows_scanned": str(counts.rows + counts.superseded),
            "status": _status(state),
        }
        if isinstance(state, SnapshotFailed):
            data["reason"] = state.reason
        yield Notification(id_, NotificationType.TABLE_SCAN_COMPLETED, {**tables, **data})


def _status(ended: Completed | SnapshotStopped | SnapshotFailed) -> str:
    match ended:
        case Completed(counts):
            return "SUCCEEDED" if counts.rows or counts.superseded else "EMPTY"
        case SnapshotStopped():
            return "STOPPED"
        case SnapshotFailed():
            return "FAILED"
        case _:
            assert_never(ended)


def _end(snapshot: Snapshot, tables: Mapping[str, str]) -> Notification:
    rows = sum(progress(state).rows for state in snapshot.tables.values())
    if all(isinstance(state, Completed) for state in snapshot.tables.values()):
        return Notification(snapshot.id, NotificationType.COMPLETED, {**tables, "total_rows": str(rows)})
    failed = [
        f"{t}: {state.reason}" for t, state in snapshot.tables.items() if isinstance(state, SnapshotFailed)
    ]
    stopped = [f"{t}: stopped" for t, state in snapshot.tables.items() if isinstance(state, SnapshotStopped)]
    return Notification(
        snapshot.id,
        NotificationType.ABORTED,
        {**tables, "total_rows": str(rows), "reason": "; ".join((*failed, *stopped))},
    )


def _of_move(before: Checkpoint, after: Checkpoint) -> Iterator[Notification]:
    """Yields the notification of an ended move. The notifications of a move with a snapshot are that snapshot's."""
    move = before.moving
    if move is None or after.moving is not None or any(s.id == move.id for s in after.snapshots):
        return
    if move.position <= after.position:
        yield Notification(move.id, NotificationType.COMPLETED, {"position": str(after.position)})
    else:
        reason = (
            f"the source hasn't executed {move.position - after.position}, so that the position is as it was"
        )
        yield Notification(move.id, NotificationType.ABORTED, {"reason": reason})


def _key(key: Key) -> str:
    return ",".join(part.hex() if isinstance(part, bytes) else str(part) for part in key)
