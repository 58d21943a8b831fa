"""Answers whether transactions have been applied, as soon as that can be said.

A transaction is applied through a consumer if three things hold. (1) It is in the position of a sealed segment. (2) The
consumer has everything through such a segment for these tables. (3) Their readers see all of it. Each of the three is
known from the progress that the journal and the consumers report.

While a snapshot fills a table, its topic has the changes since that began, and so has its changelog if it has no
mirror. What was committed before comes with the snapshot: capture may have missed it, as after a stop. A position tells
the two apart: the one from which capture begins with the snapshot, else the first one of the journal that has it. So
those that come shortly after a snapshot has begun amid the stream wait for it, too.

Each waiter lacks something: a transaction in the journal's position, one in the consumer's position, or something of a
table. It waits for one such thing alone. A progress finds the waiters for what has come, and looks at these alone. Each
of them is answered, or waits for the next thing that it lacks. So a waiter costs nothing until what it waits for has
come, however many there are.

**What can't come.** A table that isn't captured, that the source doesn't have, or that was stopped, never gets the
change. A transaction that the source hasn't executed may have been made up. If the source is a replica, it may still
receive the transaction, so the waiter waits. A server without GTIDs has no names for transactions.

**All tables** are those that the configuration captures. One that it leaves out has stopped, and only who names it is
refused. So a stopped table that somebody doesn't want any more, or that the source doesn't have any more, refuses no
other waiter once the configuration leaves it out.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Final

from pipeline.gtid import file_positions
from pipeline.gtid.gtid_set import Gtid, GtidSet
from pipeline.journal.applied.gtid_index import GtidIndex, first_lacked
from pipeline.journal.applied.progress import (
    ConsumerProgress,
    JournalProgress,
    SegmentEnd,
    TableProgress,
    Through,
)
from pipeline.journal.applied.query import Answer, Applied, AppliedQuery, NeverApplied, NotYetApplied
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import TableId
from pipeline.snapshot.checkpoint import Checkpoint, Filling

# An answer has the reasons of so many stopped tables.
_MOST_REASONS: Final = 3

_NO_GTIDS: Final = (
    "the source has no GTIDs, so that transactions have no names to wait for; set gtid_mode = ON on it"
)
_SNAPSHOT: Final = "its snapshot is being read, which has what was committed before it"
_NAME_TABLES: Final = (
    "name the tables that you mean: in the request with `tables`, on the command line with --tables"
)
_UNKNOWN: Final = "nothing is known of the journal yet: capture is starting"


@dataclass(frozen=True, slots=True)
class LackedGtid:
    """A transaction isn't in the position of the journal, or of another consumer."""

    through: Through
    gtid: Gtid


@dataclass(frozen=True, slots=True)
class LackedOfTable:
    """A consumer's table lacks something, for this reason."""

    through: Through
    table: TableId
    reason: str


@dataclass(frozen=True, slots=True)
class LackedBeginning:
    """Nothing is known yet of how far the journal is."""


Lacked = LackedGtid | LackedOfTable | LackedBeginning


@dataclass(frozen=True, slots=True)
class _Generation:
    """A table's mirror begins empty at this SCN, and before all transactions that aren't in the position."""

    since: int
    position: GtidSet


@dataclass(slots=True)
class _Waiter:
    """`scn`: one by which the stream has all that is waited for, once that is known."""

    query: AppliedQuery
    lacks: Lacked
    scn: int | None = None


