"""Where one reads the lake who has none of the changes before a place, and where to continue from there.

The lake's tables, each at its versions here, have exactly the changes through one segment. The changes after that
segment are the others. So who reads both has each change once.

Between two batches all tables of the lake are at the end of the same segment. Their versions of that moment stay
readable until Delta's VACUUM removes them. So the last such moment is the answer while a batch is under way.

A reader asks because a table has begun again in a segment that it has read. The lake may be before that segment. Then
it has the rows that aren't right any more, and nothing in it says so. So the answer also depends on the journal's end.
A table that a statement emptied begins again as well, and the reader finds that in the stream.
"""

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from pipeline.errors import Definite, Transient
from pipeline.journal.applied.progress import ConsumerProgress, ReadAt, SegmentEnd, TableProgress
from pipeline.journal.changes.retained_range import Entries, RetainedRange
from pipeline.journal.changes.table_notices import notices_of
from pipeline.journal.request_parameters import check_names, tables_named
from pipeline.schema.table_schema import TableId
from pipeline.snapshot.checkpoint import Checkpoint, stays_incomplete

# So many segments after the lake are looked through for tables that begin again, and so many of them at once.
MOST_AFTER_LAKE: Final = 1000
_LOOKED_THROUGH_AT_ONCE: Final = 16


class LakeBehind(Transient):
    """The lake doesn't have all of a table yet."""


class LakeWithout(Definite):
    """The lake doesn't get all of a table by itself, or there is no lake."""


class EvenLake(ConsumerProgress, Protocol):
    """How far the lake is at a moment when all its tables are at the end of the same segment, that of `whole`."""

    @property
    def checkpoint(self) -> Checkpoint:
        """Returns that segment's checkpoint."""

    def never_whole(self, table: TableId) -> str | None:
        """Returns why the lake doesn't keep all of a table, None if it does."""


@dataclass(frozen=True, slots=True)
class LakePlace:
    """What the lake has of each table through `reached`, by the versions to read; None if it has nothing of it."""

    reached: SegmentEnd
    read_at: Mapping[TableId, ReadAt | None]


def parse_bootstrap(parameters: Mapping[str, str]) -> tuple[TableId, ...]:
    """Returns the tables that a request names, none for all. Raises MalformedRequest."""
    check_names(parameters, "tables")
    return tables_named(parameters["tables"]) if "tables" in parameters else ()


def needs_restarts(lake: EvenLake, tables: Iterable[TableId], newest: Checkpoint) -> bool:
    """Returns whether `lake_place` has to know which of these tables begin again after what the lake has."""
    return any(_may_be_emptied(table, lake.checkpoint, newest) for table in tables)


def restarted_after(
    segment: int, there: RetainedRange, entry: Entries
) -> Iterator[frozenset[TableId] | None]:
    """Yields the tables of which the stream lacks changes after a segment of the lake: after each piece of the journal
    those until then, at last all of them. None if the journal can't say it, or not soon.
    """
    if not there.first - 1 <= segment or there.last - segment > MOST_AFTER_LAKE:
        yield None
        return
    before = entry(segment) if segment >= there.first else None
    found = frozenset[TableId]()
    for each in map(entry, range(segment + 1, there.last + 1)):
        found |= frozenset(notices_of(before, each, (), {}).restarted)
        before = each
        if each.segment % _LOOKED_THROUGH_AT_ONCE == 0:
            yield found
    yield found


def lake_place(
    lake: EvenLake | None,
    tables: Iterable[TableId],
    newest: Checkpoint,
    restarted: Collection[TableId] | None,
) -> LakePlace:
    """Returns where to read these tables. `newest`: the checkpoint with which the journal ends. `restarted`: as of
    `restarted_after`, if that is needed (`needs_restarts`).

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
        reason = _never_read(table, newest)
        if not reason and (lacks := _lacks(table, progress, lake.checkpoint, newest, restarted)):
            raise LakeBehind(f"tables: {table} can't be read in the lake yet: {lacks}")
        if reason := reason or lake.never_whole(table):
            raise LakeWithout(f"tables: {table} {reason}, or name the other tables")
    return LakePlace(lake.whole, {table: progress.read_at for table, progress in found.items()})


def _never_read(table: TableId, newest: Checkpoint) -> str | None:
    """Returns that only the table's changes come, and nothing reads the rows of before; None if something does."""
    if not newest.schemas[table].key:
        read = (
            "has no primary key. Only after a blocking snapshot is it known that its changes add up to its rows: "
            "request one"
        )
        return None if table in newest.scanned else read
    if table not in newest.mirrors:
        return "has had no snapshot: request one"
    if stays_incomplete(newest, table):
        return (
            "has had no snapshot with all of its rows since it began again or for the first time: request one"
        )
    return None


def _lacks(
    table: TableId,
    progress: TableProgress,
    reached: Checkpoint,
    newest: Checkpoint,
    restarted: Collection[TableId] | None,
) -> str | None:
    """Returns what the lake's tables lack that the journal's end promises."""
    if progress.lacks is not None:
        return progress.lacks
    if progress.filling is not None:
        return "its snapshot is being read"
    if _beginning(table, reached) == _beginning(table, newest):
        return None
    if _may_be_emptied(table, reached, newest):
        if restarted is None:
            return "it was emptied or has begun again, and the lake is too many segments before the journal's end"
        if table not in restarted:
            return None  # a statement has emptied it, and the stream has that
    return f"it has begun again, or was read, and the lake has it through the SCN {reached.scn} only"


def _may_be_emptied(table: TableId, reached: Checkpoint, newest: Checkpoint) -> bool:
    """Returns whether a table's mirror has begun again after what the lake has."""
    mirrors = reached.mirrors.get(table), newest.mirrors.get(table)
    return None not in mirrors and _beginning(table, reached) != _beginning(table, newest)


def _beginning(table: TableId, checkpoint: Checkpoint) -> Hashable:
    """Returns what differs once the table has begun again.

    That is the generation of its mirror. Without one a scan begins it, and a recapture, which is one of its snapshots.
    """
    mirror = checkpoint.mirrors.get(table)
    if mirror is not None:
        return mirror.since
    snapshots = tuple(snapshot.id for snapshot in checkpoint.snapshots if table in snapshot.tables)
    return table in checkpoint.scanned, snapshots
