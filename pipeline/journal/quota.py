"""Whether the journal has room: under its quota, and on its filesystem.

Without room, the coordinator makes capture wait: the reader stops reading, and no chunk is ordered. Nothing is lost by
that and no table stops, because the log and the tables wait at the source. Capture continues by itself when consumers
have caught up, so that retention has removed segments, or when the filesystem has room again. A server closes a log
connection that isn't read for some time (`net_write_timeout`, a minute). Then capture restarts from the last sealed
segment, as after any lost connection.

Data that is under way when the quota is reached may exceed it: the contents of mailboxes, and ordered chunks. The
journal still stores it, so that nothing that waits for it (an answer to a signal, a window) is delayed. The end of the
filesystem can't be exceeded. Then the writer keeps what it has, and data under way waits where it is.

**The quota is about** a consumer that lags. Retention itself keeps the journal below `keep_mib` as far as consumers
allow. So the quota is reached, with nothing left to remove, when the oldest segment is kept for a consumer. If it is
kept for another reason (`pipeline.journal.retention`), that reason ends only if capture continues, so capture
continues.
"""

from typing import Final

from pipeline.messages.journal import Full, Room

_MIB: Final = 1 << 20


def quota_reached(quota_mib: int, keep_mib: int, size: int, kept_for: str | None, room: Room) -> str | None:
    """Returns why capture has to wait with this many bytes, after retention has removed what it may; None if it
    needn't.

    `kept_for`: the consumer for which the oldest segment is kept. If capture had to wait before, it continues a quarter
    of the way from the quota down to what retention keeps. So it doesn't stop again at once.
    """
    if not quota_mib or kept_for is None:
        return None
    least = quota_mib * _MIB
    if isinstance(room, Full):
        least -= (quota_mib - keep_mib) * _MIB // 4
    if size < least:
        return None
    return (
        f"its {size // _MIB} MiB reach journal.quota_mib ({quota_mib}), and the oldest of it is kept for "
        f"the consumer {kept_for!r}: see why it lags, or raise the quota"
    )
