"""What a server's log has had so far, and what of it is gone: as sets of GTIDs, or, without these, of places.

A set of GTIDs can tell what has committed, and so is seen. Capture may begin at it, so that it has to have, with each
transaction, all those before it in the log: an older one that came behind the beginning would be taken for the newest
state of its rows. The executed set is such a set, since binlog_order_commits = ON is asked for. What's visible of it
needn't be one before MySQL 5.7, where each session gives up its own transaction (pipeline/watermark.py). So the
executed set is taken, and all of it waited for.

What's before the end of the log needn't have committed either. So a row is written into the signal table behind the
look at that end: with binlog_order_commits = ON its commit returns when all that's before it in the log has committed,
and whatever is asked next sees that.
"""

import asyncio
from time import monotonic
from typing import Final

from actors.signal_table import SignalTable
from actors.source import Source
from pipeline import log_places
from pipeline.errors import Transient
from pipeline.gtid import GtidSet
from pipeline.watermark import Coordinates

# How long a transaction may take from the log to being visible, and the pause between looks, in seconds.
VISIBLE_WITHIN_S: Final = 30.0
_LOOK_S: Final = 0.001


async def visible(source: Source, markers: SignalTable | None) -> GtidSet:
    """What is seen by whatever is asked next; by places where there are `markers`."""
    if markers is None:
        return await _in_order(source)
    end, _ = await source.end_of_log()
    await markers.open(source, "schemas")
    return log_places.before(source.server, end)


async def purged(source: Source, by_places: bool) -> GtidSet:
    """What the server has executed and its log doesn't have any more."""
    if not by_places:
        return await source.purged()
    first, *_ = await source.logs()
    return log_places.before(source.server, Coordinates(first, log_places.FIRST_OFFSET))


async def _in_order(source: Source) -> GtidSet:
    executed, deadline = await source.executed(), monotonic() + VISIBLE_WITHIN_S
    while hidden := executed - await source.visible():
        if monotonic() > deadline:
            raise Transient(f"transactions of the log aren't visible in the source: {hidden}")
        await asyncio.sleep(_LOOK_S)
    return executed
