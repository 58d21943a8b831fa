"""Where a consumer reads the lake that has none of the changes before a place, and where it continues from there.

The lake's tables, each at its versions here, have exactly the changes through one segment. The changes after that
segment are the others. So a consumer that reads both has each change once.

Between two batches all tables of the lake are at the end of the same segment. Their versions of that moment stay
readable until Delta's VACUUM removes them. So the last such moment is the answer while a batch is under way.

A consumer asks because a table has begun again in a segment that it has read. The lake may be before that segment. Then
it has the rows that aren't right any more, and nothing in it says so. So the answer also depends on the journal's end.
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from pipeline.errors import Definite, Transient
from pipeline.journal.applied.progress import ConsumerProgress, ReadAt, SegmentEnd, TableProgress
from pipeline.journal.changes.query import MalformedRequest, tables_named
from pipeline.schema.table_schema import TableId
from pipeline.snapshot.checkpoint import Checkpoint


class LakeBehind(Transient):
    """The lake doesn't have all of a table yet."""


class LakeWithout(Definite):
    """The lake doesn't get all of a table by itself, or there is no lake."""


class EvenLake(ConsumerProgress, Protocol):
    """How far the lake is at a moment when all its tables are at the end of the same segment, that of `whole`."""

    @property
    def checkpoint(self) -> Checkpoint:
        """Returns that segment's checkpoint."""


@dataclass(frozen=True, slots=True)
class LakePlace:
    """What the lake has of each table through `reached`, by the versions to read; None if it has nothing of it."""

    reached: SegmentEnd
    read_at: Mapping[TableId, ReadAt | None] = field(default_factory=dict)


def parse_bootstrap(parameters: Mapping[str, str]) -> tuple[TableId, ...]:
    """Returns the tables that a request names, none for all. Raises MalformedRequest."""
    if unknown := sorted(parameters.keys() - {"tables"}):
        raise MalformedRequest(f"{unknown[0]}: there is no such parameter; there is tables")
    return tables_named(parameters["tables"]) if "tables" in parameters else ()


def lake_place(lake: EvenLake | None, tables: Iterable[TableId], newest: Checkpoint) -> LakePlace:
    """Returns where to read these tables. `newest`: the checkpoint with which the journal ends.

    Raises LakeBehind or LakeWithout.
    """
    if lake is None:
        raise LakeBehind("nothing is known of the lake yet: delivery is starting")
    found = {table: lake.of(table) for table in sorted(tables)}
    for table, progress in found.items():
        if reason := newest.stopped.get(table, progress.stopped):
            raise LakeWithout(
                f"tables: {table} was stopped: {reason}; recapture it, or name the other tables"
            )
        if reason := _never_read(table, newest):
            raise LakeWithout(f"tables: {table} {reason}, or name the other tables")
        if lacks := _lacks(table, progress, lake.checkpoint, newest):
            raise LakeBehind(f"tables: {table} can't be read in the lake yet: {lacks}")
    return LakePlace(lake.whole, {table: progress.read_at for table, progress in found.items()})


def _never_read(table: TableId, newest: Checkpoint) -> str | None:
    """Returns that only the table's changes come, since nothing has read the rows of before; None if something has."""
    if not newest.schemas[table].key:
        read = "has no primary key, and no blocking snapshot has read its rows: request one"
        return None if table in newest.scanned else read
    return None if table in newest.mirrors else "has had no snapshot: request one"


def _lacks(table: TableId, progress: TableProgress, reached: Checkpoint, newest: Checkpoint) -> str | None:
    """Returns what the lake's tables lack that the journal's end promises."""
    if progress.lacks is not None:
        return progress.lacks
    if progress.filling is not None:
        return "its snapshot is being read"
    if _beginning(table, reached) != _beginning(table, newest):
        return f"it has begun again, or was emptied or read, and the lake has it through the SCN {reached.scn} only"
    return None


def _beginning(table: TableId, checkpoint: Checkpoint) -> Hashable:
    """Returns what differs once the table has begun again.

    That is the generation of its mirror. Without one a scan begins it, and a recapture, which is one of its snapshots.
    """
    mirror = checkpoint.mirrors.get(table)
    if mirror is not None:
        return mirror.since
    snapshots = tuple(snapshot.id for snapshot in checkpoint.snapshots if table in snapshot.tables)
    return table in checkpoint.scanned, snapshots
