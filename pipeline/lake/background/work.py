"""Work beside the batches: what can be due, and what is ordered then."""

from dataclasses import dataclass

from pipeline.lake.live_view import MirrorPosition
from pipeline.lake.tables.maintenance import Chore, TableUpkeep, Trim
from pipeline.lake.tables.tier import Tier
from pipeline.lake.verification.runs import VerificationRun
from pipeline.schema.table_schema import TableId


@dataclass(frozen=True, slots=True)
class MergeDue:
    """A table whose mirror is due for a merge."""

    table: TableId


@dataclass(frozen=True, slots=True)
class CompletionDue:
    """A table whose mirror has a generation with all its rows, which readers don't see yet."""

    table: TableId


@dataclass(frozen=True, slots=True)
class ChoreDue:
    """A chore, and the lake table that needs it."""

    chore: Chore
    table: TableId
    tier: Tier


@dataclass(frozen=True, slots=True)
class ComparisonDue:
    """A table of which verifications have read rows, or have ended."""

    table: TableId


Due = CompletionDue | MergeDue | ChoreDue | ComparisonDue


@dataclass(frozen=True, slots=True)
class CompleteMirror:
    """Show readers a generation of a table's mirror, with these `changes` of the table, `through` a segment.

    `since`: when (s since the epoch) its filling began, which distinguishes it from a later one of the generation.
    """

    table: TableId
    generation: int
    through: int
    position: str
    changes: int
    since: float

    @property
    def due(self) -> Due:
        """Returns what was due."""
        return CompletionDue(self.table)

    @property
    def kind(self) -> str:
        """Returns its name in metrics and the log."""
        return "complete"


@dataclass(frozen=True, slots=True)
class MergeMirror:
    """Merge these `changes` of a table into its mirror, which has `reached` a place, `through` a segment."""

    table: TableId
    reached: MirrorPosition
    through: int
    position: str
    changes: int

    @property
    def due(self) -> Due:
        """Returns what was due."""
        return MergeDue(self.table)

    @property
    def kind(self) -> str:
        """Returns its name in metrics and the log."""
        return "merge"


@dataclass(frozen=True, slots=True)
class MaintainTable:
    """Do a chore for a lake table, which was in this state when the chore began.

    `trim`: what a TRIM deletes, None for nothing. `versions_h`: for how many hours a VACUUM keeps files. `runs`: if a
    TRIM trims the results of verifications too, the ids of those that it keeps.
    """

    chore: Chore
    kept: TableUpkeep
    trim: Trim | None
    versions_h: float
    runs: frozenset[str] | None

    @property
    def table(self) -> TableId:
        """Returns the table of the lake table."""
        return self.kept.table

    @property
    def due(self) -> Due:
        """Returns what was due."""
        return ChoreDue(self.chore, self.kept.table, self.kept.tier)

    @property
    def kind(self) -> str:
        """Returns its name in metrics and the log."""
        return self.chore.value


@dataclass(frozen=True, slots=True)
class VerifyRows:
    """Compare what verifications have read of a table, `through` a segment, whose end has this position.

    `runs`: the verifications of the table that have no result. Those that have `ended` get one. `rows` wait to be
    compared, from files with so many `bytes`. `unread`: as of ComparedTable. `stopped`: whether the lake gets nothing
    more of the table.
    """

    table: TableId
    runs: tuple[VerificationRun, ...]
    through: int
    position: str
    rows: int
    unread: int | None
    stopped: bool = False
    bytes: int = 0

    @property
    def ended(self) -> tuple[VerificationRun, ...]:
        """Returns the verifications that get a result."""
        return tuple(run for run in self.runs if run.ended)

    @property
    def due(self) -> Due:
        """Returns what was due."""
        return ComparisonDue(self.table)

    @property
    def kind(self) -> str:
        """Returns its name in metrics and the log."""
        return "verify"


BackgroundWork = CompleteMirror | MergeMirror | MaintainTable | VerifyRows
