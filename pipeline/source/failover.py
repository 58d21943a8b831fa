"""Failover: which of several servers capture may continue with.

Tidemark requests the log by GTIDs, so it may use any server whose log brings exactly what the position lacks. Six
conditions must hold:

1. The server has executed all that has passed here: position ⊆ executed. A server that lacks some of it is *behind*, or
   has another server's history. A replica may catch up, so Tidemark waits while it makes progress. A server that
   replicates from none never will: it lost the rest when it took over, and the lake has it already. But a transaction
   is in the log, and is sent, before it's executed. In between the server has it as *owned*. That takes as long as
   semi-synchronous replication waits for a replica's acknowledgement. So Tidemark waits for that without an end.
2. Its log still has the rest: purged ⊆ position.
3. What its log brings comes after what has passed. A position is a set, and the server leaves its members out of the
   log. Suppose that a client wrote E on a replica while that was only a replica (an *errant* transaction). T of the
   primary changed the same row, came after E there, and has passed here. For the rest of this position the replica
   sends E alone, and the row is as it was before T. Sets can't show that: E is new, like what a primary wrote after it
   had taken over. The order of the log can: after the rightful writes of the new primary, its log has nothing of the
   position (`TransactionOrder`).
4. The names mean the same. A server that was restored from a copy, or has lost the end of its log, uses them again for
   other transactions (`pipeline.gtid.witness`).
5. It has applied all of it. A replica that leaves out changes by a filter has executed their transactions all the same.
   So of several servers none may have such a filter of a captured table: its rows wouldn't be those of the others.
   The same holds for another server at the one address that there is.
6. Its log has the names of the tables. A server that folds them to lower case calls a table `orders` that another one
   calls `Orders`. That would be another table here, and the changes of `Orders` would be lost (`folded_names`).

Condition 3 looks only at transactions of the server itself, and of servers of which nothing has passed here. Two
servers may log other transactions in different orders rightfully. In a group, or with several sources, transactions of
different rows may be in either order. That leaves one case out: an errant transaction that came by way of a third
server, which was the primary at another time.

With 1 to 6 the stream continues at the new server as it would have continued at the old one. The rows at the position
are those of the new server's history there, and each later change comes once and in order. Sealed parts of a snapshot
remain valid: a chunk's rows were the source's at their position in the stream, and both histories have that position.
An open window is gone with its capture. Its watermarks are positions in the old server's log, and the new server
needn't have been at its low one. All of its chunk is read again, with watermarks of the server that the stream then
comes from. A replica that applies in parallel commits in the primary's order (`replica_preserve_commit_order`, which
`pipeline.source.prerequisites` requires). So its executed set has no gap that a SELECT could see. A position with a gap
is compared as the set that it is.

Source: MySQL 9.7 Reference Manual, "GTID Auto-Positioning", "Replication and Transaction Inconsistencies".
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, assert_never

import numpy as np
import numpy.typing as npt

from pipeline.config.settings import SnapshotMode
from pipeline.errors import NEW_JOURNAL, Definite
from pipeline.gtid.gtid_set import NO_GTIDS, GtidSet
from pipeline.gtid.transactions import Transactions
from pipeline.schema.table_schema import TableId

# For so long a position may be ahead of a server's executed set, in seconds: a transaction is in the log before it
# commits.
COMMITTING_S: Final = 5.0

# Where no server can continue, one that still might is waited for, until nothing has changed for so long, in seconds.
CATCH_UP_S: Final = 60.0

PURGED: Final = (
    "the binlog that we need was purged: {missing}; restore it on the source and keep it for longer, or set "
    'snapshot.mode = "when_needed" to begin again with a snapshot of every table'
)

WITHOUT_GTID: Final = (
    "a change without a GTID was committed, and a log that is read by GTIDs doesn't bring it: {told}; set "
    'snapshot.mode = "when_needed" to begin again with a snapshot of every table'
)

ERRANT: Final = (
    "transactions were written on it while it was a replica; {errant} are in its log before others that have passed "
    f"here, and would come too late, over newer changes; to continue at it, {NEW_JOURNAL}"
)

FOLDED: Final = (
    "lower_case_table_names is another one here: {table} is called {name}, so that its changes would be another "
    f"table's; to continue at it, {NEW_JOURNAL}"
)


class NoServer(Definite):
    """None of the servers can continue the log; the message says of each why not."""


@dataclass(frozen=True, slots=True)
class ServerHistory:
    """What a server, which calls itself `server`, has executed, and what of that its log doesn't have any more.

    `replica`: whether it replicates from another one. `owned`: what its sessions are executing now.
    """

    server: str
    executed: GtidSet
    purged: GtidSet
    replica: bool
    owned: GtidSet = NO_GTIDS


@dataclass(frozen=True, slots=True)
class CanContinue:
    """Its log can be read on. `doubtful`: what it will bring that may have been written on a replica."""

    server: str
    doubtful: GtidSet = NO_GTIDS


@dataclass(frozen=True, slots=True)
class Behind:
    """It hasn't executed all that has passed here; a replica may yet."""

    server: str
    missing: GtidSet
    replica: bool


