"""Witnesses: the last transactions that have passed. They identify a server's history.

A position is a set of names. A server that was reset, restored from a copy, or that lost the end of its log uses the
same names again for other transactions. It has then executed everything that the position names, and still its rows
differ. A lost end of a log always includes the last transaction that was read from it. So Tidemark keeps the last
transaction of each source with its commit times, in µs, sealed with the position. It continues to read a server's log
only if the transaction of that name there has the same times (`actors.source.witnesses`).

**Which times.** Since MySQL 8.0.1 the log has two of them: when this server committed the transaction, and when its
first server did. The second one is the same on each server, and in a log that was replayed from a backup. So it's
compared if both sides know it. Otherwise the first one is compared, at the server that reported it. An older server's
log has only that, in whole seconds. The logs of other old servers prove nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from pipeline.errors import NEW_JOURNAL
from pipeline.gtid.gtid_set import Gtid
from pipeline.gtid.transactions import Transactions

# The most sources whose last transaction is kept: those of which one passed last. A replica set has few.
MOST_SOURCES: Final = 16

ANOTHER_HISTORY: Final = (
    "the source has another history: {gtid}, which has passed here, was committed at {ours}, and {theirs}; it was "
    "reset, or restored from a copy, or has lost the end of its log, and has given the same names again. "
    f"Connect to a server that has the one that passed here, or {NEW_JOURNAL}; "
    'snapshot.mode = "when_needed" begins again only where a log was purged'
)


@dataclass(frozen=True, slots=True)
class Witness:
    """A transaction that has passed: when the server from which it was read committed it, and when its first one did.

    `original_time` is 0 if the log doesn't have it.
    """

    gtid: Gtid
    commit_time: int
    original_time: int

    def differs(self, other: "Witness", same_server: bool) -> bool:
        """Whether the transaction of that name that a server has is surely another one."""
        if self.original_time and other.original_time:
            return self.original_time != other.original_time
        return same_server and self.commit_time != other.commit_time

    def contradicted(self, other: "Witness") -> str:
        """Returns the reason to refuse a server that has the other transaction."""
        times = self.original_time and other.original_time
        ours, theirs = (each.original_time if times else each.commit_time for each in (self, other))
        told = f"its transaction of that name at {_time_text(theirs)}"
        return ANOTHER_HISTORY.format(gtid=self.gtid, ours=_time_text(ours), theirs=told)

    def unmatched(self) -> str:
        """Returns the reason to refuse a server in whose log no transaction begins at this place, without GTIDs."""
        told = "no transaction begins at that place of its log"
        return ANOTHER_HISTORY.format(gtid=self.gtid, ours=_time_text(self.commit_time), theirs=told)


Witnesses = tuple[Witness, ...]  # the one that passed last comes last


def add_transactions(before: Witnesses, transactions: Transactions) -> Witnesses:
    """The witnesses once these transactions have passed."""
    last = sorted(
        int(np.flatnonzero(transactions.source == index)[-1]) for index in np.unique(transactions.source)
    )
    new = [
        Witness(transactions.gtid(i), int(transactions.commit_time[i]), int(transactions.original_time[i]))
        for i in last
    ]
    return with_witnesses(before, new)


def with_witnesses(before: Witnesses, new: Sequence[Witness]) -> Witnesses:
    """The witnesses with these ones, of different sources, in the place of those of the same sources."""
    met = {each.gtid.source for each in new}
    return (*(each for each in before if each.gtid.source not in met), *new)[-MOST_SOURCES:]


def to_json(witness: Witness) -> list[Any]:
    """A witness as plain JSON values."""
    return [str(witness.gtid), witness.commit_time, witness.original_time]


def from_json(value: list[Any]) -> Witness:
    """The witness that `to_json` wrote."""
    gtid, commit_time, original_time = value
    return Witness(Gtid.parse(gtid), commit_time, original_time)


def _time_text(time: int) -> str:
    return f"{np.datetime64(time, 'us')} UTC"
