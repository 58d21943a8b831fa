"""The past of a server's log, and which part is gone: as sets of GTIDs, or, without these, of files and offsets.

A set of GTIDs can say what has committed, and so is visible. Capture may begin at such a set. So for each transaction
it needs all those before it in the log. An older one that came after the beginning would count as the newest state of
its rows. The executed set has this property, because binlog_order_commits = ON is required. Its visible part needn't
have it before MySQL 5.7, where each session releases its own transaction (pipeline/snapshot/watermark.py). So capture
takes the executed set, and waits for all of it.

What precedes the end of the log needn't have committed either. So a row is written into the signal table after that end
is read. With binlog_order_commits = ON its commit returns when everything before it in the log has committed, and the
next query sees that.
"""

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Final

from actors.source.connection import Source
from actors.source.errors import SourceUnready
from actors.source.watermark_table import SignalTable
from pipeline.errors import Backoff, Transient
from pipeline.gtid import file_positions
from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.gtid_set import GtidSet
from pipeline.snapshot.watermark import is_usable_low

# A transaction that's in the log becomes visible within a commit, unless it waits for a replica's acknowledgement. So
# long it may take (s), and so are the pauses between looks, each twice the one before.
VISIBLE_WITHIN_S: Final = 15.0
_LOOKS: Final = Backoff(0.001, 0.1)

_COMMITTING: Final = (
    "its sessions are still committing {lacking}, perhaps until a replica acknowledges it "
    "(semi-synchronous replication)"
)


async def visible_transactions(source: Source, markers: SignalTable | None) -> GtidSet:
    """Returns what the next query sees; as files and offsets if there are `markers`."""
    if markers is None:
        executed = await source.executed()
        await wait_until_visible(source, executed, VISIBLE_WITHIN_S)
        return executed
    end, _ = await source.end_of_log()
    await markers.open(source, "schemas")
    return file_positions.all_before(source.server, end)


async def purged_transactions(source: Source, by_coordinates: bool) -> GtidSet:
    """What the server has executed and its log doesn't have any more."""
    if not by_coordinates:
        return await source.purged()
    first, *_ = await source.logs()
    return file_positions.all_before(source.server, Coordinates(first, file_positions.FIRST_OFFSET))


async def wait_until_visible(
    source: Source,
    wanted: GtidSet,
    within_s: float,
    visible: Callable[[Source], Awaitable[GtidSet]] = Source.visible,
) -> GtidSet:
    """What is visible, as soon as it has these as well; it's looked at again and again.

    Raises SourceUnready if sessions of the source are still committing what lacks then, and Transient otherwise.
    """
    deadline, looks = monotonic() + within_s, 1
    while not is_usable_low(seen := await visible(source), wanted):
        if monotonic() > deadline:
            lacking = wanted - seen
            if lacking <= await source.owned():
                raise SourceUnready(_COMMITTING.format(lacking=lacking))
            raise Transient(f"transactions of the log aren't visible in the source: {lacking}")
        await asyncio.sleep(_LOOKS.pause_s(looks))
        looks += 1
    return seen


async def first_file(source: Source, position: GtidSet) -> tuple[str, GtidSet]:
    """Returns the file with which a request by GTIDs begins, and what was in the log before it.

    That's the last file of the server's log before which the position has everything; the oldest, if there's none.
    """
    files = tuple(await source.logs())
    for file in reversed(files):
        before = await source.logged_before(file)
        if before <= position or file == files[0]:
            return file, before
    raise AssertionError("a server has one file of its log at the least")
