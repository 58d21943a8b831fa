"""Finds a transaction without a GTID in the part of the log that a request by GTIDs skips.

A server has such transactions if its gtid_mode was OFF_PERMISSIVE or OFF for a while. While capture reads, the server
refuses to send the first of them. Each change of the mode begins a new file of the log. Once the mode is ON again, a
request by GTIDs begins with the last file before which the position has everything. So the server leaves out the files
with these transactions, and says nothing.

1. Everything up to the place that the checkpoint names has passed, or was read with the tables
   (`Checkpoint.log_end`).
2. What the request brings begins at the beginning of that file.
3. So this reads what lies between the two, by its place. While gtid_mode is ON, the server refuses to send such a
   transaction here too, and names its place.

Usually nothing lies between them, and nothing is read. Another server's log has other places, so nothing is known of
it. Nor is anything known of a file that the server has purged. A log that began again since (`RESET BINARY LOGS AND
GTIDS`, and then the same `gtid_purged`) has other places too. If it has a file of that name, the server may find no
event there. It refuses that, or sends bytes that are none.

Source: MySQL 9.7 Reference Manual, "Changing GTID Mode Online"; sql/rpl_binlog_sender.cc,
Binlog_sender::check_event_type.
"""

import asyncio

import structlog

from actors.source import gtid_history
from actors.source.binlog_dump import BinlogDump
from actors.source.connection import Source
from pipeline.binlog.commit_times import CommitTimeParser
from pipeline.binlog.packets import LogRefused
from pipeline.binlog.transaction_ids import UnnamedTransaction
from pipeline.config.settings import SourceSettings
from pipeline.errors import UndecodableError
from pipeline.gtid import file_positions
from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.gtid_set import GtidSet
from pipeline.snapshot.checkpoint import Checkpoint

log = structlog.get_logger()


async def find_unnamed(
    source: Source, settings: SourceSettings, last: Checkpoint, journal: str
) -> str | None:
    """Returns what the server says of such a transaction after this checkpoint; None if none is known.

    Raises Transient if the log doesn't come, Definite if the server refuses us, or sends what can't be decoded after
    that place.
    """
    end, by_coordinates = last.log_end, file_positions.server_of(last.position) is not None
    if end is None or last.server != source.server or by_coordinates:
        return None
    if not await _skips(source, last.position, end.file):
        return None
    file, _ = await gtid_history.first_file(source, last.position)
    begins, passed = Coordinates(file, file_positions.FIRST_OFFSET), Coordinates(end.file, end.offset + 1)
    dump = await BinlogDump.from_file(settings, end.file, source.server, journal, end.offset)
    parser = CommitTimeParser(last.position)
    try:
        while not parser.reached(begins):
            await dump.receive()
            await asyncio.to_thread(_follow, dump, parser)
    except UnnamedTransaction as found:
        return str(found)
    except (LogRefused, UndecodableError) as refusal:
        if isinstance(refusal, UndecodableError) and parser.reached(passed):
            raise
        log.warning("the log can't be searched for changes without a GTID", file=end.file, error=str(refusal))
    finally:
        dump.close()
    return None


async def _skips(source: Source, position: GtidSet, file: str) -> bool:
    """Returns whether a request of what this position lacks begins after this file."""
    files = [*await source.logs()]
    later = files[files.index(file) + 1 :] if file in files else []
    return bool(later) and await source.logged_before(later[0]) <= position


def _follow(dump: BinlogDump, parser: CommitTimeParser) -> None:
    while (frames := dump.frames()) is not None:
        for _ in parser.parse(frames):
            pass
