"""Orders: what the SparkSink does next, as its machine decides (`pipeline.lake.step`)."""

from dataclasses import dataclass

from pipeline.journal.missing_generations import LostScans
from pipeline.lake.background.work import BackgroundWork
from pipeline.lake.batch import Batch, LakeTableState, Pieces
from pipeline.lake.verification.runs import VerificationRun
from pipeline.schema.table_schema import TableId


@dataclass(frozen=True, slots=True)
class FindEnd:
    """Read the checkpoint of the journal's last segment."""


@dataclass(frozen=True, slots=True)
class FindTables:
    """Read what the lake has of these tables."""

    tables: tuple[TableId, ...]


@dataclass(frozen=True, slots=True)
class FindCursor:
    """Find where to continue. `reported`: the segment through which the tables report that all have everything.

    `brought`: the last segment with which a table of the lake got something.
    """

    reported: int
    brought: int = 0


@dataclass(frozen=True, slots=True)
class ReadBatch:
    """Read the next batch (`next_batch_of`): the segments after `after`, and none after `through`."""

    after: int
    through: int


@dataclass(frozen=True, slots=True)
class DeliverTable:
    """Bring a table to the end of the batch; `pieces` are those of its files that it lacks."""

    table: TableId
    before: LakeTableState
    pieces: Pieces
    batch: Batch


@dataclass(frozen=True, slots=True)
class ReportProgress:
    """Tell the journal that everything is delivered through the batch's end.

    `reported`: the segment that the tables report, None if that must not count. `seconds`: how long the batch took.
    `lost` and `brought`: as of the batch's end (`LakeProgress`).
    """

    batch: Batch
    reported: int | None
    seconds: float
    lost: LostScans
    brought: int


@dataclass(frozen=True, slots=True)
class StopSpark:
    """Stop Spark. `at_once`: begin nothing more for any table, and break off what doesn't end soon.

    `sealed`: the journal's last segment that the sink knows.
    """

    at_once: bool = False
    sealed: int = 0


@dataclass(frozen=True, slots=True)
class RequestMirrors:
    """Request that these generations of mirrors, by their `since`, begin again."""

    generations: dict[TableId, int]


@dataclass(frozen=True, slots=True)
class RequestRepair:
    """Request that rows which this verification has found be read again. `found`: whether it has found any.

    `reason`: why its repair has to end, since they can't be read in the lake; empty if it hasn't.
    """

    run: VerificationRun
    found: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ReportGap:
    """Log that these tables lack segments: the journal begins with the segment `begins`."""

    tables: frozenset[TableId]
    begins: int


@dataclass(frozen=True, slots=True)
class ReportLostChanges:
    """Log that the changelogs of these tables lack segments for good: they have no mirror that could begin again."""

    tables: frozenset[TableId]
    begins: int


@dataclass(frozen=True, slots=True)
class ReportMissingMirrors:
    """Log that these tables have no mirror in the lake."""

    tables: frozenset[TableId]


@dataclass(frozen=True, slots=True)
class ReportKeptTypes:
    """Log that these tables keep other types than the rules want, because they can't be read again."""

    tables: frozenset[TableId]


Order = (
    FindEnd
    | FindTables
    | FindCursor
    | ReadBatch
    | DeliverTable
    | ReportProgress
    | BackgroundWork
    | StopSpark
    | RequestMirrors
    | RequestRepair
    | ReportGap
    | ReportLostChanges
    | ReportMissingMirrors
    | ReportKeptTypes
)
