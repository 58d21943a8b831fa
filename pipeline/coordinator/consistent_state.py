"""A consistent snapshot: all its tables as they were at one place P of the log, without a lock.

Transactions are opened on several connections, each with a consistent view of its own, and it's to be proven that all
these views are the state at P and nothing else. The end of the log is read, then they're opened, then the end of the
log is read again; before the first is opened, what is `visible` is read as well (pipeline/snapshot/watermark.py). They
see the state at P if

1. the end of the log was P both times, and
2. every transaction in the log up to P is in `visible`.

By 2. each of them had committed before the first view was made, so that every view has it. By 1. none was added to the
log before the last view was made, and a transaction is in the log before it commits, so that no view has any other.
Equal executed sets wouldn't prove it: a transaction can be in the log, and visible in one view, that no set has yet.

What's in the log up to P only the stream can tell. So it goes on to P and stands there: if its position is in
`visible`, 2. holds, and the chunks that are read in these transactions are emitted there, one like the other being
the row at P. If it isn't, or a transaction comes between, it's tried again. A server that's never quiet for as long as
it takes to open the transactions can only be locked for that time.

Nothing of it outlives the connections. Where one of them is lost, or the process is, what has been emitted isn't enough
for a state at one place, and all of its tables begin anew at another one.

Source: MySQL 9.7 Reference Manual, "START TRANSACTION, COMMIT, and ROLLBACK Statements"; WL#6355 for why a commit is
seen in the log before it's seen in a table.
"""

from dataclasses import dataclass
from typing import ClassVar

from pipeline.gtid.coordinates import Coordinates
from pipeline.messages.chunks import OpenTransactions, TransactionsOpened
from pipeline.snapshot.watermark import StreamPosition


@dataclass(frozen=True, slots=True)
class Nowhere:
    """The stream stands for no consistent snapshot. `number` is the last one that was used."""

    wire: ClassVar[str] = "nowhere"

    number: int = 0


@dataclass(frozen=True, slots=True)
class Opening:
    """Transactions are asked for."""

    wire: ClassVar[str] = "opening"

    order: OpenTransactions


@dataclass(frozen=True, slots=True)
class Approaching:
    """They are open, and the reader pauses where they were opened, or behind it."""

    wire: ClassVar[str] = "approaching"

    order: OpenTransactions
    opened: TransactionsOpened

    def holds(self, passed: StreamPosition) -> bool:
        """Whether the stream, which has paused, is where they were opened, and they see all that has passed."""
        return passed.end == self.opened.at and passed.position <= self.opened.visible


@dataclass(frozen=True, slots=True)
class Standing:
    """The stream stands `at` the place where they were opened, and chunks are read in them."""

    wire: ClassVar[str] = "standing"

    order: OpenTransactions
    at: Coordinates

    def holds(self, passed: StreamPosition) -> bool:
        """Whether it still stands there: images that waited for the proof of a schema may come behind the pause."""
        return passed.end == self.at


ConsistentPhase = Nowhere | Opening | Approaching | Standing
