"""The SparkSink's state: how far the lake is, and what the sink is doing (`pipeline.lake.step`)."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from pipeline.config.settings import LakeSettings
from pipeline.config.table_rules import LakeRule, Tiers, rule_of
from pipeline.gtid.gtid_set import NO_GTIDS
from pipeline.journal.missing_generations import LostScans
from pipeline.lake.background.state import Background, LakeTables
from pipeline.lake.batch import Batch, LakeTableState
from pipeline.lake.verification.runs import runs_of
from pipeline.schema.table_schema import TableId
from pipeline.snapshot.checkpoint import Checkpoint, Mirror


@dataclass(frozen=True, slots=True)
class IncompleteTables:
    """Tables that lack rows, until their mirrors begin again at the SCN `since` or after it."""

    tables: frozenset[TableId] = frozenset()
    since: int = 0


@dataclass(frozen=True, slots=True)
class Failed:
    """Finding or delivering a table has failed for this reason, so many `times` in a row.

    `again`: when (s) it is tried again. `foreign`: whether another journal feeds its lake tables.
    """

    reason: str
    times: int
    again: float
    foreign: bool = False


# With so many failures in a row a table counts as stopped: fewer may go by in seconds. It is tried again all the same.
TIMES_TO_TELL: Final = 3

# Of a lake that has nothing yet.
_NOTHING: Final = Checkpoint(NO_GTIDS)


@dataclass(frozen=True, slots=True)
class Ahead:
    """Where the other tables are while those that failed catch up: through `segment`, with its checkpoint."""

    segment: int
    checkpoint: Checkpoint


@dataclass(frozen=True, slots=True)
class LakeProgress:
    """How far the lake is: through `segment`, which has this `checkpoint`.

    `tables`: what it has of each table that was met. `unlike_rules`: those of them whose columns have other forms than
    the rules for types want. `reported`: the segment through which these report that all have everything. `brought`:
    the last segment with which one of them got something, as the lake itself says. `late`: tables that wait for a
    mirror which the journal has all of (`pipeline.journal.missing_generations`). `resuming`: those that waited so, and
    that the batch under way brings. `aside`: those that failed and pause. `whole`: the segment through which both have
    everything; `bare`: tables whose mirror is missing (`pipeline.lake.mirrors.mirror_rules`). `failed`: the tables that
    have failed and aren't wholly delivered since; `ahead`: where the others are while such tables catch up. `lost`:
    tables without a mirror whose changes here don't add up to their rows (`pipeline.journal.missing_generations`).
    `newest`: the latest commit time that a batch has brought since the start (µs since the epoch), None if none has.
    """

    segment: int = 0
    checkpoint: Checkpoint = _NOTHING
    tables: Mapping[TableId, LakeTableState] = field(default_factory=dict)
    unlike_rules: frozenset[TableId] = frozenset()
    reported: int = -1
    brought: int = 0
    late: IncompleteTables = field(default_factory=IncompleteTables)
    resuming: frozenset[TableId] = frozenset()
    whole: int = 0
    bare: IncompleteTables = field(default_factory=IncompleteTables)
    aside: frozenset[TableId] = frozenset()
    failed: Mapping[TableId, Failed] = field(default_factory=dict)
    ahead: Ahead | None = None
    lost: LostScans = field(default_factory=dict)
    newest: int | None = None

    @property
    def left_out(self) -> frozenset[TableId]:
        """The tables that batches leave out."""
        return self.late.tables | self.aside

    @property
    def catching_up(self) -> frozenset[TableId]:
        """The tables that failed and are tried again."""
        return frozenset(self.failed.keys() - self.aside)

    @property
    def mergeable(self) -> Mapping[TableId, Mirror]:
        """The mirrors that may be merged: of tables that have what the others have, and no more."""
        if self.ahead is not None:
            return {}
        other = self.failed.keys() | self.late.tables | self.beyond
        return {table: mirror for table, mirror in self.checkpoint.mirrors.items() if table not in other}

    @property
    def beyond(self) -> frozenset[TableId]:
        """The tables that have changes of later segments, since batches began again for others.

        Work would take only a part of their changes, and what is left of them isn't counted.
        """
        return frozenset(table for table, found in self.tables.items() if found.changes > self.segment)

    def stopped(self, table: TableId) -> str | None:
        """Returns why a table gets nothing."""
        if (failed := self.failed.get(table)) is not None:
            return f"it failed {failed.times} times in a row and is tried again: {failed.reason}"
        stop = self.of(table).stopped
        return None if stop is None else stop.reason

    @property
    def stopped_tables(self) -> frozenset[TableId]:
        """The tables that get nothing (`stopped`), but for those that have failed less than TIMES_TO_TELL in a row."""
        stopped = (table for table, found in self.tables.items() if found.stopped is not None)
        failing = (table for table, each in self.failed.items() if each.times >= TIMES_TO_TELL)
        return frozenset(failing).union(stopped)

    def times_failed(self, table: TableId) -> int:
        """Returns how often in a row the table has failed."""
        return 0 if (failed := self.failed.get(table)) is None else failed.times

    def of(self, table: TableId) -> LakeTableState:
        """Returns what the lake has of a table, met or not."""
        return self.tables.get(table, LakeTableState())

    def having(self, delivered: Mapping[TableId, LakeTableState]) -> "LakeProgress":
        """Returns the progress with this of these tables."""
        return replace(self, tables={**self.tables, **delivered})


@dataclass(frozen=True, slots=True)
class Starting:
    """Spark isn't up yet."""


