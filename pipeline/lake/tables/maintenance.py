"""What keeps the lake's tables small and quick to read, and when it is due.

- *Compact*: OPTIMIZE rewrites many small files as few large ones. A changelog gets some files a second, as the journal
  has them. A mirror gets a few with each MERGE, and deletion vectors that hide rows of the older files. OPTIMIZE takes
  only files below SMALL_BYTES, and those with a good part of their rows hidden. So a large file stays as it is, and
  each row is written only a few times.
- *Trim*: deletes changes from a changelog that no reader needs. If the changelog is only the mirror's inbox, these are
  all that its mirror has merged. Else they are those older than the rule keeps them. It also removes the part of
  Delta's log that has expired. Delta itself would remove a whole day of it at once.
  With a changelog it trims the results of verifications, and compacts them, at most once an hour.
- *Vacuum*: VACUUM removes files that no readable version has.
- *Checkpoint*: Delta writes the state of its log into one file, so that readers needn't read all commits. Otherwise
  Delta would do so within a commit, which then takes a second or two, and many seconds beside a merge.

None of it changes what readers see, and none is urgent: one chore runs at a time, beside the batches. A batch's commit
only adds files and reads none, so no chore is in its way. It is only in the way of a trimming, for which a busy
changelog has to leave a moment.

**A trimmed changelog and the live view.** Let t be the segment through which all changes are removed. Let m be the
segment that the mirror had merged then: t <= m. A query that reads the mirror at m or later, and the trimmed changelog,
counts the changes after some segment s <= m. Without the removed ones, these are all changes after max(s, t) <= m. That
is what `pipeline.lake.live_view` needs. A query would miss changes only if it read the mirror *before* that MERGE and
the changelog *after* the trimming. It reads the two tables within moments. So a trimming takes only what was merged an
hour ago or earlier. A reader that is bound to two versions reads these, until VACUUM.

Source: Delta Lake, Optimizations (compaction), Table utility commands (VACUUM), Concurrency control.
"""

import math
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from pipeline.config.table_rules import LakeRule, Tiers
from pipeline.lake.tables.properties import CHANGELOG_VERSIONS_H
from pipeline.lake.tables.tier import Tier
from pipeline.schema.table_schema import TableId

# A smaller file is small, and no rewritten file becomes larger.
SMALL_BYTES: Final = 32 << 20
LARGE_BYTES: Final = 128 << 20

# The part of a file's rows that a deletion vector may hide before the file is rewritten.
HIDDEN_PART: Final = 0.25

# How many commits there may be after a checkpoint.
CHECKPOINT_AFTER: Final = 100

# How often (s) changelogs are trimmed, and how long ago at least what is trimmed was merged.
TRIM_EVERY_S: Final = 3_600.0
VACUUM_EVERY_S: Final = 86_400.0
# The first time after a start. A service that is started each day has its turn too.
VACUUM_FIRST_S: Final = 3_600.0

# The findings and results of verifications are kept for so many days or longer. A trimming of a changelog deletes older
# ones, if one of the two tables has so many files. Those of verifications that the checkpoint knows stay.
DAYS_OF_RESULTS: Final = 90
MANY_RESULTS: Final = 100

# So much later than the source's newest commit it may be now, in µs and as a part of the hours that changes are kept:
# the lesser of the two. The clock here counts up to there.
AHEAD_US: Final = 86_400_000_000
AHEAD_PART: Final = 0.25

# How long (s) work pauses that another writer's commit has undone.
REST_S: Final = 30.0


class Chore(StrEnum):
    """A kind of maintenance."""

    CHECKPOINT = "checkpoint"
    COMPACT = "compact"
    TRIM = "trim"
    VACUUM = "vacuum"


@dataclass(frozen=True, slots=True)
class TableSize:
    """How many files a lake table has, how many of their rows deletion vectors hide, and how many commits came after
    its log's last checkpoint."""

    files: int = 0
    hidden: int = 0
    commits: int = 0


