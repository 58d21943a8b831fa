"""Whether the log that is being read is still the log of its server.

A connection that sends heartbeats needn't send what the server commits. Three histories make it so, and MySQL ends the
connection in none of them, or only when the server has written much more:

- `RESET BINARY LOGS AND GTIDS` removes the file that the server's thread still reads. If the new log has a file of the
  same name, the thread takes that one's end for the end of its own file. It waits until the new file is longer than the
  old one was, and before MySQL 8.0 even longer.
- A server without `log_replica_updates` becomes a replica. What it receives changes its tables, and isn't in its log.
- `SET GLOBAL gtid_purged` says that transactions are executed which came another way: a dump that was loaded with
  `sql_log_bin = 0`.

So Tidemark looks at the server now and then. It compares the answer with the position that the stream had *before* it,
and with the previous look. A contradiction ends this reading of the log. Then it's decided again at which server
capture continues (`pipeline.source.failover`), and that says by name what is wrong. A mistaken look costs a new
connection.

**The end of the log** is never before a position that was read from it. A server that was restarted with another name
for its log begins to count again, and keeps the old files. So the end comes after a position in one of these.

**Silence.** The previous look saw that the log goes on after the stream's position. Since then the stream has stayed at
that position, between two transactions, and heartbeats have come. The server sends these only if it has nothing else.

**Executed, and not in the log.** While the oldest file of the log stays, no transaction leaves the log. So if the
purged set grows meanwhile, its new transactions were never in the log. Without GTIDs the set is empty, and the server
says only that it's a replica and logs no updates.
"""

from dataclasses import dataclass

from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.gtid_set import GtidSet


@dataclass(frozen=True, slots=True)
class LogLook:
    """One look at a server's log.

    `position`: where the stream was before the server was queried, None before its first event. `resting`: whether it
    was there between two transactions, with nothing more to read. `heard`: whether any bytes have come since the
    previous look. `oldest`: the name of the log's oldest file. `purged`: what is executed and not in the log.
    `renamed`: whether the log still has the position's file, which is of a former name. `unlogged`: whether it's a
    replica that doesn't log what it receives; looked at without GTIDs alone.
    """

    position: Coordinates | None
    resting: bool
    heard: bool
    oldest: str
    end: Coordinates
    purged: GtidSet
    renamed: bool = False
    unlogged: bool = False


def contradicts_stream(before: LogLook | None, now: LogLook) -> str | None:
    """Returns why the stream can't be this server's log any more; None if nothing says so."""
    position = now.position
    if position is not None and not now.end.reaches(position) and not now.renamed:
        return f"the source's log ends at {now.end}, and it was read up to {position}: it was reset"
    if now.unlogged:
        return "the source has become a replica, and doesn't log what it receives"
    if before is None:
        return None
    stayed = before.resting and now.resting and before.position == position and now.heard
    if position is not None and stayed and not position.reaches(before.end):
        return f"the source's log goes on to {before.end}, and the source sends nothing that comes after {position}"
    if before.oldest == now.oldest and (unlogged := now.purged - before.purged):
        return f"the source has executed transactions that were never in its log: {unlogged}"
    return None
