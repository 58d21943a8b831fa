"""How far the lake is, for those who wait for transactions in it (`pipeline.journal.applied`).

A batch has a table when the table's part of it is delivered, or when it has no part for the table. Readers see all that
a table has, except in six cases. Its mirror's newest generation is being filled, or hasn't begun. The mirror lacks
columns that the changelog has after a kill between the two, and changes may have come after these. The sink has set the
table aside, because it failed or lacks segments. Rows are to be read again that the log had in part. Or capture had
stopped the table as of the batch, and has begun it again since then.

Without a mirror (`tiers = "changelog"`) readers see a table's changes while its snapshot is read, and what was
committed before them when the snapshot has ended. If it has ended without all rows, nothing more comes of these.
"""

from dataclasses import dataclass

from pipeline.config.table_rules import Tiers, rule_of
from pipeline.journal.applied.progress import BEGINS_AGAIN, ReadAt, SegmentEnd, TableProgress
from pipeline.lake.state import Confirming, Delivering, Idle, State
from pipeline.schema.table_schema import TableId
from pipeline.snapshot.checkpoint import Checkpoint, Filling, stays_incomplete


@dataclass(frozen=True, slots=True)
class LakeConsumerProgress:
    """The lake's progress, as the sink's state has it."""

    state: State

    @property
    def whole(self) -> SegmentEnd:
        """Every table has everything through here, but for those that lack something by name."""
        so_far = self.state.so_far
        return SegmentEnd.at((so_far.ahead or so_far).segment, self.checkpoint)

    @property
    def checkpoint(self) -> Checkpoint:
        """The checkpoint there."""
        so_far = self.state.so_far
        return (so_far.ahead or so_far).checkpoint

    @property
    def furthest(self) -> SegmentEnd:
        """The end of the batch under way, if there's one that brings something new."""
        batch = self._batch
        return self.whole if batch is None else SegmentEnd.at(batch.batch.through, batch.batch.checkpoint)

    @property
    def even(self) -> bool:
        """Whether all tables have exactly what is through `whole`, but for those that lack something by name.

        After a failure batches begin again, and a table may have more by then.
        """
        whole = self.whole.segment
        if whole == 0 or not isinstance(self.state.doing, Idle | Confirming):
            return False
        return all(table.changes <= whole for table in self.state.so_far.tables.values())

    def takes(self, _: TableId) -> bool:
        """The lake has all that is captured."""
        return True

    def never_whole(self, table: TableId) -> str | None:
        """Why the lake doesn't keep all of a table, None if it does."""
        if self.state.settings.keep_changelog_hours and not self._has_mirror(table):
            return "has no mirror, and its changelog keeps changes for keep_changelog_hours only"
        if table in self.state.so_far.lost:
            return (
                "lacks rows that the journal removed before the lake had them, or that somebody removed from the lake: "
                "request a blocking snapshot"
            )
        return None

    def of(self, table: TableId) -> TableProgress:
        """How far the lake is with a table."""
        so_far, batch = self.state.so_far, self._batch
        checkpoint, reached = self.checkpoint, self.whole
        if batch is not None and table not in batch.left:
            checkpoint, reached = batch.batch.checkpoint, self.furthest
        stop = so_far.of(table).stopped
        return TableProgress(
            reached,
            None if stop is None else stop.reason,
            self._lacks(table, checkpoint),
            checkpoint.unread.get(table),
            self._filling(table, checkpoint),
            read_at=self._read_at(table),
        )

    @property
    def _batch(self) -> Delivering | None:
        doing = self.state.doing
        ahead = isinstance(doing, Delivering) and doing.batch.through > self.whole.segment
        return doing if isinstance(doing, Delivering) and ahead else None

    def _lacks(self, table: TableId, checkpoint: Checkpoint) -> str | None:
        state, so_far = self.state, self.state.so_far
        if table in so_far.failed:
            return so_far.stopped(table)
        if table in so_far.late.tables | so_far.resuming:
            return "it lacks segments that the journal removed, and is read again"
        if table in checkpoint.stopped:
            return BEGINS_AGAIN
        if table in state.background.rebuilding:
            return "its mirror is being filled"
        had, mirrored = so_far.of(table), self._has_mirror(table)
        if mirrored and had.generation is not None and had.mirror_since < had.since:
            return "its mirror doesn't have the new columns yet"
        begun = checkpoint.mirrors.get(table) if mirrored else None
        if begun is not None and (had.generation is None or had.generation < begun.since):
            return "its mirror hasn't begun yet"
        return None

    def _filling(self, table: TableId, checkpoint: Checkpoint) -> int | None:
        mirror = checkpoint.mirrors.get(table)
        if not isinstance(mirror, Filling) or self._has_mirror(table) or stays_incomplete(checkpoint, table):
            return None
        return mirror.since

    def _has_mirror(self, table: TableId) -> bool:
        return rule_of(self.state.rules, table).tiers is not Tiers.CHANGELOG

    def _read_at(self, table: TableId) -> ReadAt | None:
        at = self.state.so_far.of(table).at
        return None if at is None else {"mirror": at.mirror, "changelog": at.changelog}