@dataclass(frozen=True, slots=True)
class Searching:
    """The sink reads what the lake has of the tables at the journal's `end`.

    `sealed`: the journal's last segment.
    """

    end: Checkpoint
    sealed: int


@dataclass(frozen=True, slots=True)
class Joining:
    """The sink reports to the journal where the lake is, and reads which segments there are, before it delivers
    anything."""

    end: Checkpoint
    sealed: int


@dataclass(frozen=True, slots=True)
class Idle:
    """Every segment that is known to be sealed is delivered."""


@dataclass(frozen=True, slots=True)
class Retrying:
    """The sink reads the journal's end, because it tries failed tables again."""


@dataclass(frozen=True, slots=True)
class ReadingBatch:
    """The sink reads a batch. The journal is sealed through `sealed`."""

    sealed: int


@dataclass(frozen=True, slots=True)
class LoadingTables:
    """The sink reads what the lake has of a batch's tables that are new to it.

    `began`: when the batch was read (s).
    """

    sealed: int
    batch: Batch
    began: float


@dataclass(frozen=True, slots=True)
class Delivering:
    """A batch is delivered to the tables that are `left`.

    Then they report that all have everything through `reported`.
    """

    sealed: int
    batch: Batch
    began: float
    left: frozenset[TableId]
    reported: int


@dataclass(frozen=True, slots=True)
class Confirming:
    """A batch is delivered, and the journal learns of it."""

    sealed: int


@dataclass(frozen=True, slots=True)
class StoppingSpark:
    """Everything is delivered, nothing more comes, and Spark is stopped."""


@dataclass(frozen=True, slots=True)
class SinkEnded:
    """Spark has stopped."""


Doing = (
    Starting
    | Searching
    | Joining
    | Idle
    | Retrying
    | ReadingBatch
    | LoadingTables
    | Delivering
    | Confirming
    | StoppingSpark
    | SinkEnded
)


@dataclass(frozen=True, slots=True)
class State:
    """What is known, what the batches do (`doing`), and what runs beside them (`background`).

    `stop_at`: when (s) a stop ends, whatever is delivered by then; None without a stop. `ending`: whether no segment
    comes any more. Then nothing begins beside the batches. `unchecked_end`: the segment with which the journal ended
    before its writer began. No table that is met may be ahead of it. None if that was checked before. `unseen`: tables
    that couldn't be looked at when that was checked, each with such an end.
    """

    settings: LakeSettings
    so_far: LakeProgress = field(default_factory=LakeProgress)
    doing: Doing = field(default_factory=Starting)
    background: Background = field(default_factory=Background)
    stop_at: float | None = None
    ending: bool = False
    unchecked_end: int | None = None
    unseen: Mapping[TableId, int] = field(default_factory=dict)

    def may_reach(self, table: TableId) -> int | None:
        """Returns the segment that a table which wasn't met yet must not be ahead of; None if it was checked before."""
        ends = (self.unseen.get(table), self.unchecked_end)
        return min((end for end in ends if end is not None), default=None)

    @property
    def still_unseen(self) -> Mapping[TableId, int]:
        """Returns the tables that couldn't be looked at yet, each with the segment that it must not be ahead of."""
        so_far = self.so_far
        unmet = (table for table in {**self.unseen, **so_far.failed} if table not in so_far.tables)
        return {table: end for table in unmet if (end := self.may_reach(table)) is not None}

    @property
    def rules(self) -> tuple[LakeRule, ...]:
        """What is kept of each table."""
        return self.settings.rules

    @property
    def unjudged_in_a_row(self) -> Mapping[TableId, int]:
        """Returns how many verifications in a row couldn't be judged, of each table with a primary key and a mirror."""
        tables, rules = self.so_far.tables, self.rules
        return {
            table: times
            for table, times in self.background.verified.in_a_row.items()
            if rule_of(rules, table).tiers is not Tiers.CHANGELOG
            and ((schema := tables.get(table, LakeTableState()).schema) is None or schema.key)
        }

    @property
    def lake_tables(self) -> LakeTables:
        """What the background work goes by."""
        so_far = self.so_far
        return LakeTables(
            self.settings,
            so_far.tables,
            so_far.mergeable,
            runs_of((so_far.ahead or so_far).checkpoint),
            frozenset(so_far.tables)
            if so_far.ahead is not None
            else so_far.left_out | so_far.failed.keys() | so_far.beyond,
            so_far.checkpoint.unread,
            so_far.newest,
        )
