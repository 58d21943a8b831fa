"""What a server's log has had so far, and what of it is gone: as sets of GTIDs, or, without these, of places.

A set of GTIDs can tell what has committed, and so is seen. What's before the end of the log needn't have. So a row
is written into the signal table behind the look at that end: with binlog_order_commits = ON its commit returns when all
that's before it in the log has committed, and whatever is asked next sees that.
"""

from actors.signal_table import SignalTable
from actors.source import Source
from pipeline import log_places
from pipeline.gtid import GtidSet
from pipeline.watermark import Coordinates


async def visible(source: Source, markers: SignalTable | None) -> GtidSet:
    """What is seen by whatever is asked next; by places where there are `markers`."""
    if markers is None:
        return await source.visible()
    end, _ = await source.end_of_log()
    await markers.open(source, "schemas")
    return log_places.before(source.server, end)


async def purged(source: Source, by_places: bool) -> GtidSet:
    """What the server has executed and its log doesn't have any more."""
    if not by_places:
        return await source.purged()
    first, *_ = await source.logs()
    return log_places.before(source.server, Coordinates(first, log_places.FIRST_OFFSET))
