"""How far capture lags after the source, and until when the source keeps the next part of its log.

**Until when.** A server removes a file of its log `binlog_expire_logs_seconds` after the last write to it, when it next
begins a new file. No statement says when a file was last written. But let T be the commit time of the newest
transaction that has been read. Whatever comes next was written at T or later, by the same server's clock. So the last
write to its file was at T or later. So the server keeps it at least until T + binlog_expire_logs_seconds. If nothing is
left to read, it keeps it that long from now. The true moment is later than this estimate. It's later by up to the time
that one file spans and the time until the server begins its next one. The estimate can't foresee a PURGE BINARY LOGS by
hand, nor a managed service's own rules.

What has been read is sealed a moment later. While the journal has no room that moment is long, but the reader waits
then too, and the difference is what it read within seconds.

Sources: MySQL 9.7 Reference Manual, "Binary Logging Options and Variables" (binlog_expire_logs_seconds,
binlog_expire_logs_auto_purge), "PURGE BINARY LOGS Statement"; MySQL 5.7, expire_logs_days.
"""

import math
from collections.abc import Mapping

from pipeline.gtid.coordinates import Coordinates

# What a server's variables say of how long it keeps its log, by all the names that they have had.
RETENTION = ("binlog_expire_logs_auto_purge", "binlog_expire_logs_seconds", "expire_logs_days")

_DAY_S = 86_400


def bytes_behind(logs: Mapping[str, int], end: Coordinates, ours: Coordinates) -> int:
    """The bytes of the log from our place to its end, at which 0 is left.

    `logs`: the bytes of each of the server's files, oldest first. Of a file that has gone nothing is counted. Those
    before a restart with another name for the log have numbers of their own.
    """
    if ours.file == end.file:
        return max(0, end.offset - ours.offset)
    files = [*logs]
    first = files.index(ours.file) if ours.file in logs else -1
    last = files.index(end.file) if end.file in logs else len(files)
    # The server was queried before the last was read.
    if first > last or (ours.counts_with(end) and ours.number > end.number):
        return 0
    between = sum(logs[name] for name in files[first + 1 : last])
    return max(0, logs.get(ours.file, 0) - ours.offset) + between + end.offset


def retention_s(variables: Mapping[str, str]) -> float:
    """Returns how long a file of the log is kept, in seconds; infinite if the server removes none by itself.

    `variables`: those of RETENTION that the server has, in its own form.
    """
    if variables.get("binlog_expire_logs_auto_purge") == "OFF":
        return math.inf
    seconds = int(variables.get("binlog_expire_logs_seconds", "0"))
    days = float(variables.get("expire_logs_days", "0"))
    return seconds or days * _DAY_S or math.inf


def purged_at(now: float, kept: float, newest: float, *, behind: bool) -> float:
    """The earliest moment at which what comes next may be removed, infinite for never.

    `newest`: the commit time of the newest transaction that has been read, NaN where none has been. Moments in seconds
    since the epoch; `kept`, for how long a file is kept, in seconds.
    """
    return (newest if behind else now) + kept