@dataclass(frozen=True, slots=True)
class StillCommitting:
    """It's about to have executed all that has passed here: it's committing `missing`."""

    server: str
    missing: GtidSet


@dataclass(frozen=True, slots=True)
class Purged:
    """Its log doesn't go back to the position."""

    server: str
    missing: GtidSet


@dataclass(frozen=True, slots=True)
class Unreachable:
    """The server doesn't answer now."""

    why: str


@dataclass(frozen=True, slots=True)
class Refused:
    """It's of no use, and waiting won't help."""

    why: str


CandidateVerdict = CanContinue | Behind | StillCommitting | Purged | Unreachable | Refused


def _server_of(verdict: CandidateVerdict) -> str | None:
    """What the server calls itself, as far as that was found."""
    match verdict:
        case CanContinue(server) | Behind(server) | StillCommitting(server) | Purged(server):
            return server
        case Unreachable() | Refused():
            return None
        case _:
            assert_never(verdict)


def candidate_verdict(position: GtidSet, history: ServerHistory, last: str) -> CandidateVerdict:
    """Whether the log can be read on from the position at a server; `last`: the one that the position comes from."""
    if missing := position - history.executed:
        if missing <= history.owned:
            return StillCommitting(history.server, missing)
        return Behind(history.server, missing, history.replica)
    if missing := history.purged - position:
        return Purged(history.server, missing)
    if history.server == last or not last:
        return CanContinue(history.server)
    known = {source.uuid for source in position.intervals} - {history.server}
    behind = history.executed - position
    doubtful = {source: numbers for source, numbers in behind.intervals.items() if source.uuid not in known}
    return CanContinue(history.server, GtidSet(doubtful))


def explain_verdict(verdict: CandidateVerdict) -> str:
    """Returns why a server can't continue the log, and what to do."""
    match verdict:
        case CanContinue():
            return "it qualifies"
        case Behind(_, missing, replica=True):
            return f"it lags: it hasn't executed {missing}, which has passed here; let it catch up"
        case Behind(_, missing):
            return (
                f"the source is a divergent server: it hasn't executed {missing}, which has passed here; "
                f"connect to the server that has, or, if this one was reset or replaced, {NEW_JOURNAL}"
            )
        case StillCommitting(_, missing):
            return (
                f"the source is still committing {missing}, which has passed here; if it waits for a replica's "
                "acknowledgement (semi-synchronous replication), let a replica connect"
            )
        case Purged(_, missing):
            return PURGED.format(missing=missing)
        case Unreachable(why) | Refused(why):
            return why
        case _:
            assert_never(verdict)


@dataclass(frozen=True, slots=True)
class ContinueAt:
    """Continue at this one, by its place in the list."""

    index: int


@dataclass(frozen=True, slots=True)
class WaitForServers:
    """Look again in a moment."""


@dataclass(frozen=True, slots=True)
class NoneServes:
    """None of them will do, and none ever will."""


@dataclass(frozen=True, slots=True)
class NoneServesYet:
    """None of them will do now, but one will later, and when is unknown."""


Decision = ContinueAt | WaitForServers | NoneServes | NoneServesYet


