"""Whether a server has the same transactions that have passed here, and not others by the same names.

Each witness (`pipeline.gtid.witness`) is requested by itself. The request says that everything the server has executed
has passed except this one, so the server sends this one, and what's committed meanwhile. It searches for it as for any
position, so that takes no longer than the begin of capture itself. What it has purged can't be requested any more.
"""

from actors.source import gtid_history
from actors.source.binlog_dump import BinlogDump
from actors.source.connection import Source
from pipeline.binlog.commit_times import CommitTimeParser
from pipeline.config.settings import SourceSettings
from pipeline.gtid import file_positions
from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.gtid_set import Gtid, GtidSet
from pipeline.gtid.witness import MOST_SOURCES, Witness, Witnesses
from pipeline.snapshot.checkpoint import Checkpoint


async def contradiction(
    source: Source, settings: SourceSettings, last: Checkpoint, journal: str
) -> str | None:
    """Returns why this server can't have the checkpoint's history; None if nothing contradicts that.

    Raises Transient if the query fails.
    """
    log_server = file_positions.server_of(last.position)
    if log_server not in (None, source.server):
        return None  # coordinates in another server's log, which is refused for that
    by_coordinates = log_server is not None
    gone = await gtid_history.purged_transactions(source, by_coordinates)
    for witness in reversed(last.witnesses):
        if witness.gtid in gone:
            continue
        found = await _find(source, settings, witness.gtid, by_coordinates, journal)
        if found is None:  # a set of GTIDs names some whose file somebody has removed
            if by_coordinates:
                return witness.unmatched()
        elif witness.differs(found, last.server == source.server):
            return witness.contradicted(found)
    return None


async def initial_witnesses(
    settings: SourceSettings, server: str, position: GtidSet, journal: str
) -> Witnesses:
    """The witnesses of a position that capture begins at, so that nothing of it has passed here.

    That's the last transaction of each source, as far as it's in the log; that of the server's own comes last.
    """
    if file_positions.server_of(position) is not None:
        return ()
    ends = {source: int(numbers.edges[-1]) - 1 for source, numbers in position.intervals.items()}
    last = [Gtid(each, ends[each]) for each in sorted(ends, key=lambda each: each.uuid == server)]
    source = await Source.connect(settings, server)
    try:
        gone = await gtid_history.purged_transactions(source, by_coordinates=False)
        there = [gtid for gtid in last[-MOST_SOURCES:] if gtid not in gone]
        found = [await _find(source, settings, gtid, by_coordinates=False, journal=journal) for gtid in there]
    finally:
        source.close()
    return tuple(each for each in found if each is not None)


async def _find(
    source: Source, settings: SourceSettings, wanted: Gtid, by_coordinates: bool, journal: str
) -> Witness | None:
    """The transaction of that name in the server's log."""
    if by_coordinates:
        asked = GtidSet.of_range(wanted.source, 1, wanted.number)
    else:
        asked = await source.executed() - GtidSet().with_gtid(wanted)
    end, _ = await source.end_of_log()
    dump = await BinlogDump.open(settings, asked, source.server, journal)
    try:
        return await _looked_for(dump, CommitTimeParser(asked), wanted, end)
    finally:
        dump.close()


async def _looked_for(
    dump: BinlogDump, beginnings: CommitTimeParser, wanted: Gtid, end: Coordinates
) -> Witness | None:
    while not beginnings.reached(end):
        await dump.receive()
        while (frames := dump.frames()) is not None:
            for begun in beginnings.parse(frames):
                if begun.gtid == wanted:
                    return begun
    return None
