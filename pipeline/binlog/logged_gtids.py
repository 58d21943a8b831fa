"""Finds the transactions that the log lacks between two of its files.

A file of the log begins with PREVIOUS_GTIDS: all transactions that the server had logged in the files before it. The
server continues with the file that its index names next. If somebody has removed a file from the disk and from the
index, it says nothing, and the transactions of that file never come. The next file still names them.

1. A server that is queried by GTIDs begins with a file whose PREVIOUS_GTIDS has nothing that the position lacks. It
   sends what the position lacks, and leaves out the rest.
2. A server logs each transaction before it names it: it moves to the next file with no commit under way.
3. So the next file names those of the file before, those of the position, those that came since, and no others.

Without GTIDs, PREVIOUS_GTIDS is empty.
"""

from pipeline.gtid.gtid_set import NO_GTIDS, GtidSet


class LoggedGtids:
    """The transactions that came, or that needn't, by the position or by an earlier PREVIOUS_GTIDS."""

    def __init__(self, position: GtidSet) -> None:
        self._gtids = position
        self._begun = False  # whether a file has said what came before it

    def add(self, gtids: GtidSet) -> None:
        """Adds transactions that have come."""
        self._gtids |= gtids

    def begin_file(self, previous: GtidSet, waiting: GtidSet) -> GtidSet:
        """Returns the transactions that a file names, and that should have come and didn't.

        `previous`: its PREVIOUS_GTIDS. `waiting`: those that came and haven't passed.
        """
        missing = previous - self._gtids - waiting if self._begun else NO_GTIDS
        self._gtids, self._begun = self._gtids | previous, True
        return missing
