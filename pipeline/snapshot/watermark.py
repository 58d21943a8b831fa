"""Watermarks: bounds between the log at the order of a chunk, and what the chunk's SELECT can have seen.

Two orders meet here, and mixing them up is the classic mistake.

*GTID sets* are ordered by containment only, so none of them is "the latest". The low watermark is a GTID set: what is
visible before the SELECT. It's usable only if it contains the position of the stream at the order of the chunk. MySQL
can show a transaction to a log reader before a SELECT sees it. A commit group is flushed to the log first and committed
afterwards (WL#6355). Without that condition a chunk could lack a transaction that the stream had already passed.

The executed set by itself isn't what is visible. Since MySQL 5.7 a transaction is in it when it has committed. MySQL
5.6 adds it when it's flushed (Gtid_state::update_on_flush). So there the condition would hold for what no SELECT sees
yet. But in every version the thread of a transaction owns it (`gtid_owned`) from before it's flushed until it has
committed (MYSQL_BIN_LOG::finish_commit). Take a transaction that is in the executed set and, *read after it*, isn't
owned. It was owned before, its thread released it in between, and it is visible. In the opposite order of reads, one
that was flushed between the two would count as visible. MySQL 5.7 to 8.0.29 makes an exception, an XA COMMIT by another
session than the preparing one: InnoDB commits it after it is executed and released (docs/guarantees.md, "What isn't
promised").

*Coordinates* (file and offset in the log of one server) are ordered totally. The high watermark is a coordinate: the
end of the log, read after the SELECT. The executed set wouldn't do. A commit group's GTIDs are added to it after the
last commit of the group. So a SELECT can see a transaction that the set still lacks. The end of the log can't be before
what a SELECT saw, because a transaction is in the log before it commits.

*Another server's set.* If the chunk is read from another server of the same history, coordinates don't compare. The
high watermark is then what that server had executed after the SELECT, with everything that was in its own log by then.
So nothing that the SELECT saw is missing. The watermark has passed when the position contains it. A GTID in it that the
stream never brings would keep it from passing forever. A GTID that the stream's server has purged isn't such a case. A
server doesn't begin to send its log unless the position has all that it has purged (error 1236). A GTID that only the
other server has is such a case. So a server with such *errant* transactions has no common history with the stream.

*Prepared XA transactions.* An XA transaction that is prepared and has no second phase yet may be such a case too, for
years. The position leaves its GTID out (`pipeline.snapshot.prepared_xa`), and the other server has executed it. So here
the GTIDs of such first phases count as passed (`prepared`). That's right: no SELECT sees a row of an XA transaction
before its second phase, and that one has a GTID of its own. If the SELECT saw the rows, this second GTID is in the high
watermark, and the watermark passes with it.

*Marker rows* need no set and no coordinates. They are two rows inserted into a table of the source, one before the
SELECT and one after it. Each is in its own transaction. Let T be a transaction that had passed at the order of the
chunk. It was in the log before the low row was written. With binlog_order_commits = ON transactions commit in the log's
order. So T had committed when the low row's commit returned, and the SELECT, which came after that, saw it. So the
position at the order of the chunk is itself a low watermark. And what the SELECT saw was in the log before the high row
was written, so it has passed when that row has.
"""

from dataclasses import dataclass
from typing import Final, assert_never

from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.gtid_set import GtidSet
from pipeline.snapshot.prepared_xa import XaPrepared, left_out

# What a marker row is, by its type.
OPEN_MARKER: Final = "snapshot-window-open"
CLOSE_MARKER: Final = "snapshot-window-close"


@dataclass(frozen=True, slots=True)
class MarkerRow:
    """The row with this id in the signal table: it has passed once the transaction that inserted it has."""

    id: str


# Once the stream has passed this, all that the SELECT saw has passed. It is the end of the log of the server that also
# sends the stream. If the chunk was read from another server, it is all that this one had executed, as far as the
# stream will bring it. Coordinates of two servers don't compare. If the server has no GTIDs, it is a row that was
# written to it after the SELECT.
High = Coordinates | GtidSet | MarkerRow


@dataclass(frozen=True, slots=True)
class StreamPosition:
    """The stream's position between two transactions: what has passed.

    `end`: where the last one ended, None before the stream's first event. `position`: all that have completely passed.
    `markers`: the ids of marker rows in them, while a watermark may still be among them. `prepared`: the XA
    transactions whose second phase hasn't passed. `has` unites their GTIDs only for a set that needs them.
    """

    end: Coordinates | None
    position: GtidSet
    markers: frozenset[str] = frozenset()
    prepared: tuple[XaPrepared, ...] = ()

    def has(self, high: High) -> bool:
        """Whether the stream has passed this high watermark."""
        match high:
            case Coordinates():
                return self.end is not None and self.end.reaches(high)
            case GtidSet():
                return high <= self.position or (
                    bool(self.prepared) and high <= self.position | left_out(self.prepared)
                )
            case MarkerRow(id_):
                return id_ in self.markers
            case _:
                assert_never(high)


def is_usable_low(low: GtidSet, ordered_at: GtidSet) -> bool:
    """Returns whether `low` may open a window whose chunk was ordered at the stream's position `ordered_at`."""
    return ordered_at <= low
