"""Watermarks: between what the log was when a chunk was asked for, and what the chunk's SELECT can have seen.

Two orders meet here, and mixing them up is the classic mistake.

*GTID sets* are ordered by containment only, so there's no "latest" among them. The low watermark is one: what is
visible before the SELECT. It's usable only if the position of the stream, as it was when the chunk was asked for, is
contained in it. MySQL can show a transaction to a log reader before a SELECT sees it (a commit group is flushed to the
log first and committed afterwards, WL#6355); without that condition a chunk could lack a transaction that the stream
had already passed.

The executed set by itself isn't what is visible. Since MySQL 5.7 a transaction is in it when it has committed; 5.6 adds
it when it's flushed (Gtid_state::update_on_flush), so that there the condition would hold for what no SELECT sees yet.
But in every version a transaction on its way is owned by its thread (`gtid_owned`) from before it's flushed until it
has committed (MYSQL_BIN_LOG::finish_commit). So what's in the executed set and, *read behind it*, isn't owned was owned
before, was given up in between, and is visible. Read the other way round, one that was flushed between the two would
be taken for visible.

*Coordinates* (file and offset in the log of one server) are ordered totally. The high watermark is one: the end of
the log, read after the SELECT. The executed set wouldn't do: a commit group's GTIDs are added to it after the last
commit of the group, so a SELECT can see a transaction that the set still lacks. The end of the log can't be behind
what a SELECT saw, since a transaction is in the log before it commits.

*Another server's set.* Where the chunk is read from another server of the same history, coordinates don't compare, and
the high watermark is what that server had executed after the SELECT: with everything that was in its own log by then,
so that nothing the SELECT saw is missing. It has passed when the position contains it. A GTID in it that the stream
never brings would keep it from passing for ever. One that the stream's server has purged is none of these: a server
doesn't begin to give its log unless all that it has purged is in the position (error 1236). One that only the other
server has is, and so a server with such *errant* transactions has no history in common with the stream to read from.

*Marker rows* need no set and no coordinates: two rows that are inserted into a table of the source, one before the
SELECT and one behind it, each in a transaction of its own. Let T be a transaction that had passed when the chunk was
asked for. It was in the log before the low row was written; with binlog_order_commits = ON transactions commit in the
log's order, so that T had committed when the low row's commit returned, and the SELECT, which came after that, saw it.
So the position at which the chunk was asked for is a low watermark itself. And what the SELECT saw was in the log
before the high row was written, so that it has passed when that row has.
"""

from dataclasses import dataclass
from typing import Final, assert_never

from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.gtid_set import GtidSet

# What a marker row is, by its type.
OPEN_MARKER: Final = "snapshot-window-open"
CLOSE_MARKER: Final = "snapshot-window-close"


@dataclass(frozen=True, slots=True)
class MarkerRow:
    """The row with this id in the signal table: it has passed once the transaction that inserted it has."""

    id: str


# Once the stream has passed this, all that the SELECT saw has passed: the end of the log of the server that also
# gives the stream; where the chunk was read from another server, all that this one had executed (coordinates of two
# servers don't compare), as far as the stream will bring it; where the server has no GTIDs, a row that was written to
# it behind the SELECT.
High = Coordinates | GtidSet | MarkerRow


@dataclass(frozen=True, slots=True)
class StreamPosition:
    """What has passed of the stream, which is between two transactions.

    `end`: where the last one ended, None before the stream's first event. `position`: all that have passed wholly.
    `markers`: the ids of marker rows in them, as far as a watermark may still be among them.
    """

    end: Coordinates | None
    position: GtidSet
    markers: frozenset[str] = frozenset()

    def has(self, high: High) -> bool:
        """Whether the stream has passed this high watermark."""
        match high:
            case Coordinates():
                return self.end is not None and self.end.reaches(high)
            case GtidSet():
                return high <= self.position
            case MarkerRow(id_):
                return id_ in self.markers
            case _:
                assert_never(high)


def usable(low: GtidSet, asked_at: GtidSet) -> bool:
    """Whether `low` may open a window whose chunk was asked for when the stream's position was `asked_at`."""
    return asked_at <= low
