"""How far the journal and its consumers are, as those who wait for transactions have to know it.

A progress is a value of one moment. The next moment has another one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol

from pipeline.gtid.gtid_set import GtidSet
from pipeline.schema.table_schema import TableId
from pipeline.snapshot.checkpoint import Checkpoint

# What a table lacks where a consumer is at a segment at which capture had stopped the table. Capture has begun it again
# by now, or it would be refused: what was committed meanwhile comes with its next snapshot.
BEGINS_AGAIN: Final = "capture had stopped it there, and reads it again"


class Through(StrEnum):
    """How far a transaction has to come."""

    JOURNAL = "journal"
    LAKE = "lake"
    KAFKA = "kafka"


# What a reader of a table names in order to read what has come: of the lake, the versions of its Delta tables.
ReadAt = Mapping[str, int | None]


@dataclass(frozen=True, slots=True)
class SegmentEnd:
    """The end of a segment, and the position and the SCN there."""

    segment: int = 0
    position: GtidSet = field(default_factory=GtidSet)
    scn: int = 0

    @staticmethod
    def at(segment: int, checkpoint: Checkpoint) -> "SegmentEnd":
        """The end of the segment that has this checkpoint."""
        return SegmentEnd(segment, checkpoint.position, checkpoint.scn)


@dataclass(frozen=True, slots=True)
class TableProgress:
    """The place through which a table has everything.

    `stopped`: why it gets nothing more. `lacks`: why its readers don't see all of that yet. `unread`: the SCN through
    which they see all; None if that is no less than `reached`. `filling`: the SCN after which they see all; what came
    before it comes with a snapshot. None if they have that. `read_at`: what a reader names, None for nothing.
    """

    reached: SegmentEnd
    stopped: str | None = None
    lacks: str | None = None
    unread: int | None = None
    filling: int | None = None
    read_at: ReadAt | None = field(default=None, compare=False)


class ConsumerProgress(Protocol):
    """How far a consumer is."""

    @property
    def whole(self) -> SegmentEnd:
        """Every table that it delivers to has everything through here."""

    @property
    def furthest(self) -> SegmentEnd:
        """Some tables have everything through here, and none has more."""

    def takes(self, table: TableId) -> bool:
        """Whether it delivers to this table, which is captured."""

    def of(self, table: TableId) -> TableProgress:
        """How far it is with a table that it delivers to."""


@dataclass(frozen=True, slots=True)
class JournalProgress:
    """The journal is sealed through a segment, which has this checkpoint."""

    segment: int
    checkpoint: Checkpoint

    @property
    def whole(self) -> SegmentEnd:
        """The end of the last sealed segment."""
        return SegmentEnd.at(self.segment, self.checkpoint)

    @property
    def furthest(self) -> SegmentEnd:
        """The same: a segment has all tables."""
        return self.whole

    def takes(self, _: TableId) -> bool:
        """The journal has all that is captured."""
        return True

    def of(self, table: TableId) -> TableProgress:
        """How far the journal is with a table."""
        return TableProgress(self.whole, self.checkpoint.stopped.get(table))
