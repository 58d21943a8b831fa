"""The names of the log's transactions: their GTIDs, or, without these, the positions at which they begin.

A server that is queried by GTIDs doesn't send what has passed. A server that is queried by file and offset sends
everything after the first position that the set lacks. So this module leaves out what the position has. That's little,
because a position is one interval except for XA transactions that wait for their second phase.
"""

from collections.abc import Iterable

from pipeline.binlog.xa_transactions import Prepared
from pipeline.errors import UndecodableError
from pipeline.gtid import file_positions
from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.gtid_set import NO_GTIDS, Gtid, GtidSet


class UnnamedTransaction(UndecodableError):
    """A transaction of a log that is read by GTIDs has none."""


class TransactionNames:
    """Names the transactions of a log that is read from this position on.

    Without GTIDs the position has coordinates of one server's log (`pipeline.gtid.file_positions`).
    """

    def __init__(self, position: GtidSet) -> None:
        self.position = position
        self._server = file_positions.server_of(position)

    @property
    def by_coordinates(self) -> bool:
        """Whether there are no GTIDs."""
        return self._server is not None

    def name(self, gtid: Gtid | None, begins: Coordinates) -> Gtid:
        """What a transaction is called that begins here. Raises UnnamedTransaction if it needs a GTID and has none."""
        if self._server is not None:
            return file_positions.transaction_at(self._server, begins)
        if gtid is None:
            raise UnnamedTransaction("a transaction has no GTID; set gtid_mode=ON on the source")
        return gtid

    def has_passed(self, name: Gtid) -> bool:
        """Returns whether the transaction is left out, because it had passed before."""
        return self._server is not None and name in self.position

    def left_out(self, name: Gtid, end: Coordinates) -> GtidSet:
        """What a position lacks without the transaction of that name, which ends here."""
        return GtidSet().with_gtid(name) if self._server is None else file_positions.all_between(name, end)

    def covered(self, end: Coordinates, prepared: Iterable[Prepared]) -> GtidSet:
        """The coordinates up to `end` at which no transaction to come begins but these; none for a log with GTIDs."""
        if self._server is None:
            return NO_GTIDS
        first = file_positions.first_missing(self.position)
        covered = file_positions.all_between(first, end)
        for each in prepared:
            covered -= file_positions.all_between(Gtid(first.source, each.transaction.number), each.end)
        return covered
