"""Facts: what has happened, as the SparkSink's machine takes it (`pipeline.lake.step`)."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pipeline.journal.entry import Entry
from pipeline.journal.missing_generations import LostScans
from pipeline.lake.batch import Batch, LakeTableState, Pieces
from pipeline.lake.live_view import Versions
from pipeline.lake.tables.maintenance import TableSize
from pipeline.lake.tables.tier import Tier
from pipeline.lake.verification.runs import Judgement, VerificationRun
from pipeline.messages.journal import SegmentSealed
from pipeline.schema.table_schema import TableId
from pipeline.snapshot.checkpoint import Checkpoint


@dataclass(frozen=True, slots=True)
class JournalFoundEmpty:
    """Spark runs, and the journal has no segment."""


@dataclass(frozen=True, slots=True)
class JournalFound:
    """Spark runs. `end`: the checkpoint of the journal's last segment, `sealed`."""

    end: Checkpoint
    sealed: int


@dataclass(frozen=True, slots=True)
class CursorFound:
    """The lake has everything `through` a segment that the journal still has, with its checkpoint.

    `lost`: as the journal knows it from before (`LakeProgress.lost`), here and below.
    """

    through: int
    checkpoint: Checkpoint
    lost: LostScans = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GapFound:
    """The lake has everything `through` a segment, and the journal begins later, with `first`."""

    through: int
    first: Entry
    lost: LostScans = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BeginningFound:
    """The lake has everything `through` a segment, and the journal begins with the next one."""

    through: int
    lost: LostScans = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BatchRead:
    """The next batch, and the tables that it leaves out."""

    batch: Batch
    late: frozenset[TableId]


@dataclass(frozen=True, slots=True)
class TableDelivered:
    """The table has taken these pieces, and the lake has `after` of it now."""

    table: TableId
    after: LakeTableState
    pieces: Pieces = field(default_factory=Pieces)


@dataclass(frozen=True, slots=True)
class TableFailed:
    """A table can't be found or delivered, for a reason that concerns no other table.

    `foreign`: whether the reason is that another journal feeds its lake tables.
    """

    table: TableId
    reason: str
    foreign: bool = False


@dataclass(frozen=True, slots=True)
class TablesFound:
    """The lake has this of the tables that were looked for, and their lake tables have these `sizes`.

    `failed`: the tables that can't be found. One fact has all tables, because each fact copies what is known of all.
    """

    found: Mapping[TableId, LakeTableState]
    sizes: Mapping[tuple[TableId, Tier], TableSize] = field(default_factory=dict)
    failed: tuple[TableFailed, ...] = ()


@dataclass(frozen=True, slots=True)
class ProgressReported:
    """The journal knows how far the lake is."""


@dataclass(frozen=True, slots=True)
class LakeTimerFired:
    """The time that `timer_at` returned has come."""


@dataclass(frozen=True, slots=True)
class WorkDone:
    """The work beside the batches has succeeded: its lake table has this size, and readers of the table read it `at`
    these versions. `judgements`: the results of verifications that it brought."""

    size: TableSize
    at: Versions | None = None
    judgements: tuple[Judgement, ...] = ()


@dataclass(frozen=True, slots=True)
class WorkGivenUp:
    """The work beside the batches was given up, since another writer had committed first, or columns have to come."""


@dataclass(frozen=True, slots=True)
class WorkFailed:
    """The work beside the batches has failed, for a reason that concerns no other table."""


@dataclass(frozen=True, slots=True)
class FindingsUnread:
    """The keys that RequestRepair needs can't be read, for a reason that concerns no other table."""

    run: VerificationRun
    reason: str


@dataclass(frozen=True, slots=True)
class StopRequested:
    """The service has been stopping since a moment (s): the journal seals no further segment."""

    at: float


@dataclass(frozen=True, slots=True)
class SealingEnded:
    """The journal seals no further segment, and the sink knows of all of them."""


@dataclass(frozen=True, slots=True)
class SparkStopped:
    """Spark has stopped, as it was ordered to."""


CursorAnswer = CursorFound | GapFound | BeginningFound
Fact = (
    JournalFoundEmpty
    | JournalFound
    | SegmentSealed
    | CursorAnswer
    | BatchRead
    | TableDelivered
    | TableFailed
    | TablesFound
    | ProgressReported
    | LakeTimerFired
    | WorkDone
    | WorkGivenUp
    | WorkFailed
    | FindingsUnread
    | StopRequested
    | SealingEnded
    | SparkStopped
)