@dataclass(frozen=True, slots=True)
class Policy:
    """The parts of the settings that say when a chore is due; 0 `compact_files` is never."""

    compact_files: int
    merge_rows: int


@dataclass(frozen=True, slots=True)
class Trim:
    """Which changes to delete.

    These are the ones through the segment `merged` (all, if None) that were committed `hours` ago, or longer (at any
    time, if None). Whatever came before these goes too. `scn`: none after it, None for no such bound. `until`: from
    when (µs since the epoch) at the latest the hours count, None for now.
    """

    merged: int | None
    hours: float | None
    scn: int | None = None
    until: int | None = None


@dataclass(frozen=True, slots=True)
class TableUpkeep:
    """A lake table: its `size` now, and as its last compaction `left` it. Moments are in s.

    `trimmed` and `vacuumed`: when that was done, or counted as done. `merged`: the segment that its mirror had reached
    at `trimmed`.
    """

    table: TableId
    tier: Tier
    size: TableSize
    trimmed: float
    vacuumed: float
    left: TableSize = field(default_factory=TableSize)
    merged: int = 0

    @property
    def come(self) -> int:
        """Returns how many files have come since it was compacted."""
        return self.size.files - self.left.files


def found_table(table: TableId, tier: Tier, size: TableSize, now: float, merged: int) -> TableUpkeep:
    """Returns a lake table that is met at a start, when it isn't known what was done before."""
    return TableUpkeep(table, tier, size, now, now - VACUUM_EVERY_S + VACUUM_FIRST_S, merged=merged)


def trim_of(kept: TableUpkeep, rule: LakeRule, keyed: bool, keep_hours: float) -> Trim | None:
    """What is to be trimmed from a changelog by its table's rule; None for nothing. 0 `keep_hours` is no bound.

    A table without a primary key (`keyed`) is the sum of its changes. So they're kept where they aren't expressly all
    that there is of it.
    """
    if rule.tiers is Tiers.MIRROR:
        return Trim(kept.merged, None) if keyed else None
    if not keep_hours:
        return None
    if rule.tiers is Tiers.CHANGELOG:
        return Trim(None, keep_hours)
    return Trim(kept.merged, keep_hours) if keyed else None


def bound_trim(trim: Trim | None, newest: int | None) -> Trim | None:
    """Returns a trim whose hours count from soon after the `newest` commit of the source at the latest.

    So whatever the clock here says, changes of the last three quarters of those hours before that commit stay. If no
    commit has come yet (None), all do.
    """
    if trim is None or trim.hours is None:
        return trim
    ahead = min(AHEAD_US, int(trim.hours * AHEAD_PART * 3_600_000_000))
    return None if newest is None else replace(trim, until=newest + ahead)


def versions_h(tier: Tier, vacuum_hours: float) -> float:
    """Returns for how many hours a file is kept that the newest version doesn't have: at most as long as the log is
    kept."""
    return vacuum_hours if tier is Tier.MIRROR else min(vacuum_hours, CHANGELOG_VERSIONS_H)


def due_at(kept: TableUpkeep, policy: Policy) -> dict[Chore, float]:
    """Returns when (s) each chore is due for a lake table. It is long ago for what is due now. Chores that only more
    files or commits make due are missing."""
    hidden = kept.size.hidden - kept.left.hidden
    many = kept.come >= policy.compact_files or hidden >= policy.merge_rows
    at = {}
    if kept.size.commits >= CHECKPOINT_AFTER:
        at[Chore.CHECKPOINT] = -math.inf
    if policy.compact_files and many:
        at[Chore.COMPACT] = -math.inf
    if kept.tier is Tier.CHANGELOG:
        at[Chore.TRIM] = kept.trimmed + TRIM_EVERY_S
    at[Chore.VACUUM] = kept.vacuumed + VACUUM_EVERY_S
    return at
