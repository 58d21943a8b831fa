"""How far a server that is a replica lags its own source, by its answer to SHOW REPLICA STATUS.

Capture reads the log of a replica too: of one that the configuration names, or that it has failed over to. If such a
server stops to receive or to apply, its log gets nothing more, and the connection sends heartbeats as before. Nothing
in the log shows it.

A channel whose two threads don't run says nothing of a server that takes writes: somebody has stopped it, so that the
server could take over. Group replication keeps a channel of its own with which a member has joined, and which rests
from then on.

Source: MySQL 9.7 Reference Manual, "SHOW REPLICA STATUS Statement".
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any, Final

# The place of Seconds_Behind_Source, or …_Master, among the columns; the same in each version since MySQL 5.6.
SECONDS_BEHIND: Final = 32

# As are those of others; the last one is there since MySQL 5.7.
_RECEIVER: Final = 10
_APPLIER: Final = 11
_CHANNEL: Final = 55

_RUNS: Final = "Yes"
_STOPPED: Final = "No"
_OF_JOINING: Final = "group_replication_recovery"


def replication_lag_s(channels: Iterable[Sequence[Any]], read_only: bool) -> float:
    """Returns the largest lag of these channels (s), infinity if one doesn't receive or doesn't apply, 0 without any.

    `channels`: the rows of SHOW REPLICA STATUS. `read_only`: whether the server takes no other writes.
    """
    return max((_lag_s(each, read_only) for each in channels), default=0.0)


def _lag_s(channel: Sequence[Any], read_only: bool) -> float:
    receives, applies, behind = (channel[place] for place in (_RECEIVER, _APPLIER, SECONDS_BEHIND))
    # A channel that receives nothing and has applied the rest may be 0 s behind, by the server.
    if behind is not None and (behind or receives == _RUNS):
        return float(behind)
    joined = channel[_CHANNEL : _CHANNEL + 1] == (_OF_JOINING,)
    stopped = receives == applies == _STOPPED
    return 0.0 if stopped and (joined or not read_only) else math.inf
