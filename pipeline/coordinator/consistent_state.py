"""A consistent snapshot: all its tables as they were at one position P of the log, without a lock.

Transactions are opened on several connections, each with its own consistent view. These steps follow each other: read
what is `visible` (pipeline/snapshot/watermark.py), read the log's end, open the transactions, read the log's end again.
The claim: all these views are the state at P, if

1. the end of the log was P both times, and
2. every transaction in the log up to P is in `visible`.

**Proof.** By 2 each of them had committed before the first view was made, so every view has it. By 1 none was added to
the log before the last view was made. A transaction is in the log before it commits, so no view has any other. Equal
executed sets wouldn't prove it: the log and one view can have a transaction that no set has yet.

Only the stream knows what is in the log up to P. So it advances to P and stops there. If its position is in `visible`,
2 holds. Then the chunks that are read in these transactions are emitted there, because each equals the rows at P. If it
isn't, or a transaction comes between, the coordinator tries again. A server may never be quiet for as long as it takes
to open the transactions. Then the only way is to lock it for that time.

Nothing of a consistent snapshot outlives the connections. If one of them or the process is lost, the emitted rows don't
make a state at one position. Then all of its tables begin again at another one.

Source: MySQL 9.7 Reference Manual, "START TRANSACTION, COMMIT, and ROLLBACK Statements"; WL#6355 for why a commit shows
in the log before it shows in a table.
"""

from dataclasses import dataclass
from typing import ClassVar

from pipeline.gtid.coordinates import Coordinates
from pipeline.messages.chunks import OpenTransactions, TransactionsOpened
from pipeline.snapshot.watermark import StreamPosition


@dataclass(frozen=True, slots=True)
class NoPosition:
    """The stream isn't stopped for a consistent snapshot. `number` is the last one that was used."""

    wire: ClassVar[str] = "nowhere"

    number: int = 0


@dataclass(frozen=True, slots=True)
class OpeningTransactions:
    """The transactions are ordered."""

    wire: ClassVar[str] = "opening"

    order: OpenTransactions


@dataclass(frozen=True, slots=True)
class ApproachingPosition:
    """They are open, and the reader pauses where they were opened, or after that."""

    wire: ClassVar[str] = "approaching"

    order: OpenTransactions
    opened: TransactionsOpened

    def holds(self, passed: StreamPosition) -> bool:
        """Returns whether the stream, which has paused, is where they were opened, and they see everything that has
        passed."""
        return passed.end == self.opened.at and passed.position <= self.opened.visible


@dataclass(frozen=True, slots=True)
class AtPosition:
    """The stream is stopped `at` the position where they were opened, and chunks are read in them."""

    wire: ClassVar[str] = "standing"

    order: OpenTransactions
    at: Coordinates

    def holds(self, passed: StreamPosition) -> bool:
        """Returns whether it is still stopped there. Images that waited for the proof of a schema may come after the
        pause."""
        return passed.end == self.at


ConsistentPhase = NoPosition | OpeningTransactions | ApproachingPosition | AtPosition