def choose_server(
    verdicts: Sequence[CandidateVerdict],
    at: int | None,
    waited_s: float,
    stood_s: float,
    failover_after_s: float,
    mode: SnapshotMode,
) -> Decision:
    """What to do with these servers, in the list's order.

    `at`: the one that we're at. `waited_s`: for how long it's been looked for; `stood_s`: for how long none of them has
    got any nearer. Another one is taken once this one is out of reach for `failover_after_s`.
    """
    if at is not None:
        if isinstance(verdicts[at], CanContinue):
            return ContinueAt(at)
        if waited_s < _grace_s(verdicts[at], failover_after_s):
            return WaitForServers()
    for index, verdict in enumerate(verdicts):
        if isinstance(verdict, CanContinue):
            return ContinueAt(index)
    if stood_s < max(_worth_s(verdict) for verdict in verdicts):
        return WaitForServers()
    if any(isinstance(verdict, StillCommitting) for verdict in verdicts):
        return NoneServesYet()
    if mode is SnapshotMode.WHEN_NEEDED:
        for index, verdict in enumerate(verdicts):
            if isinstance(verdict, Purged):
                return ContinueAt(index)
    return NoneServes()


def last_server(verdicts: Sequence[CandidateVerdict], last: str) -> int | None:
    """Which of them is the server that the position comes from, or may be; None if none is.

    One that can't be reached may be. `last` is empty if it isn't known: then it's the first of the list.
    """
    if not last:
        return 0
    servers = list(map(_server_of, verdicts))
    unknown = (index for index, verdict in enumerate(verdicts) if isinstance(verdict, Unreachable))
    return servers.index(last) if last in servers else next(unknown, None)


def _grace_s(verdict: CandidateVerdict, failover_after_s: float) -> float:
    """How long another one isn't taken, in case that this one comes to serve."""
    match verdict:
        case Unreachable():
            return failover_after_s
        case Behind() | StillCommitting():
            return COMMITTING_S
        case CanContinue() | Purged() | Refused():
            return 0.0
        case _:
            assert_never(verdict)


def _worth_s(verdict: CandidateVerdict) -> float:
    """How long this one is waited for where none serves."""
    match verdict:
        case Unreachable() | Behind(replica=True):
            return CATCH_UP_S
        case Behind() | StillCommitting():
            return COMMITTING_S
        case CanContinue() | Purged() | Refused():
            return 0.0
        case _:
            assert_never(verdict)


def folded_names(captured: Iterable[TableId], shown: Collection[TableId]) -> str | None:
    """Returns why captured tables have other names at a server that folds names, and shows these; None if none has."""
    by_fold = {(table.database.lower(), table.name.lower()): table for table in shown}
    for table in captured:
        other = by_fold.get((table.database.lower(), table.name.lower()))
        if other is not None and table not in shown:
            return FOLDED.format(table=table, name=other)
    return None


@dataclass(frozen=True, slots=True)
class TransactionOrder:
    """The order in which a server's log, read up to some position, has the doubtful transactions.

    `ahead`: of the position, what is still to come there. `open`: doubtful ones that have come, and after which nothing
    of the position has come. `errant`: those after which something of it has.
    """

    doubtful: GtidSet
    ahead: GtidSet
    open: GtidSet = NO_GTIDS
    errant: GtidSet = NO_GTIDS

    def followed_by(self, transactions: Transactions) -> "TransactionOrder":
        """Returns the order after these transactions, which come next in the log."""
        passed = np.flatnonzero(~transactions.not_in(self.ahead))
        doubtful = np.flatnonzero(~transactions.not_in(self.doubtful))
        if not passed.size:
            return replace(self, open=self.open | _of(transactions, doubtful))
        return TransactionOrder(
            self.doubtful,
            self.ahead - _of(transactions, passed),
            _of(transactions, doubtful[doubtful > passed[-1]]),
            self.errant | self.open | _of(transactions, doubtful[doubtful < passed[-1]]),
        )


def _of(transactions: Transactions, indices: npt.NDArray[np.intp]) -> GtidSet:
    """These of the transactions, as a set."""
    gtids = NO_GTIDS
    for index, source in enumerate(transactions.sources):
        gtids = gtids.with_numbers(
            source, transactions.number[indices[transactions.source[indices] == index]]
        )
    return gtids
