"""Where a consumer reads the lake that has none of the changes before a place, and where it continues from there.

The lake's tables, each at its versions here, have exactly the changes through one segment. The changes after that
segment are the others. So a consumer that reads both has each change once.

Between two batches all tables of the lake are at the end of the same segment. Their versions of that moment stay
readable until Delta's VACUUM removes them. So the last such moment is the answer while a batch is under way.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pipeline.errors import Definite, Transient
from pipeline.journal.applied.progress import ConsumerProgress, ReadAt, SegmentEnd
from pipeline.journal.changes.query import MalformedRequest, tables_named
from pipeline.schema.table_schema import TableId


class LakeBehind(Transient):
    """The lake doesn't have all of a table yet."""


class LakeWithout(Definite):
    """The lake gets nothing of a table, or there is no lake."""


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


def lake_place(
    lake: ConsumerProgress | None, tables: Iterable[TableId], stopped: Mapping[TableId, str]
) -> LakePlace:
    """Returns where to read these tables. `lake`: its progress when all tables were at the end of the same segment.

    `stopped`: the tables that capture has stopped, and why. Raises LakeBehind or LakeWithout.
    """
    if lake is None:
        raise LakeBehind("nothing is known of the lake yet: delivery is starting")
    found = {table: lake.of(table) for table in sorted(tables)}
    for table, progress in found.items():
        if reason := stopped.get(table, progress.stopped):
            raise LakeWithout(
                f"tables: {table} was stopped: {reason}; recapture it, or name the other tables"
            )
        if progress.lacks is not None:
            raise LakeBehind(f"tables: {table} can't be read in the lake yet: {progress.lacks}")
    return LakePlace(lake.whole, {table: progress.read_at for table, progress in found.items()})
