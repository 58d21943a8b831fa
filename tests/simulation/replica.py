"""A model of a replica: it applies the server's log in its order, some way behind, and knows of it even later.

Commits are in the log's order (replica_preserve_commit_order), but GTIDs come into the executed set in any.
"""

from collections.abc import Mapping
from random import Random

from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.gtid_set import GtidSet
from pipeline.schema.table_schema import TableId, TableSchema
from tests.simulation.server import Rows, Server, Transaction, apply, gtid_set, place_on


class Replica:
    """What SELECTs see of it (`rows`, `schemas`) and what it says that it has executed."""

    def __init__(self, source: Server, random: Random) -> None:
        self._source, self._random = source, random
        self.rows: dict[TableId, Rows] = {table: dict(rows) for table, rows in source.initial.items()}
        self.schemas: Mapping[TableId, TableSchema] = dict(source.schemas)
        self._applied = 0
        self._unexecuted: list[Transaction] = []
        self._executed = GtidSet()

    @property
    def executed(self) -> GtidSet:
        """The executed set, with what never comes, since the history is the same."""
        return self._executed | gtid_set(self._source.strays)

    @property
    def end(self) -> Coordinates:
        """Where its own log ends, if it's the next one that takes over."""
        return place_on(self._source.number + 1, self._applied)

    @property
    def unexecuted(self) -> list[Transaction]:
        """Those that SELECTs see and the executed set lacks."""
        return self._unexecuted

    @property
    def whole(self) -> bool:
        """Whether the executed set has all that's in its log."""
        return not self._unexecuted

    def go_on(self) -> None:
        """Apply the next transaction, or let one that's applied be in the executed set."""
        if self._unexecuted and self._random.random() < 0.5:
            self._execute(self._random.choice(self._unexecuted))
        elif self._applied < len(self._source.log):
            self._apply(self._source.log[self._applied])

    def catch_up(self) -> None:
        """Apply everything that there is."""
        while self._applied < len(self._source.log):
            self._apply(self._source.log[self._applied])
        for transaction in list(self._unexecuted):
            self._execute(transaction)

    def _apply(self, transaction: Transaction) -> None:
        self._applied += 1
        apply(self.rows, transaction)
        self.schemas = transaction.schemas
        self._unexecuted.append(transaction)

    def _execute(self, transaction: Transaction) -> None:
        self._unexecuted.remove(transaction)
        self._executed = self._executed.with_gtid(transaction.gtid)
