"""What the sink knows for the work beside the batches, and what is under way. Times are in seconds."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pipeline.config.settings import LakeSettings
from pipeline.lake.background.work import BackgroundWork, Due
from pipeline.lake.batch import LakeTableState
from pipeline.lake.live_view import MirrorPosition
from pipeline.lake.tables.maintenance import TableUpkeep
from pipeline.lake.tables.tier import Tier
from pipeline.lake.verification.runs import Comparisons, VerificationRun
from pipeline.schema.table_schema import TableId
from pipeline.snapshot.checkpoint import Mirror


@dataclass(frozen=True, slots=True)
class Mirrored:
    """A mirror: where it is, how many changes it hasn't merged, and when (s) the first of these came.

    `merge_s`: how long its last merge of fewer than `merge_rows` changes took, 0 before the first one since the start.
    One of more may be exceptional, and says nothing of the next one.
    """

    reached: MirrorPosition
    pending: int
    since: float
    merge_s: float = 0.0


@dataclass(frozen=True, slots=True)
class UnderWay:
    """Work that began at a moment (s). `full`: whether it merges `merge_rows` changes or more."""

    work: BackgroundWork
    began: float
    full: bool


@dataclass(frozen=True, slots=True)
class Background:
    """What is known of the lake tables for this work, and what is under way; None if nothing is.

    `rebuilding`: the tables whose mirror's newest generation is being filled, and since when (s since the epoch).
    `verified`: what there is of verifications. `due`: what is due, and since when. `resting`: what was given up or
    failed, and until when it pauses. `failed`: how often in a row. `compared`: whether the last turn was a
    comparison's. `prepared`: what has been done first for the comparison whose turn it is, each at most once.
    `results_due`: the first TRIM from then on (s) trims the results of verifications too.
    """

    mirrored: Mapping[TableId, Mirrored] = field(default_factory=dict)
    rebuilding: Mapping[TableId, float] = field(default_factory=dict)
    kept: Mapping[tuple[TableId, Tier], TableUpkeep] = field(default_factory=dict)
    due: Mapping[Due, float] = field(default_factory=dict)
    resting: Mapping[Due, float] = field(default_factory=dict)
    failed: Mapping[Due, int] = field(default_factory=dict)
    under_way: UnderWay | None = None
    verified: Comparisons = field(default_factory=Comparisons)
    compared: bool = False
    prepared: frozenset[Due] = frozenset()
    results_due: float = -math.inf

    def keeping(self, kept: TableUpkeep) -> "Background":
        """Returns it with this state of a lake table."""
        return replace(self, kept={**self.kept, (kept.table, kept.tier): kept})

    def mirroring(self, table: TableId, mirrored: Mirrored) -> "Background":
        """Returns it with this state of a mirror."""
        return replace(self, mirrored={**self.mirrored, table: mirrored})

    def rebuilt(self, table: TableId, since: float | None) -> "Background":
        """Returns it with a mirror that is being filled `since` then, or complete."""
        others = {each: at for each, at in self.rebuilding.items() if each != table}
        return replace(self, rebuilding=others if since is None else {**others, table: since})


@dataclass(frozen=True, slots=True)
class LakeTables:
    """What the batches know: the lake's settings, what it has of each table, and which mirrors may be merged.

    `runs`: the verifications that capture knows there. `incomplete`: the tables that lack something of the segments.
    `unread`: as of the checkpoint. `newest`: as of the lake's progress.
    """

    settings: LakeSettings
    tables: Mapping[TableId, LakeTableState]
    mirrors: Mapping[TableId, Mirror]
    runs: tuple[VerificationRun, ...] = ()
    incomplete: frozenset[TableId] = frozenset()
    unread: Mapping[TableId, int] = field(default_factory=dict)
    newest: int | None = None

    def stopped(self, table: TableId) -> bool:
        """Returns whether the sink delivers nothing more to the table."""
        return self.tables[table].stopped is not None