class Waiters:
    """Those who wait, by numbers that the caller gives them. Each answer is returned once, by the call that finds it.

    `captured`: the tables that the configuration names.
    """

    def __init__(self, captured: TableFilter) -> None:
        self._captured = lru_cache(maxsize=4096)(captured.match)
        self._journal: JournalProgress | None = None
        self._left_out: frozenset[TableId] = frozenset()
        self._filling: dict[TableId, _Generation] = {}
        self._progress: dict[Through, ConsumerProgress] = {}
        self._executed = GtidSet()
        self._waiters: dict[int, _Waiter] = {}
        self._by_gtid = {through: GtidIndex() for through in Through}
        self._by_table: dict[tuple[Through, TableId], set[int]] = {}
        self._progress_seen: dict[tuple[Through, TableId], TableProgress] = {}
        self._unbegun: set[int] = set()

    def __len__(self) -> int:
        return len(self._waiters)

    def ask(self, waiter: int, query: AppliedQuery) -> Answer | None:
        """The answer, if it's known by now; else the waiter waits for it."""
        waiting = _Waiter(query, LackedBeginning())
        found = self._answer_or_lack(waiting)
        if isinstance(found, Applied | NeverApplied):
            return found
        self._waiters[waiter] = waiting
        self._wait_for(waiter, waiting, found)
        return None

    def withdraw(self, waiter: int) -> NotYetApplied:
        """Lets a waiter wait no more; how far it has come."""
        waiting = self._waiters.pop(waiter)
        self._stop_waiting_for(waiter, waiting.lacks)
        return self._not_yet(waiting)

    def unconfirmed(self, gtid_set: GtidSet) -> bool:
        """Whether the source has to be asked if it has executed these."""
        known = self._executed if self._journal is None else self._executed | self._journal.whole.position
        return not gtid_set <= known

    def capture_begins(
        self, sealed: JournalProgress | None, checkpoint: Checkpoint
    ) -> list[tuple[int, Answer]]:
        """The answers that follow from the last sealed segment, if there's one; capture begins with a checkpoint."""
        answers = [] if sealed is None else self.journal_progressed(sealed)
        there = {} if sealed is None else sealed.checkpoint.mirrors
        for table, mirror in checkpoint.mirrors.items():
            if isinstance(mirror, Filling) and there.get(table) != mirror:
                self._filling[table] = _Generation(mirror.since, checkpoint.position)
        return answers

    def journal_progressed(self, progress: JournalProgress) -> list[tuple[int, Answer]]:
        """The answers that follow from a newly sealed segment."""
        self._filling = self._generations(progress)
        self._left_out = self._stopped_by_configuration(progress)
        self._journal = progress
        unbegun, self._unbegun = self._unbegun, set()
        return self._answer_woken([*unbegun, *self._wake(Through.JOURNAL, progress)])

    def consumer_reached(self, through: Through, progress: ConsumerProgress) -> list[tuple[int, Answer]]:
        """The answers that follow from what a consumer has delivered."""
        self._progress[through] = progress
        return self._answer_woken(self._wake(through, progress))

    def lack(self, executed: GtidSet, waiters: Iterable[int]) -> bool:
        """Whether any of these waits for a transaction that isn't among these."""
        waiting = (self._waiters.get(waiter) for waiter in waiters)
        return any(each is not None and not each.query.gtid_set <= executed for each in waiting)

    def executed_found(
        self, executed: GtidSet, waiters: Iterable[int], *, replica: bool
    ) -> list[tuple[int, Answer]]:
        """The answers to those of these waiters that wait for what the source hasn't executed.

        The source was asked after they had begun to wait. `replica`: whether it's one, which may still receive more.
        """
        self._executed = self._executed | executed
        answers: list[tuple[int, Answer]] = []
        for waiter in waiters if not replica else ():
            if (waiting := self._waiters.get(waiter)) is None:
                continue
            if missing := waiting.query.gtid_set - executed:
                self._stop_waiting_for(waiter, self._waiters.pop(waiter).lacks)
                answers.append((waiter, NeverApplied(f"the source hasn't executed {missing.on_one_line}")))
        return answers

    def _generations(self, progress: JournalProgress) -> dict[TableId, _Generation]:
        """The mirrors that are being filled by now."""
        before, checkpoint = self._journal, progress.checkpoint
        if before is not None and before.checkpoint.mirrors is checkpoint.mirrors:
            return self._filling
        began = {
            table: _Generation(mirror.since, checkpoint.position)
            for table, mirror in checkpoint.mirrors.items()
            if isinstance(mirror, Filling)
        }
        for table, known in self._filling.items():
            if table in began and began[table].since == known.since:
                began[table] = known
        return began

    def _stopped_by_configuration(self, progress: JournalProgress) -> frozenset[TableId]:
        """The stopped tables that the configuration leaves out."""
        before, stopped = self._journal, progress.checkpoint.stopped
        if before is not None and before.checkpoint.stopped is stopped:
            return self._left_out
        return frozenset(table for table in stopped if not self._captured(table))

    def _wake(self, through: Through, progress: ConsumerProgress) -> list[int]:
        """The waiters for what has come with this progress, which wait for nothing now."""
        woken = self._by_gtid[through].advance(progress.furthest.position)
        for key in [key for key in self._by_table if key[0] is through]:
            if self._progress_seen[key] != progress.of(key[1]):
                woken += self._by_table.pop(key)
                del self._progress_seen[key]
        return woken

    def _answer_woken(self, woken: Iterable[int]) -> list[tuple[int, Answer]]:
        """The answers to the woken waiters; those without one wait for the next thing that they lack."""
        answers: list[tuple[int, Answer]] = []
        for waiter in woken:
            waiting = self._waiters[waiter]
            found = self._answer_or_lack(waiting)
            if isinstance(found, Applied | NeverApplied):
                del self._waiters[waiter]
                answers.append((waiter, found))
            else:
                self._wait_for(waiter, waiting, found)
        return answers

    def _wait_for(self, waiter: int, waiting: _Waiter, lacks: Lacked) -> None:
        waiting.lacks = lacks
        match lacks:
            case LackedGtid(through, gtid):
                self._by_gtid[through].add(gtid, waiter)
            case LackedOfTable(through, table):
                key = through, table
                self._by_table.setdefault(key, set()).add(waiter)
                self._progress_seen[key] = self._progress[through].of(table)
            case LackedBeginning():
                self._unbegun.add(waiter)

    def _stop_waiting_for(self, waiter: int, lacks: Lacked) -> None:
        match lacks:
            case LackedGtid(through, gtid):
                self._by_gtid[through].remove(gtid, waiter)
            case LackedOfTable(through, table):
                key = through, table
                self._by_table[key].discard(waiter)
                if not self._by_table[key]:
                    del self._by_table[key], self._progress_seen[key]
            case LackedBeginning():
                self._unbegun.discard(waiter)

    def _answer_or_lack(self, waiting: _Waiter) -> Answer | Lacked:
        """The answer, or the first thing that is lacked."""
        query, journal = waiting.query, self._journal
        if journal is None:
            return LackedBeginning()
        if reason := self._refusal(query, journal):
            return NeverApplied(reason)
        if not query.gtid_set <= journal.whole.position:
            return LackedGtid(Through.JOURNAL, first_lacked(query.gtid_set - journal.whole.position))
        if waiting.scn is None:
            waiting.scn = journal.whole.scn
        tables = query.tables
        if tables is None:
            tables = frozenset(journal.checkpoint.schemas.keys() - self._left_out)
        elif absent := sorted(tables - journal.checkpoint.schemas.keys()):
            return NeverApplied(f"the source has no table {absent[0]}, as of the last sealed segment")
        if query.through is Through.JOURNAL:
            return Applied(journal.whole)
        return self._answer_of_consumer(query, tables, waiting)

    def _refusal(self, query: AppliedQuery, journal: JournalProgress) -> str | None:
        """Why it can't come by what the journal and the configuration say."""
        if file_positions.server_of(journal.whole.position) is not None:
            return _NO_GTIDS
        for table in sorted(query.tables or ()):
            if not self._captured(table):
                return f"{table} isn't captured: `tables` in the configuration leaves it out"
        stopped = journal.checkpoint.stopped
        wanted = stopped.keys() - self._left_out if query.tables is None else stopped.keys() & query.tables
        return _stop_reasons(query, {table: stopped[table] for table in sorted(wanted)})

    def _answer_of_consumer(
        self, query: AppliedQuery, tables: frozenset[TableId], waiting: _Waiter
    ) -> Answer | Lacked:
        through, wanted = query.through, query.gtid_set
        progress = self._progress.get(through)
        furthest = GtidSet() if progress is None else progress.furthest.position
        if not wanted <= furthest:
            return LackedGtid(through, first_lacked(wanted - furthest))
        assert progress is not None
        assert waiting.scn is not None
        taken = {table for table in tables if progress.takes(table)}
        if query.tables is not None and (left := sorted(tables - taken)):
            return NeverApplied(f"{left[0]} isn't delivered: `{through}.tables` leaves it out")
        told = {table: progress.of(table) for table in sorted(taken)}
        stopped = {table: each.stopped for table, each in told.items() if each.stopped is not None}
        if refusal := _stop_reasons(query, stopped):
            return NeverApplied(refusal)
        for table, each in told.items():
            reason = _lack_of_table(each, wanted, waiting.scn) or self._lack_of_snapshot(table, each, wanted)
            if reason is not None:
                return LackedOfTable(through, table, reason)
        reached = min((each.reached for each in told.values()), key=_segment, default=progress.whole)
        return Applied(reached, {table: each.read_at for table, each in told.items()})

    def _lack_of_snapshot(self, table: TableId, told: TableProgress, wanted: GtidSet) -> str | None:
        """Why readers may not see those of the transactions that came before the table's snapshot."""
        if told.filling is None:
            return None
        known = self._filling.get(table)
        if known is not None and known.since == told.filling and not wanted & known.position:
            return None
        return _SNAPSHOT

    def _not_yet(self, waiting: _Waiter) -> NotYetApplied:
        query, lacks = waiting.query, waiting.lacks
        progress: Mapping[Through, ConsumerProgress] = self._progress
        if self._journal is not None:
            progress = {**progress, Through.JOURNAL: self._journal}
        if query.through not in progress:
            reason = _UNKNOWN if self._journal is None else f"nothing is known of the {query.through} yet"
            return NotYetApplied(SegmentEnd(), query.gtid_set, reason)
        reached = progress[query.through].whole
        missing = query.gtid_set - reached.position
        match lacks:
            case LackedOfTable(table=table, reason=reason):
                return NotYetApplied(reached, missing, f"{table}: {reason}")
            case LackedGtid(through, gtid):
                return NotYetApplied(reached, missing, f"the {through} hasn't reached {gtid}")
            case LackedBeginning():
                return NotYetApplied(reached, missing, _UNKNOWN)


def _lack_of_table(told: TableProgress, wanted: GtidSet, scn: int) -> str | None:
    """What a table lacks of these transactions."""
    if not wanted <= told.reached.position:
        return "its part of the batch is being delivered"
    if told.lacks is not None:
        return told.lacks
    if told.unread is not None and told.unread < scn:
        return "rows that the log had in part are being read again"
    return None


def _stop_reasons(query: AppliedQuery, stopped: Mapping[TableId, str]) -> str | None:
    """Why tables were stopped, None if none was."""
    if not stopped:
        return None
    told = [f"{table} was stopped: {reason}" for table, reason in islice(stopped.items(), _MOST_REASONS)]
    if len(stopped) > _MOST_REASONS:
        told.append(f"{len(stopped) - _MOST_REASONS} more were stopped")
    if query.tables is None:
        told.append(_NAME_TABLES)
    return "; ".join(told)


def _segment(reached: SegmentEnd) -> int:
    return reached.segment
