"""Whether the journal has room: under its quota, and on its filesystem.

Where it has none, capture waits by the coordinator's order: the reader reads no further, and nothing is asked for.
Nothing is lost by that and no table stops, since the log and the tables wait at the source. It goes on by itself: when
consumers have got on, so that retention has removed segments, or when somebody has made room on the filesystem. A
server ends a connection for the log that isn't read for some time (`net_write_timeout`, a minute); then capture begins
anew from the last sealed segment, as after any loss of a connection.

The quota may be passed by what's on its way when it's reached: what the mailboxes hold, and the chunks that were asked
for. That's journalled still, so that whatever waits for it (an answer to a signal, a window) isn't held up. The end of
the filesystem can't be passed; the writer keeps what it has, and what's on its way waits where it is.

**What the quota is about** is a consumer that's behind. Retention keeps the journal below `keep_mib` by itself as far
as consumers allow; so it's reached, with nothing left to remove, when the oldest segment is kept for one of them. Where
it's kept for another reason (`pipeline.journal.retention`), capture has to go on for that reason to end, and does.
"""

from typing import Final

from pipeline.messages.journal import Full, Room

_MIB: Final = 1 << 20


def quota_reached(quota_mib: int, keep_mib: int, size: int, behind: str | None, room: Room) -> str | None:
    """Why capture has to wait with this many bytes, once retention has removed what it may; None if it hasn't.

    `behind`: the consumer that the oldest segment is kept for. When it had to wait before, it goes on at a quarter of
    the way from the quota down to what retention keeps, so that it doesn't stop again at once.
    """
    if not quota_mib or behind is None:
        return None
    least = quota_mib * _MIB
    if isinstance(room, Full):
        least -= (quota_mib - keep_mib) * _MIB // 4
    if size < least:
        return None
    return (
        f"its {size // _MIB} MiB reach journal.quota_mib ({quota_mib}), and the oldest of it is kept for "
        f"the consumer {behind!r}: see why it lags, or raise the quota"
    )
